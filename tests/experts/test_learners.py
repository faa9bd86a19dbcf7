"""Learners against direct linear algebra, dirty contexts, and worlds that are linear or curved."""

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oddsmith as od
from oddsmith.experts.features import FeatureMap, Fourier, Plain
from oddsmith.experts.learners import BayesianLearners, LearnerState
from oddsmith.experts.schema import Schema
from oddsmith.worlds import dataset

ARMS = ("a", "b", "c")
BANK = BayesianLearners(ARMS, (Plain(), Fourier(16)), (0.5, 2.0))


def learnt(bank: Any, x: Any, arms: Any, rewards: Any) -> Any:
    policy = od.GeneralizedThompsonSampling(bank, eta=1.0, gamma=0.1)
    state = policy.init()
    for context, arm, reward in zip(x, arms, rewards, strict=True):
        decision = od.decide(policy, state, context, 0.5, step=1)
        decision = decision._replace(arm=int(arm), advice=policy.odds(state, context).advice[:, int(arm)])  # type: ignore[index]
        state = policy.update(state, decision, float(reward))
    return policy, state


def test_beliefs_are_ridge_regressions_on_the_features_as_they_were() -> None:
    rng = np.random.default_rng(0)
    x, arms, rewards = rng.normal(3, 2, (40, 4)), rng.integers(0, 3, 40), rng.random(40)
    _, state = learnt(BANK, x, arms, rewards)
    own: LearnerState = state.experts
    designs: Any = [[[] for _ in ARMS] for _ in BANK.names]
    for t in range(40):
        seen = x[: t + 1]
        z = np.clip((x[t] - seen.mean(axis=0)) / np.where(seen.std(axis=0) > 0, seen.std(axis=0), 1), -5, 5)
        features = [m(z) for m in BANK.maps for _ in BANK.ridges]
        for i, phi in enumerate(features):
            designs[i][arms[t]].append(phi)
    ridges = [ridge for _ in BANK.maps for ridge in BANK.ridges]
    for i, ridge in enumerate(ridges):
        for arm in range(3):
            phi, target = np.array(designs[i][arm]), rewards[arms == arm] - 0.5
            precision = ridge * np.eye(phi.shape[1]) + phi.T @ phi
            np.testing.assert_allclose(own.covariances[i][arm], np.linalg.inv(precision), atol=1e-9)
            np.testing.assert_allclose(own.weights[i][arm], np.linalg.solve(precision, phi.T @ target), atol=1e-9)
    np.testing.assert_allclose(own.mean, x.mean(axis=0))
    np.testing.assert_allclose(own.squares / 40, x.var(axis=0))


def test_fourier_features_are_a_gaussian_kernel() -> None:
    """Their inner product tends to exp(-scale² |z - z'|²/(2d)); 4 standard errors at 20,000 features are 0.03."""
    rng = np.random.default_rng(1)
    z, other = rng.normal(size=5), rng.normal(size=5)
    wide: FeatureMap = Fourier(20_000, 1.5)
    kernel = float(wide(z)[:-1] @ wide(other)[:-1])
    assert kernel == pytest.approx(np.exp(-(1.5**2) * ((z - other) ** 2).sum() / 10), abs=0.03)
    assert wide(z)[-1] == 1
    assert wide.size(5) == len(wide(z))


def test_votes_are_optimistic_and_predictions_clipped() -> None:
    rng = np.random.default_rng(2)
    bold = BayesianLearners(ARMS, optimism=3.0)
    x, arms = rng.normal(size=(30, 2)), np.zeros(30, int)
    _, state = learnt(bold, x, arms, np.full(30, 0.6))
    predictions, ballots = bold.advise(state.experts, x[0])
    assert predictions[0].argmax() == 0  # the only arm it knows
    np.testing.assert_array_equal(ballots, [[0, 0.5, 0.5]])  # and the two it does not know, which may be better
    assert ((predictions >= 0.01) & (predictions <= 0.99)).all()


@pytest.mark.parametrize(("name", "linear", "most"), [("wine", True, 0.15), ("iris", False, 0.25)])
def test_it_learns_real_data_from_scratch(name: str, linear: bool, most: float) -> None:
    world = dataset(name)
    bank = BayesianLearners(tuple(map(str, range(3))), (Plain(),) if linear else (Plain(), Fourier(60, 2.0)))
    policy = od.GeneralizedThompsonSampling(bank, eta=1.0, gamma=0.01)
    order = np.random.default_rng(3).permutation(len(world.y))
    state, wrong = policy.init(), 0.0
    for t, i in enumerate(order):
        decision = od.decide(policy, state, world.X[i], float(np.random.default_rng(t).random()), step=t + 1)
        reward = float(decision.arm == world.y[i])
        state, wrong = policy.update(state, decision, reward), wrong + 1 - reward
    assert wrong / len(order) < most


DIRTY = st.one_of(
    st.none(), st.floats(allow_nan=True, allow_infinity=True), st.integers(), st.text(max_size=5), st.booleans(),
    st.lists(st.integers(), max_size=2),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(["x", "y", "city", "z"]), DIRTY, max_size=4), min_size=1, max_size=12))
def test_dirty_dicts_give_odds_or_one_sentence(contexts: list[Any]) -> None:
    """Whatever comes: odds that are numbers, or a named error that changes nothing."""
    bank = BayesianLearners(ARMS, schema=Schema(numbers=("x", "y"), categories=("city",)))
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
        assert all(np.isfinite(w).all() for w in state.experts.weights)


def test_missing_numbers_constants_and_wild_values() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(200, 4)) * [1, 1e6, 0, 1e-9] + [0, 5e8, 7, 0]
    x[rng.random((200, 4)) < 0.2] = np.nan
    x[50, 0], x[51, 1] = np.inf, 1e307
    policy, state = learnt(BANK, x, rng.integers(0, 3, 200), rng.random(200))
    assert np.isfinite(policy.odds(state, x[0]).propensities).all()
    assert np.isfinite(policy.odds(state, np.full(4, np.nan)).propensities).all()
    assert all((np.linalg.eigvalsh(c) > 0).all() for c in state.experts.covariances)


def test_a_context_of_another_length_changes_nothing() -> None:
    policy, state = learnt(BANK, np.eye(4), [0, 1, 2, 0], [1, 0, 1, 0])
    before = copy.deepcopy(state.experts)
    for wrong in (np.zeros(3), np.array(["a"]), "home", [[1], [2, 3]]):
        with pytest.raises(od.InvalidInput, match="context must"):
            policy.odds(state, wrong)
    np.testing.assert_array_equal(state.experts.covariances[0], before.covariances[0])


def test_wrong_settings() -> None:
    for make, message in (
        (lambda: BayesianLearners(ARMS, ()), "maps and ridges must not be empty"),
        (lambda: BayesianLearners(ARMS, ridges=(0.0,)), "ridge must be"),
        (lambda: BayesianLearners(ARMS, optimism=-1.0), "optimism must be"),
        (lambda: BayesianLearners(ARMS, (Plain(), Plain())), "must be distinct"),
        (lambda: Fourier(0), "n must be"),
        (lambda: Fourier(4, scale=0.0), "scale must be"),
    ):
        with pytest.raises(od.InvalidInput, match=message):
            make()
