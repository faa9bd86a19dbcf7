"""Recipes: named algorithms that are settings of Generalized Thompson Sampling."""

from typing import Any

from oddsmith.arrays import number
from oddsmith.experts.base import Experts
from oddsmith.losses import Loss, log_loss
from oddsmith.policies.gts import GeneralizedThompsonSampling
from oddsmith.policies.schedules import PowerSchedule
from oddsmith.theory.conditions import Certificate
from oddsmith.theory.tuning import tune, worst_prior

__all__ = ["epsilon_greedy", "thompson_sampling", "tuned", "uniform"]

_DECIDED = 1e6  # a learning rate at which a millionth of a nat of loss decides who leads


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


def epsilon_greedy(experts: Experts, loss: Loss = log_loss, *, epsilon: float) -> GeneralizedThompsonSampling:
    """Follow the expert of least total loss, and with probability epsilon an arm at random; ties share.

    GTS with a learning rate so large that all weight is on the leader; epsilon 0 is follow-the-leader.

    >>> from oddsmith.experts.given import GivenExperts
    >>> policy = epsilon_greedy(GivenExperts(["a", "b"]), epsilon=0.1)
    >>> policy.gamma
    0.1
    """
    number("epsilon", epsilon, low=0, high=1)
    return GeneralizedThompsonSampling(experts, loss, eta=_DECIDED, gamma=epsilon)


def uniform(experts: Experts) -> GeneralizedThompsonSampling:
    """Every eligible arm with the same probability; the weights still learn, as a bystander."""
    return GeneralizedThompsonSampling(experts, gamma=1.0)
