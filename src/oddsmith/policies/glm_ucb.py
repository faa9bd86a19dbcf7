"""GLM-UCB with a logistic link (Filippi, Cappé, Garivier and Szepesvári 2010)."""

from dataclasses import dataclass

import numpy as np

from oddsmith.arrays import Array, Bools, number
from oddsmith.decision import Context, Odds, Step
from oddsmith.experts.schema import Schema
from oddsmith.policies.over_experts import certain
from oddsmith.policies.parts.gaussian import GaussianState
from oddsmith.policies.parts.logistic import OverLogistic, sigmoid

__all__ = ["GLMUCB"]


@dataclass(frozen=True, eq=False)
class GLMUCB(OverLogistic):
    """All mass on argmax σ(θ·φ) + alpha sqrt(φ' A^-1 φ), the GLM-UCB of Filippi et al. 2010 with a logistic link.

    θ is the mode of the sequential Laplace belief (theirs: the quasi-likelihood's maximum over all rows), and the
    width is measured in the belief's own covariance, which weighs rows by their curvature.

    >>> policy = GLMUCB(2, n_arms=3)
    >>> policy.odds(policy.init(), np.array([1.0, 0.5])).propensities
    array([1., 0., 0.])
    """

    dim: int = 0
    n_arms: int | None = None
    alpha: float = 0.5
    ridge: float = 1.0
    eta: float = 1.0
    schema: Schema | None = None

    def __post_init__(self) -> None:
        self.check_fields()
        number("alpha", self.alpha, low=0, high=np.inf)
        number("eta", self.eta, low=0, high=np.inf, open_low=True)

    def odds(self, state: GaussianState, context: Context, *, eligible: Bools | None = None, step: Step = None) -> Odds:
        return Odds(certain(self.bounds(state, context, eligible), eligible))

    def bounds(self, state: GaussianState, context: Context, eligible: Bools | None = None) -> Array:
        """The upper confidence bounds (…, K)."""
        view = self.view(state, context, eligible)
        return sigmoid(view.means) + self.alpha * np.sqrt(view.variances)
