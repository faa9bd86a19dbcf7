"""Rewards that turn into others: the state is that of the new rewards, where the
arithmetic has a difference."""

from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.experts.learners import Forest, LearningExperts, Ridge
from oddsmith.experts.learners.protocol import LearnerInput, RewardChange
from server.store.samples import bits

ARMS = ("a", "b", "c")


def drawn(policy: Any, n: int, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [
        od.decide(
            policy,
            policy.init(),
            rng.uniform(0.05, 0.95, (2, 3)),
            float(rng.random()),
            step=i + 1,
        )
        for i in range(n)
    ]


def folded(policy: Any, decisions: list[Any], rewards: list[float]) -> Any:
    state = policy.init()
    for decision, reward in zip(decisions, rewards, strict=True):
        state = policy.update(state, decision, reward)
    return state


@pytest.mark.parametrize("loss", [od.log_loss, od.square_loss])
@pytest.mark.parametrize("bounded", [False, True])
def test_weights_are_those_of_the_new_reward(loss: Any, bounded: bool) -> None:
    policy: Any = od.GeneralizedThompsonSampling(
        od.GivenExperts(["one", "two"]), loss, gamma=0.1
    )
    policy = od.Bounded(policy, 0.05) if bounded else policy
    decisions = drawn(policy, 20)
    decisions[3] = decisions[3]._replace(
        advice=np.array([np.nan, 0.4]), log_weights=np.array([0.0, -1.0])
    )
    before, after = [0.0] * 20, [0.0, 0.5, 0.0, 1.0, *[0.25] * 16]
    state = folded(policy, decisions, before)
    for decision, old, new in zip(decisions, before, after, strict=True):
        state = policy.revise(state, decision, old, new)
    wanted = folded(policy, decisions, after)
    np.testing.assert_allclose(state.log_weights, wanted.log_weights, atol=1e-12)
    assert state.learnt == wanted.learnt == 20
    assert bits(policy.revise(state, decisions[0], 0.5, 0.5)) == bits(state)


def test_an_expert_that_the_default_refuted_stays_refuted() -> None:
    policy = od.GeneralizedThompsonSampling(
        od.GivenExperts(["sure", "fair"]), gamma=0.1
    )
    decision = od.decide(policy, policy.init(), np.array([[1.0, 1.0], [0.5, 0.5]]), 0.3)
    refuted = policy.update(policy.init(), decision, 0.0)
    assert policy.revise(refuted, decision, 0.0, 1.0).log_weights.tolist() == [
        -np.inf,
        0.0,
    ]
    right = policy.update(policy.init(), decision, 1.0)
    assert policy.revise(right, decision, 1.0, 0.0).log_weights.tolist() == [
        -np.inf,
        0.0,
    ]
    sure = decision._replace(advice=np.ones(2))
    right = policy.update(policy.init(), sure, 1.0)
    with pytest.raises(od.errors.AllExpertsRefuted):
        policy.revise(right, sure, 1.0, 0.0)


def test_a_policy_without_a_difference_learns_once_more() -> None:
    policy = od.policies.EXP4(od.GivenExperts(["one", "two"]), eta=0.1)
    (decision,) = drawn(policy, 1)
    state = policy.update(policy.init(), decision, 0.0)
    assert bits(policy.revise(state, decision, 0.0, 1.0)) == bits(
        policy.update(state, decision, 1.0)
    )


def rows(n: int = 200) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(5)
    return rng.normal(size=(n, 3)), rng.integers(3, size=n), rng.random(n).round(2)


def learnt(learner: Any, x: Any, arms: Any, rewards: Any) -> Any:
    state = learner.start((), 3, 3)
    for row, arm, reward in zip(x, arms, rewards, strict=True):
        state = learner.learn(
            state, LearnerInput(row, row), np.array(arm), np.array(reward)
        )
    return state


def test_a_ridge_regression_is_that_of_the_new_rewards() -> None:
    x, arms, rewards = rows()
    learner, late = Ridge(), np.arange(200) % 5 == 0
    state = learnt(learner, x, arms, np.where(late, 0.0, rewards))
    for row, arm, reward in zip(x[late], arms[late], rewards[late], strict=True):
        state = learner.revise(
            state, LearnerInput(row, row), int(arm), RewardChange(0.0, float(reward))
        )
    wanted = learnt(learner, x, arms, rewards)
    np.testing.assert_allclose(state.models.weights, wanted.models.weights, atol=1e-12)
    np.testing.assert_allclose(state.models.sums, wanted.models.sums)
    np.testing.assert_array_equal(state.models.covariance, wanted.models.covariance)


def test_a_forest_keeps_the_new_reward_and_moves_its_leaves() -> None:
    x, arms, rewards = rows()
    x[10, 1] = np.nan
    learner, late = Forest(trees=4), np.arange(200) % 5 == 0
    # stumps: before the first refit
    state = learnt(learner, x[:20], arms[:20], np.where(late, 0.0, rewards)[:20])
    for row, arm, reward in zip(
        x[:20][late[:20]], arms[:20][late[:20]], rewards[:20][late[:20]], strict=True
    ):
        state = learner.revise(
            state, LearnerInput(row, row), int(arm), RewardChange(0.0, float(reward))
        )
    wanted = learnt(learner, x[:20], arms[:20], rewards[:20])
    np.testing.assert_allclose(state.trees.total, wanted.trees.total, atol=1e-12)
    np.testing.assert_array_equal(state.rewards, wanted.rewards)
    # and is grown on the new rewards
    for row, arm, reward in zip(x[20:], arms[20:], rewards[20:], strict=True):
        one = LearnerInput(row, row), np.array(arm), np.array(reward)
        state, wanted = learner.learn(state, *one), learner.learn(wanted, *one)
    assert bits(state.trees) == bits(wanted.trees)


def test_a_row_that_a_forest_has_forgotten_changes_nothing() -> None:
    x, arms, rewards = rows()
    learner = Forest(trees=4, window=48)
    state = learnt(learner, x, arms, rewards)
    before = bits(state)
    one = LearnerInput(x[0], x[0])
    assert (
        bits(
            learner.revise(
                state, one, int(arms[0]), RewardChange(float(rewards[0]), 1.0)
            )
        )
        == before
    )
    empty = learner.start((), 3, 3)  # whose places are all zeros, as this context is
    nothing = LearnerInput(np.zeros(3), np.zeros(3))
    assert bits(learner.revise(empty, nothing, 0, RewardChange(0.0, 1.0))) == bits(
        learner.start((), 3, 3)
    )


def test_a_bank_changes_what_it_made_of_a_reward() -> None:
    bank = LearningExperts(ARMS, (Ridge(),))
    policy = od.GeneralizedThompsonSampling(bank, od.square_loss, eta=2.0, gamma=0.1)
    x, _, rewards = rows(40)
    state: Any = policy.init()
    decisions = []
    for row, reward in zip(x, rewards, strict=True):
        decisions.append(od.decide(policy, state, row, 0.4))
        state = policy.update(state, decisions[-1], float(reward))
    covariance, seen = (
        bits(state.experts.learners[0].models.covariance),
        state.experts.seen,
    )
    state = policy.revise(state, decisions[7], float(rewards[7]), 1.0)
    assert state.experts.seen == seen  # its context is known
    # no second row
    assert bits(state.experts.learners[0].models.covariance) == covariance
    # the default was refused: it is the first
    fresh = policy.revise(policy.init(), decisions[0], 0.0, 1.0)
    assert fresh.experts.seen == 1


def test_banks_side_by_side_and_behind_a_schema_are_revised() -> None:
    learning = LearningExperts(ARMS, (Ridge(),))
    fixed = od.FunctionExperts({"flat": lambda context: [0.2, 0.3, 0.4]}, ARMS)
    policy = od.GeneralizedThompsonSampling(
        od.stack(fixed, learning), od.square_loss, gamma=0.1
    )
    alone = od.GeneralizedThompsonSampling(learning, od.square_loss, gamma=0.1)
    decision = od.decide(policy, policy.init(), np.array([1.0, 2.0]), 0.4)
    own = (
        decision._replace(advice=decision.advice[1:])
        if decision.advice is not None
        else decision
    )
    state = policy.revise(
        policy.update(policy.init(), decision, 0.0), decision, 0.0, 1.0
    )
    wanted = alone.revise(alone.update(alone.init(), own, 0.0), own, 0.0, 1.0)
    assert bits(state.experts[1]) == bits(wanted.experts)
