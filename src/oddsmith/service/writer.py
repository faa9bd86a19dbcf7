"""Writer: the queue of one event loop in front of a store. What waits while a batch is written is the next batch."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from oddsmith.errors import StoreFailed
from oddsmith.storage.base import Receipt, Store
from oddsmith.storage.events import DecisionMade, Event

__all__ = ["Writer"]

_Receipts: TypeAlias = tuple[Receipt, ...]
_Waiting: TypeAlias = "tuple[Sequence[Event], asyncio.Future[_Receipts]]"
_LATER = 0.25  # seconds
_MOST = 50_000  # events that may wait: beyond it, refusing is better than delaying all


class Writer:
    """Appends for many requests with one hand-over to the store's thread per batch; `written` after each.

    After decisions alone `written` is called a little later, once for many: there is seldom anything to learn from
    them, but rewards may have come before their decisions.
    """

    def __init__(self, store: Store, written: Callable[[], None]) -> None:
        self._store, self._written = store, written
        self._loop = asyncio.get_running_loop()
        self._waiting: list[_Waiting] = []
        self._busy = False
        self._count = 0
        self._later: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """How many events are not yet handed to the store."""
        return self._count

    def append(self, events: Sequence[Event]) -> "asyncio.Future[_Receipts]":
        """Receipts once the events are on disk."""
        if self._count + len(events) > _MOST:
            raise StoreFailed(f"the store is too slow: {self._count:,} events are waiting; try again later")
        future: asyncio.Future[_Receipts] = self._loop.create_future()
        self._waiting.append((events, future))
        self._count += len(events)
        if not self._busy:
            self._busy = True
            self._loop.call_soon(self._send)  # all appends of this turn of the loop go together
        return future

    def _send(self) -> None:
        batch, self._waiting, self._count = self._waiting, [], 0
        if not batch:
            self._busy = False
            return
        try:
            sent = self._store.append([event for events, _ in batch for event in events])
        except StoreFailed as error:
            _fail(batch, error)
            self._loop.call_soon(self._send)
        except Exception:  # one event cannot be written: each request is written apart
            self._send_apart(batch)
        else:
            sent.add_done_callback(partial(self._tell, batch, True))

    def _send_apart(self, batch: list[_Waiting]) -> None:
        for one in batch:
            try:
                sent = self._store.append(one[0])
            except Exception as error:
                _fail([one], error)
            else:
                sent.add_done_callback(partial(self._tell, [one], False))
        self._loop.call_soon(self._send)

    def _tell(self, batch: list[_Waiting], last: bool, done: "Future[_Receipts]") -> None:
        """Hand what the store's thread has done to the event loop."""
        with suppress(RuntimeError):  # the loop is closed: no request waits for an answer any more
            self._loop.call_soon_threadsafe(self._answer, batch, last, done)

    def _answer(self, batch: list[_Waiting], last: bool, done: "Future[_Receipts]") -> None:
        """Resolve the futures of a batch, then send the next one."""
        error = done.exception()
        if error is not None:
            is_ours = isinstance(error, StoreFailed)
            _fail(batch, error if is_ours else StoreFailed(f"events could not be written: {error}"))
        else:
            receipts, first = done.result(), 0
            for events, future in batch:
                if not future.done():
                    future.set_result(receipts[first : first + len(events)])
                first += len(events)
            if not all(type(event) is DecisionMade for events, _ in batch for event in events):
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


def _fail(batch: list[_Waiting], error: BaseException) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)
