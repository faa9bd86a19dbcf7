"""Buckets as snapshots hold them: names and positions as JSON, sums as they lie in
memory, compressed."""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from oddsmith.core.arrays import Ints
from oddsmith.server.statistics.bucket import Bucket, Row

__all__ = [
    "pack_buckets",
    "pack_floats",
    "pack_units",
    "unpack_buckets",
    "unpack_floats",
    "unpack_units",
]


_MOST = 1 << 28  # bytes of sums


def pack_floats(values: Iterable[float]) -> str:
    """Numbers as text, exactly."""
    return b64encode(zlib.compress(np.fromiter(values, dtype="<f8").tobytes())).decode()


def unpack_floats(text: str) -> list[float]:
    """The numbers that `pack_floats` wrote.

    >>> unpack_floats(pack_floats([0.1, 2.0]))
    [0.1, 2.0]
    """
    values: list[float] = np.frombuffer(_unpack(text), dtype="<f8").tolist()
    return values


def pack_units(values: Ints) -> str:
    """Whole numbers as text."""
    return b64encode(zlib.compress(np.asarray(values, dtype="<i8").tobytes())).decode()


def unpack_units(text: str) -> Ints:
    """The numbers, in a row, that `pack_units` wrote."""
    return np.frombuffer(_unpack(text), dtype="<i8").astype(np.int64)


def _unpack(text: str) -> bytes:
    """The bytes that were compressed, if they are not too many."""
    reader = zlib.decompressobj()
    content = reader.decompress(b64decode(text), _MOST)
    if not reader.eof:
        raise ValueError(f"sums must be whole, with at most {_MOST:,} bytes")
    return content


def pack_buckets(buckets: Mapping[int, Bucket]) -> dict[str, Any]:
    """Buckets by number, as JSON: names of arms stand once."""
    ordered = sorted(buckets.items())
    places: dict[str, int] = {}
    for _, bucket in ordered:
        for arm in bucket.arms:
            places.setdefault(arm, len(places))
    facts = [
        [
            index,
            one.looks,
            one.last,
            one.others is not None,
            [[places[arm], row[0]] for arm, row in one.arms.items()],
        ]
        for index, one in ordered
    ]
    sums = pack_floats(number for _, bucket in ordered for number in _sums(bucket))
    return {"arms": list(places), "buckets": facts, "sums": sums}


def unpack_buckets(given: Mapping[str, Any]) -> dict[int, Bucket]:
    """The buckets that `pack_buckets` wrote."""
    names, numbers = given["arms"], iter(unpack_floats(given["sums"]))
    found = {}
    for index, looks, last, has_others, arms in given["buckets"]:
        counts = list(islice(numbers, 4))
        rows = {names[place]: [since, *islice(numbers, 6)] for place, since in arms}
        others: Row | None = [0.0, *islice(numbers, 6)] if has_others else None
        found[index] = Bucket(counts, rows, others, looks, last)
    return found


def _sums(bucket: Bucket) -> Iterator[float]:
    yield from bucket.counts
    for row in bucket.arms.values():
        yield from row[1:]
    if bucket.others is not None:
        yield from bucket.others[1:]
