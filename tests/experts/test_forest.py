"""The forest against plain walks and sums, worlds of steps, and its own past."""

import copy
from typing import Any

import numpy as np
import pytest

from oddsmith.experts.learners import Forest, LearnerInput
from oddsmith.experts.learners.growing import PULL, Trees, grow, leaves, stumps


def rows(n: int, seed: int = 0, dim: int = 3, n_arms: int = 2) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    x, arms = rng.normal(size=(n, dim)), rng.integers(0, n_arms, n)
    return x, arms, ((x[:, 0] > 0) == (arms == 0)).astype(float)


def walk(trees: Trees, root: int, row: Any) -> list[int]:
    """The nodes from root to leaf, one by one."""
    path = [root]
    while np.isfinite(trees.threshold[path[-1]]):
        node = path[-1]
        path.append(int(trees.left[node]) + int(row[trees.column[node]] > trees.threshold[node]))
    return path


def learnt(forest: Forest, x: Any, arms: Any, rewards: Any, state: Any = None, n_arms: int = 2) -> Any:
    state = forest.start((), n_arms, x.shape[1]) if state is None else state
    for row, arm, reward in zip(x, arms, rewards, strict=True):
        state = forest.learn(state, LearnerInput(row, row), np.array(arm), np.array(reward))
    return state


def test_values_are_means_drawn_towards_the_parents() -> None:
    x, arms, rewards = rows(300)
    rewards = 0.7 * rewards + 0.1
    trees = grow(x, arms, rewards, 2, 3, 4, 6, [0, 1])
    paths = [[walk(trees, root, row) for row in x] for root in range(3)]
    found = leaves(trees, 3, x)
    np.testing.assert_array_equal(found, [[paths[root][i][-1] for root in range(3)] for i in range(300)])
    for root in range(3):
        for path in {tuple(p) for p in paths[root]}:
            value = np.full(2, 0.5)
            for depth, node in enumerate(path):
                here = np.array([p[depth] == node if len(p) > depth else False for p in paths[root]])
                sums = np.array([rewards[here & (arms == k)].sum() for k in range(2)])
                counts = np.array([(here & (arms == k)).sum() for k in range(2)])
                value = (sums + PULL * value) / (counts + PULL)
                np.testing.assert_allclose(trees.value[node], value)
                np.testing.assert_array_equal(trees.drawn[node], counts)
                assert counts.sum() >= 2


def test_between_refits_leaves_learn_as_if_they_had_been_grown_so() -> None:
    """Means with their pull do not depend on the order: a leaf's value is that of all its rows."""
    x, arms, rewards = rows(30)
    forest = Forest(4, window=64)
    state = learnt(forest, x[:24], arms[:24], rewards[:24])
    before = copy.deepcopy(state.trees)
    state = learnt(forest, x[24:30], arms[24:30], rewards[24:30], state)
    np.testing.assert_array_equal(state.trees.column, before.column)  # no refit: the next is due at 34
    found = leaves(before, 4, x[24:30])
    for tree in range(4):
        for leaf in set(found[:, tree].tolist()):
            mine = found[:, tree] == leaf
            for k in range(2):
                more = rewards[24:30][mine & (arms[24:30] == k)]
                count = before.drawn[leaf, k]
                expected = (before.value[leaf, k] * (count + PULL) + more.sum()) / (count + PULL + len(more))
                assert state.trees.value[leaf, k] == pytest.approx(expected)
                assert state.trees.drawn[leaf, k] == count + len(more)


def test_a_world_of_steps_is_learnt_and_scales_do_not_matter() -> None:
    x, arms, rewards = rows(800, seed=1)
    forest = Forest(8)
    state = learnt(forest, x, arms, rewards)
    scaled = learnt(forest, x * [2.0**20, 2.0**-20, 1], arms, rewards)
    fresh, _, _ = rows(200, seed=2)
    fresh = fresh[np.abs(fresh[:, 0]) > 0.2]
    mean = forest.believe(state, LearnerInput(fresh, fresh)).mean
    np.testing.assert_array_equal(mean[:, 0] > mean[:, 1], fresh[:, 0] > 0)
    assert np.abs(mean - np.stack([fresh[:, 0] > 0, fresh[:, 0] <= 0], axis=1)).mean() < 0.12
    far = fresh * [2.0**20, 2.0**-20, 1]
    np.testing.assert_allclose(forest.believe(scaled, LearnerInput(far, far)).mean, mean)


def test_missing_numbers_go_left_and_constants_grow_nothing() -> None:
    x, arms, rewards = rows(100)
    x[::3, 0] = np.nan
    trees = grow(x, arms, rewards, 2, 2, 8, 5, [0])
    for i in range(0, 100, 3):
        assert walk(trees, 0, x[i])[-1] == leaves(trees, 2, x[i][None])[0, 0]
    flat = grow(np.ones((50, 2)), arms[:50], rewards[:50], 2, 2, 8, 5, [0])
    assert len(flat.left) == 2
    assert flat.depth == 0
    np.testing.assert_array_equal(leaves(stumps(3, 2), 3, x[:4]), [[0, 1, 2]] * 4)


def test_the_window_keeps_the_last_rows_and_its_size() -> None:
    """After three windows of one world, the forest has forgotten the one before."""
    x, arms, rewards = rows(600, seed=3)
    forest = Forest(8, window=100)
    state = learnt(forest, x, arms, 1 - rewards)
    state = learnt(forest, x, arms, rewards, state)
    assert state.rows.shape == (100, 3)
    assert state.learnt == 1200
    kept = {tuple(row) for row in state.rows}
    assert kept == {tuple(row) for row in x[-100:]}
    mean = forest.believe(state, LearnerInput(np.array([2.0, 0, 0]), np.zeros(3))).mean
    assert mean[0] > 0.7 > 0.3 > mean[1]


def test_refits_fall_on_fixed_counts_and_are_the_same_again() -> None:
    x, arms, rewards = rows(80)
    forest, due, state = Forest(2), [], Forest(2).start((), 2, 3)
    for row, arm, reward in zip(x, arms, rewards, strict=True):
        state = forest.learn(state, LearnerInput(row, row), np.array(arm), np.array(reward))
        if int(state.due) not in due:
            due.append(int(state.due))
    assert due == [24, 34, 48, 68, 96]
    again = learnt(forest, x, arms, rewards)
    for one, two in zip(state.trees, again.trees, strict=True):
        np.testing.assert_array_equal(one, two)
    other = learnt(Forest(2, seed=1), x, arms, rewards)
    assert not np.array_equal(other.trees.threshold[:2], again.trees.threshold[:2])


def test_doubt_falls_with_the_rows_of_an_arm() -> None:
    x, _, rewards = rows(40)
    forest = Forest(3)
    state = learnt(forest, x, np.zeros(40, int), rewards)
    sd = forest.believe(state, LearnerInput(x[0], x[0])).sd
    assert sd[1] == 0.5
    assert sd[0] < 0.5
