"""Calibration: bets against each expert that its prediction of the drawn arm is the mean reward, as sums in any order.

They are those of `CalibrationMonitor` with the directions 1 (bias) and 2f - 1 (over- and under-confidence), which do
not depend on other rewards: a reward that turns into another is taken out and put in again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from oddsmith.arrays import Array
from oddsmith.decision import Decision
from oddsmith.evaluation.calibration import STAKES
from oddsmith.losses import Loss
from oddsmith.storage.accounts import Count
from oddsmith.storage.sums.packing import pack_floats, unpack_floats

__all__ = ["Calibrated", "Calibration"]

_MOST = 100  # experts
_WORST = 700.0  # a loss that is larger counts as this one
_BETS = 2 * len(STAKES)
_LARGEST = log(np.finfo(np.float64).max)


class Calibrated(NamedTuple):
    """Of an expert the mean loss over the rewards it was awake for, and the e-value against its predictions."""

    expert: str
    loss: float
    e_value: float


@dataclass(slots=True)
class Calibration:
    """Of the first 100 experts: ln(1 + λ d (r - f)) of all bets (bets, N), Σ losses (N,), and of how many (N,).

    Arrays are not written into.
    """

    names: tuple[str, ...] = ()
    bets: Array = field(default_factory=lambda: np.zeros((_BETS, 0)))
    losses: Array = field(default_factory=lambda: np.zeros(0))
    scored: Array = field(default_factory=lambda: np.zeros(0))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Calibration) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def copy(self) -> "Calibration":
        """The same, to go on from."""
        return Calibration(self.names, self.bets, self.losses, self.scored)

    def count(self, count: Count, decision: Decision, names: Sequence[str], loss: Loss) -> None:
        """A decision counts, for which these experts were asked, or the first of them."""
        if decision.advice is None:
            return
        if len(self.names) < min(len(names), _MOST):
            self.names = tuple(names[:_MOST])
        advice = decision.advice[: len(self.names)]
        more = len(self.names) - len(self.losses)
        if more or len(advice) < len(self.names) or not (advice.min() >= 0 and advice.max() <= 1):
            self.bets = np.pad(self.bets, ((0, 0), (0, more)))
            self.losses, self.scored = np.pad(self.losses, (0, more)), np.pad(self.scored, (0, more))
            advice = np.pad(advice, (0, len(self.names) - len(advice)), constant_values=np.nan)
            awake = (advice >= 0) & (advice <= 1)
            self._add(np.where(awake, advice, 0.5), awake.astype(np.float64), count, loss)
        else:
            self._add(advice, 1.0, count, loss)

    def _add(self, mean: Array, awake: Array | float, count: Count, loss: Loss) -> None:
        """Add a reward to the sums of experts that are awake, or what is another where it turns into one."""
        bets, losses = _row(mean, awake, count.value, loss)
        if count.before is None:
            self.scored = self.scored + awake
        else:
            gone = _row(mean, awake, count.before, loss)
            bets, losses = bets - gone[0], losses - gone[1]
        self.bets, self.losses = self.bets + bets, self.losses + losses

    def told(self) -> Iterator[Calibrated]:
        """What the rewards say about each expert that was ever awake."""
        grown = logsumexp(self.bets, axis=0) - log(_BETS) if self.names else ()
        for name, e, total, scored in zip(self.names, grown, self.losses, self.scored, strict=True):
            if scored > 0:
                yield Calibrated(name, float(total / scored), exp(min(float(e), _LARGEST)))

    def to_json(self) -> dict[str, Any]:
        """What a snapshot holds of it."""
        numbers = [*self.bets.ravel().tolist(), *self.losses.tolist(), *self.scored.tolist()]
        return {"names": list(self.names), "sums": pack_floats(numbers)}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "Calibration":
        """What `to_json` gave."""
        table = np.array(unpack_floats(given["sums"])).reshape(_BETS + 2, -1)
        return cls(tuple(given["names"]), table[:_BETS], table[-2], table[-1])


def _row(mean: Array, awake: Array | float, reward: float, loss: Loss) -> tuple[Array, Array]:
    """What a reward adds to the bets (bets, N) and losses (N,), nothing where experts are not awake."""
    off = (reward - mean) * awake
    moves = np.concatenate([off, (2 * mean - 1) * off]).reshape(2, 1, -1)
    bets: Array = np.log1p(moves * STAKES[:, None]).reshape(_BETS, -1)
    with np.errstate(all="ignore"):
        losses: Array = np.minimum(loss(mean, np.full(len(mean), reward)), _WORST) * awake
    return bets, losses
