"""Trees in blocks of equal room, so that one can be replaced by itself; what their
nodes believe and learn.

An arm's mean in a context is an average over all ways to cut a tree short on the way to
its leaf, each as likely as it makes the rewards (context tree weighting, Willems et al.
1995): deep where rewards say that it pays, at the root where they are noise. A node's
mean is drawn towards that of its parent.
"""

from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from oddsmith.core import kernels
from oddsmith.core.arrays import Array, Ints
from oddsmith.experts.learners.growth import Indices, Tree
from oddsmith.experts.learners.protocol import Belief
from oddsmith.experts.ring import longer

__all__ = [
    "PULL",
    "SPLIT",
    "Trees",
    "believe",
    "density",
    "learn",
    "one_of",
    "replaced",
    "stumps",
    "weigh",
    "with_arms",
]

PULL = 2.0  # rows' worth of its parent's mean in a node's
SPLIT = 0.7  # the prior probability that a node that was cut ought to be
_CUTS, _STOPS = float(np.log(SPLIT)), float(np.log1p(-SPLIT))
_NODES = ("column", "threshold", "left", "drawn", "total", "evidence", "stop")


class Trees(NamedTuple):
    """Nodes (…, T, V) as in `growing.Tree`, arms' sums there (…, T, V, K), and facts of
    each tree (…, T).

    `evidence` is the logarithm of how likely a node makes its arm's rewards, over all
    ways to cut short what is below; `stop` is the posterior probability that it is not
    cut. Rewards count `scale` times in that. Zeros where no node is.
    """

    column: Indices
    threshold: Array
    left: Indices
    drawn: Array
    total: Array
    evidence: Array
    stop: Array
    start: Array
    noise: Array
    scale: Array
    depth: Ints


def stumps(shape: tuple[int, ...], n_trees: int, n_arms: int) -> Trees:
    """Trees of one leaf that know nothing."""
    nodes, trees = (*shape, n_trees, 1), (*shape, n_trees)
    return Trees(
        np.zeros(nodes, np.int32),
        np.full(nodes, np.inf),
        np.zeros(nodes, np.int32),
        np.zeros((*nodes, n_arms)),
        np.zeros((*nodes, n_arms)),
        np.zeros((*nodes, n_arms)),
        np.ones((*nodes, n_arms)),
        np.full(trees, 0.5),
        np.full(trees, 0.5),
        np.ones(trees),
        np.zeros(trees, np.int64),
    )


def one_of(trees: Trees, place: tuple[int, ...]) -> Trees:
    """The trees of one place of a batch, as views."""
    parts: Any = (part[place] for part in trees)
    return Trees(*parts)


def replaced(trees: Trees, place: tuple[int, ...], tree: Tree, scale: float) -> Trees:
    """The trees with this one at `place`, its index in the batch and the forest; in
    place, if there is room."""
    used, room, axis = len(tree.left), trees.left.shape[-1], trees.left.ndim - 1
    if used > room:
        more = max(used - room, room // 2)
        trees = trees._replace(
            **{name: longer(getattr(trees, name), more, axis) for name in _NODES}
        )
    for name in _NODES:
        block = getattr(trees, name)[place]
        block[:used], block[used:] = getattr(tree, name, 0), 0
    trees.start[place] = tree.start
    trees.noise[place] = tree.noise
    trees.scale[place] = scale
    trees.depth[place] = tree.depth
    weigh(one_of(trees, place), used)
    return trees


def with_arms(trees: Trees, more: int) -> Trees:
    """The trees with so many arms more, that were never drawn."""
    wide = {
        name: longer(getattr(trees, name), more, trees.total.ndim - 1)
        for name in ("drawn", "total", "evidence")
    }
    is_leaf = trees.left == np.arange(trees.left.shape[-1])
    stop = np.where(is_leaf, 1.0, 1 - SPLIT)[..., None]
    stops = np.concatenate(
        [trees.stop, np.broadcast_to(stop, (*stop.shape[:-1], more))], axis=-1
    )
    return trees._replace(**wide, stop=stops)


def density(drawn: Array, total: Array) -> Array:
    """ln of the density of `total` successes in `drawn` draws in a given order, the
    chance being Beta(1/2, 1/2).

    >>> np.exp(density(np.array([1.0, 2.0]), np.array([1.0, 1.0])))
    array([0.5  , 0.125])
    """
    from scipy.special import betaln

    logs: Array = betaln(total + 0.5, drawn - total + 0.5) - np.log(np.pi)
    return logs


def weigh(tree: Trees, used: int) -> None:
    """In place: evidence and stopping of all arms at all nodes of one tree, from its
    leaves up."""
    if kernels.compiled() is not None:
        _compiled().weigh(
            tree.left[:used],
            tuple(part[:used] for part in tree[3:7]),
            (float(tree.scale), _CUTS, _STOPS),
        )
        return
    level, levels = np.zeros(1, np.int64), list[Ints]()
    while level.size:
        levels.append(level)
        cut = level[tree.left[level] != level]
        level = np.concatenate([tree.left[cut], tree.left[cut] + 1]).astype(np.int64)
    for level in reversed(levels):
        _weigh_nodes(tree, level)


def _weigh_nodes(tree: Trees, nodes: Ints) -> None:
    """Evidence and stopping of all arms at these nodes, whose children have theirs."""
    left, drawn = tree.left[nodes], tree.drawn[nodes]
    own = np.where(
        drawn > 0, density(tree.scale * drawn, tree.scale * tree.total[nodes]), 0.0
    )
    is_leaf = (left == nodes)[:, None]
    below = np.where(
        is_leaf, 0.0, tree.evidence[left] + tree.evidence[left + (left != nodes)]
    )
    tree.evidence[nodes] = np.where(
        is_leaf, own, np.logaddexp(_STOPS + own, _CUTS + below)
    )
    tree.stop[nodes] = np.where(
        is_leaf, 1.0, np.exp(_STOPS + own - tree.evidence[nodes])
    )


def _paths(trees: Trees, x: Array) -> Ints:
    """The nodes (L, T, B) of rows x (B, d), from roots to leaves, where they stay; a
    missing number goes left.

    Nodes are numbered through all trees: those of tree t begin at t V.
    """
    if len(x) == 1:
        return _walks(trees, x[0])[..., None]
    n_trees, room = trees.left.shape
    begin, row = room * np.arange(n_trees)[:, None], np.arange(len(x))
    column, threshold, left = (part.reshape(-1) for part in trees[:3])
    paths = np.empty((int(trees.depth.max()) + 1, n_trees, len(x)), np.int64)
    paths[0] = begin
    for at, node in pairwise(paths):
        np.add(left[at], x[row, column[at]] > threshold[at], out=node)
        node += begin
    return paths


def _walks(trees: Trees, row: Array) -> Ints:
    """The nodes (L, T) of one row, as `_paths` has them: for so few, plain Python is
    faster than numpy."""
    nodes: Any = trees[:3]
    column, threshold, left = (memoryview(part.reshape(-1)) for part in nodes)
    numbers, length, walks = row.tolist(), int(trees.depth.max()) + 1, list[list[int]]()
    for begin in range(0, len(left), trees.left.shape[-1]):
        node, after, walk = -1, begin, list[int]()
        while after != node:
            node = after
            walk.append(node)
            after = begin + left[node] + (numbers[column[node]] > threshold[node])
        walks.append(walk + [node] * (length - len(walk)))
    return np.array(walks).T


def _with_a_number(x: Array) -> Array:
    """Rows x (…, d) with at least one number, because a leaf compares the first one,
    too."""
    return x if x.shape[-1] else np.zeros((*x.shape[:-1], 1))


def believe(trees: Trees, x: Array) -> Belief:
    """Averages over the trees of means, and of doubts by counts (B, K), for rows x (B,
    d)."""
    x = _with_a_number(x)
    n_trees, n_arms = len(trees.left), trees.total.shape[-1]
    if kernels.compiled() is not None:
        belief = Belief(np.empty((len(x), n_arms)), np.empty((len(x), n_arms)))
        facts = (trees.start, trees.noise)
        _compiled().believe(trees[:3], trees[3:7], facts, x, PULL, tuple(belief))
        return belief
    paths = _paths(trees, x)
    drawn, total, stop = (
        part.reshape(-1, n_arms).take(paths, axis=0)
        for part in (trees.drawn, trees.total, trees.stop)
    )
    value, ends = _averaged(drawn, total, stop, trees.start[:, None, None])
    doubt = ends / (drawn + 1) * (trees.noise**2)[:, None, None]
    return Belief(
        (ends * value).sum(axis=(0, 1)) / n_trees,
        np.sqrt(doubt.sum(axis=(0, 1)) / n_trees),
    )


def _averaged(
    drawn: Array, total: Array, stop: Array, start: Array
) -> tuple[Array, Array]:
    """Along paths (L, …), each node's mean, drawn towards its parent's, and the
    probability that a tree ends there."""
    value, weight, above = np.empty(drawn.shape), drawn + PULL, start
    for own, gained, by in zip(value, total, weight, strict=True):
        np.multiply(above, PULL, out=own)
        own += gained
        own /= by
        above = own
    ends = stop.copy()
    ends[1:] *= np.cumprod(1 - stop[:-1], axis=0)
    return value, ends


def learn(trees: Trees, row: Array, arm: int, *, draws: float, rewards: float) -> float:
    """What was foreseen of this arm for a row (d); then, in place, the nodes on its way
    gain draws and rewards."""
    row = _with_a_number(row)
    if kernels.compiled() is not None:
        facts, change = (trees.start, trees.scale), (arm, draws, rewards)
        return float(
            _compiled().learn(
                trees[:3], trees[3:7], facts, row, change, (PULL, _CUTS, _STOPS)
            )
        )
    (n_trees, room), n_arms = trees.left.shape, trees.total.shape[-1]
    path, parts = _walks(trees, row), [part.reshape(-1) for part in trees[3:7]]
    at = path * n_arms + arm
    left = trees.left.reshape(-1).take(path) + room * np.arange(n_trees)
    cut = left != path
    drawn, total, _, stop = (part.take(at) for part in parts)
    value, ends = _averaged(drawn, total, stop, trees.start)
    drawn, total = drawn + draws, total + rewards
    own = np.where(drawn > 0, density(trees.scale * drawn, trees.scale * total), 0.0)
    # the child that is not on the way
    other = (left[:-1] + (path[1:] == left[:-1])) * cut[:-1]
    beside = parts[2].take(other * n_arms + arm)
    evidence, stopped = own.copy(), own + _STOPS
    for level in range(len(path) - 2, -1, -1):
        both = evidence[level + 1] + _CUTS
        both += beside[level]
        np.logaddexp(stopped[level], both, out=evidence[level], where=cut[level])
    stop = np.where(cut, np.exp(stopped - evidence), 1.0)
    for part, now in zip(parts, (drawn, total, evidence, stop), strict=True):
        part[at] = now
    return float((ends * value).sum() / n_trees)


@cache
def _compiled() -> Any:
    """The compiled twins, imported on first use."""
    from oddsmith.experts.kernels import tree_nodes as twins

    return twins
