"""A loss in numbers: its values and slopes, its weight w = l0' - l1', and the
exponential-moment constant c(eta)."""

from collections.abc import Callable

import numpy as np

from oddsmith.core.arrays import Array, Real
from oddsmith.core.errors import InvalidInput
from oddsmith.core.losses import Loss

__all__ = ["VANISHING", "evaluated", "slopes", "smallest", "weight_at"]

VANISHING = 1e-5  # a weight below this share of the largest counts as 0
_NEAR = 1e-4


def evaluated(loss: Loss, grid: Array, reward: float) -> Array:
    try:
        values: Array = np.asarray(loss(grid, reward), dtype=np.float64)
    except Exception as error:  # whatever user code raises becomes one sentence
        raised = f"{type(error).__name__}: {error}"
        raise InvalidInput(
            "loss must take an array of predictions and a reward; it raised "
            f"{raised:.120}"
        ) from error
    if values.shape != grid.shape:
        raise InvalidInput(
            f"loss must be elementwise; got shape {values.shape} for {grid.size} "
            "predictions"
        )
    if np.isnan(values).any():
        span, at = f"[{grid.min():g}, {grid.max():g}]", grid[np.isnan(values)][0]
        raise InvalidInput(
            f"loss must be a number on {span}; got NaN at prediction {at:g}, reward "
            f"{reward:g}"
        )
    return values


def slopes(loss: Loss, points: Array, low: float, high: float) -> tuple[Array, Array]:
    """Derivatives of l1 and l0 by differences over 2e-6 of the range, one-sided at its
    ends."""
    step = 1e-6 * (high - low)
    left, right = np.maximum(points - step, low), np.minimum(points + step, high)
    one, zero = (
        evaluated(loss, right, r) - evaluated(loss, left, r) for r in (1.0, 0.0)
    )
    return one / (right - left), zero / (right - left)


def weight_at(loss: Loss, grid: Array) -> Array:
    """w = l0' - l1' at the points of the grid."""
    one, zero = slopes(loss, grid, float(grid[0]), float(grid[-1]))
    return zero - one


def smallest(loss: Loss, low: float, high: float, eta: float) -> float:
    """inf over f, g of (1 - rho)/(f-g)²: the diagonal's limit, and a grid refined where
    it is least."""
    grid = np.linspace(low, high, 201)
    weight = weight_at(loss, grid)
    best = float((eta * weight / 2 - (eta * weight) ** 2 * grid * (1 - grid) / 2).min())
    if best <= 0 or weight.min() <= VANISHING * weight.max():
        # eta is beyond its critical value, or w vanishes somewhere
        return min(best, 0.0)
    ratio = _ratio(loss, eta, high)
    values = ratio(grid[:, None], grid[None, :])
    for place in np.argsort(values, axis=None)[:: len(grid) // 4][:5]:
        i, j = np.unravel_index(int(place), values.shape)
        best = min(best, _descended(ratio, float(grid[i]), float(grid[j]), (low, high)))
    return best


def _descended(
    ratio: Callable[[Real, Real], Array], f: float, g: float, span: tuple[float, float]
) -> float:
    """The least value near (f, g): along f, along g, and again."""
    from scipy.optimize import minimize_scalar

    point, best, step = [f, g], float(ratio(f, g)), (span[1] - span[0]) / 200
    for turn in range(12):
        moving = turn % 2

        def along(x: float, moving: int = moving) -> float:
            return float(ratio(x, point[1]) if moving == 0 else ratio(point[0], x))

        bounds = (
            max(span[0], point[moving] - step),
            min(span[1], point[moving] + step),
        )
        found = minimize_scalar(
            along, bounds=bounds, method="bounded", options={"xatol": 1e-12}
        )
        if found.fun < best:
            best, point[moving] = float(found.fun), float(found.x)
    return best


def _ratio(loss: Loss, eta: float, high: float) -> Callable[[Real, Real], Array]:
    """(1 - E exp(-eta lhat))/(f-g)²; nearer to the diagonal than 1e-4, where floats are
    0/0, its value there."""

    def ratio(f: Real, g: Real) -> Array:
        f, g = np.broadcast_arrays(
            np.asarray(f, dtype=np.float64), np.asarray(g, dtype=np.float64)
        )
        aside = np.where(f + _NEAR <= high, f + _NEAR, f - _NEAR)
        g = np.where(np.abs(f - g) >= _NEAR, g, aside)
        with np.errstate(all="ignore"):
            up = np.expm1(-eta * (loss(g, 1.0) - loss(f, 1.0)))
            down = np.expm1(-eta * (loss(g, 0.0) - loss(f, 0.0)))
            return -(f * up + (1 - f) * down) / (f - g) ** 2

    return ratio
