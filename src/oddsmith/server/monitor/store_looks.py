"""Short reads of stores, in threads of their own, that check whether stores answer."""

import asyncio
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

from oddsmith.core.errors import StoreFailed
from oddsmith.server.experiment.experiment import Experiment

__all__ = ["StoreLooks"]

_AT_ONCE = 8
_PATIENCE = 2.0  # seconds


class StoreLooks:
    """Checks stores in threads of their own, so that other reads do not delay the
    checks.

    A store that does not answer uses one thread, however often it is checked.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="store looks")
        self._under_way: dict[str, asyncio.Future[str]] = {}

    async def troubles(self, experiments: Collection[Experiment]) -> dict[str, str]:
        """Return the reasons why experiments cannot make decisions, by experiment."""
        # wait for all at the same time, because each wait takes an iteration of a busy
        # event loop
        sentences = await asyncio.gather(*map(self.trouble, experiments))
        named = zip(experiments, sentences, strict=True)
        return {one.name: sentence for one, sentence in named if sentence}

    async def trouble(self, experiment: Experiment) -> str:
        """Return the reason why an experiment cannot decide; empty if it can."""
        if experiment.follower.trouble:
            return experiment.follower.trouble
        try:
            look = self._look(experiment)
            trouble = await asyncio.wait_for(asyncio.shield(look), _PATIENCE)
        except (StoreFailed, TimeoutError) as error:
            return f"its store does not answer: {error}"
        return trouble and f"its store cannot be written: {trouble}"

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _look(self, experiment: Experiment) -> "asyncio.Future[str]":
        """Return the current check of a store, or begin a new one."""
        name = experiment.name
        future = self._under_way.get(name)
        if future is None:
            loop = asyncio.get_running_loop()
            future = loop.run_in_executor(self._threads, _write_trouble, experiment)
            self._under_way[name] = future
            future.add_done_callback(lambda _: self._under_way.pop(name))
        return future


def _write_trouble(experiment: Experiment) -> str:
    """Read a store, and return the reason why it cannot write."""
    experiment.store.head()
    return experiment.store.write_trouble
