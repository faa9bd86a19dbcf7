"""The writer's thread looks for trouble while others write: neither waits for the
other."""

import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from oddsmith.server.store import SQLiteStore
from server.store.samples import made, policy


def test_a_write_that_begins_while_the_store_looks_is_committed(tmp_path: Path) -> None:
    """The caller inserts and has the right to write; the thread that has to commit it
    is about to try the disk."""
    sent: list[Future[Any]] = []
    with SQLiteStore(tmp_path / "events", policy()) as store:
        writing: Any = store._writing
        look = writing.look

        def begun_meanwhile(reading: Any) -> float:
            if not sent:
                writing._fault = "disk I/O error"
                sent.append(store.append([made("a")]))
            return float(look(reading))

        writing.look = begun_meanwhile
        try:
            (receipt,) = _first(sent).result(timeout=30)
        finally:
            # so that a store that hangs can be closed
            if writing.lock.locked() and not sent[0].done():
                writing.lock.release()
        assert receipt.new
        assert store.write_trouble == ""
        assert [line.id for line in store.lines(0, store.head())] == ["a"]


def _first(sent: "list[Future[Any]]") -> "Future[Any]":
    """The first write, once the thread has looked: it does so each second."""
    end = time.monotonic() + 30
    while not sent and time.monotonic() < end:
        time.sleep(0.02)
    return sent[0]


def test_a_store_that_lets_go_of_its_file_tells_no_trouble(
    tmp_path: Path, caplog: Any
) -> None:
    """SQLite removes the write-ahead log at the end; who asks meanwhile, as the page
    does, is not told of a loss."""
    store = SQLiteStore(tmp_path / "events", policy())
    store.append([made("a")]).result()
    assert (tmp_path / "events-wal").exists()
    store.close()
    assert not (tmp_path / "events-wal").exists()
    assert store.write_trouble == ""
    assert not caplog.records


def test_a_file_that_was_taken_away_is_still_told_after_the_end(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "events", policy())
    (tmp_path / "events").rename(tmp_path / "elsewhere")
    assert "was deleted or moved away" in store.write_trouble
    store.close()
    assert "was deleted or moved away" in store.write_trouble
