"""Calibration: bets against the hypothesis that an expert's prediction for the drawn
arm is the mean reward. The order of rewards does not matter.

The bets are those of `CalibrationMonitor` with the directions 1 (bias) and 2f - 1
(over- and under-confidence). These directions do not depend on other rewards, so if a
reward changes, its terms can be subtracted and added again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, log
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from oddsmith.core.arrays import Array, Ints
from oddsmith.core.decision import Decision
from oddsmith.core.losses import Loss
from oddsmith.evaluation.calibration import STAKES
from oddsmith.evaluation.exact_sums import in_units, of_units
from oddsmith.server.fold.accounts import Count
from oddsmith.server.statistics.snapshot import pack_units, unpack_units

__all__ = ["Calibration", "CalibrationResult"]

_MOST = 100  # maximum number of experts
_WORST = 700.0  # larger losses are clipped to this value
_WAIT = 64  # rewards per batch
_BETS = 2 * len(STAKES)
_LARGEST = log(np.finfo(np.float64).max)


class CalibrationResult(NamedTuple):
    """An expert's mean loss over the n rewards that it predicted, and the e-value
    against its predictions."""

    expert: str
    loss: float
    n: int
    e_value: float


class _Row(NamedTuple):
    """A reward with the predictions for it; `times` is -1 to subtract the row."""

    advice: Array
    reward: float
    times: int


@dataclass(slots=True)
class Calibration:
    """Sums for the first 100 experts.

    `bets` (bets, N) contains ln(1 + λ d (r - f)) of all bets, and `losses` (N,) the
    losses, both as integers (multiples of a small unit). `scored` (N,) is the number of
    rewards. Rewards are added in batches; integer sums do not depend on the order.
    Arrays are never changed in place.
    """

    names: tuple[str, ...] = ()
    bets: Ints = field(default_factory=lambda: np.zeros((_BETS, 0), np.int64))
    losses: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    scored: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    waiting: list[_Row] = field(default_factory=list)
    loss: Loss | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Calibration) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def copy(self) -> "Calibration":
        """Return a copy that can be changed without changing this one."""
        return replace(self, waiting=self.waiting.copy())

    def count(
        self, count: Count, decision: Decision, names: Sequence[str], loss: Loss
    ) -> None:
        """Add a reward; `names` are the experts, possibly with some that joined
        later."""
        if decision.advice is None:
            return
        if len(self.names) < min(len(names), _MOST):
            self._settle()
            self.names = tuple(names[:_MOST])
        self.loss = loss
        advice = decision.advice[: len(self.names)]
        self.waiting.append(_Row(advice, count.value, 1))
        if count.before is not None:
            self.waiting.append(_Row(advice, count.before, -1))
        if len(self.waiting) >= _WAIT:
            self._settle()

    def results(self) -> Iterator[CalibrationResult]:
        """Yield the result of each expert with a prediction."""
        now = self._current()
        if not now.names:
            return
        log_e_values = logsumexp(of_units(now.bets), axis=0) - log(_BETS)
        losses = of_units(now.losses)
        for i, name in enumerate(now.names):
            n = int(now.scored[i])
            if n > 0:
                e_value = exp(min(float(log_e_values[i]), _LARGEST))
                yield CalibrationResult(name, float(losses[i] / n), n, e_value)

    def to_json(self) -> dict[str, Any]:
        """Return the sums as a snapshot contains them."""
        now = self._current()
        table = np.vstack([now.bets, now.losses, now.scored])
        return {"names": list(now.names), "sums": pack_units(table)}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "Calibration":
        """Return the sums that `to_json` wrote."""
        names = tuple(given["names"])
        table = unpack_units(given["sums"]).reshape(_BETS + 2, -1)
        bets = table[:_BETS]
        return cls(names, bets, losses=table[_BETS], scored=table[_BETS + 1])

    def _current(self) -> "Calibration":
        """Return a copy to which all waiting rewards are added."""
        now = self.copy()
        now._settle()
        return now

    def _settle(self) -> None:
        """Add the waiting rewards."""
        if not self.waiting or self.loss is None:
            return
        joined = len(self.names) - len(self.losses)
        self.bets = np.pad(self.bets, ((0, 0), (0, joined)))
        self.losses = np.pad(self.losses, (0, joined))
        self.scored = np.pad(self.scored, (0, joined))

        mean = np.full((len(self.waiting), len(self.names)), np.nan)
        for i, row in enumerate(self.waiting):
            mean[i, : len(row.advice)] = row.advice
        rewards = np.array([row.reward for row in self.waiting])[:, None]
        times = np.array([row.times for row in self.waiting])[:, None]
        has_mean = (mean >= 0) & (mean <= 1)
        mean[~has_mean] = 0.5

        # Bets on λ d (r - f) with the directions d = 1 and d = 2f - 1.
        error = (rewards - mean) * has_mean
        gains = np.concatenate([error, (2 * mean - 1) * error], axis=1)
        bets = in_units(np.log1p(gains[:, None, :] * STAKES[:, None]))
        added = (bets * times[:, :, None]).sum(axis=0)
        self.bets = self.bets + added.reshape(_BETS, -1)

        outcomes = np.broadcast_to(rewards, mean.shape).copy()
        with np.errstate(all="ignore"):
            losses = np.minimum(self.loss(mean, outcomes), _WORST)
        units = in_units(np.where(has_mean, losses, 0.0))
        self.losses = self.losses + (units * times).sum(axis=0)
        self.scored = self.scored + (has_mean * times).sum(axis=0)
        self.waiting = []
