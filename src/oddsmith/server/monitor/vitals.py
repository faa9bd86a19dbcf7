"""Vitals: how well experiments write and learn, how far what was learnt is behind, and
what holds it up."""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from math import inf
from time import monotonic
from typing import NamedTuple

from oddsmith.core.errors import StoreFailed
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.messages.stats import Vitals
from oddsmith.server.monitor.late import late_sentence
from oddsmith.server.store.address import public_address
from oddsmith.server.store.trouble import HoldUp

__all__ = [
    "HoldUps",
    "LIMIT_S",
    "Lag",
    "hold_up_of",
    "lag_of",
    "vitals_of",
    "warning_of",
]

LIMIT_S = 30.0
"""Seconds of lag above which `/readyz` says so."""

_PATIENCE = 2.0


class Lag(NamedTuple):
    """Events that are committed and not learnt, and how long the oldest of them has
    waited."""

    events: int
    seconds: float


class HoldUps:
    """What open transactions keep from experiments, by database, each asked once in
    `every` seconds at most."""

    def __init__(self, experiments: Collection[Experiment], every: float = 1.0) -> None:
        self._experiments, self.every = experiments, every
        self._looking, self._looked = asyncio.Lock(), -inf
        self._by_address: dict[str, HoldUp] = {}

    async def look(self) -> None:
        """Ask every database, all at once; one that does not answer has no hold-up that
        is known."""
        async with self._looking:
            if monotonic() < self._looked + self.every:
                return
            asked = {
                one.settings.store: one
                for one in self._experiments
                if one.settings.shared
            }
            answers = await asyncio.gather(*map(hold_up_of, asked.values()))
            self._by_address = {
                url: found
                for url, found in zip(asked, answers, strict=True)
                if found is not None
            }
            self._looked = monotonic()

    def of(self, experiment: Experiment) -> HoldUp | None:
        """What was found in the database of an experiment; None for a file."""
        return self._by_address.get(experiment.settings.store)

    def ages(self) -> dict[str, float]:
        """The age of the oldest transaction, by database as people may see its
        address."""
        ages: dict[str, float] = {}
        for url, found in self._by_address.items():
            place = public_address(url)
            ages[place] = max(found.age_s, ages.get(place, 0.0))
        return ages


async def hold_up_of(experiment: Experiment) -> HoldUp | None:
    """What an open transaction keeps from an experiment; None where none does, or its
    database does not answer."""
    with suppress(StoreFailed, TimeoutError):
        return await asyncio.wait_for(
            asyncio.to_thread(experiment.store.hold_up), _PATIENCE
        )
    return None


def lag_of(experiment: Experiment, hold_up: HoldUp | None) -> Lag:
    """The lag of an experiment: of what readers may see, and of what an open
    transaction keeps from them."""
    follower = experiment.follower
    events, since = (hold_up.unread if hold_up is not None else {}).get(
        experiment.name, (0, experiment.clock())
    )
    seen = follower.behind
    # then positions tell also what the follower has not looked at yet
    if experiment.store.gapless:
        seen = max(seen, experiment.writer.writes.head - follower.now.position)
    return Lag(events + seen, max(0.0, experiment.clock() - since, follower.lag_s))


def warning_of(experiment: Experiment, hold_up: HoldUp | None) -> str:
    """A sentence about what should not last: a lag of more than `LIMIT_S` seconds, else
    a clock that may be wrong, else statistics that are not computed, else experts that
    are late; empty if there is nothing."""
    return (
        _sentence(experiment, hold_up, lag_of(experiment, hold_up))
        or experiment.clock_hold.reason
        or experiment.follower.sums.trouble
        or late_sentence(experiment)
    )


def _sentence(experiment: Experiment, hold_up: HoldUp | None, lag: Lag) -> str:
    if lag.seconds <= LIMIT_S:
        return ""
    text = f"learning is {lag.seconds:.0f} s and {lag.events:,} events behind"
    if hold_up is None or experiment.name not in hold_up.unread:
        return text
    return f"{text}: {hold_up.holder} is open for {hold_up.age_s:.0f} s; end it"


def vitals_of(experiment: Experiment, hold_up: HoldUp | None) -> Vitals:
    """The vitals of an experiment: nothing is read of its store."""
    follower, writes = experiment.follower, experiment.writer.writes
    lag, kept = lag_of(experiment, hold_up), follower.snapshot_time
    return Vitals(
        experiment.store.write_trouble,
        writes.failures,
        None if writes.last is None else monotonic() - writes.last,
        *lag,
        follower.unsaved,
        None if kept is None else max(0.0, experiment.clock() - kept),
        None if hold_up is None else hold_up.age_s,
        _sentence(experiment, hold_up, lag),
    )
