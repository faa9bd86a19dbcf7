"""Count connections to database files, and delay closing other descriptors of a file
until it has no connections."""

import os
import sqlite3
import threading
from collections import Counter, defaultdict
from pathlib import Path

__all__ = ["close_after_connections", "open_connection"]

_Number = tuple[int, int]
_guard = threading.Lock()
_connections: Counter[_Number] = Counter()
_waiting: defaultdict[_Number, list[int]] = defaultdict(list)


class _Connection(sqlite3.Connection):
    """A connection that is counted until it is closed."""

    number: _Number | None = None

    def close(self) -> None:
        """Close the connection. If it was the last one to its file, close the
        descriptors of the file that were kept open."""
        super().close()
        with _guard:
            number = self.number
            self.number = None
            if number is not None:
                _leave(number)


def open_connection(
    path: Path, address: str | Path | None = None, *, uri: bool = False
) -> sqlite3.Connection:
    """Return a connection that starts no transaction by itself; `address` is SQLite's
    name of the file (default: its path).

    POSIX releases all locks of a process on a file as soon as the process closes any
    descriptor of that file, and SQLite protects connections with such locks. So the
    connections to each file are counted, for `close_after_connections`.
    """
    with _guard:
        connection: _Connection = sqlite3.connect(
            path if address is None else address,
            isolation_level=None,
            check_same_thread=False,
            uri=uri,
            factory=_Connection,
        )
        # SQLite creates the file if there is none
        if path.exists():
            connection.number = _number(os.stat(path))
            _connections[connection.number] += 1
    return connection


def close_after_connections(descriptor: int) -> None:
    """Unlock a descriptor of a database file, and close it when this process has no
    more connections to that file."""
    import fcntl

    number = _number(os.fstat(descriptor))
    with _guard:
        if not _connections[number]:
            del _connections[number]
            os.close(descriptor)
            return
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        _waiting[number].append(descriptor)


def _leave(number: _Number) -> None:
    """Count a connection to a file as closed. The caller holds the lock that guards the
    counts."""
    _connections[number] -= 1
    if _connections[number]:
        return
    del _connections[number]
    for descriptor in _waiting.pop(number, []):
        os.close(descriptor)


def _number(seen: os.stat_result) -> _Number:
    return seen.st_dev, seen.st_ino
