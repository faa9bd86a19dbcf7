"""Writer: queue the events of one event loop, and pass them to a store in batches.

Events that arrive while a batch is written make the next batch.
"""

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
"""Bounds of the histogram of commit times, in seconds."""

_LATER = 0.25  # seconds from a batch of decisions to the call of `written`
# arms per batch of decisions; serializing larger batches on the event loop would block
# it too long
_INLINE_ARMS = 20_000
# an arm with features takes as long as this number of arms without features
_FEATURES = 10
# maximum number of queued events; if there are more, new events are refused, because
# all would be delayed
_MOST = 50_000


class Writes:
    """Counts and times of the batches that were passed to a store.

    `last` is the time of the last commit, by the steady clock.
    """

    def __init__(self) -> None:
        self.commits = 0
        self.events = 0
        self.failures = 0
        self.head = 0
        self.seconds = 0.0  # total time from hand-over to commit
        self.last: float | None = None
        self.buckets = [0] * (len(BUCKETS) + 1)

    def note_commit(self, took: float, receipts: _Receipts) -> None:
        """Count a commit that took this number of seconds."""
        self.commits += 1
        self.seconds += took
        self.last = time.monotonic()
        self.buckets[bisect_left(BUCKETS, took)] += 1
        for receipt in receipts:
            self.events += receipt.new
            self.head = max(self.head, receipt.position)


class Writer:
    """Appends the events of many requests. Each batch is passed to the store with one
    call.

    `written` is called after each batch. After a batch of decisions alone it is called
    later, once for many batches: such batches rarely contain anything to learn, except
    rewards that arrived before their decisions.
    """

    def __init__(self, store: Store, written: Callable[[], None]) -> None:
        self._store = store
        self._written = written
        self._loop = asyncio.get_running_loop()
        self._waiting: list[_Waiting] = []
        self._busy = False
        self._count = 0
        self._later: asyncio.TimerHandle | None = None
        self.writes = Writes()

    @property
    def waiting(self) -> int:
        """The number of events that are not handed to the store yet."""
        return self._count

    def append(self, events: Sequence[Event]) -> "asyncio.Future[_Receipts]":
        """Return the receipts once the events are on disk."""
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
            # deferred, so that all appends of this iteration of the loop form one batch
            self._loop.call_soon(self._send)
        return future

    def _send(self) -> None:
        """Pass the next batch to the store, and resolve its futures when it is on
        disk."""
        batch = self._waiting
        self._waiting = []
        self._count = 0
        if not batch:
            self._busy = False
            return
        begun = time.perf_counter()
        events = [event for events, _ in batch for event in events]
        n_arms = 0  # estimate of the store's work, in arms
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
        """Resolve the futures of a batch that a thread has passed to the store, when
        the batch is on disk."""
        try:
            written = handed.result()
        except Exception as error:
            self._give_back(batch, error)
        else:
            written.add_done_callback(partial(self._tell, batch, begun, True))

    def _give_back(self, batch: list[_Waiting], error: Exception) -> None:
        """Fail a batch that the store does not accept. If only one of its events cannot
        be written, write each request separately."""
        if len(batch) == 1 or isinstance(error, StoreFailed):
            self._fail(batch, error)
            self._loop.call_soon(self._send)
        else:
            self._send_apart(batch)

    def _send_apart(self, batch: list[_Waiting]) -> None:
        for request in batch:
            events, _ = request
            begun = time.perf_counter()
            try:
                sent = self._store.append(events)
            except Exception as error:
                self._fail([request], error)
            else:
                sent.add_done_callback(partial(self._tell, [request], begun, False))
        self._loop.call_soon(self._send)

    def _tell(
        self, batch: list[_Waiting], begun: float, last: bool, done: "Future[_Receipts]"
    ) -> None:
        """Pass a result from the store's thread to the event loop."""
        took = time.perf_counter() - begun
        # if the loop is closed, no request waits for an answer
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._answer, batch, took, last, done)

    def _answer(
        self, batch: list[_Waiting], took: float, last: bool, done: "Future[_Receipts]"
    ) -> None:
        """Resolve the futures of a batch, then send the next one."""
        error = done.exception()
        if error is None:
            receipts = done.result()
            self.writes.note_commit(took, receipts)
            first = 0
            are_decisions = True
            for events, future in batch:
                if not future.done():
                    future.set_result(receipts[first : first + len(events)])
                first += len(events)
                are_decisions &= all(type(event) is DecisionMade for event in events)
            if not are_decisions:
                self._call()
            elif self._later is None:
                self._later = self._loop.call_later(_LATER, self._call)
        elif isinstance(error, StoreFailed):
            self._fail(batch, error)
        else:
            self._fail(batch, StoreFailed(f"events could not be written: {error}"))
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
