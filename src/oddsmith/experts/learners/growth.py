"""One tree grown on logged bandit rows: contexts, drawn arms, rewards; in numpy, level
by level, or by its twin.

A tree cuts the contexts into leaves; every node knows how often each arm was drawn
there, and its rewards. Cuts are candidates drawn at random (a column, and the midpoint
of two of the node's rows); the one after which the arms' means explain most is taken,
as in extremely randomised trees (Geurts et al. 2006): O(rows · candidates · depth).

The twin gives the same tree to the bit. Rewards are rounded to whole units of 2^-20, so
that sums are exact in any order; draws are a hash of the tree's key, the node and the
candidate; sums over arms are in the order of the arms.
"""

from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from oddsmith.core import kernels
from oddsmith.core.arrays import Array, Ints
from oddsmith.experts.learners.prior import largest_sd, prior_mean

__all__ = ["DEPTH", "Indices", "MOST_ROWS", "Rows", "Tree", "grow", "key_of"]

Indices = npt.NDArray[np.int32]
Hashes = npt.NDArray[np.uint64]

DEPTH = 14  # steps from root to leaf, at most
MOST_ROWS = 2**15
_SPLIT = 1.0  # an arm's squared sum counts as if one more row of no gain were there
_UNIT = 2.0**-20
_BITS = (
    # the sum of MOST_ROWS rewards has fewer; a row's weight is 2^_BITS and its reward,
    # and all of them are exact
    36
)
_TRIES = 7  # rows to look at for a number that differs
_PASS = 2**15  # rows times candidates in one pass of numpy
_GOLDEN, _FIRST_MIX, _SECOND_MIX = (
    0x9E3779B97F4A7C15,
    0xBF58476D1CE4E5B9,
    0x94D049BB133111EB,
)
_ALL = 2**64 - 1


class Rows(NamedTuple):
    """Drawn arms (n) and rewards (n), one at least; numbers by column (d, n), or more
    of them than there are rows."""

    numbers: Array
    arms: Ints
    rewards: Array


class Tree(NamedTuple):
    """Nodes (V), the root first, level after level; the right child stands behind the
    left one.

    A leaf is its own left child behind an infinite threshold, so that walks end where
    they are. `drawn` and `total` (V, K) are each arm's rows and the sum of their
    rewards; `start` is the mean of an arm without rows, and `depth` how many steps
    reach every leaf. `noise` is the largest standard deviation that rewards can have.
    """

    column: Indices
    threshold: Array
    left: Indices
    drawn: Array
    total: Array
    start: float
    noise: float
    depth: int


class _Plan(NamedTuple):
    """What numpy and the twin share: rows' weights, the rewards' mean, that of an arm
    without rows, shares by count."""

    key: int
    candidates: int
    weights: Array
    centre: float
    start: float
    noise: float
    shares: Array


def key_of(*parts: int) -> int:
    """The key of a stream of draws that belongs to these numbers.

    >>> key_of(0, 24, 1) == key_of(0, 24, 1), key_of(0, 24, 1) == key_of(0, 25, 1)
    (True, False)
    """
    key = 0
    for part in parts:
        key = (key + (part + 1) * _GOLDEN) & _ALL
        key = ((key ^ (key >> 30)) * _FIRST_MIX) & _ALL
        key = ((key ^ (key >> 27)) * _SECOND_MIX) & _ALL
        key ^= key >> 31
    return key


def grow(rows: Rows, n_arms: int, *, key: int, depth: int = DEPTH) -> Tree:
    """A tree on these rows; the same for the same rows and key."""
    dim, n = len(rows.numbers), len(rows.arms)
    units = np.rint(
        np.minimum(np.where(rows.rewards > 0, rows.rewards, 0.0), 1.0) / _UNIT
    )
    candidates = int(np.clip(dim, 8, 64)) if dim else 0
    total = float(units.sum()) * _UNIT
    shares = 1 / (np.arange(n + 1) + _SPLIT)
    plan = _Plan(
        key,
        candidates,
        units + 2.0**_BITS,
        total / n,
        float(prior_mean(np.asarray(total), np.asarray(n))),
        float(largest_sd(np.asarray(total), np.asarray(n))),
        shares,
    )
    return (
        _by_levels(rows, n_arms, plan, depth)
        if kernels.compiled() is None
        else _by_twin(rows, n_arms, plan, depth)
    )


@cache
def _compiled() -> Any:
    """The compiled twin, imported on first use."""
    from oddsmith.experts.kernels.trees import grow as twin

    return twin


def _by_twin(rows: Rows, n_arms: int, plan: _Plan, depth: int) -> Tree:
    room = min(len(rows.arms), 2 ** (depth + 1))
    nodes = (
        np.empty(room, np.int32),
        np.empty(room),
        np.empty(room, np.int32),
        np.empty((room, n_arms)),
        np.empty((room, n_arms)),
    )
    order = np.argsort(rows.arms, kind="stable")
    used, deep = _compiled()(
        (
            rows.numbers,
            order.astype(np.uint32),
            rows.arms[order].astype(np.uint32),
            plan.weights[order],
        ),
        np.uint64(plan.key),
        (plan.candidates, depth, _TRIES),
        (_UNIT, plan.centre, plan.shares),
        nodes,
    )
    column, threshold, left, drawn, total = (part[:used] for part in nodes)
    return Tree(column, threshold, left, drawn, total, plan.start, plan.noise, deep)


class _Level(NamedTuple):
    """Rows at the nodes of one level, by node and then by arm; the number of its first
    node, and how many they are."""

    node: Ints
    row: Ints
    first: int
    size: int


class _Open(NamedTuple):
    """Rows at the nodes of a level that may be cut, and their nodes; rows and rewards
    of these by arm (nodes, K).

    Rows of one node and arm are a run: they stand side by side, from the places `begin`
    on.
    """

    node: Ints
    row: Ints
    counts: Ints
    totals: Array
    begin: Ints


def _by_levels(rows: Rows, n_arms: int, plan: _Plan, depth: int) -> Tree:
    x, arms = rows.numbers, rows.arms
    level = _Level(np.zeros(len(arms), np.int64), np.argsort(arms, kind="stable"), 0, 1)
    parts: list[tuple[Any, ...]] = []
    while True:
        place = level.node * n_arms + arms[level.row]
        count, total = _sums(place, plan.weights[level.row], (level.size, n_arms))
        column, threshold = np.zeros(level.size, np.int64), np.full(level.size, np.inf)
        left = level.first + np.arange(level.size)
        parts.append((column, threshold, left, count, total))
        if len(parts) > depth:
            break
        column[:], threshold[:] = _best_cuts(level, rows, plan, count, total)
        taken = threshold < np.inf
        if not taken.any():
            break
        after = level.first + level.size
        left[taken] = after + 2 * np.arange(taken.sum())
        stays = taken[level.node]
        node, row = level.node[stays], level.row[stays]
        child = left[node] - after + (x[column[node], row] > threshold[node])
        order = np.argsort(child, kind="stable")
        level = _Level(child[order], row[order], after, 2 * int(taken.sum()))
    column, threshold, left, count, total = (
        np.concatenate(part) for part in zip(*parts, strict=True)
    )
    nodes = (
        column.astype(np.int32),
        threshold,
        left.astype(np.int32),
        count.astype(np.float64),
        total,
    )
    return Tree(*nodes, plan.start, plan.noise, len(parts) - 1)


def _sums(place: Ints, weights: Array, shape: tuple[int, ...]) -> tuple[Ints, Array]:
    """How many rows, and the sum of their rewards, in each place of an array of this
    shape."""
    return _unpacked(np.bincount(place, weights, prod(shape)).reshape(shape))


def _unpacked(sums: npt.NDArray[Any]) -> tuple[Ints, Array]:
    """How many rows, and the sum of their rewards, of sums of weights."""
    packed = sums.astype(np.int64)
    return packed >> _BITS, (packed & (2**_BITS - 1)) * _UNIT


def _best_cuts(
    level: _Level, rows: Rows, plan: _Plan, count: Ints, total: Array
) -> tuple[Ints, Array]:
    """For each node the candidate that explains most, by column and threshold; infinite
    where none gains anything."""
    column, threshold = np.zeros(level.size, np.int64), np.full(level.size, np.inf)
    # all 0 or all 1 for each arm: no cut explains more
    alike = ((total == 0) | (total == count)).all(axis=1)
    is_open = ~alike & (count.sum(axis=1) >= 4)
    nodes = np.flatnonzero(is_open)
    if not len(nodes) or not plan.candidates:
        return column, threshold
    stays = is_open[level.node]
    node, row = (np.cumsum(is_open) - 1)[level.node[stays]], level.row[stays]
    part = _Open(
        node,
        row,
        count[nodes],
        total[nodes],
        _changes(node * count.shape[1] + rows.arms[row]),
    )
    columns, thresholds = _candidates(part, level.first + nodes, rows.numbers, plan)
    at_once = max(_PASS // len(part.row), 1)
    explained = np.concatenate(
        [
            _explained(
                part,
                rows,
                plan,
                columns[:, c : c + at_once],
                thresholds[:, c : c + at_once],
            )
            for c in range(0, plan.candidates, at_once)
        ],
        axis=1,
    )
    best = np.arange(len(nodes)), explained.argmax(axis=1)
    gain = part.totals - part.counts * plan.centre
    better = (
        explained[best]
        > _in_order(gain * gain * plan.shares[part.counts]) * (1 + 1e-9) + 1e-9
    )
    column[nodes[better]], threshold[nodes[better]] = (
        columns[best][better],
        thresholds[best][better],
    )
    return column, threshold


def _changes(places: Ints) -> Ints:
    """Where equal ones begin, among places in order."""
    return np.flatnonzero(np.append(True, places[1:] != places[:-1]))


def _explained(
    part: _Open, rows: Rows, plan: _Plan, columns: Ints, thresholds: Array
) -> Array:
    """What each candidate's cut explains (nodes, candidates); nothing, if less than two
    rows are on a side."""
    (n, n_arms), many = part.counts.shape, columns.shape[1]
    at = (columns * rows.numbers.shape[1]).take(part.node, axis=0) + part.row[:, None]
    goes = ~(rows.numbers.reshape(-1).take(at) > thresholds.take(part.node, axis=0))
    count, total = _unpacked(
        np.add.reduceat(plan.weights[part.row][:, None] * goes, part.begin, axis=0)
    )
    node = part.node[part.begin]
    run = node * n_arms + rows.arms[part.row[part.begin]]
    counts, totals = (
        part.counts.reshape(-1)[run, None],
        part.totals.reshape(-1)[run, None],
    )
    gain = total - count * plan.centre
    rest = (totals - counts * plan.centre) - gain
    terms = gain * gain * plan.shares.take(count) + rest * rest * plan.shares.take(
        counts - count
    )
    place = node[:, None] * many + np.arange(many)
    # added arm after arm
    explained = np.bincount(place.ravel(), terms.ravel(), n * many).reshape(n, many)
    size, both = (
        np.add.reduceat(count, _changes(node), axis=0),
        part.counts.sum(axis=1)[:, None],
    )
    allowed = (size >= 2) & (both - size >= 2) & (thresholds < np.inf)
    return np.where(allowed, explained, -np.inf)


def _in_order(terms: Array) -> Array:
    """Sums over arms (…, K, …), from the first to the last: `sum` has an order of its
    own."""
    total: Array = np.cumsum(terms, axis=1)[:, -1]
    return total


def _candidates(
    part: _Open, numbers: Ints, x: Array, plan: _Plan
) -> tuple[Ints, Array]:
    """Random columns and midpoints of two random rows (nodes, candidates), which differ
    if that is easily had.

    Between a missing number and another, the cut is below all numbers; between two
    missing ones there is none.
    """
    bits = _mixed(
        plan.key, numbers[:, None] * plan.candidates + np.arange(plan.candidates)
    )
    sizes = part.counts.sum(axis=1)[:, None]
    starts, few = np.cumsum(sizes)[:, None] - sizes, np.uint64(2**22 - 1)
    columns = ((bits >> np.uint64(44)) * np.uint64(len(x)) >> np.uint64(20)).astype(
        np.int64
    )
    one, other = (
        (some * sizes.astype(np.uint64) >> np.uint64(22)).astype(np.int64)
        for some in (bits >> np.uint64(22) & few, bits & few)
    )
    first, second = (x[columns, part.row[starts + place]] for place in (one, other))
    for _ in range(_TRIES):
        tied = first == second
        if not tied.any():
            break
        other = np.where(tied, (other + 1) % sizes, other)
        second = x[columns, part.row[starts + other]]
    with np.errstate(invalid="ignore"):
        middle = 0.5 * first + 0.5 * second
    missing = np.isnan(first) & np.isnan(second)
    return columns, np.where(
        missing, np.inf, np.where(np.isnan(middle), -np.inf, middle)
    )


def _mixed(key: int, numbers: Ints) -> Hashes:
    """64 random bits for each number (splitmix64)."""
    z = np.array(key, np.uint64) + (numbers + 1).astype(np.uint64) * np.uint64(_GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(_FIRST_MIX)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(_SECOND_MIX)
    bits: Hashes = z ^ (z >> np.uint64(31))
    return bits
