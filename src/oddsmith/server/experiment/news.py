"""Waiting for a position of the state, and long polls."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from oddsmith.server.experiment.threads import Busy

__all__ = ["LongPolls", "PositionWaiters"]


class PositionWaiters:
    """Callers that wait for positions; a cancelled caller is removed at once."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], int] = {}

    async def wait(self, position: int) -> None:
        """Wait until `reach` is called with this position, or a later one."""
        future = asyncio.get_running_loop().create_future()
        self._waiting[future] = position
        try:
            await future
        finally:
            self._waiting.pop(future, None)

    def reach(self, position: int) -> None:
        """Wake the callers that wait for this position, or an earlier one."""
        for future, wanted in self._waiting.items():
            if wanted <= position and not future.done():
                future.set_result(None)


class LongPolls:
    """Calls that wait for changes, at most `most` per process.

    `end` answers them immediately, and refuses new ones.
    """

    def __init__(self, most: int = 100) -> None:
        self._most = most
        self._is_ended = False
        self._limits: dict[asyncio.Timeout, asyncio.AbstractEventLoop] = {}

    async def wait(self, news: Callable[[], Awaitable[None]], seconds: float) -> None:
        """Wait for changes, for at most this number of seconds."""
        if self._is_ended:
            raise Busy("the service stops; ask again in a second")
        if len(self._limits) >= self._most:
            raise Busy(
                f"at most {self._most} calls may wait for changes; ask again in a "
                "second"
            )
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds) as limit:
                self._limits[limit] = asyncio.get_running_loop()
                try:
                    await news()
                finally:
                    del self._limits[limit]

    def end(self) -> None:
        """Answer all waiting calls, from any thread or from a signal."""
        self._is_ended = True
        for limit, loop in list(self._limits.items()):
            loop.call_soon_threadsafe(self._let_go, limit, loop)

    def _let_go(self, limit: asyncio.Timeout, loop: asyncio.AbstractEventLoop) -> None:
        if limit in self._limits and not limit.expired():
            limit.reschedule(loop.time())
