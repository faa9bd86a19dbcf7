"""UCB1: the arm with the highest upper confidence bound (Auer, Cesa-Bianchi and Fischer
2002)."""

from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from oddsmith.core.arrays import Array, Bools
from oddsmith.core.decision import Context, Odds, Step
from oddsmith.core.expert_policy import check_eligible, greedy_odds
from oddsmith.policies.parts.counts import CountState, OverArms

__all__ = ["UCB1"]

_FEW = 32


@dataclass(frozen=True, eq=False)
class UCB1(OverArms):
    """Choose argmax mean + sqrt(2 ln n / n_a), where n is the number of all rewards and
    n_a that of the arm. Arms without rewards come first.

    >>> policy = UCB1(3)
    >>> policy.odds(policy.init(), None).propensities
    array([1., 0., 0.])
    """

    def odds(
        self,
        state: CountState,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Odds:
        if eligible is None and state.pulls.ndim == 1 and len(state.pulls) <= _FEW:
            return Odds(self._one(state.pulls.tolist(), state.sums.tolist()))
        check_eligible(eligible, self.n_arms)
        return Odds(greedy_odds(self.bounds(state), eligible))

    def _one(self, pulls: list[float], sums: list[float]) -> Array:
        """Return the propensities for one decision: 1 for the best arm. For few arms,
        plain Python is faster than arrays."""
        odds = np.zeros(len(pulls))
        if 0.0 in pulls:
            odds[pulls.index(0.0)] = 1.0
            return odds
        twice = 2 * log(sum(pulls))
        upper = [won / n + sqrt(twice / n) for won, n in zip(sums, pulls, strict=True)]
        odds[upper.index(max(upper))] = 1.0
        return odds

    def bounds(self, state: CountState) -> Array:
        """Return the upper confidence bounds (…, K); inf for an arm without rewards."""
        pulls = state.pulls
        counts = np.maximum(pulls, 1.0)
        n = np.maximum(pulls.sum(axis=-1, keepdims=True), 1.0)
        width = np.sqrt(2 * np.log(n) / counts)
        upper = state.sums / counts + width
        return np.where(pulls > 0, upper, np.inf)
