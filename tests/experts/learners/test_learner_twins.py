"""Compiled learners against numpy's: the same beliefs, odds and states to rounding, for
arrays, dicts and offers."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.contexts.offers import make_offer
from oddsmith.core import kernels
from oddsmith.experts import Curves, LearningExperts, PooledRidge, Ridge, SharedExperts

pytest.importorskip("numba")
CITIES = ("Rome", "Oslo", "Bath", "Lima", "a long text about many things")


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    before = kernels.choice()
    yield
    kernels.use(before)


def array(rng: np.random.Generator) -> Any:
    x = rng.normal(size=6) * [1, 1e6, 1e-6, 0, 1, 1]
    return np.where(rng.random(6) < 0.1, np.nan, x)


def record(rng: np.random.Generator) -> Any:
    whole = {
        "x": float(rng.normal()),
        "city": str(rng.choice(CITIES)),
        "code": int(rng.integers(4)),
    }
    return {name: value for name, value in whole.items() if rng.random() < 0.9}


def offer(rng: np.random.Generator) -> Any:
    names = [f"a{int(i)}" for i in rng.choice(9, 4, replace=False)]
    return make_offer(record(rng), {name: record(rng) for name in names})


def played(policy: Any, question: Any, choice: str) -> tuple[list[Any], Any]:
    kernels.use(choice)
    rng, state, odds = np.random.default_rng(3), policy.init(), []
    for step in range(150):
        asked = question(rng)
        decision = od.decide(policy, state, asked, float(rng.random()), step=step + 1)
        if isinstance(asked, od.Offer):
            decision = decision._replace(
                context=asked.context, arms=asked.arms, features=asked.features
            )
        odds.append((decision.arm, decision.propensities, decision.advice))
        state = policy.update(
            state, decision, float(rng.random() < 0.2 + 0.2 * (decision.arm == 1))
        )
    return odds, state


def parts(state: Any) -> list[Any]:
    return (
        [leaf for part in state for leaf in parts(part)]
        if isinstance(state, tuple)
        else [np.asarray(state)]
    )


@pytest.mark.parametrize(
    ("question", "shared"), [(array, False), (record, False), (offer, True)]
)
@pytest.mark.parametrize("n", [4, 32])
def test_compiled_learners_are_numpy_s(question: Any, shared: bool, n: int) -> None:
    learners: Any = (
        (PooledRidge(), PooledRidge(Curves(n)))
        if shared
        else (Ridge(), Ridge(Curves(n)))
    )
    bank = (
        SharedExperts(learners, blend=True)
        if shared
        else LearningExperts(("a", "b", "c"), learners, blend=True)
    )
    policy = od.GeneralizedThompsonSampling(bank, od.square_loss, eta=2.0, gamma=0.05)
    (theirs, compiled), (ours, plain) = (
        played(policy, question, choice) for choice in ("numba", "numpy")
    )
    for one, other in zip(theirs, ours, strict=True):
        assert one[0] == other[0]
        np.testing.assert_allclose(one[1], other[1], atol=1e-9)
        np.testing.assert_allclose(one[2], other[2], atol=1e-9)
    for one, other in zip(parts(compiled), parts(plain), strict=True):
        np.testing.assert_allclose(
            one.astype(np.float64), other.astype(np.float64), atol=1e-7, rtol=1e-7
        )
