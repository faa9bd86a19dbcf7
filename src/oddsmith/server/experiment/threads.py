"""Background work: jobs that run in separate processes, threads for long reads, and
calls that wait for changes."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from oddsmith.core.errors import OddsmithError

__all__ = ["Busy", "JobFailed", "Jobs", "LongPolls", "LongReads"]


class JobFailed(OddsmithError):
    """Error: the process of a job failed."""


class Jobs:
    """Runs jobs that take minutes, by name. Only one of their processes runs at a
    time."""

    def __init__(self) -> None:
        self._alone = asyncio.Lock()
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, name: tuple[str, str]) -> bool:
        return name in self._tasks

    def begin(
        self, name: tuple[str, str], job: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        """Begin a job, unless a job of this name is running."""
        if name in self._tasks:
            return
        task = asyncio.create_task(job())
        self._tasks[name] = task
        task.add_done_callback(lambda _: self._tasks.pop(name, None))

    def end(self, name: tuple[str, str]) -> None:
        """End a job if it is running."""
        if (task := self._tasks.get(name)) is not None:
            task.cancel()

    async def close(self) -> None:
        """End all jobs with their processes. The store still lists the jobs."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def run_module(self, module: str, order: bytes, seconds: float) -> bytes:
        """Run one of our modules as a program, and return its output.

        `order` is its input, `seconds` its time limit once it has begun.
        """
        async with self._alone:
            path = os.pathsep.join(part or os.getcwd() for part in sys.path)
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", module),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
                # Ctrl-C must reach only this process, which then ends the child
                start_new_session=True,
            )
            try:
                output, _ = await asyncio.wait_for(process.communicate(order), seconds)
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.communicate()
                    # the transport is closed in the next iteration of the loop
                    await asyncio.sleep(0)
        if process.returncode:
            raise JobFailed(
                f"its process ended with {process.returncode}; see the service's log"
            )
        return output


_T = TypeVar("_T")


class Busy(OddsmithError):
    """Error: the service has too much to do. The caller can try again later."""


class LongReads:
    """Runs at most `at_once` long reads per process; at most `waiting` more wait.

    Further reads are refused. Work that takes longer than a caller would wait runs as
    one of the `jobs`.
    """

    def __init__(self, at_once: int = 2, waiting: int = 8) -> None:
        # threads are started on demand
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="long reads")
        self._most = at_once + waiting
        self._under_way = 0
        self.jobs = Jobs()

    async def run(self, read: Callable[[], _T]) -> _T:
        """Return the result of a read.

        If the call is cancelled, the read continues and counts until it ends.
        """
        if self._under_way >= self._most:
            raise Busy(
                f"at most {self._most} long reads may be under way; ask again in a "
                "second"
            )
        self._under_way += 1
        future = asyncio.get_running_loop().run_in_executor(self._threads, read)
        future.add_done_callback(self._note_end)
        return await asyncio.shield(future)

    async def close(self) -> None:
        """Stop the threads and jobs. Queued reads are not started."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        await self.jobs.close()

    def _note_end(self, _: "asyncio.Future[_T]") -> None:
        self._under_way -= 1


class LongPolls:
    """Calls that wait for changes, at most `most` per process.

    `end` answers all waiting calls immediately, and refuses new ones.
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
