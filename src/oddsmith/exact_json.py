"""Exact JSON for values: what is written comes back equal, to the last bit, type and shape included.

Numbers, strings, lists and dicts are themselves; NaN is null where a float is expected. What JSON has no word for
is tagged: {"$array": …, "dtype": …}, {"$tuple": …}, {"$float": "inf"}, {"$dict": …} for dicts with unusual keys, and
{"$rows": names, "values": …} for data frames, which come back as the list of their rows.
"""

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from math import isfinite
from typing import Any

import numpy as np

from oddsmith.arrays import Array
from oddsmith.contexts import Row, is_table, missing, one, plain, rows, shown, simple
from oddsmith.errors import InvalidInput

__all__ = ["decode", "decode_floats", "encode", "encode_floats"]


def encode_floats(values: Array) -> Any:
    """Nested lists of numbers; NaN as null, infinities as "inf" and "-inf".

    >>> encode_floats(np.array([0.5, np.nan, -np.inf]))
    [0.5, None, '-inf']
    """
    if np.isfinite(values).all():
        return values.tolist()
    if values.ndim == 0:
        return None if np.isnan(values) else str(float(values)) if np.isinf(values) else float(values)
    return [encode_floats(row) for row in values]


def decode_floats(values: Any) -> Array:
    """The float64 array that `encode_floats` wrote (numpy reads "inf", and None as NaN)."""
    return np.array(values, dtype=np.float64)


def encode(value: Any) -> Any:
    """A JSON value for any mix of numbers, strings, arrays, lists, tuples, dicts and rows of data frames.

    >>> decode(encode({"age": 31, "embedding": np.array([1.0, 2.0], dtype=np.float32)}))
    {'age': 31, 'embedding': array([1., 2.], dtype=float32)}
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "fiubU":
        if value.dtype == np.longdouble:
            value = value.astype(np.float64)  # JSON has no longer ones
        values = encode_floats(np.asarray(value)) if value.dtype.kind == "f" else value.tolist()
        return {"$array": values, "dtype": value.dtype.str, "shape": list(value.shape)}
    if isinstance(value, np.ndarray) and value.dtype.kind in "mM":
        return {"$array": value.astype(np.int64).tolist(), "dtype": value.dtype.str, "shape": list(value.shape)}
    if isinstance(value, float):
        return value if np.isfinite(value) else {"$float": str(value)}
    if isinstance(value, list):
        if all(type(inner) is float for inner in value) and isfinite(sum(value)):  # as contexts often are
            return value
        return _rows(value) or [encode(inner) for inner in value]
    if isinstance(value, np.ndarray) and (value.dtype.names or value.dtype == np.object_):
        return encode(list(rows(value)))
    if isinstance(value, tuple):
        return {"$tuple": [encode(inner) for inner in value]}
    if isinstance(value, Row):
        return {"$row": encode(dict(value))}
    if isinstance(value, dict):
        if all(isinstance(name, str) and not name.startswith("$") for name in value):
            return {name: encode(inner) for name, inner in value.items()}
        return {"$dict": [[encode(name), encode(inner)] for name, inner in value.items()]}
    if is_table(value):
        return encode(list(rows(value)))
    row = one(value)
    if row is not value:
        return encode(row)
    if missing(value):
        return None
    if isinstance(value, _TIMES):
        return _time(value)
    if (common := simple(value)) is not value:
        return encode(common)
    then = "give what matters of it as numbers or text, or leave it out"
    kinds = "numbers, text, times, lists and dicts"
    raise InvalidInput(f"context must hold what JSON can, {kinds}; got {shown(value)}: {then}")


def _time(value: Any) -> Any:
    """A time to the microsecond; those of pandas and numpy may have nanoseconds, which Python has not."""
    known = plain(value)
    if isinstance(known, timedelta):
        return {"$span": [known.days, known.seconds, known.microseconds]}
    if isinstance(known, datetime):
        return {"$time": datetime.isoformat(known)}
    return {"$date" if isinstance(known, date) else "$clock": known.isoformat()}


def _rows(values: list[Any]) -> Any:
    """Rows of one table with its names once; None for any other list."""
    values = [one(value) for value in values]
    names = list(values[0]) if values and isinstance(values[0], Row) else None
    if names is None or not all(isinstance(value, Row) and list(value) == names for value in values):
        return None
    return {"$rows": names, "values": [[encode(inner) for inner in value.values()] for value in values]}


def decode(value: Any) -> Any:
    """The value that `encode` wrote."""
    if isinstance(value, list):
        return [decode(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if "$float" in value:
        return float(value["$float"])
    if len(value) == 1 and (read := _READ.get(next(iter(value)))) is not None:
        return read(next(iter(value.values())))
    if "$row" in value:
        return Row(decode(value["$row"]))
    if "$rows" in value:
        return [Row(zip(value["$rows"], map(decode, values), strict=True)) for values in value["values"]]
    if "$tuple" in value:
        return tuple(decode(inner) for inner in value["$tuple"])
    if "$dict" in value:
        return {decode(name): decode(inner) for name, inner in value["$dict"]}
    if "$array" in value:
        dtype = np.dtype(value["dtype"])
        plain_kind = np.dtype(np.int64) if dtype.kind in "mM" else dtype
        values = decode_floats(value["$array"]) if dtype.kind == "f" else np.array(value["$array"], dtype=plain_kind)
        return values.astype(dtype).reshape(value["shape"])[()]
    return {name: decode(inner) for name, inner in value.items()}


_TIMES = (date, time, timedelta, np.datetime64, np.timedelta64)
_READ: dict[str, Callable[[Any], Any]] = {
    "$time": datetime.fromisoformat,
    "$date": date.fromisoformat,
    "$clock": time.fromisoformat,
    "$span": lambda parts: timedelta(*parts),
}
