"""Logistic Thompson sampling with the Laplace approximation (Chapelle and Li 2011), and
GTS over a logistic class."""

from dataclasses import dataclass

from oddsmith.contexts.schema import Schema
from oddsmith.policies.parts.logistic import OverLogistic
from oddsmith.policies.parts.posterior_odds import OverPosterior

__all__ = ["LogisticThompsonSampling", "logistic_class"]


@dataclass(frozen=True, eq=False)
class LogisticThompsonSampling(OverPosterior, OverLogistic):
    """Draw each arm with the probability that its θ_a·φ is the largest under a Gaussian
    posterior of a logistic model, mixed with gamma.

    This is Chapelle and Li 2011 with full covariance: after each reward, the posterior
    is replaced by a Gaussian centred at its mode. With eta below 1, it is GTS over a
    logistic class by Laplace's approximation: `logistic_class`. As in
    `LinearThompsonSampling`, propensities are computed by quadrature if each arm has
    its own posterior (`n_arms`), and from fixed directions if arms share one.

    >>> import numpy as np
    >>> policy = LogisticThompsonSampling(2, n_arms=2)
    >>> policy.odds(policy.init(), np.array([1.0, 0.5])).propensities.round(6)
    array([0.5, 0.5])
    """


def logistic_class(
    dim: int = 0,
    n_arms: int | None = None,
    *,
    eta: float = 0.5,
    gamma: float = 0.01,
    ridge: float = 1.0,
    schema: Schema | None = None,
    arm_schema: Schema | None = None,
) -> LogisticThompsonSampling:
    """Return GTS over all logistic experts with prior N(0, I/ridge) and log loss, by
    Laplace's approximation, one reward at a time.

    At eta 1/2, `theory.class_bound("logistic", …)` holds for the exact posterior, which
    this policy approximates.

    >>> logistic_class(2).eta
    0.5
    """
    return LogisticThompsonSampling(
        dim,
        n_arms,
        ridge=ridge,
        eta=eta,
        gamma=gamma,
        schema=schema,
        arm_schema=arm_schema,
    )
