"""Calibration: bets against each expert that its prediction of the drawn arm is the
mean reward, as sums in any order.

They are those of `CalibrationMonitor` with the directions 1 (bias) and 2f - 1 (over-
and under-confidence), which do not depend on other rewards: a reward that turns into
another is taken out and put in again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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

_MOST = 100  # experts
_WORST = 700.0  # a loss that is larger counts as this one
_WAIT = 64  # rewards that are added at once
_BETS = 2 * len(STAKES)
_LARGEST = log(np.finfo(np.float64).max)


class CalibrationResult(NamedTuple):
    """Of an expert the mean loss over the n rewards it was awake for, and the e-value
    against its predictions."""

    expert: str
    loss: float
    n: int
    e_value: float


@dataclass(slots=True)
class Calibration:
    """Of the first 100 experts, in units: ln(1 + λ d (r - f)) of all bets (bets, N),
    losses (N,); and of how many (N,).

    Rewards wait until there are some to be added at once: sums of units do not depend
    on when. Arrays are not written into.
    """

    names: tuple[str, ...] = ()
    bets: Ints = field(default_factory=lambda: np.zeros((_BETS, 0), np.int64))
    losses: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    scored: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    waiting: list[tuple[Array, float, int]] = field(default_factory=list)
    loss: Loss | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Calibration) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def copy(self) -> "Calibration":
        """The same, to go on from."""
        return Calibration(
            self.names,
            self.bets,
            self.losses,
            self.scored,
            self.waiting.copy(),
            self.loss,
        )

    def count(
        self, count: Count, decision: Decision, names: Sequence[str], loss: Loss
    ) -> None:
        """A decision counts, for which these experts were asked, or the first of
        them."""
        if decision.advice is None:
            return
        if len(self.names) < min(len(names), _MOST):
            self._settle()
            self.names = tuple(names[:_MOST])
        self.loss = loss
        advice = decision.advice[: len(self.names)]
        self.waiting.append((advice, count.value, 1))
        if count.before is not None:
            self.waiting.append((advice, count.before, -1))
        if len(self.waiting) >= _WAIT:
            self._settle()

    def results(self) -> Iterator[CalibrationResult]:
        """What the rewards say about each expert that was ever awake."""
        now = self.copy()
        now._settle()
        grown = (
            logsumexp(of_units(now.bets), axis=0) - log(_BETS)
            if now.losses.size
            else ()
        )
        for name, e, total, scored in zip(
            now.names, grown, of_units(now.losses), now.scored, strict=True
        ):
            if scored > 0:
                yield CalibrationResult(
                    name,
                    float(total / scored),
                    int(scored),
                    exp(min(float(e), _LARGEST)),
                )

    def to_json(self) -> dict[str, Any]:
        """What a snapshot holds of it."""
        now = self.copy()
        now._settle()
        return {
            "names": list(now.names),
            "sums": pack_units(np.vstack([now.bets, now.losses, now.scored])),
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "Calibration":
        """What `to_json` gave."""
        table = unpack_units(given["sums"]).reshape(_BETS + 2, -1)
        return cls(tuple(given["names"]), table[:_BETS], table[-2], table[-1])

    def _settle(self) -> None:
        """Add the rewards that wait."""
        if not self.waiting or self.loss is None:
            return
        more = len(self.names) - len(self.losses)
        self.bets = np.pad(self.bets, ((0, 0), (0, more)))
        self.losses, self.scored = (
            np.pad(self.losses, (0, more)),
            np.pad(self.scored, (0, more)),
        )
        mean = np.full((len(self.waiting), len(self.names)), np.nan)
        for row, (advice, _, _) in zip(mean, self.waiting, strict=True):
            row[: len(advice)] = advice
        rewards, times = (
            np.array(column)[:, None]
            for column in list(zip(*self.waiting, strict=True))[1:]
        )
        awake = (mean >= 0) & (mean <= 1)
        mean[~awake] = 0.5
        off = (rewards - mean) * awake
        moves = (
            np.concatenate([off, (2 * mean - 1) * off], axis=1)[:, None, :]
            * STAKES[:, None]
        )
        self.bets = self.bets + (in_units(np.log1p(moves)) * times[:, :, None]).sum(
            axis=0
        ).reshape(_BETS, -1)
        with np.errstate(all="ignore"):
            losses = np.minimum(
                self.loss(mean, np.broadcast_to(rewards, mean.shape).copy()), _WORST
            )
        self.losses = self.losses + (
            in_units(np.where(awake, losses, 0.0)) * times
        ).sum(axis=0)
        self.scored, self.waiting = self.scored + (awake * times).sum(axis=0), []
