"""Choices: what the best expert's policy earns more than the best predictor's, with an interval for all times at once.

Of an expert's vote over the odds, w, both w r and w (1 - r) are at least 0, and their means are what its policy earns
and loses. For X >= 0 and λ in (0, 1), exp(λ (X - c) - ψ(λ) (X - c)²) <= 1 + λ (X - c), ψ(λ) = -ln(1 - λ) - λ, c <= 1
(Fan, Grama and Liu 2015): so sums of X and of (X - c)² bound the sum of means from below, by Ville's inequality at all
times. A union over the λ, the experts and both sums leaves the level for any pair that is looked at.
"""

from collections.abc import Sequence
from math import log
from typing import NamedTuple

import numpy as np

from oddsmith.arrays import Array

__all__ = ["CENTRE", "Choices", "choices_of", "sums_of"]

CENTRE = 0.5
_LAMBDAS = 0.5 ** np.arange(1, 17)
_COSTS = -np.log1p(-_LAMBDAS) - _LAMBDAS
_ENOUGH = 100  # rewards, before which nothing is said


class Choices(NamedTuple):
    """The best policy and the best predictor, by name; what the first earns more, and a 95 % interval of it."""

    policy: str
    predictor: str
    gap: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        """A sentence."""
        seen = f"{self.n:,} rewards say"
        if self.n < _ENOUGH:
            return f"Whether the best predictor has the best policy is not told before there are {_ENOUGH} rewards."
        if self.policy == self.predictor:
            return f"The best predictor, {self.predictor!r}, has the best policy too, as far as {seen}."
        interval = f"95% at any time: {self.low:.2f} to {self.high:.2f}"
        if self.low > 0:
            return (
                f"Your experts predict well and choose badly: the policy of {self.policy!r} earns {self.gap:.2f} more "
                f"than that of the best predictor, {self.predictor!r} ({interval})."
            )
        return (
            f"The policy of {self.policy!r} may earn {self.gap:.2f} more than that of the best predictor, "
            f"{self.predictor!r} ({interval}): {self.n:,} rewards do not decide it."
        )


def sums_of(weights: Array, reward: Array) -> Array:
    """What a reward adds (…, 4, N), of votes over odds (…, N): w r, w (1 - r), and their squares about the centre."""
    earned, lost = weights * reward, weights * (1 - reward)
    return np.stack([earned, lost, (earned - CENTRE) ** 2, (lost - CENTRE) ** 2], axis=-2)


def choices_of(sums: Array, n: int, *, names: Sequence[str], predictor: int, level: float = 0.95) -> Choices:
    """What sums (4, N) of n rewards say about the best policy beside that of the expert numbered `predictor`."""
    rows = max(n, 1)
    values = (sums[0] - sums[1]) / (2 * rows)  # what is earned, less a half
    best = int(values.argmax())
    doubt = log(2 * len(names) * len(_LAMBDAS) / (1 - level))
    bounds = (sums[:2, :, None] - (_COSTS * sums[2:, :, None] + doubt) / _LAMBDAS) / rows
    earned, lost = bounds.max(axis=-1).clip(0.0, 1.0)
    low, high = earned[best] + lost[predictor] - 1, 1 - lost[best] - earned[predictor]
    gap = float(values[best] - values[predictor])
    return Choices(names[best], names[predictor], gap, float(low), float(high), n)
