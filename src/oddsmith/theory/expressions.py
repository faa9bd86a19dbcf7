"""Losses as formulas: read from text or traced through a Python function, then
evaluated over intervals or over rational functions.

A number means the simplest fraction that rounds to it: 0.1 is one tenth. Code that
cannot be traced (comparisons, clipping, `abs`, tables) has no formula, so nothing is
proved about it.
"""

import ast
import operator
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from oddsmith.core.errors import InvalidInput
from oddsmith.core.losses import Loss, Scaled, log_loss

__all__ = ["Dual", "Expression", "Formula", "FormulaLoss", "parse_loss", "trace_loss"]


@dataclass(frozen=True, eq=False)
class Expression:
    """A node of a formula: a number, the prediction g, the reward r, or an operation.

    It replaces a number while a loss is traced. An operation that would need its value
    raises `TypeError`.
    """

    kind: str
    parts: tuple["Expression", ...] = ()
    number: Fraction = Fraction(0)

    def __add__(self, other: Any) -> "Expression":
        return Expression("+", (self, _node(other)))

    def __sub__(self, other: Any) -> "Expression":
        return Expression("-", (self, _node(other)))

    def __mul__(self, other: Any) -> "Expression":
        return Expression("*", (self, _node(other)))

    def __truediv__(self, other: Any) -> "Expression":
        return Expression("/", (self, _node(other)))

    def __radd__(self, other: Any) -> "Expression":
        return _node(other) + self

    def __rsub__(self, other: Any) -> "Expression":
        return _node(other) - self

    def __rmul__(self, other: Any) -> "Expression":
        return _node(other) * self

    def __rtruediv__(self, other: Any) -> "Expression":
        return _node(other) / self

    def __neg__(self) -> "Expression":
        if self.kind == "number":
            return _node_of(-self.number)
        return _node(0) - self

    def __pos__(self) -> "Expression":
        return self

    def __pow__(self, other: Any) -> "Expression":
        exponent = _node(other)
        twice = 2 * exponent.number
        is_half = exponent.kind == "number" and twice.denominator <= 1
        if not is_half or abs(twice) > 100:
            raise TypeError("an exponent must be a whole number or a half, up to 50")
        if exponent.number.denominator == 1:
            return self.power(int(exponent.number))
        return self.sqrt().power(int(twice))

    def __eq__(self, other: object) -> bool:
        raise TypeError("a formula has no comparisons")

    __lt__ = __le__ = __gt__ = __ge__ = __ne__ = __eq__
    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise TypeError("a formula has no branches")

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any
    ) -> "Expression":
        operation = _UFUNCS.get(ufunc.__name__)
        if operation is None or method != "__call__" or options:
            raise TypeError(f"a formula cannot contain {ufunc.__name__}")
        return operation(*(_node(part) for part in inputs))

    def power(self, exponent: int) -> "Expression":
        """Return the integer power."""
        return Expression("power", (self,), Fraction(exponent))

    def sqrt(self) -> "Expression":
        """Return the square root."""
        return Expression("sqrt", (self,))

    def exp(self) -> "Expression":
        """Return the exponential."""
        return Expression("exp", (self,))

    def log(self) -> "Expression":
        """Return the logarithm."""
        return Expression("log", (self,))

    def evaluate(self, lift: Callable[[Fraction], Any], g: Any, r: Any) -> Any:
        """Evaluate the formula for these values; `lift` converts a number to their
        type.

        Arrays can be used, and any type with + - * / and the methods `power`, `sqrt`,
        `exp` and `log`.
        """
        if self.kind == "number":
            return lift(self.number)
        if self.kind in ("g", "r"):
            if self.kind == "g":
                return g
            return r
        values = [part.evaluate(lift, g, r) for part in self.parts]
        first, *others = values
        if self.kind in _ARITHMETIC:
            return _ARITHMETIC[self.kind](first, *others)
        if self.kind == "power":
            others = [int(self.number)]
        method = getattr(first, self.kind, None)
        if method is None:
            return getattr(np, self.kind)(first, *others)
        return method(*others)


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
_FUNCTIONS: dict[str, Callable[..., Expression]] = {
    "log": Expression.log,
    "exp": Expression.exp,
    "sqrt": Expression.sqrt,
}
_UFUNCS: dict[str, Callable[..., Expression]] = {
    **_FUNCTIONS,
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "negative": operator.neg,
    "power": operator.pow,
    "square": lambda part: part**2,
    "log1p": lambda part: (1 + part).log(),
    "expm1": lambda part: part.exp() - 1,
}


def _node(value: Any) -> Expression:
    if isinstance(value, np.ndarray | np.generic):
        value = value.item()
    if isinstance(value, Expression):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return _node_of(Fraction(value))
    if isinstance(value, float):
        return _node_of(_simplest(value))
    raise TypeError(f"a formula cannot contain {value!r:.40}")


def _simplest(value: float) -> Fraction:
    """Return a fraction with few digits that rounds to this number."""
    exact = Fraction(value)
    for digits in range(1, 17):
        simple = exact.limit_denominator(10**digits)
        if float(simple) == value:
            return simple
    return exact


def _node_of(number: Fraction) -> Expression:
    return Expression("number", number=number)


@dataclass(frozen=True)
class Dual:
    """A quantity and its derivative with respect to the prediction."""

    value: Any
    slope: Any

    def __add__(self, other: "Dual") -> "Dual":
        slope = self.slope + other.slope
        return Dual(self.value + other.value, slope)

    def __sub__(self, other: "Dual") -> "Dual":
        slope = self.slope - other.slope
        return Dual(self.value - other.value, slope)

    def __mul__(self, other: "Dual | int") -> "Dual":
        if isinstance(other, int):
            return Dual(self.value * other, self.slope * other)
        own = self.slope * other.value
        slope = own + self.value * other.slope
        return Dual(self.value * other.value, slope)

    def __truediv__(self, other: "Dual") -> "Dual":
        ratio = self.value / other.value
        rest = self.slope - ratio * other.slope
        slope = rest / other.value
        return Dual(ratio, slope)

    def power(self, exponent: int) -> "Dual":
        """Return the integer power."""
        power = self.value.power(exponent - 1)
        slope = self.slope * power * exponent
        return Dual(self.value.power(exponent), slope)

    def sqrt(self) -> "Dual":
        """Return the square root."""
        root = self.value.sqrt()
        return Dual(root, self.slope / (root * 2))

    def exp(self) -> "Dual":
        """Return the exponential."""
        value = self.value.exp()
        return Dual(value, value * self.slope)

    def log(self) -> "Dual":
        """Return the logarithm."""
        return Dual(self.value.log(), self.slope / self.value)


_G = Expression("g")
_R = Expression("r")


@dataclass(frozen=True)
class FormulaLoss:
    """A loss given as a formula in g and r, callable like any loss."""

    text: str

    def __call__(self, prediction: Any, reward: Any) -> Any:
        g = np.asarray(prediction, dtype=np.float64)
        r = np.asarray(reward, dtype=np.float64)
        with np.errstate(all="ignore"):
            values = _parse(self.text).evaluate(np.float64, g, r)
        shape = np.broadcast_shapes(g.shape, r.shape)
        return np.broadcast_to(values, shape)


def parse_loss(text: str) -> FormulaLoss:
    """Parse a loss such as "(g - r)**2" or "-r*log(g) - (1-r)*log(1-g)".

    >>> float(parse_loss("(g - r)**2")(0.5, 1.0))
    0.25
    """
    _parse(text)
    return FormulaLoss(text)


@lru_cache(maxsize=64)
def _parse(text: str) -> Expression:
    try:
        return _build(ast.parse(text, mode="eval").body)
    except (SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise InvalidInput(
            "loss must be a formula of the prediction g and the reward r with "
            f"+ - * / **, log, exp and sqrt; got {text!r:.60}, {error!s:.60}"
        ) from error


def _build(node: ast.expr) -> Expression:
    match node:
        case ast.Constant(value):
            return _node(value)
        case ast.Name("g"):
            return _G
        case ast.Name("r"):
            return _R
        case ast.UnaryOp(ast.USub(), operand):
            return -_build(operand)
        case ast.UnaryOp(ast.UAdd(), operand):
            return _build(operand)
        case ast.BinOp(left, operation, right) if type(operation) in _OPERATORS:
            build = _OPERATORS[type(operation)]
            return build(_build(left), _build(right))
        case ast.Call(ast.Name(name), [argument], []) if name in _FUNCTIONS:
            return _FUNCTIONS[name](_build(argument))
    raise TypeError(f"{ast.unparse(node)} is not part of a formula")


_OPERATORS: dict[type[ast.operator], Callable[..., Expression]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


@dataclass(frozen=True, eq=False)
class Formula:
    """A loss as formulas: for reward 1, for reward 0, and for any reward if known."""

    one: Expression
    zero: Expression
    whole: Expression | None

    @classmethod
    def of(cls, whole: Expression) -> "Formula":
        """Return the formula of a loss for any reward."""
        one = whole.evaluate(_node_of, _G, _node_of(Fraction(1)))
        zero = whole.evaluate(_node_of, _G, _node_of(Fraction(0)))
        return cls(one, zero, whole)


def trace_loss(loss: Loss) -> Formula | None:
    """Return the formula of a loss by calling it with symbols, or None if that fails.

    The function must do the same with symbols as with numbers, which is checked at a
    few hundred points.
    """
    if isinstance(loss, Scaled):
        inner = trace_loss(loss.loss)
        if inner is None or inner.whole is None:
            return None
        return Formula.of(inner.whole / loss.beta)
    if isinstance(loss, FormulaLoss):
        return Formula.of(_parse(loss.text))
    if loss is log_loss:
        won = -_R * _G.log()
        lost = (1 - _R) * (1 - _G).log()
        return Formula.of(won - lost)
    formula = _trace(loss)
    if formula is None or not _agrees(formula, loss):
        return None
    return formula


def _trace(loss: Any) -> Formula | None:
    try:
        return Formula.of(_node(loss(_G, _R)))
    except Exception:
        # User code may accept only numbers: try an expression for the reward alone.
        pass
    try:
        zero = _node(loss(_G, 0.0))
        return Formula(_node(loss(_G, 1.0)), zero, None)
    except Exception:
        return None


def _agrees(formula: Formula, loss: Loss) -> bool:
    points = np.random.default_rng(0).uniform(size=256)
    known = {1.0: formula.one, 0.0: formula.zero}
    if formula.whole is not None:
        known |= dict.fromkeys((0.25, 0.5, 0.75), formula.whole)
    with np.errstate(all="ignore"):
        for reward, expression in known.items():
            values = expression.evaluate(np.float64, points, np.float64(reward))
            losses = loss(points, reward)
            if not np.allclose(values, losses, rtol=1e-9, atol=1e-12, equal_nan=True):
                return False
    return True
