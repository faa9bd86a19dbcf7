"""Turns: other requests are answered during a long one."""

import asyncio
import time
from typing import ClassVar

__all__ = ["Turns"]


class Turns:
    """Gives other requests a turn after each `slice_s` seconds of work for one.

    Time is what counts, since the work for an entry depends on its arms and experts.
    """

    slice_s: ClassVar[float] = 0.005

    def __init__(self) -> None:
        self._end = time.perf_counter() + self.slice_s

    async def give(self) -> None:
        """Let others run if this request has worked long enough."""
        if time.perf_counter() < self._end:
            return
        await asyncio.sleep(0)
        self._end = time.perf_counter() + self.slice_s
