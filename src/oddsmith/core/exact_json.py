"""Exact JSON for values: what is written comes back equal, to the last bit, type and
shape included.

Numbers, strings, lists and dicts are themselves; NaN is null where a float is expected.
What JSON has no word for is tagged: {"$array": …, "dtype": …}, {"$tuple": …},
{"$float": "inf"}, {"$dict": …} for dicts with unusual keys, and {"$rows": names,
"values": …} for data frames, which come back as the list of their rows; {"$offer": …}
for offers.
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
    shown,
    simple,
)
from oddsmith.core.errors import InvalidInput
from oddsmith.core.offer import AnyOffer, Offer, OfferBatch

__all__ = ["Json", "decode", "decode_floats", "encode", "encode_floats"]

Json: TypeAlias = (
    bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None
)


def encode_floats(values: Array) -> Json:
    """Nested lists of numbers; NaN as null, infinities as "inf" and "-inf".

    >>> encode_floats(np.array([0.5, np.nan, -np.inf]))
    [0.5, None, '-inf']
    """
    if np.isfinite(values).all():
        listed: Json = values.tolist()
        return listed
    if values.ndim == 0:
        return (
            None
            if np.isnan(values)
            else str(float(values))
            if np.isinf(values)
            else float(values)
        )
    return [encode_floats(row) for row in values]


def decode_floats(values: Json) -> Array:
    """The float64 array that `encode_floats` wrote (numpy reads "inf", and None as
    NaN)."""
    return np.array(values, dtype=np.float64)


def encode(value: object) -> Json:
    """A JSON value for any mix of numbers, strings, arrays, lists, tuples, dicts and
    rows of data frames.

    >>> decode(encode({"age": 31, "embedding": np.array([1.0, 2.0], dtype=np.float32)}))
    {'age': 31, 'embedding': array([1., 2.], dtype=float32)}
    """
    # a union would be made anew at each call
    if value is None or isinstance(value, (bool, int, str)):
        return value
    # as contexts often are
    if (
        isinstance(value, list)
        and set(map(type, value)) == {float}
        and isfinite(sum(value))
    ):
        return value
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "fiubU":
        if value.dtype == np.longdouble:
            value = value.astype(np.float64)  # JSON has no longer ones
        values = (
            encode_floats(np.asarray(value))
            if value.dtype.kind == "f"
            else value.tolist()
        )
        return {"$array": values, "dtype": value.dtype.str, "shape": list(value.shape)}
    if isinstance(value, np.ndarray) and value.dtype.kind in "mM":
        return {
            "$array": value.astype(np.int64).tolist(),
            "dtype": value.dtype.str,
            "shape": list(value.shape),
        }
    if isinstance(value, float):
        return value if np.isfinite(value) else {"$float": str(value)}
    if isinstance(value, list):
        return _rows(value) or [encode(inner) for inner in value]
    if isinstance(value, np.ndarray) and (
        value.dtype.names or value.dtype == np.object_
    ):
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
    if (common := simple(value)) is not value:
        return encode(common)
    then = "give what matters of it as numbers or text, or leave it out"
    kinds = "numbers, text, times, lists and dicts"
    raise InvalidInput(
        f"context must hold what JSON can, {kinds}; got {shown(value)}: {then}"
    )


def _dict(value: dict[Any, Any]) -> Json:
    """A dict; a row of a table, and one with unusual keys, is tagged."""
    if isinstance(value, NamedRow):
        return {"$row": encode(dict(value))}
    if all(isinstance(name, str) and not name.startswith("$") for name in value):
        return {name: encode(inner) for name, inner in value.items()}
    return {"$dict": [[encode(name), encode(inner)] for name, inner in value.items()]}


def _offers(value: AnyOffer) -> Json:
    """An offer, or a batch of them."""
    if isinstance(value, Offer):
        return {
            "$offer": [encode(value.context), list(value.arms), encode(value.features)]
        }
    return {"$offers": [_offers(offer) for offer in value.offers]}


def _time(value: object) -> Json:
    """A time to the microsecond; those of pandas and numpy may have nanoseconds, which
    Python has not."""
    known = plain(value)
    if isinstance(known, timedelta):
        return {"$span": [known.days, known.seconds, known.microseconds]}
    if isinstance(known, datetime):
        return {"$time": datetime.isoformat(known)}
    return {"$date" if isinstance(known, date) else "$clock": known.isoformat()}


def _rows(values: Sequence[object]) -> Json:
    """Rows of one table with its names once; None for any other list."""
    kept = [row for value in values if isinstance(row := one(value), NamedRow)]
    if (
        not kept
        or len(kept) < len(values)
        or any(list(row) != list(kept[0]) for row in kept)
    ):
        return None
    return {
        "$rows": list(kept[0]),
        "values": [[encode(inner) for inner in row.values()] for row in kept],
    }


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
        return NamedRow(decode(value["$row"]))
    if "$rows" in value:
        return [
            NamedRow(zip(value["$rows"], map(decode, values), strict=True))
            for values in value["values"]
        ]
    if "$tuple" in value:
        return tuple(decode(inner) for inner in value["$tuple"])
    if "$dict" in value:
        return {decode(name): decode(inner) for name, inner in value["$dict"]}
    if "$array" in value:
        dtype = np.dtype(value["dtype"])
        plain_kind = np.dtype(np.int64) if dtype.kind in "mM" else dtype
        values = (
            decode_floats(value["$array"])
            if dtype.kind == "f"
            else np.array(value["$array"], dtype=plain_kind)
        )
        return values.astype(dtype).reshape(value["shape"])[()]
    return {name: decode(inner) for name, inner in value.items()}


_TIMES = (date, time, timedelta, np.datetime64, np.timedelta64)
_READ: dict[str, Callable[[Any], object]] = {
    "$time": datetime.fromisoformat,
    "$date": date.fromisoformat,
    "$clock": time.fromisoformat,
    "$span": lambda parts: timedelta(*parts),
    "$offer": lambda parts: Offer(decode(parts[0]), tuple(parts[1]), decode(parts[2])),
    "$offers": lambda parts: OfferBatch(tuple(map(decode, parts))),
}
