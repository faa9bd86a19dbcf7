"""auto: a policy that needs no models; learners with different beliefs, weighed by
GTS."""

from collections.abc import Sequence
from typing import cast

import numpy as np

from oddsmith.contexts.schema import Schema
from oddsmith.core.arrays import number
from oddsmith.core.errors import InvalidInput
from oddsmith.core.experts import Experts
from oddsmith.core.gts import GeneralizedThompsonSampling
from oddsmith.core.losses import square_loss
from oddsmith.core.names import check_names
from oddsmith.experts.learners import (
    Forest,
    Learner,
    LearningExperts,
    PooledForest,
    PooledLearner,
    PooledRidge,
    Ridge,
    SharedExperts,
)
from oddsmith.experts.learners.features import Curves

__all__ = ["SIZES", "auto"]


def _curved(n: int) -> Ridge:
    return Ridge(Curves(n))


SIZES: dict[str, tuple[Learner, ...]] = {
    "small": (_curved(64),),
    "normal": (_curved(128), Forest(16)),
    "large": (_curved(256), Forest(64)),
}
_RECENT = Forest(16, window=256)
_PRIOR = {1: (1.0,), 2: (0.1, 0.1, 0.8)}  # over a size's learners and their blend


def auto(
    arms: Sequence[str] | None = None,
    *,
    schema: Schema | None = None,
    arm_schema: Schema | None = None,
    size: str = "normal",
    gamma: float = 0.005,
    share: float = 0.0,
    rows_per_arm: bool = False,
    most_arms: int = 10_000,
) -> GeneralizedThompsonSampling:
    """GTS over online learners: a smooth one, a forest, and the best mixture of both,
    for contexts as they come.

    Contexts are arrays of numbers (any scale, NaN where missing), dicts and rows of
    data frames: every number, category and word that was learnt from has a column of
    its own (`schema` says which names are read, and as what); with `rows_per_arm`, a
    row of them for each arm. The smooth learner is a regression for each arm on the
    numbers and on random Fourier features, which smooths as much as the rewards ask
    for; so does the forest. Square loss at eta 2, the largest at which it is mixable;
    learners are scored on their predictions before they learn. `gamma` is a floor under
    the odds, so that the log can always be evaluated. For worlds that drift, `share`
    (1e-4, say) mixes the prior back in after each reward, and adds an expert with a
    short memory, a forest on the last 256 rows. A step costs O(K (d + n)²) and the
    forest's walks, as much memory and the forest's window (n is 64, 128 or 256).

    Without `arms`, they come with the call: the learners are shared by all of them, on
    the numbers of the context and of the arm's features (by `arm_schema`), and remember
    each arm by its name, of `most_arms` at most.

    >>> policy = auto(["sports", "politics"])
    >>> policy.odds(policy.init(), {"hour": 9, "device": "phone"}).propensities
    array([0.5, 0.5])
    """
    if not isinstance(size, str) or size not in SIZES:
        raise InvalidInput(f"size must be one of {', '.join(SIZES)}; got {size!r}")
    for given in (schema, arm_schema):
        if given is not None and not isinstance(given, Schema):
            raise InvalidInput(f"schema must be a Schema; got {type(given).__name__}")
    number("gamma", gamma, low=0, high=1)
    learners = SIZES[size]
    blend, prior = len(learners) > 1, np.array(_PRIOR[len(learners)])
    if share:
        learners, prior = (
            (*learners, _RECENT),
            np.insert(0.99 * prior, len(learners), 0.01),
        )
    bank: Experts
    if arms is None:
        if rows_per_arm:
            raise InvalidInput(
                "rows_per_arm is for arms that are given; those of the call come with "
                "their features"
            )
        pooled = tuple(_pooled(learner) for learner in learners)
        bank = SharedExperts(
            pooled,
            blend=blend,
            schema=schema,
            arm_schema=arm_schema,
            most_arms=most_arms,
        )
    else:
        if arm_schema is not None:
            raise InvalidInput(
                "arm_schema is for arms that come with the call: leave it or the arms "
                "out"
            )
        names = check_names("arms", arms)
        bank = LearningExperts(
            names, learners, blend=blend, schema=schema, rows_per_arm=rows_per_arm
        )
    return GeneralizedThompsonSampling(
        bank, square_loss, eta=2.0, gamma=gamma, prior=prior, share=share
    )


def _pooled(learner: Learner) -> PooledLearner:
    """The learner that one for given arms is for arms of the call."""
    return (
        PooledForest(learner)
        if isinstance(learner, Forest)
        else PooledRidge(cast(Ridge, learner).features)
    )
