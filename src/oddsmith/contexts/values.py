"""Values of contexts: which are missing, which are numbers, and the refusal of all others."""

from collections.abc import Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any
from uuid import UUID

import numpy as np

from oddsmith.errors import InvalidInput
from oddsmith.spelling import resembling

__all__ = [
    "HUGE",
    "as_number",
    "check_columns",
    "check_json",
    "missing",
    "plain",
    "shown",
    "simple",
    "single",
    "unreadable",
]

HUGE = 1e100  # beyond it squares overflow: such a number is as good as missing
_DEEPEST = 32  # dicts and lists in each other
_NUMBERS = frozenset((int, float, bool, type(None), np.float64, np.float32, np.int64))
_TIMES = (date, time, timedelta, np.datetime64, np.timedelta64)
_NO_NUMBERS = (*_TIMES, bytes, bytearray, complex, np.complexfloating)


def missing(value: object) -> bool:
    """Whether a value is None, NaN, NaT or pandas' NA.

    >>> [missing(value) for value in (None, float("nan"), np.datetime64("NaT"), 0, "")]
    [True, True, True, False, False]
    """
    if value is None:
        return True
    if isinstance(value, str | int):
        return False
    if value is np.ma.masked:
        return True
    try:
        return bool(value != value)
    except ArithmeticError:  # a NaN of Decimal that signals
        return True
    except (TypeError, ValueError):  # the NA of pandas is neither equal to itself nor not; arrays are neither, too
        return type(value).__name__ == "NAType"


def plain(value: object) -> Any:
    """A value of a table as Python has it, None where it is missing."""
    kind = type(value)
    if kind is str or kind is int or kind is bool:
        return value
    if kind is float:
        return value if value == value else None
    if missing(value):
        return None
    if isinstance(value, np.datetime64 | np.timedelta64):
        unit = "datetime64[us]" if isinstance(value, np.datetime64) else "timedelta64[us]"
        return value.astype(unit).item()  # nanoseconds would become a whole number
    return value.item() if isinstance(value, np.generic) else value


def simple(value: object) -> object:
    """A value of an uncommon kind as the nearest common one: exact numbers as floats, periods and UUIDs as text.

    Everything else is as it was.

    >>> simple(Decimal("1.5")), simple(UUID(int=7))
    (1.5, '00000000-0000-0000-0000-000000000007')
    """
    if isinstance(value, Decimal | Fraction):
        return None if missing(value) else as_number("", value)
    kind = type(value)
    is_label = kind.__module__.split(".")[0] == "pandas" and kind.__name__ in ("Period", "Interval")
    return str(value) if is_label or isinstance(value, UUID) else value


def as_number(column: object, value: object) -> float:
    """A number; NaN for what is missing, infinite or huge."""
    if type(value) is float or type(value) is int:
        return float(value) if -HUGE < value < HUGE else float("nan")
    if missing(value):
        return float("nan")
    try:
        if isinstance(value, _NO_NUMBERS) or (isinstance(value, np.ndarray) and value.ndim):  # float() may take them
            raise TypeError("it is no number")
        converted = float(value)  # type: ignore[arg-type]  # whatever float() takes
    except OverflowError:
        return float("nan")
    except (TypeError, ValueError) as error:
        raise unreadable(column, value, "a number") from error
    return converted if abs(converted) < HUGE else float("nan")


def unreadable(column: object, value: object, wanted: str) -> InvalidInput:
    """The refusal of a value, in one sentence: the column, what it holds, what to do.

    >>> print(unreadable("user", {"age": 3}, "a number or text"))
    context column 'user' must be a number or text; got a dict: give each entry a column of its own, as 'user.age'
    """
    got, then = shown(value), "leave the column out"
    if isinstance(value, _TIMES) or hasattr(value, "isoformat"):
        got, then = f"the time {value}", "give what matters of it as columns, hour and weekday say, or leave it out"
    elif isinstance(value, Mapping):
        inner = next(iter(value), "entry")
        got, then = "a dict", f"give each entry a column of its own, as '{column}.{inner}'"
    elif isinstance(value, list | tuple | np.ndarray):
        got, then = "a list", "give each entry a column of its own"
    elif isinstance(value, bytes | bytearray):
        then = "decode it to text"
    elif isinstance(value, str):
        then = "make it a category of a Schema, or None where the number is not known"
    return InvalidInput(f"context column {column!r} must be {wanted}; got {got}: {then}")


def check_columns(columns: tuple[str, ...], names: tuple[object, ...]) -> None:
    """Refuse names that are probably misspelt: a column is absent, and a name that is no column resembles it.

    >>> check_columns(("age", "city"), ("age", "citty"))
    Traceback (most recent call last):
    oddsmith.errors.InvalidInput: context has no column 'city', but 'citty'; did you mean city? Rename it, or give
    'city' as None, too, where it is not known
    """
    refusal = _misspelt(columns, names)
    if refusal is not None:
        raise InvalidInput(refusal)


def shown(value: object) -> str:
    """The beginning of a value's repr, on one line."""
    return f"a {type(value).__name__}" if hasattr(value, "columns") else " ".join(repr(value).split())[:60]


def single(context: Any) -> Any:
    """One context: a list of bare numbers as an array, so that no function takes it for a batch.

    >>> single([1, None]), single(["a", 2]), single([2, 10**400])
    (array([ 1., nan]), ['a', 2], array([ 2., nan]))
    """
    if isinstance(context, list | tuple) and _NUMBERS.issuperset(map(type, context)):
        try:
            return np.array(context, dtype=np.float64)
        except OverflowError:  # a whole number beyond all floats
            return np.array([as_number(place, value) for place, value in enumerate(context)])
    return context


def check_json(context: Any, what: str = "context", depth: int = 0) -> None:
    """Refuse numbers beyond 1e100, and nesting beyond 32; `what` is what they are of.

    >>> check_json({"hour": 1e300})
    Traceback (most recent call last):
    oddsmith.errors.InvalidInput: context must hold numbers between -1e+100 and 1e+100; got 1e+300
    """
    kind = type(context)
    if kind is float or kind is int:
        if not -HUGE <= context <= HUGE:
            got = f"{context:.6g}" if kind is float else "a larger whole number"  # which may be too large to print
            raise InvalidInput(f"{what} must hold numbers between {-HUGE:g} and {HUGE:g}; got {got}")
    elif kind is list or kind is dict:
        if depth >= _DEEPEST:
            raise InvalidInput(f"{what} must be nested at most {_DEEPEST} deep; got more")
        for inner in context if kind is list else context.values():
            if type(inner) is not float or not -HUGE <= inner <= HUGE:
                check_json(inner, what, depth + 1)


@lru_cache(maxsize=1024)
def _misspelt(columns: tuple[str, ...], names: tuple[object, ...]) -> str | None:
    absent = [name for name in columns if name not in names]
    for name in names:
        near = resembling(name, absent) if isinstance(name, str) and name not in columns else None
        if near is not None:
            then = f"Rename it, or give {near!r} as None, too, where it is not known"
            return f"context has no column {near!r}, but {name!r}; did you mean {near}? {then}"
    return None
