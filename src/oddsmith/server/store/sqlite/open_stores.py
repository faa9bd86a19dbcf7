"""OpenStores: limit the number of stores that a process has open."""

import resource
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from oddsmith.core.errors import StoreFailed

__all__ = ["OpenStores", "Rests", "room_for_stores"]

# Descriptors per store: two locks, its index, and two connections with the database
# file and its write-ahead log each.
_FILES = 7
_OTHER_FILES = 860  # reserved for client connections and Python itself
_FEWEST = 16
_MOST = 512  # limited because each open store has a thread
_PATIENCE = 10.0  # seconds to wait until another store is closed
_OPENERS = 4


class Rests(Protocol):
    """Protocol of a store that can close its files while it is idle."""

    @property
    def idle_since(self) -> float | None:
        """The time of the last call; None if the store cannot close its files now."""

    def rest(self) -> bool:
        """Close the files if the store is idle; return whether they were closed."""


class OpenStores:
    """Keeps at most `most` stores open.

    If another store is needed, the least recently used one is closed. Every store is
    closed after `idle_s` seconds without a call. `openers` are threads that open stores
    for callers that must not wait. While no store is open, no thread runs.
    """

    def __init__(
        self,
        most: int | None = None,
        idle_s: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.most = most or room_for_stores()
        self.clock = clock
        self.openers = ThreadPoolExecutor(_OPENERS, thread_name_prefix="store opener")
        self._idle_s = idle_s
        self._open: set[Rests] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    @property
    def count(self) -> int:
        """The number of open stores."""
        return len(self._open)

    def enter(self, store: Rests) -> None:
        """Count a store as open. If there are too many, close another one, or wait
        until one is idle."""
        end = time.monotonic() + _PATIENCE
        while not self._take(store):
            idle = self._idle()
            if idle and idle[0].rest():
                continue
            if time.monotonic() > end:
                raise StoreFailed(
                    f"at most {self.most} stores may be open at a time, and all are "
                    "busy; try again later"
                )
            with self._changed:
                self._changed.wait(0.05)

    def leave(self, store: Rests) -> None:
        """Count a store as closed."""
        with self._changed:
            self._open.discard(store)
            self._changed.notify_all()

    def rest_idle(self) -> int:
        """Close all stores that have been idle for `idle_s` seconds; return their
        number."""
        border = self.clock() - self._idle_s
        closed = 0
        for store in self._idle():
            since = store.idle_since
            if since is not None and since <= border:
                closed += store.rest()
        return closed

    def _take(self, store: Rests) -> bool:
        with self._changed:
            if len(self._open) >= self.most:
                return False
            self._open.add(store)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._watch, name="resting stores", daemon=True
                )
                self._thread.start()
            return True

    def _idle(self) -> list[Rests]:
        """Return the stores that can be closed, the least recently used first."""
        times: dict[Rests, float] = {}
        with self._changed:
            for store in self._open:
                since = store.idle_since
                if since is not None:
                    times[store] = since
        return sorted(times, key=times.__getitem__)

    def _watch(self) -> None:
        """Close idle stores, in a thread that ends with the last open store."""
        while True:
            with self._changed:
                if not self._open:
                    self._thread = None
                    return
            time.sleep(min(1.0, self._idle_s / 4))
            self.rest_idle()


def room_for_stores() -> int:
    """Return how many stores can be open within the process's limit on open files.

    >>> 16 <= room_for_stores() <= 512
    True
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return _MOST
    room = (files - _OTHER_FILES) // _FILES
    return min(_MOST, max(_FEWEST, room))
