"""RestingStore: a SQLiteStore that has its files open only while it is called."""

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


class _Rested(NamedTuple):
    """A store as it was when it went to rest: the last position, the oldest context,
    what its files looked like."""

    head: int
    oldest: float
    signature: _Signature


class RestingStore(StoreReader):
    """A store whose files, thread and lock are given back after a while without a call,
    and taken again by the next.

    `make` opens it. When it is opened again it must be the same store, with all that
    was answered; what is not is refused until the right one is back. So is a file that
    another process has taken meanwhile. `append` never waits for the files: they are
    opened in another thread.
    """

    queries = SQLiteReader.queries
    append: Callable[[Sequence[Event]], "Future[_Receipts]"]
    """As `Store.append`: that of the open store itself, and `append_later` at all other
    times."""

    def __init__(
        self, path: str | Path, make: Callable[[], SQLiteStore], stores: OpenStores
    ) -> None:
        self.path = Path(path)
        self._make, self._stores = make, stores
        self._state = threading.Condition()
        self._inner: SQLiteStore | None = None
        self._users, self._used, self._commits = 0, 0.0, 0
        # being opened or closed; closed for good
        self._is_moving = self._is_closed = False
        self._waiting: list[tuple[Sequence[Event], Future[_Receipts]]] = []
        self._rested: _Rested | None = None
        self.append = self.append_later
        with self.awake() as inner:
            self.introduce(self.path, inner.meta)

    def writers(self) -> list[str]:
        """The process that has the lock of the file, if one has."""
        holder = holder_of(self.path)
        return [] if holder is None else [f"process {holder}"]

    @property
    def idle_since(self) -> float | None:
        """When it was last called; None if it rests, is in use, or moves."""
        inner = self._inner
        if inner is None or self._is_moving or self._users or self._waiting:
            return None
        if inner.commits != self._commits:  # appending does not tell
            self._commits, self._used = inner.commits, self._stores.clock()
        return self._used

    @property
    def write_trouble(self) -> str:
        """What keeps it from writing; a store that has trouble does not rest."""
        inner = self._inner
        return "" if inner is None else inner.write_trouble

    def append_later(self, events: Sequence[Event]) -> "Future[_Receipts]":
        """Receipts in the order of `events`, once the store is open and they are on
        disk."""
        for event in events:
            row_of(event, self.rule)  # what cannot be written is refused at once
        future: Future[_Receipts] = Future()
        with self._state:
            if self._is_closed:
                raise StoreFailed(f"{self.path} takes no more events: it is closed")
            self._waiting.append((events, future))
            if len(self._waiting) == 1:
                self._stores.openers.submit(self._append_waiting)
        return future

    def head(self) -> int:
        """The last position; a store at rest need not be opened to tell, while its
        files are as they were."""
        rested = self._as_it_was()
        return super().head() if rested is None else rested.head

    def keep(self, snapshot: Snapshot, content: bytes) -> None:
        """Keep a snapshot, and thin out the older ones."""
        with self.awake() as inner:
            inner.keep(snapshot, content)

    def erase(self, before: float) -> int:
        """Erase the contexts of decisions made before that time; it is not opened where
        there are none."""
        rested = self._as_it_was()
        if rested is not None and before <= rested.oldest:
            return 0
        with self.awake() as inner:
            return inner.erase(before)

    def copy(self, part: Path) -> None:
        """Copy the file as it is now."""
        with self.awake() as inner:
            inner.copy(part)

    def rest(self) -> bool:
        """Write what is queued and let go of the files, if it is idle; returns whether
        it did."""
        with self._state:
            inner = self._inner
            if inner is None or self.idle_since is None:
                return False
            self._is_moving, self.append = True, self.append_later
        try:
            # after all that is queued; a store that cannot write stays open, and tells
            inner.append([]).result()
            head, ((oldest,),) = inner.answered, inner._fetch(_OLDEST)
            inner.close()
            if inner.answered > head:  # an event came just before
                oldest = -inf
            self._rested = _Rested(
                inner.answered, inf if oldest is None else oldest, _signature(self.path)
            )
        except StoreFailed:
            self._moved(inner)
            return False
        self._moved(None)
        self._stores.leave(self)
        return True

    def close(self) -> None:
        """Write what is queued, then let go of the files for good."""
        with self._state:
            self._state.wait_for(lambda: not self._is_moving and not self._waiting)
            self._is_closed = True
            inner, self._inner = self._inner, None
        if inner is not None:
            inner.close()
            self._stores.leave(self)

    @contextmanager
    def awake(self) -> Iterator[SQLiteStore]:
        """The store with its files open, which stay open meanwhile."""
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

    def _as_it_was(self) -> _Rested | None:
        """What is known of a store at rest, while its files are as they were; else
        None."""
        rested = self._rested
        is_same = (
            self._inner is None
            and rested is not None
            and _signature(self.path) == rested.signature
        )
        return rested if is_same else None

    def _open(self) -> SQLiteStore:
        with self._state:
            self._state.wait_for(lambda: not self._is_moving)
            if self._is_closed:
                raise StoreFailed(f"{self.path} takes no more events: it is closed")
            self._users += 1
            if self._inner is not None:
                return self._inner
            self._is_moving = True
        inner = None
        try:
            self._stores.enter(self)
            try:
                inner = (
                    self._make()
                    if self._rested is None
                    else self._make_again(self._rested)
                )
                inner._append_closed = self.append_later  # type: ignore[method-assign]  # for who comes just then
            except BaseException:
                self._stores.leave(self)
                raise
        finally:
            self._moved(inner, users=-1 if inner is None else 0)
        return inner

    def _moved(self, inner: SQLiteStore | None, users: int = 0) -> None:
        with self._state:
            self._inner, self._is_moving = inner, False
            self._users += users
            if inner is not None and not self._waiting:
                self.append = inner.append
            self._state.notify_all()

    def _make_again(self, rested: _Rested) -> SQLiteStore:
        try:
            # opening it to write would make a new store of it
            if _signature(self.path)[:1] != rested.signature[:1]:
                with SQLiteReader(self.path) as reader:
                    self._check(reader, rested)
            inner = self._make()
        except BadFile as error:
            raise self._refusal(str(error)) from error
        try:
            self._check(inner, rested)
        except BaseException:
            inner.close()
            raise
        return inner

    def _check(self, found: SQLiteReader, rested: _Rested) -> None:
        if (found.secret, found.epochs) != (self.secret, self.epochs):
            raise self._refusal("another store has taken its place")
        if (head := found.head()) < rested.head:
            raise self._refusal(
                f"it ends at position {head}, and {rested.head} was answered"
            )

    def _refusal(self, why: str) -> StoreFailed:
        next_step = "put it back, or restart to go on with what is there"
        return StoreFailed(
            f"{self.path} must be the store that was opened; {why}: {next_step}"
        )

    def _append_waiting(self) -> None:
        try:
            with self.awake() as inner, self._state:
                for events, future in self._taken():
                    try:
                        inner.append(events).add_done_callback(
                            partial(_hand_on, future)
                        )
                    except Exception as error:
                        future.set_exception(error)
                self.append = inner.append
        except Exception as error:
            with self._state:
                taken = self._taken()
            for _, future in taken:
                future.set_exception(error)

    def _taken(self) -> list[tuple[Sequence[Event], "Future[_Receipts]"]]:
        """What waits, which is the caller's from now on."""
        taken, self._waiting = self._waiting, []
        self._state.notify_all()
        return taken


def _hand_on(future: "Future[_Receipts]", done: "Future[_Receipts]") -> None:
    error = done.exception()
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(done.result())


def _signature(path: Path) -> _Signature:
    """What changes when a store's file, or its write-ahead log, is written or
    replaced."""
    return _stamp(path), _stamp(path.with_name(path.name + "-wal"))


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        seen = os.stat(path)
    except OSError:
        return None
    return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns
