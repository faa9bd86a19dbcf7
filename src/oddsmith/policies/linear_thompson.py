"""Linear-Gaussian Thompson sampling (Agrawal and Goyal 2013), and GTS over a whole
linear class."""

from dataclasses import dataclass

import numpy as np

from oddsmith.contexts.schema import Schema
from oddsmith.core.arrays import Real, number
from oddsmith.core.decision import Decision
from oddsmith.policies.parts.gaussian import GaussianState
from oddsmith.policies.parts.posterior_odds import OverPosterior

__all__ = ["LinearThompsonSampling", "linear_class"]


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearThompsonSampling(OverPosterior):
    """Draw each arm with the probability that its θ_a·φ is the largest under θ ~
    N(mean, width² covariance), mixed with gamma.

        precision = ridge I + weight Σ φφ',   mean = precision^-1 weight Σ r φ

    With `n_arms`, each arm has its own posterior and the context is (…, d). Arms are
    then independent, and the propensities are computed by quadrature, within 1e-6 of
    exact Thompson sampling; the default of gamma is 0. Without `n_arms`, all arms share
    one posterior and the context is (…, K, d). The propensities then come from fixed
    quasi-random `directions`: approximate Thompson sampling with exact propensities;
    the default of gamma is 0.01. `optimist` is optimistic Bayesian sampling (May et al.
    2012): a draw below the mean counts as the mean.

    >>> policy = LinearThompsonSampling(2, n_arms=2)
    >>> policy.odds(policy.init(), np.array([1.0, 0.5])).propensities.round(6)
    array([0.5, 0.5])
    """

    weight: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        number("weight", self.weight, low=0, high=np.inf, open_low=True)

    def update(
        self, state: GaussianState, decision: Decision, reward: Real
    ) -> GaussianState:
        """Add one row to the drawn arm's regression."""
        return self.add_row(state, decision, reward, 1 / self.weight)


def linear_class(
    dim: int = 0,
    n_arms: int | None = None,
    *,
    eta: float = 1.0,
    gamma: float = 0.01,
    ridge: float = 1.0,
    schema: Schema | None = None,
    arm_schema: Schema | None = None,
) -> LinearThompsonSampling:
    """Return GTS over all linear experts f(x, a) = θ·φ with prior N(0, I/ridge) and
    square loss, whose posterior is Gaussian.

    The precision is ridge I + 2η Σ φφ' (docs/math 5.7). At eta 1,
    `theory.class_bound("linear", …)` holds for its exact propensities.

    >>> linear_class(2).weight
    2.0
    """
    number("eta", eta, low=0, high=np.inf, open_low=True)
    return LinearThompsonSampling(
        dim,
        n_arms,
        ridge=ridge,
        weight=2 * eta,
        gamma=gamma,
        schema=schema,
        arm_schema=arm_schema,
    )
