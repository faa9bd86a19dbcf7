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
        _compiled().weigh(tree.left[:used], tuple(part[:used] for part in tree[3:7]), (float(tree.scale), SPLIT))
        return
    level, levels = np.zeros(1, np.int64), list[Ints]()
    while level.size:
        levels.append(level)
        cut = level[tree.left[level] != level]
        level = np.concatenate([tree.left[cut], tree.left[cut] + 1]).astype(np.int64)
    for level in reversed(levels):
        _weigh_nodes(tree, level, slice(None), tree.scale)


def _weigh_nodes(trees: Trees, nodes: Any, arm: Any, scale: Array) -> None:
    """Evidence and stopping at these nodes, whose children have theirs; `nodes` may begin with the trees' numbers."""
    at = nodes if isinstance(nodes, tuple) else (nodes,)
    left, drawn, total = trees.left[at], trees.drawn[(*at, arm)], trees.total[(*at, arm)]
    own = np.where(drawn > 0, density(scale * drawn, scale * total), 0.0)
    below = trees.evidence[(*at[:-1], left, arm)] + trees.evidence[(*at[:-1], left + (left != at[-1]), arm)]
    is_leaf = (left == at[-1]).reshape(left.shape + (1,) * (own.ndim - left.ndim))
    both = np.logaddexp(np.log1p(-SPLIT) + own, np.log(SPLIT) + below)
    trees.evidence[(*at, arm)] = np.where(is_leaf, own, both)
    trees.stop[(*at, arm)] = np.where(is_leaf, 1.0, np.exp(np.log1p(-SPLIT) + own - both))


def _path(trees: Trees, x: Array) -> list[Ints]:
    """The nodes (T, B) in which rows x (B, d) lie, from the roots to the leaves; what is missing goes left."""
    n_trees, room = trees.left.shape
    begin, row = room * np.arange(n_trees)[:, None], np.arange(len(x))
    column, threshold, left = (part.reshape(-1) for part in trees[:3])
    path = [np.zeros((n_trees, len(x)), np.int64)]
    for _ in range(int(trees.depth.max())):
        at = begin + path[-1]
        path.append(left[at] + (x[row, column[at]] > threshold[at]))
    return path


def believe(trees: Trees, x: Array) -> Belief:
    """Averages over the trees of means, and of doubts by counts (B, K), for rows x (B, d)."""
    n_trees, n_arms = len(trees.left), trees.total.shape[-1]
    if kernels.compiled() is not None:
        belief = Belief(np.empty((len(x), n_arms)), np.empty((len(x), n_arms)))
        _compiled().believe(trees[:3], trees[3:7], trees.start, x, PULL, tuple(belief))
        return belief
    tree, value = np.arange(n_trees)[:, None], trees.start[:, None, None]
    rest: Any = 1.0
    mean, doubt = np.zeros((len(x), n_arms)), np.zeros((len(x), n_arms))
    for node in _path(trees, x):
        drawn, ends = trees.drawn[tree, node], rest * trees.stop[tree, node]
        value = (trees.total[tree, node] + PULL * value) / (drawn + PULL)
        mean += (ends * value).sum(axis=0)
        doubt += (ends / (drawn + 1)).sum(axis=0)
        rest = rest - ends
    return Belief(mean / n_trees, 0.5 * np.sqrt(doubt / n_trees))


def learn(trees: Trees, row: Array, arm: int, *, draws: float, rewards: float) -> None:
    """In place: in each tree the nodes on the row's way gain so many draws of this arm, and so much reward."""
    if kernels.compiled() is not None:
        _compiled().learn(trees[:3], trees[3:7], trees.scale, row, (arm, draws, rewards), SPLIT)
        return
    tree, path = np.arange(len(trees.left)), [node[:, 0] for node in _path(trees, row[None])]
    is_new = [np.ones(len(tree), np.bool_), *(node != before for before, node in pairwise(path))]
    for node, fresh in zip(path, is_new, strict=True):
        trees.drawn[tree[fresh], node[fresh], arm] += draws
        trees.total[tree[fresh], node[fresh], arm] += rewards
    for node, fresh in zip(reversed(path), reversed(is_new), strict=True):
        _weigh_nodes(trees, (tree[fresh], node[fresh]), arm, trees.scale[fresh])


@cache
def _compiled() -> Any:
    """The compiled twins, imported on first use."""
    from oddsmith.kernels import tree_nodes as twins

    return twins
