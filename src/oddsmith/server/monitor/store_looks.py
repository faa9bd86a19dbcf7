"""Short reads of stores that tell whether they answer, apart from all other reads."""

import asyncio
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

from oddsmith.core.errors import StoreFailed
from oddsmith.server.experiment.experiment import Experiment

__all__ = ["StoreLooks"]

_AT_ONCE = 8
_PATIENCE = 2.0  # seconds


class StoreLooks:
    """Looks at stores in threads of their own, so that a queue of other reads does not
    delay them; a store that does not answer keeps one thread, however often it is
    asked."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="store looks")
        self._under_way: dict[str, asyncio.Future[str]] = {}

    async def troubles(self, experiments: Collection[Experiment]) -> dict[str, str]:
        """What keeps experiments from deciding, by name."""
        # all at once, for each wait takes a round of a busy event loop
        sentences = await asyncio.gather(*map(self.trouble, experiments))
        named = zip(experiments, sentences, strict=True)
        return {one.name: sentence for one, sentence in named if sentence}

    async def trouble(self, experiment: Experiment) -> str:
        """What keeps an experiment from deciding; empty if nothing does."""
        if experiment.follower.trouble:
            return experiment.follower.trouble
        try:
            look = self._look(experiment)
            trouble = await asyncio.wait_for(asyncio.shield(look), _PATIENCE)
        except (StoreFailed, TimeoutError) as error:
            return f"its store does not answer: {error}"
        return trouble and f"its store cannot be written: {trouble}"

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _look(self, experiment: Experiment) -> "asyncio.Future[str]":
        """The look at a store that is under way, or a new one."""
        name = experiment.name
        future = self._under_way.get(name)
        if future is None:
            loop = asyncio.get_running_loop()
            future = loop.run_in_executor(self._threads, _write_trouble, experiment)
            self._under_way[name] = future
            future.add_done_callback(lambda _: self._under_way.pop(name))
        return future


def _write_trouble(experiment: Experiment) -> str:
    """What keeps a store from writing, once it has answered a read."""
    experiment.store.head()
    return experiment.store.write_trouble
