"""Trees in blocks of equal room, so that one can be replaced by itself; what their nodes believe and learn.

An arm's mean in a context is an average over all ways to cut a tree short on the way to its leaf, each as likely as it
makes the rewards (context tree weighting, Willems et al. 1995): deep where rewards say that it pays, at the root where
they are noise. A node's mean is drawn towards that of its parent.
"""

from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaln

from oddsmith import kernels
from oddsmith.arrays import Array, Ints
from oddsmith.experts.learners.base import Belief
from oddsmith.experts.learners.growing import Indices, Tree
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
    """Nodes (…, T, V) as in `growing.Tree`, arms' sums there (…, T, V, K), and facts of each tree (…, T).

    `evidence` is the logarithm of how likely a node makes its arm's rewards, over all ways to cut short what is below;
    `stop` is the posterior probability that it is not cut. Rewards count `scale` times in that. Zeros where no node is.
    """

    column: Indices
    threshold: Array
    left: Indices
    drawn: Array
    total: Array
    evidence: Array
    stop: Array
    start: Array
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
        np.ones(trees),
        np.zeros(trees, np.int64),
    )


def one_of(trees: Trees, place: tuple[int, ...]) -> Trees:
    """The trees of one place of a batch, as views."""
    parts: Any = (part[place] for part in trees)
    return Trees(*parts)


def replaced(trees: Trees, place: tuple[int, ...], tree: Tree, scale: float) -> Trees:
    """The trees with this one at `place`, its index in the batch and the forest; in place, if there is room."""
    used, room, axis = len(tree.left), trees.left.shape[-1], trees.left.ndim - 1
    if used > room:
        more = max(used - room, room // 2)
        trees = trees._replace(**{name: longer(getattr(trees, name), more, axis) for name in _NODES})
    for name in _NODES:
        block = getattr(trees, name)[place]
        block[:used], block[used:] = getattr(tree, name, 0), 0
    trees.start[place], trees.scale[place], trees.depth[place] = tree.start, scale, tree.depth
    weigh(one_of(trees, place), used)
    return trees


def with_arms(trees: Trees, more: int) -> Trees:
    """The trees with so many arms more, that were never drawn."""
    wide = {name: longer(getattr(trees, name), more, trees.total.ndim - 1) for name in ("drawn", "total", "evidence")}
    is_leaf = trees.left == np.arange(trees.left.shape[-1])
    stop = np.where(is_leaf, 1.0, 1 - SPLIT)[..., None]
    stops = np.concatenate([trees.stop, np.broadcast_to(stop, (*stop.shape[:-1], more))], axis=-1)
    return trees._replace(**wide, stop=stops)


def density(drawn: Array, total: Array) -> Array:
    """ln of the density of `total` successes in `drawn` draws in a given order, the chance being Beta(1/2, 1/2).

    >>> np.exp(density(np.array([1.0, 2.0]), np.array([1.0, 1.0])))
    array([0.5  , 0.125])
    """
    logs: Array = betaln(total + 0.5, drawn - total + 0.5) - np.log(np.pi)
    return logs


def weigh(tree: Trees, used: int) -> None:
    """In place: evidence and stopping of all arms at all nodes of one tree, from its leaves up."""
    if kernels.compiled() is not None:
        _compiled().weigh(
            tree.left[:used], tuple(part[:used] for part in tree[3:7]), (float(tree.scale), _CUTS, _STOPS)
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
    own = np.where(drawn > 0, density(tree.scale * drawn, tree.scale * tree.total[nodes]), 0.0)
    is_leaf = (left == nodes)[:, None]
    below = np.where(is_leaf, 0.0, tree.evidence[left] + tree.evidence[left + (left != nodes)])
    tree.evidence[nodes] = np.where(is_leaf, own, np.logaddexp(_STOPS + own, _CUTS + below))
    tree.stop[nodes] = np.where(is_leaf, 1.0, np.exp(_STOPS + own - tree.evidence[nodes]))


def _path(trees: Trees, x: Array) -> Ints:
    """The nodes (L, T, B) of rows x (B, d), from roots to leaves, where they stay; a missing number goes left."""
    n_trees, room = trees.left.shape
    begin, row = room * np.arange(n_trees)[:, None], np.arange(len(x))
    column, threshold, left = (part.reshape(-1) for part in trees[:3])
    path = np.zeros((int(trees.depth.max()) + 1, n_trees, len(x)), np.int64)
    for before, node in pairwise(path):
        at = begin + before
        np.add(left[at], x[row, column[at]] > threshold[at], out=node)
    return path


def believe(trees: Trees, x: Array) -> Belief:
    """Averages over the trees of means, and of doubts by counts (B, K), for rows x (B, d)."""
    n_trees, n_arms = len(trees.left), trees.total.shape[-1]
    if kernels.compiled() is not None:
        belief = Belief(np.empty((len(x), n_arms)), np.empty((len(x), n_arms)))
        _compiled().believe(trees[:3], trees[3:7], trees.start, x, PULL, tuple(belief))
        return belief
    at = np.arange(n_trees)[:, None], _path(trees, x)
    value, ends = _averaged(trees.drawn[at], trees.total[at], trees.stop[at], trees.start[:, None, None])
    doubt = ends / (trees.drawn[at] + 1)
    return Belief((ends * value).sum(axis=(0, 1)) / n_trees, 0.5 * np.sqrt(doubt.sum(axis=(0, 1)) / n_trees))


def _averaged(drawn: Array, total: Array, stop: Array, start: Array) -> tuple[Array, Array]:
    """Along paths (L, …), each node's mean, drawn towards its parent's, and the probability that a tree ends there."""
    value, weight = np.empty(drawn.shape), drawn + PULL
    for level, own in enumerate(value):
        np.divide(total[level] + PULL * (value[level - 1] if level else start), weight[level], out=own)
    goes_on = np.cumprod(1 - stop, axis=0)
    ends = stop.copy()
    ends[1:] *= goes_on[:-1]
    return value, ends


def learn(trees: Trees, row: Array, arm: int, *, draws: float, rewards: float) -> float:
    """What was foreseen of this arm for a row (d); then, in place, the nodes on its way gain draws and rewards."""
    if kernels.compiled() is not None:
        facts, change = (trees.start, trees.scale), (arm, draws, rewards)
        return float(_compiled().learn(trees[:3], trees[3:7], facts, row, change, (PULL, _CUTS, _STOPS)))
    tree, path = np.arange(len(trees.left)), _path(trees, row[None])[..., 0]
    left, at = trees.left[tree, path], (tree, path, arm)
    is_leaf = left == path
    value, ends = _averaged(trees.drawn[at], trees.total[at], trees.stop[at], trees.start)
    drawn, total = trees.drawn[at] + draws, trees.total[at] + rewards
    own = np.where(drawn > 0, density(trees.scale * drawn, trees.scale * total), 0.0)
    beside = np.zeros(path.shape)  # the evidence of the child that is not on the way
    beside[:-1] = trees.evidence[tree, np.where(path[1:] == left[:-1], left[:-1] + 1, left[:-1]) * ~is_leaf[:-1], arm]
    evidence = own.copy()
    for level in range(len(path) - 2, -1, -1):
        both = np.logaddexp(_STOPS + own[level], _CUTS + evidence[level + 1] + beside[level])
        np.copyto(evidence[level], both, where=~is_leaf[level])
    stop = np.where(is_leaf, 1.0, np.exp(_STOPS + own - evidence))
    for part, now in zip(trees[3:7], (drawn, total, evidence, stop), strict=True):
        part[at] = now
    return float((ends * value).sum() / len(tree))


@cache
def _compiled() -> Any:
    """The compiled twins, imported on first use."""
    from oddsmith.kernels import tree_nodes as twins

    return twins
