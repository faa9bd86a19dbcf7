"""Reading a store's file where nothing can be written: a read-only mount, or a folder of others."""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from oddsmith.errors import StoreFailed

__all__ = ["connect_to_read", "is_read_only"]


def is_read_only(path: Path) -> bool:
    """Whether no file can be made beside this one, as SQLite does to read a write-ahead log.

    >>> is_read_only(Path("folder that is not there") / "store")
    True
    """
    return not os.access(path.resolve().parent, os.W_OK)


def connect_to_read(path: Path) -> sqlite3.Connection:
    """A connection that writes nothing into the store.

    Where nothing can be written, SQLite reads the write-ahead log of a live writer by the index that lies beside it;
    a file without either is read as it is. A log without its index is never passed over: that is refused.
    """
    if not is_read_only(path):
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("pragma query_only = on")
        except BaseException:
            connection.close()
            raise
        return connection
    with suppress(sqlite3.OperationalError):
        return _opened(path, "mode=ro")
    log, index = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))
    if index.exists() or (log.exists() and log.stat().st_size):
        raise StoreFailed(
            f"{path} must be readable with {log.name} beside it, which holds its last events, and its folder is "
            f"read-only: copy both files to a folder that can be written to, and read the copy"
        )
    return _opened(path, "immutable=1")


def _opened(path: Path, mode: str) -> sqlite3.Connection:
    """A connection that has read: SQLite opens files when it first needs them."""
    address = f"file:{quote(str(path.resolve()))}?{mode}"
    connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("select count(*) from sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection
