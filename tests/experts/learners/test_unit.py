"""Rewards of any size are learnt as those of 1 are."""

from typing import Any

import numpy as np
import pytest

import oddsmith as od
from experts.learners.plain_learners import learnt
from oddsmith.contexts.offers import make_offer
from oddsmith.experts.learners import Forest, LearningExperts, PooledRidge, Ridge
from oddsmith.experts.learners.features import Curves
from oddsmith.experts.learners.pool import Remembered, Sizes
from oddsmith.experts.learners.protocol import LearnerInput
from oddsmith.experts.learners.trees import trees_at, weigh
from oddsmith.experts.learners.unit import grown_unit

SIZES = (0.5, 2.0**-10, 2.0**-80)


def of_given_arms(size: float) -> tuple[Any, Any]:
    """The experts' state after rewards of up to `size`, and what they predict."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    arms = rng.integers(0, 2, 60)
    rewards = rng.choice([0.0, 0.25, 1.0], 60) * size
    bank = LearningExperts(("a", "b"), (Ridge(Curves(8)), Forest(4)), blend=True)
    _, state = learnt(bank, x, arms, rewards)
    return state.experts, bank.advise(state.experts, x[:5])


def of_offers(size: float) -> tuple[Any, Any]:
    """The same, where one arm comes with each call."""
    rng = np.random.default_rng(0)
    policy = od.auto()
    agent = od.Agent(policy, seed=1)
    for x in rng.normal(size=60).tolist():
        decision = agent.decide({"x": x}, arms=("a",))
        agent.learn(decision, float(rng.choice([0.0, 0.25, 1.0]) * size))
    offer = make_offer({"x": 0.3}, ["a", "b"])
    return agent.state.experts, policy.experts.advise(agent.state.experts, offer)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("played", [of_given_arms, of_offers])
def test_learners_believe_the_same_of_rewards_of_any_size(
    played: Any, size: float, any_kernels: str
) -> None:
    """With powers of two, to the last bit."""
    first, (predictions, votes) = played(1.0)
    second, (small, same_votes) = played(size)
    assert second.unit == size * first.unit
    np.testing.assert_array_equal(small, size * predictions)
    np.testing.assert_array_equal(same_votes, votes)


def test_small_rewards_before_a_large_one_count_as_small() -> None:
    """Sums, regressions and rows are those of a learner that knew the unit."""
    learner = PooledRidge()
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(30, 3))
    rewards = 0.1 * rng.random(30)
    known = Remembered(np.array([0]), np.zeros(1))
    states = []
    for unit in (1.0, 0.125):
        state = learner.start(np.zeros(3), Sizes(3, 3), 1)
        for row, reward in zip(rows, rewards, strict=True):
            seen = LearnerInput(row[None], row[None])
            state = learner.learn(state, seen, known, float(reward / unit))
        states.append(learner.rescaled(state, np.array(unit)))
    one, other = states
    np.testing.assert_allclose(other.models.weights, one.models.weights, atol=1e-15)
    np.testing.assert_allclose(other.models.sums, one.models.sums)
    np.testing.assert_allclose(other.rewards, one.rewards)


def test_a_forest_in_another_unit_is_one_that_was_grown_in_it(any_kernels: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(60, 2))
    rewards = np.where(x[:, 0] > 0, 0.5, 0.25)
    forest = Forest(4)
    states = []
    for unit in (1.0, 0.5):
        state = forest.start((), 1, 2)
        for row, reward in zip(x, rewards / unit, strict=True):
            seen = LearnerInput(row, row)
            state = forest.learn(state, seen, np.array(0), np.asarray(reward))
        states.append(state)
    one, other = states
    other = forest.rescaled(other, np.array(0.5))
    np.testing.assert_array_equal(other.rewards, one.rewards)
    for t in range(4):
        tree = trees_at(other.trees, (t,))
        used = int(tree.left.max()) + 2
        kept = tree.stop[:used].copy()
        weigh(tree, used)
        np.testing.assert_array_equal(kept, tree.stop[:used])
    check_same_means(forest, one, other, x)


def check_same_means(forest: Forest, one: Any, other: Any, x: Any) -> None:
    """Trees of both are cut at different places, but explain the same steps."""
    first = forest.believe(one, LearnerInput(x, x)).mean
    second = forest.believe(other, LearnerInput(x, x)).mean
    assert np.abs(first - second).max() < 0.1


def test_units_are_powers_of_two_that_bound_rewards() -> None:
    rng = np.random.default_rng(0)
    rewards = np.concatenate(
        [10.0 ** rng.uniform(-20, 20, 500), 2.0 ** np.arange(-20, 21), [0.0, -0.7]]
    )
    unit, factor = grown_unit(np.zeros(len(rewards)), rewards)
    assert (factor == 1).all()
    known = rewards != 0
    assert (np.frexp(unit[known])[0] == 0.5).all()
    size = np.abs(rewards[known])
    assert ((size <= unit[known]) & (unit[known] < 2 * size)).all()
    assert unit[~known] == 0
    later, factor = grown_unit(unit, np.full(len(rewards), 1.0))
    assert (later >= unit).all()
    np.testing.assert_array_equal(unit[known], factor[known] * later[known])
    assert grown_unit(np.zeros(()), np.array(5e-324))[0] == 2.0**-100
