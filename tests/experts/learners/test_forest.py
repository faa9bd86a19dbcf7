"""The forest against plain walks, worlds of steps, a schedule by hand, and its own
past."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from experts.learners.plain_learners import prior_of
from experts.learners.plain_trees import averaged, by_column, rows, walk
from oddsmith.experts.learners import Forest, LearnerInput, LearningExperts
from oddsmith.experts.learners.growth import Tree, grow, key_of
from oddsmith.experts.learners.trees import trees_at, weigh
from oddsmith.files.state import leaves_of

pytestmark = pytest.mark.usefixtures("any_kernels")


def learnt(forest: Forest, x: Any, arms: Any, rewards: Any, state: Any = None) -> Any:
    state = forest.start((), 2, x.shape[1]) if state is None else state
    for row, arm, reward in zip(x, arms, rewards, strict=True):
        state = forest.learn(
            state, LearnerInput(row, row), np.array(arm), np.array(reward)
        )
    return state


def bits(state: Any) -> list[Any]:
    return [
        (name, np.asarray(leaf).shape, np.asarray(leaf).tobytes())
        for name, leaf in leaves_of(state)
    ]


def expected_trees(
    x: Any, arms: Any, rewards: Any, turns: dict[int, list[int]], n_trees: int
) -> list[Tree]:
    """Trees grown anew at the counts of `turns`, whose nodes learn by plain walks in
    between."""
    trees = [
        grow(by_column(x[:23], arms[:23], rewards[:23]), 2, key=0, depth=0)
        for _ in range(n_trees)
    ]
    for count in range(24, len(x) + 1):
        row, arm, reward = x[count - 1], arms[count - 1], rewards[count - 1]
        for t in range(n_trees):
            for node in walk(trees[t], row):
                trees[t].drawn[node, arm] += 1
                trees[t].total[node, arm] += reward
        for t in turns.get(count, []):
            trees[t] = grow(
                by_column(x[:count], arms[:count], rewards[:count]),
                2,
                key=key_of(7, count, t),
            )
    return trees


@pytest.mark.parametrize("at_once", [1, 120, 4096])
def test_trees_are_grown_one_after_the_other_and_learn_meanwhile(
    at_once: int, monkeypatch: Any
) -> None:
    """Three trees: one a step, as many as there is room for in 120 rows (5, 3, 2, 1),
    or all of them at once."""
    monkeypatch.setattr("oddsmith.experts.learners.forest._AT_ONCE", at_once)
    x, arms, rewards = rows(100)
    begins = [24, 34, 48, 68, 96]
    turns = {
        1: {b + t: [t] for b in begins for t in range(3)},
        120: {
            24: [0, 1, 2],
            34: [0, 1, 2],
            48: [0, 1],
            49: [2],
            **{b + t: [t] for b in (68, 96) for t in range(3)},
        },
        4096: {b: [0, 1, 2] for b in begins},
    }[at_once]
    forest, state = Forest(3, seed=7), None
    for count in range(1, 101):
        state = learnt(
            forest,
            x[count - 1 : count],
            arms[count - 1 : count],
            rewards[count - 1 : count],
            state,
        )
        if count in (24, 25, 33, 49, 69, 97, 100):
            for t, tree in enumerate(
                expected_trees(x[:count], arms[:count], rewards[:count], turns, 3)
            ):
                mine = trees_at(state.trees, (t,))
                used = len(tree.left)
                for name in ("column", "threshold", "left", "drawn", "total"):
                    np.testing.assert_array_equal(
                        getattr(mine, name)[:used], getattr(tree, name)
                    )
                    assert not getattr(mine, name)[used:].any()
                assert mine.depth == tree.depth
                anew = trees_at(copy.deepcopy(state.trees), (t,))
                weigh(anew, used)
                if used > 1:
                    np.testing.assert_allclose(
                        mine.evidence[:used], anew.evidence[:used], atol=1e-9
                    )
                np.testing.assert_allclose(
                    mine.stop[:used], anew.stop[:used], atol=1e-9
                )


def test_however_many_trees_all_are_grown_before_the_next_turn() -> None:
    for trees, window in ((1, 48), (16, 4096), (64, 4096), (300, 50), (5000, 4096)):
        forest, begun = Forest(trees, window=window), 24
        while begun < 20_000:
            following = begun + min(int(0.4 * begun) + 1, window // 2)
            grown = [
                tree
                for count in range(begun, following)
                for tree in forest._next_trees(begun, count)
            ]
            assert grown == list(range(trees))
            most = max(
                len(forest._next_trees(begun, count))
                for count in range(begun, following)
            )
            assert most * min(begun, window) <= max(
                4096, window * -(-trees // (following - begun))
            )
            begun = following


def test_a_loaded_state_goes_on_as_the_saved_one(
    tmp_path: Path, monkeypatch: Any
) -> None:
    """Also in the middle of a regrowth, and while there are only stumps."""
    monkeypatch.setattr("oddsmith.experts.learners.forest._AT_ONCE", 1)
    x, _, _ = rows(70)
    policy = od.GeneralizedThompsonSampling(
        LearningExperts(("a", "b"), (Forest(6),)), gamma=0.1
    )

    def play(agent: od.Agent, steps: range) -> None:
        for t in steps:
            agent.learn(agent.decide(x[t]), float(x[t, 0] > 0))

    whole = od.Agent(policy, seed=3)
    play(whole, range(70))
    for stop in (10, 26, 36):
        agent = od.Agent(policy, seed=3)
        play(agent, range(stop))
        agent.save(tmp_path / "agent.npz")
        again = od.Agent.load(tmp_path / "agent.npz", policy)
        play(again, range(stop, 70))
        assert bits(again.state) == bits(whole.state)


def test_a_fold_is_step_by_step(monkeypatch: Any) -> None:
    monkeypatch.setattr("oddsmith.experts.learners.forest._AT_ONCE", 1)
    x, arms, rewards = rows(60)
    policy = od.GeneralizedThompsonSampling(
        LearningExperts(("a", "b"), (Forest(6),)), gamma=0.1
    )
    state = policy.init()
    decisions = [
        od.decide(policy, state, row, 0.4)._replace(arm=int(arm))
        for row, arm in zip(x, arms, strict=True)
    ]
    for decision, reward in zip(decisions, rewards, strict=True):
        state = policy.update(state, decision, float(reward))
    assert bits(od.fold(policy, policy.init(), decisions, rewards)) == bits(state)


def test_a_world_of_steps_is_learnt_and_scales_do_not_matter() -> None:
    x, arms, rewards = rows(800, seed=1)
    forest = Forest(8)
    state = learnt(forest, x, arms, rewards)
    scaled = learnt(forest, x * [2.0**20, 2.0**-20, 1], arms, rewards)
    fresh, _, _ = rows(200, seed=2)
    fresh = fresh[np.abs(fresh[:, 0]) > 0.2]
    mean = forest.believe(state, LearnerInput(fresh, fresh)).mean
    np.testing.assert_array_equal(mean[:, 0] > mean[:, 1], fresh[:, 0] > 0)
    assert (
        np.abs(mean - np.stack([fresh[:, 0] > 0, fresh[:, 0] <= 0], axis=1)).mean()
        < 0.12
    )
    far = fresh * [2.0**20, 2.0**-20, 1]
    np.testing.assert_array_equal(
        forest.believe(scaled, LearnerInput(far, far)).mean, mean
    )


def noisy_average(tree: Any, row: Any, arm: int) -> tuple[float, float]:
    """The mean of one tree, and its doubt in units of rewards."""
    mean, doubt = averaged(tree, row, arm, float(tree.scale))
    return mean, doubt * float(tree.noise) ** 2


def test_beliefs_are_averages_over_the_trees() -> None:
    x, arms, rewards = rows(60)
    forest = Forest(5)
    state = learnt(forest, x, arms, rewards)
    belief = forest.believe(state, LearnerInput(x, x))
    for i, row in enumerate(x[:5]):
        trees = [trees_at(state.trees, (t,)) for t in range(5)]
        for arm in range(2):
            mean, doubt = np.mean(
                [noisy_average(tree, row, arm) for tree in trees], axis=0
            )
            assert belief.mean[i, arm] == pytest.approx(mean, abs=1e-12)
            assert belief.sd[i, arm] == pytest.approx(np.sqrt(doubt), abs=1e-12)
        alone = forest.believe(state, LearnerInput(row, row))
        np.testing.assert_array_equal(alone.mean, belief.mean[i])


def test_rewards_that_scatter_less_than_coins_count_for_more() -> None:
    """Over all rewards: what coins of the means foreseen would scatter by, over what
    was missed."""
    x, arms, _ = rows(400)
    rng = np.random.default_rng(8)
    for rewards, low, high in (
        (rng.random(400) < 0.3, 0.8, 1.2),
        (0.5 + 0.1 * (x[:, 0] > 0), 20.0, 1000.0),
    ):
        state = learnt(Forest(4), x, arms, rewards.astype(float))
        coins, missed = state.scatter
        assert low < coins / missed < high
        assert (state.trees.scale >= 1).all()


def test_before_the_first_growth_an_arm_is_its_rows() -> None:
    x, _, _ = rows(10)
    forest = Forest(2)
    state = learnt(forest, x, np.zeros(10, int), np.ones(10))
    mean = forest.believe(state, LearnerInput(x[0], x[0])).mean
    np.testing.assert_allclose(mean, [(10 + 2 * 11 / 12) / 12, 11 / 12])
    state = learnt(forest, x, np.zeros(10, int), np.zeros(10))
    np.testing.assert_allclose(
        forest.believe(state, LearnerInput(x[0], x[0])).mean,
        [prior_of(np.zeros(10))[0] / 6, prior_of(np.zeros(10))[0]],
    )


def test_further_arms_start_as_all_rows_together() -> None:
    x, arms, rewards = rows(60)
    forest = Forest(3, window=48)
    high = 0.5 + 0.5 * rewards
    for n in (0, 5, 60):
        state = learnt(forest, x[:n], arms[:n], high[:n])
        before = forest.believe(state, LearnerInput(x[0], x[0]))
        wide = forest.widen(copy.deepcopy(state), 4)
        after = forest.believe(wide, LearnerInput(x[0], x[0]))
        np.testing.assert_array_equal(after.mean[:2], before.mean)
        np.testing.assert_allclose(after.mean[2:], wide.trees.start.mean())
        np.testing.assert_allclose(after.sd[2:], np.sqrt((wide.trees.noise**2).mean()))
        for t in range(40):
            wide = forest.learn(
                wide, LearnerInput(x[t], x[t]), np.array(t % 4), np.array(rewards[t])
            )
        assert np.isfinite(forest.believe(wide, LearnerInput(x[0], x[0])).mean).all()


def test_further_columns_are_as_if_they_had_always_been_there() -> None:
    """A category is 0 in all rows so far, a number missing: the same trees as of rows
    that were so."""
    x, arms, rewards = rows(30)
    forest, fill = Forest(3), np.array([np.nan, 0.0, 0.0, 0.0, np.nan])
    state = learnt(forest, x[:26], arms[:26], rewards[:26])
    wide = forest.wider(copy.deepcopy(state), fill)
    assert bits(wide.trees) == bits(state.trees)
    old = np.concatenate([x[:26], np.broadcast_to(fill[3:], (26, 2))], axis=1)
    np.testing.assert_array_equal(wide.numbers[:, :26], old.T)
    new = np.concatenate([x[26:], [[1.0, 3.0]] * 4], axis=1)
    wide = learnt(
        forest,
        np.tile(new, (2, 1)),
        np.tile(arms[26:], 2),
        np.tile(rewards[26:], 2),
        wide,
    )
    assert int(wide.begun) == 34
    again = [*range(30), *range(26, 30)]
    ring = by_column(np.concatenate([old, new, new]), arms[again], rewards[again])
    tree = grow(ring, 2, key=key_of(0, 34, 0))
    np.testing.assert_array_equal(
        wide.trees.threshold[0, : len(tree.left)], tree.threshold
    )
    side_by_side = forest.wider(forest.start((2,), 2, 3), fill)
    assert side_by_side.numbers.shape == (2, 5, 24)


def test_the_window_keeps_the_last_rows_and_its_size() -> None:
    """After three windows of one world, the forest has forgotten the one before."""
    x, arms, rewards = rows(600, seed=3)
    forest = Forest(8, window=100)
    state = learnt(forest, x, arms, 1 - rewards)
    state = learnt(forest, x, arms, rewards, state)
    assert state.numbers.shape == (3, 100)
    assert state.learnt == 1200
    assert {tuple(row) for row in state.numbers.T} == {tuple(row) for row in x[-100:]}
    mean = forest.believe(state, LearnerInput(np.array([2.0, 0, 0]), np.zeros(3))).mean
    assert mean[0] > 0.7 > 0.3 > mean[1]


def test_another_seed_grows_other_trees() -> None:
    x, arms, rewards = rows(80)
    one, again, other = (
        learnt(Forest(2, seed=seed), x, arms, rewards) for seed in (0, 0, 1)
    )
    assert bits(one) == bits(again)
    assert not np.array_equal(one.trees.threshold[:, 0], other.trees.threshold[:, 0])


def test_doubt_falls_with_the_rows_of_an_arm() -> None:
    x, _, rewards = rows(40)
    forest = Forest(3)
    state = learnt(forest, x, np.zeros(40, int), rewards)
    sd = forest.believe(state, LearnerInput(x[0], x[0])).sd
    _, noise = prior_of(rewards)
    assert sd[1] == pytest.approx(noise, rel=0.1)  # trees are grown at other times
    assert sd[0] < noise / 2


def test_an_arm_that_there_is_not_is_refused_and_nothing_is_learnt() -> None:
    x, arms, rewards = rows(30)
    forest = Forest(3)
    for n in (5, 30):
        state = learnt(forest, x[:n], arms[:n], rewards[:n])
        before = bits(state)
        for arm in (-1, 2):
            with pytest.raises(
                od.InvalidInput, match="arm must be the number of one of 2 arms"
            ):
                forest.learn(
                    state, LearnerInput(x[0], x[0]), np.array(arm), np.array(1.0)
                )
        assert bits(state) == before
