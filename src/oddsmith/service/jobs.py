"""Jobs: what takes minutes, in the background, each in a process of its own, so that decisions do not wait for it."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from oddsmith.errors import OddsmithError

__all__ = ["JobFailed", "Jobs"]


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

    def begin(self, name: tuple[str, str], job: Callable[[], Coroutine[Any, Any, None]]) -> None:
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
        """What a module of ours prints for an order, as a program that may take so many seconds once it has begun."""
        async with self._alone:
            path, pipe = os.pathsep.join(part or os.getcwd() for part in sys.path), asyncio.subprocess.PIPE
            command = sys.executable, "-P", "-m", module
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=pipe,
                stdout=pipe,
                env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
                start_new_session=True,  # Ctrl-C reaches this process, which ends the other
            )
            try:
                printed, _ = await asyncio.wait_for(process.communicate(order), seconds)
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        if process.returncode:
            raise JobFailed(f"its process ended with {process.returncode}; see the service's log")
        return printed
