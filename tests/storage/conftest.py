"""Stores to test: one fixture each, which gives a function that opens the store of this test."""

from collections.abc import Callable
from pathlib import Path

import pytest

import oddsmith as od
from oddsmith.storage import PostgresStore, SQLiteStore
from oddsmith.storage.base import Late, Rule
from storage.server import Server


@pytest.fixture
def sqlite(tmp_path: Path) -> Callable[[od.Policy, Rule, Late], SQLiteStore]:
    return lambda judge, rule, late: SQLiteStore(tmp_path / "events.sqlite", judge, rule=rule, late=late)


@pytest.fixture
def postgres(server: Server, experiment: str) -> Callable[[od.Policy, Rule, Late], PostgresStore]:
    return lambda judge, rule, late: PostgresStore(server.url(), judge, experiment=experiment, rule=rule, late=late)
