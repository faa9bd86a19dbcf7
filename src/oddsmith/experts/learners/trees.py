"""Predictions and updates of a forest. Trees are stored in blocks of equal size, so
that a single tree can be replaced.

An arm's mean in a context is an average over all ways to cut a tree short on the path
to its leaf, each weighted by the likelihood of the rewards (context tree weighting,
Willems et al. 1995). The weight is on deep nodes if the rewards support them, and on
the root if they are noise. A node's mean is shrunk towards that of its parent."""

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
    "replace_tree",
    "stumps",
    "trees_at",
    "weigh",
    "with_arms",
]

PULL = 2.0  # the mean of the parent counts as this many rows of a node
SPLIT = 0.7  # prior probability that a split is needed
_CUTS = float(np.log(SPLIT))  # log prior probability that a node is split
_STOPS = float(np.log1p(-SPLIT))  # log prior probability that a node is a leaf
_NODES = ("column", "threshold", "left", "drawn", "total", "evidence", "stop")


class Trees(NamedTuple):
    """Nodes (…, T, V) as in `growth.Tree`, sums by arm (…, T, V, K), and one number per
    tree (…, T).

    `evidence` is the log likelihood of an arm's rewards at a node, averaged over all
    ways to cut short the tree below it. `stop` is the posterior probability that the
    node is not cut. Both count each reward `scale` times. Unused entries contain zeros.
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

    @property
    def cuts(self) -> tuple[Indices, Array, Indices]:
        """Columns, thresholds and left children of the nodes."""
        return self.column, self.threshold, self.left

    @property
    def by_arm(self) -> tuple[Array, Array, Array, Array]:
        """Draws, rewards, evidence and stopping probabilities of the nodes, by arm."""
        return self.drawn, self.total, self.evidence, self.stop


def stumps(shape: tuple[int, ...], n_trees: int, n_arms: int) -> Trees:
    """Return trees of a single leaf without rows."""
    trees = (*shape, n_trees)
    nodes = (*trees, 1)
    by_arm = (*nodes, n_arms)
    column = np.zeros(nodes, np.int32)
    threshold = np.full(nodes, np.inf)
    left = np.zeros(nodes, np.int32)
    drawn = np.zeros(by_arm)
    total = np.zeros(by_arm)
    evidence = np.zeros(by_arm)
    stop = np.ones(by_arm)
    start = np.full(trees, 0.5)
    noise = np.full(trees, 0.5)
    scale = np.ones(trees)
    depth = np.zeros(trees, np.int64)
    return Trees(
        column,
        threshold,
        left,
        drawn,
        total,
        evidence,
        stop,
        start,
        noise,
        scale,
        depth,
    )


def trees_at(trees: Trees, place: tuple[int, ...]) -> Trees:
    """Return the trees at one batch index, as views."""
    parts: Any = (part[place] for part in trees)
    return Trees(*parts)


def replace_tree(
    trees: Trees, place: tuple[int, ...], tree: Tree, scale: float
) -> Trees:
    """Put a tree at `place`, its index in the batch and the forest, in place if there
    is space."""
    used = len(tree.left)
    room = trees.left.shape[-1]
    if used > room:
        more = max(used - room, room // 2)
        axis = trees.left.ndim - 1
        nodes = {name: longer(getattr(trees, name), more, axis) for name in _NODES}
        trees = trees._replace(**nodes)
    for name in _NODES:
        block = getattr(trees, name)[place]
        block[:used] = getattr(tree, name, 0)
        block[used:] = 0
    trees.start[place] = tree.start
    trees.noise[place] = tree.noise
    trees.scale[place] = scale
    trees.depth[place] = tree.depth
    weigh(trees_at(trees, place), used)
    return trees


def with_arms(trees: Trees, more: int) -> Trees:
    """Return the trees with `more` further arms, without draws."""
    axis = trees.total.ndim - 1
    is_leaf = trees.left == np.arange(trees.left.shape[-1])
    stop = np.where(is_leaf, 1.0, 1 - SPLIT)[..., None]
    stops = np.broadcast_to(stop, (*stop.shape[:-1], more))
    drawn = longer(trees.drawn, more, axis)
    total = longer(trees.total, more, axis)
    evidence = longer(trees.evidence, more, axis)
    return trees._replace(
        drawn=drawn,
        total=total,
        evidence=evidence,
        stop=np.concatenate([trees.stop, stops], axis=-1),
    )


def density(drawn: Array, total: Array) -> Array:
    """Return the log density of `total` successes in `drawn` draws in a given order,
    where the success probability is Beta(1/2, 1/2).

    >>> np.exp(density(np.array([1.0, 2.0]), np.array([1.0, 1.0])))
    array([0.5  , 0.125])
    """
    from scipy.special import betaln

    log_beta = betaln(total + 0.5, drawn - total + 0.5)
    logs: Array = log_beta - np.log(np.pi)
    return logs


def weigh(tree: Trees, used: int) -> None:
    """Compute evidence and stopping probabilities of all arms at all nodes of one tree,
    in place, from its leaves to its root."""
    if kernels.compiled() is not None:
        parts = tuple(part[:used] for part in tree.by_arm)
        constants = (float(tree.scale), _CUTS, _STOPS)
        _compiled().weigh(tree.left[:used], parts, constants)
        return
    levels = list[Ints]()
    level = np.zeros(1, np.int64)
    while level.size:
        levels.append(level)
        left = tree.left[level]
        children = left[left != level]
        level = np.concatenate([children, children + 1]).astype(np.int64)
    for level in reversed(levels):
        _weigh_nodes(tree, level)


def _weigh_nodes(tree: Trees, nodes: Ints) -> None:
    """Compute evidence and stopping of all arms at these nodes from their
    children's."""
    left = tree.left[nodes]
    drawn = tree.drawn[nodes]
    own = density(tree.scale * drawn, tree.scale * tree.total[nodes])
    own = np.where(drawn > 0, own, 0.0)
    is_leaf = (left == nodes)[:, None]
    right = left + (left != nodes)
    below = tree.evidence[left] + tree.evidence[right]
    below = np.where(is_leaf, 0.0, below)
    stopped = _STOPS + own
    evidence = np.where(is_leaf, own, np.logaddexp(stopped, _CUTS + below))
    tree.evidence[nodes] = evidence
    stop = np.exp(stopped - evidence)
    tree.stop[nodes] = np.where(is_leaf, 1.0, stop)


def _paths(trees: Trees, x: Array) -> Ints:
    """Return the nodes (L, T, B) on the paths of rows x (B, d) from roots to leaves.
    Shorter paths repeat their leaf. A missing number goes left.

    Nodes are numbered across all trees: the root of tree t is node t V.
    """
    if len(x) == 1:
        return _walks(trees, x[0])[..., None]
    n_trees, room = trees.left.shape
    begin = room * np.arange(n_trees)[:, None]
    row = np.arange(len(x))
    column, threshold, left = (part.reshape(-1) for part in trees.cuts)
    length = int(trees.depth.max()) + 1
    paths = np.empty((length, n_trees, len(x)), np.int64)
    paths[0] = begin
    for at, node in pairwise(paths):
        goes_right = x[row, column[at]] > threshold[at]
        np.add(left[at], goes_right, out=node)
        node += begin
    return paths


def _walks(trees: Trees, row: Array) -> Ints:
    """Return the nodes (L, T) of one row, like `_paths`. For one row, plain Python is
    faster than numpy."""
    nodes: Any = trees.cuts
    column, threshold, left = (memoryview(part.reshape(-1)) for part in nodes)
    numbers = row.tolist()
    length = int(trees.depth.max()) + 1
    walks = list[list[int]]()
    for begin in range(0, len(left), trees.left.shape[-1]):
        node = -1
        after = begin
        walk = list[int]()
        while after != node:
            node = after
            walk.append(node)
            goes_right = numbers[column[node]] > threshold[node]
            after = begin + left[node] + goes_right
        rest = [node] * (length - len(walk))
        walks.append(walk + rest)
    return np.array(walks).T


def _with_a_number(x: Array) -> Array:
    """Return rows x (…, d), with a column of zeros if d is 0, because even a leaf
    compares the first number."""
    if x.shape[-1]:
        return x
    return np.zeros((*x.shape[:-1], 1))


def believe(trees: Trees, x: Array) -> Belief:
    """Return the averages over trees of means and of standard deviations (B, K), for
    rows x (B, d)."""
    x = _with_a_number(x)
    n_trees = len(trees.left)
    n_arms = trees.total.shape[-1]
    if kernels.compiled() is not None:
        belief = Belief(np.empty((len(x), n_arms)), np.empty((len(x), n_arms)))
        facts = (trees.start, trees.noise)
        _compiled().believe(trees.cuts, trees.by_arm, facts, x, PULL, tuple(belief))
        return belief
    paths = _paths(trees, x)
    drawn = _nodes_at(trees.drawn, paths)
    total = _nodes_at(trees.total, paths)
    stop = _nodes_at(trees.stop, paths)
    value, ends = _averaged(drawn, total, stop, trees.start[:, None, None])
    variance = (trees.noise**2)[:, None, None]
    doubt = ends / (drawn + 1) * variance
    mean = (ends * value).sum(axis=(0, 1)) / n_trees
    sd = np.sqrt(doubt.sum(axis=(0, 1)) / n_trees)
    return Belief(mean, sd)


def _nodes_at(part: Array, paths: Ints) -> Array:
    """Return the rows of `part` (T, V, K) at these nodes."""
    return part.reshape(-1, part.shape[-1]).take(paths, axis=0)


def _averaged(
    drawn: Array, total: Array, stop: Array, start: Array
) -> tuple[Array, Array]:
    """Return each node's mean along paths (L, …), shrunk towards its parent's, and the
    probability that a tree ends there.

    value = (total + PULL · value of the parent) / (drawn + PULL)
    """
    value = np.empty(drawn.shape)
    weight = drawn + PULL
    above = start
    for own, rewards, by in zip(value, total, weight, strict=True):
        np.multiply(above, PULL, out=own)
        own += rewards
        own /= by
        above = own
    ends = stop.copy()
    ends[1:] *= np.cumprod(1 - stop[:-1], axis=0)
    return value, ends


def learn(trees: Trees, row: Array, arm: int, *, draws: float, rewards: float) -> float:
    """Return the prediction of this arm for a row (d). Then add draws and rewards to
    the nodes on its path, in place."""
    row = _with_a_number(row)
    if kernels.compiled() is not None:
        facts = (trees.start, trees.scale)
        change = (arm, draws, rewards)
        constants = (PULL, _CUTS, _STOPS)
        twin = _compiled().learn
        return float(twin(trees.cuts, trees.by_arm, facts, row, change, constants))
    n_trees, room = trees.left.shape
    n_arms = trees.total.shape[-1]
    path = _walks(trees, row)
    parts = [part.reshape(-1) for part in trees.by_arm]
    at = path * n_arms + arm
    begin = room * np.arange(n_trees)
    left = trees.left.reshape(-1).take(path) + begin
    is_cut = left != path
    drawn, total, _, stop = (part.take(at) for part in parts)
    value, ends = _averaged(drawn, total, stop, trees.start)
    drawn = drawn + draws
    total = total + rewards
    own = density(trees.scale * drawn, trees.scale * total)
    own = np.where(drawn > 0, own, 0.0)
    # The sibling of each node on the path.
    goes_left = path[1:] == left[:-1]
    other = (left[:-1] + goes_left) * is_cut[:-1]
    all_evidence = parts[2]
    beside = all_evidence.take(other * n_arms + arm)
    evidence = own.copy()
    stopped = own + _STOPS
    for level in range(len(path) - 2, -1, -1):
        both = evidence[level + 1] + _CUTS
        both += beside[level]
        here = is_cut[level]
        np.logaddexp(stopped[level], both, out=evidence[level], where=here)
    stop = np.exp(stopped - evidence)
    stop = np.where(is_cut, stop, 1.0)
    for part, new in zip(parts, (drawn, total, evidence, stop), strict=True):
        part[at] = new
    mean = (ends * value).sum() / n_trees
    return float(mean)


@cache
def _compiled() -> Any:
    """Import the compiled kernels on first use."""
    from oddsmith.experts.kernels import tree_nodes as twins

    return twins
