"""LongReads: threads for reads that may take seconds, apart from those that readiness, deciding and learning need."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from oddsmith.errors import OddsmithError
from oddsmith.service.jobs import Jobs

__all__ = ["Busy", "LongReads"]

_T = TypeVar("_T")


class Busy(OddsmithError):
    """There is more to do than the service takes on; it may be asked again."""


class LongReads:
    """Runs at most `at_once` long reads of the process, lets `waiting` more wait, and refuses others.

    What takes longer than a caller waits is one of its `jobs`.
    """

    def __init__(self, at_once: int = 2, waiting: int = 8) -> None:
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="long reads")  # which start when they are needed
        self._most, self._under_way = at_once + waiting, 0
        self.jobs = Jobs()

    async def run(self, read: Callable[[], _T]) -> _T:
        """What a read gives. A caller who goes away leaves it running, and counted, until it ends."""
        if self._under_way >= self._most:
            raise Busy(f"at most {self._most} long reads may be under way; ask again in a second")
        self._under_way += 1
        future = asyncio.get_running_loop().run_in_executor(self._threads, read)
        future.add_done_callback(self._ended)
        return await asyncio.shield(future)

    async def close(self) -> None:
        """Let the threads end, and the jobs; what waits is not begun."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        await self.jobs.close()

    def _ended(self, _: "asyncio.Future[_T]") -> None:
        self._under_way -= 1
