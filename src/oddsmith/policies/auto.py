"""auto: a policy for people who bring no models; learners with different beliefs, weighed by GTS."""

from collections.abc import Sequence

import numpy as np

from oddsmith.arrays import number
from oddsmith.errors import InvalidInput
from oddsmith.experts.base import check_names
from oddsmith.experts.features import FeatureMap, Fourier, Plain
from oddsmith.experts.learners import BayesianLearners
from oddsmith.experts.schema import Schema
from oddsmith.losses import log_loss
from oddsmith.policies.gts import GeneralizedThompsonSampling

__all__ = ["BUDGETS", "auto"]

BUDGETS: dict[str, tuple[FeatureMap, ...]] = {
    "small": (Plain(), Fourier(32, 1.0)),
    "normal": (Plain(), Fourier(128, 1.0), Fourier(128, 2.0)),
    "large": (Plain(), Fourier(256, 0.5), Fourier(256, 1.0), Fourier(256, 2.0)),
}


def auto(
    arms: Sequence[str], *, schema: Schema | None = None, budget: str = "normal", gamma: float = 0.01
) -> GeneralizedThompsonSampling:
    """GTS over online learners: a linear one, and some on random Fourier features, for contexts as they come.

    Contexts are arrays of numbers (any scale, NaN where missing), or dicts and rows of data frames through a `schema`
    (without one, keys and words find a place by their hash). Log loss at eta 1: learners are scored on what they said
    before they learn, so it is the Bayes mixture of their predictions that is weighed. `gamma` is a floor under the
    odds, so that the log can always be evaluated. The prior gives the linear learner half of the mass.
    A step costs O(Σ K D²) and as much memory for learners of D features and K arms: D is d + 1, and 32 to 256.

    >>> policy = auto(["sports", "politics"])
    >>> policy.odds(policy.init(), {"hour": 9, "device": "phone"}).propensities
    array([0.5, 0.5])
    """
    names = check_names("arms", arms)
    if not isinstance(budget, str) or budget not in BUDGETS:
        raise InvalidInput(f"budget must be one of {', '.join(BUDGETS)}; got {budget!r}")
    if schema is not None and not isinstance(schema, Schema):
        raise InvalidInput(f"schema must be a Schema; got {type(schema).__name__}")
    number("gamma", gamma, low=0, high=1)
    maps = BUDGETS[budget]
    prior = np.full(len(maps), 0.5 / (len(maps) - 1))
    prior[0] = 0.5
    bank = BayesianLearners(names, maps, (0.3,), schema=schema)
    return GeneralizedThompsonSampling(bank, log_loss, eta=1.0, gamma=gamma, prior=prior)
