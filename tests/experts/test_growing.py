"""Single trees against trees by hand, brute force, and plain walks and sums."""

from typing import Any

import numpy as np
import pytest

from experts.plain_trees import by_column, check_values, rows, walk
from oddsmith.experts.learners.growing import grow, key_of
from oddsmith.experts.learners.trees import leaves, one_of, replaced, stumps

pytestmark = pytest.mark.usefixtures("any_kernels")


def test_a_tree_on_six_rows_by_hand() -> None:
    """One column, one arm: of the cuts with two rows on each side, that between the zeros and the ones explains most.

    Rows 1, 2, 3 have reward 0, rows 4, 5, 6 reward 1; the mean is 1/2. Cut between 3 and 4: gains -3/2 and 3/2, each
    over 3 + 1 rows, (9/4 + 9/4)/4 = 9/8. Between 2 and 3: 1/3 + 1/5 = 8/15. No cut at all: 0.
    """
    given = by_column(np.array([[1.0], [2], [3], [4], [5], [6]]), np.zeros(6, int), [0, 0, 0, 1, 1, 1])
    found = {}
    for key in range(40):
        tree = grow(given, 1, key=key_of(key))
        found[float(tree.threshold[0])] = tree
    assert set(found) <= {2.0, 2.5, 3.0, 3.5, 4.0, 4.5}
    tree = found[3.5]
    np.testing.assert_array_equal(tree.left, [1, 1, 2])
    np.testing.assert_array_equal(tree.drawn, [[6], [3], [3]])
    np.testing.assert_allclose(tree.value, [[0.5], [(0 + 2 * 0.5) / 5], [(3 + 2 * 0.5) / 5]])
    assert tree.depth == 1


def test_among_all_cuts_the_one_that_explains_most_is_taken() -> None:
    """With few rows and many candidates, nearly all cuts are tried: the root's is the best of all, by brute force."""
    rng = np.random.default_rng(0)
    x, arms, rewards = rng.integers(0, 4, (8, 40)).astype(float), rng.integers(0, 2, 8), rng.random(8)
    x[:, 2:] = 0  # constant, so that no cut is there
    residual = rewards - rewards.mean()

    def explained(goes: Any) -> float:
        sides = [(s & (arms == k)) for s in (goes, ~goes) for k in range(2)]
        return float(sum(residual[mine].sum() ** 2 / (mine.sum() + 1) for mine in sides))

    cuts = {(c, t): x[:, c] <= t for c in range(2) for t in np.arange(0, 3.5, 0.5)}
    allowed = {cut: explained(goes) for cut, goes in cuts.items() if 2 <= goes.sum() <= 6}
    best = max(allowed.values())
    roots = [grow(by_column(x[:, :2], arms, rewards), 2, key=key_of(key)) for key in range(60)]
    gains = [allowed[int(tree.column[0]), float(tree.threshold[0])] for tree in roots if tree.depth]
    assert max(gains) == pytest.approx(best)
    assert np.mean(np.isclose(gains, best)) > 0.5


def test_values_are_means_drawn_towards_the_parents() -> None:
    x, arms, rewards = rows(300)
    rewards = 0.7 * rewards + 0.1
    x[::7, 0] = np.nan
    trees = stumps((), 3, 2)
    for t in range(3):
        tree = grow(by_column(x, arms, rewards), 2, key=key_of(t))
        check_values(tree, x, arms, rewards)
        assert len(tree.left) > 10
        trees = replaced(trees, (t,), tree)
    found = leaves(trees, x)
    for t in range(3):
        assert found[t].tolist() == [walk(one_of(trees, (t,)), row)[-1] for row in x]


def test_missing_numbers_go_left_and_are_parted_from_all_others() -> None:
    """Where being missing says everything, a cut below all numbers is found; so it is where a category is rare."""
    rng = np.random.default_rng(0)
    x, arms = rng.normal(size=(400, 1)), np.zeros(400, int)
    gone = rng.random(400) < 0.3
    x[gone] = np.nan
    tree = grow(by_column(x, arms, gone.astype(float)), 1, key=3)
    assert tree.threshold[0] == -np.inf
    np.testing.assert_array_equal(tree.drawn[1:, 0], [gone.sum(), 400 - gone.sum()])
    check_values(tree, x, arms, gone.astype(float))
    often = (rng.random(400) < 0.97).astype(float)
    roots = [grow(by_column(often[:, None], arms, often), 1, key=key_of(key)).threshold[0] for key in range(20)]
    assert np.mean(np.array(roots) == 0.5) > 0.5


def test_constants_and_no_columns_grow_nothing() -> None:
    _, arms, rewards = rows(50)
    for x in (np.ones((50, 2)), np.full((50, 2), np.nan), np.zeros((50, 0)), np.full((50, 2), np.inf)):
        tree = grow(by_column(x, arms, rewards), 2, key=0)
        assert (len(tree.left), tree.depth) == (1, 0)


def test_rewards_that_are_no_shares_do_no_harm() -> None:
    x, arms, rewards = rows(60)
    rewards[[3, 7, 11]] = [np.nan, 1e300, -5]
    tree = grow(by_column(x, arms, rewards), 2, key=0)
    assert np.isfinite(tree.value).all()
