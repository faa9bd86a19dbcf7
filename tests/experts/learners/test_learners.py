"""Learners against direct linear algebra and optimisation, feature maps against their
kernels, voting rules by hand."""

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oddsmith as od
from experts.learners.plain_learners import ARMS, learnt
from oddsmith.contexts.schema import Schema
from oddsmith.experts.ballots import Optimistic
from oddsmith.experts.learners import Forest, LearningExperts, Ridge
from oddsmith.experts.learners.evidence import dense
from oddsmith.experts.learners.features import Curves, Plain

BANK = LearningExperts(
    ARMS, (Ridge(), Ridge(Curves(16), ((2.0, 5.0),)), Forest(4)), blend=True
)


def test_ballots_by_hand() -> None:
    mean, sd = np.array([[0.5, 0.4, 0.45]]), np.array([[0.1, 0.3, 0.1]])
    np.testing.assert_array_equal(Optimistic(1.0)(mean, sd), [[0, 1, 0]])
    np.testing.assert_array_equal(
        Optimistic(1.0)(mean, sd, np.array([True, False, True])), [[1, 0, 0]]
    )
    bank = LearningExperts(ARMS, (Ridge(),), ballots=Optimistic(1.0))
    _, state = learnt(bank, np.eye(3), [0, 1, 2], [1, 0, 1])
    np.testing.assert_allclose(
        bank.advise(state.experts, np.ones((4, 3)))[1].sum(axis=-1), 1
    )


def test_the_blend_is_the_mixture_that_would_have_foreseen_most() -> None:
    """Against least squares over a fine grid of portions, with a prior of half and
    half."""
    rng = np.random.default_rng(3)
    x, arms = rng.normal(size=(300, 2)), rng.integers(0, 3, 300)
    rewards = 0.4 + (x[:, 0] > 0) * 0.1 + rng.random(300) * 0.1
    policy = od.GeneralizedThompsonSampling(BANK, eta=1.0, gamma=0.1)
    state, said = policy.init(), []
    for context, arm, reward in zip(x, arms, rewards, strict=True):
        advice: Any = policy.odds(state, context).advice
        said.append(advice[:2, arm])
        decision = od.decide(policy, state, context, 0.5, step=1)
        state = policy.update(
            state, decision._replace(arm=int(arm), advice=advice[:, arm]), float(reward)
        )
    first, second = np.array(said).T
    portions = np.linspace(0, 1, 10_001)
    loss = ((rewards - second - portions[:, None] * (first - second)) ** 2).sum(
        axis=1
    ) + 4 * (portions - 0.5) ** 2
    best = portions[loss.argmin()]
    assert best != 0.5
    predictions, _ = BANK.advise(state.experts, x[0])
    np.testing.assert_allclose(
        predictions[-1], best * predictions[0] + (1 - best) * predictions[1], atol=1e-3
    )


def test_a_row_of_numbers_for_each_arm() -> None:
    """One regression for all arms: learnt from one arm, it knows the others."""
    rng = np.random.default_rng(4)
    bank = LearningExperts(ARMS, (Ridge(), Forest(4)), rows_per_arm=True)
    x = rng.random((400, 3, 2))
    _, state = learnt(bank, x, np.zeros(400, int), x[:, 0, 0])
    predictions, ballots = bank.advise(
        state.experts, np.array([[0.1, 0.5], [0.9, 0.5], [0.4, 0.5]])
    )
    np.testing.assert_allclose(predictions[0], [0.1, 0.9, 0.4], atol=0.05)
    np.testing.assert_allclose(predictions[1], [0.1, 0.9, 0.4], atol=0.2)
    np.testing.assert_array_equal(ballots, [[0, 1, 0], [0, 1, 0]])
    assert state.experts.learners[0].models.weights.shape == (3, 1, 2, 3)
    with pytest.raises(od.InvalidInput, match="a row for each of the 3 arms"):
        bank.advise(state.experts, np.zeros((2, 2)))
    many = bank.advise(state.experts, x[:7])
    np.testing.assert_allclose(many[0][3], bank.advise(state.experts, x[3])[0])


def test_arms_that_come_later_change_nothing_for_the_others() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(60, 2))
    for bank in (BANK, LearningExperts(ARMS)):
        rewards = rng.random(60) ** 0.3
        _, state = learnt(bank, x, rng.integers(0, 3, 60), rewards)
        wider, more = bank.with_arms(state.experts, [*ARMS, "d"])
        old, new = bank.predict(state.experts, x[0]), wider.predict(more, x[0])
        np.testing.assert_allclose(new[:, :3], old)
        start = max(0.5, (1 + rewards.sum()) / 62)
        np.testing.assert_allclose(new[:2, 3][: len(bank.learners)], start)
    with pytest.raises(od.InvalidInput, match="arms must begin with"):
        BANK.with_arms(state.experts, ["d", *ARMS])


def test_a_decision_with_a_row_per_arm_is_learnt_after_there_are_more() -> None:
    rng, bank = (
        np.random.default_rng(5),
        LearningExperts(ARMS, (Ridge(),), rows_per_arm=True),
    )
    x = rng.normal(size=(3, 2))
    drawn = od.Decision(1, x, None, 1, np.full(3, 1 / 3), advice=np.full(1, 0.5))
    wider, state = bank.with_arms(bank.init(), [*ARMS, "d"])
    early, late = bank.update(bank.init(), drawn, 1.0), wider.update(state, drawn, 1.0)
    np.testing.assert_array_equal(
        early.learners[0].models.weights, late.learners[0].models.weights
    )
    with pytest.raises(od.InvalidInput, match="a row for each of the 4 arms"):
        wider.predict(late, x)


@pytest.mark.parametrize("rows_per_arm", [False, True])
def test_runs_side_by_side_are_runs_alone(rows_per_arm: bool) -> None:
    """A state with a batch axis, refits included."""
    rng = np.random.default_rng(6)
    bank = LearningExperts(
        ARMS,
        (Ridge(), Ridge(Curves(4)), Forest(3)),
        blend=True,
        rows_per_arm=rows_per_arm,
    )
    x = rng.normal(size=(40, 2, 3, 4) if rows_per_arm else (40, 2, 4))
    arms, rewards = rng.integers(0, 3, (40, 2)), rng.random((40, 2))
    together, alone = bank.init((2,)), [bank.init(), bank.init()]
    for t in range(40):
        blank = od.Decision(
            1, x[t], None, arms[t], np.full((2, 3), 1 / 3), np.full((2, 4), 0.5)
        )
        together = bank.update(together, blank, rewards[t])
        for i in range(2):
            one = blank._replace(
                context=x[t, i], arm=arms[t, i], advice=np.full(4, 0.5)
            )
            alone[i] = bank.update(alone[i], one, rewards[t, i])
    found = bank.predict(together, x[0])
    for i in range(2):
        np.testing.assert_allclose(
            found[i], bank.predict(alone[i], x[0, i]), atol=1e-12
        )


DIRTY = st.one_of(
    st.none(),
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(),
    st.text(max_size=5),
    st.booleans(),
    st.lists(st.integers(), max_size=2),
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.dictionaries(st.sampled_from(["x", "y", "city", "z"]), DIRTY, max_size=4),
        min_size=1,
        max_size=12,
    )
)
def test_dirty_dicts_give_odds_or_one_sentence(contexts: list[Any]) -> None:
    """Whatever comes: odds that are numbers, or a named error that changes nothing."""
    bank = LearningExperts(
        ARMS, schema=Schema(numbers=("x", "y"), categories=("city",))
    )
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
        assert all(
            np.isfinite(own.models.weights).all() for own in state.experts.learners
        )


def test_missing_numbers_constants_and_wild_values() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(200, 4)) * [1, 1e6, 0, 1e-9] + [0, 5e8, 7, 0]
    x[rng.random((200, 4)) < 0.2] = np.nan
    x[50, 0], x[51, 1] = np.inf, 1e307
    policy, state = learnt(BANK, x, rng.integers(0, 3, 200), rng.random(200))
    assert np.isfinite(policy.odds(state, x[0]).propensities).all()
    assert np.isfinite(policy.odds(state, np.full(4, np.nan)).propensities).all()
    for own in state.experts.learners[:2]:
        full = dense(own.models.covariance, own.models.weights.shape[-1])
        assert (np.linalg.eigvalsh(full) > 0).all()


def test_a_context_of_another_form_is_no_dead_end() -> None:
    policy, state = learnt(BANK, np.eye(4), [0, 1, 2, 0], [1, 0, 1, 0])
    before = copy.deepcopy(state.experts)
    for wrong in (np.array(["a"]), "home", [[1], [2, 3]]):
        with pytest.raises(od.InvalidInput, match=r"^context "):
            policy.odds(state, wrong)
    covariance = state.experts.learners[0].models.covariance
    np.testing.assert_array_equal(covariance, before.learners[0].models.covariance)
    for other in (
        np.zeros(3),
        np.zeros(6),
        {"hour": 9},
        {"city": "Rome", "hour": None},
    ):
        decision = od.decide(policy, state, other, 0.5, step=5)
        state = policy.update(state, decision, 1.0)
        assert np.isfinite(policy.odds(state, other).propensities).all()
    assert np.isfinite(policy.odds(state, np.ones(4)).propensities).all()


def test_columns_that_come_later_are_as_if_they_had_been_0() -> None:
    """Words that were never said before: the same beliefs as if their columns had been
    there from the start."""
    rng = np.random.default_rng(3)
    contexts = [
        {
            "x": float(rng.random()),
            "city": "Rome" if t < 40 else str(rng.choice(["Rome", "Oslo"])),
        }
        for t in range(80)
    ]
    arms, rewards = rng.integers(0, 3, 80), rng.random(80) < 0.4
    bank = LearningExperts(ARMS, (Ridge(),))
    _, state = learnt(bank, contexts, arms, rewards)
    columns = state.experts.columns
    early = bank._with_columns(bank.init(), columns)
    assert early.moments.mean.shape == (len(columns.kinds),)
    policy = od.GeneralizedThompsonSampling(bank, eta=1.0, gamma=0.1)
    other = policy.init()._replace(experts=early)
    for context, arm, reward in zip(contexts, arms, rewards, strict=True):
        decision = od.decide(policy, other, context, 0.5, step=1)._replace(
            arm=int(arm), advice=np.full(1, 0.5)
        )
        other = policy.update(other, decision, float(reward))
    for context in contexts[::7]:
        np.testing.assert_allclose(
            bank.predict(state.experts, context),
            bank.predict(other.experts, context),
            atol=1e-9,
        )


def test_wrong_settings() -> None:
    for make, message in (
        (lambda: LearningExperts(ARMS, ()), "names of learners must be"),
        (lambda: Ridge(ridges=((0.3, 0.0),)), "ridge must be"),
        (lambda: Ridge(ridges=()), "ridges must be"),
        (lambda: Forest(0), "trees must be"),
        (lambda: Forest(window=10), "window must be"),
        (lambda: Optimistic(-1.0), "scale must be"),
        (lambda: LearningExperts(ARMS, (Ridge(), Ridge())), "must be distinct"),
        (lambda: LearningExperts(ARMS, clip=(0.5, 0.1)), "low must be below high"),
        (lambda: Curves(0), "n must be"),
        (lambda: Curves(4, scale=0.0), "scale must be"),
        (lambda: Plain(0), "most must be"),
    ):
        with pytest.raises(od.InvalidInput, match=message):
            make()
