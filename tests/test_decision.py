"""Decisions: drawing, JSON, stacking, folding."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import oddsmith as od
from oddsmith.decision import pick

finite = st.floats(allow_nan=False, allow_infinity=False)
contexts = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)
arrays = hnp.arrays(
    st.sampled_from([np.float64, np.float32, np.int64, np.bool_]), hnp.array_shapes(min_dims=0, max_dims=3, max_side=4)
)


def equal(a: Any, b: Any) -> bool:
    """The same to the last bit, type included (NaN equals NaN)."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[name], b[name]) for name in a)
    return bool(a == b or a != a)


@given(contexts | arrays, st.integers(1, 2**62), st.booleans())
def test_json_round_trip_is_exact(context: Any, step: int, slept: bool) -> None:
    odds = od.Odds(
        np.array([0.1, 0.9 - 1e-17, 0.0]),
        advice=np.array([[0.1, 1 / 3, np.nan], [2 / 7, np.nan if slept else 1e-300, 0.5]]),
        bonus=np.array([np.nan, 1.0]),
        log_weights=np.array([0.0, -np.inf]) if slept else None,
    )
    if isinstance(context, np.ndarray) and context.ndim == 0:
        context = context[()]
    decision = od.draw(odds, context, 0.5, eligible=np.array([True, True, False]), step=step)
    text = decision.to_json()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    back = od.Decision.from_json(text)
    assert all(equal(a, b) for a, b in zip(decision, back, strict=True))


def test_json_round_trip_of_a_batch() -> None:
    rng = np.random.default_rng(0)
    experts = od.TableExperts(rng.random((4, 3, 2)))
    agent = od.Agent(od.GeneralizedThompsonSampling(experts, gamma=0.1), seed=1, arms=["a", "b"])
    decision = agent.decide_batch(np.array([0, 3, 1]))
    back = od.Decision.from_json(decision.to_json())
    assert all(equal(a, b) for a, b in zip(decision, back, strict=True))


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=6).filter(lambda p: sum(p) > 1e-3), st.floats(0, 1, exclude_max=True)
)
def test_pick_is_the_inverse_of_the_cumulative_odds(any_kernels: str, weights: list[float], uniform: float) -> None:
    odds = np.array(weights) / sum(weights)
    arm = pick(odds, uniform)
    cumulative = np.cumsum(odds)
    assert odds[arm] > 0
    assert uniform * cumulative[-1] <= cumulative[arm]
    assert arm == 0 or uniform * cumulative[-1] >= cumulative[arm - 1]
    assert pick(odds[None], np.array([uniform]))[0] == arm


@pytest.mark.parametrize("uniform", [0.0, np.nextafter(1.0, 0.0)])
def test_an_arm_without_odds_is_never_picked(any_kernels: str, uniform: float) -> None:
    odds = np.array([0.0, 0.1, 0.2, 0.7 + 1e-16, 0.0])
    assert odds[pick(odds, uniform)] > 0
    assert odds[pick(odds[None], np.array([uniform]))[0]] > 0


def test_a_uniform_of_exactly_1_means_the_last_arm_with_odds(any_kernels: str) -> None:
    """Below 1 the product with the total never rounds up to it: half a unit in the last place is always missing."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        odds = np.concatenate([[0.0], rng.dirichlet(np.ones(4)), [0.0]]) * (1 + 1e-15 * rng.random())
        total = float(np.cumsum(odds)[-1])
        assert float(np.nextafter(1.0, 0.0)) * total < total
        assert pick(odds, 1.0) == 4
        assert pick(odds[None], np.array([1.0]))[0] == 4


def test_stacked_and_back() -> None:
    rng = np.random.default_rng(0)
    policy = od.GeneralizedThompsonSampling(od.GivenExperts(("a", "b")), gamma=0.2)
    decisions = [od.decide(policy, policy.init(), rng.random((2, k)), 0.3, step=i) for i, k in enumerate((2, 4, 3))]
    stacked = od.Decision.stacked(decisions)
    assert stacked.eligible is not None
    assert stacked.eligible.sum(axis=1).tolist() == [2, 4, 3]
    np.testing.assert_allclose(stacked.propensities.sum(axis=1), 1)
    np.testing.assert_array_equal(stacked.propensity, [d.propensity for d in decisions])
    for row, decision in zip(stacked.rows(), decisions, strict=True):
        assert (row.step, row.arm) == (decision.step, decision.arm)
        np.testing.assert_array_equal(row.advice, decision.advice)


def test_fold_without_a_method_of_its_own_is_update_in_order() -> None:
    class Counting:
        moves = False

        def init(self, shape: tuple[int, ...] = ()) -> list[float]:
            return []

        def odds(self, state: Any, context: Any, *, eligible: Any = None, step: Any = None) -> od.Odds:
            return od.Odds(np.array([1.0]))

        def update(self, state: list[float], decision: od.Decision, reward: Any) -> list[float]:
            return [*state, float(reward)]

    policy = Counting()
    decisions = [od.decide(policy, [], None, 0.5, step=i) for i in range(3)]
    assert od.fold(policy, [], decisions, [0.1, 0.2, 0.3]) == [0.1, 0.2, 0.3]
    assert od.fold(policy, [], od.Decision.stacked(decisions), [0.1, 0.2, 0.3]) == [0.1, 0.2, 0.3]
    assert od.fold(policy, [], [], []) == []


def test_uniforms_are_uniform_and_depend_on_seed_and_id() -> None:
    from scipy import stats

    draws = [od.Uniforms(3)(i) for i in range(20_000)]
    assert stats.kstest(draws, "uniform").pvalue > 1e-4  # a false alarm has probability 1e-4
    assert all(0 <= u < 1 for u in draws)
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.03
    assert od.Uniforms(3)("order-17") != od.Uniforms(4)("order-17")
