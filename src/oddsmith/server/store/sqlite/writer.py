"""WritePath: the writing connection of a store's file. It detects faults, reports them,
and recovers where that is safe."""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import attrgetter
from pathlib import Path

from oddsmith.core.errors import BadFile, StoreFailed
from oddsmith.server.store.contents import Leases
from oddsmith.server.store.sqlite.file import connect, create_or_check_owner
from oddsmith.server.store.trouble import WriteTrouble

__all__ = ["NUMBER", "PATIENCE", "WritePath", "displacement", "is_busy"]

# identifies a file, because another file may get the same name
NUMBER = attrgetter("st_dev", "st_ino")
PATIENCE = 2.0  # seconds to wait for another program's lock
# seconds between attempts to recover: the first pause and the longest one
PAUSES = (0.05, 5.0)

_OF_THE_DATA = {
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_TOOBIG,
}
# temporary errors, after which the connection can still be used
_PASSING = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY}
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_SOON = 0.01  # seconds
# text of a test write; it is large, because a small row may still fit on a full disk
_PROBE = "x" * 65536


class WritePath:
    """The writing connection, its `lock`, and its faults.

    There are three kinds of faults. A full disk or another program's lock is temporary:
    the connection stays open. After any other disk error the connection is closed,
    because the system's cache may differ from the disk after a failed sync. A new
    connection then copies all confirmed events into the file, syncs the file, and
    counts the events. A file that is damaged, or that has lost confirmed events, is not
    written to again.

    The file must also be in its place, because writes to a deleted or replaced file
    would be lost when the process ends.
    """

    def __init__(self, path: Path, mine: dict[str, str]) -> None:
        self.path = path
        self.lock = threading.Lock()
        self.connection = connect(path)
        try:
            create_or_check_owner(self.connection, path, mine)
            self.answered = self._head()
            # resolve now, because a link may change later
            self.names = str(path), f"{path.resolve()}-wal"
            self.numbers = tuple(map(NUMBER, map(os.stat, self.names)))
        except BaseException as error:
            self.connection.close()
            if isinstance(error, sqlite3.OperationalError | OSError):
                raise StoreFailed(f"{path} cannot be opened: {error}") from error
            if isinstance(error, sqlite3.DatabaseError):
                raise BadFile(f"{path} must be a store; {error}") from error
            raise
        self.commits = 0
        self.leases = Leases()
        self.told = WriteTrouble(path)
        self._telling = threading.Lock()
        self._fault = ""
        self._displaced = ""
        self._is_suspect = False  # whether the connection must be replaced
        # whether recovery is impossible, so that it is not attempted
        self._is_final = False
        self._is_closed = False
        self._pause = 0.0
        self._due = 0.0
        try:
            self._sync_anew()
        # the store is still opened, because it can be read
        except (sqlite3.Error, StoreFailed) as error:
            self.failed(error)

    @property
    def trouble(self) -> str:
        """The reason why the file cannot be written; empty if it can.

        After `close` the files are not checked, because SQLite removes the write-ahead
        log with the last connection.
        """
        with self._telling:
            if self._is_closed:
                return self.told.text
            self._displaced = displacement(self.names, self.numbers)
            if self._displaced:
                _keep_apart(self.names, self.numbers)
                self._displaced = displacement(self.names, self.numbers)
            self.told.become(self._displaced or self._fault)
            return self.told.text

    def check(self) -> None:
        """Raise if the store is closed or has a fault, so that a write would fail."""
        if self._is_closed:
            raise StoreFailed(f"{self.path} accepts no more events: it is closed")
        if self.told.text and self.trouble and (self._displaced or self._is_suspect):
            raise StoreFailed(f"{self.path} accepts no more events: {self.told.text}")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a block in a transaction: commit all of it or nothing."""
        with self.lock, self._whole() as connection:
            yield connection

    @contextmanager
    def _whole(self) -> Iterator[sqlite3.Connection]:
        """Begin a transaction; the caller holds the lock."""
        self.check()
        try:
            self.begin(PATIENCE)
            yield self.connection
            self.commit()
        except BaseException as error:
            raise self.failed(error) from error

    def begin(self, patience: float = 0.0) -> None:
        """Begin a write transaction. Wait up to `patience` seconds for the lock of
        another program."""
        try:
            self.connection.execute("begin immediate")
        except sqlite3.Error as error:
            if not patience or not is_busy(error):
                raise
            with self.patience(patience):
                self.connection.execute("begin immediate")

    @contextmanager
    def patience(self, seconds: float = PATIENCE) -> Iterator[None]:
        """Let statements in this block wait for the locks of other programs."""
        self.connection.execute(f"pragma busy_timeout = {round(1000 * seconds)}")
        try:
            yield
        finally:
            self.connection.execute("pragma busy_timeout = 0")

    def commit(self) -> None:
        """Commit, so that the changes are on disk and in the file that a restart will
        find."""
        self.connection.execute("commit")
        self.commits += 1
        numbers = tuple(map(NUMBER, map(os.stat, self.names)))
        if self.told.text or numbers != self.numbers:
            self.settle()

    def settle(self) -> None:
        """Clear the fault after a commit. Raise if the file was moved or replaced."""
        self._fault = ""
        self._pause = 0.0
        if self.trouble:
            raise StoreFailed(f"{self.path} could not be written: {self._displaced}")

    def failed(self, error: BaseException) -> BaseException:
        """Roll back the transaction, and return the error to report."""
        self._judge(error)
        self.leases.end()
        try:
            if self.connection.in_transaction:
                self.connection.execute("rollback")
        except sqlite3.Error as worse:
            self._fault = str(worse)
            self._is_suspect = True
        trouble = self.trouble
        if isinstance(error, sqlite3.Error | OSError):
            return StoreFailed(f"{self.path} could not be written: {trouble or error}")
        return error

    def look(self, reading: threading.Lock) -> float:
        """Check for faults, and try to recover if the pause since the last attempt is
        over. Return the number of seconds until the next check.

        `reading` is the lock of the reading connection. Never wait for the write lock:
        a caller may hold it for a write that the checking thread has to commit.
        """
        if not self.trouble or self._displaced or self._is_final:
            return 1.0
        if time.monotonic() >= self._due:
            if not self.lock.acquire(blocking=False):
                return _SOON
            try:
                if self._is_suspect:
                    self._open_again(reading)
                with self._whole() as connection:
                    connection.execute(
                        "insert into meta values ('probe', ?)", (_PROBE,)
                    )
                    connection.execute("delete from meta where name = 'probe'")
            except Exception as error:  # any error: the next check tries again
                self._judge(error)
                self._pause = min(max(2 * self._pause, PAUSES[0]), PAUSES[1])
                self._due = time.monotonic() + self._pause
            finally:
                self.lock.release()
        return max(0.0, min(1.0, self._due - time.monotonic()))

    def close(self) -> None:
        """Close the connection."""
        with self._telling:
            self._is_closed = True
        self.connection.close()

    def _judge(self, error: BaseException) -> None:
        """Decide by an error whether the connection must be replaced, and whether
        recovery is possible."""
        if isinstance(error, BadFile):
            self._fault = str(error)
            self._is_suspect = True
            self._is_final = True
        if not isinstance(error, sqlite3.Error):
            return
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _OF_THE_DATA:
            return
        self._fault = str(error)
        if code in _DAMAGE:
            self._fault = (
                f"{error}; restore a backup, or see what oddsmith doctor says of it"
            )
            self._is_suspect = self._is_final = True
        elif code not in _PASSING:
            self._is_suspect = True

    def _open_again(self, reading: threading.Lock) -> None:
        """Open another writing connection. The reading connection stays open, because
        otherwise SQLite would recover the failed write as if it had been committed."""
        with suppress(sqlite3.Error):
            self.connection.close()
        self.connection = connect(self.path)
        with reading:
            self._sync_anew()
        head = self._head()
        if head < self.answered:
            lost = f"it ends at position {head}, and {self.answered} was answered"
            raise BadFile(
                f"it has lost events that were answered: {lost}; restore a backup"
            )
        self._is_suspect = False

    def _sync_anew(self) -> None:
        """Copy the write-ahead log into the file, and sync the file.

        After a failed sync, the system may report data as written that is not on the
        disk. If the power fails, this data and everything after it in the log would be
        lost.
        """
        with self.patience():
            (held, *_) = self.connection.execute(
                "pragma wal_checkpoint(truncate)"
            ).fetchone()
        if held:
            self._is_suspect = True
            self._fault = (
                "another program reads it, and the write-ahead log cannot be emptied"
            )
            raise StoreFailed(self._fault)

    def _head(self) -> int:
        (head,) = self.connection.execute(
            "select coalesce(max(position), 0) from events"
        ).fetchone()
        return int(head)


def displacement(names: Sequence[str], numbers: Sequence[object]) -> str:
    """Return a description if the files of an open store were moved, replaced or
    deleted; empty if they are in their place."""
    for name, number in zip(names, numbers, strict=True):
        try:
            if NUMBER(os.stat(name)) == number:
                continue
            found = "another file has taken its place"
        except FileNotFoundError:
            found = "it was deleted or moved away"
        except OSError as error:
            found = str(error.strerror)
        return (
            f"{name} must be the file that was opened; {found}: put it back, or "
            "restart to go on with what is there"
        )
    return ""


def _keep_apart(names: Sequence[str], numbers: Sequence[object]) -> None:
    """If another file has replaced an open store, rename the store's write-ahead log;
    rename it back when the store is back.

    SQLite would use the log for the new file, because it finds logs by name.
    """
    name, log = names
    index = log.removesuffix("-wal") + "-shm"
    with suppress(OSError):
        moves = [(log, f"{log}.displaced"), (index, f"{index}.displaced")]
        if NUMBER(os.stat(name)) == numbers[0]:
            if os.path.exists(log):
                return
            moves = [(after, before) for before, after in moves]
        if NUMBER(os.stat(moves[0][0])) == numbers[1]:
            for before, after in moves:
                os.rename(before, after)


def is_busy(error: BaseException) -> bool:
    """Return whether the lock of another program caused an error."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
