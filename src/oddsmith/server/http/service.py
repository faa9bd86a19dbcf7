"""Service: starts and ends the experiments of one process."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from oddsmith.core.errors import BadFile, InvalidInput, StoreFailed, place_of
from oddsmith.server.experiment.clock import Alarms, Clock
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.experiment.start import ExperimentSetup
from oddsmith.server.experiment.threads import LongPolls, LongReads
from oddsmith.server.http.connections import Connections
from oddsmith.server.http.keys import KeyRing
from oddsmith.server.http.metrics import Metrics
from oddsmith.server.http.openapi import document
from oddsmith.server.http.rates import Rate, Rates, WrongKeys
from oddsmith.server.monitor.store_looks import StoreLooks
from oddsmith.server.monitor.vitals import HoldUps

__all__ = ["NotFound", "Service"]

if TYPE_CHECKING:
    from oddsmith.server.http.routes.route import Route


_AT_ONCE = 8  # maximum number of experiments that are restored at the same time
_log = logging.getLogger(__name__)


class NotFound(InvalidInput):
    """Error: there is no such path, experiment or decision."""


class Service:
    """Experiments by name, their metrics, the key ring (None: no keys are needed), and
    the table of routes.

    `rate` limits keys without a rate of their own. `room` contains the server's
    connections.
    """

    def __init__(
        self,
        setups: Sequence[ExperimentSetup],
        routes: "Sequence[Route]",
        *,
        ring: KeyRing | None = None,
        clock: Clock | None = None,
        rate: Rate | None = None,
        room: Connections | None = None,
    ) -> None:
        self._setups = setups
        self.routes = routes
        self.ring = ring
        self._clock = clock or Clock()
        self.document = document(
            routes
        )  # built once at the start, because any client may request it
        self.draining = False
        self.experiments: dict[str, Experiment] = {}
        self.rates = Rates(rate)
        self.wrong_keys = WrongKeys()
        self.room = room or Connections()
        self.hold_ups = HoldUps(self.experiments.values())
        self.store_looks = StoreLooks()
        self.metrics = Metrics(self)
        self._check_lock = asyncio.Lock()
        self._next_check = 0.0
        self._check_result: dict[str, str] = {}
        self._restoring: asyncio.Task[None] | None = None
        self._long_reads = LongReads()
        self._long_polls = LongPolls()

    async def begin(self) -> None:
        """Start restoring all states; `/healthz` answers in the meantime."""
        alarms = Alarms(self._clock)
        for setup in self._setups:
            self.experiments[setup.file.name] = Experiment(
                setup, self._clock, self._long_reads, alarms, self._long_polls
            )
        self._restoring = asyncio.create_task(self._restore_all())

    def drain(self) -> None:
        """Prepare for the end: from now on `/readyz` is answered with 503, and long
        polls return at once."""
        self.draining = True
        self._long_polls.end()

    async def seldom(
        self, check: "Callable[[Service], Awaitable[dict[str, str]]]"
    ) -> dict[str, str]:
        """Return the result of a check, from a cache or from a new check that
        concurrent callers share.

        A result is cached for 1 second or 20 times the duration of the check, whichever
        is longer, but for at most 5 seconds.
        """
        async with self._check_lock:
            start = monotonic()
            if start >= self._next_check:
                self._check_result = await check(self)
                end = monotonic()
                self._next_check = end + min(max(1.0, 20 * (end - start)), 5.0)
            return self._check_result

    async def end(self) -> None:
        """Save snapshots and close the stores."""
        await self._long_reads.close()
        self.store_looks.close()
        self._long_polls.end()
        if self._restoring is not None:
            self._restoring.cancel()
            await asyncio.gather(self._restoring, return_exceptions=True)
        ends = [experiment.end() for experiment in self.experiments.values()]
        await asyncio.gather(*ends)

    async def _restore_all(self) -> None:
        """Restore the states of all experiments concurrently, so that a failure does
        not delay other experiments."""
        # limit how many are restored at once, because each keeps its store open
        places = asyncio.Semaphore(_AT_ONCE)
        tasks = [
            _restore(experiment, places) for experiment in self.experiments.values()
        ]
        await asyncio.gather(*tasks)


async def _restore(experiment: Experiment, places: asyncio.Semaphore) -> None:
    """Restore the state of an experiment; retry every second until it succeeds."""
    while experiment.follower.trouble:
        try:
            async with places:
                await experiment.begin()
        except Exception as error:
            # messages of errors that are not ours may contain a user's context
            is_ours = isinstance(error, StoreFailed | BadFile)
            reason = str(error) if is_ours else place_of(error)
            trouble = f"its state cannot be restored: {reason}"
            if trouble != experiment.follower.trouble:
                _log.error("experiment %s is not ready: %s", experiment.name, trouble)
            experiment.follower.trouble = trouble
            await asyncio.sleep(1.0)
