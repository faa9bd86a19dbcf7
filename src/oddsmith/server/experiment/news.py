"""Waiting for news: for the state to reach a position, and calls that are held open
until it does."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from oddsmith.server.experiment.threads import Busy

__all__ = ["LongPolls", "PositionWaiters"]


class PositionWaiters:
    """Those who wait for positions; one that goes away is forgotten at once."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], int] = {}

    async def wait(self, position: int) -> None:
        """Wait until `reach` is told this position, or a later one."""
        future = asyncio.get_running_loop().create_future()
        self._waiting[future] = position
        try:
            await future
        finally:
            self._waiting.pop(future, None)

    def reach(self, position: int) -> None:
        """Let those go on who wait for this position, or an earlier one."""
        for future, wanted in self._waiting.items():
            if wanted <= position and not future.done():
                future.set_result(None)


class LongPolls:
    """Calls that wait for news, at most `most` of a process; `end` answers them at
    once, and takes no more."""

    def __init__(self, most: int = 100) -> None:
        self._most, self._ended = most, False
        self._limits: dict[asyncio.Timeout, asyncio.AbstractEventLoop] = {}

    async def wait(self, news: Callable[[], Awaitable[None]], seconds: float) -> None:
        """Wait for news, for so many seconds at most."""
        if self._ended or len(self._limits) >= self._most:
            why = (
                "the service stops"
                if self._ended
                else f"at most {self._most} calls may wait for changes"
            )
            raise Busy(f"{why}; ask again in a second")
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds) as limit:
                self._limits[limit] = asyncio.get_running_loop()
                try:
                    await news()
                finally:
                    del self._limits[limit]

    def end(self) -> None:
        """Answer all that wait, from any thread or from a signal."""
        self._ended = True
        for limit, loop in list(self._limits.items()):
            loop.call_soon_threadsafe(self._let_go, limit, loop)

    def _let_go(self, limit: asyncio.Timeout, loop: asyncio.AbstractEventLoop) -> None:
        if limit in self._limits and not limit.expired():
            limit.reschedule(loop.time())
