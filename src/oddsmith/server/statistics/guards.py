"""Guards: tests of metrics against a limit on their mean, for each arm. They stay valid
if their results are read at any time.

Let x be an amount minus the limit, in units of the metric's range, positive if it is
harmful. While the mean of x is at most 0, the product of 1 + b x over the draws of an
arm is a test martingale for every bet b: it reaches 1/α with probability at most α
(Ville). The evidence is the mean over seven bets. Sums do not depend on the order of
rows, so a corrected amount is subtracted and added.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from oddsmith.contexts.metrics import Metric
from oddsmith.core.arrays import Array, Ints
from oddsmith.evaluation.exact_sums import in_units, of_units
from oddsmith.server.store.protocol import Draw

__all__ = ["EVERY_ARM", "Evidence", "Guards"]

EVERY_ARM = ""
"""The key of the sums over all arms."""
_BETS: Array = np.exp2(np.arange(-1.0, 6.0))
_LARGEST = 0.9  # largest loss of a bet, as a share of its capital
_MOST_ARMS = 1_000


class Evidence(NamedTuple):
    """The evidence that the mean of a metric is beyond its limit, for one arm. `rank`
    is the number of arms that had an amount before this arm."""

    metric: Metric
    arm: str
    rank: int
    e_value: float
    mean: float
    rows: int


@dataclass(slots=True)
class _Sums:
    """The sums of one arm: the logarithms of its bets as integers, the sum of the
    amounts, and the number of amounts."""

    bets: Ints = field(default_factory=lambda: np.zeros(len(_BETS), np.int64))
    total: int = 0
    rows: int = 0

    def copy(self) -> "_Sums":
        """Return a copy; both share the array, which never changes in place."""
        return _Sums(self.bets, self.total, self.rows)


@dataclass(slots=True)
class Guards:
    """The sums of all metrics with a limit on their mean, by metric and arm."""

    metrics: dict[str, Metric] = field(default_factory=dict)
    sums: dict[tuple[str, str], _Sums] = field(default_factory=dict)

    @classmethod
    def of(cls, metrics: Mapping[str, Mapping[str, Any]]) -> "Guards":
        """Return empty sums for the metrics of an experiment, given as JSON."""
        guards = cls()
        for name, given in metrics.items():
            metric = Metric.from_json(given)
            if metric.is_of_mean:
                guards.metrics[name] = metric
        return guards

    def copy(self) -> "Guards":
        """Return a copy that can be changed without changing this one."""
        sums = {key: one.copy() for key, one in self.sums.items()}
        return Guards(self.metrics, sums)

    def count(
        self, name: str, drawn: Draw, value: float, before: float | None = None
    ) -> None:
        """Add an amount of a metric, or replace an earlier one."""
        metric = self.metrics.get(name)
        if metric is None:
            return
        self._add((name, EVERY_ARM), metric, value, before)
        is_known = (name, drawn.arm) in self.sums
        if is_known or len(self.sums) < _MOST_ARMS:
            self._add((name, drawn.arm), metric, value, before)

    def _add(
        self, key: tuple[str, str], metric: Metric, value: float, before: float | None
    ) -> None:
        sums = self.sums.setdefault(key, _Sums())
        sums.bets = sums.bets + _logarithms(metric, value)
        sums.total += _exact(metric.scaled(value))
        if before is None:
            sums.rows += 1
            return
        sums.bets = sums.bets - _logarithms(metric, before)
        sums.total -= _exact(metric.scaled(before))

    def evidence(self) -> Iterator[Evidence]:
        """Yield the evidence of every metric and arm, with arms in the order of their
        first amounts."""
        ranks: dict[str, int] = {}
        for (name, arm), sums in self.sums.items():
            logs = of_units(sums.bets)
            e_value = float(np.exp(logsumexp(logs) - np.log(len(logs))))
            rank = 0
            if arm != EVERY_ARM:
                rank = ranks.get(name, 0)
                ranks[name] = rank + 1
            metric = self.metrics[name]
            mean = metric.value(sums.total / _UNITS / sums.rows)
            yield Evidence(metric, arm, rank, e_value, mean, sums.rows)

    def to_json(self) -> dict[str, Any]:
        """Return the sums as a snapshot contains them."""
        sums: list[list[Any]] = []
        for (name, arm), one in self.sums.items():
            sums.append([name, arm, one.bets.tolist(), one.total, one.rows])
        metrics = {name: metric.to_json() for name, metric in self.metrics.items()}
        return {"metrics": metrics, "sums": sums}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "Guards":
        """Return the sums that `to_json` wrote."""
        read = cls.of(given["metrics"])
        for name, arm, bets, total, rows in given["sums"]:
            read.sums[name, arm] = _Sums(np.array(bets, dtype=np.int64), total, rows)
        return read

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Guards) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]


_UNITS = 1 << 60


def _exact(value: float) -> int:
    """Return a number as an integer multiple of 2^-60, so that sums do not depend on
    the order."""
    return int(value * _UNITS)


def _logarithms(metric: Metric, value: float) -> Ints:
    """Return ln(1 + b x) for all bets, as integers."""
    limit = metric.scaled(metric.limit or 0.0)
    harm = metric.scaled(value) - limit
    least = -limit
    if metric.better == "higher":
        harm = -harm
        least = limit - 1.0
    bets = _BETS
    if least < 0:
        bets = np.minimum(_BETS, _LARGEST / -least)
    return in_units(np.log1p(bets * harm))
