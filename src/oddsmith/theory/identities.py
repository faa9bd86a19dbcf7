"""Rational functions with exact coefficients, in which roots, logarithms and
exponentials are additional variables, to decide whether a formula is identically zero.

`Ratio.is_zero` is a proof: a polynomial whose coefficients all cancel is zero for any
values of its variables. If it returns False, the formula may still be zero.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

__all__ = ["Field", "Ratio", "TooLarge"]

Monomial: TypeAlias = tuple[tuple[int, int], ...]
Polynomial: TypeAlias = dict[Monomial, Fraction]

# Maximum terms of a product before collecting like terms; more would be too slow.
_TERMS = 20_000
_ONE: Polynomial = {(): Fraction(1)}


class TooLarge(Exception):
    """A formula's polynomials have too many terms to expand."""


@dataclass(eq=False)
class Field:
    """The variables of a computation: plain ones, and one for each different root,
    logarithm or exponential."""

    squares: list["Ratio | None"] = field(default_factory=list)
    known: dict[tuple[str, str], "Ratio"] = field(default_factory=dict)

    def number(self, value: Fraction | int) -> "Ratio":
        """Return a constant."""
        top: Polynomial = {}
        if value:
            top = {(): Fraction(value)}
        return Ratio(self, top, _ONE)

    def variable(self, square: "Ratio | None" = None) -> "Ratio":
        """Return a new variable, or with `square` a root of it."""
        self.squares.append(square)
        number = len(self.squares) - 1
        return Ratio(self, {((number, 1),): Fraction(1)}, _ONE)

    def atom(self, kind: str, of: "Ratio") -> "Ratio":
        """Return the variable that represents this function of `of`."""
        top = sorted(of.top.items())
        bottom = sorted(of.bottom.items())
        key = (kind, f"{top}/{bottom}")
        if key not in self.known:
            square = None
            if kind == "sqrt":
                square = of
            self.known[key] = self.variable(square)
        return self.known[key]


@dataclass(frozen=True, eq=False)
class Ratio:
    """The quotient top / bottom of two polynomials in the variables of a field."""

    field: Field
    top: Polynomial
    bottom: Polynomial

    def __add__(self, other: "Ratio") -> "Ratio":
        if not self.top:
            return other
        if not other.top:
            return self
        if self.bottom == other.bottom:
            top = _sum(self.top, other.top)
            return Ratio(self.field, top, self.bottom)
        own = _product(self.top, other.bottom)
        added = _product(other.top, self.bottom)
        bottom = _product(self.bottom, other.bottom)
        return Ratio(self.field, _sum(own, added), bottom)

    def __sub__(self, other: "Ratio") -> "Ratio":
        return self + other * -1

    def __mul__(self, other: "Ratio | int") -> "Ratio":
        if isinstance(other, int):
            other = self.field.number(other)
        top = _product(self.top, other.top)
        bottom = _product(self.bottom, other.bottom)
        return Ratio(self.field, top, bottom)

    def __truediv__(self, other: "Ratio") -> "Ratio":
        if not other.top:
            raise ZeroDivisionError("division by a formula that is 0")
        return self * Ratio(self.field, other.bottom, other.top)

    def power(self, exponent: int) -> "Ratio":
        """Return the integer power."""
        if exponent < 0:
            return self.field.number(1) / self.power(-exponent)
        result = self.field.number(1)
        for _ in range(exponent):
            result = result * self
        return result

    def sqrt(self) -> "Ratio":
        """Return a variable whose square this is."""
        return self.field.atom("sqrt", self)

    def exp(self) -> "Ratio":
        """Return a variable for the exponential of this."""
        return self.field.atom("exp", self)

    def log(self) -> "Ratio":
        """Return a variable for the logarithm of this."""
        return self.field.atom("log", self)

    @property
    def is_zero(self) -> bool:
        """Return whether the top cancels after replacing squares of roots."""
        top = self.top
        for variable in reversed(range(len(self.field.squares))):
            square = self.field.squares[variable]
            while square is not None and _degree(top, variable) > 1:
                top = _with_square(top, variable, square)
        return not top

    def coefficients(self) -> tuple[list[Fraction], list[Fraction]] | None:
        """Return top and bottom by powers of the first variable, lowest first, or None
        if another variable occurs."""
        both = [*self.top, *self.bottom]
        if any(name for monomial in both for name, _ in monomial):
            return None
        return _by_power(self.top), _by_power(self.bottom)


def _by_power(polynomial: Polynomial) -> list[Fraction]:
    coefficients = [Fraction(0)] * (_degree(polynomial, 0) + 1)
    for monomial, factor in polynomial.items():
        coefficients[dict(monomial).get(0, 0)] = factor
    return coefficients


def _sum(first: Polynomial, second: Polynomial) -> Polynomial:
    total = dict(first)
    for monomial, factor in second.items():
        known = total.get(monomial, Fraction(0))
        total[monomial] = known + factor
    return {monomial: factor for monomial, factor in total.items() if factor}


def _product(first: Polynomial, second: Polynomial) -> Polynomial:
    if len(first) * len(second) > _TERMS:
        raise TooLarge
    total: Polynomial = {}
    for one, factor in first.items():
        for other, weight in second.items():
            monomial = _merge(one, other)
            known = total.get(monomial, Fraction(0))
            total[monomial] = known + factor * weight
    return {monomial: factor for monomial, factor in total.items() if factor}


def _merge(one: Monomial, other: Monomial) -> Monomial:
    powers = Counter(dict(one)) + Counter(dict(other))
    return tuple(sorted(powers.items()))


def _degree(polynomial: Mapping[Monomial, Fraction], variable: int) -> int:
    powers = [dict(one).get(variable, 0) for one in polynomial]
    return max(powers, default=0)


def _with_square(top: Polynomial, variable: int, square: Ratio) -> Polynomial:
    """Return the polynomial times the square's bottom, with s² replaced by its top."""
    low: Polynomial = {}
    high: Polynomial = {}
    for monomial, factor in top.items():
        powers = dict(monomial)
        if powers.get(variable, 0) < 2:
            low[monomial] = factor
            continue
        powers[variable] -= 2
        rest = tuple((name, power) for name, power in powers.items() if power)
        high[rest] = factor
    first = _product(low, square.bottom)
    second = _product(high, square.top)
    return _sum(first, second)
