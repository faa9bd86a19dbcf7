"""Reward windows: when a window closes and the decision has no reward, write an event
with the default reward."""

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

    Several replicas can do this at the same time, because a decision can have only one
    default. If a clock was ahead, windows may open in the future. Such windows are set
    aside until their time, so that they do not delay other windows. Decisions among
    `unlearnable_ids` get no default.
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
        self._store = store
        self._writer = writer
        self._clock = clock
        self._window = window
        self._default = default
        self._cursor = 0
        self._ahead: list[Window] = []
        self._wake = asyncio.Event()
        self._alarm = inf
        self.next_close = inf  # time when a window may be due again; inf means never

    def change(self, window: float, default: float) -> None:
        """Use this length and default for all open windows from now on."""
        self._window = window
        self._default = default
        self.wake()

    def wake(self) -> None:
        """Check for new windows now."""
        self._wake.set()

    async def run(self, alarms: Alarms | None) -> None:
        """Close windows, forever.

        Sleep until the next window closes or an event is written. Without `alarms`,
        check at short intervals, because other replicas also open windows.
        """
        while True:
            self._wake.clear()
            try:
                is_well = not self._hold()
                if is_well:
                    await self.close_due()
            # ignored here, because requests report that the store fails
            except StoreFailed:
                is_well = False
            await asyncio.sleep(min(1.0, self._window / 5))
            if alarms is not None and is_well:
                if self.next_close < self._alarm:
                    self._alarm = self.next_close
                    alarms.set(self._alarm, self._ring)
                await self._wake.wait()

    async def close_due(self) -> int:
        """Write the defaults that are due; return their number. Set `next_close`."""
        written = 0
        while True:
            now = self._clock()
            windows = await asyncio.to_thread(self._store.windows, self._cursor, _CHUNK)
            n_passed = 0  # number of windows up to the last one that is due
            for number, window in enumerate(windows, 1):
                if self._is_due(window, now):
                    n_passed = number
            passed = [*self._ahead, *windows[:n_passed]]
            due = [window for window in passed if self._is_due(window, now)]
            written += await self._write_defaults(due, now)
            self._ahead = [one for one in passed if not self._is_due(one, now)]
            if n_passed:
                self._cursor = windows[n_passed - 1].position
            if n_passed < _CHUNK:
                later = [*windows[n_passed:], *self._ahead]
                times = [window.time for window in later if not window.closed]
                # after a full chunk there may be more open windows
                times += [window.time for window in windows[_CHUNK - 1 :]]
                self.next_close = min(times, default=inf) + self._window
                return written

    async def _write_defaults(self, windows: Sequence[Window], now: float) -> int:
        """Write the defaults of open windows; return their number."""
        ids = [window.id for window in windows if not window.closed]
        if ids and self._unlearnable_ids is not None:
            unlearnable = await self._unlearnable_ids(ids)
            ids = [id for id in ids if id not in unlearnable]
        if ids:
            await self._writer.append(
                [DefaultReward(id, self._default, now) for id in ids]
            )
        return len(ids)

    def _ring(self) -> None:
        self._alarm = inf
        self.wake()

    def _is_due(self, window: Window, now: float) -> bool:
        return window.time + self._window <= now
