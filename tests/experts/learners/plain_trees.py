"""Logged rows, and trees walked one node at a time."""

from typing import Any

import numpy as np
import pytest
from scipy.special import betaln

from experts.learners.plain_learners import prior_of
from oddsmith.experts.learners.growth import Rows
from oddsmith.experts.learners.trees import PULL, SPLIT


def rows(n: int, seed: int = 0, dim: int = 3, n_arms: int = 2) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    x, arms = rng.normal(size=(n, dim)), rng.integers(0, n_arms, n)
    return x, arms, ((x[:, 0] > 0) == (arms == 0)).astype(float)


def by_column(x: Any, arms: Any, rewards: Any) -> Rows:
    return Rows(
        np.ascontiguousarray(np.transpose(x), dtype=np.float64),
        np.asarray(arms),
        np.asarray(rewards, float),
    )


def walk(tree: Any, row: Any) -> list[int]:
    """The nodes from root to leaf, one by one."""
    path = [0]
    while tree.threshold[path[-1]] < np.inf:
        node = path[-1]
        path.append(
            int(tree.left[node]) + int(row[tree.column[node]] > tree.threshold[node])
        )
    return path


def check_sums(tree: Any, x: Any, arms: Any, rewards: Any) -> None:
    """Every node's counts and rewards, by the rows whose walks lead through it."""
    paths = [walk(tree, row) for row in x]
    n_arms = tree.total.shape[-1]
    assert (tree.start, tree.noise) == pytest.approx(prior_of(rewards), abs=1e-6)
    for path in {tuple(p) for p in paths}:
        for depth, node in enumerate(path):
            here = np.array([len(p) > depth and p[depth] == node for p in paths])
            sums = np.array([rewards[here & (arms == k)].sum() for k in range(n_arms)])
            counts = np.array([(here & (arms == k)).sum() for k in range(n_arms)])
            # rewards are rounded to 2^-20
            np.testing.assert_allclose(tree.total[node], sums, atol=1e-6 * len(x))
            np.testing.assert_array_equal(tree.drawn[node], counts)
            assert counts.sum() >= 2


def ways(tree: Any, node: int = 0) -> list[tuple[float, tuple[int, ...]]]:
    """All ways to cut a tree short below a node: the logarithm of the prior of each,
    and its leaves."""
    left = int(tree.left[node])
    if left == node:
        return [(0.0, (node,))]
    below = [
        (np.log(SPLIT) + one + other, (*here, *there))
        for one, here in ways(tree, left)
        for other, there in ways(tree, left + 1)
    ]
    return [(float(np.log(1 - SPLIT)), (node,)), *below]


def averaged(tree: Any, row: Any, arm: int, scale: float = 1.0) -> tuple[float, float]:
    """Mean and doubt of an arm over all ways to cut the tree short, each by its prior
    and by how likely it is."""
    path = walk(tree, row)
    value, values = tree.start, {}
    for node in path:
        value = (tree.total[node, arm] + PULL * value) / (tree.drawn[node, arm] + PULL)
        values[node] = value, 1 / (tree.drawn[node, arm] + 1)
    logs, found = [], []
    for prior, cut in ways(tree):
        coins = [
            (
                scale * tree.total[v, arm],
                scale * (tree.drawn[v, arm] - tree.total[v, arm]),
            )
            for v in cut
        ]
        logs.append(
            prior
            + sum(
                betaln(won + 0.5, lost + 0.5) - betaln(0.5, 0.5) for won, lost in coins
            )
        )
        found.append(values[next(node for node in path if node in cut)])
    weights = np.exp(np.array(logs) - max(logs))
    mean, doubt = (weights / weights.sum()) @ np.array(found)
    return float(mean), float(doubt)
