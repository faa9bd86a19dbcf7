"""FastCB: inverse gap weighting that explores less if the best arm costs little (Foster
and Krishnamurthy 2021)."""

from dataclasses import dataclass

import numpy as np

from oddsmith.core.arrays import Array, Bools
from oddsmith.experts.ballots import best_of, rest_on_best
from oddsmith.policies.parts.oracles import OracleName, OverOracle

__all__ = ["FastCB", "fast_gap"]


def fast_gap(
    predicted: Array, sharpness: float, eligible: Bools | None = None
) -> Array:
    """Return y_b/(K y_b + Γ (y_a - y_b)) for costs y = 1 - prediction, and the
    remaining probability for the best arm, which gets all of it if it costs nothing.

    >>> fast_gap(np.array([0.9, 0.5, 0.7]), 20.0).round(4)
    array([0.9647, 0.012 , 0.0233])
    """
    best, top, n_arms = best_of(predicted, eligible)
    least = np.maximum(1 - top, 0.0)
    gap = np.maximum(top - predicted, 0.0)
    below = n_arms * least + sharpness * gap
    odds = least / np.where(below > 0, below, 1.0)
    odds = np.where(below > 0, odds, 0.0)
    return rest_on_best(odds, best, eligible)


@dataclass(frozen=True, eq=False)
class FastCB(OverOracle):
    """Inverse gap weighting that explores less if the best arm costs little (Foster and
    Krishnamurthy 2021; docs/math 5.3).

        Pr(a) = y_b/(K y_b + Γ (y_a - y_b)) for a ≠ b = argmin y, the rest on b;
        y = 1 - ŷ, the cost

    >>> from oddsmith.experts.external import GivenExperts
    >>> policy = FastCB(GivenExperts(["only"]), sharpness=20.0)
    >>> policy.odds(policy.init(), np.array([[0.9, 0.5, 0.7]])).propensities.round(4)
    array([0.9647, 0.012 , 0.0233])
    """

    oracle: OracleName = "mixture"

    rule = staticmethod(fast_gap)
