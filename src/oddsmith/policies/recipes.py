"""Recipes: named algorithms that are settings of Generalized Thompson Sampling."""

from typing import Any

from oddsmith.experts.base import Experts
from oddsmith.losses import log_loss
from oddsmith.policies.gts import GeneralizedThompsonSampling

__all__ = ["thompson_sampling"]


def thompson_sampling(experts: Experts, prior: Any = None) -> GeneralizedThompsonSampling:
    """Thompson sampling: log loss, eta 1, gamma 0; the posterior is exact Bayes (Li 2013, Section 3).

    >>> from oddsmith.experts.given import GivenExperts
    >>> thompson_sampling(GivenExperts(["a", "b"])).eta
    1.0
    """
    return GeneralizedThompsonSampling(experts, log_loss, eta=1.0, gamma=0.0, prior=prior)
