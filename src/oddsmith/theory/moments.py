"""Numerical properties of a loss: its values and slopes, its weight w = l0' - l1', and
the exponential-moment constant c(eta)."""

from collections.abc import Callable

import numpy as np

from oddsmith.core.arrays import Array, Real
from oddsmith.core.errors import InvalidInput
from oddsmith.core.losses import Loss

__all__ = ["VANISHING", "least_ratio", "loss_values", "slopes", "weight_at"]

VANISHING = 1e-5  # a weight below this share of the largest weight counts as 0
_NEAR = 1e-4


def loss_values(loss: Loss, grid: Array, reward: float) -> Array:
    """Return the checked losses of the predictions on the grid."""
    try:
        values: Array = np.asarray(loss(grid, reward), dtype=np.float64)
    except Exception as error:  # report any exception of a user's loss as one sentence
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
        low = grid.min()
        high = grid.max()
        raise InvalidInput(
            f"loss must be a number on [{low:g}, {high:g}]; got NaN at prediction "
            f"{prediction:g}, reward {reward:g}"
        )
    return values


def slopes(loss: Loss, points: Array, low: float, high: float) -> tuple[Array, Array]:
    """Return the derivatives of l1 and l0 by differences over 2e-6 of the range,
    one-sided at its ends."""
    step = 1e-6 * (high - low)
    left = np.maximum(points - step, low)
    right = np.minimum(points + step, high)
    width = right - left
    one = loss_values(loss, right, 1.0) - loss_values(loss, left, 1.0)
    zero = loss_values(loss, right, 0.0) - loss_values(loss, left, 0.0)
    return one / width, zero / width


def weight_at(loss: Loss, grid: Array) -> Array:
    """Return w = l0' - l1' at the points of the grid."""
    low = float(grid[0])
    high = float(grid[-1])
    one, zero = slopes(loss, grid, low, high)
    return zero - one


def least_ratio(loss: Loss, low: float, high: float, eta: float) -> float:
    """Return inf over f, g of (1 - rho)/(f-g)², from the limit at the diagonal and a
    grid refined around its minimum."""
    grid = np.linspace(low, high, 201)
    weight = weight_at(loss, grid)
    rate = eta * weight
    variance = rate**2 * grid * (1 - grid)
    on_diagonal = rate / 2 - variance / 2
    best = float(on_diagonal.min())
    if best <= 0 or weight.min() <= VANISHING * weight.max():
        # Eta is above its critical value, or w is 0 somewhere.
        return min(best, 0.0)
    ratio = _ratio(loss, eta, high)
    values = ratio(grid[:, None], grid[None, :])
    every = len(grid) // 4
    places = np.argsort(values, axis=None)[::every]
    for place in places[:5]:
        i, j = np.unravel_index(int(place), values.shape)
        start = (float(grid[i]), float(grid[j]))
        nearby = _descend(ratio, *start, (low, high))
        best = min(best, nearby)
    return best


def _descend(
    ratio: Callable[[Real, Real], Array], f: float, g: float, span: tuple[float, float]
) -> float:
    """Return the smallest value near (f, g) by alternating searches along f and g."""
    from scipy.optimize import minimize_scalar

    low, high = span
    step = (high - low) / 200
    point = [f, g]
    best = float(ratio(f, g))
    options = {"xatol": 1e-12}
    for turn in range(12):
        axis = turn % 2

        def along(x: float, axis: int = axis) -> float:
            if axis == 0:
                return float(ratio(x, point[1]))
            return float(ratio(point[0], x))

        least = max(low, point[axis] - step)
        most = min(high, point[axis] + step)
        bounds = (least, most)
        found = minimize_scalar(along, bounds=bounds, method="bounded", options=options)
        if found.fun < best:
            best = float(found.fun)
            point[axis] = float(found.x)
    return best


def _ratio(loss: Loss, eta: float, high: float) -> Callable[[Real, Real], Array]:
    """Return (1 - E exp(-eta lhat))/(f-g)². Closer to the diagonal than 1e-4, where
    floats would give 0/0, use the value at the diagonal."""

    def ratio(f: Real, g: Real) -> Array:
        mean = np.asarray(f, dtype=np.float64)
        prediction = np.asarray(g, dtype=np.float64)
        mean, prediction = np.broadcast_arrays(mean, prediction)
        above = mean + _NEAR
        aside = np.where(above <= high, above, mean - _NEAR)
        is_apart = np.abs(mean - prediction) >= _NEAR
        prediction = np.where(is_apart, prediction, aside)
        with np.errstate(all="ignore"):
            excess_one = loss(prediction, 1.0) - loss(mean, 1.0)
            excess_zero = loss(prediction, 0.0) - loss(mean, 0.0)
            one = np.expm1(-eta * excess_one)
            zero = np.expm1(-eta * excess_zero)
            gap = mean - prediction
            drift = mean * one + (1 - mean) * zero
            return -drift / gap**2

    return ratio
