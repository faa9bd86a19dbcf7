"""Backups of a store that is written to meanwhile: they end, hold one moment, and
writers do not notice."""

import asyncio
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from oddsmith.server.store import (
    PostgresStore,
    Reward,
    SQLiteReader,
    SQLiteStore,
    Store,
)
from oddsmith.server.store.backup import back_up
from oddsmith.server.store.sqlite import copy as copying
from server.served import wait
from server.store.postgres_server import Server
from server.store.samples import append, made
from server.store.test_backup import alone, live, source

__all__ = ["source"]


class Writers:
    """Threads that append decisions and rewards until they are told to stop; nothing
    may fail."""

    def __init__(self, store: Store) -> None:
        self.answered, self.wrong = 0, list[BaseException]()
        self._store, self._stop = store, threading.Event()
        self._threads = [
            threading.Thread(target=self._work, args=(i,)) for i in range(4)
        ]

    def __enter__(self) -> "Writers":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def go_on(self) -> None:
        """Until something more was answered."""
        before = self.answered
        wait(lambda: self.answered > before or self.wrong)

    def _work(self, name: int) -> None:
        event, i = made("w"), 0
        try:
            while not self._stop.is_set():
                i += 1
                append(
                    self._store,
                    replace(event, id=f"{name}-{i}"),
                    Reward(f"{name}-{i}", i % 2, 0.0),
                )
                self.answered += 2
        except BaseException as error:
            self.wrong.append(error)


def test_backups_while_it_is_written_to(
    source: tuple[str, Store], tmp_path: Path, experiment: str
) -> None:
    place, store = source
    live(store)
    held = []
    with Writers(store) as writers:
        for turn in range(3):
            writers.go_on()
            held.append(
                back_up(place, tmp_path / f"backup{turn}", experiment=experiment)
            )
        writers.go_on()
    assert not writers.wrong
    assert held[0].head < held[1].head < held[2].head < store.head()
    for turn, one in enumerate(held):
        with SQLiteReader(tmp_path / f"backup{turn}") as backup:
            assert list(backup.lines(0, one.head)) == list(store.lines(0, one.head))
            assert sum(one.events.values()) == len(list(backup.lines(0, one.head)))


@pytest.mark.parametrize(
    "held", [True, False], ids=["as it is", "without its transaction"]
)
def test_a_commit_after_each_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: bool
) -> None:
    """Without the transaction that sees one moment, a copy begins anew with each
    commit, and does not end."""
    steps: list[int] = []
    with SQLiteStore(tmp_path / "news.sqlite", alone()) as store:
        append(store, *(made(f"b{i}") for i in range(100)))

        def reach(_: Any, done: int, __: int) -> None:
            steps.append(done)
            assert len(steps) < 500
            append(store, Reward(f"after{len(steps)}", 1.0, 0.0))

        monkeypatch.setattr(copying, "_PAGES", 1)
        monkeypatch.setattr("oddsmith.logs.progress.Bar.reach", reach)
        if held:
            assert back_up(str(store.path), tmp_path / "backup").head == 100
            assert steps == list(range(1, len(steps) + 1))
            assert store.head() == 100 + len(steps)
            return
        monkeypatch.setattr(copying, "_BEGIN", "select 1")
        with pytest.raises(AssertionError):
            back_up(str(store.path), tmp_path / "backup")
        assert max(steps) < 5


def test_writers_go_on_while_erasing_waits_for_a_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        SQLiteStore(tmp_path / "news.sqlite", alone()) as store,
        closing(reading_of(store)) as reading,
    ):
        append(store, made("b"))
        pauses: list[int] = []

        def pause(_: float) -> None:
            pauses.extend(append(store, Reward(f"after{len(pauses)}", 1.0, 0.0)))
            if len(pauses) == 3:
                reading.execute("rollback")

        with monkeypatch.context() as patch:
            patch.setattr("oddsmith.server.store.sqlite.store.time.sleep", pause)
            assert store.erase(5.0) == 2
        assert len(pauses) == 3


def reading_of(store: SQLiteStore) -> sqlite3.Connection:
    """A connection of another program that goes on reading."""
    append(store, made("a"))
    connection = sqlite3.connect(store.path, isolation_level=None)
    connection.execute("begin")
    connection.execute("select count(*) from events").fetchone()
    return connection


def test_a_backup_of_postgresql_ends_below_transactions_that_run(
    server: Server, tmp_path: Path, experiment: str
) -> None:
    """A row of a later transaction that is finished is not in it while an earlier one
    still runs."""

    async def held_open() -> None:
        connection = await asyncpg.connect(server.url())
        await connection.execute("begin")
        await connection.execute("select pg_current_xact_id()")
        await asyncio.to_thread(append, store, Reward("after", 1.0, 0.0))
        await asyncio.to_thread(
            back_up, server.url(), tmp_path / "backup", experiment=experiment
        )
        await connection.execute("commit")
        await connection.close()

    with PostgresStore(server.url(), alone(), experiment=experiment) as store:
        (before,) = append(store, Reward("before", 1.0, 0.0))
        asyncio.run(held_open())
        with SQLiteReader(tmp_path / "backup") as backup:
            assert [line.id for line in backup.lines(0, 2**62)] == ["before"]
            assert backup.backup is not None
            assert backup.backup.head == before
