"""Trees in blocks of equal room, so that one can be replaced by itself; walks, beliefs, what leaves learn."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from oddsmith import kernels
from oddsmith.arrays import Array, Ints
from oddsmith.experts.learners.base import Belief
from oddsmith.experts.learners.growing import PULL, Indices, Tree
from oddsmith.experts.ring import longer

__all__ = ["Trees", "believe", "learn", "leaves", "one_of", "replaced", "stumps"]

_NODES = ("column", "threshold", "left", "value", "drawn")


class Trees(NamedTuple):
    """Nodes (…, T, V) as in `growing.Tree`, means and counts (…, T, V, K), depths (…, T); zeros where no node is."""

    column: Indices
    threshold: Array
    left: Indices
    value: Array
    drawn: Array
    depth: Ints


def stumps(shape: tuple[int, ...], n_trees: int, n_arms: int) -> Trees:
    """Trees of one leaf that know nothing."""
    nodes = (*shape, n_trees, 1)
    return Trees(
        np.zeros(nodes, np.int32),
        np.full(nodes, np.inf),
        np.zeros(nodes, np.int32),
        np.full((*nodes, n_arms), 0.5),
        np.zeros((*nodes, n_arms)),
        np.zeros((*shape, n_trees), np.int64),
    )


def one_of(trees: Trees, place: tuple[int, ...]) -> Trees:
    """The trees of one place of a batch, as views."""
    parts: Any = (part[place] for part in trees)
    return Trees(*parts)


def replaced(trees: Trees, place: tuple[int, ...], tree: Tree) -> Trees:
    """The trees with this one at `place`, its index in the batch and the forest; in place, if there is room."""
    used, room, axis = len(tree.left), trees.left.shape[-1], trees.left.ndim - 1
    if used > room:
        more = max(used - room, room // 2)
        trees = trees._replace(**{name: longer(getattr(trees, name), more, axis) for name in _NODES})
    for name in _NODES:
        block = getattr(trees, name)[place]
        block[:used], block[used:] = getattr(tree, name), 0
    trees.depth[place] = tree.depth
    return trees


def leaves(trees: Trees, x: Array) -> Ints:
    """The leaf of each tree (T, B) in which each row of x (B, d) lies; what is missing goes left."""
    n_trees, room = trees.left.shape
    begin, row = room * np.arange(n_trees)[:, None], np.arange(len(x))
    column, threshold, left = (part.reshape(-1) for part in trees[:3])
    node = np.zeros((n_trees, len(x)), np.int64)
    for _ in range(int(trees.depth.max())):
        at = begin + node
        node = left[at] + (x[row, column[at]] > threshold[at])
    return node


def believe(trees: Trees, x: Array) -> Belief:
    """Averages of the leaves' means, and doubts by the leaves' counts (B, K), for rows x (B, d)."""
    n_trees, n_arms = len(trees.left), trees.value.shape[-1]
    if kernels.compiled() is not None:
        belief = Belief(np.empty((len(x), n_arms)), np.empty((len(x), n_arms)))
        _compiled().believe(trees[:3], trees[3:5], x, tuple(belief))
        return belief
    at = np.arange(n_trees)[:, None], leaves(trees, x)
    mean = np.cumsum(trees.value[at], axis=0)[-1] / n_trees  # from the first tree to the last, as the twin does
    doubt = np.cumsum(1 / (trees.drawn[at] + 1), axis=0)[-1] / n_trees
    return Belief(mean, 0.5 * np.sqrt(doubt))


def learn(trees: Trees, row: Array, arm: int, reward: float) -> None:
    """In place: the row's leaf in each tree gains a reward of this arm."""
    if kernels.compiled() is not None:
        _compiled().learn(trees[:3], trees[3:5], row, arm, reward, PULL)
        return
    at = np.arange(len(trees.left)), leaves(trees, row[None])[:, 0], arm
    trees.drawn[at] += 1
    trees.value[at] += (reward - trees.value[at]) / (trees.drawn[at] + PULL)


@cache
def _compiled() -> Any:
    """The compiled twins, imported on first use."""
    from oddsmith.kernels import trees as twins

    return twins
