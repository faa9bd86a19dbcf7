"""SQLiteStore: a store in one file, written by one process."""

import json
import os
import sqlite3
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing, suppress
from operator import itemgetter
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import NamedTuple, TypeAlias

from oddsmith.core.errors import InvalidInput, StoreFailed
from oddsmith.core.policy import Policy
from oddsmith.server.store.contents import LEASE, Leases, parts_of
from oddsmith.server.store.events import Event
from oddsmith.server.store.meta import About, check_rule, meta_of
from oddsmith.server.store.protocol import EventKind, Late, Receipt, Rule, Snapshot
from oddsmith.server.store.reader import snapshot_digest
from oddsmith.server.store.rows import (
    COLUMNS,
    EARLY,
    EventRow,
    columns_of,
    repeated,
    row_of,
    unrewarded,
)
from oddsmith.server.store.slates import not_kept
from oddsmith.server.store.snapshots import retained_positions
from oddsmith.server.store.sqlite.file import Lock
from oddsmith.server.store.sqlite.reader import SQLiteReader
from oddsmith.server.store.sqlite.writer import NUMBER, PATIENCE, WritePath, is_busy

__all__ = ["SQLiteStore", "erase", "has", "receipt_again"]

_NEAREST = (
    "select features from contexts where time >= ? and time < ? and features is not "
    "null"
)
_NEEDED = "update features set time = ? where digest = ? and time < ?"


def erase(connection: sqlite3.Connection, before: float) -> int:
    """Erase contexts before that time, and their features, inside a transaction.

    Return the number of contexts. Features that a later context within the lease still
    needs get a new time, and are not erased.
    """
    nearest = connection.execute(_NEAREST, (before, before + LEASE))
    needed = {digest for (joined,) in nearest for digest in parts_of(joined)}
    connection.executemany(_NEEDED, ((before, digest, before) for digest in needed))
    connection.execute("delete from features where time < ?", (before,))
    return connection.execute("delete from contexts where time < ?", (before,)).rowcount


def receipt_again(
    connection: sqlite3.Connection, row: EventRow, *, parked: bool
) -> Receipt:
    """Return the receipt of a row that repeats the id of a stored row, the turn of a
    unit, or the slot of a slate."""
    unique: tuple[tuple[str, tuple[object, ...]], ...] = (
        ("id = ? and kind = ? and key = ?", (row.id, row.kind, row.key)),
        ("unit = ? and turn = ?", (row.unit, row.turn)),
        ("slate = ? and slot = ?", (row.slate, row.slot)),
    )
    for where, names in unique:
        query = f"select position, value, body from events where {where}"
        known = connection.execute(query, names).fetchone()
        if known is not None:
            position, value, body = known
            return repeated(row, position, value, body, parked=parked)
    return not_kept(row)


def has(connection: sqlite3.Connection, decision: str, *kinds: EventKind) -> bool:
    """Return whether there is an event of one of these kinds about a decision."""
    marks = ", ".join("?" * len(kinds))
    query = f"select 1 from events where id = ? and kind in ({marks}) limit 1"
    return connection.execute(query, (decision, *kinds)).fetchone() is not None


# seconds between attempts to truncate a write-ahead log that is being read
_PAUSE = 0.05
_INSERT = (
    f"insert into events ({', '.join(COLUMNS)}) values "
    f"({', '.join('?' * len(COLUMNS))}) on conflict do nothing returning position"
)
_SLATE = "select 1 from events where slate = ? limit 1"
_FEATURES = (
    "insert into features values (?, ?, ?) on conflict (digest) do update set time = "
    "excluded.time where excluded.time > time"
)
_POSITION = itemgetter(0)  # position of a receipt

_Entry: TypeAlias = "tuple[list[EventRow], Future[tuple[Receipt, ...]]]"


class _Uncommitted(NamedTuple):
    """Rows that were inserted, but not committed yet."""

    receipts: tuple[Receipt, ...]
    future: "Future[tuple[Receipt, ...]]"


class SQLiteStore(SQLiteReader):
    """A store in one file that only one process can open for writing.

    Events that are queued while a group is written form the next group, with one commit
    and one sync to disk. If no write is running, the caller inserts and the writer
    thread only commits. This halves the work if a single thread, such as an event loop,
    makes most calls. Receipts come after the commit. If the disk fails or is full,
    writes fail, `write_trouble` contains the reason, and the store retries by itself.
    The writer thread checks once a second whether the file was moved or replaced.

    >>> from tempfile import TemporaryDirectory
    >>> from oddsmith.experts.external import GivenExperts
    >>> from oddsmith.core.gts import GeneralizedThompsonSampling
    >>> from oddsmith.server.store.events import Reward
    >>> policy = GeneralizedThompsonSampling(GivenExperts(["cold", "warm"]))
    >>> with (
    ...     TemporaryDirectory() as folder,
    ...     SQLiteStore(f"{folder}/events.sqlite", policy) as store,
    ... ):
    ...     reward = Reward("a", 1.0, time=0.0)
    ...     store.append([reward, reward, Reward("a", 0.0, time=1.0)]).result()[:2]
    (Receipt(position=1, new=True, refused=None, parked=True), Receipt(position=1,
    new=False, ...))
    """

    def __init__(
        self,
        path: str | Path,
        policy: Policy | Mapping[str, str],
        *,
        rule: Rule = "first",
        late: Late = "arrives",
        about: About | None = None,
    ) -> None:
        check_rule(rule, late)
        self._closed = False
        path = Path(path)
        with ExitStack() as undo:
            lock = Lock(path)
            undo.callback(lock.release)
            self._writing = undo.enter_context(
                closing(WritePath(path, meta_of(policy, rule, late, about or {})))
            )
            # lock again, because SQLite may have just created the file
            lock.lock_file(path)
            super().__init__(path)
            self._files = undo.pop_all()
        self._entry = threading.Lock()
        self._outstanding = 0  # entries that are queued or being written
        self._queue: SimpleQueue[_Entry | _Uncommitted | None] = SimpleQueue()
        self._thread = threading.Thread(
            target=self._write_on, name=f"writer of {self.path.name}", daemon=True
        )
        self._thread.start()

    @property
    def commits(self) -> int:
        """The number of groups and other changes that were written since the store was
        opened."""
        return self._writing.commits

    @property
    def last_answer(self) -> int:
        """The last position that was confirmed to a caller; initially, the last
        position in the file."""
        return self._writing.answered

    @property
    def write_trouble(self) -> str:
        """The reason why the store cannot write; empty if it can."""
        return self._writing.trouble

    def append(self, events: Sequence[Event]) -> "Future[tuple[Receipt, ...]]":
        """Append events; return a future with their receipts, in the same order, when
        they are on disk."""
        rows = [row_of(event, self.rule) for event in events]
        future: Future[tuple[Receipt, ...]] = Future()
        with self._entry:
            if self._closed:
                return self._append_closed(events)
            if self._writing.told.text:
                self._writing.check()
            lock = self._writing.lock
            is_free = self._outstanding == 0 and lock.acquire(blocking=False)
            if not is_free or not self._begin(rows, future):
                self._outstanding += 1
                self._queue.put((rows, future))
        return future

    def keep(self, snapshot: Snapshot, content: bytes) -> None:
        """Save a snapshot, and delete older ones (`retained_positions`)."""
        if not 0 <= snapshot.position <= self.head():
            raise InvalidInput(
                f"a snapshot must be of a position up to {self.head()}; got "
                f"{snapshot.position}"
            )
        earlier = [one.position for one in self.snapshots()]
        stay = sorted(retained_positions([snapshot.position, *earlier]))
        row = (*snapshot, snapshot_digest(snapshot, content), content)
        with self._writing.transaction() as connection:
            connection.execute(
                "insert or replace into snapshots values (?, ?, ?, ?, ?, ?)", row
            )
            connection.execute(
                "delete from snapshots where position not in (select value from "
                "json_each(?))",
                (json.dumps(stay),),
            )

    def erase(self, before: float) -> int:
        """Erase the contexts of decisions made before that time, also on disk; return
        their number."""
        with self._writing.transaction() as connection:
            erased = erase(connection, before)
            self._writing.leases.end(before)
        end = time.monotonic() + PATIENCE
        # The write-ahead log contains the erased contexts until no other program reads
        # the database.
        while self._is_read():
            if time.monotonic() > end:
                reason = "is being read by another program"
                raise StoreFailed(
                    f"{self.path} {reason}: contexts are still on disk, erase again"
                )
            time.sleep(_PAUSE)  # other threads can write during the pause
        return erased

    def _is_read(self) -> bool:
        """Try to truncate the write-ahead log. Return whether this failed because
        another program is reading."""
        try:
            with self._writing.lock, self._reader:
                (was_busy, *_) = self._writing.connection.execute(
                    "pragma wal_checkpoint(truncate)"
                ).fetchone()
                return bool(was_busy)
        except sqlite3.Error as error:
            raise StoreFailed(
                f"{self.path} still holds contexts on disk, erase again: {error}"
            ) from error

    def close(self) -> None:
        """Write the queue, then close the file."""
        with self._entry:
            if not self._closed:
                self._queue.put(None)
            self._closed = True
        self._thread.join()
        super().close()
        with self._writing.lock:  # a snapshot may be in progress
            self._files.close()

    def _append_closed(self, events: Sequence[Event]) -> "Future[tuple[Receipt, ...]]":
        """Refuse events after the store was closed."""
        raise StoreFailed(f"{self.path} accepts no more events: it is closed")

    def _write_on(self) -> None:
        """Run the writer thread: write groups until the store is closed."""
        going = True
        pause = 1.0
        while going:
            waiting = []
            with suppress(Empty):
                waiting.append(self._queue.get(timeout=pause))
            while not self._queue.empty():
                waiting.append(self._queue.get())
            going = None not in waiting
            group: list[_Entry] = []
            for entry in waiting:
                if isinstance(entry, _Uncommitted):
                    self._commit(entry)
                elif entry is not None and entry[1].set_running_or_notify_cancel():
                    group.append(entry)
            if group:
                self._write(group)
            with self._entry:
                self._outstanding -= len(waiting) - (not going)
            is_idle = going and not waiting
            pause = 1.0
            if is_idle or self._writing.told.text:
                pause = self._writing.look(self._reader)

    def _begin(
        self, rows: list[EventRow], future: "Future[tuple[Receipt, ...]]"
    ) -> bool:
        """Insert in the caller's thread, which holds the lock; the writer thread
        commits.

        Return False if another program holds a lock; then the writer thread waits for
        it.
        """
        try:
            # a failed snapshot may have released the lock in the meantime
            if self._writing.told.text:
                self._writing.check()
            self._writing.connection.execute("begin immediate")
        except BaseException as error:
            if is_busy(error):
                self._writing.lock.release()
                return False
            return self._give_up(future, error)
        future.set_running_or_notify_cancel()
        try:
            receipts = _insert(self._writing.connection, rows, self._writing.leases)
        except BaseException as error:
            return self._give_up(future, error)
        self._outstanding += 1
        self._queue.put(_Uncommitted(receipts, future))
        return True

    def _give_up(
        self, future: "Future[tuple[Receipt, ...]]", error: BaseException
    ) -> bool:
        """Report the error of a write that this thread began, and release the lock."""
        failure = self._writing.failed(error)
        self._writing.lock.release()
        future.set_exception(failure)
        return True

    def _commit(self, rows: _Uncommitted) -> None:
        writing = self._writing
        try:
            writing.connection.execute("commit")
            writing.commits += 1
            numbers = tuple(map(NUMBER, map(os.stat, writing.names)))
            if writing.told.text or numbers != writing.numbers:
                writing.settle()
            self._note_answers(rows.receipts)
        except BaseException as error:
            rows.future.set_exception(writing.failed(error))
        else:
            rows.future.set_result(rows.receipts)
        finally:
            writing.lock.release()

    def _note_answers(self, receipts: tuple[Receipt, ...]) -> None:
        positions = map(_POSITION, receipts)
        self._writing.answered = max([self._writing.answered, *positions])

    def _write(self, group: list[_Entry]) -> None:
        try:
            with self._writing.transaction() as connection:
                answers = [
                    _insert(connection, rows, self._writing.leases) for rows, _ in group
                ]
        except Exception as error:
            for _, future in group:
                future.set_exception(error)
            return
        for (_, future), receipts in zip(group, answers, strict=True):
            self._note_answers(receipts)
            future.set_result(receipts)


def _insert(
    connection: sqlite3.Connection, rows: Sequence[EventRow], leases: Leases
) -> tuple[Receipt, ...]:
    """Insert the rows that are not stored yet, inside a transaction; return the
    receipts of all rows."""
    receipts: list[Receipt] = []
    # Ids of slates whose first slot is already stored. Their other slots are not
    # inserted.
    known: set[str] = set()
    for row in rows:
        if row.kind == "correction" and not has(
            connection, row.id, "reward", "default"
        ):
            receipts.append(unrewarded(row))
            continue
        parked = row.kind in EARLY and not has(connection, row.id, "decision")
        is_known = False
        is_taken = False
        if row.slate is None:
            if parked or row.kind == "decision":
                is_taken = connection.execute(_SLATE, (row.id,)).fetchone() is not None
        elif row.slot == 1:
            is_taken = has(connection, row.slate, "decision")
        else:
            is_known = row.slate in known
        written = None
        if not is_known and not is_taken:
            written = connection.execute(_INSERT, columns_of(row)).fetchone()
        if row.slate is not None and row.slot == 1:
            if written is None:
                known.add(row.slate)
            else:
                known.discard(row.slate)
        if written is None:
            receipts.append(receipt_again(connection, row, parked=parked))
            continue
        position: int = written[0]
        receipts.append(Receipt(position, True, parked=parked))
        if row.names is not None:
            connection.execute("insert or ignore into names values (?, ?)", row.names)
            due = leases.due(row.features, row.time)
            connection.executemany(
                _FEATURES, ((one.digest, row.time, one.body) for one in due)
            )
        if row.context is not None:
            connection.execute(
                "insert into contexts values (?, ?, null, ?, ?)",
                (row.time, position, *row.context),
            )
    return tuple(receipts)
