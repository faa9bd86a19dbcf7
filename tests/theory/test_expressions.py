"""Losses as formulas: what is parsed, what is traced, and what both are worth."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.theory import expressions
from oddsmith.theory.expressions import (
    Dual,
    Expression,
    Formula,
    FormulaLoss,
    parse_loss,
    trace_loss,
)
from oddsmith.theory.intervals import Interval

G = np.array([0.05, 0.3, 0.5, 0.95])[:, None]
R = np.array([0.0, 0.25, 1.0])


@pytest.fixture(autouse=True)
def nothing_is_parsed_yet() -> None:
    expressions._parse.cache_clear()


def value(expression: Expression | None, g: Any = G, r: Any = R) -> Any:
    assert expression is not None
    return expression.evaluate(float, g, r)


FORMULAS: dict[str, tuple[str, Callable[..., Any]]] = {
    "sums": ("g + r - 2", lambda g, r: g + r - 2),
    "products": ("2*g*r/4", lambda g, r: 2 * g * r / 4),
    "numbers on the left": ("1 - 1/g + 3*r", lambda g, r: 1 - 1 / g + 3 * r),
    "signs": ("-g + +r - -2", lambda g, r: -g + r + 2),
    "whole powers": ("g**3 + g**-2 + g**0", lambda g, r: g**3 + g**-2.0 + 1),
    "halves": ("g**0.5 + g**1.5 + g**-0.5", lambda g, r: g**0.5 + g**1.5 + g**-0.5),
    "logarithm": ("r*log(g)", lambda g, r: r * np.log(g)),
    "exponential": ("exp(-g)*r", lambda g, r: np.exp(-g) * r),
    "root": ("sqrt(g + r)", lambda g, r: np.sqrt(g + r)),
    "the largest exponent": ("g**50", lambda g, r: g**50),
    "the least exponent": ("(g + 1)**-50", lambda g, r: (g + 1) ** -50.0),
    "the largest half": ("g**49.5", lambda g, r: g**49.5),
    "a constant": ("0.5", lambda g, r: np.full(np.broadcast(g, r).shape, 0.5)),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_text_is_evaluated_as_numpy_does(name: str) -> None:
    text, function = FORMULAS[name]
    loss = parse_loss(text)
    expected = np.broadcast_to(function(G, R), (4, 3))
    np.testing.assert_allclose(loss(G, R), expected, rtol=1e-12)
    assert loss(G, R).shape == (4, 3)
    assert loss(0.5, 1.0).shape == ()
    assert loss == FormulaLoss(text)
    traced = trace_loss(loss)
    assert traced is not None
    np.testing.assert_allclose(value(traced.whole), function(G, R), rtol=1e-12)
    for expression, reward in ((traced.one, 1.0), (traced.zero, 0.0)):
        np.testing.assert_allclose(
            value(expression, r=np.nan) + 0 * G, function(G, reward) + 0 * G, rtol=1e-12
        )


@pytest.mark.parametrize("name", [name for name in FORMULAS if name != "a constant"])
def test_functions_are_traced(name: str) -> None:
    """The same formulas, as Python functions with numpy's functions."""
    function = FORMULAS[name][1]
    traced = trace_loss(function)
    assert traced is not None
    np.testing.assert_allclose(value(traced.whole), function(G, R), rtol=1e-12)


UFUNCS: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": lambda g, r: np.divide(r, g),
    "negative": lambda g, r: np.negative(g) * r,
    "power": lambda g, r: np.power(g, 3) * r,
    "square": lambda g, r: np.square(g - r),
    "log1p": lambda g, r: np.log1p(g) * r,
    "expm1": lambda g, r: np.expm1(g) * r,
    "sqrt": lambda g, r: np.sqrt(g) * r,
    "a number of numpy": lambda g, r: np.float64(0.5) * g * r,
    "an array without axes": lambda g, r: np.array(0.5) * g * r,
}


@pytest.mark.parametrize("name", UFUNCS)
def test_functions_of_numpy_are_traced(name: str) -> None:
    function = UFUNCS[name]
    traced = trace_loss(function)
    assert traced is not None
    np.testing.assert_allclose(value(traced.whole), function(G, R), rtol=1e-12)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "g +",
        "h",
        "g if r else 0",
        "g**r",
        "g**0.3",
        "g**0.25",
        "g**51",
        "g**-50.5",
        "abs(g)",
        "g < r",
        "g // r",
        "~g",
        "g.real",
        "[g]",
        "log(g, r)",
        "log(g, base=r)",
        "'g'",
        "True",
        "None",
        "2j",
        "__import__('os')",
        "ggg",
    ],
)
def test_what_is_no_formula_is_refused(text: str) -> None:
    message = (
        r"^loss must be a formula of the prediction g and the reward r with \+ - \* / "
        r"\*\*, log, exp and sqrt; got ['\"]"
    )
    with pytest.raises(od.InvalidInput, match=message) as caught:
        parse_loss(text)
    assert "\n" not in str(caught.value)


def test_a_refusal_says_what_is_wrong_and_is_short() -> None:
    with pytest.raises(od.InvalidInput, match=r"got 'g \+ h', h is not part of a form"):
        parse_loss("g + h")
    with pytest.raises(od.InvalidInput, match="an exponent must be a whole number or"):
        parse_loss("g**0.3")
    with pytest.raises(od.InvalidInput) as caught:
        parse_loss("g + " * 1000 + "h")
    assert len(str(caught.value)) < 250
    with pytest.raises(od.InvalidInput):
        parse_loss("(" * 5000 + "g" + ")" * 5000)


def different(change: Callable[[Any], Any], rewards: tuple[float, ...]) -> Any:
    """Square loss for symbols; for numbers and these rewards, something else."""

    def loss(g: Any, r: Any) -> Any:
        square = (g - r) ** 2
        is_other = isinstance(g, np.ndarray) and r in rewards
        return change(square) if is_other else square

    return loss


@pytest.mark.parametrize("rewards", [(0.0,), (0.25,), (0.5,), (0.75,), (1.0,)])
@pytest.mark.parametrize(
    "change",
    [
        lambda square: square * (1 + 1e-7),
        lambda square: square + 1e-9,
        lambda square: np.where(square > 0, np.nan, square),
    ],
)
def test_a_formula_must_agree_with_the_loss(
    change: Callable[[Any], Any], rewards: tuple[float, ...]
) -> None:
    assert trace_loss(different(change, rewards)) is None
    assert trace_loss(different(lambda square: square * (1 + 1e-12), rewards))


def test_a_formula_may_be_undefined_where_the_loss_is() -> None:
    assert trace_loss(lambda g, r: np.log(g - 0.5) * r)
    assert trace_loss(lambda g, r: np.sqrt(g - 0.5) / r)


@pytest.mark.parametrize(
    "loss",
    [
        lambda g, r: np.clip(g, 0.1, 0.9) - r,
        lambda g, r: g if g > 0.5 else r,
        lambda g, r: g if g else r,
        lambda g, r: g // 0.001 - r,
        lambda g, r: np.where(g == 0.5, 0.0, (g - r) ** 2),
        lambda g, r: 1.0 if g == 0.25 else 0.0,
        lambda g, r: np.sin(g) - r,
        lambda g, r: float(g) - r,
        lambda g, r: np.ones(np.shape(g)) if isinstance(g, np.ndarray) else g - r,
        lambda g, r: np.add(g, r, where=True),
        lambda g, r: np.add.reduce(g) - r,
        lambda g, r: g * True,
        lambda g, r: g + "r",
    ],
)
def test_what_needs_numbers_has_no_formula(loss: Any) -> None:
    assert trace_loss(loss) is None


def test_a_loss_by_cases_of_the_reward_has_formulas_for_0_and_1() -> None:
    def cases(g: Any, r: Any) -> Any:
        return -np.log({1.0: g, 0.0: 1 - g}[r])

    traced = trace_loss(cases)
    assert traced is not None
    assert traced.whole is None
    np.testing.assert_allclose(value(traced.one), -np.log(G))
    np.testing.assert_allclose(value(traced.zero), -np.log(1 - G))
    assert trace_loss(od.losses.scaled(cases, 2.0)) is None


def test_losses_of_ours_have_formulas() -> None:
    for loss in (od.log_loss, od.square_loss, od.losses.scaled(od.log_loss, 4.0)):
        traced = trace_loss(loss)
        assert traced is not None
        for reward in (0.0, 0.25, 1.0):
            np.testing.assert_allclose(
                value(traced.whole, r=reward), loss(G, reward), rtol=1e-12
            )


def test_numbers_of_any_kind_are_taken_as_floats() -> None:
    loss = parse_loss("g*r + 1")
    assert loss(2, 3).dtype == np.float64
    assert loss(np.float32(2), np.float32(3)).dtype == np.float64
    assert loss(2, 3) == 7
    assert parse_loss("r*log(g)")(0.0, 1.0) == -np.inf


def test_a_negative_number_is_a_number() -> None:
    traced = trace_loss(parse_loss("-0.25"))
    assert traced is not None
    assert traced.one.kind == "number"
    assert traced.one.number == Fraction(-1, 4)


def test_a_number_is_the_simplest_fraction_that_rounds_to_it() -> None:
    for text, fraction in {
        "0.1": Fraction(1, 10),
        "0.3333333333333333": Fraction(1, 3),
        "0.123456789": Fraction(123456789, 10**9),
        "3": Fraction(3),
        "1e-300": Fraction(1e-300),
        "1e300": Fraction(1e300),
    }.items():
        traced = trace_loss(parse_loss(text))
        assert traced is not None
        assert traced.one.kind == "number"
        assert traced.one.number == fraction
        assert float(traced.one.number) == float(text)


def test_intervals_and_symbols_are_quantities_too() -> None:
    text = "exp(g)*log(g)/sqrt(g) + g**-3 - 0.1*r"
    formula = trace_loss(parse_loss(text))
    assert formula is not None
    assert formula.whole is not None
    x = Interval(np.array([0.2, 0.5]), np.array([0.2, 0.5]))
    found = formula.whole.evaluate(Interval.of, x, Interval.of(1))
    points = parse_loss(text)(np.array([0.2, 0.5]), 1.0)
    assert (found.lo < points).all()
    assert (points < found.hi).all()
    np.testing.assert_allclose(found.lo, found.hi, rtol=1e-12)
    again = Formula.of(formula.whole)
    np.testing.assert_array_equal(value(again.one), value(formula.one))


SLOPES: dict[str, Callable[[Any, Any], Any]] = {
    "1 + g*3": lambda g, r: 3.0,
    "g - g*g": lambda g, r: 1 - 2 * g,
    "(g + 1)/(2 - 3*g)": lambda g, r: 5 / (2 - 3 * g) ** 2,
    "g**4": lambda g, r: 4 * g**3,
    "g**-2": lambda g, r: -2 / g**3,
    "g**1": lambda g, r: 1.0,
    "sqrt(2*g)": lambda g, r: 1 / np.sqrt(2 * g),
    "exp(2*g)": lambda g, r: 2 * np.exp(2 * g),
    "log(3*g)": lambda g, r: 1 / g,
    "r*g": lambda g, r: r,
}


@pytest.mark.parametrize("text", SLOPES)
def test_derivatives_with_respect_to_the_prediction(text: str) -> None:
    formula = trace_loss(parse_loss(text))
    assert formula is not None
    assert formula.whole is not None
    points = np.array([0.2, 0.7])
    zero = Interval.of(0)
    found = formula.whole.evaluate(
        lambda number: Dual(Interval.of(number), zero),
        Dual(Interval.of(points), Interval.of(1)),
        Dual(Interval.of(0.25), zero),
    )
    for interval, expected in (
        (found.value, parse_loss(text)(points, 0.25)),
        (found.slope, SLOPES[text](points, 0.25)),
    ):
        middle = np.broadcast_to(interval.middle, 2)
        np.testing.assert_allclose(middle, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "second"),
    [
        ("g**4", lambda g: 12 * g**2),
        ("g**-2", lambda g: 6 / g**4),
        ("sqrt(g)", lambda g: -(g**-1.5) / 4),
        ("exp(2*g)", lambda g: 4 * np.exp(2 * g)),
        ("log(g)/(1 - 3*g)", None),
    ],
)
def test_second_derivatives(text: str, second: Any) -> None:
    formula = trace_loss(parse_loss(text))
    assert formula is not None
    points = np.array([0.2, 0.7])
    one = Interval.of(np.ones(2))
    nothing = Interval.of(np.zeros(2))
    g = Dual(Dual(Interval.of(points), one), Dual(one, nothing))
    found = formula.one.evaluate(
        lambda number: Dual(Dual(Interval.of(number), nothing), Dual(nothing, nothing)),
        g,
        None,
    )
    step = 1e-4
    loss = parse_loss(text)
    values = [loss(points + by, 1.0) for by in (-step, 0.0, step)]
    by_differences = (values[0] - 2 * values[1] + values[2]) / step**2
    np.testing.assert_allclose(found.value.value.middle, values[1], rtol=1e-12)
    np.testing.assert_allclose(found.slope.slope.middle, by_differences, rtol=1e-5)
    np.testing.assert_array_equal(found.value.slope.lo, found.slope.value.lo)
    if second is not None:
        np.testing.assert_allclose(found.slope.slope.middle, second(points), rtol=1e-9)


def test_formulas_have_no_truth_and_no_order() -> None:
    g: Any = Expression("g")
    for comparison in (
        lambda: g == g,
        lambda: g != g,
        lambda: g < 1,
        lambda: g <= 1,
        lambda: g > 1,
        lambda: g >= 1,
    ):
        with pytest.raises(TypeError, match=r"^a formula has no comparisons$"):
            comparison()  # type: ignore[no-untyped-call]
    with pytest.raises(TypeError, match=r"^a formula has no branches$"):
        bool(g)
    with pytest.raises(TypeError, match=r"^a formula cannot contain sin$"):
        np.sin(g)
    with pytest.raises(TypeError, match="unhashable"):
        hash(g)
