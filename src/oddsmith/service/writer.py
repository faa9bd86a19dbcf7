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
_MOST = 50_000  # events that may wait: beyond it, refusing is kinder than making everyone late


class Writer:
    """Appends for many requests with one hand-over to the store's thread per batch; `written` after each.

    Batches of nothing but decisions are not told: there is seldom anything to learn from them.
    """

    def __init__(self, store: Store, written: Callable[[], None]) -> None:
        self._store, self._written = store, written
        self._loop = asyncio.get_running_loop()
        self._waiting: list[_Waiting] = []
        self._busy = False
        self._count = 0

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
            self._loop.call_soon(self._send)  # whoever comes in this turn of the loop goes along
        return future

    def _send(self) -> None:
        batch, self._waiting, self._count = self._waiting, [], 0
        if not batch:
            self._busy = False
            return
        try:
            sent = self._store.append([event for events, _ in batch for event in events])
        except StoreFailed as error:
            self._fail(batch, error)
            return
        except Exception:  # somebody's event cannot be written: let each answer for its own
            self._send_apart(batch)
            return
        sent.add_done_callback(partial(self._tell, batch, self._send))

    def _send_apart(self, batch: list[_Waiting]) -> None:
        for events, future in batch:
            try:
                sent = self._store.append(events)
            except Exception as error:
                if not future.done():
                    future.set_exception(error)
                continue
            sent.add_done_callback(partial(self._tell, [(events, future)], None))
        self._loop.call_soon(self._send)

    def _tell(self, batch: list[_Waiting], then: Callable[[], None] | None, done: "Future[_Receipts]") -> None:
        """Hand what the store's thread has done to the event loop."""
        with suppress(RuntimeError):  # the loop is closed: no request waits for an answer any more
            self._loop.call_soon_threadsafe(self._answer, batch, done)
            if then is not None:
                self._loop.call_soon_threadsafe(then)

    def _answer(self, batch: list[_Waiting], done: "Future[_Receipts]") -> None:
        """Resolve the futures of a batch."""
        error = done.exception()
        if error is not None:
            known = error if isinstance(error, StoreFailed) else StoreFailed(f"events could not be written: {error}")
            for _, future in batch:
                if not future.done():
                    future.set_exception(known)
            return
        receipts, first = done.result(), 0
        for events, future in batch:
            if not future.done():
                future.set_result(receipts[first : first + len(events)])
            first += len(events)
        if not all(type(event) is DecisionMade for events, _ in batch for event in events):
            self._written()

    def _fail(self, batch: list[_Waiting], error: StoreFailed) -> None:
        for _, future in batch:
            if not future.done():
                future.set_exception(error)
        self._loop.call_soon(self._send)
