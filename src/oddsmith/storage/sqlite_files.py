"""The file of a SQLiteStore: its lock against a second process, its connections, and whom it belongs to."""

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

from oddsmith.decision import Policy
from oddsmith.errors import BadFile, StoreFailed
from oddsmith.fingerprint import describe, difference, fingerprint

__all__ = ["FORMAT", "Lock", "SYNCHRONOUS", "belong", "connect", "meta"]

FORMAT = "oddsmith store 1"
SYNCHRONOUS = "FULL"  # NORMAL loses the last commits in a power cut


class Lock:
    """The right to a store's file, held until released or until the process ends, however it ends."""

    def __init__(self, path: Path) -> None:
        import fcntl

        beside = path.with_name(path.name + ".lock")
        try:
            self._handle = os.open(beside, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StoreFailed(f"{path} cannot be opened: {error.strerror}") from error
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(self._handle, 20).decode(errors="replace") or "unknown"
            os.close(self._handle)
            raise StoreFailed(
                f"{path} must be used by one process at a time; it is in use by process {holder}"
            ) from error
        os.ftruncate(self._handle, 0)
        os.write(self._handle, str(os.getpid()).encode())

    def release(self) -> None:
        """Give the right back; the lock's file stays, for removing it would race."""
        os.close(self._handle)


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection that starts no transaction by itself."""
    try:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            if read_only:
                connection.execute("pragma query_only = on")
                return connection
            mode = connection.execute("pragma journal_mode = wal").fetchone()[0]
            if mode != "wal":
                raise StoreFailed(f"{path} must be on a disk that allows a write-ahead log; SQLite chose {mode!r}")
            connection.execute(f"pragma synchronous = {SYNCHRONOUS}")
            connection.execute("pragma secure_delete = on")  # what is erased is overwritten
        except BaseException:
            connection.close()
            raise
    except sqlite3.OperationalError as error:
        raise StoreFailed(f"{path} cannot be opened: {error}") from error
    except sqlite3.DatabaseError as error:
        raise BadFile(f"{path} must be a store; {error}") from error
    return connection


def belong(connection: sqlite3.Connection, path: Path, policy: Policy, rule: str, about: dict[str, Any]) -> None:
    """Make a new file the store of this policy and rule, or check that it is."""
    mine = {"format": FORMAT, "fingerprint": fingerprint(policy), "policy": json.dumps(describe(policy)), "rule": rule}
    if not _tables(connection):
        connection.executescript(f"begin immediate; {Path(__file__).with_name('schema.sql').read_text()}")
        connection.executemany("insert into meta values (?, ?)", (mine | {"about": json.dumps(about)}).items())
        connection.execute("commit")
        return
    theirs = meta(connection, path)
    if theirs["fingerprint"] != mine["fingerprint"]:
        where = difference(json.loads(theirs["policy"]), json.loads(mine["policy"]))
        raise BadFile(f"{path} is the log of another policy: {where}")
    if theirs["rule"] != rule:
        raise BadFile(f"{path} was made with the reward rule {theirs['rule']!r}; got {rule!r}")


def meta(connection: sqlite3.Connection, path: Path) -> Any:
    """What a store says of itself: format, policy, rule, and about its experiment."""
    try:
        said = dict(connection.execute("select name, value from meta")) if "meta" in _tables(connection) else {}
    except sqlite3.DatabaseError as error:
        raise BadFile(f"{path} must be a store; {error}") from error
    if said.get("format") != FORMAT:
        raise BadFile(f"{path} must be a store of format {FORMAT!r}; got {said.get('format')!r}")
    return {"about": "{}"} | said


def _tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}
