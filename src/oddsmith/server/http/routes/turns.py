"""Turns: let other requests run while a long request is handled."""

import asyncio
import time
from typing import ClassVar

__all__ = ["Turns"]


class Turns:
    """Lets other requests run after each `slice_s` seconds of work for one request.

    The limit is a time, because the work for an entry depends on its arms and experts.
    """

    slice_s: ClassVar[float] = 0.005

    def __init__(self) -> None:
        self._end = time.perf_counter() + self.slice_s

    async def give(self) -> None:
        """Let other requests run if the current request has worked for `slice_s`
        seconds."""
        if time.perf_counter() < self._end:
            return
        await asyncio.sleep(0)
        self._end = time.perf_counter() + self.slice_s
