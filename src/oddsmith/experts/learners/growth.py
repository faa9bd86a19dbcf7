"""Growing one tree on logged bandit rows (contexts, drawn arms, rewards), level by
level in numpy or by a compiled kernel.

A tree divides the contexts into leaves. Every node contains the number of draws and the
sum of rewards of each arm. Candidates for a cut are drawn at random: a column, and the
midpoint of two of the node's rows. The tree uses the cut after which the arms' means
explain most of the rewards' variance, as in extremely randomised trees (Geurts et al.
2006). Time: O(rows · candidates · depth).

The compiled kernel gives the same tree to the last bit. Rewards are rounded to whole
units of 2^-20, so that sums are exact in any order; draws are a hash of the tree's key,
the node and the candidate; sums over arms follow the order of the arms.
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

DEPTH = 14  # maximum number of steps from root to leaf
MOST_ROWS = 2**15
# Prior: count one additional row with gain 0 for each arm.
_SPLIT = 1.0
_UNIT = 2.0**-20
# A row's weight is 2^_BITS plus its reward in units. The sum of MOST_ROWS rewards needs
# fewer bits, so sums of weights contain both counts and rewards, and are exact.
_BITS = 36
_TRIES = 7  # number of rows to try until one has a different value
_PASS = 2**15  # maximum rows times candidates per numpy call
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST_MIX = 0xBF58476D1CE4E5B9
_SECOND_MIX = 0x94D049BB133111EB
_ALL = 2**64 - 1
_ROUNDS = (
    (np.uint64(30), np.uint64(_FIRST_MIX)),
    (np.uint64(27), np.uint64(_SECOND_MIX)),
)


class Rows(NamedTuple):
    """Drawn arms (n), at least one, rewards (n), and numbers by column (d, n); the
    columns may be longer than the number of rows."""

    numbers: Array
    arms: Ints
    rewards: Array


class Tree(NamedTuple):
    """Nodes (V), the root first, then level by level. The right child follows the left
    one.

    A leaf is its own left child with an infinite threshold, so that paths stay there.
    `drawn` and `total` (V, K) are each arm's number of rows and sum of rewards. `start`
    is the mean of an arm without rows, and `depth` the number of steps after which
    every path is at a leaf. `noise` is the largest possible standard deviation of
    rewards.
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
    """Constants of one growth, for numpy and the compiled kernel.

    `weights` (n) are the weights of the rows, `centre` is the mean reward, `start` and
    `noise` are the mean of an arm without rows and its largest standard deviation, and
    `shares` (n + 1) is 1/(rows + 1) by number of rows.
    """

    key: int
    candidates: int
    weights: Array
    centre: float
    start: float
    noise: float
    shares: Array


def key_of(*parts: int) -> int:
    """Return the key of the random stream for these numbers.

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
    """Grow a tree on these rows. The same rows and key give the same tree."""
    dim = len(rows.numbers)
    n = len(rows.arms)
    rewards = np.where(rows.rewards > 0, rows.rewards, 0.0)
    units = np.rint(np.minimum(rewards, 1.0) / _UNIT)
    candidates = 0
    if dim:
        candidates = int(np.clip(dim, 8, 64))
    total = np.asarray(float(units.sum()) * _UNIT)
    count = np.asarray(n)
    start = float(prior_mean(total, count))
    noise = float(largest_sd(total, count))
    shares = 1 / (np.arange(n + 1) + _SPLIT)
    plan = _Plan(
        key,
        candidates,
        weights=units + 2.0**_BITS,
        centre=float(total) / n,
        start=start,
        noise=noise,
        shares=shares,
    )
    if kernels.compiled() is None:
        return _by_levels(rows, n_arms, plan, depth)
    return _by_twin(rows, n_arms, plan, depth)


@cache
def _compiled() -> Any:
    """Import the compiled kernel on first use."""
    from oddsmith.experts.kernels.trees import grow as twin

    return twin


def _by_twin(rows: Rows, n_arms: int, plan: _Plan, depth: int) -> Tree:
    room = min(len(rows.arms), 2 ** (depth + 1))
    column = np.empty(room, np.int32)
    threshold = np.empty(room)
    left = np.empty(room, np.int32)
    drawn = np.empty((room, n_arms))
    total = np.empty((room, n_arms))
    order = np.argsort(rows.arms, kind="stable")
    arms = rows.arms[order].astype(np.uint32)
    used, deep = _compiled()(
        (rows.numbers, order.astype(np.uint32), arms, plan.weights[order]),
        np.uint64(plan.key),
        (plan.candidates, depth, _TRIES),
        (_UNIT, plan.centre, plan.shares),
        (column, threshold, left, drawn, total),
    )
    return Tree(
        column[:used],
        threshold[:used],
        left[:used],
        drawn[:used],
        total[:used],
        plan.start,
        plan.noise,
        deep,
    )


class _Level(NamedTuple):
    """One level of a tree. `node` and `row` contain the node and the number of each
    row, sorted by node and then by arm. `first` is the number of the level's first
    node, and `size` the number of its nodes."""

    node: Ints
    row: Ints
    first: int
    size: int


class _Open(NamedTuple):
    """The nodes of one level that may still be split, with their rows.

    `node` and `row` contain the node and the number of each row, sorted by node and
    then by arm. `begin` are the positions at which a new combination of node and arm
    starts. `counts` and `totals` are the number of rows and the sum of rewards of each
    node and arm (nodes, K).
    """

    node: Ints
    row: Ints
    counts: Ints
    totals: Array
    begin: Ints


def _by_levels(rows: Rows, n_arms: int, plan: _Plan, depth: int) -> Tree:
    x = rows.numbers
    arms = rows.arms
    order = np.argsort(arms, kind="stable")
    level = _Level(np.zeros(len(arms), np.int64), order, first=0, size=1)
    parts: list[tuple[Any, ...]] = []
    while True:
        place = level.node * n_arms + arms[level.row]
        count, total = _sums(place, plan.weights[level.row], (level.size, n_arms))
        column = np.zeros(level.size, np.int64)
        threshold = np.full(level.size, np.inf)
        left = level.first + np.arange(level.size)
        parts.append((column, threshold, left, count, total))
        if len(parts) > depth:
            break
        column[:], threshold[:] = _best_cuts(level, rows, plan, count, total)
        is_cut = threshold < np.inf
        if not is_cut.any():
            break
        n_cut = int(is_cut.sum())
        after = level.first + level.size
        left[is_cut] = after + 2 * np.arange(n_cut)
        stays = is_cut[level.node]
        node = level.node[stays]
        row = level.row[stays]
        goes_right = x[column[node], row] > threshold[node]
        child = left[node] - after + goes_right
        order = np.argsort(child, kind="stable")
        level = _Level(child[order], row[order], after, 2 * n_cut)
    column, threshold, left, count, total = map(
        np.concatenate, zip(*parts, strict=True)
    )
    return Tree(
        column.astype(np.int32),
        threshold,
        left.astype(np.int32),
        count.astype(np.float64),
        total,
        plan.start,
        plan.noise,
        len(parts) - 1,
    )


def _sums(place: Ints, weights: Array, shape: tuple[int, ...]) -> tuple[Ints, Array]:
    """Return the number of rows, and the sum of their rewards, at each index of an
    array of this shape."""
    packed = np.bincount(place, weights, prod(shape))
    return _unpack(packed.reshape(shape))


def _unpack(sums: npt.NDArray[Any]) -> tuple[Ints, Array]:
    """Return the number of rows, and the sum of their rewards, in sums of weights."""
    packed = sums.astype(np.int64)
    count = packed >> _BITS
    units = packed & (2**_BITS - 1)
    return count, units * _UNIT


def _best_cuts(
    level: _Level, rows: Rows, plan: _Plan, count: Ints, total: Array
) -> tuple[Ints, Array]:
    """Return the best split of each node, by column and threshold, or an infinite
    threshold if no split improves the fit."""
    column = np.zeros(level.size, np.int64)
    threshold = np.full(level.size, np.inf)
    # If all rewards of each arm are equal (0 or 1), no split improves the fit.
    alike = ((total == 0) | (total == count)).all(axis=1)
    is_open = ~alike & (count.sum(axis=1) >= 4)
    nodes = np.flatnonzero(is_open)
    if not len(nodes) or not plan.candidates:
        return column, threshold
    stays = is_open[level.node]
    open_number = np.cumsum(is_open) - 1
    node = open_number[level.node[stays]]
    row = level.row[stays]
    begin = _changes(node * count.shape[1] + rows.arms[row])
    part = _Open(node, row, count[nodes], total[nodes], begin)
    columns, thresholds = _candidates(part, level.first + nodes, rows.numbers, plan)
    at_once = max(_PASS // len(part.row), 1)
    passes = list[Array]()
    for c in range(0, plan.candidates, at_once):
        some = slice(c, c + at_once)
        passes.append(
            _explained_squares(part, rows, plan, columns[:, some], thresholds[:, some])
        )
    explained = np.concatenate(passes, axis=1)
    best = (np.arange(len(nodes)), explained.argmax(axis=1))
    gain = part.totals - part.counts * plan.centre
    without_cut = _sum_over_arms(gain * gain * plan.shares[part.counts])
    better = explained[best] > without_cut * (1 + 1e-9) + 1e-9
    changed = nodes[better]
    column[changed] = columns[best][better]
    threshold[changed] = thresholds[best][better]
    return column, threshold


def _changes(places: Ints) -> Ints:
    """Return the starts of runs of equal entries in sorted `places`."""
    return np.flatnonzero(np.append(True, places[1:] != places[:-1]))


def _explained_squares(
    part: _Open, rows: Rows, plan: _Plan, columns: Ints, thresholds: Array
) -> Array:
    """Return the squares that each candidate's cut explains (nodes, candidates), or
    -inf if a side has fewer than two rows.

    The result is Σ over arms and sides of gain²/(rows + 1), where gain = rewards - rows
    · centre.
    """
    n, n_arms = part.counts.shape
    many = columns.shape[1]
    begin_of_column = columns * rows.numbers.shape[1]
    at = begin_of_column.take(part.node, axis=0) + part.row[:, None]
    numbers = rows.numbers.reshape(-1).take(at)
    cuts = thresholds.take(part.node, axis=0)
    goes_left = ~(numbers > cuts)
    weights = plan.weights[part.row][:, None] * goes_left
    count, total = _unpack(np.add.reduceat(weights, part.begin, axis=0))
    node = part.node[part.begin]
    run = node * n_arms + rows.arms[part.row[part.begin]]
    counts = part.counts.reshape(-1)[run, None]
    totals = part.totals.reshape(-1)[run, None]
    gain = total - count * plan.centre
    rest = (totals - counts * plan.centre) - gain
    left_terms = gain * gain * plan.shares.take(count)
    terms = left_terms + rest * rest * plan.shares.take(counts - count)
    place = node[:, None] * many + np.arange(many)
    # bincount adds the arms in a fixed order.
    explained = np.bincount(place.ravel(), terms.ravel(), n * many).reshape(n, many)
    size = np.add.reduceat(count, _changes(node), axis=0)
    both = part.counts.sum(axis=1)[:, None]
    allowed = (size >= 2) & (both - size >= 2) & (thresholds < np.inf)
    return np.where(allowed, explained, -np.inf)


def _sum_over_arms(terms: Array) -> Array:
    """Return sums over arms (…, K, …), from the first to the last arm, because numpy's
    `sum` uses another order."""
    total: Array = np.cumsum(terms, axis=1)[:, -1]
    return total


def _candidates(
    part: _Open, numbers: Ints, x: Array, plan: _Plan
) -> tuple[Ints, Array]:
    """Return random columns and midpoints of two random rows (nodes, candidates).

    If a second row has the same number as the first one, the next row replaces it, up
    to `_TRIES` times. If one of the two numbers is missing, the cut is below all
    numbers. If both are missing, there is no cut.
    """
    draws = numbers[:, None] * plan.candidates + np.arange(plan.candidates)
    bits = _random_bits(plan.key, draws)
    sizes = part.counts.sum(axis=1)[:, None]
    starts = np.cumsum(sizes)[:, None] - sizes
    columns = _below(len(x), bits >> np.uint64(44), 20)
    few = np.uint64(2**22 - 1)
    one = _below(sizes, bits >> np.uint64(22) & few, 22)
    other = _below(sizes, bits & few, 22)
    first = x[columns, part.row[starts + one]]
    second = x[columns, part.row[starts + other]]
    for _ in range(_TRIES):
        tied = first == second
        if not tied.any():
            break
        other = np.where(tied, (other + 1) % sizes, other)
        second = x[columns, part.row[starts + other]]
    with np.errstate(invalid="ignore"):
        middle = 0.5 * first + 0.5 * second
    middle[np.isnan(middle)] = -np.inf
    middle[np.isnan(first) & np.isnan(second)] = np.inf
    return columns, middle


def _below(size: int | Ints, bits: Hashes, n_bits: int) -> Ints:
    """Return whole numbers from 0 to `size` - 1, each made from `n_bits` random
    bits."""
    scaled = bits * np.asarray(size, np.uint64)
    return (scaled >> np.uint64(n_bits)).astype(np.int64)


def _random_bits(key: int, numbers: Ints) -> Hashes:
    """Return 64 random bits for each number (splitmix64)."""
    steps = (numbers + 1).astype(np.uint64) * np.uint64(_GOLDEN)
    z: Hashes = np.array(key, np.uint64) + steps
    for shift, factor in _ROUNDS:
        z ^= z >> shift
        z *= factor
    z ^= z >> np.uint64(31)
    return z
