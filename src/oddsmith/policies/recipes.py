"""Recipes: named algorithms that are settings of Generalized Thompson Sampling."""

from typing import Any

from oddsmith.experts.base import Experts
from oddsmith.losses import Loss, log_loss
from oddsmith.policies.gts import GeneralizedThompsonSampling
from oddsmith.policies.schedules import PowerSchedule
from oddsmith.theory.conditions import Certificate
from oddsmith.theory.tuning import tune, worst_prior

__all__ = ["thompson_sampling", "tuned"]


def thompson_sampling(experts: Experts, prior: Any = None) -> GeneralizedThompsonSampling:
    """Thompson sampling: log loss, eta 1, gamma 0; the posterior is exact Bayes (Li 2013, Section 3).

    >>> from oddsmith.experts.given import GivenExperts
    >>> thompson_sampling(GivenExperts(["a", "b"])).eta
    1.0
    """
    return GeneralizedThompsonSampling(experts, log_loss, eta=1.0, gamma=0.0, prior=prior)


def tuned(
    experts: Experts, loss: Loss | Certificate = log_loss, *, n_arms: int, steps: int | None = None, prior: Any = None
) -> GeneralizedThompsonSampling:
    """GTS with the eta and gamma of the best bound: for `steps` decisions, or the anytime schedule if None (3.8).

    The bound is for the worst expert of positive prior; applies when one expert is the truth. An own loss is certified
    for predictions in [0, 1]; give its certificate for another range.

    >>> from oddsmith.experts.given import GivenExperts
    >>> tuned(GivenExperts(["a", "b"]), n_arms=3).gamma
    PowerSchedule(scale=0.920..., power=0.333..., cap=1.0)
    """
    function = loss.loss if isinstance(loss, Certificate) else loss
    checked = GeneralizedThompsonSampling(experts, function, prior=prior).prior
    tuning = tune(loss, n_arms=n_arms, steps=steps, prior=worst_prior(checked, len(checked)))
    gamma = tuning.gamma if tuning.power == 0 else PowerSchedule(tuning.gamma, tuning.power)
    return GeneralizedThompsonSampling(experts, function, eta=tuning.eta, gamma=gamma, prior=checked)
