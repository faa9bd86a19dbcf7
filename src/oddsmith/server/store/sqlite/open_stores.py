"""OpenStores: how many stores of a process have their files open, and for how long
after their last call."""

import resource
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from oddsmith.core.errors import StoreFailed

__all__ = ["OpenStores", "Rests", "room_for_stores"]

# of a store: two locks, its index, and the file and the write-ahead log for each of two
# connections
_FILES = 7
_OTHER_FILES = 860  # connections of clients, and what Python has open
_FEWEST, _MOST = 16, 512  # each has a thread
_PATIENCE = 10.0  # seconds that a store waits for another one to rest
_OPENERS = 4


class Rests(Protocol):
    """A store that can rest."""

    @property
    def idle_since(self) -> float | None:
        """When it was last called; None if it cannot rest now."""

    def rest(self) -> bool:
        """Close its files and leave; returns whether it did."""


class OpenStores:
    """At most `most` stores are open: the least recently called one rests first, and
    all after `idle_s` without a call.

    `openers` are threads for those who must not wait. With no store open there is
    nothing that wakes.
    """

    def __init__(
        self,
        most: int | None = None,
        idle_s: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.most, self.clock = most or room_for_stores(), clock
        self.openers = ThreadPoolExecutor(_OPENERS, thread_name_prefix="store opener")
        self._idle_s = idle_s
        self._open: set[Rests] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    @property
    def count(self) -> int:
        """How many are open."""
        return len(self._open)

    def enter(self, store: Rests) -> None:
        """Take a place for a store that is about to be opened, if need be that of
        another one."""
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
        """Give the place of a store back, whose files are closed."""
        with self._changed:
            self._open.discard(store)
            self._changed.notify_all()

    def rest_idle(self) -> int:
        """Let stores rest that were not called for a while; returns how many."""
        border = self.clock() - self._idle_s
        due = [
            store
            for store in self._idle()
            if (since := store.idle_since) is not None and since <= border
        ]
        return sum(store.rest() for store in due)

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
        """Stores that can rest, the least recently called first."""
        with self._changed:
            times = [
                (since, store)
                for store in self._open
                if (since := store.idle_since) is not None
            ]
        return [store for _, store in sorted(times, key=lambda one: one[0])]

    def _watch(self) -> None:
        """A thread, as long as stores are open."""
        while True:
            with self._changed:
                if not self._open:
                    self._thread = None
                    return
            time.sleep(min(1.0, self._idle_s / 4))
            self.rest_idle()


def room_for_stores() -> int:
    """How many stores may be open at the process's limit of files, beside the
    connections of a service.

    >>> 16 <= room_for_stores() <= 512
    True
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        _MOST
        if files == resource.RLIM_INFINITY
        else min(_MOST, max(_FEWEST, (files - _OTHER_FILES) // _FILES))
    )
