"""A snapshot that is damaged, at any byte, is passed over: the log is whole."""

import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oddsmith.server.fold.fold import restore, save_snapshot
from oddsmith.server.store import Reward, SQLiteReader, SQLiteStore
from oddsmith.server.store.protocol import DamagedSnapshot
from server.store.samples import append, bits, made, policy

PLACES = 200


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with SQLiteStore(tmp_path / "events", policy()) as store:
        for i in range(8):
            append(store, made(f"d{i}"), Reward(f"d{i}", float(i % 2), 0.0))
            if i in (3, 5, 7):
                save_snapshot(store, restore(store, policy()), float(i))
        yield store


def damage(path: Path, position: int, place: int) -> bytes:
    """Change one bit of a snapshot's content; returns what it was."""
    with closing(sqlite3.connect(path)) as file, file:
        (content,) = file.execute(
            "select content from snapshots where position = ?", (position,)
        ).fetchone()
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        file.execute(
            "update snapshots set content = ? where position = ?",
            (bytes(changed), position),
        )
    return bytes(content)


def test_a_snapshot_damaged_at_any_byte_is_passed_over(
    store: SQLiteStore, caplog: pytest.LogCaptureFixture
) -> None:
    """In every snapshot, at 200 places; the state is that of the log, to the last
    bit."""
    whole = bits(restore(store, policy()).state)
    for snapshot in store.snapshots():
        size = len(store.content(snapshot.position))
        for place in np.linspace(0, size - 1, PLACES).astype(int).tolist():
            content = damage(store.path, snapshot.position, place)
            with pytest.raises(
                DamagedSnapshot,
                match=f"snapshot at position {snapshot.position} is damaged",
            ):
                store.content(snapshot.position)
            if place % 7 == 0:
                assert bits(restore(store, policy(), until=store.head()).state) == whole
            with closing(sqlite3.connect(store.path)) as file, file:
                file.execute(
                    "update snapshots set content = ? where position = ?",
                    (content, snapshot.position),
                )
    assert bits(restore(store, policy()).state) == whole
    assert any(
        "is damaged" in record.message and record.levelno == logging.ERROR
        for record in caplog.records
    )


def test_with_all_snapshots_damaged_the_whole_log_is_folded(store: SQLiteStore) -> None:
    whole = bits(restore(store, policy()).state)
    for snapshot in store.snapshots():
        damage(store.path, snapshot.position, 50)
    assert bits(restore(store, policy()).state) == whole


def test_without_the_checksum_it_would_be_an_outage_or_a_wrong_state(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same damage where nothing compares: at some byte the fold fails, or is
    another state."""
    whole = bits(restore(store, policy()).state)
    query = SQLiteReader.queries.content
    monkeypatch.setattr(
        SQLiteReader, "content", lambda self, at: bytes(self._fetch(query, at)[0][-1])
    )
    wrong = 0
    last = store.snapshots()[-1].position
    for place in range(0, len(store.content(last)), 7):
        content = damage(store.path, last, place)
        try:
            wrong += bits(restore(store, policy()).state) != whole
        except Exception:
            wrong += 1
        with closing(sqlite3.connect(store.path)) as file, file:
            file.execute(
                "update snapshots set content = ? where position = ?", (content, last)
            )
    assert wrong


def test_facts_of_a_snapshot_are_under_its_checksum(store: SQLiteStore) -> None:
    with closing(sqlite3.connect(store.path)) as file, file:
        file.execute("update snapshots set time = time + 1")
    with pytest.raises(DamagedSnapshot):
        store.content(store.snapshots()[0].position)
