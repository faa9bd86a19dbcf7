"""GLM-UCB with a logistic link (Filippi, Cappé, Garivier and Szepesvári 2010)."""

from dataclasses import dataclass

import numpy as np

from oddsmith.core.arrays import Array, Bools
from oddsmith.core.decision import Context
from oddsmith.policies.linucb import LinUCB
from oddsmith.policies.parts.gaussian import GaussianState
from oddsmith.policies.parts.logistic import OverLogistic, sigmoid

__all__ = ["GLMUCB"]


@dataclass(frozen=True, eq=False, kw_only=True)
class GLMUCB(OverLogistic, LinUCB):
    """Choose argmax σ(θ·φ) + alpha sqrt(φ' A^-1 φ), the GLM-UCB of Filippi et al. 2010
    with a logistic link.

    θ is the mode of the sequential Laplace approximation (in the paper: the maximum of
    the quasi-likelihood over all rows). The width uses the covariance of this
    approximation, which weighs rows by their curvature.

    >>> policy = GLMUCB(2, n_arms=3)
    >>> policy.odds(policy.init(), np.array([1.0, 0.5])).propensities
    array([1., 0., 0.])
    """

    alpha: float = 0.5

    def bounds(
        self, state: GaussianState, context: Context, eligible: Bools | None = None
    ) -> Array:
        """Return the upper confidence bounds (…, K)."""
        view = self.view(state, context, eligible)
        sd = np.sqrt(view.variances)
        return sigmoid(view.means) + self.alpha * sd
