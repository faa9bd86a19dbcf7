"""Covers: finite sets of weight vectors that contain a vector within `radius` of every
vector of a class."""

from collections.abc import Callable
from math import comb, prod
from typing import NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, finite, number, whole
from oddsmith.core.errors import InvalidInput, TooLarge

__all__ = ["Cover", "ball_cover", "grid_cover"]

_GIB = 2**30
# Bytes of memory per coordinate while building a cover: lattice, copy and points.
_COORDINATE = 24
_HUGE = 1e100


class Cover(NamedTuple):
    """Points (N, d) such that every vector of the class is within Euclidean distance
    `radius` of one of them.

    `n` is the number of points, `bound` the volumetric bound (1 + 2B/ε)^d for the ball
    of radius B around the class. With features of norm at most 1, the points cover the
    predictions of a linear class to ±radius, and those of a logistic class to ±radius/4
    (docs/math 5.7).
    """

    points: Array
    radius: float
    n: int
    bound: float


def grid_cover(
    low: object, high: object, *, radius: float, memory: int = _GIB
) -> Cover:
    """Return a cover of the box low <= θ <= high by the centres of equal cells of
    half-diagonal at most `radius`.

    >>> cover = grid_cover([0.0, 0.0], [1.0, 2.0], radius=0.5)
    >>> cover.n, cover.points[0]
    (6, array([0.25      , 0.33333333]))
    """
    lower = finite("low", low, ndim=1)
    upper = finite("high", high, ndim=1)
    if lower.shape != upper.shape or not (lower < upper).all():
        raise InvalidInput(
            f"low must be below high in every coordinate; got {lower.tolist()} and "
            f"{upper.tolist()}"
        )
    number("radius", radius, low=0, high=np.inf, open_low=True)
    d = len(lower)
    widths = (upper - lower).tolist()

    def cells_per_axis(r: float) -> list[int]:
        cells = [np.ceil(width * np.sqrt(d) / (2 * r) - 1e-9) for width in widths]
        return [max(1, int(n)) for n in cells]

    def n_cells(r: float) -> int:
        return prod(cells_per_axis(r))

    _check_fits(n_cells, radius, d, memory, what="grid_cover")
    axes = list[Array]()
    squared_radius = 0.0
    for lo, hi, n in zip(lower, upper, cells_per_axis(radius), strict=True):
        axes.append(lo + (hi - lo) * (np.arange(n) + 0.5) / n)
        squared_radius += ((hi - lo) / (2 * n)) ** 2
    grid = np.meshgrid(*axes, indexing="ij")
    points = np.stack([axis.ravel() for axis in grid], axis=-1)
    diameter = float(np.linalg.norm(upper - lower))
    bound = _volumetric(diameter / 2, radius, d)
    return Cover(points, float(np.sqrt(squared_radius)), len(points), bound)


def ball_cover(dim: int, bound: float, *, radius: float, memory: int = _GIB) -> Cover:
    """Return a cover of the ball ‖θ‖ <= bound in `dim` dimensions: the cells of a cubic
    grid that meet the ball, with centres projected onto it.

    Projecting a centre onto the ball, a convex set, moves it closer to every point of
    the ball, so the radius still holds.

    >>> cover = ball_cover(2, 1.0, radius=0.5)
    >>> cover.n, round(cover.bound)
    (9, 25)
    """
    whole("dim", dim)
    number("bound", bound, low=0, high=np.inf, open_low=True)
    number("radius", radius, low=0, high=np.inf, open_low=True)

    def n_cells(r: float) -> int:
        return _cells_in_ball(dim, bound, r)

    _check_fits(n_cells, radius, dim, memory, what="ball_cover")
    points = _cell_centres(dim, bound, radius)
    norms = np.linalg.norm(points, axis=1, keepdims=True)
    shrink = np.where(norms > bound, bound / np.maximum(norms, bound), 1.0)
    points = points * shrink
    return Cover(points, radius, len(points), _volumetric(bound, radius, dim))


def _volumetric(bound: float, radius: float, dim: int) -> float:
    """Return (1 + 2B/ε)^d, or inf if it overflows."""
    with np.errstate(over="ignore"):
        log_bound = dim * np.log1p(2 * bound / radius)
        return float(np.exp(log_bound))


def _reach(dim: int, bound: float, radius: float) -> tuple[float, int]:
    """Return the side of a cell with half-diagonal `radius`, and the squared distance
    4(B/side)² within which a cell meets the ball."""
    side = 2 * radius / np.sqrt(dim)
    squared = 4 * (bound / side) ** 2
    return side, int(np.floor(squared * (1 + 1e-12)))


def _cells_in_ball(dim: int, bound: float, radius: float) -> int:
    """Return the number of cells centred at side · ℤ^d that meet the ball, by counting
    lattice points through sums of squares (exact below 2^53).

    Along each axis, cell k begins at distance max(|k| - 1/2, 0) from the origin. The
    square of this distance is (2|k| - 1)² / 4 for k ≠ 0, so the sums count quarters.
    """
    if radius >= bound:
        return 1
    _, limit = _reach(dim, bound, radius)
    # The table of sums would be too long. Return the number of cells in a cube instead:
    # this upper bound is enough to raise an error.
    if limit > 1_000_000:
        base = np.sqrt(float(limit)) + 3.0
        return int(min(base ** min(dim, 40), _HUGE))
    most = int((np.sqrt(limit) + 1) / 2)
    squares = [(2 * k - 1) ** 2 for k in range(1, most + 1)]
    # ways[s] is the number of cells with nonzero k on the first `off_centre` axes whose
    # squares sum to s.
    ways = np.zeros(limit + 1)
    ways[0] = 1.0
    total = 0.0
    for off_centre in range(dim + 1):
        total += float(comb(dim, off_centre)) * float(ways.sum())
        following = np.zeros(limit + 1)
        for square in squares:
            following[square:] += 2 * ways[: limit + 1 - square]
        ways = following
        if not ways.any() or total > _HUGE:
            break
    return int(min(total, _HUGE))


def _cell_centres(dim: int, bound: float, radius: float) -> Array:
    """Return the centres of the cells that meet the ball. They are built axis by axis,
    leaving out cells that are already outside."""
    if radius >= bound:
        return np.zeros((1, dim))
    side, limit = _reach(dim, bound, radius)
    reach = int((np.sqrt(limit) + 1) / 2)
    ticks = np.arange(-reach, reach + 1)
    costs = np.where(ticks == 0, 0, (2 * np.abs(ticks) - 1) ** 2)
    points = np.zeros((1, 0), dtype=np.int64)
    spent = np.zeros(1, dtype=np.int64)
    for _ in range(dim):
        distances = spent[:, None] + costs[None, :]
        row, column = np.nonzero(distances <= limit)
        points = np.concatenate([points[row], ticks[column][:, None]], axis=1)
        spent = distances[row, column]
    return points * np.float64(side)


def _check_fits(
    count: Callable[[float], int], radius: float, dim: int, memory: int, *, what: str
) -> None:
    """Raise if a cover needs more than `memory` bytes, and suggest a radius that
    fits."""
    number("memory", memory, low=0, high=np.inf)
    needed = count(radius)
    most = memory / (dim * _COORDINATE)
    if needed <= most:
        return
    if most < 1:
        raise TooLarge(
            f"{what} in {dim} dimensions needs {dim * _COORDINATE} bytes for one "
            f"point; got memory={memory}"
        )
    low = radius
    high = radius
    while count(high) > most:
        low = high
        high = 2 * high
    for _ in range(20):
        middle = (low * high) ** 0.5
        if count(middle) <= most:
            high = middle
        else:
            low = middle
    size = f"{needed:.3g}" if needed < _HUGE else f"over {_HUGE:g}"
    raise TooLarge(
        f"{what} of radius {radius:g} in {dim} dimensions needs {size} points, more "
        f"than the {memory:,} bytes allowed; radius {high:.3g} would fit "
        f"({count(high):,} points), or raise memory"
    )
