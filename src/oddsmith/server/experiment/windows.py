"""Reward windows: a decision without a reward in time gets the default reward, written
as an event."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from math import inf

from oddsmith.core.errors import StoreFailed
from oddsmith.server.experiment.clock import Alarms
from oddsmith.server.experiment.writer import Writer
from oddsmith.server.store.events import DefaultReward
from oddsmith.server.store.protocol import Store, Window

__all__ = ["Windows"]

_CHUNK = 1000


class Windows:
    """Closes windows in the order in which they opened; `close_due` moves a cursor over
    the log.

    Replicas may do this side by side: the event of a default is known by its decision.
    Windows that a clock which was ahead opened in the future do not delay the others:
    they are put aside until their time comes. Decisions among `unlearnable_ids` get no
    default.
    """

    def __init__(
        self,
        store: Store,
        writer: Writer,
        clock: Callable[[], float],
        window: float,
        default: float,
        *,
        unlearnable_ids: Callable[[Sequence[str]], Awaitable[set[str]]] | None = None,
        hold: Callable[[], str] = str,
    ) -> None:
        self._hold = hold
        self._unlearnable_ids = unlearnable_ids
        self._store, self._writer, self._clock = store, writer, clock
        self._window, self._default = window, default
        self._cursor = 0
        self._ahead: list[Window] = []
        self._wake, self._alarm = asyncio.Event(), inf
        self.next_close = inf

    def change(self, window: float, default: float) -> None:
        """From now on all windows that are open have this length, and close with this
        default."""
        self._window, self._default = window, default
        self.wake()

    def wake(self) -> None:
        """A window may have opened."""
        self._wake.set()

    async def run(self, alarms: Alarms | None) -> None:
        """Close what is due, for ever.

        It sleeps until the next one closes or something is written; without `alarms` it
        looks again all the time, for what other replicas have opened.
        """
        while True:
            self._wake.clear()
            try:
                is_well = not self._hold()
                if is_well:
                    await self.close_due()
            except StoreFailed:  # requests that need an answer tell the store's trouble
                is_well = False
            await asyncio.sleep(min(1.0, self._window / 5))
            if alarms is not None and is_well:
                if self.next_close < self._alarm:
                    self._alarm = self.next_close
                    alarms.set(self._alarm, self._ring)
                await self._wake.wait()

    async def close_due(self) -> int:
        """Write the defaults that are due; returns how many. `next_close` is when there
        may be more (inf: never)."""
        written = 0
        while True:
            now = self._clock()
            windows = await asyncio.to_thread(self._store.windows, self._cursor, _CHUNK)
            last = max(
                (i for i, window in enumerate(windows) if self._over(window, now)),
                default=-1,
            )
            passed = [*self._ahead, *windows[: last + 1]]
            over = [window for window in passed if self._over(window, now)]
            ids = [window.id for window in over if not window.closed]
            unlearnable_ids = (
                await self._unlearnable_ids(ids)
                if self._unlearnable_ids is not None and ids
                else set()
            )
            due = [
                DefaultReward(id, self._default, now)
                for id in ids
                if id not in unlearnable_ids
            ]
            if due:
                await self._writer.append(due)
                written += len(due)
            self._ahead = [window for window in passed if not self._over(window, now)]
            if last >= 0:
                self._cursor = windows[last].position
            if last + 1 < _CHUNK:
                open_ones = [
                    window.time
                    for window in [*windows[last + 1 :], *self._ahead]
                    if not window.closed
                ]
                # after which there may be open ones
                beyond = [window.time for window in windows[_CHUNK - 1 :]]
                self.next_close = min([*open_ones, *beyond], default=inf) + self._window
                return written

    def _ring(self) -> None:
        self._alarm = inf
        self.wake()

    def _over(self, window: Window, now: float) -> bool:
        return window.time + self._window <= now
