"""The probability that each of several independent arms is the best, by quadrature;
Thompson's rule as odds.

Pr(a) = ∫ p_a(x) Π_{b≠a} F_b(x) dx. The line is cut into cells no wider than the
standard deviation of any arm that has mass there, so that in no cell any density
changes much, whatever the scales: arms may differ 1,000-fold. In every cell five
Gauss-Legendre nodes; the distribution functions are the running integrals of the
densities at the same nodes. Odds are normalised, and what is drawn from is exactly what
is returned; against Thompson's rule they err by less than 1e-6.
"""

from collections.abc import Callable
from functools import cache

import numpy as np

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

NORMAL, OPTIMIST, BETA = 0, 1, 2
REACH, WIDTH, GROWTH = 6.5, 1.5, 0.35
NODES, WEIGHTS = np.polynomial.legendre.leggauss(5)
_CHUNK = 2_000_000  # numbers in one array of the numpy path, at most


def _partial() -> Array:
    """∫ from -1 to node i of the polynomial that is 1 at node j and 0 at the others (5,
    5)."""
    integrals = np.empty((5, 5))
    for j in range(5):
        others = np.delete(NODES, j)
        polynomial = np.polynomial.Polynomial.fromroots(others) / np.prod(
            NODES[j] - others
        )
        integral = polynomial.integ(lbnd=-1)
        integrals[:, j] = integral(NODES)
    return integrals


PARTIAL = _partial()


def normal_best(
    means: Array, sds: Array, eligible: Bools | None = None, *, optimist: bool = False
) -> Array:
    """Odds (…, K) that each of independent normals is the largest; with `optimist`, of
    max(draw, mean).

    A standard deviation of 0 is a sure value. Ties share.

    >>> normal_best(np.array([0.0, 0.0, -9.0]), np.array([1.0, 1.0, 1e-3])).round(6)
    array([0.5, 0.5, 0. ])
    """
    means, sds = np.asarray(means, dtype=np.float64), np.asarray(sds, dtype=np.float64)
    spread = np.maximum(means.max(axis=-1) - means.min(axis=-1), sds.max(axis=-1))[
        ..., None
    ]
    # a sure value is a very narrow one
    scale = np.maximum(sds, 1e-9 * np.where(spread > 0, spread, 1.0))
    return _best(OPTIMIST if optimist else NORMAL, means, scale, eligible)


def beta_best(a: Array, b: Array, eligible: Bools | None = None) -> Array:
    """Odds (…, K) that each of independent Beta(a, b) is the largest, computed on the
    log-odds scale.

    >>> beta_best(np.array([1.0, 2.0]), np.array([1.0, 1.0])).round(6)
    array([0.333333, 0.666667])
    """
    return _best(
        BETA, np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64), eligible
    )


def _best(kind: int, first: Array, second: Array, eligible: Bools | None) -> Array:
    """Rows of arms, each with its mask, through the compiled or the numpy path."""
    if eligible is None and first.ndim == 1 and first.shape == second.shape:
        single: Array = _odds(kind, first[None], second[None])[0]
        return single
    shape = np.broadcast_shapes(
        first.shape, second.shape, () if eligible is None else eligible.shape
    )
    n_arms = shape[-1]
    rows = [
        np.ascontiguousarray(np.broadcast_to(p, shape).reshape(-1, n_arms), np.float64)
        for p in (first, second)
    ]
    if eligible is None:
        return _odds(kind, *rows).reshape(shape)
    odds, masks = (
        np.zeros((len(rows[0]), n_arms)),
        np.broadcast_to(eligible, shape).reshape(-1, n_arms),
    )
    for pattern in np.unique(masks, axis=0):
        mine = (masks == pattern).all(axis=1)
        some = [np.ascontiguousarray(p[mine][:, pattern]) for p in rows]
        odds[np.ix_(mine, pattern)] = _odds(kind, *some)
    return odds.reshape(shape)


def _odds(kind: int, first: Array, second: Array) -> Array:
    """The odds of all rows (rows, K)."""
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
    """The compiled twin, imported on first use."""
    from oddsmith.experts.kernels.best_arm import best

    twin: Callable[[int, Array, Array, Array], None] = best
    return twin


def ranges(kind: int, first: Array, second: Array) -> Array:
    """For each arm (…, 7): mode, width of a cell near it, how far "near" is, largest
    cells left and right, both ends.

    A normal's tail may be cut more and more coarsely. The log-odds of Beta(a, b) bend
    within a few units of their mode, however wide they are, and then fall like exp(a x)
    to the left and exp(-b x) to the right.
    """
    if kind != BETA:
        ends = [first - REACH * second, first + REACH * second]
        return np.stack(
            [
                first,
                WIDTH * second,
                3 * second,
                *([np.full_like(first, np.inf)] * 2),
                *ends,
            ],
            axis=-1,
        )
    from scipy.special import zeta

    # zeta(2, ·) is ψ'
    mode, sd = (
        np.log(first) - np.log(second),
        np.sqrt(zeta(2.0, first) + zeta(2.0, second)),
    )
    near, reach = np.minimum(3 * sd, 6.0), np.minimum(REACH * sd, 8.0)
    cells = [WIDTH * np.minimum(sd, 1.0), near, 2.5 / first, 2.5 / second]
    return np.stack(
        [mode, *cells, mode - reach - 21 / first, mode + reach + 21 / second], axis=-1
    )


def _cuts(kind: int, first: Array, second: Array) -> Array:
    """Where the line is cut (rows, cuts): from the leftmost end on, each cell as wide
    as the narrowest arm allows.

    An arm out of reach allows what is left to it; rows that are done stay where they
    are, in cells of no width.
    """
    mode, width, near, widest_left, widest_right, left, right = np.moveaxis(
        ranges(kind, first, second), -1, 0
    )
    x, end = left.min(axis=1, keepdims=True), right.max(axis=1, keepdims=True)
    cuts = [x]
    while (x < end).any():
        widest = np.where(x < mode, widest_left, widest_right)
        beyond = np.maximum(np.abs(x - mode) - near, 0.0)
        cell = np.where(
            beyond > 0,
            np.maximum(width, np.minimum(widest, width + GROWTH * beyond)),
            width,
        )
        allowed = np.where(x < left, left - x, np.where(x < right, cell, np.inf))
        if kind == OPTIMIST:  # its distribution jumps at its mean, which must be a cut
            allowed = np.where(x < mode, np.minimum(allowed, mode - x), allowed)
        step = np.maximum(allowed.min(axis=1, keepdims=True), np.spacing(np.abs(x)))
        x = np.minimum(x + step, end)
        cuts.append(x)
    return np.concatenate(cuts, axis=1)


def _constants(kind: int, first: Array, second: Array) -> Array:
    """The logarithms of the densities' constants (rows, K)."""
    if kind == BETA:
        from scipy.special import betaln

        return np.asarray(-betaln(first, second))
    return np.asarray(-np.log(second) - 0.9189385332046727)


def _density(
    kind: int, x: Array, first: Array, second: Array, constant: Array
) -> Array:
    if kind == BETA:  # of the log-odds: θ^a (1-θ)^b / B(a, b)
        softplus = np.logaddexp(0.0, x)
        return np.exp(constant + first * (x - softplus) - second * softplus)
    z = (x - first) / second
    dense = np.exp(constant - 0.5 * z * z)
    return np.where(x < first, 0.0, dense) if kind == OPTIMIST else dense


def _numpy(kind: int, first: Array, second: Array) -> Array:
    """The odds of some rows (rows, K), each over its own cells: sums over further cells
    of no width would round in another way."""
    cuts = _cuts(kind, first, second)
    sizes = 1 + np.count_nonzero(cuts < cuts[:, -1:], axis=1)
    odds = np.empty_like(first)
    for size in np.unique(sizes):
        mine = sizes == size
        odds[mine] = _by_cells(kind, first[mine], second[mine], cuts[mine, :size])
    return odds


def _by_cells(kind: int, first: Array, second: Array, cuts: Array) -> Array:
    """The odds of some rows (rows, K) whose line is cut here (rows, cuts)."""
    half = np.diff(cuts, axis=1) / 2
    x = (cuts[:, :-1] + half)[..., None] + half[..., None] * NODES  # (rows, cells, 5)
    parameters = (
        p[:, :, None, None] for p in (first, second, _constants(kind, first, second))
    )
    # (rows, K, cells, 5)
    dense = _density(kind, x[:, None], *parameters) * half[:, None, :, None]
    mass = dense @ WEIGHTS
    start = np.cumsum(mass, axis=2) - mass
    if kind == OPTIMIST:
        start = start + 0.5 * (cuts[:, None, :-1] >= first[..., None])
    up_to = start[..., None] + dense @ PARTIAL.T
    ahead = np.cumprod(
        np.concatenate([np.ones_like(up_to[:, :1]), up_to[:, :-1]], axis=1), axis=1
    )
    behind = np.cumprod(
        np.concatenate([np.ones_like(up_to[:, :1]), up_to[:, :0:-1]], axis=1), axis=1
    )[:, ::-1]
    mass = ((dense * ahead * behind) @ WEIGHTS).sum(axis=-1)
    if kind == OPTIMIST:
        mass = mass + _atoms(first, second)
    mass = np.maximum(mass, 0.0)
    odds: Array = mass / mass.sum(axis=-1, keepdims=True)
    return odds


def _atoms(means: Array, sds: Array) -> Array:
    """What an optimist's arm wins by standing at its mean: half a chance, if all others
    are below it.

    Arms with the same mean stand together with probability 1/2 each, and then share.
    """
    from scipy.special import ndtr

    # where arm a stands, against arm b (rows, a, b)
    at, other = means[:, :, None], means[:, None, :]
    same = at == other
    others = np.where(
        same, 1.0, np.where(at < other, 0.0, ndtr((at - other) / sds[:, None, :]))
    )
    ties = same.sum(axis=2)
    won: Array = 0.5**ties / ties * others.prod(axis=2)
    return won
