"""Vitals: the health of an experiment's store and state, and how far the state is
behind the log."""

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
"""If the lag is longer than this number of seconds, `/readyz` contains a warning."""

_PATIENCE = 2.0  # seconds


class Lag(NamedTuple):
    """How far the state is behind the log: the number of committed events that it does
    not contain, and the age of the oldest of them."""

    events: int
    seconds: float


class HoldUps:
    """Events that open transactions hide from experiments, by database.

    Each database is queried at most once in `every` seconds.
    """

    def __init__(self, experiments: Collection[Experiment], every: float = 1.0) -> None:
        self._experiments = experiments
        self.every = every
        self._lock = asyncio.Lock()
        self._last_look = -inf
        self._by_address: dict[str, HoldUp] = {}

    async def look(self) -> None:
        """Ask all databases at the same time; ignore one that does not answer."""
        async with self._lock:
            if monotonic() < self._last_look + self.every:
                return
            shared = [one for one in self._experiments if one.settings.shared]
            asked = {one.settings.store: one for one in shared}
            answers = await asyncio.gather(*map(hold_up_of, asked.values()))
            self._by_address = {}
            for url, answer in zip(asked, answers, strict=True):
                if answer is not None:
                    self._by_address[url] = answer
            self._last_look = monotonic()

    def of(self, experiment: Experiment) -> HoldUp | None:
        """Return the hold-up in the database of an experiment; None for a file."""
        return self._by_address.get(experiment.settings.store)

    def ages(self) -> dict[str, float]:
        """Return the age of the oldest transaction, by public address of the
        database."""
        ages: dict[str, float] = {}
        for url, found in self._by_address.items():
            place = public_address(url)
            ages[place] = max(found.age_s, ages.get(place, 0.0))
        return ages


async def hold_up_of(experiment: Experiment) -> HoldUp | None:
    """Return the hold-up of an experiment; None without one, or without an answer."""
    with suppress(StoreFailed, TimeoutError):
        look = asyncio.to_thread(experiment.store.hold_up)
        return await asyncio.wait_for(look, _PATIENCE)
    return None


def lag_of(experiment: Experiment, hold_up: HoldUp | None) -> Lag:
    """Return the lag of an experiment, including events that an open transaction
    hides."""
    follower = experiment.follower
    now = experiment.clock()
    hidden = 0
    since = now
    if hold_up is not None and experiment.name in hold_up.unread:
        hidden, since = hold_up.unread[experiment.name]
    behind = follower.behind
    # If positions have no gaps, their difference also counts events that the follower
    # has not read yet.
    if experiment.store.gapless:
        behind = max(behind, experiment.writer.writes.head - follower.now.position)
    return Lag(hidden + behind, max(0.0, now - since, follower.lag_s))


def warning_of(experiment: Experiment, hold_up: HoldUp | None) -> str:
    """Return a warning about an experiment that can make decisions; empty if there is
    none.

    The first problem is reported: a lag of more than `LIMIT_S` seconds, a clock that
    may be wrong, statistics that are not computed, or experts that are late.
    """
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
    """Return the vitals of an experiment, without reading its store."""
    follower = experiment.follower
    writes = experiment.writer.writes
    lag = lag_of(experiment, hold_up)
    write_age = None
    if writes.last is not None:
        write_age = monotonic() - writes.last
    snapshot_age = None
    if follower.snapshot_time is not None:
        snapshot_age = max(0.0, experiment.clock() - follower.snapshot_time)
    return Vitals(
        experiment.store.write_trouble,
        writes.failures,
        write_age,
        *lag,
        follower.unsaved,
        snapshot_age,
        None if hold_up is None else hold_up.age_s,
        _sentence(experiment, hold_up, lag),
    )
