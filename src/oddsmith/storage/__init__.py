"""Events that survive: an append-only store, and the state as a fold over it."""

from oddsmith.storage.base import Evidence, Line, Reading, Receipt, Snapshot, Store, Window
from oddsmith.storage.events import (
    Activation,
    ConfigurationChange,
    Correction,
    DecisionMade,
    DefaultReward,
    Event,
    ExpertChange,
    Reward,
)
from oddsmith.storage.folding import Folded, advance, restore, roster_change, save_snapshot
from oddsmith.storage.opening import open_reader
from oddsmith.storage.postgres.reading import PostgresReader
from oddsmith.storage.postgres.store import PostgresStore
from oddsmith.storage.sqlite.reading import SQLiteReader
from oddsmith.storage.sqlite.store import SQLiteStore

__all__ = [
    "Activation",
    "ConfigurationChange",
    "Correction",
    "DecisionMade",
    "DefaultReward",
    "Event",
    "Evidence",
    "ExpertChange",
    "Folded",
]
__all__ += ["Line", "PostgresReader", "PostgresStore", "Reading", "Receipt", "Reward", "SQLiteReader", "SQLiteStore"]
__all__ += ["Snapshot", "Store", "Window", "advance", "open_reader", "restore", "roster_change", "save_snapshot"]
