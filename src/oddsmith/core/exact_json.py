"""Exact JSON: decoding gives the same values to the last bit, with type and shape.

Numbers, strings, lists and dicts stay as they are; NaN is null where a float is
expected. Values without a JSON form get a tag: {"$array": …, "dtype": …}, {"$tuple":
…}, {"$float": "inf"}, {"$dict": …} for dicts with unusual keys, {"$rows": names,
"values": …} for data frames, which are decoded to a list of their rows, and {"$offer":
…} for offers.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from math import isfinite
from typing import Any, TypeAlias

import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.core.contexts import (
    NamedRow,
    is_table,
    missing,
    one,
    plain,
    rows,
    short_repr,
    simple,
)
from oddsmith.core.errors import InvalidInput
from oddsmith.core.offer import AnyOffer, Offer, OfferBatch

__all__ = ["Json", "decode", "decode_floats", "encode", "encode_floats"]

Json: TypeAlias = (
    bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None
)


def encode_floats(values: Array) -> Json:
    """Encode an array of floats as nested lists; NaN becomes null, infinities become
    "inf" and "-inf".

    >>> encode_floats(np.array([0.5, np.nan, -np.inf]))
    [0.5, None, '-inf']
    """
    if np.isfinite(values).all():
        finite: Json = values.tolist()
        return finite
    if values.ndim:
        return [encode_floats(row) for row in values]
    number = float(values)
    if np.isnan(number):
        return None
    return str(number)


def decode_floats(values: Json) -> Array:
    """Decode the float64 array that `encode_floats` wrote. numpy converts "inf" to
    infinity and None to NaN."""
    return np.array(values, dtype=np.float64)


def encode(value: object) -> Json:
    """Encode numbers, strings, arrays, lists, tuples, dicts and rows of data frames as
    a JSON value.

    >>> decode(encode({"age": 31, "embedding": np.array([1.0, 2.0], dtype=np.float32)}))
    {'age': 31, 'embedding': array([1., 2.], dtype=float32)}
    """
    # Use a tuple: isinstance with a union would build the union at each call.
    if value is None or isinstance(value, (bool, int, str)):
        return value
    # Fast path for lists of finite floats, the form of most contexts.
    if (
        isinstance(value, list)
        and set(map(type, value)) == {float}
        and isfinite(sum(value))
    ):
        return value
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "fiubU":
        return _array(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "mM":
        return _array(value)
    if isinstance(value, float):
        if np.isfinite(value):
            return value
        return {"$float": str(value)}
    if isinstance(value, list):
        return _rows(value) or [encode(inner) for inner in value]
    if isinstance(value, np.ndarray) and _has_objects(value):
        return encode(list(rows(value)))
    if isinstance(value, AnyOffer):
        return _offers(value)
    if isinstance(value, tuple):
        return {"$tuple": [encode(inner) for inner in value]}
    if isinstance(value, dict):
        return _dict(value)
    if is_table(value):
        return encode(list(rows(value)))
    row = one(value)
    if row is not value:
        return encode(row)
    if missing(value):
        return None
    if isinstance(value, _TIMES):
        return _time(value)
    common = simple(value)
    if common is not value:
        return encode(common)
    then = "convert it to numbers or text, or leave it out"
    kinds = "numbers, text, times, lists and dicts"
    raise InvalidInput(
        f"context must contain only {kinds}, which JSON can represent; got "
        f"{short_repr(value)}: {then}"
    )


def _array(value: Any) -> Json:
    """Encode a numpy array or scalar of numbers, text or times."""
    if value.dtype == np.longdouble:
        value = value.astype(np.float64)  # JSON has no number type wider than float64
    if value.dtype.kind == "f":
        values = encode_floats(np.asarray(value))
    elif value.dtype.kind in "mM":
        values = value.astype(np.int64).tolist()
    else:
        values = value.tolist()
    return {"$array": values, "dtype": value.dtype.str, "shape": list(value.shape)}


def _has_objects(array: np.ndarray[Any, Any]) -> bool:
    return array.dtype == np.object_ or bool(array.dtype.names)


def _dict(value: dict[Any, Any]) -> Json:
    """Encode a dict. Rows of tables and dicts with unusual keys get a tag."""
    if isinstance(value, NamedRow):
        return {"$row": encode(dict(value))}
    is_usual = all(isinstance(name, str) and not name.startswith("$") for name in value)
    if is_usual:
        return {name: encode(inner) for name, inner in value.items()}
    return {"$dict": [[encode(name), encode(inner)] for name, inner in value.items()]}


def _offers(value: AnyOffer) -> Json:
    """Encode an offer or a batch of offers."""
    if isinstance(value, OfferBatch):
        return {"$offers": [_offers(offer) for offer in value.offers]}
    context = encode(value.context)
    features = encode(value.features)
    return {"$offer": [context, list(value.arms), features]}


def _time(value: object) -> Json:
    """Encode a time in microseconds: Python has no nanoseconds, although pandas and
    numpy do."""
    moment = plain(value)
    if isinstance(moment, timedelta):
        return {"$span": [moment.days, moment.seconds, moment.microseconds]}
    if isinstance(moment, datetime):
        return {"$time": datetime.isoformat(moment)}
    if isinstance(moment, date):
        return {"$date": moment.isoformat()}
    return {"$clock": moment.isoformat()}


def _rows(values: Sequence[object]) -> Json:
    """Encode rows of one table with their column names stored once. Return None for any
    other list."""
    table: list[NamedRow] = []
    for value in values:
        row = one(value)
        if not isinstance(row, NamedRow) or (table and list(row) != list(table[0])):
            return None
        table.append(row)
    if not table:
        return None
    cells = [[encode(cell) for cell in row.values()] for row in table]
    return {"$rows": list(table[0]), "values": cells}


def decode(value: Any) -> Any:
    """Decode a value that `encode` wrote."""
    if isinstance(value, list):
        return [decode(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if "$float" in value:
        return float(value["$float"])
    if len(value) == 1:
        [(tag, inner)] = value.items()
        read = _READ.get(tag)
        if read is not None:
            return read(inner)
    if "$rows" in value:
        names = value["$rows"]
        return [_named_row(names, cells) for cells in value["values"]]
    if "$array" in value:
        return _decode_array(value)
    return {name: decode(inner) for name, inner in value.items()}


def _named_row(names: Sequence[str], cells: Sequence[Json]) -> NamedRow:
    return NamedRow(zip(names, map(decode, cells), strict=True))


def _decode_array(value: dict[str, Any]) -> Any:
    dtype = np.dtype(value["dtype"])
    if dtype.kind == "f":
        values = decode_floats(value["$array"])
    else:
        plain_dtype = dtype
        if dtype.kind in "mM":
            plain_dtype = np.dtype(np.int64)
        values = np.array(value["$array"], dtype=plain_dtype)
    return values.astype(dtype).reshape(value["shape"])[()]


_TIMES = (date, time, timedelta, np.datetime64, np.timedelta64)
_READ: dict[str, Callable[[Any], object]] = {
    "$time": datetime.fromisoformat,
    "$date": date.fromisoformat,
    "$clock": time.fromisoformat,
    "$span": lambda parts: timedelta(*parts),
    "$offer": lambda parts: Offer(decode(parts[0]), tuple(parts[1]), decode(parts[2])),
    "$offers": lambda parts: OfferBatch(tuple(map(decode, parts))),
    "$row": lambda row: NamedRow(decode(row)),
    "$tuple": lambda parts: tuple(map(decode, parts)),
    "$dict": lambda pairs: {decode(name): decode(inner) for name, inner in pairs},
}
