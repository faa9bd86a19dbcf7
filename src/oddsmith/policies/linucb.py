"""LinUCB: ridge regression and an upper confidence bound, for each arm or shared (Li,
Chu, Langford, Schapire 2010)."""

from dataclasses import dataclass

import numpy as np

from oddsmith.core.arrays import Array, Bools, Real, number
from oddsmith.core.decision import Context, Decision, Odds, Step
from oddsmith.core.expert_policy import greedy_odds
from oddsmith.core.offer import AnyOffer
from oddsmith.core.weights import greedy
from oddsmith.policies.parts.gaussian import GaussianState, OverFeatures

__all__ = ["LinUCB"]


@dataclass(frozen=True, eq=False, kw_only=True)
class LinUCB(OverFeatures):
    """Choose argmax θ_a·φ + alpha sqrt(φ' A_a^-1 φ), with A = ridge I + Σ φφ' and θ =
    A^-1 Σ r φ.

    With `n_arms`, each arm has its own regression and the context is (…, d). Otherwise
    all arms share one regression and the context is (…, K, d).

    >>> policy = LinUCB(2, n_arms=3)
    >>> policy.odds(policy.init(), np.array([1.0, 0.5])).propensities
    array([1., 0., 0.])
    """

    alpha: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        number("alpha", self.alpha, low=0, high=np.inf)

    def odds(
        self,
        state: GaussianState,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Odds:
        bounds = self.bounds(state, context, eligible)
        if not isinstance(context, AnyOffer):
            return Odds(greedy_odds(bounds, eligible))
        # Arms with equal bounds share the propensity, because the order of an offer has
        # no meaning.
        return Odds(greedy(bounds[..., None, :], eligible)[..., 0, :])

    def bounds(
        self, state: GaussianState, context: Context, eligible: Bools | None = None
    ) -> Array:
        """Return the upper confidence bounds (…, K)."""
        view = self.view(state, context, eligible)
        sd = np.sqrt(view.variances)
        return view.means + self.alpha * sd

    def update(
        self, state: GaussianState, decision: Decision, reward: Real
    ) -> GaussianState:
        """Add one row to the drawn arm's regression."""
        return self.add_row(state, decision, reward, 1.0)
