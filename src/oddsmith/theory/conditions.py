"""certify: whether a loss satisfies the paper's conditions C1, C3, C4, and with which
constants (theory, section 4).

A loss that is proper has Savage's form: l1'(g) = -(1-g) w(g), l0'(g) = g w(g) with a
weight w >= 0. Then M_1(f, g) = E lhat = ∫_f^g (u-f) w(u) du, A = ∫_f^g w, and E lhat² =
M_1² + f(1-f) A² for 0/1 rewards of mean f.
"""

from dataclasses import dataclass
from functools import cached_property
from math import inf, sqrt
from typing import NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, check_range, number, whole
from oddsmith.core.errors import InvalidInput
from oddsmith.core.losses import Loss
from oddsmith.theory.constants import Coefficient
from oddsmith.theory.moments import VANISHING, evaluated, slopes, smallest, weight_at

__all__ = ["Certificate", "Counterexample", "certify"]

_TOLERANCE = 1e-10


class Counterexample(NamedTuple):
    """True mean f and prediction g at which a condition breaks, with E lhat and E lhat²
    there."""

    condition: str
    f: float
    g: float
    mean: float
    square: float


@dataclass(frozen=True, eq=False)
class Certificate:
    """What `certify` found: `holds`, or a `counterexample`; bounds on kappa_2; the
    weight w; the range of lhat.

    kappa_2 (raw, not normalised) lies in [kappa2_lower, kappa2_upper]; the upper end is
    proved by cell bounds up to the supremum of w inside a cell, which is taken from its
    neighbours. `scale` is the largest |lhat|: divide the loss by it and C3 holds.
    `savage` says whether the loss has Savage's form on the grid.
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
        """sqrt(4K/(γ w_min)): C2 for every expert (theory 3.2); infinite where w
        vanishes."""
        number("gamma", gamma, low=0, high=1, open_low=True)
        return sqrt(4 * n_arms / (gamma * self.w_min)) if self.w_min > 0 else inf

    def c(self, eta: float) -> float:
        """The largest c with 1 - E exp(-eta lhat) >= c (f-g)² for all means and
        predictions; 0 or less if none is."""
        number("eta", eta, low=0, high=inf, open_low=True)
        return smallest(self.loss, self.low, self.high, eta)

    def critical_eta(self) -> float:
        """The largest eta with c(eta) > 0, beyond which nothing is promised; 0 where no
        eta has one."""
        return self._critical

    @cached_property
    def _critical(self) -> float:
        high = 1 / self.w_max
        if not self.c(1e-3 * high) > 0:
            return 0.0
        low = 0.0
        for _ in range(60):
            if not self.c(high) > 0:
                break
            low, high = high, 2 * high
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if self.c(middle) > 0 else (low, middle)
        return low

    def best(self) -> Coefficient:
        """The eta with the largest c(eta), and that c; refused where the conditions
        break or no c is positive."""
        return self._best

    @cached_property
    def _best(self) -> Coefficient:
        if self.counterexample is not None:
            broken = self.counterexample
            where = f"{broken.condition} at mean {broken.f:g}, prediction {broken.g:g}"
            raise InvalidInput(f"loss must satisfy the conditions; it breaks {where}")
        from scipy.optimize import minimize_scalar

        top = self.critical_eta()
        if top == 0:
            raise InvalidInput(
                "loss must tell all predictions apart to have a bound; its weight w "
                "vanishes somewhere"
            )
        options = {"xatol": 1e-9 * top}
        found = minimize_scalar(
            lambda eta: -self.c(eta),
            bounds=(1e-6 * top, top),
            method="bounded",
            options=options,
        )
        return Coefficient(float(found.x), float(-found.fun))


def certify(
    loss: Loss, low: float = 0.0, high: float = 1.0, *, n: int = 400
) -> Certificate:
    """A certificate of the conditions for predictions and means in [low, high], on a
    grid of n cells.

    >>> from oddsmith.core.losses import square_loss
    >>> found = certify(square_loss)
    >>> found.holds, round(found.kappa2_lower, 4), round(found.kappa2_upper, 3)
    (True, 1.3333, 1.337)
    >>> certify(lambda g, r: abs(g - r)).counterexample.condition
    'C1'
    """
    check_range(low, high)
    if not callable(loss):
        raise InvalidInput(
            f"loss must be a function of prediction and reward; got {loss!r}"
        )
    whole("n", n, low=10)
    grid = np.linspace(low, high, n + 1)
    l1, l0 = evaluated(loss, grid, 1.0), evaluated(loss, grid, 0.0)
    broken = _infinite(grid, l1, l0)
    if broken is not None:
        return Certificate(loss, low, high, broken, False, inf, inf, 0.0, inf, inf)
    scale = max(float(np.ptp(l1)), float(np.ptp(l0)))
    broken = (
        _broken(grid, l1, l0, scale)
        or _off_centre(loss, grid, scale)
        or _jump(loss, grid, l1, l0, scale)
    )
    mass = np.diff(l0) - np.diff(l1)  # ∫ w over each cell, exactly
    weight = np.concatenate([mass / (grid[1] - grid[0]), weight_at(loss, grid)])
    if broken is not None:
        return Certificate(loss, low, high, broken, False, inf, inf, 0.0, inf, scale)
    first, second = _moments(grid, l1, l0)
    off = first > _TOLERANCE * max(scale, 1e-300)
    lower = float((second[off] / first[off]).max()) if off.any() else 0.0
    upper = max(_upper(grid, first, mass), lower)
    w_max = max(float(weight.max()), 1e-300)
    w_min = float(weight.min()) if weight.min() > VANISHING * w_max else 0.0
    return Certificate(loss, low, high, None, True, lower, upper, w_min, w_max, scale)


def _off_centre(loss: Loss, grid: Array, scale: float) -> Counterexample | None:
    """C1 next to the diagonal: f l1'(f) + (1-f) l0'(f) must be 0, or a prediction
    beside the truth is better."""
    low, high = float(grid[0]), float(grid[-1])
    f = (grid[:-1] + grid[1:]) / 2
    one, zero = slopes(loss, f, low, high)
    drift, weight = f * one + (1 - f) * zero, np.maximum(zero - one, 1e-300)
    reach = (high - low) / 4
    g = np.clip(f - np.clip(drift / weight, -reach, reach), low, high)
    d1, d0 = (evaluated(loss, g, r) - evaluated(loss, f, r) for r in (1.0, 0.0))
    first = f * d1 + (1 - f) * d0
    i = int(first.argmin())
    if first[i] >= -1e-12 * scale:
        return None
    return Counterexample(
        "C1",
        float(f[i]),
        float(g[i]),
        float(first[i]),
        float((f * d1**2 + (1 - f) * d0**2)[i]),
    )


def _jump(
    loss: Loss, grid: Array, l1: Array, l0: Array, scale: float
) -> Counterexample | None:
    """C4 at a jump of the loss: on its two sides E lhat is nearly 0 and E lhat² is
    not."""
    mass = np.diff(l0) - np.diff(l1)
    for cell in np.argsort(-mass)[:8]:
        a, b = float(grid[cell]), float(grid[cell + 1])
        for _ in range(30):
            points = np.array([a, (a + b) / 2, b])
            rise = np.diff(evaluated(loss, points, 0.0)) - np.diff(
                evaluated(loss, points, 1.0)
            )
            a, b = (
                (a, float(points[1])) if rise[0] >= rise[1] else (float(points[1]), b)
            )
        ends = np.array([a, b])
        one, zero = (np.diff(evaluated(loss, ends, r))[0] for r in (1.0, 0.0))
        if zero - one > 1e-5 * scale and a > 0 and b < 1:
            return Counterexample(
                "C4",
                a,
                b,
                float(a * one + (1 - a) * zero),
                float(a * one**2 + (1 - a) * zero**2),
            )
    return None


def _infinite(grid: Array, l1: Array, l0: Array) -> Counterexample | None:
    """C3 needs bounded shifted losses."""
    for values in (l1, l0):
        if np.isinf(values).any():
            g = float(grid[np.isinf(values)][0])
            return Counterexample("C3", float(grid[len(grid) // 2]), g, inf, inf)
    return None


def _moments(grid: Array, l1: Array, l0: Array) -> tuple[Array, Array]:
    """E lhat and E lhat² for every mean f (rows) and prediction g (columns) of the
    grid."""
    f = grid[:, None]
    d1, d0 = l1[None, :] - l1[:, None], l0[None, :] - l0[:, None]
    return f * d1 + (1 - f) * d0, f * d1**2 + (1 - f) * d0**2


def _broken(grid: Array, l1: Array, l0: Array, scale: float) -> Counterexample | None:
    """The worst violation of C1 on the grid, or else a point where E lhat = 0 < E
    lhat², which breaks C4."""
    first, second = _moments(grid, l1, l0)
    i, j = np.unravel_index(int(first.argmin()), first.shape)
    if first[i, j] < -_TOLERANCE * scale:
        return Counterexample(
            "C1",
            float(grid[i]),
            float(grid[j]),
            float(first[i, j]),
            float(second[i, j]),
        )
    flat = np.where(first <= _TOLERANCE * scale, second, 0.0)
    i, j = np.unravel_index(int(flat.argmax()), flat.shape)
    if flat[i, j] > 1e-4 * scale**2:
        return Counterexample(
            "C4",
            float(grid[i]),
            float(grid[j]),
            float(first[i, j]),
            float(second[i, j]),
        )
    return None


def _upper(grid: Array, first: Array, mass: Array) -> float:
    """An upper bound on M_1 + f(1-f) A²/M_1 over all cells of f and g: M_1 and |A| are
    monotone in the interval."""
    variance = np.where(
        (grid[:-1] <= 0.5) & (grid[1:] >= 0.5),
        0.25,
        np.maximum(*(e * (1 - e) for e in (grid[:-1], grid[1:]))),
    )
    around = np.pad(mass / (grid[1] - grid[0]), 1, mode="edge")
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
    return np.maximum.accumulate(table, axis=1)
