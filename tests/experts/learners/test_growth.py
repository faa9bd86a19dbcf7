"""Single trees against trees by hand, brute force, and plain walks and sums."""

from typing import Any

import numpy as np
import pytest

from experts.learners.plain_learners import prior_of
from experts.learners.plain_trees import averaged, by_column, check_sums, rows, walk
from oddsmith.experts.learners.growth import grow, key_of
from oddsmith.experts.learners.trees import (
    PULL,
    believe,
    learn,
    replace_tree,
    stumps,
    trees_at,
)

pytestmark = pytest.mark.usefixtures("any_kernels")


def test_a_tree_on_six_rows_by_hand() -> None:
    """One column, one arm: of the cuts with two rows on each side, that between the
    zeros and the ones explains most.

    Rows 1, 2, 3 have reward 0, rows 4, 5, 6 reward 1; the mean is 1/2. Cut between 3
    and 4: gains -3/2 and 3/2, each over 3 + 1 rows, (9/4 + 9/4)/4 = 9/8. Between 2 and
    3: 1/3 + 1/5 = 8/15. No cut at all: 0.
    """
    given = by_column(
        np.array([[1.0], [2], [3], [4], [5], [6]]), np.zeros(6, int), [0, 0, 0, 1, 1, 1]
    )
    found = {}
    for key in range(40):
        tree = grow(given, 1, key=key_of(key))
        found[float(tree.threshold[0])] = tree
    assert set(found) <= {2.0, 2.5, 3.0, 3.5, 4.0, 4.5}
    tree = found[3.5]
    np.testing.assert_array_equal(tree.left, [1, 1, 2])
    np.testing.assert_array_equal(tree.drawn, [[6], [3], [3]])
    np.testing.assert_array_equal(tree.total, [[3], [0], [3]])
    assert tree.depth == 1


def test_among_all_cuts_the_one_that_explains_most_is_taken() -> None:
    """With few rows and many candidates, nearly all cuts are tried: the root's is the
    best of all, by brute force."""
    rng = np.random.default_rng(0)
    x, arms, rewards = (
        rng.integers(0, 4, (8, 40)).astype(float),
        rng.integers(0, 2, 8),
        rng.random(8),
    )
    x[:, 2:] = 0  # constant, so that no cut is there
    residual = rewards - rewards.mean()

    def explained(goes: Any) -> float:
        sides = [(s & (arms == k)) for s in (goes, ~goes) for k in range(2)]
        return float(
            sum(residual[mine].sum() ** 2 / (mine.sum() + 1) for mine in sides)
        )

    cuts = {(c, t): x[:, c] <= t for c in range(2) for t in np.arange(0, 3.5, 0.5)}
    allowed = {
        cut: explained(goes) for cut, goes in cuts.items() if 2 <= goes.sum() <= 6
    }
    best = max(allowed.values())
    roots = [
        grow(by_column(x[:, :2], arms, rewards), 2, key=key_of(key))
        for key in range(60)
    ]
    gains = [
        allowed[int(tree.column[0]), float(tree.threshold[0])]
        for tree in roots
        if tree.depth
    ]
    assert max(gains) == pytest.approx(best)
    assert np.mean(np.isclose(gains, best)) > 0.5


def test_nodes_have_the_rows_that_walk_through_them() -> None:
    x, arms, rewards = rows(300)
    rewards = 0.7 * rewards + 0.1
    x[::7, 0] = np.nan
    for t in range(3):
        tree = grow(by_column(x, arms, rewards), 2, key=key_of(t))
        check_sums(tree, x, arms, rewards)
        assert len(tree.left) > 10


@pytest.mark.parametrize("scale", [1.0, 7.5])
def test_beliefs_are_averages_over_all_ways_to_cut_a_tree_short(scale: float) -> None:
    """Against enumeration: every way by its prior and by how likely it makes the
    rewards of the arm."""
    rng = np.random.default_rng(4)
    x, arms, _ = rows(40, n_arms=3)
    rewards = (rng.random(40) < 0.2 + 0.6 * (x[:, 0] > 0)).astype(float)
    trees = stumps((), 2, 3)
    for t in range(2):
        tree = grow(by_column(x, arms, rewards), 3, key=key_of(t), depth=3)
        assert len(tree.left) > 4
        trees = replace_tree(trees, (t,), tree, scale)
    _, noise = prior_of(rewards)
    for step in range(3):  # as they were grown, and after further rewards
        belief = believe(trees, x[:10])
        for row in range(10):
            for arm in range(3):
                found = [
                    averaged(trees_at(trees, (t,)), x[row], arm, scale)
                    for t in range(2)
                ]
                mean, doubt = np.mean(found, axis=0)
                assert belief.mean[row, arm] == pytest.approx(mean, abs=1e-12)
                assert belief.sd[row, arm] == pytest.approx(
                    noise * np.sqrt(doubt), abs=1e-12
                )
        learn(trees, x[20 + step], step % 3, draws=1.0, rewards=0.25 * step)


def test_noise_is_cut_short_and_structure_is_not() -> None:
    """How far beliefs scatter, over how far those of the leaves alone would."""
    rng = np.random.default_rng(5)
    x, arms = rng.normal(size=(600, 3)), np.zeros(600, int)
    kept = {}
    for name, chance in (
        ("noise", np.full(600, 0.1)),
        ("steps", 0.05 + 0.9 * (x[:, 0] > 0)),
    ):
        rewards = rng.random(600) < chance
        trees = replace_tree(
            stumps((), 1, 1), (0,), grow(by_column(x, arms, rewards), 1, key=1), 1.0
        )
        cut, whole = float(believe(trees, x).mean.std()), []
        for row in x:
            value = float(trees.start[0])
            for node in walk(trees_at(trees, (0,)), row):
                value = (trees.total[0, node, 0] + PULL * value) / (
                    trees.drawn[0, node, 0] + PULL
                )
            whole.append(value)
        kept[name] = cut / np.std(whole)
    assert kept["noise"] < 0.6
    assert kept["steps"] > 0.95


def test_missing_numbers_go_left_and_are_parted_from_all_others() -> None:
    """Where being missing says everything, a cut below all numbers is found; so it is
    where a category is rare."""
    rng = np.random.default_rng(0)
    x, arms = rng.normal(size=(400, 1)), np.zeros(400, int)
    gone = rng.random(400) < 0.3
    x[gone] = np.nan
    tree = grow(by_column(x, arms, gone.astype(float)), 1, key=3)
    assert tree.threshold[0] == -np.inf
    np.testing.assert_array_equal(tree.drawn[1:, 0], [gone.sum(), 400 - gone.sum()])
    check_sums(tree, x, arms, gone.astype(float))
    often = (rng.random(400) < 0.97).astype(float)
    roots = [
        grow(by_column(often[:, None], arms, often), 1, key=key_of(key)).threshold[0]
        for key in range(20)
    ]
    assert np.mean(np.array(roots) == 0.5) > 0.5


def test_constants_and_no_columns_grow_nothing() -> None:
    _, arms, rewards = rows(50)
    for x in (
        np.ones((50, 2)),
        np.full((50, 2), np.nan),
        np.zeros((50, 0)),
        np.full((50, 2), np.inf),
    ):
        tree = grow(by_column(x, arms, rewards), 2, key=0)
        assert (len(tree.left), tree.depth) == (1, 0)


def test_rewards_that_are_no_shares_do_no_harm() -> None:
    x, arms, rewards = rows(60)
    rewards[[3, 7, 11]] = [np.nan, 1e300, -5]
    tree = grow(by_column(x, arms, rewards), 2, key=0)
    assert np.isfinite(tree.total).all()
