"""Propensities of Thompson sampling with features: quadrature for independent
posteriors, fixed directions for a shared one."""

from dataclasses import dataclass

import numpy as np

from oddsmith.core.arrays import Array, Bools, number
from oddsmith.core.decision import Context, Odds, Step
from oddsmith.core.expert_policy import check_eligible, mix_uniform
from oddsmith.core.offer import AnyOffer
from oddsmith.experts.best_arm import normal_best
from oddsmith.policies.parts.directions import (
    best_rows,
    check_directions,
    directions,
    shared_best,
    symmetric_root,
)
from oddsmith.policies.parts.gaussian import (
    GaussianState,
    OverFeatures,
    View,
    shared_weights,
)

__all__ = ["OverPosterior"]


@dataclass(frozen=True, eq=False, kw_only=True)
class OverPosterior(OverFeatures):
    """Draw each arm with the probability that its θ_a·φ is the largest under θ ~
    N(mean, width² covariance), mixed with gamma.

    The default of gamma is 0 if each arm has its own posterior, and 0.01 if arms share
    one.
    """

    width: float = 1.0
    gamma: float | None = None
    optimist: bool = False
    directions: int = 1024
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        number("width", self.width, low=0, high=np.inf)
        gamma = self.gamma
        if gamma is None:
            gamma = 0.01 if self.n_arms is None else 0.0
        object.__setattr__(self, "gamma", number("gamma", gamma, low=0, high=1))
        check_directions(self.directions, self.seed)

    @property
    def explores(self) -> bool:
        return bool(self.gamma)  # with gamma = 0, propensities can underflow to 0

    def odds(
        self,
        state: GaussianState,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Odds:
        """Return the probability that each arm is the best in this context."""
        if isinstance(context, AnyOffer):
            check_eligible(eligible, len(context.arms))
            least = shared_weights(state) if self.optimist else None
            best = best_rows(self.features(context), self.draws(state), least, eligible)
        else:
            best = self.best(self.view(state, context, eligible), eligible)
        return Odds(mix_uniform(best, float(self.gamma or 0.0), eligible))

    def draws(self, state: GaussianState) -> Array:
        """Return fixed draws (n, d) of the weights that all arms share."""
        factor = self.width * symmetric_root(state.covariance[0])
        normal = directions(self.dim, self.directions, self.seed)
        return shared_weights(state) + normal @ factor

    def best(self, view: View, eligible: Bools | None) -> Array:
        """Return the probability that each arm is the best (…, K), before gamma."""
        if self.n_arms is not None:
            sds = self.width * np.sqrt(view.variances)
            return normal_best(view.means, sds, eligible, optimist=self.optimist)
        covariance = self.width**2 * view.covariance
        return shared_best(
            view.means,
            covariance,
            eligible,
            n=self.directions,
            seed=self.seed,
            optimist=self.optimist,
        )
