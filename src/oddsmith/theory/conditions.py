"""certify: decide whether a loss satisfies the paper's conditions C1 to C4, and with
which constants (docs/math 4).

A grid search looks for counterexamples; `theory/proofs.py` proves that there are none
if the loss is a formula. If neither succeeds, the loss is not certified.

A loss that is proper has Savage's form: l1'(g) = -(1-g) w(g), l0'(g) = g w(g) with a
weight w >= 0. Then M_1(f, g) = E lhat = ∫_f^g (u-f) w(u) du, A = ∫_f^g w, and E lhat² =
M_1² + f(1-f) A² for 0/1 rewards of mean f.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from math import inf, sqrt
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from oddsmith.core.arrays import Array, check_range, number, whole
from oddsmith.core.errors import InvalidInput
from oddsmith.core.losses import Loss
from oddsmith.theory.constants import Coefficient
from oddsmith.theory.expressions import trace_loss
from oddsmith.theory.intervals import Interval
from oddsmith.theory.moments import (
    VANISHING,
    least_ratio,
    loss_values,
    slopes,
    weight_at,
)
from oddsmith.theory.proofs import Proof, prove, upper_kappa2

__all__ = ["Certificate", "Counterexample", "Rewards", "certify"]

_TOLERANCE = 1e-10


Rewards: TypeAlias = Literal["unit", "binary"]
"""Rewards anywhere in [0, 1], or only 0 and 1."""


class Counterexample(NamedTuple):
    """True mean f and prediction g that violate a condition, with E lhat and E lhat²
    there; the reward is one of `rewards` and has mean f."""

    condition: str
    f: float
    g: float
    mean: float
    square: float
    rewards: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Certificate:
    """The result of `certify`: a `proof`, a `counterexample`, or neither; then `reason`
    explains why there is no proof.

    kappa_2 (raw, not normalised) lies in [kappa2_lower, kappa2_upper], the weight w in
    [w_min, w_max]. With a proof, the outer ends are proved; without one they are
    estimates from the grid. `scale` is the largest |lhat|: C3 holds for the loss
    divided by it.
    """

    loss: Loss
    low: float
    high: float
    counterexample: Counterexample | None
    kappa2_lower: float
    kappa2_upper: float
    w_min: float
    w_max: float
    scale: float
    proof: Proof | None = None
    reason: str = ""
    n: int = 400
    rewards: Rewards = "unit"

    @property
    def holds(self) -> bool:
        """Whether C1 to C4 (C3 after scaling) are proved for these rewards."""
        return self.proof is not None

    def kappa1(self, n_arms: int, gamma: float) -> float:
        """Return sqrt(4K/(γ w_min)), for which C2 holds for every expert (docs/math
        3.2), or infinity if w vanishes."""
        number("gamma", gamma, low=0, high=1, open_low=True)
        if not self.w_min > 0:
            return inf
        return sqrt(4 * n_arms / (gamma * self.w_min))

    def c(self, eta: float) -> float:
        """Return a c with 1 - E exp(-eta lhat) >= c (f-g)² for all means and
        predictions, or a number of at most 0 if there is none.

        With a proof, c is proved, and smaller than the largest possible c by a
        thousandth or more. Without one it is an estimate of the largest c from a grid.
        """
        estimate = self.estimate(eta)
        if self.proof is None or estimate <= 0:
            return estimate
        return self.proof.c(eta, estimate)

    def estimate(self, eta: float) -> float:
        """Return the largest c for this eta found by a grid and a search, without a
        proof."""
        number("eta", eta, low=0, high=inf, open_low=True)
        return least_ratio(self.loss, self.low, self.high, eta)

    def critical_eta(self) -> float:
        """Return an estimate, from a grid, of the largest eta with c(eta) > 0, beyond
        which there are no guarantees; 0 if no eta has one."""
        return self._critical

    @cached_property
    def _critical(self) -> float:
        high = 1 / self.w_max
        if not self.estimate(1e-3 * high) > 0:
            return 0.0
        low = 0.0
        for _ in range(60):
            if not self.estimate(high) > 0:
                break
            low = high
            high *= 2
        for _ in range(24):
            middle = (low + high) / 2
            if self.estimate(middle) > 0:
                low = middle
            else:
                high = middle
        return low

    def best(self) -> Coefficient:
        """Return the eta with the largest c(eta), and that c. Raise if the conditions
        are violated or no c is positive."""
        return self._best

    @cached_property
    def _best(self) -> Coefficient:
        if self.counterexample is not None:
            broken = self.counterexample
            place = f"mean {broken.f:g}, prediction {broken.g:g}"
            where = f"{broken.condition} at {place}"
            raise InvalidInput(f"loss must satisfy the conditions; it breaks {where}")
        from scipy.optimize import minimize_scalar

        top = self.critical_eta()
        if top == 0:
            raise InvalidInput(
                "loss must distinguish all predictions to have a bound; its weight w "
                "vanishes somewhere"
            )
        options = {"xatol": 1e-9 * top}
        bounds = (1e-6 * top, top)
        found = minimize_scalar(
            lambda eta: -self.estimate(eta),
            bounds=bounds,
            method="bounded",
            options=options,
        )
        eta = float(found.x)
        return Coefficient(eta, self.c(eta))


def certify(
    loss: Loss,
    low: float = 0.0,
    high: float = 1.0,
    *,
    n: int = 400,
    rewards: Rewards = "unit",
) -> Certificate:
    """Return a certificate of the conditions for predictions and means in [low, high]
    and rewards in [0, 1], or only 0 and 1.

    A loss with a formula (+ - * / **, log, exp, sqrt; no comparisons) is proved by
    exact algebra and interval arithmetic over n cells. Any other loss is only checked
    on a grid of n cells, and `holds` stays False.

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
    if rewards not in get_args(Rewards):
        raise InvalidInput(f"rewards must be 'unit' or 'binary'; got {rewards!r}")
    grid = np.linspace(low, high, n + 1)
    l1 = loss_values(loss, grid, 1.0)
    l0 = loss_values(loss, grid, 0.0)
    broken = _infinite(grid, l1, l0)
    if broken is not None:
        return _refuted(loss, grid, broken, inf, rewards)
    spread_one = float(np.ptp(l1))
    spread_zero = float(np.ptp(l0))
    scale = max(spread_one, spread_zero)
    moments = _moments(grid, l1, l0)
    broken = (
        _broken(grid, moments, scale)
        or _off_centre(loss, grid, scale)
        or _jump(loss, grid, l1, l0, scale)
    )
    if broken is None and rewards == "unit":
        broken = _broken_between(loss, grid, scale)
    if broken is not None:
        return _refuted(loss, grid, broken, scale, rewards)
    attempt = prove(trace_loss(loss), grid)
    if attempt.broken is not None:
        f, g = attempt.broken
        broken = _counterexample("C1", loss, f, g)
        return _refuted(loss, grid, broken, scale, rewards)
    first, second = moments
    off = first > _TOLERANCE * max(scale, 1e-300)
    lower = 0.0
    if off.any():
        ratios = second[off] / first[off]
        lower = float(ratios.max())
    proof = attempt.proof
    reason = attempt.reason
    if proof is not None and rewards == "unit" and not proof.any_reward:
        proof = None
        reason = "it is proved only for rewards 0 and 1 (binary)"
    if proof is not None:
        return Certificate(
            loss,
            low,
            high,
            counterexample=None,
            kappa2_lower=lower,
            kappa2_upper=proof.kappa2(),
            w_min=proof.w_min,
            w_max=proof.w_max,
            scale=proof.scale(),
            proof=proof,
            n=n,
            rewards=rewards,
        )
    mass = np.diff(l0) - np.diff(l1)  # integral of w over each cell, exactly
    cell_weight = mass / (grid[1] - grid[0])
    weight = np.concatenate([cell_weight, weight_at(loss, grid)])
    around = np.pad(cell_weight, 1, mode="edge")
    pairs = np.maximum(around[:-2], around[1:-1])
    local = np.maximum(pairs, around[2:])
    rise = l0[None, :] - l0[:, None]
    fall = l1[None, :] - l1[:, None]
    area = np.abs(rise - fall)
    upper = upper_kappa2(grid, Interval.of(first), area, local)
    w_max = max(float(weight.max()), 1e-300)
    w_min = float(weight.min())
    if not w_min > VANISHING * w_max:
        w_min = 0.0
    return Certificate(
        loss,
        low,
        high,
        counterexample=None,
        kappa2_lower=lower,
        kappa2_upper=max(upper, lower),
        w_min=w_min,
        w_max=w_max,
        scale=scale,
        reason=reason,
        n=n,
        rewards=rewards,
    )


def _refuted(
    loss: Loss, grid: Array, broken: Counterexample, scale: float, rewards: Rewards
) -> Certificate:
    high = float(grid[-1])
    return Certificate(
        loss,
        low=float(grid[0]),
        high=high,
        counterexample=broken,
        kappa2_lower=inf,
        kappa2_upper=inf,
        w_min=0.0,
        w_max=inf,
        scale=scale,
        n=len(grid) - 1,
        rewards=rewards,
    )


def _counterexample(condition: str, loss: Loss, f: float, g: float) -> Counterexample:
    """Return the counterexample at this mean and prediction, in floating point."""
    points = np.array([f, g])
    losses_one = loss_values(loss, points, 1.0)
    losses_zero = loss_values(loss, points, 0.0)
    one = float(np.diff(losses_one)[0])
    zero = float(np.diff(losses_zero)[0])
    mean = f * one + (1 - f) * zero
    square_one = f * one**2
    square = square_one + (1 - f) * zero**2
    return Counterexample(condition, f, g, mean, square)


_BETWEEN = tuple(k / 8 for k in range(9))  # rewards to test


def _broken_between(loss: Loss, grid: Array, scale: float) -> Counterexample | None:
    """Check C1 for rewards between 0 and 1: the reward has two values, or one, and some
    prediction is better than their mean."""
    low = float(grid[0])
    high = float(grid[-1])
    inside = np.linspace(low, high, 17)
    losses = {reward: loss_values(loss, grid, reward) for reward in _BETWEEN}
    worst = None
    for r0, r1 in combinations_with_replacement(_BETWEEN, 2):
        if r0 == r1:
            if not low <= r0 <= high:
                continue
            f = np.array([r0])
            share = np.zeros((1, 1))
        else:
            is_between = (inside >= r0) & (inside <= r1)
            f = inside[is_between]
            shares = (f - r0) / (r1 - r0)
            share = shares[:, None]
        own0 = loss_values(loss, f, r0)
        own1 = loss_values(loss, f, r1)
        d0 = losses[r0][None, :] - own0[:, None]
        d1 = losses[r1][None, :] - own1[:, None]
        first = (1 - share) * d0 + share * d1
        if not first.size or first.min() >= -_TOLERANCE * scale:
            continue
        second0 = (1 - share) * d0**2
        second = second0 + share * d1**2
        moments = _Moments(first, second)
        found = _largest_break("C1", f, grid, -first, moments)
        if worst is None or found.mean < worst.mean:
            worst = found._replace(rewards=(r0, r1))
    return worst


def _largest_break(
    condition: str, f: Array, g: Array, violation: Array, moments: "_Moments"
) -> Counterexample:
    """Return the counterexample at the mean (row) and prediction (column) with the
    largest violation."""
    worst = int(violation.argmax())
    i, j = np.unravel_index(worst, violation.shape)
    first = float(moments.first[i, j])
    square = float(moments.second[i, j])
    return Counterexample(condition, float(f[i]), float(g[j]), first, square)


def _off_centre(loss: Loss, grid: Array, scale: float) -> Counterexample | None:
    """Check C1 next to the diagonal: f l1'(f) + (1-f) l0'(f) must be 0, or a prediction
    beside the true mean is better."""
    low = float(grid[0])
    high = float(grid[-1])
    ends = grid[:-1] + grid[1:]
    f = ends / 2
    one, zero = slopes(loss, f, low, high)
    drift = f * one + (1 - f) * zero
    weight = np.maximum(zero - one, 1e-300)
    reach = (high - low) / 4
    step = np.clip(drift / weight, -reach, reach)
    g = np.clip(f - step, low, high)
    own1 = loss_values(loss, f, 1.0)
    own0 = loss_values(loss, f, 0.0)
    d1 = loss_values(loss, g, 1.0) - own1
    d0 = loss_values(loss, g, 0.0) - own0
    first = f * d1 + (1 - f) * d0
    i = int(first.argmin())
    if first[i] >= -1e-12 * scale:
        return None
    second1 = f * d1**2
    second = second1 + (1 - f) * d0**2
    mean = float(first[i])
    square = float(second[i])
    return Counterexample("C1", float(f[i]), float(g[i]), mean, square)


def _jump(
    loss: Loss, grid: Array, l1: Array, l0: Array, scale: float
) -> Counterexample | None:
    """Check C4 at a jump of the loss, where E lhat is nearly 0 on both sides and E
    lhat² is not."""
    mass = np.diff(l0) - np.diff(l1)
    for cell in np.argsort(-mass)[:8]:
        a = float(grid[cell])
        b = float(grid[cell + 1])
        for _ in range(30):
            middle = (a + b) / 2
            points = np.array([a, middle, b])
            rise = np.diff(loss_values(loss, points, 0.0))
            rise -= np.diff(loss_values(loss, points, 1.0))
            if rise[0] >= rise[1]:
                b = middle
            else:
                a = middle
        ends = np.array([a, b])
        one = np.diff(loss_values(loss, ends, 1.0))[0]
        zero = np.diff(loss_values(loss, ends, 0.0))[0]
        is_inside = a > 0 and b < 1
        if zero - one > 1e-5 * scale and is_inside:
            return _counterexample("C4", loss, a, b)
    return None


def _infinite(grid: Array, l1: Array, l0: Array) -> Counterexample | None:
    """Check C3, which needs bounded shifted losses."""
    for values in (l1, l0):
        infinite = np.isinf(values)
        if infinite.any():
            f = float(grid[len(grid) // 2])
            g = float(grid[infinite][0])
            return Counterexample("C3", f, g, inf, inf)
    return None


class _Moments(NamedTuple):
    """E lhat and E lhat² for every mean f (rows) and prediction g (columns)."""

    first: Array
    second: Array


def _moments(grid: Array, l1: Array, l0: Array) -> _Moments:
    """Return E lhat and E lhat² for every mean f (rows) and prediction g (columns) of
    the grid."""
    f = grid[:, None]
    d1 = l1[None, :] - l1[:, None]
    d0 = l0[None, :] - l0[:, None]
    first = f * d1 + (1 - f) * d0
    second1 = f * d1**2
    second = second1 + (1 - f) * d0**2
    return _Moments(first, second)


def _broken(grid: Array, moments: _Moments, scale: float) -> Counterexample | None:
    """Return the worst violation of C1 on the grid, otherwise a point with E lhat = 0 <
    E lhat², which violates C4."""
    first, second = moments
    if first.min() < -_TOLERANCE * scale:
        return _largest_break("C1", grid, grid, -first, moments)
    flat = np.where(first <= _TOLERANCE * scale, second, 0.0)
    if flat.max() > 1e-4 * scale**2:
        return _largest_break("C4", grid, grid, flat, moments)
    return None
