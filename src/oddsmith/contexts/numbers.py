"""Contexts as arrays of numbers."""

from collections.abc import Mapping, Sequence

import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.core.contexts import (
    HUGE,
    NamedRow,
    as_array,
    as_number,
    has_names,
    is_table,
    one,
    rows,
    short_repr,
    unreadable,
)
from oddsmith.core.errors import InvalidInput

__all__ = ["numbers", "numeric"]


def numbers(
    context: object, instead: str = "give a Schema, which reads names"
) -> Array:
    """Return the context as float64 (…, d), with NaN for missing numbers. Raise an
    error that names the column if a value is not a number.

    Tables and their rows are read in the order of their columns. A dict has no order
    and raises an error, which ends with the advice `instead`.

    >>> numbers([[1, None], [2, True]])
    array([[ 1., nan],
           [ 2.,  1.]])
    """
    if isinstance(context, np.ndarray) and context.dtype.kind in "fiub":
        floats = context.astype(np.float64, copy=False)
        if isinstance(floats, np.ma.MaskedArray):
            return floats.filled(np.nan)
        return np.asarray(floats)
    if isinstance(context, Mapping) and not isinstance(context, NamedRow):
        raise InvalidInput(
            f"context must be numbers in an array; got a dict: {instead}"
        )
    if isinstance(context, str | bytes) or context is None:
        raise InvalidInput(
            f"context must be numbers in an array; got {short_repr(context)}"
        )
    if is_table(context):
        context = _table_as_array(context)
        if isinstance(context, np.ndarray):
            return context
    row = one(context)
    if isinstance(row, NamedRow):
        values = [as_number(name, value) for name, value in row.items()]
        return np.array(values, dtype=np.float64)
    is_list = isinstance(row, list | tuple) and len(row) > 0
    if is_list and (has_names(row) or any(is_table(part) for part in row)):
        return _stack([numbers(part, instead) for part in row])
    return _from_objects(row)


def _table_as_array(table: object) -> Array | Sequence[object]:
    """Return a table of numbers as float64, otherwise its rows, so that missing values
    and text can be distinguished."""
    try:
        array = np.asarray(table)
    except Exception:
        # pandas and polars raise various errors if columns have no common type.
        return rows(table)
    return array.astype(np.float64) if array.dtype.kind in "fiub" else rows(table)


def _stack(parts: list[Array]) -> Array:
    if len({part.shape for part in parts}) > 1:
        first, second = parts[:2]
        raise InvalidInput(
            "contexts must have the same number of values each; got "
            f"{first.shape[-1]} and {second.shape[-1]}"
        )
    return np.stack(parts)


def _from_objects(context: object) -> Array:
    """Return the numbers of lists and of arrays of objects, converted one by one if
    numpy cannot do so at once."""
    array = as_array(context)
    if array.dtype.kind in "fiub":
        return array.astype(np.float64)
    if array.dtype.kind in "mM":
        # numpy would convert times in nanoseconds to integers, so reject them here.
        time = array.flat[0] if array.size else array
        raise unreadable(0, time, "a number")
    array = as_array(context, np.object_)
    floats: Array = np.empty(array.shape)
    for place, value in np.ndenumerate(array):
        column = place[-1] if place else 0
        floats[place] = as_number(column, value)
    return floats


def numeric(context: Array) -> Array:
    """Return an array of numbers (…, d), d at least 1, with NaN for infinite or huge
    numbers."""
    if context.ndim == 0:
        raise InvalidInput(
            "context must be an array of numbers, a dict or a row; got the number "
            f"{context}"
        )
    if context.shape[-1] == 0:
        raise InvalidInput(
            f"context must have at least one number; got none, shape {context.shape}"
        )
    with np.errstate(invalid="ignore"):
        encoded: Array = np.where(np.abs(context) < HUGE, context, np.nan)
    return encoded
