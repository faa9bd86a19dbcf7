"""Floors and caps: the closest distribution, by an independent optimiser."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import oddsmith as od
from oddsmith.arrays import Array
from oddsmith.policies.bounded import project


def bounds_for(rng: np.random.Generator, k: int) -> tuple[Array, Array]:
    """Random floors and caps that some distribution meets."""
    inside = rng.dirichlet(np.ones(k))
    return inside * rng.random(k), inside + (1 - inside) * rng.random(k) ** 3


@given(st.integers(0, 10**6))
@settings(max_examples=60)
def test_no_feasible_distribution_is_closer(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 7))
    p = rng.dirichlet(np.ones(k))
    floors, caps = bounds_for(rng, k)
    q = project(p, floors, caps)
    assert abs(q.sum() - 1) < 1e-12
    assert (q >= floors - 1e-12).all()
    assert (q <= caps + 1e-12).all()
    best = minimize(
        lambda x: float((x * np.log(x / p)).sum()),
        np.clip(q + rng.normal(0, 0.01, k), floors + 1e-9, caps),
        bounds=list(zip(np.maximum(floors, 1e-9), caps, strict=True)),
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 500},
    )
    divergence = float((q * np.log(np.where(q > 0, q, 1) / p)).sum())
    assert divergence <= best.fun + 1e-6


def test_zero_odds_get_mass_only_when_all_others_are_full() -> None:
    p = np.array([0.6, 0.4, 0.0, 0.0])
    np.testing.assert_allclose(project(p, np.zeros(4), np.array([0.5, 1, 1, 1])), [0.5, 0.5, 0, 0])
    np.testing.assert_allclose(project(p, np.zeros(4), np.array([0.4, 0.3, 1, 1])), [0.4, 0.3, 0.15, 0.15])
    np.testing.assert_allclose(project(p, np.zeros(4), np.array([0.4, 0.3, 0.1, 1])), [0.4, 0.3, 0.1, 0.2])


def test_odds_already_within_bounds_stay_as_they_are() -> None:
    p = np.random.default_rng(0).dirichlet(np.ones(5), size=(3, 4))
    np.testing.assert_allclose(project(p, np.zeros_like(p), np.ones_like(p)), p, atol=1e-15)


def test_bounded_policy_acts_on_the_bounded_odds_and_learns_as_before() -> None:
    rng = np.random.default_rng(1)
    inner = od.GeneralizedThompsonSampling(od.GivenExperts(("a", "b")), gamma=0.0)
    bounded = od.Bounded(inner, floors=[0.05, 0.01, 0.2], caps=[1.0, 0.5, 1.0])
    agent = od.Agent(bounded, seed=1)
    for _ in range(50):
        decision = agent.decide(rng.random((2, 3)))
        assert decision.propensities[0] >= 0.05 - 1e-12
        assert decision.propensities[1] <= 0.5 + 1e-12
        before = agent.state
        agent.learn(decision, 1.0)
        np.testing.assert_array_equal(agent.state.log_weights, inner.update(before, decision, 1.0).log_weights)
    assert list(agent.posterior()) == ["a", "b"]
    explained = agent.explain(rng.random((2, 3)))
    assert explained.propensities[2] >= 0.2 - 1e-12


def test_floors_count_only_for_eligible_arms() -> None:
    inner = od.GeneralizedThompsonSampling(od.GivenExperts(("a",)), gamma=0.0)
    odds = od.Bounded(inner, floors=0.3).odds(
        inner.init(), np.array([[0.1, 0.9, 0.5, 0.4]]), eligible=np.array([True, True, False, True])
    )
    np.testing.assert_allclose(odds.propensities, [0.3, 0.4, 0, 0.3])
    with pytest.raises(od.Infeasible, match="sum to at most 1"):
        od.Bounded(inner, floors=0.3).odds(inner.init(), np.array([[0.1, 0.9, 0.5, 0.4]]))
