"""Exact algebra: what is identically zero is found to be, and nothing else is."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from oddsmith.theory.identities import Field, Ratio, TooLarge


@pytest.fixture
def field() -> Field:
    return Field()


@pytest.fixture
def x(field: Field) -> Ratio:
    return field.variable()


@pytest.fixture
def y(field: Field, x: Ratio) -> Ratio:
    return field.variable()


ZERO: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a number": lambda one, x, y: one - one,
    "commuted": lambda one, x, y: x * y - y * x,
    "a binomial": lambda one, x, y: (x + y) * (x + y) - x * x - x * y * 2 - y * y,
    "a sum of fractions": lambda one, x, y: one / x + one / y - (x + y) / (x * y),
    "a common divisor": lambda one, x, y: (x * x - one) / (x - one) - x - one,
    "one divisor": lambda one, x, y: x / y + one / y - (x + one) / y,
    "powers": lambda one, x, y: x.power(3) * x.power(-2) - x,
    "the power 0": lambda one, x, y: x.power(0) - one,
    "a root": lambda one, x, y: (x + one).sqrt().power(2) - x - one,
    "the third power of a root": lambda one, x, y: x.sqrt().power(3) - x * x.sqrt(),
    "the sixth power of a root": lambda one, x, y: x.sqrt().power(6) - x.power(3),
    "a root of a fraction": lambda one, x, y: (x / y).sqrt().power(2) * y - x,
    "a root in a divisor": lambda one, x, y: x / x.sqrt() - x.sqrt(),
    "a root of a root": lambda one, x, y: x.sqrt().sqrt().power(4) - x,
    "two roots": lambda one, x, y: (
        (x.sqrt() + y.sqrt()) * (x.sqrt() - y.sqrt()) - x + y
    ),
    "one logarithm": lambda one, x, y: (x * y).log() - (y * x).log(),
    "one exponential": lambda one, x, y: (x + y).exp() - (y + x).exp(),
    "nothing times anything": lambda one, x, y: (x - x) * y.log(),
    "nothing at the left": lambda one, x, y: (x - x) + y - y,
}
NOT_ZERO: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a number": lambda one, x, y: one * 3 - one * 2,
    "another variable": lambda one, x, y: x - y,
    "another power": lambda one, x, y: x.power(3) - x.power(2),
    "a root and its square": lambda one, x, y: x.sqrt() - x,
    "two functions": lambda one, x, y: x.log() - x.exp(),
    "a root and a logarithm": lambda one, x, y: x.sqrt() - x.log(),
    "one function of two": lambda one, x, y: x.log() - y.log(),
    "of a fraction": lambda one, x, y: (x / y).log() - x.log(),
    "the square of a logarithm": lambda one, x, y: x.log().power(2) - x,
    "off by a little": lambda one, x, y: (x + one) * (x + one) - x * x - x * 2,
}


@pytest.mark.parametrize("name", ZERO)
def test_zero(field: Field, x: Ratio, y: Ratio, name: str) -> None:
    assert ZERO[name](field.number(1), x, y).is_zero


def test_the_number_0(field: Field) -> None:
    assert field.number(0).is_zero


@pytest.mark.parametrize("name", NOT_ZERO)
def test_not_zero(field: Field, x: Ratio, y: Ratio, name: str) -> None:
    assert not NOT_ZERO[name](field.number(1), x, y).is_zero


def test_division_by_zero_is_refused(field: Field, x: Ratio) -> None:
    with pytest.raises(ZeroDivisionError, match=r"^division by a formula that is 0$"):
        field.number(1) / (x - x)


def test_coefficients_of_the_first_variable(field: Field, x: Ratio, y: Ratio) -> None:
    """Lowest power first."""
    one = field.number(1)
    ratio = (x.power(3) * 5 - x * 2) / (x * x + one)
    for formula, top, bottom in (
        (ratio, [0, -2, 0, 5], [1, 0, 1]),
        (one / x, [1], [0, 1]),
        (field.number(Fraction(2, 7)), [Fraction(2, 7)], [1]),
        (field.number(0), [0], [1]),
    ):
        found: Any = formula.coefficients()
        assert found == (top, bottom)
    assert (x * y).coefficients() is None
    assert (one / y).coefficients() is None
    assert x.sqrt().coefficients() is None


def test_products_that_are_too_large_are_refused(field: Field) -> None:
    """20,000 terms before like ones are added."""

    def terms(n: int) -> Ratio:
        total = field.number(0)
        for _ in range(n):
            total = total + field.variable()
        return total

    wide = terms(200)
    hundred = terms(100)
    assert len((wide * hundred).top) == 20_000
    with pytest.raises(TooLarge):
        wide * terms(101)


def test_a_function_of_the_same_is_the_same_variable(field: Field, x: Ratio) -> None:
    before = len(field.squares)
    root = (x + field.number(1)).sqrt()
    assert (field.number(1) + x).sqrt() is root
    assert len(field.squares) == before + 1
    logarithm = x.log()
    assert x.log() is logarithm
    assert field.squares[before + 1] is None
    square = field.squares[before]
    assert square is not None
    assert (square - x - field.number(1)).is_zero
