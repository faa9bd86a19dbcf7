"""What a context may be: JSON whose numbers stay numbers once models compute with them."""

from typing import Any

from oddsmith.errors import InvalidInput

__all__ = ["check_context"]

_LARGEST = 1e100  # squares and sums of such numbers are still finite
_DEEPEST = 32


def check_context(context: Any, depth: int = 0) -> None:
    """Refuses numbers beyond 1e100, and nesting beyond 32.

    >>> check_context({"hour": 1e300})
    Traceback (most recent call last):
    oddsmith.errors.InvalidInput: context must hold numbers between -1e+100 and 1e+100; got 1e+300
    """
    kind = type(context)
    if kind is float or kind is int:
        if not -_LARGEST <= context <= _LARGEST:
            got = f"{context:.6g}" if kind is float else "a larger whole number"  # which may be too large to print
            raise InvalidInput(f"context must hold numbers between {-_LARGEST:g} and {_LARGEST:g}; got {got}")
    elif kind is list or kind is dict:
        if depth >= _DEEPEST:
            raise InvalidInput(f"context must be nested at most {_DEEPEST} deep; got more")
        for inner in context if kind is list else context.values():
            if type(inner) is not float or not -_LARGEST <= inner <= _LARGEST:
                check_context(inner, depth + 1)
