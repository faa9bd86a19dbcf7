"""SquareCB: inverse gap weighting (Foster and Rakhlin 2020)."""

from dataclasses import dataclass

from oddsmith.experts.ballots import inverse_gap
from oddsmith.policies.parts.oracles import OracleName, OverOracle

__all__ = ["SquareCB"]


@dataclass(frozen=True, eq=False)
class SquareCB(OverOracle):
    """Inverse gap weighting (Foster and Rakhlin 2020; docs/math 5.2).

        Pr(a) = 1/(K + Γ (ŷ_b - ŷ_a)) for a ≠ b = argmax ŷ, the rest on b

    `sharpness` is Γ. ŷ is the prediction of Vovk's aggregating algorithm (square loss,
    eta 2) or of the Bayes mixture (log loss). With Γ = 4 sqrt((K-1) T / L), regret is
    at most sqrt((K-1) T L), L = ln 1/p; the recipe `squarecb` sets it.

    >>> import numpy as np
    >>> from oddsmith.experts.external import GivenExperts
    >>> policy = SquareCB(GivenExperts(["only"]), sharpness=20.0)
    >>> policy.odds(policy.init(), np.array([[0.1, 0.5, 0.3]])).propensities.round(4)
    array([0.0909, 0.7662, 0.1429])
    """

    oracle: OracleName = "vovk"

    explores = True
    rule = staticmethod(inverse_gap)
