"""RestingStore: a SQLiteStore that opens its files only while it is used."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from oddsmith.core.errors import BadFile, StoreFailed
from oddsmith.server.store.events import Event
from oddsmith.server.store.protocol import Receipt, Snapshot
from oddsmith.server.store.reader import StoreReader
from oddsmith.server.store.rows import row_of
from oddsmith.server.store.sqlite.file import holder_of
from oddsmith.server.store.sqlite.open_stores import OpenStores
from oddsmith.server.store.sqlite.reader import SQLiteReader
from oddsmith.server.store.sqlite.store import SQLiteStore

__all__ = ["RestingStore"]

_Receipts: TypeAlias = tuple[Receipt, ...]
_Signature: TypeAlias = tuple[tuple[int, ...] | None, ...]
_OLDEST = (
    "select min(time) from (select min(time) as time from contexts union all select "
    "min(time) from features)"
)


class _IdleState(NamedTuple):
    """State of a store when its files were closed: the last position, the time of the
    oldest context, and the signature of the files."""

    head: int
    oldest: float
    signature: _Signature


class RestingStore(StoreReader):
    """A store that closes its files, thread and lock while it is idle.

    The next call opens the files again with `make`. They must still contain the same
    store, with all events that were confirmed to callers. Otherwise, or if another
    process uses the file, calls fail until the right store is there and free. `append`
    never waits for the files, because another thread opens them.
    """

    queries = SQLiteReader.queries
    append: Callable[[Sequence[Event]], "Future[_Receipts]"]
    """Implementation of `Store.append`: the method of the inner store while it is open,
    otherwise `append_later`."""

    def __init__(
        self, path: str | Path, make: Callable[[], SQLiteStore], stores: OpenStores
    ) -> None:
        self.path = Path(path)
        self._make = make
        self._stores = stores
        self._state = threading.Condition()
        self._inner: SQLiteStore | None = None
        self._users = 0
        self._used = 0.0  # time of the last call
        self._commits = 0
        self._is_moving = False  # the file is being opened or closed
        self._is_closed = False
        self._waiting: list[tuple[Sequence[Event], Future[_Receipts]]] = []
        self._idle: _IdleState | None = None
        self.append = self.append_later
        with self.awake() as inner:
            self.introduce(self.path, inner.meta)

    def writers(self) -> list[str]:
        """Return the process that has the lock of the file, if there is one."""
        holder = holder_of(self.path)
        return [] if holder is None else [f"process {holder}"]

    @property
    def idle_since(self) -> float | None:
        """The time of the last call; None if the store is closed, in use, or being
        opened or closed."""
        inner = self._inner
        if inner is None or self._is_moving or self._users or self._waiting:
            return None
        if inner.commits != self._commits:  # appends do not update `_used`
            self._commits = inner.commits
            self._used = self._stores.clock()
        return self._used

    @property
    def write_trouble(self) -> str:
        """The reason why the store cannot write; empty if it can. A store with a fault
        is not closed while idle."""
        inner = self._inner
        return "" if inner is None else inner.write_trouble

    def append_later(self, events: Sequence[Event]) -> "Future[_Receipts]":
        """Append events after the files were opened; return a future with their
        receipts, in the same order, when they are on disk."""
        for event in events:
            row_of(event, self.rule)  # raises at once if an event cannot be written
        future: Future[_Receipts] = Future()
        with self._state:
            if self._is_closed:
                raise StoreFailed(f"{self.path} accepts no more events: it is closed")
            self._waiting.append((events, future))
            if len(self._waiting) == 1:
                self._stores.openers.submit(self._append_waiting)
        return future

    def head(self) -> int:
        """Return the last position. Files that have not changed are not opened."""
        if self._inner is not None:
            return super().head()
        idle = self._unchanged()
        return super().head() if idle is None else idle.head

    def keep(self, snapshot: Snapshot, content: bytes) -> None:
        """Save a snapshot, and delete older ones (`retained_positions`)."""
        with self.awake() as inner:
            inner.keep(snapshot, content)

    def erase(self, before: float) -> int:
        """Erase the contexts of decisions made before that time.

        The files are not opened if they have not changed and contain no such contexts.
        """
        idle = self._unchanged()
        if idle is not None and before <= idle.oldest:
            return 0
        with self.awake() as inner:
            return inner.erase(before)

    def copy(self, part: Path) -> None:
        """Write a consistent copy of the file."""
        with self.awake() as inner:
            inner.copy(part)

    def rest(self) -> bool:
        """If the store is idle, write its queue and close its files. Return whether
        they were closed."""
        with self._state:
            inner = self._inner
            if inner is None or self.idle_since is None:
                return False
            self._is_moving = True
            self.append = self.append_later
        try:
            # An empty append waits for the queue. A store that cannot write stays open,
            # because it reports why.
            inner.append([]).result()
            head = inner.last_answer
            ((oldest,),) = inner._fetch(_OLDEST)
            inner.close()
            if oldest is None:
                oldest = inf
            if inner.last_answer > head:  # an event arrived in the meantime
                oldest = -inf
            self._idle = _IdleState(inner.last_answer, oldest, _signature(self.path))
        except StoreFailed:
            self._end_move(inner)
            return False
        self._end_move(None)
        self._stores.leave(self)
        return True

    def close(self) -> None:
        """Write the queue, then close the files permanently."""
        with self._state:
            self._state.wait_for(lambda: not self._is_moving and not self._waiting)
            self._is_closed = True
            inner = self._inner
            self._inner = None
        if inner is not None:
            inner.close()
            self._stores.leave(self)

    @contextmanager
    def awake(self) -> Iterator[SQLiteStore]:
        """Yield the open store, and keep its files open during the block."""
        inner = self._open()
        try:
            yield inner
        finally:
            with self._state:
                self._users -= 1
                self._used = self._stores.clock()

    def _fetch(
        self, query: str, *values: object, patience: float = 0.0
    ) -> list[tuple[Any, ...]]:
        with self.awake() as inner:
            return inner._fetch(query, *values)

    def _unchanged(self) -> _IdleState | None:
        """Return the state of an idle store, if its files have not changed."""
        idle = self._idle
        if self._inner is not None or idle is None:
            return None
        if _signature(self.path) != idle.signature:
            return None
        return idle

    def _open(self) -> SQLiteStore:
        with self._state:
            while self._is_moving:
                self._state.wait()
            if self._is_closed:
                raise StoreFailed(f"{self.path} accepts no more events: it is closed")
            self._users += 1
            if self._inner is not None:
                return self._inner
            self._is_moving = True
        inner = None
        try:
            self._stores.enter(self)
            try:
                if self._idle is None:
                    inner = self._make()
                else:
                    inner = self._make_again(self._idle)
                # used by a caller that still calls the inner store's `append` after the
                # file was closed
                inner._append_closed = self.append_later  # type: ignore[method-assign]
            except BaseException:
                self._stores.leave(self)
                raise
        finally:
            self._end_move(inner, users=-1 if inner is None else 0)
        return inner

    def _end_move(self, inner: SQLiteStore | None, users: int = 0) -> None:
        with self._state:
            self._inner = inner
            self._is_moving = False
            self._users += users
            if inner is not None and not self._waiting:
                self.append = inner.append
            self._state.notify_all()

    def _make_again(self, idle: _IdleState) -> SQLiteStore:
        try:
            # Read the file first: if it is not this store, opening it for writing could
            # turn it into a store.
            if _signature(self.path)[:1] != idle.signature[:1]:
                with SQLiteReader(self.path) as reader:
                    self._check(reader, idle)
            inner = self._make()
        except BadFile as error:
            raise self._refusal(str(error)) from error
        try:
            self._check(inner, idle)
        except BaseException:
            inner.close()
            raise
        return inner

    def _check(self, found: SQLiteReader, idle: _IdleState) -> None:
        if (found.secret, found.epochs) != (self.secret, self.epochs):
            raise self._refusal("another store has taken its place")
        head = found.head()
        if head < idle.head:
            raise self._refusal(
                f"it ends at position {head}, and {idle.head} was answered"
            )

    def _refusal(self, why: str) -> StoreFailed:
        next_step = "put it back, or restart to go on with what is there"
        return StoreFailed(
            f"{self.path} must be the store that was opened; {why}: {next_step}"
        )

    def _append_waiting(self) -> None:
        try:
            with self.awake() as inner, self._state:
                for events, future in self._take_waiting():
                    try:
                        written = inner.append(events)
                        written.add_done_callback(partial(_hand_on, future))
                    except Exception as error:
                        future.set_exception(error)
                self.append = inner.append
        except Exception as error:
            with self._state:
                waiting = self._take_waiting()
            for _, future in waiting:
                future.set_exception(error)

    def _take_waiting(self) -> list[tuple[Sequence[Event], "Future[_Receipts]"]]:
        """Remove all entries from the queue, and return them."""
        waiting = self._waiting
        self._waiting = []
        self._state.notify_all()
        return waiting


def _hand_on(future: "Future[_Receipts]", done: "Future[_Receipts]") -> None:
    error = done.exception()
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(done.result())


def _signature(path: Path) -> _Signature:
    """Return a value that changes if the file or its log is written or replaced."""
    return _stamp(path), _stamp(path.with_name(path.name + "-wal"))


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns
