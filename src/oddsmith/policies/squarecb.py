"""SquareCB: odds that fall with the gap to the best arm (Foster and Rakhlin 2020)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from oddsmith.arrays import Array, Bools
from oddsmith.decision import Context, Odds, Step
from oddsmith.experts.base import Experts
from oddsmith.policies.over_experts import ExpertState
from oddsmith.policies.parts.gaps import OverOracle
from oddsmith.policies.parts.oracles import OracleName, rest_on_best, standing

__all__ = ["SquareCB", "inverse_gap"]


@dataclass(frozen=True, eq=False)
class SquareCB(OverOracle):
    """Inverse gap weighting (Foster and Rakhlin 2020; theory 5.2).

        Pr(a) = 1/(K + Γ (ŷ_b - ŷ_a)) for a ≠ b = argmax ŷ, the rest on b

    `sharpness` is Γ; ŷ comes from Vovk's aggregating algorithm (square loss, eta 2) or the Bayes mixture (log loss).
    With Γ = 4 sqrt((K-1) T / L) regret is at most sqrt((K-1) T L), L = ln 1/p; the recipe `squarecb` sets it.

    >>> from oddsmith.experts.given import GivenExperts
    >>> policy = SquareCB(GivenExperts(["only"]), sharpness=20.0)
    >>> policy.odds(policy.init(), np.array([[0.1, 0.5, 0.3]])).propensities.round(4)
    array([0.0909, 0.7662, 0.1429])
    """

    experts: Experts
    sharpness: float
    oracle: OracleName = "vovk"
    prior: Any = None

    explores = True

    def odds(self, state: ExpertState, context: Context, *, eligible: Bools | None = None, step: Step = None) -> Odds:
        predictions, best_guess, asleep = self.predictions(state, context, eligible)
        propensities = inverse_gap(best_guess, self.sharpness, eligible)
        return Odds(propensities, predictions, None, state.log_weights if asleep else None)


def inverse_gap(predicted: Array, sharpness: float, eligible: Bools | None = None) -> Array:
    """1/(K + Γ gap) for every arm but the best, which gets the rest (…, K); ties to the lowest index.

    >>> inverse_gap(np.array([0.1, 0.5, 0.3]), 20.0).round(4)
    array([0.0909, 0.7662, 0.1429])
    """
    best, top, n_arms = standing(predicted, eligible)
    return rest_on_best(1 / (n_arms + sharpness * np.maximum(top - predicted, 0.0)), best, eligible)
