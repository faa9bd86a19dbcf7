"""Numbers and buckets in snapshots: names and positions as JSON, sums as compressed
arrays."""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import numpy as np

from oddsmith.core.arrays import Ints
from oddsmith.server.statistics.bucket import ArmRow, Bucket

__all__ = [
    "pack_buckets",
    "pack_floats",
    "pack_units",
    "unpack_buckets",
    "unpack_floats",
    "unpack_units",
]


_MOST = 1 << 28  # maximum size of the sums in bytes


def pack_floats(values: Iterable[float]) -> str:
    """Return numbers as text, exactly."""
    return _pack(np.fromiter(values, dtype="<f8").tobytes())


def unpack_floats(text: str) -> list[float]:
    """Return the numbers that `pack_floats` wrote.

    >>> unpack_floats(pack_floats([0.1, 2.0]))
    [0.1, 2.0]
    """
    values: list[float] = np.frombuffer(_unpack(text), dtype="<f8").tolist()
    return values


def pack_units(values: Ints) -> str:
    """Return integers as text."""
    return _pack(np.asarray(values, dtype="<i8").tobytes())


def unpack_units(text: str) -> Ints:
    """Return the integers that `pack_units` wrote, as a flat array."""
    return np.frombuffer(_unpack(text), dtype="<i8").astype(np.int64)


def _pack(content: bytes) -> str:
    return b64encode(zlib.compress(content)).decode()


def _unpack(text: str) -> bytes:
    """Return the bytes that were compressed; raise if there are too many."""
    reader = zlib.decompressobj()
    content = reader.decompress(b64decode(text), _MOST)
    if not reader.eof:
        raise ValueError(f"sums must be whole, with at most {_MOST:,} bytes")
    return content


def pack_buckets(buckets: Mapping[int, Bucket]) -> dict[str, Any]:
    """Return buckets by number as JSON; each name of an arm is written once."""
    places: dict[str, int] = {}
    facts: list[Any] = []
    sums: list[float] = []
    for index, bucket in sorted(buckets.items()):
        has_others = bucket.others is not None
        sums += bucket.shown, bucket.counted, bucket.defaults, bucket.total
        since: list[list[int]] = []
        for arm, row in bucket.arms.items():
            since.append([places.setdefault(arm, len(places)), row.since])
            sums += row.sums()
        if bucket.others is not None:
            sums += bucket.others.sums()
        facts.append([index, bucket.looks, bucket.last, has_others, since])
    return {"arms": list(places), "buckets": facts, "sums": pack_floats(sums)}


def unpack_buckets(given: Mapping[str, Any]) -> dict[int, Bucket]:
    """Return the buckets that `pack_buckets` wrote."""
    names = given["arms"]
    numbers = iter(unpack_floats(given["sums"]))
    buckets = {}
    for index, looks, last, has_others, arms in given["buckets"]:
        shown, counted, defaults, total = islice(numbers, 4)
        bucket = Bucket(shown, counted, defaults, total, looks=looks, last=last)
        for place, since in arms:
            bucket.arms[names[place]] = ArmRow(since, *islice(numbers, 6))
        if has_others:
            bucket.others = ArmRow(0, *islice(numbers, 6))
        buckets[index] = bucket
    return buckets
