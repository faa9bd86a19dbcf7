"""KL-UCB: confidence bounds from the Kullback-Leibler divergence, with Lai and Robbins' rate for coins."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from oddsmith.arrays import Array, Bools, number
from oddsmith.decision import Context, Odds
from oddsmith.policies.base import certain
from oddsmith.policies.counts import CountState, OverArms, check_arms

__all__ = ["KLUCB", "kl_upper"]


@dataclass(frozen=True, eq=False)
class KLUCB(OverArms):
    """All mass on argmax max{q: n_a kl(mean_a, q) <= ln n + c ln ln n} (Garivier and Cappé 2011).

    With c = 0, the default and what its authors use in practice; regret grows like Σ Δ_a ln T / kl(μ_a, μ*).

    >>> policy = KLUCB(2)
    >>> policy.odds(policy.init(), None).propensities
    array([1., 0.])
    """

    n_arms: int
    c: float = 0.0

    positive_odds = False  # of arms it is not sure of

    def __post_init__(self) -> None:
        check_arms(self.n_arms)
        number("c", self.c, low=0, high=np.inf)

    def odds(self, state: CountState, context: Context, *, eligible: Bools | None = None, step: Any = None) -> Odds:
        self.check(eligible)
        return Odds(certain(self.bounds(state), eligible))

    def bounds(self, state: CountState) -> Array:
        """The upper confidence bounds (…, K); 2 for an arm without rewards, which is above all others."""
        known = np.maximum(state.pulls, 1.0)
        log_n = np.log(np.maximum(state.pulls.sum(axis=-1, keepdims=True), 1.0))
        allowed = log_n + self.c * np.log(np.maximum(log_n, 1.0))
        upper: Array = np.where(state.pulls > 0, kl_upper(state.sums / known, allowed / known), 2.0)
        return upper


def kl_upper(mean: Array, allowed: Array) -> Array:
    """The largest q >= mean with kl(mean, q) <= allowed, elementwise, by bisection to the last bits.

    >>> float(kl_upper(np.array(0.5), np.array(0.0)))
    0.5
    """
    low, high = np.clip(mean, 0.0, 1.0), np.ones(np.broadcast_shapes(mean.shape, allowed.shape))
    low = np.broadcast_to(low, high.shape).copy()
    for _ in range(60):
        middle = (low + high) / 2
        inside = _kl(mean, middle) <= allowed
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return low


def _kl(p: Array, q: Array) -> Array:
    """Of Bernoulli distributions, 0 ln 0 = 0."""
    from scipy.special import rel_entr

    divergence: Array = rel_entr(p, q) + rel_entr(1 - p, 1 - q)
    return divergence
