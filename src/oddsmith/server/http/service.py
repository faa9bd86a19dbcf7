"""Service: the experiments of one process, from their restoring to their end."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from oddsmith.core.errors import BadFile, InvalidInput, StoreFailed, place_of
from oddsmith.server.experiment.clock import Alarms, Clock
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.experiment.news import LongPolls
from oddsmith.server.experiment.start import ExperimentSetup
from oddsmith.server.experiment.threads import LongReads
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


_AT_ONCE = 8  # experiments that are restored at a time
_log = logging.getLogger(__name__)


class NotFound(InvalidInput):
    """There is no such path, experiment or decision."""


class Service:
    """Experiments by name, their metrics, the key ring (None: no keys are needed), and
    the table of routes.

    `rate` is that of keys that have none of their own; `room` has the connections of
    its server.
    """

    def __init__(
        self,
        opened: Sequence[ExperimentSetup],
        routes: "Sequence[Route]",
        *,
        ring: KeyRing | None = None,
        clock: Clock | None = None,
        rate: Rate | None = None,
        room: Connections | None = None,
    ) -> None:
        self._opened, self.routes, self.ring, self._clock = (
            opened,
            routes,
            ring,
            clock or Clock(),
        )
        self.document = document(routes)  # made once: everybody may ask for it
        self.draining = False
        self._looking, self._look_again, self._found = (
            asyncio.Lock(),
            0.0,
            dict[str, str](),
        )
        self.experiments: dict[str, Experiment] = {}
        self.rates, self.wrong_keys, self.room = (
            Rates(rate),
            WrongKeys(),
            room or Connections(),
        )
        self.hold_ups = HoldUps(self.experiments.values())
        self.store_looks = StoreLooks()
        self.metrics = Metrics(self)
        self._restoring: asyncio.Task[None] | None = None
        self._long_reads, self._long_polls = LongReads(), LongPolls()

    async def begin(self) -> None:
        """Start restoring all states; `/healthz` answers meanwhile."""
        shared = self._clock, self._long_reads, Alarms(self._clock), self._long_polls
        self.experiments |= {
            one.file.name: Experiment(one, *shared) for one in self._opened
        }
        self._restoring = asyncio.create_task(self._restore_all())

    def drain(self) -> None:
        """From now on `/readyz` says 503, and no call is held open."""
        self.draining = True
        self._long_polls.end()

    async def seldom(
        self, look: "Callable[[Service], Awaitable[dict[str, str]]]"
    ) -> dict[str, str]:
        """What a look has found: that of a moment ago, or a new one, for all that ask
        meanwhile.

        A look is kept for a second, or twenty times as long as it took, but not longer
        than five seconds.
        """
        async with self._looking:
            start = monotonic()
            if start >= self._look_again:
                self._found = await look(self)
                end = monotonic()
                self._look_again = end + min(max(1.0, 20 * (end - start)), 5.0)
            return self._found

    async def end(self) -> None:
        """Keep snapshots, close the stores."""
        await self._long_reads.close()
        self.store_looks.close()
        self._long_polls.end()
        if self._restoring is not None:
            self._restoring.cancel()
            await asyncio.gather(self._restoring, return_exceptions=True)
        await asyncio.gather(
            *(experiment.end() for experiment in self.experiments.values())
        )

    async def _restore_all(self) -> None:
        """Side by side: an experiment that cannot be restored does not delay the
        others."""
        # each is restored in one go, while its store is open
        places = asyncio.Semaphore(_AT_ONCE)
        await asyncio.gather(
            *(_restore(experiment, places) for experiment in self.experiments.values())
        )


async def _restore(experiment: Experiment, places: asyncio.Semaphore) -> None:
    """Restore the state, again every second until it succeeds."""
    while experiment.follower.trouble:
        try:
            async with places:
                await experiment.begin()
        except Exception as error:
            # others may say what is in a context
            is_ours = isinstance(error, StoreFailed | BadFile)
            trouble = (
                f"its state cannot be restored: {error if is_ours else place_of(error)}"
            )
            if trouble != experiment.follower.trouble:
                _log.error("experiment %s is not ready: %s", experiment.name, trouble)
            experiment.follower.trouble = trouble
            await asyncio.sleep(1.0)
