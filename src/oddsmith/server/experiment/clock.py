"""Clocks for events, reward windows and erasing. They read the time from the machine or
from a database.

`Alarms` calls functions at given times of the service's clock, with one timer for all
experiments.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from itertools import count

__all__ = ["Alarms", "Clock", "DatabaseClock", "JUMP"]

# maximum seconds between two reads of the clock while alarms are set
_LOOK = 1.0
JUMP = 3600.0
"""If the machine's clock is set by more than this number of seconds, it is not
trusted."""

_steady: Callable[[], float] = time.monotonic
# this clock continues while the machine is suspended
if hasattr(time, "CLOCK_BOOTTIME"):
    _steady = partial(time.clock_gettime, time.CLOCK_BOOTTIME)


class Alarms:
    """Calls functions of one event loop at given times. A timer runs only while alarms
    are set.

    The loop's own time may or may not advance while a machine is suspended or its clock
    is set. So the clock is read once a second.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.now = clock
        self._loop = asyncio.get_running_loop()
        self._alarms: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()  # breaks ties between alarms at the same time
        self._timer: asyncio.TimerHandle | None = None

    def set(self, when: float, ring: Callable[[], None]) -> None:
        """Call `ring` when the clock reaches `when`."""
        heappush(self._alarms, (when, next(self._numbers), ring))
        if self._timer is None or self._alarms[0][0] == when:
            self._wind()

    def _wind(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        wait = min(max(self._alarms[0][0] - self.now(), 0.0), _LOOK)
        self._timer = self._loop.call_later(wait, self._look)

    def _look(self) -> None:
        self._timer = None
        now = self.now()
        while self._alarms and self._alarms[0][0] <= now:
            heappop(self._alarms)[2]()
        if self._alarms:
            self._wind()


class Clock:
    """Seconds since 1970 at the start, plus the seconds since then by a steady clock.

    Setting the machine's clock does not change this clock, so no reward window closes
    early and no event precedes its cause. `adopt` sets it to the machine's clock.

    >>> Clock(wall=lambda: 1000.0, steady=iter([5.0, 7.5]).__next__)()
    1002.5
    """

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = _steady,
    ) -> None:
        self.wall = wall
        self.steady = steady
        self._offset = wall() - steady()

    def __call__(self) -> float:
        """Return the current time."""
        return self._offset + self.steady()

    def adopt(self) -> None:
        """Continue from the current time of the machine's clock."""
        self._offset = self.wall() - self.steady()


class DatabaseClock(Clock):
    """The clock of a database, which all replicas share even if their machines' clocks
    differ.

    Before the first call of `look`, it shows the time of the service's clock. `look`
    asks the database for its time, and between two looks the steady clock of this
    machine counts on.

    >>> clock = DatabaseClock(Clock(lambda: 9.0, lambda: 0.0), lambda: 5000.0)
    >>> clock.look()
    >>> clock()
    5000.0
    """

    def __init__(self, clock: Clock, ask: Callable[[], float]) -> None:
        self._ask = ask
        self._difference = clock() - clock.steady()
        self._is_known = False
        super().__init__(lambda: self._difference + clock.steady(), clock.steady)

    def look(self) -> None:
        """Ask the database for its time. If its clock was set by more than `JUMP`, the
        new time is not adopted automatically."""
        before = self.steady()
        answer = self._ask()
        self._difference = answer - (before + self.steady()) / 2
        if not self._is_known or abs(self.wall() - self()) <= JUMP:
            self.adopt()
        self._is_known = True
