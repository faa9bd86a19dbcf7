"""Schema: raw contexts (arrays, dicts, rows of data frames) as numbers, the same in every process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np

from oddsmith.arrays import Array
from oddsmith.errors import InvalidInput

__all__ = ["Schema", "as_numbers", "numeric"]

_HUGE = 1e100  # beyond it squares overflow: such a number is as good as missing


@dataclass(frozen=True)
class Schema:
    """Which columns are numbers and which are categories; categories go to `buckets` places each, by a keyed hash.

    `encode` gives float64 (…, width): NaN where a number is missing, infinite or beyond 1e100; a category that is
    missing has no place, one never seen before has one like any other. Columns that are not named are left out.
    Without columns (`Schema(slots=64)`), every key of a dict finds a place among the slots by its hash.

    >>> schema = Schema(numbers=("age",), categories=("city",), buckets=3)
    >>> schema.encode({"age": 40, "city": "Rome"})
    array([40.,  0.,  0.,  1.])
    >>> schema.encode([{"age": None}, {"age": 1, "city": "Oslo"}])[:, 0]
    array([nan,  1.])
    """

    numbers: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    buckets: int = 8
    slots: int = 64

    def __post_init__(self) -> None:
        for what in ("numbers", "categories"):
            names = getattr(self, what)
            if isinstance(names, str) or not all(isinstance(name, str) and name for name in names):
                raise InvalidInput(f"{what} must be names of columns; got {names!r:.60}")
            object.__setattr__(self, what, tuple(names))
        if twice := set(self.numbers) & set(self.categories):
            raise InvalidInput(f"a column must be numbers or categories; got {sorted(twice)[0]!r} as both")
        for what in ("buckets", "slots"):
            value = getattr(self, what)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 2**20:
                raise InvalidInput(f"{what} must be a whole number from 1 to 2^20; got {value!r}")

    @classmethod
    def of(cls, rows: Any, *, buckets: int = 8) -> "Schema":
        """The schema of these rows (dicts, or a data frame): a column with any text in it is a category.

        >>> Schema.of([{"age": 3, "city": "Rome"}, {"age": None, "city": None}])
        Schema(numbers=('age',), categories=('city',), buckets=8, slots=64)
        """
        records = _records(rows)
        if not records:
            raise InvalidInput("rows must be dicts or a data frame with at least one row; got none")
        names = list(dict.fromkeys(str(name) for record in records for name in record))
        texts = {name for record in records for name, value in record.items() if isinstance(value, str)}
        return cls(tuple(n for n in names if n not in texts), tuple(n for n in names if n in texts), buckets)

    @property
    def width(self) -> int:
        """How many numbers a context becomes."""
        named = len(self.numbers) + self.buckets * len(self.categories)
        return named if self.numbers or self.categories else self.slots

    def encode(self, context: Any) -> Array:
        """The context as numbers (…, width); a list of dicts or a data frame has a row for each."""
        if isinstance(context, Mapping):
            return self._row(context)
        if isinstance(context, np.ndarray) and context.dtype != np.object_:
            return numeric(context, self.width)
        records = _records(context)
        if not records:
            raise InvalidInput(f"context must be a dict, dicts, rows of a data frame or numbers; got {_short(context)}")
        return np.stack([self._row(record) for record in records])

    def _row(self, record: Mapping[Any, Any]) -> Array:
        if not self.numbers and not self.categories:
            return self._hashed(record)
        row = np.zeros(self.width)
        for i, name in enumerate(self.numbers):
            row[i] = _number(name, record.get(name))
        for i, name in enumerate(self.categories):
            value = record.get(name)
            if not _missing(value):
                row[len(self.numbers) + i * self.buckets + _place(f"{name}={value}", self.buckets)] = 1.0
        return row

    def _hashed(self, record: Mapping[Any, Any]) -> Array:
        row = np.zeros(self.slots)
        for name, value in record.items():
            if isinstance(value, str):
                row[_place(f"{name}={value}", self.slots)] += 1.0
            elif not _missing(value):
                row[_place(str(name), self.slots)] += _number(str(name), value)
        return row


def _records(rows: Any) -> list[Mapping[Any, Any]]:
    """Dicts from a list of them, a pandas or polars frame, or a row of one; empty if it is none of these."""
    if hasattr(rows, "to_dicts"):
        found: list[Mapping[Any, Any]] = rows.to_dicts()
        return found
    if hasattr(rows, "to_dict"):
        return [rows.to_dict()] if not hasattr(rows, "columns") else rows.to_dict("records")
    if isinstance(rows, Sequence) and not isinstance(rows, str) and all(isinstance(row, Mapping) for row in rows):
        return list(rows)
    return []


def _short(value: Any) -> str:
    """The beginning of what was given, on one line."""
    return " ".join(repr(value).split())[:60]


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def _number(name: str, value: Any) -> float:
    """A number; NaN for what is missing, infinite or huge."""
    if _missing(value):
        return float("nan")
    try:
        found = float(value)
    except OverflowError:
        return float("nan")
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"context column {name!r} must be a number; got {_short(value)}") from error
    return found if abs(found) < _HUGE else float("nan")


def numeric(context: Any, width: int | None) -> Array:
    """An array of numbers (…, width), with NaN for what is infinite or huge."""
    if context.dtype.kind not in "fiub" or context.ndim == 0:
        raise InvalidInput(f"context must be numbers; got {context.dtype} of shape {context.shape}")
    if width is not None and context.shape[-1] != width:
        raise InvalidInput(f"context must have {width} numbers; got shape {context.shape}")
    numbers = context.astype(np.float64)
    with np.errstate(invalid="ignore"):
        encoded: Array = np.where(np.abs(numbers) < _HUGE, numbers, np.nan)
    return encoded


def as_numbers(context: Any, schema: Schema | None, width: int | None) -> Array:
    """Arrays as they are, everything else through a schema, without one by hashes: (…, width), any width if None.

    >>> as_numbers([1, 2.5], None, None), as_numbers({"age": 3}, Schema(("age",)), 1)
    (array([1. , 2.5]), array([3.]))
    """
    if schema is None and not isinstance(context, np.ndarray):
        numbers = isinstance(context, list | tuple) and bool(context) and not isinstance(context[0], dict)
        schema = None if numbers else Schema()
    try:
        found = np.asarray(context) if schema is None else schema.encode(context)
    except InvalidInput:
        raise
    except ValueError as error:
        raise InvalidInput(f"context must be numbers, the same many each time; {error}") from error
    return numeric(found, width)


@lru_cache(maxsize=65_536)
def _place(text: str, n: int) -> int:
    """Where a word goes: the same for everybody."""
    return int.from_bytes(blake2b(text.encode(errors="replace"), digest_size=8, key=b"oddsmith").digest(), "big") % n
