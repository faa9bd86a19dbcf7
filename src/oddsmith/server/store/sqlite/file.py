"""The file of a SQLiteStore: its lock against a second process, its connections, and
its owner."""

import os
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from oddsmith.core.errors import BadFile, StoreFailed
from oddsmith.server.store.meta import check_format, check_owner, new_meta
from oddsmith.server.store.sqlite.descriptors import (
    close_after_connections,
    open_connection,
)

__all__ = [
    "FileFacts",
    "Lock",
    "SYNCHRONOUS",
    "check_file",
    "check_names",
    "connect",
    "connect_to_read",
    "create_or_check_owner",
    "file_facts",
    "holder_of",
    "is_read_only",
    "meta",
]


def is_read_only(path: Path) -> bool:
    """Return whether no file can be created in this folder. SQLite needs to create one
    to read a write-ahead log.

    >>> is_read_only(Path("folder that is not there") / "store")
    True
    """
    return not os.access(path.resolve().parent, os.W_OK)


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Return a connection that writes nothing into the store.

    In a read-only folder, SQLite can read a write-ahead log only if a running writer
    has created the log's index file. A store without a log is read directly. A log
    without an index is an error, because its events would be missing.
    """
    if not is_read_only(path):
        connection = open_connection(path)
        try:
            connection.execute("pragma query_only = on")
        except BaseException:
            connection.close()
            raise
        return connection
    with suppress(sqlite3.OperationalError):
        return _open_uri(path, "mode=ro")
    log = path.with_name(path.name + "-wal")
    index = path.with_name(path.name + "-shm")
    if index.exists() or (log.exists() and log.stat().st_size):
        raise StoreFailed(
            f"{path} must be readable with {log.name} beside it, which holds its last "
            "events, and its folder is read-only: copy both files to a folder that "
            "can be written to, and read the copy"
        )
    return _open_uri(path, "immutable=1")


def _open_uri(path: Path, mode: str) -> sqlite3.Connection:
    """Return a connection after a first read, because SQLite opens files lazily."""
    address = f"file:{quote(str(path.resolve()))}?{mode}"
    connection = open_connection(path, address, uri=True)
    try:
        connection.execute("select count(*) from sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


SYNCHRONOUS = "FULL"  # NORMAL loses the last commits in a power failure


class Lock:
    """The write lock of a store's file. It is held until it is released, or until the
    process ends in any way.

    It consists of two locks. The first is a lock file next to the store, which works
    even before the store exists. The second is a lock on the store itself, which also
    excludes processes that use another mount or another name of the same file.
    """

    def __init__(self, path: Path) -> None:
        # follow symbolic links, so that every name has the same lock
        path = path.resolve()
        beside = path.with_name(path.name + ".lock")
        try:
            self._handle = os.open(beside, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StoreFailed(f"{path} cannot be opened: {error.strerror}") from error
        self._file: int | None = None
        try:
            self._lock(self._handle, path)
            check_names(path)
            os.ftruncate(self._handle, 0)
            os.write(self._handle, str(os.getpid()).encode())
            self.lock_file(path)
        except BaseException:
            self.release()
            raise

    def lock_file(self, path: Path) -> None:
        """Lock the file itself, if there is one."""
        path = path.resolve()
        if self._file is not None or not path.is_file():
            return
        self._file = os.open(path, os.O_RDONLY)
        self._lock(self._file, path)

    def _lock(self, handle: int, path: Path) -> None:
        import fcntl

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            by = "another name of it"
            if handle == self._handle:
                by = f"process {_read_process(handle)}"
            raise StoreFailed(
                f"{path} must be used by one process at a time; it is in use by {by}"
            ) from error
        except OSError as error:
            # Over NFS, a file that is opened for reading cannot be locked. The lock
            # file is enough.
            if handle == self._handle:
                raise StoreFailed(
                    f"{path} must be on a disk that has locks; {error.strerror}"
                ) from error

    def release(self) -> None:
        """Release the lock. The lock file is not removed, because another process may
        be about to lock it."""
        os.close(self._handle)
        if self._file is not None:
            close_after_connections(self._file)


def check_names(path: Path) -> None:
    """Raise if a file of the store has a second name.

    SQLite finds the write-ahead log by the name of the store. Under another name the
    last events would be missing, and two processes would write independently of each
    other.
    """
    path = path.resolve()
    for suffix in ("", "-wal", "-shm"):
        one = path.with_name(path.name + suffix)
        if not one.exists():
            continue
        links = one.stat().st_nlink
        if one.is_symlink() or links > 1:
            what = "a symbolic link" if one.is_symlink() else f"{links:,} hard links"
            raise StoreFailed(
                f"{one} must have one name, because SQLite finds the files of a store "
                f"by it; got {what}: remove the other names, or make a copy with "
                "oddsmith backup"
            )


class FileFacts(NamedTuple):
    """The sizes in bytes of a store's file and its write-ahead log, and the free bytes
    on its disk.

    `holder` is the process that writes to the store, `broken` describes damage, and
    `read_only` is true if no file can be created in the store's folder.
    """

    size: int
    log_size: int
    free: int
    holder: str | None
    broken: str | None
    read_only: bool = False


def file_facts(path: Path) -> FileFacts:
    """Return facts about a store's file. This reads the whole file, to find damage."""
    path = path.resolve()
    beside = path.with_name(path.name + "-wal")
    try:
        with closing(connect(path, read_only=True)) as connection:
            (report,) = connection.execute("pragma integrity_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        report = str(error)
    log_size = beside.stat().st_size if beside.exists() else 0
    free = shutil.disk_usage(path.parent).free
    broken = None if report == "ok" else report
    return FileFacts(
        path.stat().st_size, log_size, free, holder_of(path), broken, is_read_only(path)
    )


def holder_of(path: Path) -> str | None:
    """Return a description of the process that has the store open for writing, or
    None."""
    import fcntl

    path = path.resolve()
    beside = path.with_name(path.name + ".lock")
    if not beside.exists():
        return None
    handle = os.open(beside, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _read_process(handle)
    finally:
        os.close(handle)
    return None


def _read_process(handle: int) -> str:
    """Return a description of the process that wrote its number into a lock file."""
    return os.read(handle, 20).decode(errors="replace") or "unknown"


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Return a connection that starts no transaction by itself."""
    if not read_only and not path.exists():
        # ignored, because SQLite reports a more detailed error when it opens the file
        with suppress(OSError):
            path.touch(mode=0o600)  # private, because it will contain personal contexts
    try:
        if read_only:
            return connect_to_read(path)
        connection = open_connection(path)
        try:
            mode = connection.execute("pragma journal_mode = wal").fetchone()[0]
            if mode != "wal":
                raise StoreFailed(
                    f"{path} must be on a disk that allows a write-ahead log; SQLite "
                    f"chose {mode!r}"
                )
            connection.execute(f"pragma synchronous = {SYNCHRONOUS}")
            # overwrite erased contexts with zeros
            connection.execute("pragma secure_delete = on")
        except BaseException:
            connection.close()
            raise
    except sqlite3.OperationalError as error:
        raise StoreFailed(f"{path} cannot be opened: {error}") from error
    except sqlite3.DatabaseError as error:
        raise BadFile(f"{path} must be a store; {error}") from error
    return connection


def check_file(path: Path) -> None:
    """Raise if there is no file at this path."""
    if not path.is_file():
        found = "it is a folder" if path.is_dir() else "there is no such file"
        raise BadFile(f"{path} must be a store; {found}")
    check_names(path)


def create_or_check_owner(
    connection: sqlite3.Connection, path: Path, mine: dict[str, str]
) -> None:
    """Turn a new file into a store with `mine` in its table `meta`. For an existing
    store, raise if it has another owner."""
    if _tables(connection):
        check_owner(path, meta(connection, path), mine)
        return
    schema = Path(__file__).with_name("schema.sql").read_text()
    rows = new_meta(mine, gapless=True).items()
    connection.executescript(f"begin immediate; {schema}")
    connection.executemany("insert into meta values (?, ?)", rows)
    connection.execute("commit")


def meta(connection: sqlite3.Connection, path: Path) -> Mapping[str, str]:
    """Return the table `meta` of a store."""
    rows: dict[str, str] = {}
    try:
        if "meta" in _tables(connection):
            rows = dict(connection.execute("select name, value from meta"))
    except sqlite3.DatabaseError as error:
        raise BadFile(f"{path} must be a store; {error}") from error
    check_format(path, rows.get("format"))
    return rows


def _tables(connection: sqlite3.Connection) -> set[str]:
    query = "select name from sqlite_master where type = 'table'"
    return {name for (name,) in connection.execute(query)}
