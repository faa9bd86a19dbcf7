"""Learners against direct linear algebra and optimisation, feature maps against their kernels, voting rules by hand."""

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import norm

import oddsmith as od
from oddsmith.experts.ballots import InverseGap, Optimistic, PosteriorBest, Softened
from oddsmith.experts.features import FeatureMap, Fourier, Joined, Plain, Products
from oddsmith.experts.learners import Forest, LearnerInput, LearningExperts, Logistic, Ridge
from oddsmith.experts.schema import Schema

ARMS = ("a", "b", "c")
BANK = LearningExperts(ARMS, (Ridge(), Ridge(Joined((Plain(), Fourier(16))), 2.0), Forest(4)), blend=3)


def learnt(bank: Any, x: Any, arms: Any, rewards: Any) -> Any:
    """A policy on the bank, and its state after these rows."""
    policy = od.GeneralizedThompsonSampling(bank, eta=1.0, gamma=0.1)
    state = policy.init()
    for context, arm, reward in zip(x, arms, rewards, strict=True):
        advice: Any = policy.odds(state, context).advice
        decision = od.decide(policy, state, context, 0.5, step=1)
        decision = decision._replace(arm=int(arm), advice=advice[:, int(arm)])
        state = policy.update(state, decision, float(reward))
    return policy, state


def standardised(x: Any, t: int) -> Any:
    """Row t as learners see it: by the moments of the rows up to it, over the root of how many columns vary."""
    seen = x[: t + 1]
    sd = seen.std(axis=0)
    z = np.clip((x[t] - seen.mean(axis=0)) / np.where(sd > 0, sd, 1), -5, 5)
    return z / np.sqrt(max((sd > 0).sum(), 1))


def test_beliefs_are_ridge_regressions_on_the_features_as_they_were() -> None:
    rng = np.random.default_rng(0)
    x, arms, rewards = rng.normal(3, 2, (40, 4)), rng.integers(0, 3, 40), rng.random(40)
    x[:, 3] = 7  # a constant column changes nothing
    _, state = learnt(BANK, x, arms, rewards)
    for learner, own in list(zip(BANK.learners, state.experts.learners, strict=True))[:2]:
        rows = np.array([np.append(learner.features(standardised(x, t)), 1) for t in range(40)])  # type: ignore[attr-defined]
        for arm in range(3):
            phi, target = rows[arms == arm], rewards[arms == arm] - 0.5
            precision = learner.ridge * np.eye(phi.shape[1]) + phi.T @ phi  # type: ignore[attr-defined]
            np.testing.assert_allclose(own.covariance[arm], np.linalg.inv(precision), atol=1e-9)
            np.testing.assert_allclose(own.weights[arm], np.linalg.solve(precision, phi.T @ target), atol=1e-9)
            seen = LearnerInput(x[0], standardised(x, 0))
            first = np.append(learner.features(seen.z), 1)  # type: ignore[attr-defined]
            sd = 0.5 * np.sqrt(first @ np.linalg.solve(precision, first))
            assert learner.believe(own, seen).sd[arm] == pytest.approx(sd)
    np.testing.assert_allclose(state.experts.mean, x.mean(axis=0))
    np.testing.assert_allclose(state.experts.squares / 40, x.var(axis=0), atol=1e-12)


def test_the_first_row_of_a_logistic_learner_is_its_exact_mode() -> None:
    """From the prior, the mode moves along φ only: against direct minimisation, with the curvature there."""
    learner, phi = Logistic(ridge=0.5), np.array([0.6, -0.8, 1.0])
    state = learner.learn(learner.start((), 2, 2), LearnerInput(phi[:2], phi[:2]), np.array(1), np.array(0.9))

    def loss(theta: Any) -> float:
        value = theta @ phi
        return float(0.25 * theta @ theta + np.logaddexp(0, value) - 0.9 * value)

    mode = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-9}).x
    np.testing.assert_allclose(state.weights, [np.zeros(3), mode], atol=1e-6)
    fit = 1 / (1 + np.exp(-mode @ phi))
    precision = 0.5 * np.eye(3) + fit * (1 - fit) * np.outer(phi, phi)
    np.testing.assert_allclose(state.covariance[1], np.linalg.inv(precision), atol=1e-6)
    np.testing.assert_allclose(state.covariance[0], np.eye(3) / 0.5)


def test_logistic_learners_learn_a_logistic_world() -> None:
    rng = np.random.default_rng(1)
    theta, x = np.array([2.0, -1.0]), rng.normal(size=(3000, 2))
    learner = Logistic(ridge=0.1)
    state = learner.start((), 1, 2)
    for row in x:
        reward = float(rng.random() < 1 / (1 + np.exp(-(row @ theta + 0.5))))
        state = learner.learn(state, LearnerInput(row, row), np.array(0), np.array(reward))
    np.testing.assert_allclose(state.weights[0], [*theta, 0.5], atol=4 * np.sqrt(state.covariance[0].max()))
    assert np.sqrt(state.covariance[0].max()) < 0.1


def test_fourier_features_are_a_gaussian_kernel() -> None:
    """Their inner product tends to exp(-scale² |z - z'|²/2); orthogonal directions err less than 4/√(n/2) = 0.04."""
    rng = np.random.default_rng(1)
    for dim in (3, 40):
        z, other = rng.normal(size=(2, dim)) / np.sqrt(dim)
        wide: FeatureMap = Fourier(20_000, 1.5)
        kernel = float(wide(z) @ wide(other))
        assert kernel == pytest.approx(np.exp(-(1.5**2) * ((z - other) ** 2).sum() / 2), abs=0.04)
        assert wide.size(dim) == len(wide(z))


def test_features_side_by_side_folded_and_drawn() -> None:
    rng = np.random.default_rng(2)
    z, other = rng.normal(size=(2, 5, 600)) / np.sqrt(600)
    joined = Joined((Plain(), Products(), Fourier(8)))
    assert joined.size(600) == joined(z).shape[-1] == 600 + 256 + 8
    np.testing.assert_array_equal(joined(z)[..., :600], z)
    np.testing.assert_allclose(joined(z)[1], joined(z[1]), atol=1e-14)
    folded = Plain(most=400)
    assert folded(z).shape == (5, 400)
    gap = (folded(z) * folded(other)).sum(axis=-1) - (z * other).sum(axis=-1)
    assert np.abs(gap).max() < 4 * np.sqrt(2 / 400)  # inner products are kept, on average exactly


def test_ballots_by_hand() -> None:
    mean, sd = np.array([[0.5, 0.4, 0.45]]), np.array([[0.1, 0.3, 0.1]])
    np.testing.assert_array_equal(Optimistic(1.0)(mean, sd), [[0, 1, 0]])
    np.testing.assert_array_equal(Optimistic(1.0)(mean, sd, np.array([True, False, True])), [[1, 0, 0]])
    two = PosteriorBest(1.0)(mean, sd, np.array([True, True, False]))
    np.testing.assert_allclose(two[0, 0], norm.cdf(0.1 / np.hypot(0.1, 0.3)), atol=1e-6)
    soft = Softened(1.0, 0.5)(mean, sd, np.array([True, True, False]))
    np.testing.assert_allclose(soft, [[*np.exp([0.6 / 0.5, 0.7 / 0.5]) / np.exp([0.6 / 0.5, 0.7 / 0.5]).sum(), 0]])
    gaps = InverseGap(20.0)(mean, sd, np.array([True, True, False]))
    np.testing.assert_allclose(gaps, [[1 - 1 / 4, 1 / 4, 0]])
    for rule in (Optimistic(), PosteriorBest(), Softened(), InverseGap()):
        bank = LearningExperts(ARMS, (Ridge(),), ballots=rule)
        _, state = learnt(bank, np.eye(3), [0, 1, 2], [1, 0, 1])
        np.testing.assert_allclose(bank.advise(state.experts, np.ones((4, 3)))[1].sum(axis=-1), 1)


def test_the_blend_is_the_average_of_beliefs() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(30, 2))
    _, state = learnt(BANK, x, rng.integers(0, 3, 30), rng.random(30))
    predictions, _ = BANK.advise(state.experts, x[0])
    np.testing.assert_allclose(predictions[-1], predictions[:-1].mean(axis=0))


def test_a_row_of_numbers_for_each_arm() -> None:
    """One regression for all arms: learnt from one arm, it knows the others."""
    rng = np.random.default_rng(4)
    bank = LearningExperts(ARMS, (Ridge(), Forest(4)), rows_per_arm=True)
    x = rng.random((400, 3, 2))
    _, state = learnt(bank, x, np.zeros(400, int), x[:, 0, 0])
    predictions, ballots = bank.advise(state.experts, np.array([[0.1, 0.5], [0.9, 0.5], [0.4, 0.5]]))
    np.testing.assert_allclose(predictions[0], [0.1, 0.9, 0.4], atol=0.05)
    np.testing.assert_allclose(predictions[1], [0.1, 0.9, 0.4], atol=0.2)
    np.testing.assert_array_equal(ballots, [[0, 1, 0], [0, 1, 0]])
    assert state.experts.learners[0].weights.shape == (1, 3)
    with pytest.raises(od.InvalidInput, match="a row for each of the 3 arms"):
        bank.advise(state.experts, np.zeros((2, 2)))
    many = bank.advise(state.experts, x[:7])
    np.testing.assert_allclose(many[0][3], bank.advise(state.experts, x[3])[0])


def test_arms_that_come_later_change_nothing_for_the_others() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(60, 2))
    for bank in (BANK, LearningExperts(ARMS, (Logistic(),))):
        _, state = learnt(bank, x, rng.integers(0, 3, 60), rng.random(60))
        wider, more = bank.with_arms(state.experts, [*ARMS, "d"])
        old, new = bank.predict(state.experts, x[0]), wider.predict(more, x[0])
        np.testing.assert_allclose(new[:, :3], old)
        np.testing.assert_allclose(new[:, 3], 0.5)
    with pytest.raises(od.InvalidInput, match="arms must begin with"):
        BANK.with_arms(state.experts, ["d", *ARMS])


def test_a_decision_with_a_row_per_arm_is_learnt_after_there_are_more() -> None:
    rng, bank = np.random.default_rng(5), LearningExperts(ARMS, (Ridge(),), rows_per_arm=True)
    x = rng.normal(size=(3, 2))
    drawn = od.Decision(1, x, None, 1, np.full(3, 1 / 3), advice=np.full(1, 0.5))
    wider, state = bank.with_arms(bank.init(), [*ARMS, "d"])
    early, late = bank.update(bank.init(), drawn, 1.0), wider.update(state, drawn, 1.0)
    np.testing.assert_array_equal(early.learners[0].weights, late.learners[0].weights)
    with pytest.raises(od.InvalidInput, match="a row for each of the 4 arms"):
        wider.predict(late, x)


@pytest.mark.parametrize("rows_per_arm", [False, True])
def test_runs_side_by_side_are_runs_alone(rows_per_arm: bool) -> None:
    """A state with a batch axis, refits included."""
    rng = np.random.default_rng(6)
    bank = LearningExperts(ARMS, (Ridge(), Logistic(), Forest(3)), blend=3, rows_per_arm=rows_per_arm)
    x = rng.normal(size=(40, 2, 3, 4) if rows_per_arm else (40, 2, 4))
    arms, rewards = rng.integers(0, 3, (40, 2)), rng.random((40, 2))
    together, alone = bank.init((2,)), [bank.init(), bank.init()]
    for t in range(40):
        blank = od.Decision(1, x[t], None, arms[t], np.full((2, 3), 1 / 3), np.full((2, 4), 0.5))
        together = bank.update(together, blank, rewards[t])
        for i in range(2):
            one = blank._replace(context=x[t, i], arm=arms[t, i])
            alone[i] = bank.update(alone[i], one, rewards[t, i])
    found = bank.predict(together, x[0])
    for i in range(2):
        np.testing.assert_allclose(found[i], bank.predict(alone[i], x[0, i]), atol=1e-12)


DIRTY = st.one_of(
    st.none(), st.floats(allow_nan=True, allow_infinity=True), st.integers(), st.text(max_size=5), st.booleans(),
    st.lists(st.integers(), max_size=2),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(["x", "y", "city", "z"]), DIRTY, max_size=4), min_size=1, max_size=12))
def test_dirty_dicts_give_odds_or_one_sentence(contexts: list[Any]) -> None:
    """Whatever comes: odds that are numbers, or a named error that changes nothing."""
    bank = LearningExperts(ARMS, schema=Schema(numbers=("x", "y"), categories=("city",)))
    policy = od.GeneralizedThompsonSampling(bank, eta=1.0, gamma=0.05)
    state = policy.init()
    for t, context in enumerate(contexts):
        before = copy.deepcopy(state)
        try:
            decision = od.decide(policy, state, context, 0.3, step=t + 1)
        except od.InvalidInput:
            np.testing.assert_array_equal(state.log_weights, before.log_weights)
            continue
        assert np.isfinite(decision.propensities).all()
        state = policy.update(state, decision, float(t % 2))
        assert all(np.isfinite(own.weights).all() for own in state.experts.learners)


def test_missing_numbers_constants_and_wild_values() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(200, 4)) * [1, 1e6, 0, 1e-9] + [0, 5e8, 7, 0]
    x[rng.random((200, 4)) < 0.2] = np.nan
    x[50, 0], x[51, 1] = np.inf, 1e307
    policy, state = learnt(BANK, x, rng.integers(0, 3, 200), rng.random(200))
    assert np.isfinite(policy.odds(state, x[0]).propensities).all()
    assert np.isfinite(policy.odds(state, np.full(4, np.nan)).propensities).all()
    assert all((np.linalg.eigvalsh(own.covariance) > 0).all() for own in state.experts.learners[:2])


def test_a_context_of_another_length_changes_nothing() -> None:
    policy, state = learnt(BANK, np.eye(4), [0, 1, 2, 0], [1, 0, 1, 0])
    before = copy.deepcopy(state.experts)
    for wrong in (np.zeros(3), np.array(["a"]), "home", [[1], [2, 3]]):
        with pytest.raises(od.InvalidInput, match=r"^context "):
            policy.odds(state, wrong)
    np.testing.assert_array_equal(state.experts.learners[0].covariance, before.learners[0].covariance)


def test_wrong_settings() -> None:
    for make, message in (
        (lambda: LearningExperts(ARMS, ()), "names of learners must be"),
        (lambda: Ridge(ridge=0.0), "ridge must be"),
        (lambda: Logistic(ridge=-1.0), "ridge must be"),
        (lambda: Forest(0), "trees must be"),
        (lambda: Forest(window=10), "window must be"),
        (lambda: Optimistic(-1.0), "scale must be"),
        (lambda: Softened(temperature=0.0), "temperature must be"),
        (lambda: InverseGap(-1.0), "sharpness must be"),
        (lambda: PosteriorBest(-1.0), "scale must be"),
        (lambda: LearningExperts(ARMS, (Ridge(), Ridge())), "must be distinct"),
        (lambda: LearningExperts(ARMS, clip=(0.5, 0.1)), "low must be below high"),
        (lambda: Fourier(0), "n must be"),
        (lambda: Fourier(4, scale=0.0), "scale must be"),
        (lambda: Plain(0), "most must be"),
        (lambda: Products(0), "most must be"),
        (lambda: Joined(()), "maps must not be empty"),
    ):
        with pytest.raises(od.InvalidInput, match=message):
            make()
