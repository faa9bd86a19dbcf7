"""Probability that each of several independent arms is the best, by quadrature: exact
propensities of Thompson sampling.

Pr(a) = ∫ p_a(x) Π_{b≠a} F_b(x) dx. The line is divided into cells that are no wider
than the standard deviation of any arm with mass in them, so that no density changes
much within a cell, even if the arms' scales differ 1,000-fold. Every cell has five
Gauss-Legendre nodes; the distribution functions are running integrals of the densities
at the same nodes. The returned propensities are normalised, and arms are drawn from
exactly these; they differ from those of exact Thompson sampling by less than 1e-6.
"""

from collections.abc import Callable
from functools import cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from oddsmith.core import kernels
from oddsmith.core.arrays import Array, Bools

__all__ = [
    "BETA",
    "GROWTH",
    "NODES",
    "NORMAL",
    "OPTIMIST",
    "PARTIAL",
    "REACH",
    "WEIGHTS",
    "WIDTH",
    "beta_best",
    "normal_best",
    "ranges",
]

NORMAL = 0
OPTIMIST = 1
BETA = 2
REACH = 6.5
WIDTH = 1.5
GROWTH = 0.35
NODES, WEIGHTS = np.polynomial.legendre.leggauss(5)
Scalar = TypeVar("Scalar", bound=np.generic)
_CHUNK = 2_000_000  # maximum numbers per array in numpy code


def _partial() -> Array:
    """Return the integrals from -1 to node i of the polynomial that is 1 at node j and
    0 at the others, shape (5, 5)."""
    integrals = np.empty((5, 5))
    for j in range(5):
        others = np.delete(NODES, j)
        polynomial = np.polynomial.Polynomial.fromroots(others)
        denominator = np.prod(NODES[j] - others)
        integral = (polynomial / denominator).integ(lbnd=-1)
        integrals[:, j] = integral(NODES)
    return integrals


PARTIAL = _partial()


def normal_best(
    means: Array, sds: Array, eligible: Bools | None = None, *, optimist: bool = False
) -> Array:
    """Return the probability (…, K) that each of several independent normal variables
    is the largest. With `optimist`, a draw below the mean counts as the mean.

    A standard deviation of 0 means a certain value. Tied arms share the probability.

    >>> normal_best(np.array([0.0, 0.0, -9.0]), np.array([1.0, 1.0, 1e-3])).round(6)
    array([0.5, 0.5, 0. ])
    """
    means = np.asarray(means, dtype=np.float64)
    sds = np.asarray(sds, dtype=np.float64)
    gap = means.max(axis=-1) - means.min(axis=-1)
    spread = np.maximum(gap, sds.max(axis=-1))[..., None]
    # Replace a standard deviation of 0 by a tiny one.
    narrow = 1e-9 * np.where(spread > 0, spread, 1.0)
    kind = OPTIMIST if optimist else NORMAL
    return _best(kind, means, np.maximum(sds, narrow), eligible)


def beta_best(a: Array, b: Array, eligible: Bools | None = None) -> Array:
    """Return the probability (…, K) that each of several independent Beta(a, b) is the
    largest, computed on the log-odds scale.

    >>> beta_best(np.array([1.0, 2.0]), np.array([1.0, 1.0])).round(6)
    array([0.333333, 0.666667])
    """
    a = np.asarray(a, dtype=np.float64)
    b = np.asarray(b, dtype=np.float64)
    return _best(BETA, a, b, eligible)


def _best(kind: int, first: Array, second: Array, eligible: Bools | None) -> Array:
    """Compute the rows of arms, each with its mask, by compiled code if available,
    otherwise by numpy."""
    if eligible is None and first.ndim == 1 and first.shape == second.shape:
        single: Array = _odds(kind, first[None], second[None])[0]
        return single
    mask_shape = () if eligible is None else eligible.shape
    shape = np.broadcast_shapes(first.shape, second.shape, mask_shape)
    first = _rows(first, shape)
    second = _rows(second, shape)
    if eligible is None:
        return _odds(kind, first, second).reshape(shape)
    odds = np.zeros(first.shape)
    masks = _rows(eligible, shape)
    for pattern in np.unique(masks, axis=0):
        mine = (masks == pattern).all(axis=1)
        own_first = np.ascontiguousarray(first[mine][:, pattern])
        own_second = np.ascontiguousarray(second[mine][:, pattern])
        odds[np.ix_(mine, pattern)] = _odds(kind, own_first, own_second)
    return odds.reshape(shape)


def _rows(array: npt.NDArray[Scalar], shape: tuple[int, ...]) -> npt.NDArray[Scalar]:
    """Return the array broadcast to a shape (…, K), as contiguous rows (n, K)."""
    flat = np.broadcast_to(array, shape).reshape(-1, shape[-1])
    return np.ascontiguousarray(flat)


def _odds(kind: int, first: Array, second: Array) -> Array:
    """Return the probabilities of all rows (rows, K)."""
    if first.shape[1] == 1:
        return np.ones_like(first)
    odds = np.empty_like(first)
    if kernels.compiled() is not None:
        _compiled()(kind, first, second, odds)
        return odds
    size = max(1, _CHUNK // (odds.shape[1] ** 2 * 100))
    for start in range(0, len(odds), size):
        part = slice(start, start + size)
        odds[part] = _numpy(kind, first[part], second[part])
    return odds


@cache
def _compiled() -> Callable[[int, Array, Array, Array], None]:
    """Import the compiled kernel on first use."""
    from oddsmith.experts.kernels.best_arm import best

    twin: Callable[[int, Array, Array, Array], None] = best
    return twin


def ranges(kind: int, first: Array, second: Array) -> Array:
    """Return seven numbers per arm (…, 7): mode, cell width near it, largest distance
    that counts as near, largest cell to the left and to the right, and both ends.

    The tails of a normal distribution may have wider and wider cells. The log-odds of
    Beta(a, b) bend within a few units of their mode, even if they are wide, and then
    fall like exp(a x) to the left and exp(-b x) to the right."""
    if kind != BETA:
        reach = REACH * second
        unbounded = np.full_like(first, np.inf)
        columns = [
            first,
            WIDTH * second,
            3 * second,
            unbounded,
            unbounded,
            first - reach,
            first + reach,
        ]
        return np.stack(columns, axis=-1)
    from scipy.special import zeta

    # zeta(2, ·) is the trigamma function ψ'.
    mode = np.log(first) - np.log(second)
    sd = np.sqrt(zeta(2.0, first) + zeta(2.0, second))
    reach = np.minimum(REACH * sd, 8.0)
    lower = mode - reach - 21 / first
    upper = mode + reach + 21 / second
    columns = [
        mode,
        WIDTH * np.minimum(sd, 1.0),
        np.minimum(3 * sd, 6.0),
        2.5 / first,
        2.5 / second,
        lower,
        upper,
    ]
    return np.stack(columns, axis=-1)


def _cuts(kind: int, first: Array, second: Array) -> Array:
    """Return the cell borders (rows, cuts), starting at the leftmost end. Each cell is
    as wide as the narrowest arm allows.

    To the right of its own right end, an arm does not limit the width. Rows with fewer
    cells than others are padded with cells of width 0 at their end.
    """
    columns = np.moveaxis(ranges(kind, first, second), -1, 0)
    mode, width, near, widest_left, widest_right, left, right = columns
    x = left.min(axis=1, keepdims=True)
    end = right.max(axis=1, keepdims=True)
    cuts = [x]
    while (x < end).any():
        widest = np.where(x < mode, widest_left, widest_right)
        beyond = np.maximum(np.abs(x - mode) - near, 0.0)
        tail_cell = np.maximum(width, np.minimum(widest, width + GROWTH * beyond))
        cell = np.where(beyond > 0, tail_cell, width)
        cell = np.where(x < right, cell, np.inf)
        allowed = np.where(x < left, left - x, cell)
        # The distribution jumps at its mean, so a cell must end there.
        if kind == OPTIMIST:
            allowed = np.where(x < mode, np.minimum(allowed, mode - x), allowed)
        step = allowed.min(axis=1, keepdims=True)
        step = np.maximum(step, np.spacing(np.abs(x)))
        x = np.minimum(x + step, end)
        cuts.append(x)
    return np.concatenate(cuts, axis=1)


def _constants(kind: int, first: Array, second: Array) -> Array:
    """Return the log normalising constants of the densities (rows, K)."""
    if kind == BETA:
        from scipy.special import betaln

        return np.asarray(-betaln(first, second))
    return np.asarray(-np.log(second) - 0.9189385332046727)


def _density(
    kind: int, x: Array, first: Array, second: Array, constant: Array
) -> Array:
    if kind == BETA:  # density of the log-odds: θ^a (1-θ)^b / B(a, b)
        softplus = np.logaddexp(0.0, x)
        exponent = constant + first * (x - softplus)
        return np.exp(exponent - second * softplus)
    z = (x - first) / second
    dense = np.exp(constant - 0.5 * z * z)
    if kind == OPTIMIST:
        return np.where(x < first, 0.0, dense)
    return dense


def _numpy(kind: int, first: Array, second: Array) -> Array:
    """Return the probabilities of some rows (rows, K). Each row has its own cells,
    because padding with empty cells would change the rounding."""
    cuts = _cuts(kind, first, second)
    sizes = 1 + np.count_nonzero(cuts < cuts[:, -1:], axis=1)
    odds = np.empty_like(first)
    for size in np.unique(sizes):
        mine = sizes == size
        odds[mine] = _by_cells(kind, first[mine], second[mine], cuts[mine, :size])
    return odds


def _by_cells(kind: int, first: Array, second: Array, cuts: Array) -> Array:
    """Return the probabilities of some rows (rows, K) over cells between cuts (rows,
    cuts).

    Pr(a) = Σ over cells and nodes of weight · p_a · Π_{b≠a} F_b
    """
    half = np.diff(cuts, axis=1) / 2
    middle = cuts[:, :-1] + half
    x = middle[..., None] + half[..., None] * NODES  # (rows, cells, 5)
    constants = _constants(kind, first, second)
    parameters = (p[:, :, None, None] for p in (first, second, constants))
    density = _density(kind, x[:, None], *parameters)
    # (rows, K, cells, 5)
    dense = density * half[:, None, :, None]
    mass = dense @ WEIGHTS
    start = np.cumsum(mass, axis=2) - mass
    if kind == OPTIMIST:
        start = start + 0.5 * (cuts[:, None, :-1] >= first[..., None])
    up_to = start[..., None] + dense @ PARTIAL.T
    # Products over all earlier and over all later arms, per arm.
    ones = np.ones_like(up_to[:, :1])
    ahead = np.cumprod(np.concatenate([ones, up_to[:, :-1]], axis=1), axis=1)
    behind = np.cumprod(np.concatenate([ones, up_to[:, :0:-1]], axis=1), axis=1)
    inside = dense * ahead * behind[:, ::-1]
    mass = (inside @ WEIGHTS).sum(axis=-1)
    if kind == OPTIMIST:
        mass = mass + _atoms(first, second)
    mass = np.maximum(mass, 0.0)
    odds: Array = mass / mass.sum(axis=-1, keepdims=True)
    return odds


def _atoms(means: Array, sds: Array) -> Array:
    """Return the probability that an optimist's arm wins with its mean, which is 1/2 if
    the means of all others are smaller.

    If several arms have the same mean, each of them is at this mean with probability
    1/2, and the arms at the mean share the win.
    """
    from scipy.special import ndtr

    # Mean of arm a next to that of arm b, shape (rows, a, b).
    at = means[:, :, None]
    other = means[:, None, :]
    same = at == other
    below = ndtr((at - other) / sds[:, None, :])
    below = np.where(at < other, 0.0, below)
    others = np.where(same, 1.0, below)
    ties = same.sum(axis=2)
    won: Array = 0.5**ties / ties * others.prod(axis=2)
    return won
