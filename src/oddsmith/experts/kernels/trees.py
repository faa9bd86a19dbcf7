"""The compiled twin (numba) of the growth of a tree, equal to the bit.

A row's weight is one count, 2^`_BITS`, and its reward in whole units: one exact
addition for both, times 0 or 1 in place of a branch that cannot be foreseen. Rows are
permuted in place: those of a node are neighbours, sorted by arm, so that one running
sum has the sums of all arms in it, as differences.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from oddsmith.core.arrays import Array, Ints

__all__ = ["grow"]

Indices = npt.NDArray[np.int32]
Marks = npt.NDArray[np.uint32]
_BITS = 36
_REST = 2**_BITS - 1


class _Own(NamedTuple):
    """The rows of a node: their numbers in the ring, arms and weights; all (n)."""

    order: Marks
    arms: Marks
    weights: Array


class _Chance(NamedTuple):
    """What decides a node's candidates."""

    key: int
    node: int
    candidates: int
    tries: int


class _Sums(NamedTuple):
    """Of the arms that a node has rows of: how many, their gains, where they begin; and
    room for running sums."""

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
    """Twin of `growing.grow`: fill `tree`, which has room for all nodes; returns how
    many they are, and the depth."""
    candidates, deepest, tries = limits
    unit, centre, shares = settings
    columns, thresholds, lefts, drawn, totals = tree
    x, order, arms, weights = rows
    n, n_arms = order.size, totals.shape[1]
    spare = _Own(np.empty(n, np.uint32), np.empty(n, np.uint32), np.empty(n))
    ends, packed = np.zeros((columns.size, 3), np.int64), np.zeros(n_arms)
    sums = _Sums(
        np.zeros(n_arms, np.int64),
        np.zeros(n_arms),
        np.zeros(n_arms + 1, np.int64),
        np.zeros((n + 1, 2)),
    )
    ends[0, 1], node, used = n, 0, 1
    while node < used:
        start, stop, depth = ends[node, 0], ends[node, 1], ends[node, 2]
        own = _Own(order[start:stop], arms[start:stop], weights[start:stop])
        _pack(own, packed)
        for k in range(n_arms):
            both = np.int64(packed[k])
            drawn[node, k], totals[node, k] = both >> _BITS, (both & _REST) * unit
        columns[node], thresholds[node], lefts[node] = 0, np.inf, node
        mine, best = _gains(packed, (unit, centre, shares), sums)
        if depth < deepest and stop - start >= 4 and best >= 0.0:
            chance = _Chance(key, node, candidates, tries)
            column, threshold = _cut(x, own, chance, (unit, centre, shares, best), mine)
            if threshold < np.inf:
                middle = start + _part(x[column], threshold, own, spare)
                columns[node], thresholds[node], lefts[node] = column, threshold, used
                ends[used, 0], ends[used, 1], ends[used, 2] = start, middle, depth + 1
                ends[used + 1, 0], ends[used + 1, 1], ends[used + 1, 2] = (
                    middle,
                    stop,
                    depth + 1,
                )
                used += 2
        node += 1
    return used, ends[used - 1, 2]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _pack(own: _Own, packed: Array) -> None:
    """Sums of weights by arm."""
    packed[:] = 0.0
    for i in range(own.arms.size):
        packed[own.arms[i]] += own.weights[i]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _gains(
    packed: Array, settings: tuple[float, float, Array], sums: _Sums
) -> tuple[_Sums, float]:
    """The sums of arms that have rows, and what they explain; -1 if rewards are all 0
    or all 1 for each arm."""
    unit, centre, shares = settings
    here, alike, explained = 0, True, 0.0
    for k in range(packed.size):
        both = np.int64(packed[k])
        count, total = both >> _BITS, (both & _REST) * unit
        if count > 0:
            gain = total - count * centre
            sums.counts[here], sums.gains[here], sums.bounds[here + 1] = (
                count,
                gain,
                sums.bounds[here] + count,
            )
            explained += gain * gain * shares[count]
            alike = alike and (total == 0.0 or total == count)
            here += 1
    mine = _Sums(sums.counts[:here], sums.gains, sums.bounds, sums.running)
    return mine, -1.0 if alike else explained


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _cut(
    x: Array,
    own: _Own,
    chance: _Chance,
    settings: tuple[float, float, Array, float],
    sums: _Sums,
) -> tuple[int, float]:
    """The best candidate's column and threshold, infinite if none explains more than
    the node as it is."""
    unit, centre, shares, none = settings
    best, column, threshold = none * (1 + 1e-9) + 1e-9, 0, np.inf
    first = chance.node * chance.candidates
    for c in range(first, first + chance.candidates, 2):
        one = _candidate(x, own.order, _mixed(chance.key, c), chance.tries)
        two = one
        if c + 1 < first + chance.candidates:
            two = _candidate(x, own.order, _mixed(chance.key, c + 1), chance.tries)
        _run(x[one[0]], x[two[0]], (one[1], two[1]), own, sums.running)
        for side in range(2):
            cut = one if side == 0 else two
            size = np.int64(sums.running[own.order.size, side]) >> _BITS
            if cut[1] < np.inf and size >= 2 and own.order.size - size >= 2:
                explained = _explained(sums, side, (unit, centre, shares))
                if explained > best:
                    best, column, threshold = explained, cut[0], cut[1]
    return column, threshold


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _run(
    one: Array, two: Array, thresholds: tuple[float, float], own: _Own, running: Array
) -> None:
    """Running sums of the weights that go left, by two candidates at once: one's
    additions need not wait for itself."""
    total, other = 0.0, 0.0
    for i in range(own.order.size):
        row, weight = own.order[i], own.weights[i]
        total += weight * np.float64(not one[row] > thresholds[0])
        other += weight * np.float64(not two[row] > thresholds[1])
        running[i + 1, 0], running[i + 1, 1] = total, other


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _explained(sums: _Sums, side: int, settings: tuple[float, float, Array]) -> float:
    """What the arms' means on both sides of a cut explain."""
    unit, centre, shares = settings
    explained = 0.0
    for k in range(sums.counts.size):
        both = np.int64(
            sums.running[sums.bounds[k + 1], side] - sums.running[sums.bounds[k], side]
        )
        count = both >> _BITS
        gain = (both & _REST) * unit - count * centre
        rest = sums.gains[k] - gain
        explained += (
            gain * gain * shares[count] + rest * rest * shares[sums.counts[k] - count]
        )
    return explained


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _mixed(key: int, number: int) -> np.uint64:
    """64 random bits (splitmix64)."""
    z = np.uint64(key) + np.uint64(number + 1) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits: np.uint64 = z ^ (z >> np.uint64(31))
    return bits


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _candidate(
    x: Array, order: Marks, bits: np.uint64, tries: int
) -> tuple[np.int64, float]:
    """A random column, and the midpoint of two random rows in it; infinite if both are
    missing."""
    few, size = np.uint64(2**22 - 1), np.uint64(order.size)
    column = np.int64(
        ((bits >> np.uint64(44)) * np.uint64(x.shape[0])) >> np.uint64(20)
    )
    one = np.int64((((bits >> np.uint64(22)) & few) * size) >> np.uint64(22))
    other = np.int64(((bits & few) * size) >> np.uint64(22))
    first, second = x[column, order[one]], x[column, order[other]]
    for _ in range(tries):
        if first != second:
            break
        other = np.int64(other + 1 if other + 1 < order.size else 0)
        second = x[column, order[other]]
    middle: float = 0.5 * first + 0.5 * second
    if np.isnan(middle):
        middle = np.inf if np.isnan(first) and np.isnan(second) else -np.inf
    return column, middle


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _part(numbers: Array, threshold: float, own: _Own, spare: _Own) -> np.int64:
    """Rows that go left come first, both sides in the order they had; returns how many
    they are."""
    lefts, rights = np.int64(0), np.int64(0)
    for i in range(own.order.size):
        row, arm, weight = own.order[i], own.arms[i], own.weights[i]
        own.order[lefts], own.arms[lefts], own.weights[lefts] = row, arm, weight
        spare.order[rights], spare.arms[rights], spare.weights[rights] = (
            row,
            arm,
            weight,
        )
        goes = np.int64(not numbers[row] > threshold)
        lefts += goes
        rights += 1 - goes
    for i in range(rights):
        own.order[lefts + i], own.arms[lefts + i] = spare.order[i], spare.arms[i]
        own.weights[lefts + i] = spare.weights[i]
    return lefts
