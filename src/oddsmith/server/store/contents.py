"""Lists of names and features of arms. A store contains each of them once, by digest.

Most rows of features are already stored. So the digest is computed from the values,
which is much faster than formatting them as text. The text is made only if the row must
be written.
"""

import json
from array import array
from collections.abc import Collection, Sequence
from hashlib import blake2b
from math import inf
from typing import Any, NamedTuple

import numpy as np

from oddsmith.core.exact_json import encode

__all__ = [
    "Content",
    "DIGEST",
    "FeatureRow",
    "LEASE",
    "Leases",
    "feature_row",
    "parts_of",
    "text_of",
    "written",
]

DIGEST = 16
"""Length of a digest in bytes."""
LEASE = 60.0
"""Seconds after a write during which a row of features is not written again if it is
used again."""

_MOST = 50_000  # maximum number of rows whose last write time is cached
_PLAIN = frozenset((float, int, str, bool, type(None)))
_FLOATS = {float}
_WHOLE = 2**63  # Python may refuse to convert longer integers to text


class Content(NamedTuple):
    """A text that is stored once, with its hexadecimal digest."""

    digest: str
    body: str


class FeatureRow(NamedTuple):
    """Features of an arm, as values or as text, with their hexadecimal digest."""

    digest: str
    content: dict[str, Any] | list[Any] | str

    @property
    def body(self) -> str:
        """Return the row as text."""
        if isinstance(self.content, str):
            return self.content
        return written(encode(self.content))


def text_of(body: str) -> Content:
    """Return a text with its digest."""
    return Content(blake2b(body.encode(), digest_size=DIGEST).hexdigest(), body)


def feature_row(row: Any) -> FeatureRow:
    """Return a row with its digest, which is computed from the values if they are
    plain, or else from the row's text.

    Raise if the row cannot be written.

    >>> (
    ...     feature_row([1.0]).digest == feature_row([1]).digest,
    ...     feature_row([1.0]).digest == feature_row([1.0]).digest,
    ... )
    (False, True)
    """
    exact = _exact(row)
    if exact is None:
        return FeatureRow(*text_of(written(encode(row))))
    digest = blake2b(exact, digest_size=DIGEST, person=b"values").hexdigest()
    return FeatureRow(digest, row.copy())  # copy, because the caller may change the row


def _exact(row: Any) -> bytes | None:
    """Return bytes that identify a row: its text, or its floats as in memory.

    None if the row is not a list or dict of numbers and texts.
    """
    names: list[Any] | None = None
    values: Collection[Any]
    if type(row) is list:
        values = row
    elif type(row) is dict and _PLAIN.issuperset(map(type, row)):
        names = list(row)
        values = row.values()
    else:
        return None
    kinds = set(map(type, values))
    if kinds == _FLOATS:
        return repr(names).encode() + array("d", values).tobytes()
    if not kinds <= _PLAIN or not all(
        -_WHOLE < value < _WHOLE for value in values if type(value) is int
    ):
        return None
    return repr((row,)).encode()


def parts_of(joined: bytes | None) -> list[str]:
    """Split concatenated digests; return them in hexadecimal."""
    digits = (joined or b"").hex()
    return [
        digits[first : first + 2 * DIGEST]
        for first in range(0, len(digits), 2 * DIGEST)
    ]


class Leases:
    """Cache of the times at which rows of features were last written.

    The stored time of a row is always less than `LEASE` seconds older than the last
    decision that used the row. A failed write clears the cache.

    >>> leases, row = Leases(), feature_row({"topic": "sports"})
    >>> [len(leases.due([row], time)) for time in (0.0, 59.0, 60.0, 30.0)]
    [1, 0, 1, 0]
    """

    def __init__(self) -> None:
        self._times: dict[str, float] = {}

    def due(self, rows: Sequence[FeatureRow], time: float) -> list[FeatureRow]:
        """Return the rows that must be written if they are used at this time."""
        times = self._times
        due = [row for row in rows if times.get(row.digest, -inf) + LEASE <= time]
        if due:
            if len(times) + len(due) > _MOST:
                times.clear()
            times.update((row.digest, time) for row in due)
        return due

    def end(self, before: float = inf) -> None:
        """Forget rows with an earlier time, because they may be erased."""
        self._times = {
            digest: time for digest, time in self._times.items() if time >= before
        }


def _plain_value(value: object) -> object:
    """Convert a numpy array or number to a list or number."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"got {type(value).__name__}")


written = json.JSONEncoder(
    allow_nan=False, default=_plain_value, separators=(",", ":")
).encode
"""Encodes JSON in the format of stores."""
