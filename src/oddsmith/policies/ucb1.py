"""UCB1: the arm with the highest upper confidence bound (Auer, Cesa-Bianchi and Fischer 2002)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from oddsmith.arrays import Array, Bools
from oddsmith.decision import Context, Odds
from oddsmith.policies.base import certain
from oddsmith.policies.counts import CountState, OverArms, check_arms

__all__ = ["UCB1"]


@dataclass(frozen=True, eq=False)
class UCB1(OverArms):
    """All mass on argmax mean + sqrt(2 ln n / n_a), n rewards in all, n_a of the arm; arms without rewards come first.

    >>> policy = UCB1(3)
    >>> policy.odds(policy.init(), None).propensities
    array([1., 0., 0.])
    """

    n_arms: int

    positive_odds = False  # of arms it is not sure of

    def __post_init__(self) -> None:
        check_arms(self.n_arms)

    def odds(self, state: CountState, context: Context, *, eligible: Bools | None = None, step: Any = None) -> Odds:
        self.check(eligible)
        return Odds(certain(self.bounds(state), eligible))

    def bounds(self, state: CountState) -> Array:
        """The upper confidence bounds (…, K); inf for an arm without rewards."""
        pulls, sums = state.pulls, state.sums
        if pulls.min() > 0:
            log_n = np.log(np.add.reduce(pulls, axis=-1, keepdims=True))
            every: Array = sums / pulls + np.sqrt(2 * log_n / pulls)
            return every
        known = np.maximum(pulls, 1.0)
        log_n = np.log(np.maximum(pulls.sum(axis=-1, keepdims=True), 1.0))
        upper: Array = np.where(pulls > 0, sums / known + np.sqrt(2 * log_n / known), np.inf)
        return upper
