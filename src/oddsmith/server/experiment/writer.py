"""Writer: the queue of one event loop in front of a store. What waits while a batch is
written is the next batch."""

import asyncio
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from oddsmith.core.errors import StoreFailed
from oddsmith.server.store.events import DecisionMade, Event
from oddsmith.server.store.protocol import Receipt, Store

__all__ = ["BUCKETS", "Writer", "Writes"]

_Receipts: TypeAlias = tuple[Receipt, ...]
_Waiting: TypeAlias = "tuple[Sequence[Event], asyncio.Future[_Receipts]]"
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
"""Seconds, for counts of how long commits take."""

_LATER = 0.25  # seconds
# arms of decisions; to write more takes the loop too long
_INLINE_ARMS = 20_000
_FEATURES = 10  # arms that cost as much as one with features
_MOST = 50_000  # events that may wait: beyond it, refusing is better than delaying all


class Writes:
    """What became of the batches that were handed to a store; `last` is the time of the
    last good one, steady."""

    def __init__(self) -> None:
        self.commits = self.events = self.failures = self.head = 0
        self.seconds = 0.0
        self.last: float | None = None
        # how many commits took so long, from hand-over to commit
        self.buckets = [0] * (len(BUCKETS) + 1)


class Writer:
    """Appends for many requests with one hand-over to the store's thread per batch;
    `written` after each.

    After decisions alone `written` is called a little later, once for many: there is
    seldom anything to learn from them, but rewards may have come before their
    decisions.
    """

    def __init__(self, store: Store, written: Callable[[], None]) -> None:
        self._store, self._written = store, written
        self._loop = asyncio.get_running_loop()
        self._waiting: list[_Waiting] = []
        self._busy = False
        self._count = 0
        self._later: asyncio.TimerHandle | None = None
        self.writes = Writes()

    @property
    def waiting(self) -> int:
        """How many events are not yet handed to the store."""
        return self._count

    def append(self, events: Sequence[Event]) -> "asyncio.Future[_Receipts]":
        """Receipts once the events are on disk."""
        if self._count + len(events) > _MOST:
            self.writes.failures += 1
            raise StoreFailed(
                f"the store is too slow: {self._count:,} events are waiting; try again "
                "later"
            )
        future: asyncio.Future[_Receipts] = self._loop.create_future()
        self._waiting.append((events, future))
        self._count += len(events)
        if not self._busy:
            self._busy = True
            # all appends of this turn of the loop go together
            self._loop.call_soon(self._send)
        return future

    def _send(self) -> None:
        """Hand the next batch over to the store, and answer once it is on disk."""
        batch = self._waiting
        self._waiting = []
        self._count = 0
        if not batch:
            self._busy = False
            return
        begun = time.perf_counter()
        events = [event for events, _ in batch for event in events]
        n_arms = 0  # the work that the store has with these events, in arms
        for event in events:
            if isinstance(event, DecisionMade):
                n_features = len(event.decision.features or ())
                n_arms += len(event.decision.propensities) + _FEATURES * n_features
        if n_arms > _INLINE_ARMS:
            handed = self._loop.run_in_executor(None, self._store.append, events)
            handed.add_done_callback(partial(self._follow, batch, begun))
            return
        try:
            written = self._store.append(events)
        except Exception as error:
            self._give_back(batch, error)
        else:
            written.add_done_callback(partial(self._tell, batch, begun, True))

    def _follow(
        self,
        batch: list[_Waiting],
        begun: float,
        handed: "asyncio.Future[Future[_Receipts]]",
    ) -> None:
        """Answer a batch that a thread has handed over, once it is on disk."""
        try:
            written = handed.result()
        except Exception as error:
            self._give_back(batch, error)
        else:
            written.add_done_callback(partial(self._tell, batch, begun, True))

    def _give_back(self, batch: list[_Waiting], error: Exception) -> None:
        """Fail a batch that the store does not take. If only one of its events cannot
        be written, write each request by itself."""
        if len(batch) == 1 or isinstance(error, StoreFailed):
            self._fail(batch, error)
            self._loop.call_soon(self._send)
        else:
            self._send_apart(batch)

    def _send_apart(self, batch: list[_Waiting]) -> None:
        for one in batch:
            begun = time.perf_counter()
            try:
                sent = self._store.append(one[0])
            except Exception as error:
                self._fail([one], error)
            else:
                sent.add_done_callback(partial(self._tell, [one], begun, False))
        self._loop.call_soon(self._send)

    def _tell(
        self, batch: list[_Waiting], begun: float, last: bool, done: "Future[_Receipts]"
    ) -> None:
        """Hand what the store's thread has done to the event loop."""
        took = time.perf_counter() - begun
        # the loop is closed: no request waits for an answer any more
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._answer, batch, took, last, done)

    def _answer(
        self, batch: list[_Waiting], took: float, last: bool, done: "Future[_Receipts]"
    ) -> None:
        """Resolve the futures of a batch, then send the next one."""
        error = done.exception()
        if error is not None:
            is_ours = isinstance(error, StoreFailed)
            self._fail(
                batch,
                error
                if is_ours
                else StoreFailed(f"events could not be written: {error}"),
            )
        else:
            receipts, first = done.result(), 0
            writes = self.writes
            writes.commits, writes.seconds, writes.last = (
                writes.commits + 1,
                writes.seconds + took,
                time.monotonic(),
            )
            writes.buckets[bisect_left(BUCKETS, took)] += 1
            for receipt in receipts:
                writes.events += receipt.new
                writes.head = max(writes.head, receipt.position)
            for events, future in batch:
                if not future.done():
                    future.set_result(receipts[first : first + len(events)])
                first += len(events)
            if not all(
                type(event) is DecisionMade for events, _ in batch for event in events
            ):
                self._call()
            elif self._later is None:
                self._later = self._loop.call_later(_LATER, self._call)
        if last:
            self._send()

    def _call(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._written()

    def _fail(self, batch: list[_Waiting], error: BaseException) -> None:
        self.writes.failures += isinstance(error, StoreFailed)
        for _, future in batch:
            if not future.done():
                future.set_exception(error)
