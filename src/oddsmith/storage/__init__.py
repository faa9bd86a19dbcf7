"""Events that survive: an append-only store, and the state as a fold over it."""

from oddsmith.storage.base import Line, Receipt, Snapshot, Store
from oddsmith.storage.events import (
    Activation,
    Correction,
    DecisionMade,
    DefaultReward,
    Event,
    ExpertChange,
    Reward,
)
from oddsmith.storage.folding import Folded, advance, restore, save_snapshot
from oddsmith.storage.sqlite import SQLiteStore

__all__ = [
    "Activation",
    "Correction",
    "DecisionMade",
    "DefaultReward",
    "Event",
    "ExpertChange",
    "Folded",
    "Line",
    "Receipt",
    "Reward",
    "SQLiteStore",
    "Snapshot",
    "Store",
    "advance",
    "restore",
    "save_snapshot",
]
