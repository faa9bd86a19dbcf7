"""Compiled kernel (numba) of the quadrature in `best_arm`, one row of arms at a
time."""

from math import erfc, lgamma, log, log1p, sqrt

import numpy as np
from numba import njit

from oddsmith.core.arrays import Array
from oddsmith.experts.best_arm import (
    BETA,
    GROWTH,
    NODES,
    OPTIMIST,
    PARTIAL,
    REACH,
    WEIGHTS,
    WIDTH,
)
from oddsmith.experts.kernels.vectormath import exp

__all__ = ["best"]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def best(kind: int, first: Array, second: Array, odds: Array) -> None:
    """Fill `odds` (rows, K) for arms with these parameters (rows, K): means and sds, or
    a and b of Beta distributions."""
    rows, n_arms = odds.shape
    places = np.empty((n_arms, 7))
    constants = np.empty(n_arms)
    for row in range(rows):
        for a in range(n_arms):
            constants[a] = _arm(kind, first[row, a], second[row, a], places[a])
        odds[row] = 0.0
        if kind == OPTIMIST:
            _atoms(first[row], second[row], odds[row])
        _integrate(kind, places, (first[row], second[row], constants), odds[row])
        total = 0.0
        for a in range(n_arms):
            odds[row, a] = max(odds[row, a], 0.0)
            total += odds[row, a]
        odds[row] /= total


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _arm(kind: int, first: float, second: float, place: Array) -> float:
    """Fill an arm's row of `ranges`. Return the log normalising constant of its
    density."""
    if kind != BETA:
        reach = REACH * second
        place[0] = first
        place[1] = WIDTH * second
        place[2] = 3 * second
        place[3] = np.inf
        place[4] = np.inf
        place[5] = first - reach
        place[6] = first + reach
        return -log(second) - 0.9189385332046727
    mode = log(first) - log(second)
    sd = sqrt(_trigamma(first) + _trigamma(second))
    reach = min(REACH * sd, 8.0)
    place[0] = mode
    place[1] = WIDTH * min(sd, 1.0)
    place[2] = min(3 * sd, 6.0)
    place[3] = 2.5 / first
    place[4] = 2.5 / second
    place[5] = mode - reach - 21 / first
    place[6] = mode + reach + 21 / second
    return lgamma(first + second) - lgamma(first) - lgamma(second)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _trigamma(x: float) -> float:
    """Return the trigamma function ψ'(x): recurrence up to 8, then its asymptotic
    series."""
    trigamma = 0.0
    while x < 8.0:
        trigamma += 1 / (x * x)
        x += 1.0
    y = 1 / (x * x)
    series = 1 / 6 - y * (1 / 30 - y * (1 / 42 - y / 30))
    return trigamma + 1 / x + y / 2 + y / x * series


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _width(kind: int, x: float, places: Array) -> float:
    """Return the largest width of the cell that starts at x."""
    width = np.inf
    for a in range(places.shape[0]):
        mode = places[a, 0]
        cell = places[a, 1]
        if x >= places[a, 6]:
            continue
        allowed = places[a, 5] - x
        if x >= places[a, 5]:
            beyond = abs(x - mode) - places[a, 2]
            allowed = cell
            if beyond > 0:
                widest = places[a, 3] if x < mode else places[a, 4]
                allowed = max(cell, min(widest, cell + GROWTH * beyond))
        if kind == OPTIMIST and x < mode:
            allowed = min(allowed, mode - x)
        width = min(width, allowed)
    return width


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _integrate(
    kind: int, places: Array, parameters: tuple[Array, Array, Array], odds: Array
) -> None:
    """Add ∫ p_a Π F_b to the probabilities (K,), cell by cell. In cells where at most
    one arm has mass, only the distribution functions F are updated."""
    n_arms = odds.size
    dense = np.empty((5, n_arms))
    up_to = np.empty(n_arms)
    others = np.empty(n_arms)
    start = np.zeros(n_arms)
    risen = np.empty(n_arms)
    # No arm can be best below `lowest`, the second largest left end.
    x = np.inf
    end = -np.inf
    lowest = -np.inf
    top = -np.inf
    for a in range(n_arms):
        left = places[a, 5]
        x = min(x, left)
        end = max(end, places[a, 6])
        lowest = max(lowest, min(top, left))
        top = max(top, left)
    while x < end:
        following = min(x + _width(kind, x, places), end)
        if following <= x:  # the step is smaller than the spacing of floats
            following = np.nextafter(x, np.inf)
        half = (following - x) / 2
        _densities(kind, x, half, parameters, dense)
        if following > lowest:
            for a in range(n_arms):
                risen[a] = start[a]
                if kind == OPTIMIST and x >= places[a, 0]:
                    risen[a] += 0.5
            for i in range(5):
                p0 = PARTIAL[i, 0]
                p1 = PARTIAL[i, 1]
                p2 = PARTIAL[i, 2]
                p3 = PARTIAL[i, 3]
                p4 = PARTIAL[i, 4]
                for a in range(n_arms):
                    inside = (
                        p0 * dense[0, a]
                        + p1 * dense[1, a]
                        + p2 * dense[2, a]
                        + p3 * dense[3, a]
                        + p4 * dense[4, a]
                    )
                    up_to[a] = risen[a] + inside
                _others(up_to, others)
                for a in range(n_arms):
                    odds[a] += WEIGHTS[i] * dense[i, a] * others[a]
        for i in range(5):
            for a in range(n_arms):
                start[a] += WEIGHTS[i] * dense[i, a]
        x = following


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _densities(
    kind: int,
    left: float,
    half: float,
    parameters: tuple[Array, Array, Array],
    dense: Array,
) -> None:
    """Fill the arms' densities at the cell's nodes, times half its width (5, K)."""
    first, second, constants = parameters
    n_arms = dense.shape[1]
    for i in range(5):
        x = left + half + half * NODES[i]
        if kind == BETA:
            tail = log1p(np.exp(-abs(x)))
            # ahead is ln θ, behind is ln(1 - θ).
            ahead = min(x, 0.0) - tail
            behind = min(-x, 0.0) - tail
            for a in range(n_arms):
                exponent = constants[a] + first[a] * ahead + second[a] * behind
                dense[i, a] = half * exp(exponent)
            continue
        for a in range(n_arms):
            z = (x - first[a]) / second[a]
            dense[i, a] = half * exp(constants[a] - 0.5 * z * z)
        if kind == OPTIMIST:
            for a in range(n_arms):
                dense[i, a] = dense[i, a] if x >= first[a] else 0.0


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _others(up_to: Array, others: Array) -> None:
    """Fill the product over all other arms (K,), without division."""
    product = 1.0
    for a in range(up_to.size):
        others[a] = product
        product *= up_to[a]
    product = 1.0
    for a in range(up_to.size - 1, -1, -1):
        others[a] *= product
        product *= up_to[a]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _atoms(means: Array, sds: Array, won: Array) -> None:
    """Fill the probability that an optimist's arm wins with its mean, which is 1/2 if
    the means of all others are smaller. Tied arms share it."""
    for a in range(means.size):
        won[a] = 0.5
        ties = 1
        for b in range(means.size):
            if b != a:
                if means[a] < means[b]:
                    won[a] = 0.0
                elif means[a] == means[b]:
                    won[a] *= 0.5
                    ties += 1
                else:
                    won[a] *= 0.5 * erfc((means[b] - means[a]) / (sds[b] * sqrt(2.0)))
        won[a] /= ties
