"""A loss in numbers: its values and slopes, its weight w = l0' - l1', and the
exponential-moment constant c(eta)."""

from collections.abc import Callable

import numpy as np

from oddsmith.core.arrays import Array, Real
from oddsmith.core.errors import InvalidInput
from oddsmith.core.losses import Loss

__all__ = ["VANISHING", "least_ratio", "loss_values", "slopes", "weight_at"]

VANISHING = 1e-5  # a weight below this share of the largest counts as 0
_NEAR = 1e-4


def loss_values(loss: Loss, grid: Array, reward: float) -> Array:
    """The losses of the predictions on the grid, checked."""
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
    missing = np.isnan(values)
    if missing.any():
        prediction = grid[missing][0]
        raise InvalidInput(
            f"loss must be a number on [{grid.min():g}, {grid.max():g}]; got NaN at "
            f"prediction {prediction:g}, reward {reward:g}"
        )
    return values


def slopes(loss: Loss, points: Array, low: float, high: float) -> tuple[Array, Array]:
    """Derivatives of l1 and l0 by differences over 2e-6 of the range, one-sided at its
    ends."""
    step = 1e-6 * (high - low)
    left = np.maximum(points - step, low)
    right = np.minimum(points + step, high)
    width = right - left
    one = loss_values(loss, right, 1.0) - loss_values(loss, left, 1.0)
    zero = loss_values(loss, right, 0.0) - loss_values(loss, left, 0.0)
    return one / width, zero / width


def weight_at(loss: Loss, grid: Array) -> Array:
    """w = l0' - l1' at the points of the grid."""
    one, zero = slopes(loss, grid, float(grid[0]), float(grid[-1]))
    return zero - one


def least_ratio(loss: Loss, low: float, high: float, eta: float) -> float:
    """inf over f, g of (1 - rho)/(f-g)²: the diagonal's limit, and a grid refined where
    it is least."""
    grid = np.linspace(low, high, 201)
    weight = weight_at(loss, grid)
    rate = eta * weight
    on_diagonal = rate / 2 - rate**2 * grid * (1 - grid) / 2
    best = float(on_diagonal.min())
    if best <= 0 or weight.min() <= VANISHING * weight.max():
        # eta is beyond its critical value, or w vanishes somewhere
        return min(best, 0.0)
    ratio = _ratio(loss, eta, high)
    values = ratio(grid[:, None], grid[None, :])
    places = np.argsort(values, axis=None)[:: len(grid) // 4]
    for place in places[:5]:
        i, j = np.unravel_index(int(place), values.shape)
        nearby = _descend(ratio, float(grid[i]), float(grid[j]), (low, high))
        best = min(best, nearby)
    return best


def _descend(
    ratio: Callable[[Real, Real], Array], f: float, g: float, span: tuple[float, float]
) -> float:
    """The least value near (f, g): along f, along g, and again."""
    from scipy.optimize import minimize_scalar

    low, high = span
    step = (high - low) / 200
    point = [f, g]
    best = float(ratio(f, g))
    options = {"xatol": 1e-12}
    for turn in range(12):
        axis = turn % 2

        def along(x: float, axis: int = axis) -> float:
            return float(ratio(x, point[1]) if axis == 0 else ratio(point[0], x))

        bounds = (max(low, point[axis] - step), min(high, point[axis] + step))
        found = minimize_scalar(along, bounds=bounds, method="bounded", options=options)
        if found.fun < best:
            best = float(found.fun)
            point[axis] = float(found.x)
    return best


def _ratio(loss: Loss, eta: float, high: float) -> Callable[[Real, Real], Array]:
    """(1 - E exp(-eta lhat))/(f-g)²; nearer to the diagonal than 1e-4, where floats are
    0/0, its value there."""

    def ratio(f: Real, g: Real) -> Array:
        mean = np.asarray(f, dtype=np.float64)
        prediction = np.asarray(g, dtype=np.float64)
        mean, prediction = np.broadcast_arrays(mean, prediction)
        aside = np.where(mean + _NEAR <= high, mean + _NEAR, mean - _NEAR)
        is_apart = np.abs(mean - prediction) >= _NEAR
        prediction = np.where(is_apart, prediction, aside)
        with np.errstate(all="ignore"):
            one = np.expm1(-eta * (loss(prediction, 1.0) - loss(mean, 1.0)))
            zero = np.expm1(-eta * (loss(prediction, 0.0) - loss(mean, 0.0)))
            gap = mean - prediction
            return -(mean * one + (1 - mean) * zero) / gap**2

    return ratio
