"""Interval arithmetic: every result contains the exact one, and hardly more."""

from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oddsmith.theory.intervals import Interval

NUMBERS = st.floats(-20, 20, allow_subnormal=False)
ENDS = st.tuples(NUMBERS, NUMBERS).map(sorted)
NAN = float("nan")
INF = float("inf")


def interval(low: float, high: float) -> Interval:
    return Interval(np.asarray(low), np.asarray(high))


def is_tight(found: Interval, low: Fraction, high: Fraction) -> bool:
    """Whether an interval contains [low, high], and exceeds it by two units in the last
    place at most, at either end."""
    ends = [float(found.lo), float(found.hi)]
    inner = [ends[0], ends[1]]
    for _ in range(2):
        inner = [
            float(np.nextafter(inner[0], INF)),
            float(np.nextafter(inner[1], -INF)),
        ]
    contains = Fraction(ends[0]) <= low <= high <= Fraction(ends[1])
    return contains and Fraction(inner[0]) >= low and Fraction(inner[1]) <= high


@given(ENDS, ENDS, st.sampled_from(["+", "-", "*", "/"]))
@settings(max_examples=200)
def test_arithmetic_is_exact_up_to_rounding(
    first: list[float], second: list[float], operation: str
) -> None:
    operations: dict[str, Callable[[Any, Any], Any]] = {
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
        "/": lambda a, b: a / b,
    }
    apply = operations[operation]
    found = apply(interval(*first), interval(*second))
    if operation == "/" and second[0] <= 0 <= second[1]:
        assert np.isnan(found.lo)
        assert np.isnan(found.hi)
        return
    exact = [apply(Fraction(a), Fraction(b)) for a in first for b in second]
    assert is_tight(found, min(exact), max(exact))


def test_numbers_on_either_side() -> None:
    x = interval(1.0, 2.0)
    assert is_tight(3 - x, Fraction(1), Fraction(2))
    assert is_tight(3 + x, Fraction(4), Fraction(5))
    assert is_tight(3 * x, Fraction(3), Fraction(6))
    assert is_tight(3 / x, Fraction(3, 2), Fraction(3))
    assert is_tight(x / 3, Fraction(1, 3), Fraction(2, 3))
    assert is_tight(-x, Fraction(-2), Fraction(-1))


def test_divisors_that_touch_0() -> None:
    x = interval(1.0, 2.0)
    for low, high in ((0.0, 1.0), (-1.0, 0.0), (-1.0, 1.0), (0.0, 0.0)):
        quotient = x / interval(low, high)
        assert np.isnan([quotient.lo, quotient.hi]).all()
    assert is_tight(x / interval(-4.0, -2.0), Fraction(-1), Fraction(-1, 4))


def test_infinity_times_0_is_nan() -> None:
    product = interval(0.0, INF) * interval(0.0, 1.0)
    assert np.isnan([product.lo, product.hi]).all()


def test_the_interval_of_a_number() -> None:
    assert Interval.of(0.5).lo == Interval.of(0.5).hi == 0.5
    same = interval(1.0, 2.0)
    assert Interval.of(same) is same
    array = np.array([1.0, 2.0])
    assert Interval.of(array).lo is array
    assert Interval.of(array).hi is array
    for number in (Fraction(1, 3), Fraction(2, 3), Fraction(-1, 3), 2**60 + 1):
        found = Interval.of(number)
        assert Fraction(float(found.lo)) < number < Fraction(float(found.hi))
        assert found.hi == np.nextafter(found.lo, INF)


def test_the_common_part() -> None:
    common = interval(0.0, 2.0).within(interval(1.0, 3.0))
    assert common.lo == 1
    assert common.hi == 2


def test_powers_by_hand() -> None:
    x = interval(-2.0, 3.0)
    assert x.power(1) is x
    square = x.power(2)
    assert square.lo == 0
    assert 9 <= square.hi <= 9 + 1e-13
    assert x.power(0).lo == x.power(0).hi == 1
    cube = x.power(3)  # by a product: wider than need be
    assert -18 - 1e-12 <= cube.lo <= -18
    assert 27 <= cube.hi <= 27 + 1e-12
    for low, high in ((2.0, 3.0), (-3.0, -2.0)):
        for exponent in (-3, -2, -1, 2, 3, 4):
            powers = sorted([Fraction(low) ** exponent, Fraction(high) ** exponent])
            found = interval(low, high).power(exponent)
            assert Fraction(float(found.lo)) <= powers[0]
            assert powers[1] <= Fraction(float(found.hi))
            np.testing.assert_allclose(
                [found.lo, found.hi], [float(p) for p in powers], rtol=1e-14
            )


def test_the_middle_and_the_magnitude() -> None:
    assert interval(-3.0, 1.0).magnitude == 3
    assert interval(-1.0, 2.0).magnitude == 2
    assert interval(1.0, 4.0).middle == 2.5
    assert interval(-4.0, -1.0).middle == -2.5
    thin = interval(1.0, float(np.nextafter(1.0, 2.0)))
    assert thin.lo <= thin.middle <= thin.hi
    huge = interval(-1e308, 1e308)  # whose width is no number
    with np.errstate(over="ignore"):
        assert huge.lo <= huge.middle <= huge.hi


@given(st.floats(-600, 600), st.floats(1e-300, 1e300))
@settings(max_examples=100)
def test_functions_contain_many_digits(x: float, y: float) -> None:
    with localcontext(prec=60):
        cases = [
            (Interval.of(x).exp(), Decimal(x).exp(), 0.0),
            (Interval.of(y).log(), Decimal(y).ln(), 1.0),
            (Interval.of(y).sqrt(), Decimal(y).sqrt(), 0.0),
        ]
    for found, exact, least in cases:
        assert Decimal(float(found.lo)) <= exact <= Decimal(float(found.hi))
        width = float(found.hi) - float(found.lo)
        assert width <= 8e-15 * max(1, abs(x)) * max(least, abs(float(exact)))


def test_functions_of_intervals_are_those_of_their_ends() -> None:
    x = interval(0.5, 4.0)
    for found, ends in (
        (x.sqrt(), np.sqrt([0.5, 4.0])),
        (x.exp(), np.exp([0.5, 4.0])),
        (x.log(), np.log([0.5, 4.0])),
    ):
        np.testing.assert_allclose([found.lo, found.hi], ends, rtol=1e-14)
        assert found.lo < found.hi


@pytest.mark.parametrize("number", [-1.0, 0.0, NAN])
def test_outside_their_domain_functions_are_nan(number: float) -> None:
    for low, high in ((number, number), (number, 2.0)):
        x = interval(low, high)
        for found in (x.sqrt(), x.log()):
            assert np.isnan([found.lo, found.hi]).all()


def test_the_exponential_at_its_ends() -> None:
    assert Interval.of(800.0).exp().hi == INF
    assert np.isfinite(Interval.of(800.0).exp().lo)
    assert Interval.of(-800.0).exp().lo == 0
    assert 0 < Interval.of(-800.0).exp().hi < 1e-300
    for x in (-700.0, -699.0, 699.0, 700.0):
        found = Interval.of(x).exp()
        np.testing.assert_allclose([found.lo, found.hi], np.exp(x), rtol=1e-11)
        assert found.lo < found.hi
    for x in (float(np.nextafter(700, 701)), float(np.nextafter(-700, -701))):
        found = Interval.of(x).exp()
        assert (found.lo == 0) if x < 0 else (found.hi == INF)
    undefined = interval(NAN, NAN).exp()
    assert np.isnan([undefined.lo, undefined.hi]).all()
    infinite = interval(-INF, INF).exp()
    assert infinite.lo == 0
    assert infinite.hi == INF


def test_the_logarithm_of_infinity() -> None:
    found = interval(1.0, INF).log()
    assert found.hi == INF
    assert -1e-15 < found.lo <= 0
    points = Interval(np.array([2.0, 0.0]), np.array([INF, 1.0])).log()
    np.testing.assert_allclose(points.lo, [np.log(2), NAN])
    np.testing.assert_array_equal(points.hi, [INF, NAN])
    assert np.isnan(interval(1.0, NAN).log().hi)


@pytest.mark.parametrize("error", [1e-6, -1e-6])
def test_the_logarithm_of_a_machine_that_errs(
    error: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What numpy's logarithm gives is corrected."""
    exact = np.log(np.array([1e-5, 0.7, 3.0, 1e9]))
    log = np.log
    monkeypatch.setattr(np, "log", lambda x: log(x) + error)
    found = Interval.of(np.exp(exact)).log()
    assert (found.lo < exact).all()
    assert (exact < found.hi).all()
    np.testing.assert_allclose(found.hi - found.lo, 0, atol=2e-12)


def test_sets_contain_the_values_of_their_points() -> None:
    rng = np.random.default_rng(0)
    low, high = np.sort(rng.normal(size=(2, 200)), axis=0)
    x = Interval(low, high)
    inside = low + (high - low) * rng.uniform(size=200)
    for n in (-2, -1, 0, 1, 2, 3, 4):
        found = x.power(n)
        known = np.isfinite(found.lo)
        values = inside ** float(n)
        assert (found.lo <= values)[known].all()
        assert (values <= found.hi)[known].all()
    assert (x.power(2).lo >= 0).all()
    assert np.isnan((1 / x).lo[(low < 0) & (high > 0)]).all()
