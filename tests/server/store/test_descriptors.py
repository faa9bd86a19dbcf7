"""Locks of SQLite outlive every descriptor that this process closes."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import oddsmith as od
from oddsmith.server.store import SQLiteReader, SQLiteStore
from oddsmith.server.store.sqlite.file import file_facts
from server.store.samples import append, made, policy

# the bytes of a database file that SQLite locks for reading (its SHARED_FIRST)
_TRY = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)
    except OSError:
        print("locked")
"""
_OPEN = """
import sys
from pathlib import Path
from oddsmith.server.store.sqlite.file import Lock
Lock(Path(sys.argv[1]))
"""


def elsewhere(code: str, path: Path) -> "subprocess.CompletedProcess[str]":
    """Another process that runs this code with the path of a file."""
    command = [sys.executable, "-c", code, str(path)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False
    )


def is_locked(path: Path) -> bool:
    """Whether SQLite's locks of this process hold against other processes."""
    return elsewhere(_TRY, path).stdout.strip() == "locked"


def test_a_store_that_closes_keeps_the_locks_of_a_reader(tmp_path: Path) -> None:
    path = tmp_path / "events"
    with SQLiteStore(path, policy()) as store:
        append(store, made("a"))
        reader = SQLiteReader(path)
    with closing(reader):
        assert reader.head() == 1
        assert is_locked(path)
        # and the right to write is free for others
        assert elsewhere(_OPEN, path).returncode == 0
        with SQLiteStore(path, policy()) as store:
            append(store, made("b"))
        assert is_locked(path)
    assert not is_locked(path)


def test_a_store_that_is_refused_keeps_the_locks_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "events"
    with SQLiteStore(path, policy()) as store:
        append(store, made("a"))
        other = path.rename(tmp_path / "other")
        with pytest.raises(od.errors.StoreFailed, match="another name of it"):
            SQLiteStore(other, policy())
        refused = elsewhere(_OPEN, other)
        assert "another name of it" in refused.stderr
        assert is_locked(other)
        other.rename(path)
        append(store, made("b"))


def test_readers_beside_a_store_keep_its_locks(tmp_path: Path) -> None:
    path = tmp_path / "events"
    with SQLiteStore(path, policy()) as store:
        append(store, made("a"))
        with SQLiteReader(path) as reader:
            assert reader.head() == 1
        assert file_facts(path).broken is None
        assert is_locked(path)
        refused = elsewhere(_OPEN, path)
        assert "one process at a time" in refused.stderr
        append(store, made("b"))
