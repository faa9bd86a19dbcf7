"""KL-UCB: confidence bounds by the Kullback-Leibler divergence, with the optimal rate
of Lai and Robbins for Bernoulli rewards."""

from dataclasses import dataclass

import numpy as np

from oddsmith.core.arrays import Array, Bools, number
from oddsmith.core.decision import Context, Odds, Step
from oddsmith.core.expert_policy import check_eligible, greedy_odds
from oddsmith.policies.parts.counts import CountState, OverArms

__all__ = ["KLUCB", "kl_upper"]

_NEARLY = 1 - 2**-53  # the largest float below 1


@dataclass(frozen=True, eq=False)
class KLUCB(OverArms):
    """Choose argmax max{q: n_a kl(mean_a, q) <= ln n + c ln ln n} (Garivier and Cappé
    2011).

    The default is c = 0, as its authors recommend in practice. Regret grows like Σ Δ_a
    ln T / kl(μ_a, μ*).

    >>> policy = KLUCB(2)
    >>> policy.odds(policy.init(), None).propensities
    array([1., 0.])
    """

    c: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        number("c", self.c, low=0, high=np.inf)

    def odds(
        self,
        state: CountState,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Odds:
        check_eligible(eligible, self.n_arms)
        return Odds(greedy_odds(self.bounds(state), eligible))

    def bounds(self, state: CountState) -> Array:
        """Return the upper confidence bounds (…, K). An arm without rewards gets 2,
        which is above all others."""
        counts = np.maximum(state.pulls, 1.0)
        n = np.maximum(state.pulls.sum(axis=-1, keepdims=True), 1.0)
        log_n = np.log(n)
        allowed = log_n + self.c * np.log(np.maximum(log_n, 1.0))
        upper = kl_upper(state.sums / counts, allowed / counts)
        return np.where(state.pulls > 0, upper, 2.0)


def kl_upper(mean: Array, allowed: Array) -> Array:
    """Return the largest q >= mean with kl(mean, q) <= allowed, elementwise, by
    Newton's method from above.

    kl is convex in q, and Pinsker's bound mean + sqrt(allowed/2) is above the root, so
    the steps decrease to it.

    >>> float(kl_upper(np.array(0.5), np.array(0.0)))
    0.5
    """
    p = np.clip(mean, 0.0, 1.0)
    pinsker = np.sqrt(np.maximum(allowed, 0.0) / 2)
    q = np.clip(p + pinsker, 1e-300, _NEARLY)
    for _ in range(50):
        slope = (q - p) / (q * (1 - q))
        is_steep = slope > 0
        step = (_kl(p, q) - allowed) / np.where(is_steep, slope, 1.0)
        step = np.where(is_steep, step, 0.0)
        lower = np.clip(q - step, p, q)
        if (q - lower <= 1e-15).all():
            break
        q = lower
    return np.where(p >= 1, 1.0, q)


def _kl(p: Array, q: Array) -> Array:
    """Return the divergence of two Bernoulli distributions, with 0 ln 0 = 0."""
    from scipy.special import rel_entr

    divergence: Array = rel_entr(p, q) + rel_entr(1 - p, 1 - q)
    return divergence
