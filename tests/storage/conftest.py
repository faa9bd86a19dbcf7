"""Stores to test: one fixture each, which gives a function that opens the store of this test."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import oddsmith as od
from oddsmith.storage import PostgresStore, SQLiteStore
from oddsmith.storage.base import Late, Rule
from oddsmith.storage.events import Event
from oddsmith.storage.sqlite.open_stores import OpenStores
from oddsmith.storage.sqlite.resting import RestingStore
from storage.server import Server


@pytest.fixture
def sqlite(tmp_path: Path) -> Callable[[od.Policy, Rule, Late], SQLiteStore]:
    return lambda judge, rule, late: SQLiteStore(tmp_path / "events.sqlite", judge, rule=rule, late=late)


class Dozing(RestingStore):
    """A store that rests before each call."""

    def _moved(self, inner: SQLiteStore | None, users: int = 0) -> None:
        super()._moved(inner, users)
        self.append = self._append

    def _append(self, events: Sequence[Event]) -> Any:
        self.rest()
        return self.append_later(events)

    @contextmanager
    def awake(self) -> Iterator[SQLiteStore]:
        self.rest()
        with super().awake() as inner:
            yield inner


@pytest.fixture
def resting(tmp_path: Path) -> Callable[[od.Policy, Rule, Late], RestingStore]:
    path = tmp_path / "events.sqlite"
    return lambda judge, rule, late: Dozing(path, partial(SQLiteStore, path, judge, rule=rule, late=late), OpenStores())


@pytest.fixture
def postgres(server: Server, experiment: str) -> Callable[[od.Policy, Rule, Late], PostgresStore]:
    return lambda judge, rule, late: PostgresStore(server.url(), judge, experiment=experiment, rule=rule, late=late)
