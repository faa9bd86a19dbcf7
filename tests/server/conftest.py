"""Stores to test, commands of keys as they are typed, and the two kinds of arms."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import oddsmith as od
from oddsmith.cli.main import main
from oddsmith.server.store import PostgresStore, SQLiteStore
from oddsmith.server.store.events import Event
from oddsmith.server.store.protocol import Late, Rule
from oddsmith.server.store.sqlite.open_stores import OpenStores
from oddsmith.server.store.sqlite.rest import RestingStore
from server.offering import Kind, bringing
from server.store.postgres_server import Server


@pytest.fixture
def sqlite(tmp_path: Path) -> Callable[[od.Policy, Rule, Late], SQLiteStore]:
    return lambda judge, rule, late: SQLiteStore(
        tmp_path / "events.sqlite", judge, rule=rule, late=late
    )


class Dozing(RestingStore):
    """A store that rests before each call."""

    def _end_move(self, inner: SQLiteStore | None, users: int = 0) -> None:
        super()._end_move(inner, users)
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
    return lambda judge, rule, late: Dozing(
        path, partial(SQLiteStore, path, judge, rule=rule, late=late), OpenStores()
    )


@pytest.fixture
def postgres(
    server: Server, experiment: str
) -> Callable[[od.Policy, Rule, Late], PostgresStore]:
    return lambda judge, rule, late: PostgresStore(
        server.url(), judge, experiment=experiment, rule=rule, late=late
    )


Said = Callable[..., str]


@pytest.fixture
def said(tmp_path: Path, monkeypatch: Any, capsys: Any) -> Said:
    """What `oddsmith keys WORDS` prints in a folder of its own: its answer, or what is
    wrong where `code` is not 0."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ODDSMITH_KEYS", raising=False)

    def run(*words: str, code: int = 0) -> str:
        assert main(["keys", *words]) == code
        out = capsys.readouterr()
        return str(out.err if code else out.out)

    return run


@pytest.fixture(params=["fixed", "same"])
def arms(request: pytest.FixtureRequest) -> Iterator[Kind]:
    """Arms that the policy file fixes; the same ones in every call."""
    with bringing(request.param):
        yield request.param


@pytest.fixture(params=["fixed", "changing"])
def any_arms(request: pytest.FixtureRequest) -> Iterator[Kind]:
    """Arms that the policy file fixes; others from call to call."""
    with bringing(request.param):
        yield request.param


@pytest.fixture
def arms_of_calls() -> Iterator[None]:
    """Others from call to call."""
    with bringing("changing"):
        yield
