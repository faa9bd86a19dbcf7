"""Proofs of the conditions C1 to C4 and of c(eta) for losses that are formulas, by
exact algebra and interval arithmetic (docs/math 4.1).

Exact algebra shows that the loss has Savage's form. Interval arithmetic over cells
shows that its weight is positive. Branch and bound over pairs of mean and prediction
shows that 1 - E exp(-eta lhat) >= c (f-g)².
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, Bools
from oddsmith.theory.expressions import Dual, Expression, Formula
from oddsmith.theory.identities import Field, Ratio, TooLarge
from oddsmith.theory.intervals import Interval

__all__ = ["Attempt", "Proof", "prove"]

# Maximum number of cells for the range of predictions before giving up the proof.
_CELLS = 40_000
_THINNEST = 1e-12  # smallest cell as a share of the range
_BOXES = 12_000  # maximum number of boxes (mean, prediction) before trying a smaller c
_BLOCK = 4096  # boxes per block, so that a block stays in the cache
# Try to prove these shares of the estimated c, largest first.
_SHARES = (0.999, 0.98, 0.8)
# Covers the rounding of about twelve sums and products of positive numbers.
_SLACK = 1 + 1e-12


@dataclass(frozen=True, eq=False)
class Proof:
    """A loss of Savage's form on [edges[0], edges[-1]], with bounds of its weight in
    each cell between two edges; with `any_reward`, rewards may be anywhere in
    [0, 1]."""

    formula: Formula
    form: "Weight"
    edges: Array
    weight: Interval
    any_reward: bool

    @property
    def w_min(self) -> float:
        """Return a lower bound of the weight."""
        return float(self.weight.lo.min())

    @property
    def w_max(self) -> float:
        """Return an upper bound of the weight."""
        return float(self.weight.hi.max())

    def scale(self) -> float:
        """Return an upper bound of |lhat|; both losses are monotone."""
        low = Interval.of(float(self.edges[0]))
        high = Interval.of(float(self.edges[-1]))
        one = self.formula.one
        zero = self.formula.zero
        fall = _values(one, low) - _values(one, high)
        rise = _values(zero, high) - _values(zero, low)
        return float(max(fall.hi, rise.hi))

    def kappa2(self) -> float:
        """Return an upper bound of E lhat²/E lhat: the largest over cells of mean and
        prediction."""
        rows = self.edges[:, None]
        columns = self.edges[None, :]
        f = Interval(rows, rows)
        g = Interval(columns, columns)
        formula = self.formula
        one = _values(formula.one, g) - _values(formula.one, f)
        zero = _values(formula.zero, g) - _values(formula.zero, f)
        first = f * one + (1 - f) * zero
        area = (zero - one).magnitude
        return upper_kappa2(self.edges, first, area, self.weight.hi)

    def c(self, eta: float, estimate: float) -> float:
        """Return a proved lower bound of c(eta), as close below the estimate as the
        search gets, or 0 if none is found."""
        for share in _SHARES:
            if estimate > 0 and self.c_is_at_least(eta, share * estimate):
                return share * estimate
        return max(self._simple_c(eta), 0.0)

    def _simple_c(self, eta: float) -> float:
        """Return a lower bound of c by Hoeffding's lemma and a chord: (w_min/2) (1 -
        e^(-qm))/m, with q = eta (1 - eta w_max/4) and m at least the largest E lhat."""
        width = float(np.ptp(self.edges))
        quarter = Interval.of(eta) * self.w_max * 0.25
        rate = eta * (1 - quarter)
        square = Interval.of(self.w_max) * width**2
        m = square * 0.5
        fall = (-(rate * m)).exp()
        chord = (1 - fall) / m
        return float((chord * self.w_min * 0.5).lo)

    def c_is_at_least(self, eta: float, c: float) -> bool:
        """Return whether branch and bound proves 1 - E exp(-eta lhat) >= c (f-g)² for
        all f and g."""
        lowest = self.edges[0]
        corners = np.linspace(lowest, self.edges[-1], 33)
        corners[-1] = self.edges[-1]
        low = corners[:-1]
        high = corners[1:]
        of_f = [np.repeat(low, 32), np.repeat(high, 32)]
        of_g = [np.tile(low, 32), np.tile(high, 32)]
        boxes = np.array([*of_f, *of_g])
        spent = 0
        while boxes.size:
            n = boxes.shape[1]
            spent += n
            if spent > _BOXES:
                return False
            n_blocks = -(-n // _BLOCK)
            blocks = np.array_split(boxes, n_blocks, axis=1)
            proved = [self._holds_in(block, eta, c) for block in blocks]
            is_proved = np.concatenate(proved)
            boxes = _quarters(boxes[:, ~is_proved])
        return True

    def _holds_in(self, boxes: Array, eta: float, c: float) -> Bools:
        proved = self._near_diagonal(boxes, eta, c)
        rest = boxes[:, ~proved]
        proved[~proved] = self._away_from_diagonal(rest, eta, c)
        return proved

    def _near_diagonal(self, boxes: Array, eta: float, c: float) -> Bools:
        """Prove (1 - rho)/d² >= c by Taylor's formula, to the fourth order of lhat =
        O(d)."""
        f, g = _sides(boxes)
        d = g - f
        least = np.minimum(f.lo, g.lo)
        most = np.maximum(f.hi, g.hi)
        both = Interval(least, most)
        w_f, _ = _once(self.form, f)
        w, slope = _once(self.form, both)
        tilt = slope * d
        mean = w_f * 0.5 + tilt * Fraction(1, 3)
        m = mean.within(w * 0.5)  # E lhat = m d²
        a = (w_f + tilt * 0.5).within(w)  # A = a d
        square = d.power(2)
        v = 0.25 - (f - 0.5).power(2)  # f (1 - f)
        square_part = m.power(2) * square
        second = square_part + v * a.power(2)
        third = m.power(3) * square.power(2)
        mixed = m * v * a.power(2) * square
        third = third + mixed * 3
        skew = v * (f * 2 - 1) * a.power(3)
        third = third + skew * d
        largest = Interval.of(w.magnitude * eta)
        reach = largest * d.magnitude * _SLACK  # upper bound of |eta lhat|
        small = reach.hi < 1
        growth = 1 / (1 - reach)  # upper bound of exp(reach)
        bound = reach.power(2) * growth * second
        fourth = bound * Fraction(1, 24)
        rate = Interval.of(eta)
        variance = second * 0.5 + fourth
        margin = rate * m - rate.power(2) * variance
        skewness = rate.power(3) * third * Fraction(1, 6)
        margin = margin + skewness - c
        proved: Bools = small & (margin.lo >= 0)
        return proved

    def _away_from_diagonal(self, boxes: Array, eta: float, c: float) -> Bools:
        """Prove 1 - rho - c d² >= 0 from its value at the middle and its slopes in the
        box, or from its smallest terms."""
        f, g = _sides(boxes)
        d = g - f
        won, lost = self._factors(f, g, eta)
        rest = (1 - f) * lost
        plain = 1 - f * won - rest - d.power(2) * c
        w_f, _ = _once(self.form, f)
        w_g, _ = _once(self.form, g)
        factor = 1 - f * (1 - f) * w_f * eta
        along_f = d * (2 * c) - factor * (won - lost)
        gain = (1 - g) * f * won
        drift = gain - g * (1 - f) * lost
        pull = w_g * eta * drift
        along_g = d * (-2 * c) - pull
        mean = Interval.of(f.middle)
        prediction = Interval.of(g.middle)
        won, lost = self._factors(mean, prediction, eta)
        gap = (prediction - mean).power(2)
        rest = (1 - mean) * lost
        centre = 1 - mean * won - rest - gap * c
        spread_f = _reach(f) * along_f.magnitude
        spread = spread_f + _reach(g) * along_g.magnitude
        lower = (centre - spread).lo
        proved: Bools = (plain.lo >= 0) | (lower >= 0)
        return proved

    def _factors(
        self, f: Interval, g: Interval, eta: float
    ) -> tuple[Interval, Interval]:
        """Return exp(-eta lhat) for reward 1, whose loss decreases in the prediction,
        and for reward 0, whose loss increases."""

        def power(part: Expression, x: Array) -> Interval:
            def values(points: Interval) -> tuple[Interval, ...]:
                return ((_values(part, points) * eta).exp(),)

            found, *_ = _once(values, Interval.of(x))
            return found

        one = self.formula.one
        zero = self.formula.zero
        least_won = power(one, f.hi) / power(one, g.lo)
        most_won = power(one, f.lo) / power(one, g.hi)
        least_lost = power(zero, f.lo) / power(zero, g.hi)
        most_lost = power(zero, f.hi) / power(zero, g.lo)
        won = Interval(least_won.lo, most_won.hi)
        return won, Interval(least_lost.lo, most_lost.hi)


@dataclass(frozen=True, eq=False)
class Weight:
    """w = l0' - l1' over intervals of predictions, by automatic differentiation, and as
    a quotient of polynomials if it is one."""

    formula: Formula
    fraction: tuple[list[Fraction], list[Fraction]] | None

    def __call__(self, x: Interval) -> tuple[Interval, Interval]:
        """Return the weight and its slope."""
        one = _slopes(self.formula.one, x)
        zero = _slopes(self.formula.zero, x)
        weight = zero.value - one.value
        slope = zero.slope - one.slope
        if self.fraction is None:
            return weight, slope
        top, bottom = (_polynomial(part, x) for part in self.fraction)
        return weight.within(top / bottom), slope


def _polynomial(coefficients: list[Fraction], x: Interval) -> Interval:
    zeros = np.zeros_like(x.lo)
    value = Interval(zeros, zeros)
    for coefficient in reversed(coefficients):
        value = value * x + coefficient
    return value


class Attempt(NamedTuple):
    """A proof, or the reason why there is none, and possibly a mean and a prediction
    that certainly violate C1."""

    proof: Proof | None
    reason: str = ""
    broken: tuple[float, float] | None = None


def prove(formula: Formula | None, edges: Array) -> Attempt:
    """Prove that a loss satisfies C1 to C4 between the first and last of these
    edges."""
    if formula is None:
        return Attempt(None, "the loss is not a formula that can be traced")
    try:
        proper, any_reward, ratio = _savage(formula)
    except (TooLarge, ZeroDivisionError):
        return Attempt(None, "the formula is too large for exact algebra")
    if not proper:
        reason = "algebra does not show that the best prediction is the mean"
        return Attempt(None, reason, _off_centre(formula, edges))
    return _with_weight(Weight(formula, ratio.coefficients()), edges, any_reward)


def _savage(formula: Formula) -> tuple[bool, bool, Ratio]:
    """Return whether g l1'(g) + (1-g) l0'(g) = 0, whether the slope is affine in the
    reward, and the weight l0' - l1'."""
    field = Field()
    g = field.variable()
    r = field.variable()
    nothing = field.number(0)

    def slope(part: Expression) -> Ratio:
        def lift(number: Fraction) -> Dual:
            return Dual(field.number(number), nothing)

        of_one = Dual(g, field.number(1))
        dual = part.evaluate(lift, of_one, Dual(r, nothing))
        result: Ratio = dual.slope
        return result

    one = slope(formula.one)
    zero = slope(formula.zero)
    other = field.number(1) - g
    mixed = g * one + other * zero
    if formula.whole is None:
        return mixed.is_zero, False, zero - one
    other_reward = field.number(1) - r
    affine = r * one + other_reward * zero
    is_affine = (slope(formula.whole) - affine).is_zero
    return mixed.is_zero, is_affine, zero - one


def _with_weight(form: "Weight", edges: Array, any_reward: bool) -> Attempt:
    """Bound the weight in every cell, subdividing the cells in which it may be 0 or is
    not known."""
    cells = len(edges) - 1
    least = np.full(cells, np.inf)
    most = np.full(cells, -np.inf)
    parts = np.linspace(edges[:-1], edges[1:], 5)
    parts[-1] = edges[1:]
    low = parts[:-1].ravel()
    high = parts[1:].ravel()
    cell = np.tile(np.arange(cells), 4)
    spent = 0
    while low.size:
        spent += low.size
        weight, _ = form(Interval(low, high))
        negative = weight.hi < 0
        if negative.any():
            i = int(np.argmax(negative))
            broken = (float(low[i]), float(high[i]))
            return Attempt(None, "the weight is negative somewhere", broken)
        is_finite = np.isfinite(weight.hi)
        known = (weight.lo > 0) & is_finite
        known_cells = cell[known]
        np.minimum.at(least, known_cells, weight.lo[known])
        np.maximum.at(most, known_cells, weight.hi[known])
        unknown = ~known
        low = low[unknown]
        high = high[unknown]
        cell = cell[unknown]
        if not low.size:
            break
        thinnest = _THINNEST * (edges[-1] - edges[0])
        thin = high - low < thinnest
        if spent > _CELLS or thin.any():
            return Attempt(None, f"the weight may vanish near {low[0]:.6g}")
        middle = low + (high - low) / 2
        lower = np.concatenate([low, middle])
        high = np.concatenate([middle, high])
        low = lower
        cell = np.concatenate([cell, cell])
    weight = Interval(least, most)
    return Attempt(Proof(form.formula, form, edges, weight, any_reward))


def _off_centre(formula: Formula, edges: Array) -> tuple[float, float] | None:
    """Return a mean at which a prediction beside it certainly has a smaller expected
    loss."""
    widths = np.diff(edges)
    f = edges[:-1] + widths / 2
    mean = Interval(f, f)
    one = _slopes(formula.one, mean).value
    zero = _slopes(formula.zero, mean).value
    drift = mean * one + (1 - mean) * zero
    with np.errstate(all="ignore"):
        weight = (zero - one).middle
        step = drift.middle / np.maximum(weight, 1e-300)
    lowest = edges[0]
    highest = edges[-1]
    reach = (highest - lowest) / 4
    descent = np.clip(step, -reach, reach)
    g = np.clip(f - descent, lowest, highest)
    prediction = Interval(g, g)
    one_at_mean = _values(formula.one, mean)
    zero_at_mean = _values(formula.zero, mean)
    of_one = _values(formula.one, prediction) - one_at_mean
    of_zero = _values(formula.zero, prediction) - zero_at_mean
    first = mean * of_one + (1 - mean) * of_zero
    certain = np.where(first.hi < 0, first.hi, np.inf)
    i = int(np.argmin(certain))
    if not certain[i] < 0:
        return None
    return float(f[i]), float(g[i])


def _values(part: Expression, x: Interval) -> Interval:
    values: Interval = part.evaluate(Interval.of, x, None)
    return values


def _slopes(part: Expression, x: Interval) -> Dual:
    """Return the first derivative of a loss, and the second."""
    nothing = Interval.of(0)
    zero = Dual(nothing, nothing)

    def lift(number: Fraction) -> Dual:
        return Dual(Dual(Interval.of(number), nothing), zero)

    ones = np.ones_like(x.lo)
    one = Dual(Interval(ones, ones), nothing)
    variable = Dual(Dual(x, one.value), one)
    slopes: Dual = part.evaluate(lift, variable, None).slope
    return slopes


def _once(
    function: Callable[[Interval], tuple[Interval, ...]], x: Interval
) -> tuple[Interval, ...]:
    """Compute a function of intervals once for each distinct interval."""
    pairs = x.lo + 1j * x.hi
    keys, places = np.unique(pairs, return_inverse=True)
    results = []
    for one in function(Interval(keys.real, keys.imag)):
        lo = np.broadcast_to(one.lo, keys.shape)
        hi = np.broadcast_to(one.hi, keys.shape)
        results.append(Interval(lo[places], hi[places]))
    return tuple(results)


def _sides(boxes: Array) -> tuple[Interval, Interval]:
    first = Interval(boxes[0], boxes[1])
    return first, Interval(boxes[2], boxes[3])


def _reach(x: Interval) -> Interval:
    """Return the distance between the ends and the middle."""
    distance = x - Interval.of(x.middle)
    return Interval(np.zeros_like(x.lo), distance.magnitude)


def _quarters(boxes: Array) -> Array:
    f_low, f_high, g_low, g_high = boxes
    f = f_low + (f_high - f_low) / 2
    g = g_low + (g_high - g_low) / 2
    parts = []
    for rows in ((f_low, f), (f, f_high)):
        parts.append(np.array([*rows, g_low, g]))
        parts.append(np.array([*rows, g, g_high]))
    return np.concatenate(parts, axis=1)


def upper_kappa2(edges: Array, first: Interval, area: Array, top: Array) -> float:
    """Return an upper bound on M_1 + f(1-f) A²/M_1 over all cells of f and g, where M_1
    and |A| are monotone in the interval between f and g.

    `first` and `area` are M_1 and |A| between two edges; `top` bounds the weight in
    each cell.
    """
    ends = edges * (1 - edges)
    starts_below = edges[:-1] <= 0.5
    holds_half = starts_below & (edges[1:] >= 0.5)
    largest = np.maximum(ends[:-1], ends[1:])
    variance = np.where(holds_half, 0.25, largest)
    cells = np.arange(len(edges) - 1)
    i, j = np.meshgrid(cells, cells, indexing="ij")
    # The largest and the smallest distance between two cells.
    right = j >= i
    far_row = np.where(right, i, i + 1)
    far_column = np.where(right, j + 1, j)
    far = (far_row, far_column)
    near_row = np.where(right, i + 1, i)
    near_column = np.where(right, j, j + 1)
    near = (near_row, near_column)
    widest = first.hi[far]
    is_neighbour = np.abs(i - j) <= 1
    least = np.where(is_neighbour, 0.0, first.lo[near])
    lower = np.minimum(i, j)
    upper = np.maximum(i, j)
    highest = _running_max(top)[lower, upper]
    with np.errstate(divide="ignore", invalid="ignore"):
        squares = area[far] ** 2
        ratio = np.where(least > 0, squares / least, np.inf)
    growth = np.minimum(ratio, 2 * highest)
    bound = widest + variance[i] * growth
    return float(bound.max()) * _SLACK


def _running_max(values: Array) -> Array:
    """Return the maximum of values[i … j] for all i <= j, as a matrix."""
    n = len(values)
    table = np.broadcast_to(values, (n, n)).copy()
    table[np.tril_indices(n, -1)] = -np.inf
    return np.maximum.accumulate(table, axis=1)
