"""SQLiteStore: events in one file on disk, WAL with synchronous FULL, one writer thread that commits in groups."""

import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple, TypeAlias

from oddsmith.errors import InvalidInput, StoreFailed
from oddsmith.policies.base import Policy
from oddsmith.storage.base import EventKind, Late, Receipt, Rule, Snapshot, thinned
from oddsmith.storage.events import Event
from oddsmith.storage.meta import About, check_rule, meta_of
from oddsmith.storage.reading import snapshot_digest
from oddsmith.storage.rows import EARLY, EventRow, repeated, row_of, unrewarded
from oddsmith.storage.sqlite.files import Lock, connect, create_or_check_owner
from oddsmith.storage.sqlite.reading import SQLiteReader

__all__ = ["SQLiteStore"]

_PASSING = {  # errors after which the same connection may go on
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_TOOBIG,
}

_COLUMNS = "kind, id, key, value, time, deferred, seen, sender, unit, turn, slate, slot, body, numbers"
_INSERT = (
    f"insert into events ({_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "on conflict do nothing returning position"
)
_FEATURES = (
    "insert into features values (?, ?, ?) on conflict (digest) do update set time = excluded.time "
    "where excluded.time > time"
)

_Entry: TypeAlias = "tuple[list[EventRow], Future[tuple[Receipt, ...]]]"


class _Begun(NamedTuple):
    """Rows that are inserted, and not yet committed."""

    receipts: tuple[Receipt, ...]
    future: "Future[tuple[Receipt, ...]]"


class SQLiteStore(SQLiteReader):
    """A store in one file, for one process: a second one is refused.

    Whatever is queued while the last group was being written is the next group: one commit, one sync to disk, for all
    of it. If no write is running, the caller inserts and the writer thread only commits: for one busy thread, such as
    an event loop, that is half the work. Receipts come after the commit. A full
    disk fails what could not be written, and the store goes on when there is room again; after any other error of the
    disk it takes nothing more until it is opened anew.

    >>> from tempfile import TemporaryDirectory
    >>> from oddsmith.experts.given import GivenExperts
    >>> from oddsmith.policies.gts import GeneralizedThompsonSampling
    >>> from oddsmith.storage.events import Reward
    >>> policy = GeneralizedThompsonSampling(GivenExperts(["cold", "warm"]))
    >>> with TemporaryDirectory() as folder, SQLiteStore(f"{folder}/events.sqlite", policy) as store:
    ...     reward = Reward("a", 1.0, time=0.0)
    ...     store.append([reward, reward, Reward("a", 0.0, time=1.0)]).result()[:2]
    (Receipt(position=1, new=True, refused=None, parked=True), Receipt(position=1, new=False, ...))
    """

    def __init__(
        self,
        path: str | Path,
        policy: Policy,
        *,
        rule: Rule = "first",
        late: Late = "arrives",
        about: About | None = None,
    ) -> None:
        check_rule(rule, late)
        self.commits = 0
        self._broken, self._closed = "", False
        path = Path(path)
        with ExitStack() as undo:
            undo.callback(Lock(path).release)
            self._writing = undo.enter_context(closing(connect(path)))
            create_or_check_owner(self._writing, path, meta_of(policy, rule, late, about or {}))
            super().__init__(path)
            self._files = undo.pop_all()
        self._writer, self._entry = threading.Lock(), threading.Lock()
        self._outstanding = 0  # entries in the queue or being written
        self._queue: SimpleQueue[_Entry | _Begun | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._write_on, name=f"writer of {self.path.name}", daemon=True)
        self._thread.start()

    def append(self, events: Sequence[Event]) -> "Future[tuple[Receipt, ...]]":
        """Receipts in the order of `events`, once they are on disk."""
        rows = [row_of(event, self.rule) for event in events]
        future: Future[tuple[Receipt, ...]] = Future()
        with self._entry:
            if self._closed or self._broken:
                raise self._refusal()
            if self._outstanding == 0 and self._writer.acquire(blocking=False):
                self._begin(rows, future)
            else:
                self._outstanding += 1
                self._queue.put((rows, future))
        return future

    def keep(self, snapshot: Snapshot, content: bytes) -> None:
        """Keep a snapshot, and thin out the older ones."""
        if not 0 <= snapshot.position <= self.head():
            raise InvalidInput(f"a snapshot must be of a position up to {self.head()}; got {snapshot.position}")
        stay = thinned([snapshot.position, *(kept.position for kept in self.snapshots())])
        gone = "delete from snapshots where position not in (select value from json_each(?))"
        self._change(
            (
                "insert or replace into snapshots values (?, ?, ?, ?, ?, ?)",
                (*snapshot, snapshot_digest(snapshot, content), content),
            ),
            (gone, (json.dumps(sorted(stay)),)),
        )

    def erase(self, before: float) -> int:
        """Erase the contexts of decisions made before that time, on disk too; returns how many."""
        erased = self._change(
            ("delete from features where time < ?", (before,)), ("delete from contexts where time < ?", (before,))
        )
        try:
            with self._writer, self._reader:  # the write-ahead log still holds them
                (held, *_) = self._writing.execute("pragma wal_checkpoint(truncate)").fetchone()
        except sqlite3.Error as error:
            raise StoreFailed(f"{self.path} still holds contexts on disk, erase again: {error}") from error
        if held:
            raise StoreFailed(f"{self.path} is being read by another program: contexts are still on disk, erase again")
        return erased

    def close(self) -> None:
        """Write what is queued, then let go of the file."""
        with self._entry:
            if not self._closed:
                self._queue.put(None)
            self._closed = True
        self._thread.join()
        super().close()
        with self._writer:  # a snapshot may be on its way
            self._broken = self._broken or "it is closed"
            self._files.close()

    def _write_on(self) -> None:
        """The writer thread: group after group until the store is closed."""
        going = True
        while going:
            waiting = [self._queue.get()]
            while not self._queue.empty():
                waiting.append(self._queue.get())
            going = None not in waiting
            for entry in waiting:
                if isinstance(entry, _Begun):
                    self._finish(entry)
            entries = [entry for entry in waiting if entry is not None and not isinstance(entry, _Begun)]
            group = [(rows, future) for rows, future in entries if future.set_running_or_notify_cancel()]
            if group:
                self._write(group)
            with self._entry:
                self._outstanding -= len(waiting) - (not going)

    def _begin(self, rows: list[EventRow], future: "Future[tuple[Receipt, ...]]") -> None:
        """Insert in the caller's thread, which holds the right to write; the writer's thread commits."""
        future.set_running_or_notify_cancel()
        try:
            if self._broken:  # a snapshot that failed may have let go of the right just now
                raise self._refusal()
            self._writing.execute("begin immediate")
            receipts = tuple(_insert(self._writing, row) for row in rows)
        except BaseException as error:
            failure = self._failed(error)
            self._writer.release()
            future.set_exception(failure)
            return
        self._outstanding += 1
        self._queue.put(_Begun(receipts, future))

    def _finish(self, begun: "_Begun") -> None:
        try:
            self._writing.execute("commit")
            self.commits += 1
        except BaseException as error:
            begun.future.set_exception(self._failed(error))
        else:
            begun.future.set_result(begun.receipts)
        finally:
            self._writer.release()

    def _write(self, group: list[_Entry]) -> None:
        try:
            with self._transaction():
                answers = [tuple(_insert(self._writing, row) for row in rows) for rows, _ in group]
        except Exception as error:
            for _, future in group:
                future.set_exception(error)
            return
        self.commits += 1
        for (_, future), receipts in zip(group, answers, strict=True):
            future.set_result(receipts)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing on the writing connection."""
        with self._writer:
            if self._broken:
                raise self._refusal()
            try:
                self._writing.execute("begin immediate")
                yield
                self._writing.execute("commit")
            except BaseException as error:
                raise self._failed(error) from error

    def _refusal(self) -> StoreFailed:
        return StoreFailed(f"{self.path} takes no more events: {self._broken or 'it is closed'}")

    def _failed(self, error: BaseException) -> BaseException:
        """Undo what was begun; the error to tell. A disk that failed once is not trusted with more."""
        if isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF not in _PASSING:
            self._broken = f"{error}; open it anew"
        try:
            if self._writing.in_transaction:
                self._writing.execute("rollback")
        except sqlite3.Error as worse:  # the futures are resolved all the same
            self._broken = f"{worse}; open it anew"
        if isinstance(error, sqlite3.Error):
            return StoreFailed(f"{self.path} could not be written: {error}")
        return error

    def _change(self, *statements: tuple[str, tuple[object, ...]]) -> int:
        """Run statements in one transaction; returns how many rows the last one changed."""
        changed = 0
        with self._transaction():
            for statement in statements:
                changed = self._writing.execute(*statement).rowcount
        return changed


def _insert(connection: sqlite3.Connection, row: EventRow) -> Receipt:
    """Write a row if it is not there yet, inside a transaction."""
    line = row.line
    if line.kind == "correction" and not _has(connection, line.id, "reward", "default"):
        return unrewarded(line)
    parked = line.kind in EARLY and not _has(connection, line.id, "decision")
    written = connection.execute(_INSERT, row.columns).fetchone()
    if written is None:
        return _repeated(connection, row, parked=parked)
    position: int = written[0]
    if row.names is not None:
        connection.execute("insert or ignore into names values (?, ?)", row.names)
        connection.executemany(_FEATURES, ((one.digest, line.time, one.body) for one in row.features))
    if row.context is not None:
        connection.execute("insert into contexts values (?, ?, null, ?, ?)", (line.time, position, *row.context))
    return Receipt(position, True, parked=parked)


def _repeated(connection: sqlite3.Connection, row: EventRow, *, parked: bool) -> Receipt:
    """The receipt of a row that was there before: with its id, or for its unit or its slate."""
    line, known = row.line, row.known_by
    for where, names in (
        ("id = ? and kind = ? and key = ?", known[:3]),
        ("unit = ? and turn = ?", known[3:5]),
        ("slate = ? and slot = ?", known[5:]),
    ):
        found = connection.execute(f"select position, value, body from events where {where}", names).fetchone()
        if found is not None:
            break
    return repeated(line, *found, parked=parked)


def _has(connection: sqlite3.Connection, decision: str, *kinds: EventKind) -> bool:
    query = f"select 1 from events where id = ? and kind in ({', '.join('?' * len(kinds))}) limit 1"
    return connection.execute(query, (decision, *kinds)).fetchone() is not None
