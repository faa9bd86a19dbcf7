"""Floors and caps: the closest distribution, by exact rationals and by an independent
optimiser."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import oddsmith as od
from oddsmith.core.arrays import Array
from oddsmith.policies.parts.projection import project
from policies.rationals import instances, worst


def bounds_for(rng: np.random.Generator, k: int) -> tuple[Array, Array]:
    """Random floors and caps that some distribution meets."""
    inside = rng.dirichlet(np.ones(k))
    return inside * rng.random(k), inside + (1 - inside) * rng.random(k) ** 3


def largest_difference(seed: int, n: int) -> float:
    """Over n instances with each of 1 to 8 arms, row by row and as a batch, which must
    agree to the last bit."""
    differences = []
    for k in range(1, 9):
        asked = list(instances(seed, k, n))
        rows = [project(*instance) for instance in asked]
        odds, floors, caps, eligible = (
            [np.broadcast_to(one[i], k) for one in asked] for i in range(4)
        )
        batch = project(
            np.stack(odds), np.stack(floors), np.stack(caps), np.stack(eligible)
        )
        np.testing.assert_array_equal(batch, rows)
        differences += [
            worst(row, instance) for row, instance in zip(rows, asked, strict=True)
        ]
    return max(differences)


def test_exact_rationals_agree() -> None:
    assert largest_difference(seed=1, n=375) < 1e-12


@pytest.mark.soak
def test_exact_rationals_agree_on_100000_instances() -> None:
    assert largest_difference(seed=2, n=12_500) < 1e-12


@pytest.mark.parametrize(
    ("odds", "floors", "caps", "right"),
    [
        ([1e-25, 0.1, 0.9], 0.01, 1.0, [0.01, 0.099, 0.891]),
        ([1e-18, 0.1, 0.2, 0.7], 0.01, 1.0, [0.01, 0.099, 0.198, 0.693]),
        ([1.0, 1e-310], 0.0, 0.75, [0.75, 0.25]),
        ([1.0, 5e-324, 5e-324], 0.0, 0.5, [0.5, 0.25, 0.25]),
        ([1.0, 1e-25, 0.0], 0.0, 0.5, [0.5, 0.5, 0.0]),
        ([0.5, 0.5, 0.0], 1 / 3, 1 / 3, [1 / 3, 1 / 3, 1 / 3]),
    ],
)
def test_faint_odds_are_not_zero(
    odds: list[float], floors: float, caps: float, right: list[float]
) -> None:
    found = project(np.array(odds), np.asarray(floors), np.asarray(caps))
    np.testing.assert_allclose(found, right, rtol=0, atol=1e-15)
    assert (found >= floors).all()
    assert (found <= caps).all()


def test_odds_that_gave_nan_under_a_cap() -> None:
    odds = np.array(
        [
            0.7328297993882447,
            5.728556157677009e-18,
            2.991169095735477e-14,
            0.2671063458431512,
            0,
        ]
    )
    odds[4] = 6.385476857432528e-05
    cap = 0.6857757339915209
    found = project(odds, np.asarray(0.0), np.asarray(cap))
    np.testing.assert_allclose(
        found[1:], odds[1:] * (1 - cap) / odds[1:].sum(), rtol=1e-14
    )
    assert found[0] == cap


@pytest.mark.parametrize("k", [3, 70])
def test_mass_that_caps_displace_stays_on_eligible_arms(k: int) -> None:
    odds, eligible = np.zeros(k), np.ones(k, dtype=np.bool_)
    odds[0], eligible[1] = 1.0, False
    right = np.where(eligible, 0.4 / (k - 2), 0.0)
    right[0] = 0.6
    for leading in ((), (2, 3)):
        found = project(
            np.broadcast_to(odds, (*leading, k)),
            np.asarray(0.0),
            np.asarray(0.6),
            eligible,
        )
        np.testing.assert_allclose(
            found, np.broadcast_to(right, (*leading, k)), atol=1e-15
        )
        assert (found[..., 1] == 0).all()


def test_caps_do_not_bind_the_only_eligible_arm() -> None:
    bounded = od.Bounded(
        od.thompson_sampling(od.GivenExperts(("a",))), floors=0.1, caps=0.4
    )
    said = np.array([[0.1, 0.9, 0.5]])
    for arm in range(3):
        np.testing.assert_array_equal(
            bounded.odds(bounded.init(), said, eligible=np.eye(3, dtype=np.bool_)[arm])[
                0
            ],
            np.eye(3)[arm],
        )
    rows = np.array([[True, False, False], [True, True, True]])
    found = bounded.odds(bounded.init((2,)), said, eligible=rows).propensities
    np.testing.assert_allclose(found, np.array([[1, 0, 0], [0.2, 0.4, 0.4]]))
    one = od.Bounded(od.thompson_sampling(od.GivenExperts(("a",))), caps=0.4)
    np.testing.assert_array_equal(
        one.odds(one.init(), np.array([[0.3]])).propensities, [1.0]
    )


def test_caps_that_the_eligible_arms_cannot_carry_are_refused_with_a_way_out() -> None:
    bounded = od.Bounded(od.thompson_sampling(od.GivenExperts(("a",))), caps=0.4)
    said, two = np.array([[0.1, 0.9, 0.5]]), np.array([True, True, False])
    for eligible in (two, np.stack([np.ones(3, dtype=np.bool_), two])):
        with pytest.raises(
            od.errors.Infeasible,
            match=r"0.8 over 2: raise the caps to 0.5 or more, or offer more arms",
        ):
            bounded.odds(bounded.init(eligible.shape[:-1]), said, eligible=eligible)


@pytest.mark.parametrize("k", [3, 70])
@pytest.mark.parametrize("leading", [(), (2,)])
def test_floors_that_are_too_high_are_refused_with_a_way_out(
    k: int, leading: tuple[int, ...]
) -> None:
    with pytest.raises(
        od.errors.Infeasible, match=f"got 1.2 and {k} over {k}: lower the floors$"
    ):
        project(np.full((*leading, k), 1 / k), np.asarray(1.2 / k), np.asarray(1.0))


def test_one_row_of_odds_for_several_sets_of_eligible_arms() -> None:
    eligible = np.array([[True, True, False], [True, True, True]])
    found = project(
        np.array([0.8, 0.1, 0.1]), np.asarray(0.2), np.asarray(1.0), eligible
    )
    np.testing.assert_allclose(found, np.array([[0.8, 0.2, 0.0], [0.6, 0.2, 0.2]]))


def test_the_policy_learns_from_the_odds_drawn_from() -> None:
    """EXP4.P's bonus Σ_b ξ(b)/Pr(b) is that of the bounded ballots and odds, also when
    bounds stand in bounds."""
    inner = od.policies.EXP4P(
        od.GivenExperts(("a", "b")), steps=10_000, prior=[0.999, 0.001]
    )
    said = np.array([[0.9, 0.1], [0.1, 0.9]])
    free = inner.odds(inner.init(), said)
    p = inner.smallest(2)
    assert np.asarray(free.bonus)[1] > 100
    for floor, policy in (
        (0.2, od.Bounded(inner, floors=0.2)),
        (0.1, od.Bounded(od.Bounded(inner, floors=0.1), floors=0.2)),
    ):
        odds = policy.odds(policy.init(), said)
        ballots = np.array([[1 - floor, floor], [floor, 1 - floor]])
        mixed = (1 - 2 * p) * np.array([0.999, 0.001]) @ ballots + p
        right = np.maximum(mixed, 0.2)
        right[0] = 1 - right[1]
        np.testing.assert_allclose(odds.propensities, right)
        np.testing.assert_allclose(np.asarray(odds.bonus), ballots @ (1 / right))
        decision = od.draw(odds, said, 0.9, step=1)
        expected = inner.update(inner.init(), decision, 1.0)
        np.testing.assert_allclose(
            policy.update(policy.init(), decision, 1.0).log_weights,
            expected.log_weights,
        )


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
    np.testing.assert_allclose(
        project(p, np.zeros(4), np.array([0.5, 1, 1, 1])), [0.5, 0.5, 0, 0]
    )
    np.testing.assert_allclose(
        project(p, np.zeros(4), np.array([0.4, 0.3, 1, 1])), [0.4, 0.3, 0.15, 0.15]
    )
    np.testing.assert_allclose(
        project(p, np.zeros(4), np.array([0.4, 0.3, 0.1, 1])), [0.4, 0.3, 0.1, 0.2]
    )


def test_odds_already_within_bounds_stay_as_they_are() -> None:
    p = np.random.default_rng(0).dirichlet(np.ones(5), size=(3, 4))
    np.testing.assert_allclose(
        project(p, np.zeros_like(p), np.ones_like(p)), p, atol=1e-15
    )


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
        np.testing.assert_array_equal(
            agent.state.log_weights, inner.update(before, decision, 1.0).log_weights
        )
    assert list(agent.posterior()) == ["a", "b"]
    explained = agent.explain(rng.random((2, 3)))
    assert explained.propensities[2] >= 0.2 - 1e-12


def test_floors_count_only_for_eligible_arms() -> None:
    inner = od.GeneralizedThompsonSampling(od.GivenExperts(("a",)), gamma=0.0)
    odds = od.Bounded(inner, floors=0.3).odds(
        inner.init(),
        np.array([[0.1, 0.9, 0.5, 0.4]]),
        eligible=np.array([True, True, False, True]),
    )
    np.testing.assert_allclose(odds.propensities, [0.3, 0.4, 0, 0.3])
    with pytest.raises(od.errors.Infeasible, match="sum to at most 1"):
        od.Bounded(inner, floors=0.3).odds(
            inner.init(), np.array([[0.1, 0.9, 0.5, 0.4]])
        )
