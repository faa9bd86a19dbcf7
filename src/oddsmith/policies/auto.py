"""auto: the recommended policy, which combines online learners with your models."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast, overload

import numpy as np

from oddsmith.contexts.schema import Schema
from oddsmith.core.arrays import Array, number
from oddsmith.core.errors import InvalidInput
from oddsmith.core.experts import Experts, check_bank
from oddsmith.core.names import check_choice, check_names
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
from oddsmith.experts.models import ModelExperts
from oddsmith.experts.stack import stack
from oddsmith.policies.calibrated_mixture import CalibratedMixture
from oddsmith.policies.scale_free import ScaleFreeSampling

__all__ = ["SIZES", "auto"]


def _curved(n: int) -> Ridge:
    return Ridge(Curves(n))


SIZES: dict[str, tuple[Learner, ...]] = {
    "small": (_curved(64),),
    "normal": (_curved(128), Forest(16)),
    "large": (_curved(256), Forest(64)),
}
_RECENT = Forest(16, window=256)
# Prior weights of the learners per size; the last one is the blend.
_PRIOR = {1: (1.0,), 2: (0.1, 0.1, 0.8)}


# Prior weight of all learners together, next to the user's models.
_SHARE_OF_LEARNERS = 0.01
_PREFIX = "auto: "  # prefix for the names of the learners, next to the user's models


@overload
def auto(
    arms: Sequence[str] | None = None,
    *,
    models: None = None,
    schema: Schema | None = None,
    arm_schema: Schema | None = None,
    size: str = "normal",
    gamma: float = 0.005,
    share: float = 0.0,
    rows_per_arm: bool = False,
    most_arms: int = 10_000,
) -> ScaleFreeSampling: ...
@overload
def auto(
    arms: Sequence[str] | None = None,
    *,
    models: Mapping[str, Any] | Experts,
    schema: Schema | None = None,
    arm_schema: Schema | None = None,
    size: str = "normal",
    gamma: float = 0.005,
    share: float = 0.0,
    rows_per_arm: bool = False,
    most_arms: int = 10_000,
) -> CalibratedMixture: ...
def auto(
    arms: Sequence[str] | None = None,
    *,
    models: Mapping[str, Any] | Experts | None = None,
    schema: Schema | None = None,
    arm_schema: Schema | None = None,
    size: str = "normal",
    gamma: float = 0.005,
    share: float = 0.0,
    rows_per_arm: bool = False,
    most_arms: int = 10_000,
) -> ScaleFreeSampling | CalibratedMixture:
    """Return the recommended policy: online learners that need no training, together
    with your `models`.

    Contexts are arrays of numbers (any scale, NaN if missing), dicts and rows of data
    frames. Every number, category and word in a learnt context gets its own column
    (`schema` lists the names to read, and their kinds). With `rows_per_arm`, an array
    has one row per arm. There are three learners. The first is a ridge regression for
    each arm on the numbers and on random Fourier features; the evidence selects its
    penalty. The second is a forest, the third the best mixture of both. They are scored
    on their predictions before they learn. `gamma` is a lower bound of the
    propensities, so that the log can always be evaluated. For worlds that drift,
    `share` (for example 1e-4) mixes the prior into the weights after each reward, and
    adds an expert with a short memory, a forest on the last 256 rows. A step takes O(K
    (d + n)²) time plus a walk through each tree of the forest, where n, the number of
    Fourier features, is 64, 128 or 256. Memory is O(K (d + n)²) plus the forest's rows.

    `models` is a dict of name: model, in the form of `ModelExperts`, or any bank of
    experts. The policy is then a `CalibratedMixture`: each model is calibrated online,
    and models and learners are weighted by the loss of their predictions and the reward
    of their choices. Without models it is a `ScaleFreeSampling`: Generalized Thompson
    Sampling over the learners, with square loss in units of the rewards so far, at eta
    2, the largest eta at which this loss is mixable.

    Without `arms`, the arms are passed in each call: all arms share the learners, which
    read the numbers of the context and of the arm's features (encoded by `arm_schema`).
    They also learn statistics of at most `most_arms` arms by name.

    >>> policy = auto(["sports", "politics"])
    >>> policy.odds(policy.init(), {"hour": 9, "device": "phone"}).propensities
    array([0.5, 0.5])
    """
    check_choice("size", size, SIZES)
    for given in (schema, arm_schema):
        if given is not None and not isinstance(given, Schema):
            raise InvalidInput(f"schema must be a Schema; got {type(given).__name__}")
    number("gamma", gamma, low=0, high=1)
    number("share", share, low=0, high=1, open_high=True)
    if isinstance(models, Experts) and arms is None:
        arms = models.arms
    learners = _learners(size, drifts=share > 0)
    prefix = "" if models is None else _PREFIX
    bank: Experts
    if arms is None:
        if rows_per_arm:
            raise InvalidInput(
                "rows_per_arm is for a fixed list of arms; arms that are passed in "
                "the call have their own features"
            )
        pooled = tuple(_pooled(learner) for learner in learners.parts)
        bank = SharedExperts(
            pooled,
            blend=learners.blend,
            schema=schema,
            arm_schema=arm_schema,
            most_arms=most_arms,
            prefix=prefix,
        )
    else:
        if arm_schema is not None:
            raise InvalidInput(
                "arm_schema is for arms that are passed in the call: leave out "
                "arm_schema or the arms"
            )
        arms = check_names("arms", arms)
        bank = LearningExperts(
            arms,
            learners.parts,
            blend=learners.blend,
            schema=schema,
            rows_per_arm=rows_per_arm,
            prefix=prefix,
        )
    if models is None:
        return ScaleFreeSampling(bank, prior=learners.prior, gamma=gamma, share=share)
    of_models = _bank_of(models, arms)
    n_models = len(of_models.names)
    even = np.full(n_models, (1 - _SHARE_OF_LEARNERS) / n_models)
    prior = np.append(even, _SHARE_OF_LEARNERS * learners.prior)
    return CalibratedMixture(stack(of_models, bank), prior=prior, gamma=gamma)


class _Learners(NamedTuple):
    """The learners for a size, whether to blend the first two, and the prior of each
    learner and of the blend."""

    parts: tuple[Learner, ...]
    blend: bool
    prior: Array


def _learners(size: str, *, drifts: bool) -> _Learners:
    parts = SIZES[size]
    blend = len(parts) > 1
    prior = np.array(_PRIOR[len(parts)])
    if not drifts:
        return _Learners(parts, blend, prior)
    longer = np.insert(0.99 * prior, len(parts), 0.01)
    return _Learners((*parts, _RECENT), blend, longer)


def _bank_of(
    models: Mapping[str, Any] | Experts, arms: Sequence[str] | None
) -> Experts:
    """Return the models as a bank of experts with unclipped predictions."""
    if isinstance(models, Mapping):
        return ModelExperts(models, arms, clip=(0.0, 1.0))
    check_bank("models", models)
    return models


def _pooled(learner: Learner) -> PooledLearner:
    """Return the learner for arms of the call that corresponds to one for fixed
    arms."""
    if isinstance(learner, Forest):
        return PooledForest(learner)
    return PooledRidge(cast(Ridge, learner).features)
