"""Append-only stores of events. The state of an experiment is computed from its
events."""

from oddsmith.server.store.events import (
    Action,
    Activation,
    ConfigurationChange,
    Correction,
    DecisionMade,
    DefaultReward,
    Event,
    ExpertChange,
    MetricAmount,
    MetricCorrection,
    Reward,
)
from oddsmith.server.store.place import open_reader
from oddsmith.server.store.postgres.reader import PostgresReader
from oddsmith.server.store.postgres.store import PostgresStore
from oddsmith.server.store.protocol import (
    Evidence,
    Line,
    Reading,
    Receipt,
    Snapshot,
    Store,
    Window,
)
from oddsmith.server.store.sqlite.reader import SQLiteReader
from oddsmith.server.store.sqlite.store import SQLiteStore

__all__ = [
    "Action",
    "Activation",
    "ConfigurationChange",
    "Correction",
    "DecisionMade",
    "DefaultReward",
    "Event",
    "Evidence",
    "ExpertChange",
    "Line",
    "MetricAmount",
    "MetricCorrection",
    "PostgresReader",
    "PostgresStore",
    "Reading",
    "Receipt",
    "Reward",
    "SQLiteReader",
    "SQLiteStore",
    "Snapshot",
    "Store",
    "Window",
    "open_reader",
]
