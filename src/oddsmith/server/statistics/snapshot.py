"""Write arrays of numbers as compressed text in snapshots, and read them."""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable

import numpy as np

from oddsmith.core.arrays import Ints

__all__ = [
    "pack_floats",
    "pack_units",
    "unpack_floats",
    "unpack_units",
]


_MOST = 1 << 28  # maximum size of the sums in bytes


def pack_floats(values: Iterable[float]) -> str:
    """Return numbers as text, without loss of precision."""
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
    """Decompress a text; raise if the result has too many bytes."""
    reader = zlib.decompressobj()
    content = reader.decompress(b64decode(text), _MOST)
    if not reader.eof:
        raise ValueError(f"sums must be whole, with at most {_MOST:,} bytes")
    return content
