"""Array types and validation of numbers that users pass in."""

from math import prod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from oddsmith.core.errors import InvalidInput

__all__ = [
    "Array",
    "Bools",
    "Ints",
    "Real",
    "check_range",
    "finite",
    "flat_rows",
    "number",
    "row_products",
    "simplex",
    "whole",
]

Array: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Ints: TypeAlias = npt.NDArray[np.int64]
Real: TypeAlias = float | Array
"""A number, or an array of numbers with batch axes."""


def number(
    what: str,
    value: object,
    *,
    low: float,
    high: float,
    open_low: bool = False,
    open_high: bool = False,
) -> float:
    """Return `value` as a finite float in [low, high]; `open_low` and `open_high`
    exclude the ends.

    >>> number("gamma", 0.1, low=0, high=1)
    0.1
    """
    left = "["
    if open_low:
        left = "("
    right = "]"
    if open_high or high == np.inf:
        right = ")"
    span = f"{left}{low:g}, {high:g}{right}"
    is_number = isinstance(value, int | float | np.integer | np.floating)
    if isinstance(value, bool) or not is_number:
        raise InvalidInput(
            f"{what} must be a number in {span}; got {_short_repr(value)}"
        )
    try:
        real = float(value)  # type: ignore[arg-type]  # one of the four types
    except OverflowError as error:
        raise InvalidInput(
            f"{what} must be in {span}; got a whole number of {len(str(value))} digits"
        ) from error
    is_above = low < real if open_low else low <= real
    is_below = real < high if open_high else real <= high
    if not (is_above and is_below and np.isfinite(real)):
        raise InvalidInput(f"{what} must be in {span}; got {value!r}")
    return real


def whole(what: str, value: object, *, low: int = 1, high: int | None = None) -> int:
    """Return `value` as an integer of at least `low` and, if given, at most `high`.

    >>> whole("steps", 100)
    100
    """
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    integer = int(value) if is_whole else low - 1  # type: ignore[call-overload]
    if low <= integer and (high is None or integer <= high):
        return integer
    if high is None:
        span = f"of at least {low}"
    else:
        top = "2^63 - 1"
        if high != 2**63 - 1:
            top = f"{high:,}"
        span = f"from {low} to {top}"
    raise InvalidInput(f"{what} must be a whole number {span}; got {value!r:.60}")


def check_range(low: float, high: float) -> None:
    """Raise InvalidInput unless 0 <= low < high <= 1."""
    number("low", low, low=0, high=1)
    number("high", high, low=0, high=1)
    if not low < high:
        raise InvalidInput(f"low must be below high; got low={low!r}, high={high!r}")


def finite(what: str, value: object, *, ndim: int | None = None) -> Array:
    """Return `value` as a float64 array of finite numbers, with `ndim` axes if
    given."""
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            raise TypeError(f"dtype {array.dtype}")
        array = array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(
            f"{what} must be numbers; got {_short_repr(value)}"
        ) from error
    if ndim is not None and array.ndim != ndim:
        raise InvalidInput(f"{what} must have {ndim} axes; got shape {array.shape}")
    if array.size == 0:
        raise InvalidInput(f"{what} must not be empty; got shape {array.shape}")
    n_wrong = array.size - np.count_nonzero(np.isfinite(array))
    if n_wrong:
        raise InvalidInput(f"{what} must be finite; got {n_wrong} values that are not")
    return array


def simplex(what: str, value: object, *, n: int, over: str) -> Array:
    """Return `value` as n probabilities, normalised. Their sum must be 1 within 1e-9
    (1e-6 in float32).

    An array that sums to 1 up to rounding is returned unchanged, so that normalising
    twice changes nothing.
    """
    array = finite(what, value, ndim=1)
    is_single = getattr(value, "dtype", None) == np.float32
    tolerance = 1e-9
    if is_single:
        tolerance = 1e-6
    if array.shape != (n,):
        raise InvalidInput(
            f"{what} must have one entry for each of the {n} {over}; got {len(array)}"
        )
    place = int(array.argmin())
    least = float(array[place])
    if least < 0:
        raise InvalidInput(f"{what} must not be negative; got {least:g} at {place}")
    total = float(array.sum())
    error = abs(total - 1)
    if error > tolerance:
        raise InvalidInput(f"{what} must sum to 1; got {total:.6g} over {n} {over}")
    rounding = n * np.finfo(np.float64).eps
    if error <= rounding:
        return array
    return array / total


def flat_rows(rows: Array) -> Array:
    """Reshape rows (…, d) to (n, d), without a copy if they are contiguous; d may be
    0."""
    if rows.ndim == 1:
        return rows[None]
    *lead, d = rows.shape
    return rows.reshape(prod(lead), d)


def row_products(rows: Array, columns: Array) -> Array:
    """Multiply rows (…, d) by columns (d, N). The result (…, N) of each row does not
    depend on the other rows, to the last bit.

    A single matrix product for all rows could round equal rows differently, depending
    on their position and number.
    """
    products: Array = (rows[..., None, :] @ columns)[..., 0, :]
    return products


def _short_repr(value: object) -> str:
    """Return a short repr with the type, for error messages."""
    text = repr(value)
    if len(text) > 60:
        text = text[:57] + "…"
    return f"{type(value).__name__} {text}"
