"""Conversion of contexts from dicts, tables, rows of tables, arrays and lists to one
form.

A single context has names (a dict, a row of a pandas frame or of a structured array) or
is an array. A batch is a table (pandas, polars, pyarrow), a list, or an array with one
more axis; a list of tables is a batch whose contexts have one row per arm. Tables are
recognised by their methods, so that none of their libraries is imported.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias, TypeGuard
from uuid import UUID

import numpy as np
import numpy.typing as npt

from oddsmith.core.errors import InvalidInput

__all__ = [
    "HUGE",
    "NamedRow",
    "as_array",
    "as_number",
    "categorical",
    "has_names",
    "is_batch",
    "is_series",
    "is_table",
    "join_batches",
    "length",
    "missing",
    "one",
    "plain",
    "rows",
    "short_repr",
    "simple",
    "take_rows",
    "unreadable",
]

HUGE = 1e100  # squares of larger numbers overflow, so such numbers count as missing
_TIMES = (date, time, timedelta, np.datetime64, np.timedelta64)
_NO_NUMBERS = (*_TIMES, bytes, bytearray, complex, np.complexfloating)


def missing(value: object) -> bool:
    """Return whether a value is None, NaN, NaT or pandas.NA.

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
    except ArithmeticError:  # a signalling NaN of Decimal
        return True
    # pandas.NA and arrays raise in comparisons. Recognise pandas.NA by its type name.
    except (TypeError, ValueError):
        return type(value).__name__ == "NAType"


def plain(value: object) -> Any:
    """Convert a value of a table to a Python value; a missing value becomes None."""
    kind = type(value)
    if kind is str or kind is int or kind is bool:
        return value
    if kind is float:
        if value == value:
            return value
        return None
    if missing(value):
        return None
    # item() would convert nanoseconds to an integer, so round to microseconds.
    if isinstance(value, np.datetime64):
        return value.astype("datetime64[us]").item()
    if isinstance(value, np.timedelta64):
        return value.astype("timedelta64[us]").item()
    if isinstance(value, np.generic):
        return value.item()
    return value


def simple(value: object) -> object:
    """Convert a value of an uncommon type to a common one: Decimal and Fraction to
    float, periods and UUIDs to text.

    Other values are returned unchanged.

    >>> simple(Decimal("1.5")), simple(UUID(int=7))
    (1.5, '00000000-0000-0000-0000-000000000007')
    """
    if isinstance(value, Decimal | Fraction):
        if missing(value):
            return None
        return as_number("", value)
    kind = type(value)
    is_of_pandas = kind.__module__.split(".")[0] == "pandas"
    is_label = is_of_pandas and kind.__name__ in ("Period", "Interval")
    if is_label or isinstance(value, UUID):
        return str(value)
    return value


def as_number(column: object, value: object) -> float:
    """Convert a value to a float. Missing, infinite and huge values become NaN."""
    if type(value) is float or type(value) is int:
        if -HUGE < value < HUGE:
            return float(value)
        return float("nan")
    if missing(value):
        return float("nan")
    is_array = isinstance(value, np.ndarray) and value.ndim > 0
    try:
        # Reject these types here, because float() may accept them.
        if isinstance(value, _NO_NUMBERS) or is_array:
            raise TypeError("it is not a number")
        converted = float(value)  # type: ignore[arg-type]  # whatever float() takes
    except OverflowError:
        return float("nan")
    except (TypeError, ValueError) as error:
        raise unreadable(column, value, "a number") from error
    if abs(converted) < HUGE:
        return converted
    return float("nan")


def unreadable(column: object, value: object, wanted: str) -> InvalidInput:
    """Return the error for an invalid value: the column, the value and what to do, in
    one sentence.

    >>> print(unreadable("user", {"age": 3}, "a number or text"))
    context column 'user' must be a number or text; got a dict: give each entry a column
    of its own, as 'user.age'
    """
    got = short_repr(value)
    then = "leave the column out"
    if isinstance(value, _TIMES) or hasattr(value, "isoformat"):
        got = f"the time {value}"
        then = (
            "give the relevant parts as columns, such as hour and weekday, or leave "
            "it out"
        )
    elif isinstance(value, Mapping):
        inner = next(iter(value), "entry")
        got = "a dict"
        then = f"give each entry a column of its own, as '{column}.{inner}'"
    elif isinstance(value, list | tuple | np.ndarray):
        got = "a list"
        then = "give each entry a column of its own"
    elif isinstance(value, bytes | bytearray):
        then = "decode it to text"
    elif isinstance(value, str):
        then = "make it a category of a Schema, or None if the number is unknown"
    return InvalidInput(
        f"context column {column!r} must be {wanted}; got {got}: {then}"
    )


def short_repr(value: object) -> str:
    """Return the beginning of a value's repr on one line; for a table, its type."""
    if hasattr(value, "columns"):
        return f"a {type(value).__name__}"
    return " ".join(repr(value).split())[:60]


_DEEP = 4  # nesting of lists up to which we look for contexts
_USUAL = frozenset((str, int, float, bool, type(None)))


RowPlaces: TypeAlias = slice | npt.NDArray[np.bool_] | npt.NDArray[np.integer]


class NamedRow(dict[str, object]):
    """A row of a table as a dict in column order; missing values are None.

    Unlike with other dicts, its values can be read as an array, in the order of the
    table.
    """


def is_table(context: object) -> TypeGuard[Any]:
    """Return whether this is a pandas, polars or pyarrow table.

    >>> import pandas as pd
    >>> is_table(pd.DataFrame({"age": [3]})), is_table([{"age": 3}])
    (True, False)
    """
    if not hasattr(context, "columns"):
        return False
    return any(hasattr(context, verb) for verb in ("iloc", "to_dicts", "to_pylist"))


def is_series(context: object) -> TypeGuard[Any]:
    """Return whether this is a column or a row of a pandas table."""
    return hasattr(context, "iloc") and not hasattr(context, "columns")


def one(context: Any) -> Any:
    """Convert one context: a row of a table to `NamedRow`, NA and NaT in a dict to
    None, columns and tensors to arrays.

    Other values are returned unchanged.

    >>> import pandas as pd
    >>> one(pd.Series({"age": 3.0, "city": None}))
    {'age': 3.0, 'city': None}
    """
    if type(context) is dict:
        return _with_none(context)
    if _is_structured_row(context):
        return NamedRow({name: plain(context[name]) for name in context.dtype.names})
    if isinstance(context, np.ndarray):
        return context
    if is_series(context):
        names = context.index.tolist()
        if not _are_names(names):
            return context.to_numpy()
        return _row(names, map(plain, context.tolist()))
    if is_table(context) or isinstance(context, np.generic):
        return context
    if hasattr(context, "__array__"):
        return as_array(context)
    return context


def _is_structured_row(context: Any) -> bool:
    if not isinstance(context, np.void | np.ma.MaskedArray):
        return False
    return bool(context.dtype.names) and context.ndim == 0


def _with_none(context: dict[Any, Any]) -> dict[Any, Any]:
    """Replace NA and NaT of pandas in a dict by None. NaN is not replaced."""
    has_pandas = "pandas" in sys.modules
    if not has_pandas or _USUAL.issuperset(map(type, context.values())):
        return context
    return {
        name: None if missing(value) and not isinstance(value, float) else value
        for name, value in context.items()
    }


def is_batch(context: object) -> bool:
    """Return whether this is a batch: a table, a list, an array with several axes, or
    an array of objects or structured rows."""
    if isinstance(context, np.ndarray):
        has_rows = context.ndim > 1 or context.dtype == np.object_
        return has_rows or bool(context.dtype.names)
    return isinstance(context, list | tuple) or is_table(context)


def as_array(
    context: object, dtype: type[np.generic] | None = None
) -> npt.NDArray[Any]:
    """Convert the context to a numpy array; raise if rows differ in length.

    >>> as_array([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    try:
        return np.asarray(context, dtype=dtype)
    # Replace the error messages of numpy and other libraries, which do not mention
    # contexts.
    except Exception as error:
        then = (
            "give every context the same columns, of numbers, and None where a value "
            "is missing"
        )
        raise InvalidInput(
            "context must be rows of the same length; got "
            f"{short_repr(context)}: {then}"
        ) from error


def has_names(context: object) -> bool:
    """Return whether values have names: a dict, a row or table with named columns, or a
    list that starts with one of these."""
    if type(context) is dict or isinstance(context, Mapping):
        return True
    if isinstance(context, np.ndarray | np.void):
        if context.dtype == np.object_:
            return context.size > 0 and isinstance(context.flat[0], Mapping)
        return bool(context.dtype.names)
    if isinstance(context, list | tuple):
        first = _innermost_first(context)
        return not isinstance(first, list | tuple) and has_names(first)
    if is_table(context):
        return _are_names(_names(context))
    return is_series(context) and _are_names(context.index.tolist())


def _innermost_first(context: object) -> object:
    """Return the first innermost entry of nested lists, down to a few levels."""
    for _ in range(_DEEP):
        if not isinstance(context, list | tuple) or not context:
            break
        context = context[0]
    return context


def rows(contexts: Any) -> Sequence[Any]:
    """Return the contexts of a batch as a sequence.

    >>> import pandas as pd
    >>> rows(pd.DataFrame({"age": [3, None], "city": ["Rome", None]}))
    [{'age': 3.0, 'city': 'Rome'}, {'age': None, 'city': None}]
    """
    if is_table(contexts):
        names = _names(contexts)
        if not _are_names(names):
            return list(contexts.to_numpy())
        _check_distinct(names)
        columns = [[plain(value) for value in column] for column in _columns(contexts)]
        return [_row(names, values) for values in zip(*columns, strict=True)]
    if isinstance(contexts, np.matrix):
        # Iterating over a numpy.matrix gives matrices, so convert it to an array.
        contexts = np.asarray(contexts)
    if isinstance(contexts, np.ndarray):
        if contexts.dtype.names:
            return [one(context) for context in contexts]
        return list(contexts)
    if hasattr(contexts, "iloc"):
        contexts = contexts.tolist()
    return [one(context) for context in contexts]


def categorical(contexts: object) -> set[str]:
    """Return the names of the columns with a categorical type in a table.

    >>> import pandas as pd
    >>> categorical(pd.DataFrame({"shop": pd.Categorical([7, 12]), "age": [3, 4]}))
    {'shop'}
    """
    if not is_table(contexts):
        return set()
    is_arrow = hasattr(contexts, "column_names")
    kinds = contexts.schema.types if is_arrow else contexts.dtypes
    columns = set()
    for name, kind in zip(_names(contexts), kinds, strict=True):
        if str(kind).casefold().startswith(("categ", "dictionary")):
            columns.add(str(name))
    return columns


def length(contexts: Any) -> int:
    """Return the number of contexts in a batch, at least 1."""
    is_rows = (
        isinstance(contexts, Sequence)
        or hasattr(contexts, "__array__")
        or is_table(contexts)
    )
    has_length = hasattr(contexts, "__len__") and getattr(contexts, "ndim", 1) > 0
    if not is_rows or not has_length or isinstance(contexts, str | bytes):
        raise InvalidInput(
            "contexts must be rows: an array, a list or a data frame; got "
            f"{short_repr(contexts)} (decide takes one context)"
        )
    if is_table(contexts) and has_names(contexts):
        _check_distinct(_names(contexts))
    n = len(contexts)
    if n == 0:
        raise InvalidInput("contexts must be at least one row; got none")
    return n


def take_rows(contexts: Any, places: RowPlaces) -> Any:
    """Select the contexts of a batch at `places`: a slice, a mask or an array of
    numbers. A table stays a table."""
    if isinstance(contexts, np.ndarray):
        return contexts[places]
    numbers = np.arange(len(contexts))[places]
    if hasattr(contexts, "iloc"):
        return contexts.iloc[numbers]
    if not is_table(contexts):
        return [contexts[number] for number in numbers.tolist()]
    is_arrow = hasattr(contexts, "take")
    if is_arrow:
        return contexts.take(numbers)
    return contexts[numbers]


def join_batches(batches: Sequence[Any]) -> Any:
    """Concatenate batches: arrays to one array, everything else to a list of all
    contexts."""
    if len(batches) == 1:
        return batches[0]
    if all(isinstance(batch, np.ndarray) for batch in batches):
        return np.concatenate(batches)
    return [context for batch in batches for context in rows(batch)]


def _row(names: Sequence[object], values: Iterable[object]) -> NamedRow:
    return NamedRow(zip(map(str, names), values, strict=True))


def _are_names(names: Sequence[object]) -> bool:
    """Return whether column names are text; tables made from arrays number their
    columns."""
    return any(isinstance(name, str) for name in names)


def _check_distinct(names: Sequence[object]) -> None:
    if len(set(names)) == len(names):
        return
    twice = next(name for name in names if names.count(name) > 1)
    raise InvalidInput(
        f"columns of a table must have distinct names; got {twice!r} twice: rename one"
    )


def _names(table: Any) -> list[object]:
    is_arrow = hasattr(table, "column_names")
    return list(table.column_names if is_arrow else table.columns)


def _columns(table: Any) -> list[list[object]]:
    """Return the columns of a table as lists."""
    if hasattr(table, "iloc"):
        return [table.iloc[:, place].tolist() for place in range(table.shape[1])]
    if hasattr(table, "to_dicts"):
        return [column.to_list() for column in table.get_columns()]
    return [column.to_pylist() for column in table.columns]
