"""Compiled kernel (numba) that grows a tree, with results equal to the numpy version to
the last bit.

A row's weight contains its count, 2^`_BITS`, and its reward in whole units, so that one
exact addition sums both. Weights are multiplied by 0 or 1 instead of using an
unpredictable branch. Rows are permuted in place: the rows of a node are neighbours,
sorted by arm, so that the sums of all arms are differences of one running sum."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from oddsmith.core.arrays import Array, Ints

__all__ = ["grow"]

Indices = npt.NDArray[np.int32]
Marks = npt.NDArray[np.uint32]
_BITS = 36
_REST = 2**_BITS - 1
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST_MIX = np.uint64(0xBF58476D1CE4E5B9)
_SECOND_MIX = np.uint64(0x94D049BB133111EB)


class _Own(NamedTuple):
    """The n rows of a node: their positions in the ring buffer, their arms and their
    weights, all (n)."""

    order: Marks
    arms: Marks
    weights: Array


class _Chance(NamedTuple):
    """The numbers that determine a node's candidates."""

    key: int
    node: int
    candidates: int
    tries: int


class _Sums(NamedTuple):
    """Sums over the arms that have rows in a node: their numbers of rows, gains and
    first rows. It also contains space for running sums."""

    counts: Ints
    gains: Array
    bounds: Ints
    running: Array


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def grow(
    rows: tuple[Array, Marks, Marks, Array],
    key: int,
    limits: tuple[int, int, int],
    settings: tuple[float, float, Array],
    tree: tuple[Indices, Array, Indices, Array, Array],
) -> tuple[int, int]:
    """Compiled version of `growth.grow`. Fill `tree`, which has space for all nodes;
    return the number of nodes and the depth."""
    candidates, deepest, tries = limits
    unit, centre, shares = settings
    columns, thresholds, lefts, drawn, totals = tree
    x, order, arms, weights = rows
    n = order.size
    n_arms = totals.shape[1]
    spare = _Own(np.empty(n, np.uint32), np.empty(n, np.uint32), np.empty(n))
    ends = np.zeros((columns.size, 3), np.int64)
    packed = np.zeros(n_arms)
    counts = np.zeros(n_arms, np.int64)
    bounds = np.zeros(n_arms + 1, np.int64)
    sums = _Sums(counts, np.zeros(n_arms), bounds, np.zeros((n + 1, 2)))
    _open(ends, 0, 0, n, 0)
    node = 0
    used = 1
    while node < used:
        start = ends[node, 0]
        stop = ends[node, 1]
        depth = ends[node, 2]
        own = _Own(order[start:stop], arms[start:stop], weights[start:stop])
        _pack(own, packed)
        for k in range(n_arms):
            count, total = _unpack(packed[k], unit)
            drawn[node, k] = count
            totals[node, k] = total
        columns[node] = 0
        thresholds[node] = np.inf
        lefts[node] = node
        mine, best = _gains(packed, (unit, centre, shares), sums)
        if depth < deepest and stop - start >= 4 and best >= 0.0:
            chance = _Chance(key, node, candidates, tries)
            column, threshold = _cut(x, own, chance, (unit, centre, shares, best), mine)
            if threshold < np.inf:
                middle = start + _part(x[column], threshold, own, spare)
                columns[node] = column
                thresholds[node] = threshold
                lefts[node] = used
                _open(ends, used, start, middle, depth + 1)
                _open(ends, used + 1, middle, stop, depth + 1)
                used += 2
        node += 1
    return used, ends[used - 1, 2]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _open(ends: Ints, node: int, start: int, stop: int, depth: int) -> None:
    """Store the rows and the depth of a node."""
    ends[node, 0] = start
    ends[node, 1] = stop
    ends[node, 2] = depth


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _unpack(weights: float, unit: float) -> tuple[int, float]:
    """Return the number of rows, and the sum of their rewards, in a sum of weights."""
    packed: Any = np.int64(weights)
    return packed >> _BITS, (packed & _REST) * unit


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _pack(own: _Own, packed: Array) -> None:
    """Fill the sums of weights by arm."""
    packed[:] = 0.0
    for i in range(own.arms.size):
        packed[own.arms[i]] += own.weights[i]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _gains(
    packed: Array, settings: tuple[float, float, Array], sums: _Sums
) -> tuple[_Sums, float]:
    """Return the sums of arms with rows and the squares that their means explain, or -1
    if rewards are all 0 or all 1 for each arm."""
    unit, centre, shares = settings
    here = 0
    alike = True
    explained = 0.0
    for k in range(packed.size):
        count, total = _unpack(packed[k], unit)
        if count > 0:
            gain = total - count * centre
            sums.counts[here] = count
            sums.gains[here] = gain
            sums.bounds[here + 1] = sums.bounds[here] + count
            explained += gain * gain * shares[count]
            alike = alike and (total == 0.0 or total == count)
            here += 1
    if alike:
        explained = -1.0
    mine = _Sums(sums.counts[:here], sums.gains, sums.bounds, sums.running)
    return mine, explained


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _cut(
    x: Array,
    own: _Own,
    chance: _Chance,
    settings: tuple[float, float, Array, float],
    sums: _Sums,
) -> tuple[int, float]:
    """Return the best candidate's column and threshold, or an infinite threshold if
    none explains more than the whole node."""
    unit, centre, shares, none = settings
    best = none * (1 + 1e-9) + 1e-9
    column = 0
    threshold = np.inf
    n = own.order.size
    first = chance.node * chance.candidates
    last = first + chance.candidates
    for c in range(first, last, 2):
        one = _candidate(x, own.order, _random_bits(chance.key, c), chance.tries)
        two = one
        if c + 1 < last:
            two = _candidate(
                x, own.order, _random_bits(chance.key, c + 1), chance.tries
            )
        _run(x[one[0]], x[two[0]], (one[1], two[1]), own, sums.running)
        for side in range(2):
            cut = one if side == 0 else two
            size = np.int64(sums.running[n, side]) >> _BITS
            if cut[1] < np.inf and size >= 2 and n - size >= 2:
                explained = _explained_squares(sums, side, (unit, centre, shares))
                if explained > best:
                    best = explained
                    column = cut[0]
                    threshold = cut[1]
    return column, threshold


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _run(
    one: Array, two: Array, thresholds: tuple[float, float], own: _Own, running: Array
) -> None:
    """Fill running sums of the weights that go left for two candidates at once, so that
    the additions of one need not wait for those of the other."""
    total = 0.0
    other = 0.0
    for i in range(own.order.size):
        row = own.order[i]
        weight = own.weights[i]
        first_left = not one[row] > thresholds[0]
        second_left = not two[row] > thresholds[1]
        total += weight * np.float64(first_left)
        other += weight * np.float64(second_left)
        running[i + 1, 0] = total
        running[i + 1, 1] = other


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _explained_squares(
    sums: _Sums, side: int, settings: tuple[float, float, Array]
) -> float:
    """Compiled version of `growth._explained_squares` for one cut."""
    unit, centre, shares = settings
    explained = 0.0
    running = sums.running[:, side]
    for k in range(sums.counts.size):
        inside = running[sums.bounds[k + 1]] - running[sums.bounds[k]]
        count, total = _unpack(inside, unit)
        gain = total - count * centre
        rest = sums.gains[k] - gain
        left = gain * gain * shares[count]
        explained += left + rest * rest * shares[sums.counts[k] - count]
    return explained


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _random_bits(key: int, number: int) -> np.uint64:
    """Return 64 random bits (splitmix64)."""
    z = np.uint64(key) + np.uint64(number + 1) * _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * _FIRST_MIX
    z = (z ^ (z >> np.uint64(27))) * _SECOND_MIX
    bits: np.uint64 = z ^ (z >> np.uint64(31))
    return bits


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _below(size: int, bits: np.uint64, n_bits: int) -> np.int64:
    """Return a whole number from 0 to `size` - 1, made from `n_bits` random bits."""
    scaled: Any = bits * np.uint64(size)
    return np.int64(scaled >> np.uint64(n_bits))


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _candidate(
    x: Array, order: Marks, bits: np.uint64, tries: int
) -> tuple[np.int64, float]:
    """Return a random column and the midpoint of two random rows in it, or an infinite
    midpoint if both are missing."""
    few = np.uint64(2**22 - 1)
    column = _below(x.shape[0], bits >> np.uint64(44), 20)
    one = _below(order.size, (bits >> np.uint64(22)) & few, 22)
    other = _below(order.size, bits & few, 22)
    first = x[column, order[one]]
    second = x[column, order[other]]
    for _ in range(tries):
        if first != second:
            break
        other += 1
        if other == order.size:
            other = 0
        second = x[column, order[other]]
    if np.isnan(first) and np.isnan(second):
        return column, np.inf
    middle: float = 0.5 * first + 0.5 * second
    if np.isnan(middle):
        middle = -np.inf
    return column, middle


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _part(numbers: Array, threshold: float, own: _Own, spare: _Own) -> np.int64:
    """Move the rows that go left to the front, keeping the order on both sides. Return
    how many go left."""
    lefts = np.int64(0)
    rights = np.int64(0)
    for i in range(own.order.size):
        row = own.order[i]
        arm = own.arms[i]
        weight = own.weights[i]
        own.order[lefts] = row
        own.arms[lefts] = arm
        own.weights[lefts] = weight
        spare.order[rights] = row
        spare.arms[rights] = arm
        spare.weights[rights] = weight
        goes_left = np.int64(not numbers[row] > threshold)
        lefts += goes_left
        rights += 1 - goes_left
    for i in range(rights):
        own.order[lefts + i] = spare.order[i]
        own.arms[lefts + i] = spare.arms[i]
        own.weights[lefts + i] = spare.weights[i]
    return lefts
