"""Guardrails: pause an experiment, or an arm, if a metric is beyond its limit.

The probability that any guardrail of an experiment pauses it falsely is at most 5 %,
however often the guardrails are checked. Each guardrail pauses only once: if an
operator resumes the experiment, it is not paused again.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from oddsmith.contexts.metrics import Metric
from oddsmith.core.errors import Conflict, OddsmithError
from oddsmith.server.experiment.follower import Follower
from oddsmith.server.experiment.operator import Operator
from oddsmith.server.operations.requests import Request
from oddsmith.server.statistics import Sums
from oddsmith.server.statistics.differences import POLICY, Comparison
from oddsmith.server.statistics.guards import EVERY_ARM

__all__ = ["Breach", "Guardrails", "breaches"]

SENDER = "guardrail"
_RATE = 0.05  # probability of a false pause, over all guardrails and all looks
_EVERY = 1.0  # seconds between two checks
_log = logging.getLogger(__name__)


class Breach(NamedTuple):
    """A metric that is beyond its limit, for one arm (None: for the policy), with the
    reason in words."""

    metric: Metric
    arm: str | None
    reason: str

    @property
    def request(self) -> Request:
        """The action to request. Its id is the same on all replicas and in all checks,
        so that it is written once."""
        fields = {} if self.arm is None else {"arm": self.arm}
        name = f"guardrail {self.metric.name}"
        if self.arm is not None:
            name += f" {self.arm}"
        return Request.of(
            "pause" if self.arm is None else "pause_arm",
            fields,
            reason=self.reason,
            id=name[:250],
            sender=SENDER,
        )


class Guardrails:
    """Checks the guardrails of an experiment whenever its state has changed."""

    def __init__(
        self,
        metrics: Mapping[str, Metric],
        follower: Follower,
        operator: Operator,
        arms: Callable[[], Sequence[str] | None],
    ) -> None:
        self._follower = follower
        self._operator = operator
        self._arms = arms
        self.metrics = [one for one in metrics.values() if one.action is not None]
        # ids of requests that were written, or refused permanently
        self._done: set[str] = set()
        self._position = -1

    async def run(self) -> None:
        """Check the guardrails forever."""
        while True:
            await asyncio.sleep(_EVERY)
            try:
                await self.look()
            except Exception as error:  # a guardrail must not end after one failure
                _log.error("guardrails failed: %s: %s", type(error).__name__, error)

    async def look(self) -> None:
        """Request a pause for each metric that is beyond its limit."""
        position = self._follower.now.position
        if position == self._position:
            return
        self._position = position
        found = breaches(self._follower.sums, self.metrics, self._arms())
        for breach in found:
            request = breach.request
            if request.id in self._done:
                continue
            try:
                await self._operator.act(request)
            # The arm is paused already, or it is the last arm that is not paused. This
            # may change, so check again.
            except Conflict:
                self._position = -1
                continue
            except OddsmithError as error:
                _log.error("%s cannot %s: %s", request.id, request.action, error)
            self._done.add(request.id)


def breaches(
    sums: Sums, metrics: Sequence[Metric], arms: Sequence[str] | None
) -> Iterator[Breach]:
    """Yield the guardrails that are beyond their limits; `arms` are those of the
    experiment, None if calls pass their arms."""
    rate = _RATE / max(1, len(metrics))
    names = {one.name for one in metrics}
    for found in sums.guards.evidence():
        metric = found.metric
        is_of_arm = found.arm != EVERY_ARM
        if metric.name not in names or is_of_arm != (metric.action == "pause_arm"):
            continue
        share = 1.0
        # the k-th arm gets the share 1/(k (k + 1)) of the rate
        if is_of_arm and arms is None:
            share = 1 / ((found.rank + 1) * (found.rank + 2))
        elif is_of_arm:
            share = 1 / len(arms or ())
        if found.e_value * rate * share < 1:
            continue
        arm = found.arm or None
        what = f"{metric.name} of {arm}" if arm else metric.name
        yield Breach(
            metric,
            arm,
            f"{what} is {found.mean:.4g} in {found.rows:,} decisions; the limit is "
            f"{metric.limit:g}",
        )
    compared = [one for one in metrics if not one.is_of_mean]
    if compared:
        yield from _compared(sums, compared, rate, arms or ())


def _compared(
    sums: Sums, metrics: Sequence[Metric], rate: float, arms: Sequence[str]
) -> Iterator[Breach]:
    """Yield the metrics whose difference from the control is beyond the limit."""
    differences = sums.differences.settled_copy()
    for metric in metrics:
        candidates = [POLICY]
        if metric.action == "pause_arm":
            candidates = list(arms)
        for candidate in candidates:
            if not differences.has_sums(metric.name, candidate):
                continue
            level = 1 - rate / len(candidates)
            found = differences.compare(metric.name, candidate, level)
            harm = _least_harm(found)
            if metric.limit is None or not harm > metric.limit:
                continue
            arm = None if candidate == POLICY else candidate
            what = f"{metric.name} of {arm}" if arm else metric.name
            yield Breach(
                metric,
                arm,
                f"{what} is worse than the control by at least {harm:.4g}; the limit "
                f"is {metric.limit:g}",
            )


def _least_harm(found: Comparison) -> float:
    """Return the smallest harm that the interval of a comparison contains."""
    effect = found.difference if found.metric.is_absolute else found.lift
    return effect.low if found.metric.better == "lower" else -effect.high
