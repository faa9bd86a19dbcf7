"""Logged rows, and trees walked one node at a time."""

from typing import Any

import numpy as np

from oddsmith.experts.learners.growing import PULL, Rows, unknown


def rows(n: int, seed: int = 0, dim: int = 3, n_arms: int = 2) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    x, arms = rng.normal(size=(n, dim)), rng.integers(0, n_arms, n)
    return x, arms, ((x[:, 0] > 0) == (arms == 0)).astype(float)


def by_column(x: Any, arms: Any, rewards: Any) -> Rows:
    return Rows(np.ascontiguousarray(np.transpose(x), dtype=np.float64), np.asarray(arms), np.asarray(rewards, float))


def walk(tree: Any, row: Any) -> list[int]:
    """The nodes from root to leaf, one by one."""
    path = [0]
    while tree.threshold[path[-1]] < np.inf:
        node = path[-1]
        path.append(int(tree.left[node]) + int(row[tree.column[node]] > tree.threshold[node]))
    return path


def check_values(tree: Any, x: Any, arms: Any, rewards: Any) -> None:
    """Every node's means and counts, by the rows whose walks lead through it."""
    paths = [walk(tree, row) for row in x]
    n_arms = tree.value.shape[-1]
    for path in {tuple(p) for p in paths}:
        value = np.full(n_arms, unknown(float(rewards.sum()), len(rewards)))
        for depth, node in enumerate(path):
            here = np.array([len(p) > depth and p[depth] == node for p in paths])
            sums = np.array([rewards[here & (arms == k)].sum() for k in range(n_arms)])
            counts = np.array([(here & (arms == k)).sum() for k in range(n_arms)])
            value = (sums + PULL * value) / (counts + PULL)
            np.testing.assert_allclose(tree.value[node], value, atol=1e-6)  # rewards are rounded to units of 2^-20
            np.testing.assert_array_equal(tree.drawn[node], counts)
            assert counts.sum() >= 2
