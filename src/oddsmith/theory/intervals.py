"""Intervals of real numbers with outward rounding, elementwise over arrays: the
arithmetic of the proofs in `theory/proofs.py`.

The code relies on IEEE 754: + - * / and the square root of doubles are correctly
rounded, so one step of `nextafter` outwards contains the exact result. The exponential
is a Taylor polynomial with its remainder, and the logarithm is checked against that
exponential, so errors of the machine's own `exp` and `log` do not matter. An operation
outside its domain gives NaN, which no comparison accepts as proved.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import factorial, inf
from typing import TypeAlias

import numpy as np

from oddsmith.core.arrays import Array, Bools

__all__ = ["Interval", "Number"]

Number: TypeAlias = "Interval | Array | Fraction | float | int"

_TERMS = 15  # terms of the series of exp; for |x| <= 0.35 the remainder is below 2e-19
_LN2 = 0.6931471805599453  # the largest double below ln 2
_LARGEST = 700.0  # beyond this, exp is rounded to infinity, and below minus this to 0


@dataclass(frozen=True, eq=False)
class Interval:
    """Intervals [lo, hi], elementwise; NaN if undefined.

    >>> third = Interval.of(Fraction(1, 3))
    >>> bool(third.lo < third.hi), bool((third * 3).lo <= 1 <= (third * 3).hi)
    (True, True)
    """

    lo: Array
    hi: Array

    @classmethod
    def of(cls, number: Number) -> "Interval":
        """Return the narrowest interval that contains a number; an array gives
        points."""
        if isinstance(number, Interval):
            return number
        if isinstance(number, np.ndarray):
            return cls(number, number)
        near: Array = np.asarray(float(number))
        exact = Fraction(float(near))
        if exact == number:
            return cls(near, near)
        if exact > number:
            return cls(_down(near), near)
        return cls(near, _up(near))

    def within(self, other: "Interval") -> "Interval":
        """Return the intersection of two enclosures of the same number."""
        low = np.maximum(self.lo, other.lo)
        high = np.minimum(self.hi, other.hi)
        return Interval(low, high)

    def __add__(self, other: Number) -> "Interval":
        other = Interval.of(other)
        low = _down(self.lo + other.lo)
        high = _up(self.hi + other.hi)
        return Interval(low, high)

    def __neg__(self) -> "Interval":
        return Interval(-self.hi, -self.lo)

    def __sub__(self, other: Number) -> "Interval":
        return self + -Interval.of(other)

    def __mul__(self, other: Number) -> "Interval":
        other = Interval.of(other)
        with np.errstate(all="ignore"):
            products = [
                self.lo * other.lo,
                self.lo * other.hi,
                self.hi * other.lo,
                self.hi * other.hi,
            ]
        return _hull(products)

    def __truediv__(self, other: Number) -> "Interval":
        other = Interval.of(other)
        nonzero = (other.lo > 0) | (other.hi < 0)
        with np.errstate(all="ignore"):
            quotients = [
                self.lo / other.lo,
                self.lo / other.hi,
                self.hi / other.lo,
                self.hi / other.hi,
            ]
        return _hull(quotients)._where(nonzero)

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: Number) -> "Interval":
        return Interval.of(other) - self

    def __rtruediv__(self, other: Number) -> "Interval":
        return Interval.of(other) / self

    def power(self, exponent: int) -> "Interval":
        """Return the integer power; an even power is never below 0."""
        if exponent < 0:
            return 1 / self.power(-exponent)
        if exponent % 2:
            if exponent == 1:
                return self
            return self * self.power(exponent - 1)
        largest = np.maximum(self.lo, -self.hi)
        size = np.maximum(largest, 0.0)
        base = Interval(size, self.magnitude)
        result = Interval.of(1)
        for _ in range(exponent):
            result = result * base
        return Interval(np.maximum(result.lo, 0.0), result.hi)

    def sqrt(self) -> "Interval":
        """Return the square root if the whole interval is above 0, where it has a
        slope."""
        with np.errstate(invalid="ignore"):
            low = _down(np.sqrt(self.lo))
            high = _up(np.sqrt(self.hi))
            root = Interval(low, high)
        return root._where(self.lo > 0)

    def exp(self) -> "Interval":
        """Return the exponential of the interval, from the exponentials of its ends."""
        low = _exp(self.lo).lo
        high = _exp(self.hi).hi
        return Interval(low, high)

    def log(self) -> "Interval":
        """Return the logarithm if the whole interval is above 0."""
        positive = self.lo > 0
        low = _log(np.where(positive, self.lo, 1.0))
        high = _log(np.where(positive, self.hi, 1.0))
        return Interval(low.lo, high.hi)._where(positive)

    @property
    def magnitude(self) -> Array:
        """Return the largest absolute value."""
        low = np.abs(self.lo)
        high = np.abs(self.hi)
        size: Array = np.maximum(low, high)
        return size

    @property
    def middle(self) -> Array:
        """Return a point inside."""
        width = self.hi - self.lo
        middle: Array = self.lo + width / 2
        not_below = np.maximum(middle, self.lo)
        return np.minimum(not_below, self.hi)

    def _where(self, defined: Bools) -> "Interval":
        low = np.where(defined, self.lo, np.nan)
        high = np.where(defined, self.hi, np.nan)
        return Interval(low, high)


def _down(x: Array) -> Array:
    below: Array = np.nextafter(x, -inf)
    return below


def _up(x: Array) -> Array:
    above: Array = np.nextafter(x, inf)
    return above


def _hull(values: list[Array]) -> Interval:
    """Return the narrowest interval around all of these results, rounded outwards."""
    arrays = np.broadcast_arrays(*values)
    low = np.minimum.reduce(arrays)
    high = np.maximum.reduce(arrays)
    return Interval(_down(low), _up(high))


def _exp(x: Array) -> Interval:
    """Return exp(x) = 2^k exp(r), r = x - k ln 2, with 15 terms of the series.

    The remainder is below |r|^15 e^|r|/15! with |r| <= ln 2/2 plus rounding, which is
    below 1e-18.
    """
    undefined = np.isnan(x)
    defined = np.where(undefined, 0.0, x)
    inside = np.clip(defined, -_LARGEST, _LARGEST)
    k = np.round(inside / _LN2)
    twos = Interval(k, k) * _LN2_BETWEEN
    rest = Interval(inside, inside) - twos
    series = Interval.of(0)
    for n in reversed(range(_TERMS)):
        series = series * rest + Fraction(1, factorial(n))
    series = series + _REMAINDER
    # Exact, because 2^±1010 is a normal float.
    scale = np.ldexp(1.0, k.astype(np.int64))
    series_low = _down(series.lo * scale)
    series_high = _up(series.hi * scale)
    low = np.where(x < -_LARGEST, 0.0, series_low)
    high = np.where(x > _LARGEST, inf, series_high)
    return Interval(low, high)._where(~undefined)


def _log(x: Array) -> Interval:
    """Return ln x = y + ln z, z = x e^-y, for y near ln x, using 1 - 1/z <= ln z <= z -
    1."""
    known = np.isfinite(x)
    finite = np.where(known, x, 1.0)
    y = np.log(finite)
    point = Interval(y, y)
    z = Interval(finite, finite) * (-point).exp()
    low = point + (1 - 1 / z)
    high = point + (z - 1)
    other = np.where(np.isnan(x), np.nan, inf)
    least = np.where(known, low.lo, other)
    most = np.where(known, high.hi, other)
    return Interval(least, most)


_LN2_BETWEEN = Interval(np.asarray(_LN2), _up(np.asarray(_LN2)))
_REMAINDER = Interval(np.asarray(-1e-18), np.asarray(1e-18))
