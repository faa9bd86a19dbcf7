"""Trees grown level by level, all of a forest at once, on logged bandit rows: contexts, drawn arms, rewards.

A tree cuts the contexts into leaves; a leaf knows each arm's mean reward, drawn towards that of its parent. Cuts are
candidates drawn at random (a column, and the midpoint of two of the node's rows); the one after which the arms' means
explain most is taken, as in extremely randomised trees (Geurts et al. 2006). Every level is a few passes over the rows
in numpy, so a forest costs O(trees · rows · candidates · depth).
"""

from typing import Any, NamedTuple

import numpy as np

from oddsmith.arrays import Array, Ints

__all__ = ["PULL", "Trees", "grow", "leaves", "one_of", "stumps"]

_SPLIT = 1.0  # an arm's squared sum counts as if one more row of no gain were there
PULL = 2.0  # rows' worth of its parent's mean in a node's


class Trees(NamedTuple):
    """Nodes of all trees (V): the first ones are the roots. Right of a left child is its sibling.

    A leaf is its own left child behind an infinite threshold, so that walks end where they are. `value` and `drawn`
    (V, K) are each arm's mean, drawn towards the parent's, and its rows; `depth` is how many steps reach every leaf.
    """

    column: Ints
    threshold: Array
    left: Ints
    value: Array
    drawn: Array
    depth: Ints


def stumps(n_trees: int, n_arms: int) -> Trees:
    """Trees of one leaf that know nothing."""
    return Trees(
        np.zeros(n_trees, dtype=np.int64),
        np.full(n_trees, np.inf),
        np.arange(n_trees),
        np.full((n_trees, n_arms), 0.5),
        np.zeros((n_trees, n_arms)),
        np.zeros((), dtype=np.int64),
    )


def one_of(trees: Trees, place: tuple[int, ...]) -> Trees:
    """The trees of one place of a batch, as views."""
    parts: Any = (part[place] for part in trees)
    return Trees(*parts)


def leaves(trees: Trees, n_trees: int, x: Array) -> Ints:
    """The leaf of each tree (B, n_trees) in which each row of x (B, d) lies; what is missing goes left."""
    node = np.broadcast_to(np.arange(n_trees), (len(x), n_trees))
    columns = x.T if len(x) > 1 else x[0][:, None]
    row = np.arange(len(x))[:, None] if len(x) > 1 else 0
    for _ in range(int(trees.depth)):
        node = trees.left[node] + (columns[trees.column[node], row] > trees.threshold[node])
    return node


def grow(
    x: Array, arms: Ints, rewards: Array, n_arms: int, n_trees: int, candidates: int, depth: int, seed: list[int]
) -> Trees:
    """A forest on these rows; the same for the same rows and seed."""
    rng = np.random.default_rng(seed)
    level = _Level(np.repeat(np.arange(n_trees), len(x)), np.tile(np.arange(len(x)), n_trees), n_trees)
    centre = float(rewards.mean())
    parents, total, parts = np.full((n_trees, n_arms), 0.5), n_trees, []
    for floor in range(depth + 1):
        key = level.node * n_arms + arms[level.row]
        count, gain = (_sums(key, w, level.size, n_arms) for w in (None, rewards[level.row] - centre))
        value = (gain + count * centre + PULL * parents) / (count + PULL)
        first = total - level.size
        column, threshold = np.zeros(level.size, dtype=np.int64), np.full(level.size, np.inf)
        left = first + np.arange(level.size)
        parts.append((column, threshold, left, value, count))
        if floor == depth:
            break
        cut = _best_cut(level, x, rewards - centre, key, count, gain, candidates, rng)
        if not cut.taken.any():
            break
        n_cuts = int(cut.taken.sum())
        column[cut.taken], threshold[cut.taken] = cut.column[cut.taken], cut.threshold[cut.taken]
        left[cut.taken] = total + 2 * np.arange(n_cuts)
        stays = cut.taken[level.node]
        node, row = level.node[stays], level.row[stays]
        child = left[node] - total + (x[row, cut.column[node]] > cut.threshold[node])
        order = np.argsort(child, kind="stable")
        level = _Level(child[order], row[order], 2 * n_cuts)
        parents, total = np.repeat(value[cut.taken], 2, axis=0), total + 2 * n_cuts
    nodes: Any = [np.concatenate([part[i] for part in parts]) for i in range(5)]
    nodes.append(np.array(len(parts) - 1))
    return Trees(*nodes)


class _Level(NamedTuple):
    """Rows at the nodes of one level, sorted by node: node numbers within the level, row numbers, how many nodes."""

    node: Ints
    row: Ints
    size: int


class _Cut(NamedTuple):
    """For each node of a level the best candidate, and whether it gains anything."""

    column: Ints
    threshold: Array
    taken: Array


def _sums(key: Ints, weights: Array | None, size: int, n_arms: int) -> Array:
    return np.bincount(key, weights, minlength=size * n_arms).reshape(size, n_arms).astype(np.float64)


def _best_cut(
    level: _Level,
    x: Array,
    residual: Array,
    key: Ints,
    count: Array,
    gain: Array,
    candidates: int,
    rng: np.random.Generator,
) -> _Cut:
    """Of random columns, cut at the midpoint of two random rows of the node, the one that explains most."""
    sizes = np.bincount(level.node, minlength=level.size)
    starts = np.cumsum(sizes) - sizes
    columns = rng.integers(0, x.shape[1], (level.size, candidates))
    picks = starts[:, None] + (rng.random((2, level.size, candidates)) * sizes[:, None]).astype(np.int64)
    with np.errstate(invalid="ignore"):
        thresholds = x[level.row[picks], columns].mean(axis=0)
    weights, n_arms = residual[level.row], count.shape[1]
    best = (gain * gain / (count + _SPLIT)).sum(axis=1) * (1 + 1e-9) + 1e-9
    column, threshold = np.zeros(level.size, dtype=np.int64), np.full(level.size, np.inf)
    for c in range(candidates):
        goes = ~(x[level.row, columns[level.node, c]] > thresholds[level.node, c])
        lefts = _sums(key[goes], None, level.size, n_arms)
        sums = _sums(key[goes], weights[goes], level.size, n_arms)
        explained = (sums**2 / (lefts + _SPLIT)).sum(axis=1)
        explained += ((gain - sums) ** 2 / (count - lefts + _SPLIT)).sum(axis=1)
        share = lefts.sum(axis=1)
        better = (explained > best) & (share >= 2) & (sizes - share >= 2)
        best = np.where(better, explained, best)
        column, threshold = np.where(better, columns[:, c], column), np.where(better, thresholds[:, c], threshold)
    return _Cut(column, threshold, np.isfinite(threshold))
