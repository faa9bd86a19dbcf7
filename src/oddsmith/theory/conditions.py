"""certify: whether a loss satisfies the paper's conditions C1, C3, C4, and with which constants (theory, section 4).

A loss that is proper has Savage's form: l1'(g) = -(1-g) w(g), l0'(g) = g w(g) with a weight w >= 0. Then
M_1(f, g) = E lhat = ∫_f^g (u-f) w(u) du, A = ∫_f^g w, and E lhat² = M_1² + f(1-f) A² for 0/1 rewards of mean f.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np

from oddsmith.arrays import Array, check_range, number
from oddsmith.errors import InvalidInput
from oddsmith.losses import Loss
from oddsmith.theory.constants import Coefficient

__all__ = ["Certificate", "Counterexample", "certify"]

_TOLERANCE = 1e-10
_NEAR = 1e-4


class Counterexample(NamedTuple):
    """True mean f and prediction g at which a condition breaks, with E lhat and E lhat² there."""

    condition: str
    f: float
    g: float
    mean: float
    square: float


@dataclass(frozen=True, eq=False)
class Certificate:
    """What `certify` found: `holds`, or a `counterexample`; bounds on kappa_2; the weight w; the range of lhat.

    kappa_2 (raw, not normalised) lies in [kappa2_lower, kappa2_upper]; the upper end is proved by cell bounds up to
    the supremum of w inside a cell, which is taken from its neighbours. `scale` is the largest |lhat|: divide the loss
    by it and C3 holds. `savage` says whether the loss has Savage's form on the grid.
    """

    loss: Loss
    low: float
    high: float
    counterexample: Counterexample | None
    savage: bool
    kappa2_lower: float
    kappa2_upper: float
    w_min: float
    w_max: float
    scale: float

    @property
    def holds(self) -> bool:
        """Whether C1, C3 (after scaling) and C4 hold."""
        return self.counterexample is None

    def kappa1(self, n_arms: int, gamma: float) -> float:
        """sqrt(4K/(γ w_min)): C2 for every expert (theory 3.2); infinite where w vanishes."""
        number("gamma", gamma, low=0, high=1, open_low=True)
        return sqrt(4 * n_arms / (gamma * self.w_min)) if self.w_min > 0 else inf

    def c(self, eta: float) -> float:
        """The largest c with 1 - E exp(-eta lhat) >= c (f-g)² for all means f and predictions g: exact, numerically."""
        number("eta", eta, low=0, high=inf, open_low=True)
        return _smallest(self, eta)

    def critical_eta(self) -> float:
        """The largest eta with c(eta) > 0: beyond it nothing is promised."""
        low, high = 0.0, 1.0
        while high < 1e6 and self.c(high) > 0:
            low, high = high, 2 * high
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if self.c(middle) > 0 else (low, middle)
        return low

    def best(self) -> Coefficient:
        """The eta with the largest c(eta), and that c."""
        if not self.holds:
            raise InvalidInput(f"loss must satisfy the conditions; it breaks {self.counterexample}")
        from scipy.optimize import minimize_scalar

        top = self.critical_eta()
        found = minimize_scalar(
            lambda eta: -self.c(eta), bounds=(1e-6 * top, top), method="bounded", options={"xatol": 1e-9}
        )
        return Coefficient(float(found.x), float(-found.fun))


def certify(loss: Loss, low: float = 0.0, high: float = 1.0, *, n: int = 400) -> Certificate:
    """A certificate of the conditions for predictions and means in [low, high], on a grid of n cells.

    >>> from oddsmith.losses import square_loss
    >>> found = certify(square_loss)
    >>> found.holds, round(found.kappa2_lower, 4), round(found.kappa2_upper, 3)
    (True, 1.3333, 1.337)
    >>> certify(lambda g, r: abs(g - r)).counterexample.condition
    'C1'
    """
    check_range(low, high)
    if not callable(loss):
        raise InvalidInput(f"loss must be a function of prediction and reward; got {loss!r}")
    grid = np.linspace(low, high, n + 1)
    l1, l0 = _evaluated(loss, grid, 1.0), _evaluated(loss, grid, 0.0)
    broken = _infinite(grid, l1, l0) or _broken(grid, l1, l0)
    with np.errstate(invalid="ignore"):
        mass, moment = np.diff(l0) - np.diff(l1), np.diff(l0)  # ∫ w and ∫ u w over each cell, exactly
        mean = moment / np.where(mass > 0, mass, 1.0)
    cell = (high - low) / n
    savage = bool((mass >= -_TOLERANCE).all() and (np.abs(mean - (grid[:-1] + cell / 2)) <= cell)[mass > 1e-9].all())
    if broken is not None:
        return Certificate(loss, low, high, broken, savage, inf, inf, 0.0, inf, inf)
    first, second = _moments(grid, l1, l0)
    off = first > _TOLERANCE
    weight = mass / cell
    scale = max(float(np.ptp(l1)), float(np.ptp(l0)))
    lower = float((second[off] / first[off]).max()) if off.any() else 0.0
    upper = _upper(grid, first, mass, weight)
    return Certificate(loss, low, high, None, savage, lower, upper, float(weight.min()), float(weight.max()), scale)


def _evaluated(loss: Loss, grid: Array, reward: float) -> Array:
    values: Any = np.asarray(loss(grid, reward), dtype=np.float64)
    if values.shape != grid.shape:
        raise InvalidInput(f"loss must be elementwise; got shape {values.shape} for {len(grid)} predictions")
    if np.isnan(values).any():
        at = grid[np.isnan(values)][0]
        raise InvalidInput(
            f"loss must be a number on [{grid[0]:g}, {grid[-1]:g}]; got NaN at prediction {at:g}, reward {reward:g}"
        )
    checked: Array = values
    return checked


def _infinite(grid: Array, l1: Array, l0: Array) -> Counterexample | None:
    """C3 needs bounded shifted losses."""
    for values in (l1, l0):
        if np.isinf(values).any():
            g = float(grid[np.isinf(values)][0])
            return Counterexample("C3", float(grid[len(grid) // 2]), g, inf, inf)
    return None


def _moments(grid: Array, l1: Array, l0: Array) -> tuple[Array, Array]:
    """E lhat and E lhat² for every mean f (rows) and prediction g (columns) of the grid."""
    f = grid[:, None]
    d1, d0 = l1[None, :] - l1[:, None], l0[None, :] - l0[:, None]
    return f * d1 + (1 - f) * d0, f * d1**2 + (1 - f) * d0**2


def _broken(grid: Array, l1: Array, l0: Array) -> Counterexample | None:
    """The worst violation of C1, or else a point where E lhat = 0 < E lhat², which breaks C4."""
    first, second = _moments(grid, l1, l0)
    i, j = np.unravel_index(int(first.argmin()), first.shape)
    if first[i, j] < -_TOLERANCE:
        return Counterexample("C1", float(grid[i]), float(grid[j]), float(first[i, j]), float(second[i, j]))
    flat = np.where(first <= _TOLERANCE, second, 0.0)
    i, j = np.unravel_index(int(flat.argmax()), flat.shape)
    if flat[i, j] > 1e-4:
        return Counterexample("C4", float(grid[i]), float(grid[j]), float(first[i, j]), float(second[i, j]))
    return None


def _upper(grid: Array, first: Array, mass: Array, weight: Array) -> float:
    """An upper bound on M_1 + f(1-f) A²/M_1 over all cells of f and g: M_1 and |A| are monotone in the interval."""
    variance = np.where(
        (grid[:-1] <= 0.5) & (grid[1:] >= 0.5), 0.25, np.maximum(*(e * (1 - e) for e in (grid[:-1], grid[1:])))
    )
    around = np.pad(weight, 1, mode="edge")
    local = np.maximum(np.maximum(around[:-2], around[1:-1]), around[2:])
    summed = np.concatenate([[0.0], np.cumsum(mass)])
    i, j = np.meshgrid(np.arange(len(mass)), np.arange(len(mass)), indexing="ij")
    right = j >= i
    widest = np.where(right, first[i, j + 1], first[i + 1, j])
    least = np.where(right, first[i + 1, j], first[i, j + 1])
    least = np.where(np.abs(i - j) <= 1, 0.0, least)
    area = np.abs(np.where(right, summed[j + 1] - summed[i], summed[i + 1] - summed[j]))
    top = _running_max(local)[np.minimum(i, j), np.maximum(i, j)]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(least > 0, area**2 / least, inf)
    return float((widest + variance[i] * np.minimum(ratio, 2 * top)).max())


def _running_max(values: Array) -> Array:
    """maximum of values[i … j] for all i <= j, as a matrix."""
    table = np.broadcast_to(values, (len(values), len(values))).copy()
    table[np.tril_indices(len(values), -1)] = -inf
    result: Array = np.maximum.accumulate(table, axis=1)
    return result


def _smallest(certificate: Certificate, eta: float) -> float:
    """inf over f, g of (1 - rho)/(f-g)², on a grid, then refined where it is least."""
    from scipy.optimize import minimize_scalar

    grid = np.linspace(certificate.low, certificate.high, 201)
    ratio = _ratio(certificate.loss, eta, certificate.high)
    values = ratio(grid[:, None], grid[None, :])
    i, j = np.unravel_index(int(np.nanargmin(values)), values.shape)
    f, g, best = float(grid[i]), float(grid[j]), float(values[i, j])
    step = grid[1] - grid[0]
    for turn in range(12):  # along f, along g, and again
        point = [f, g]
        moving = turn % 2

        def along(x: float, point: list[float] = point, moving: int = moving) -> float:
            return float(ratio(x, point[1]) if moving == 0 else ratio(point[0], x))

        bounds = (max(certificate.low, point[moving] - step), min(certificate.high, point[moving] + step))
        found = minimize_scalar(along, bounds=bounds, method="bounded", options={"xatol": 1e-12})
        if found.fun < best:
            best, point[moving] = float(found.fun), float(found.x)
            f, g = point
    return best


def _ratio(loss: Loss, eta: float, high: float) -> Callable[[Any, Any], Any]:
    """(1 - E exp(-eta lhat))/(f-g)²; nearer to the diagonal than 1e-4, where floats are 0/0, its value there."""

    def ratio(f: Any, g: Any) -> Any:
        f, g = np.broadcast_arrays(np.asarray(f, dtype=np.float64), np.asarray(g, dtype=np.float64))
        aside = np.where(f + _NEAR <= high, f + _NEAR, f - _NEAR)
        g = np.where(np.abs(f - g) >= _NEAR, g, aside)
        with np.errstate(all="ignore"):
            up = np.expm1(-eta * (loss(g, 1.0) - loss(f, 1.0)))
            down = np.expm1(-eta * (loss(g, 0.0) - loss(f, 0.0)))
            return -(f * up + (1 - f) * down) / (f - g) ** 2

    return ratio
