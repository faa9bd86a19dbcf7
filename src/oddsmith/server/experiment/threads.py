"""Jobs: what takes minutes, in the background, each in a process of its own, so that
decisions do not wait for it."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from oddsmith.core.errors import OddsmithError

__all__ = ["Busy", "JobFailed", "Jobs", "LongReads"]


class JobFailed(OddsmithError):
    """The process of a job has not ended well."""


class Jobs:
    """Jobs by name, whose processes run one at a time; the others wait."""

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
        """Begin a job, unless one of this name is under way."""
        if name not in self._tasks:
            self._tasks[name] = task = asyncio.create_task(job())
            task.add_done_callback(lambda _: self._tasks.pop(name, None))

    def end(self, name: tuple[str, str]) -> None:
        """End a job, if it is under way."""
        if (task := self._tasks.get(name)) is not None:
            task.cancel()

    async def close(self) -> None:
        """End all jobs, with their processes; a store says which there were."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def printed(self, module: str, order: bytes, seconds: float) -> bytes:
        """What a module of ours prints for an order, as a program that may take so many
        seconds once it has begun."""
        async with self._alone:
            path, pipe = (
                os.pathsep.join(part or os.getcwd() for part in sys.path),
                asyncio.subprocess.PIPE,
            )
            command = sys.executable, "-P", "-m", module
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=pipe,
                stdout=pipe,
                env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
                # Ctrl-C reaches this process, which ends the other
                start_new_session=True,
            )
            try:
                printed, _ = await asyncio.wait_for(process.communicate(order), seconds)
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.communicate()
                    # the transport closes itself in the next round of the loop
                    await asyncio.sleep(0)
        if process.returncode:
            raise JobFailed(
                f"its process ended with {process.returncode}; see the service's log"
            )
        return printed


_T = TypeVar("_T")


class Busy(OddsmithError):
    """There is more to do than the service takes on; it may be asked again."""


class LongReads:
    """Runs at most `at_once` long reads of the process, lets `waiting` more wait, and
    refuses others.

    What takes longer than a caller waits is one of its `jobs`.
    """

    def __init__(self, at_once: int = 2, waiting: int = 8) -> None:
        # which start when they are needed
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="long reads")
        self._most, self._under_way = at_once + waiting, 0
        self.jobs = Jobs()

    async def run(self, read: Callable[[], _T]) -> _T:
        """What a read gives. A caller who goes away leaves it running, and counted,
        until it ends."""
        if self._under_way >= self._most:
            raise Busy(
                f"at most {self._most} long reads may be under way; ask again in a "
                "second"
            )
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
