"""Choices: the difference in reward between the best expert's policy and the policy of
the best predictor, with an anytime-valid interval.

Let w be an expert's vote divided by the propensity. Then w r and w (1 - r) are at least
0, and their means are the reward and the loss of the expert's policy. For X >= 0 and λ
in (0, 1), exp(λ (X - c) - ψ(λ) (X - c)²) <= 1 + λ (X - c), ψ(λ) = -ln(1 - λ) - λ, c <=
1 (Fan, Grama and Liu 2015). So sums of X and of (X - c)² bound the sum of means from
below at all times, by Ville's inequality. A union bound over the λ, the experts and
both sums keeps the level for any pair.

Both bounds are lower bounds. So the interval only becomes wider, and stays valid, if a
weight is clipped, or if an arm cannot be drawn or has not been drawn yet."""

from collections.abc import Sequence
from math import log
from typing import NamedTuple

import numpy as np

from oddsmith.contexts.rewards import RewardScale
from oddsmith.core.arrays import Array, Bools

__all__ = ["CENTRE", "Choices", "LARGEST", "choices_of", "sums_of"]

CENTRE = 0.5
LARGEST = 2.0**13
"""Largest importance weight (vote divided by propensity); larger ones are clipped."""
_LAMBDAS = 0.5 ** np.arange(1, 17)
_COSTS = -np.log1p(-_LAMBDAS) - _LAMBDAS
_ENOUGH = 100  # number of rewards needed for a statement
# A policy's mean importance weight is 1 if its arms are drawn. Below this, report the
# policy as hidden.
_HIDDEN = 0.5
_NAMED = 3  # maximum number of hidden policies named in the text


class Choices(NamedTuple):
    """The names of the best policy and of the best predictor, and the additional reward
    of the best policy with a 95 % interval.

    `hidden` are the experts whose arms were drawn too rarely to estimate the reward of
    their policies.
    """

    policy: str
    predictor: str
    gap: float
    low: float
    high: float
    n: int
    hidden: tuple[str, ...] = ()

    def in_units(self, scale: RewardScale) -> "Choices":
        """Return the result in the units of the user's rewards.

        >>> Choices("a", "b", 0.08, 0.02, 0.14, 900).in_units(
        ...     RewardScale(0.0, 10.0)
        ... ).gap
        0.8
        """
        width = scale.high - scale.low
        gap = width * self.gap
        return self._replace(gap=gap, low=width * self.low, high=width * self.high)

    def __str__(self) -> str:
        """Return a sentence on the result, and another one on hidden policies."""
        if self.n < _ENOUGH:
            return (
                "Whether the best predictor has the best policy is reported after "
                f"{_ENOUGH} rewards."
            )
        interval = f"95% at any time: {self.low:.2g} to {self.high:.2g}"
        hidden = self._hidden()
        if self.low > 0:
            return (
                "Your experts predict well and choose badly: the policy of "
                f"{self.policy!r} earns {self.gap:.2g} more than that of the best "
                f"predictor, {self.predictor!r} ({interval}).{hidden}"
            )
        if self.predictor in self.hidden:
            return (
                f"Whether the best predictor, {self.predictor!r}, has the best policy "
                f"is not known yet.{hidden}"
            )
        if self.policy == self.predictor:
            seen = f"{self.n:,} rewards say"
            return (
                f"The best predictor, {self.predictor!r}, also has the best policy, "
                f"as far as {seen}.{hidden}"
            )
        return (
            f"The policy of {self.policy!r} may earn {self.gap:.2g} more than that of "
            f"the best predictor, {self.predictor!r} ({interval}): {self.n:,} rewards "
            f"are too few to decide.{hidden}"
        )

    def _hidden(self) -> str:
        if not self.hidden:
            return ""
        names = ", ".join(map(repr, self.hidden[:_NAMED]))
        n_more = len(self.hidden) - _NAMED
        if n_more > 0:
            names += f" and {n_more:,} others"
        policies = "policy" if len(self.hidden) == 1 else "policies"
        verb = "would choose are drawn too rarely to estimate what they earn"
        return (
            f" The arms that the {policies} of {names} {verb}: a larger gamma, floors "
            "for the propensities, or an incumbent that explores would provide the "
            "data."
        )


def sums_of(weights: Array, reward: Array) -> Array:
    """Return the increments (…, 4, N) of a reward, for votes divided by propensities
    (…, N): w r, w (1 - r), and their squares about the centre."""
    weights = np.minimum(weights, LARGEST)
    earned = weights * reward
    lost = weights * (1 - reward)
    parts = [earned, lost, (earned - CENTRE) ** 2, (lost - CENTRE) ** 2]
    return np.stack(parts, axis=-2)


def choices_of(
    sums: Array,
    n: int,
    *,
    names: Sequence[str],
    predictor: int,
    present: Bools | None = None,
    level: float = 0.95,
) -> Choices:
    """Compare the best policy with that of the expert numbered `predictor`, from sums
    (4, N) of n rewards.

    `present` (N,) are the candidates for the best policy. If an expert's policy
    certainly earns more than the predictor's, it is the best; otherwise the best is the
    expert with the largest weighted mean reward that is not hidden."""
    rows = max(n, 1)
    n_experts = len(names)
    there = np.ones(n_experts, dtype=np.bool_) if present is None else present
    doubt = log(2 * n_experts * len(_LAMBDAS) / (1 - level))
    penalty = (_COSTS * sums[2:, :, None] + doubt) / _LAMBDAS
    bounds = (sums[:2, :, None] - penalty) / rows
    earned, lost = bounds.max(axis=-1).clip(0.0, 1.0)
    seen = sums[0] + sums[1]
    values = np.divide(sums[0], seen, out=np.zeros(n_experts), where=seen > 0)
    hidden = there & (seen < _HIDDEN * n)
    best = int(np.where(there, earned, 0.0).argmax())
    if not there[best] or earned[best] + lost[predictor] <= 1:
        known = there & ~hidden
        known[predictor] = True
        best = int(np.where(known, values, -1.0).argmax())
        if values[best] == values[predictor]:
            best = predictor
    low = float(earned[best] + lost[predictor] - 1)
    high = float(1 - lost[best] - earned[predictor])
    gap = float(values[best] - values[predictor])
    gap = min(max(gap, low), high)
    unseen = tuple(names[place] for place in np.flatnonzero(hidden).tolist())
    return Choices(names[best], names[predictor], gap, low, high, n, unseen)
