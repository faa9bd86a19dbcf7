"""A disk that fails or is full, a file that is taken away, another program's lock: said
at once, and mended."""

import logging
import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import oddsmith as od
from oddsmith.server.store import SQLiteReader, SQLiteStore
from oddsmith.server.store.sqlite import writer as writing
from server.store.samples import append, made, policy


def fill_up(store: Any) -> None:
    """From now on the file cannot grow: SQLite says what a full disk makes it say."""
    with store._writing.lock:
        (pages,) = store._writing.connection.execute("pragma page_count").fetchone()
        store._writing.connection.execute(f"pragma max_page_count = {pages + 2}")


def make_room(store: Any) -> None:
    with store._writing.lock:
        store._writing.connection.execute("pragma max_page_count = 100000")


def until(done: Any) -> None:
    end = time.monotonic() + 30
    while not done():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.01)


def test_a_full_disk_is_said_until_there_is_room_again(
    tmp_path: Path, caplog: Any
) -> None:
    caplog.set_level(logging.INFO)
    with SQLiteStore(tmp_path / "events.sqlite", policy()) as store:
        append(store, made("a"))
        assert store.write_trouble == ""
        fill_up(store)
        for i in range(3):
            with pytest.raises(od.errors.StoreFailed, match="disk is full"):
                store.append([made(f"x{i}-{j}") for j in range(50)]).result()
        assert store.write_trouble == "database or disk is full"
        make_room(store)
        until(lambda: store.write_trouble == "")  # without a write of ours
        assert append(store, made("b")) == [2]
    assert [
        record.getMessage().partition("events.sqlite ")[2] for record in caplog.records
    ] == [
        "cannot be written: database or disk is full",
        "can be written again",
    ]


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A disk in memory of this size."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a disk in memory needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.skipif(shutil.which("mount") is None, reason="there is no mount")
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "disk", "2m") as disk,
        SQLiteStore(disk / "events.sqlite", policy()) as store,
    ):
        append(store, made("a"))
        ballast = disk / "ballast"
        with suppress(OSError), open(ballast, "wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        answered, future = 1, store.append([made("x")])
        while (error := future.exception(30)) is None:
            answered = future.result()[0].position
            future = store.append([made(f"x{answered}")])
        assert "could not be written" in str(error)
        assert store.write_trouble
        assert store.head() == answered
        ballast.unlink()
        until(lambda: store.write_trouble == "")
        assert append(store, made("b")) == [answered + 1]


def break_once(store: Any) -> None:
    """The next write fails as it does on a disk that fails."""
    with store._writing.lock:
        store._writing.connection.execute("pragma query_only = on")
    with pytest.raises(od.errors.StoreFailed, match="could not be written"):
        append(store, made("b"))


def test_after_an_error_of_the_disk_the_file_is_opened_again(tmp_path: Path) -> None:
    with SQLiteStore(tmp_path / "events.sqlite", policy()) as store:
        append(store, made("a"))
        before = store._writing.connection
        break_once(store)
        until(lambda: store.write_trouble == "")
        assert store._writing.connection is not before
        assert append(store, made("b")) == [2]
        assert store.erase(1e9) == 2


def test_a_store_that_lost_what_was_answered_stays_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "PAUSES", (0.01, 0.01))
    with SQLiteStore(tmp_path / "events.sqlite", policy()) as store:
        append(store, made("a"), made("b"))
        with closing(sqlite3.connect(store.path)) as other:
            other.execute("delete from events where position = 2")
            other.commit()
        break_once(store)
        until(
            lambda: "it ends at position 1, and 2 was answered" in store.write_trouble
        )
        for _ in range(2):
            with pytest.raises(
                od.errors.StoreFailed,
                match="accepts no more events: it has lost events",
            ):
                append(store, made("c"))
            time.sleep(0.05)
        assert store.head() == 1


def test_a_damaged_file_stays_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "PAUSES", (0.01, 0.01))
    path = tmp_path / "events.sqlite"
    with SQLiteStore(path, policy()) as store:
        append(store, *(made(f"d{i}") for i in range(300)))
        store.erase(0.0)  # all of it is in the file now, and nothing in its log
        # which stays open: to close it would let go of SQLite's locks
        number = os.open(path, os.O_WRONLY)
        os.pwrite(
            number, os.urandom(path.stat().st_size // 2), path.stat().st_size // 2
        )
        break_once(store)
        until(lambda: "malformed; restore a backup" in store.write_trouble)
        for _ in range(2):
            with pytest.raises(
                od.errors.StoreFailed,
                match="accepts no more events: database disk image is malformed",
            ):
                append(store, made("e"))
            time.sleep(0.05)
    os.close(number)
    with pytest.raises(
        od.BadFile, match="must be a store; database disk image is malformed"
    ):
        SQLiteStore(path, policy())


def test_an_event_that_cannot_be_written_is_no_trouble_of_the_disk(
    tmp_path: Path,
) -> None:
    with SQLiteStore(tmp_path / "events.sqlite", policy()) as store:
        with store._writing.lock:
            store._writing.connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 200)
        with pytest.raises(od.errors.StoreFailed, match="too big"):
            append(store, made("x" * 256))
        assert store.write_trouble == ""


def test_a_deleted_file_is_noticed_before_anything_is_answered(
    tmp_path: Path, caplog: Any
) -> None:
    path = tmp_path / "events.sqlite"
    with SQLiteStore(path, policy()) as store:
        append(store, made("a"))
        path.unlink()
        sentence = (
            "must be the file that was opened; it was deleted or moved away: put it "
            "back, or restart"
        )
        for id in ("b", "c"):
            with pytest.raises(od.errors.StoreFailed, match=sentence):
                append(store, made(id))
        assert sentence in store.write_trouble
    assert caplog.text.count("deleted or moved away") == 1


def test_an_idle_store_looks_for_its_file(tmp_path: Path, caplog: Any) -> None:
    path = tmp_path / "events.sqlite"
    with SQLiteStore(path, policy()) as store:
        path.with_name("events.sqlite-wal").unlink()
        until(
            lambda: "events.sqlite-wal must be the file that was opened" in caplog.text
        )
        assert store.write_trouble


def test_a_file_in_its_place_is_not_taken_for_it(tmp_path: Path) -> None:
    path, other = tmp_path / "events.sqlite", tmp_path / "other.sqlite"
    with SQLiteStore(other, policy()) as another:
        append(another, made("z"))
    with SQLiteStore(path, policy()) as store:
        append(store, made("a"))
        os.replace(other, path)
        with pytest.raises(
            od.errors.StoreFailed, match="another file has taken its place"
        ):
            append(store, made("b"))
    with SQLiteStore(path, policy()) as store:
        # as it was put there, without what we wrote last
        assert [line.id for line in store.lines(0, 9)] == ["z"]


def test_a_file_that_comes_back_has_its_log_again(tmp_path: Path) -> None:
    path, away, other = (
        tmp_path / f"{name}.sqlite" for name in ("events", "away", "other")
    )
    SQLiteStore(other, policy()).close()
    with SQLiteStore(path, policy()) as store:
        append(store, made("a"))
        path.rename(away)
        other.rename(path)
        assert "another file has taken its place" in store.write_trouble
        with SQLiteReader(path) as reader:
            assert reader.head() == 0
        os.replace(away, path)
        assert store.write_trouble == ""
        append(store, made("b"))
    with SQLiteStore(path, policy()) as store:
        assert [line.id for line in store.lines(0, 9)] == ["a", "b"]


def test_a_file_that_was_put_back_is_well_again(tmp_path: Path) -> None:
    path, away = tmp_path / "events.sqlite", tmp_path / "away.sqlite"
    with SQLiteStore(path, policy()) as store:
        append(store, made("a"))
        path.rename(away)
        with pytest.raises(od.errors.StoreFailed, match="moved away"):
            append(store, made("b"))
        away.rename(path)
        assert store.write_trouble == ""
        # b may have been written, and was not answered
        assert append(store, made("b"), made("c"))[1] in (2, 3)
    with SQLiteStore(path, policy()) as store:
        assert [line.id for line in store.lines(0, 9)] == ["a", "b", "c"]


def test_a_store_that_does_not_look_answers_what_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checks have teeth."""
    monkeypatch.setattr(writing, "displacement", lambda *_: "")
    path = tmp_path / "events.sqlite"
    with SQLiteStore(path, policy()) as store:
        way: Any = store._writing
        way.names, way.numbers = (), ()
        path.unlink()
        append(store, made("a"))
    with SQLiteStore(path, policy()) as store:
        assert store.head() == 0


def test_the_lock_of_another_program_keeps_nobody_waiting(tmp_path: Path) -> None:
    with (
        SQLiteStore(tmp_path / "events.sqlite", policy()) as store,
        closing(sqlite3.connect(store.path)) as other,
    ):
        other.execute("begin exclusive")
        # returns, though the lock is held
        futures = [store.append([made(f"d{i}")]) for i in range(3)]
        assert not any(future.done() for future in futures)
        other.execute("rollback")
        assert sorted(future.result(30)[0].position for future in futures) == [1, 2, 3]
        assert store.write_trouble == ""


def test_a_lock_that_stays_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "PATIENCE", 0.05)
    with (
        SQLiteStore(tmp_path / "events.sqlite", policy()) as store,
        closing(sqlite3.connect(store.path)) as other,
    ):
        other.execute("begin exclusive")
        with pytest.raises(od.errors.StoreFailed, match="database is locked"):
            append(store, made("a"))
        assert store.write_trouble == "database is locked"
        other.execute("rollback")
        until(lambda: store.write_trouble == "")
        assert append(store, made("a")) == [1]
