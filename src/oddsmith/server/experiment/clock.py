"""Alarms: calls at times of the service's clock, by one timer for all experiments."""

import asyncio
import time
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

__all__ = ["Alarms", "Clock"]

# seconds at most from one look at the clock to the next, while there are alarms
_LOOK = 1.0


class Alarms:
    """Alarms of one event loop; without any, nothing wakes.

    The loop's own time goes on while a machine sleeps or a clock is put forward by
    hand, or it does not: so the clock is looked at once a second.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._loop = clock, asyncio.get_running_loop()
        self._alarms: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()  # the order of those at the same time
        self._timer: asyncio.TimerHandle | None = None

    def set(self, when: float, ring: Callable[[], None]) -> None:
        """Call `ring` once the clock shows `when`."""
        heappush(self._alarms, (when, next(self._numbers), ring))
        if self._timer is None or self._alarms[0][0] == when:
            self._wind()

    def _wind(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        wait = min(max(self._alarms[0][0] - self._clock(), 0.0), _LOOK)
        self._timer = self._loop.call_later(wait, self._look)

    def _look(self) -> None:
        self._timer, now = None, self._clock()
        while self._alarms and self._alarms[0][0] <= now:
            heappop(self._alarms)[2]()
        if self._alarms:
            self._wind()


class Clock:
    """Seconds since 1970 as they were at the start, plus what a monotonic clock has
    counted since.

    Setting the machine's clock does not move it, so no reward window closes early and
    no event comes before its cause.

    >>> Clock(wall=lambda: 1000.0, steady=iter([5.0, 7.5]).__next__)()
    1002.5
    """

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._steady = steady
        self._offset = wall() - steady()

    def __call__(self) -> float:
        """Now."""
        return self._offset + self._steady()
