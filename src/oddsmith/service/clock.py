"""The time that events are stamped with: the wall clock's at the start, and from there on one that cannot jump."""

import time
from collections.abc import Callable

__all__ = ["Clock"]


class Clock:
    """Seconds since 1970 as they were at the start, plus what a monotonic clock has counted since.

    Setting the machine's clock does not move it, so no reward window closes early and no event comes before its cause.

    >>> Clock(wall=lambda: 1000.0, steady=iter([5.0, 7.5]).__next__)()
    1002.5
    """

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._steady = steady
        self._offset = wall() - steady()

    def __call__(self) -> float:
        """Now."""
        return self._offset + self._steady()
