"""certify: whether a loss satisfies the paper's conditions C1 to C4, and with which
constants (theory, section 4).

A grid looks for counterexamples; `theory/proofs.py` proves that there are none where
the loss is a formula. What neither settles is not certified.

A loss that is proper has Savage's form: l1'(g) = -(1-g) w(g), l0'(g) = g w(g) with a
weight w >= 0. Then M_1(f, g) = E lhat = ∫_f^g (u-f) w(u) du, A = ∫_f^g w, and E lhat² =
M_1² + f(1-f) A² for 0/1 rewards of mean f.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import inf, sqrt
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from oddsmith.core.arrays import Array, check_range, number, whole
from oddsmith.core.errors import InvalidInput
from oddsmith.core.losses import Loss
from oddsmith.theory.constants import Coefficient
from oddsmith.theory.expressions import trace_loss
from oddsmith.theory.intervals import Interval
from oddsmith.theory.moments import VANISHING, evaluated, slopes, smallest, weight_at
from oddsmith.theory.proofs import Proof, prove, upper_kappa2

__all__ = ["Certificate", "Counterexample", "Rewards", "certify"]

_TOLERANCE = 1e-10


Rewards: TypeAlias = Literal["unit", "binary"]
"""Rewards anywhere in [0, 1], or 0 and 1 alone."""


class Counterexample(NamedTuple):
    """True mean f and prediction g at which a condition breaks, with E lhat and E lhat²
    there, where the reward is one of `rewards` and has mean f."""

    condition: str
    f: float
    g: float
    mean: float
    square: float
    rewards: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Certificate:
    """The answer of `certify`: a `proof`, a `counterexample`, or neither, and then the
    `reason` why there is no proof.

    kappa_2 (raw, not normalised) lies in [kappa2_lower, kappa2_upper], the weight w in
    [w_min, w_max]. With a proof the outer ends are proved; without one they are
    estimates from the grid. `scale` is the largest |lhat|: divide the loss by it and C3
    holds.
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
        """sqrt(4K/(γ w_min)): C2 for every expert (theory 3.2); infinite where w
        vanishes."""
        number("gamma", gamma, low=0, high=1, open_low=True)
        return sqrt(4 * n_arms / (gamma * self.w_min)) if self.w_min > 0 else inf

    def c(self, eta: float) -> float:
        """A c with 1 - E exp(-eta lhat) >= c (f-g)² for all means and predictions; 0 or
        less if none is.

        With a proof it is proved, and by a thousandth or more below the largest;
        without one it is an estimate of the largest from a grid.
        """
        estimate = self.estimate(eta)
        if self.proof is None or estimate <= 0:
            return estimate
        return self.proof.c(eta, estimate)

    def estimate(self, eta: float) -> float:
        """The largest c for this eta as a grid and a search find it: not proved."""
        number("eta", eta, low=0, high=inf, open_low=True)
        return smallest(self.loss, self.low, self.high, eta)

    def critical_eta(self) -> float:
        """The largest eta with c(eta) > 0, beyond which nothing is promised; 0 where no
        eta has one. An estimate from a grid."""
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
            low, high = high, 2 * high
        for _ in range(24):
            middle = (low + high) / 2
            if self.estimate(middle) > 0:
                low = middle
            else:
                high = middle
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
            lambda eta: -self.estimate(eta),
            bounds=(1e-6 * top, top),
            method="bounded",
            options=options,
        )
        return Coefficient(float(found.x), self.c(float(found.x)))


def certify(
    loss: Loss,
    low: float = 0.0,
    high: float = 1.0,
    *,
    n: int = 400,
    rewards: Rewards = "unit",
) -> Certificate:
    """A certificate of the conditions for predictions and means in [low, high] and
    rewards in [0, 1], or 0 and 1 alone.

    A loss with a formula (+ - * / **, log, exp, sqrt; no comparisons) is proved by
    exact algebra and interval arithmetic over n cells. Any other is checked on a grid
    of n cells, and `holds` stays False.

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
    l1, l0 = evaluated(loss, grid, 1.0), evaluated(loss, grid, 0.0)
    broken = _infinite(grid, l1, l0)
    if broken is not None:
        return _refuted(loss, grid, broken, inf, rewards)
    scale = max(float(np.ptp(l1)), float(np.ptp(l0)))
    broken = (
        _broken(grid, l1, l0, scale)
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
        broken = _at("C1", loss, f, g)
        return _refuted(loss, grid, broken, scale, rewards)
    first, second = _moments(grid, l1, l0)
    off = first > _TOLERANCE * max(scale, 1e-300)
    lower = float((second[off] / first[off]).max()) if off.any() else 0.0
    proof, reason = attempt.proof, attempt.reason
    if proof is not None and rewards == "unit" and not proof.any_reward:
        proof, reason = None, "it is proved for rewards 0 and 1 alone (binary)"
    if proof is not None:
        return Certificate(
            loss,
            low,
            high,
            None,
            lower,
            proof.kappa2(),
            proof.w_min,
            proof.w_max,
            proof.scale(),
            proof,
            n=n,
            rewards=rewards,
        )
    mass = np.diff(l0) - np.diff(l1)  # ∫ w over each cell, exactly
    cell_weight = mass / (grid[1] - grid[0])
    weight = np.concatenate([cell_weight, weight_at(loss, grid)])
    around = np.pad(cell_weight, 1, mode="edge")
    local = np.maximum(np.maximum(around[:-2], around[1:-1]), around[2:])
    area = np.abs((l0[None, :] - l0[:, None]) - (l1[None, :] - l1[:, None]))
    upper = max(upper_kappa2(grid, Interval.of(first), area, local), lower)
    w_max = max(float(weight.max()), 1e-300)
    w_min = float(weight.min()) if weight.min() > VANISHING * w_max else 0.0
    return Certificate(
        loss,
        low,
        high,
        None,
        lower,
        upper,
        w_min,
        w_max,
        scale,
        reason=reason,
        n=n,
        rewards=rewards,
    )


def _refuted(
    loss: Loss, grid: Array, broken: Counterexample, scale: float, rewards: Rewards
) -> Certificate:
    low, high = float(grid[0]), float(grid[-1])
    cells = len(grid) - 1
    return Certificate(
        loss, low, high, broken, inf, inf, 0.0, inf, scale, n=cells, rewards=rewards
    )


def _at(condition: str, loss: Loss, f: float, g: float) -> Counterexample:
    """The counterexample at this mean and prediction, in floating point."""
    points = np.array([f, g])
    d1, d0 = (float(np.diff(evaluated(loss, points, r))[0]) for r in (1.0, 0.0))
    mean = f * d1 + (1 - f) * d0
    return Counterexample(condition, f, g, mean, f * d1**2 + (1 - f) * d0**2)


_BETWEEN = tuple(k / 8 for k in range(9))  # rewards that are tried


def _broken_between(loss: Loss, grid: Array, scale: float) -> Counterexample | None:
    """C1 for rewards between 0 and 1: the reward has two values, or one, and some
    prediction is better than their mean."""
    low, high = float(grid[0]), float(grid[-1])
    inside = np.linspace(low, high, 17)
    losses = {r: evaluated(loss, grid, r) for r in _BETWEEN}
    worst = None
    for r0, r1 in product(_BETWEEN, repeat=2):
        if r0 > r1 or (r0 == r1 and not low <= r0 <= high):
            continue
        f = np.array([r0]) if r0 == r1 else inside[(inside >= r0) & (inside <= r1)]
        share = np.zeros(1) if r0 == r1 else (f - r0) / (r1 - r0)
        share = share[:, None]
        d0 = losses[r0][None, :] - evaluated(loss, f, r0)[:, None]
        d1 = losses[r1][None, :] - evaluated(loss, f, r1)[:, None]
        first = (1 - share) * d0 + share * d1
        if not first.size or first.min() >= -_TOLERANCE * scale:
            continue
        i, j = np.unravel_index(int(first.argmin()), first.shape)
        if worst is None or first[i, j] < worst.mean:
            second = (1 - share) * d0**2 + share * d1**2
            at = float(f[i]), float(grid[j]), float(first[i, j]), float(second[i, j])
            worst = Counterexample("C1", *at, (r0, r1))
    return worst


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
