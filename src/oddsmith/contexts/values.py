"""Check values of contexts: missing values, numbers, misspelt names, and values that
JSON cannot contain."""

from functools import lru_cache
from typing import Any

import numpy as np

from oddsmith.core.contexts import HUGE, as_number
from oddsmith.core.errors import InvalidInput
from oddsmith.core.names import resembling

__all__ = ["check_columns", "check_json", "single"]

_DEEPEST = 32  # maximum nesting of dicts and lists
_NUMBERS = frozenset((int, float, bool, type(None), np.float64, np.float32, np.int64))


def check_columns(columns: tuple[str, ...], names: tuple[object, ...]) -> None:
    """Raise if a name is probably misspelt, that is, if a column is missing and an
    unknown name is similar to it.

    >>> check_columns(("age", "city"), ("age", "citty"))
    Traceback (most recent call last):
    oddsmith.core.errors.InvalidInput: context has no column 'city', but 'citty'; did
    you mean city? Rename it, or give
    'city' as None, too, where it is not known
    """
    refusal = _misspelt(columns, names)
    if refusal is not None:
        raise InvalidInput(refusal)


def single(context: Any) -> Any:
    """Return one context. A list of plain numbers becomes an array, so that it is not
    mistaken for a batch.

    >>> single([1, None]), single(["a", 2]), single([2, 10**400])
    (array([ 1., nan]), ['a', 2], array([ 2., nan]))
    """
    if isinstance(context, list | tuple) and _NUMBERS.issuperset(map(type, context)):
        try:
            return np.array(context, dtype=np.float64)
        except OverflowError:  # an integer larger than any float
            return np.array(
                [as_number(place, value) for place, value in enumerate(context)]
            )
    return context


def check_json(context: Any, what: str = "context", depth: int = 0) -> None:
    """Raise for numbers beyond 1e100 and nesting beyond 32; `what` describes the value.

    >>> check_json({"hour": 1e300})
    Traceback (most recent call last):
    oddsmith.core.errors.InvalidInput: context must hold numbers between -1e+100 and
    1e+100; got 1e+300
    """
    kind = type(context)
    if kind is float or kind is int:
        if not -HUGE <= context <= HUGE:
            # Python refuses to print very long integers.
            got = f"{context:.6g}" if kind is float else "a larger whole number"
            raise InvalidInput(
                f"{what} must hold numbers between {-HUGE:g} and {HUGE:g}; got {got}"
            )
    elif kind is list or kind is dict:
        if depth >= _DEEPEST:
            raise InvalidInput(
                f"{what} must be nested at most {_DEEPEST} deep; got more"
            )
        for inner in context if kind is list else context.values():
            if type(inner) is not float or not -HUGE <= inner <= HUGE:
                check_json(inner, what, depth + 1)


@lru_cache(maxsize=1024)
def _misspelt(columns: tuple[str, ...], names: tuple[object, ...]) -> str | None:
    absent = [name for name in columns if name not in names]
    for name in names:
        if not isinstance(name, str) or name in columns:
            continue
        near = resembling(name, absent)
        if near is not None:
            then = f"Rename it, or give {near!r} as None, too, where it is not known"
            return (
                f"context has no column {near!r}, but {name!r}; did you mean {near}? "
                f"{then}"
            )
    return None
