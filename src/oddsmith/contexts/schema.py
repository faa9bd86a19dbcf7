"""Schema: encode raw contexts (arrays, dicts, rows of data frames) as numbers, in the
same way in every process."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np

from oddsmith.contexts.numbers import numbers, numeric
from oddsmith.contexts.values import check_columns
from oddsmith.core.arrays import Array, whole
from oddsmith.core.contexts import (
    HUGE,
    as_number,
    categorical,
    has_names,
    is_batch,
    is_table,
    length,
    missing,
    one,
    rows,
    short_repr,
    simple,
    unreadable,
)
from oddsmith.core.decision import Context
from oddsmith.core.errors import InvalidInput

__all__ = ["Schema", "category_text"]

_ABSENT: object = object()


_PART = 65_536  # contexts encoded per block


@dataclass(frozen=True)
class Schema:
    """The numeric columns, the categorical columns, and the known `values` of
    categories.

    `encode` returns float64 (…, width), NaN if a number is missing, infinite or beyond
    1e100. A category with known values has one indicator column for each value, and one
    for all others. If the values are unknown, because the schema was written by hand,
    the category has `buckets` columns, and a keyed hash assigns values to them; several
    values may share a column. A missing category is 0 in all of its columns. Other
    columns of a context are ignored, but a context that lacks a column and has one with
    a similar name raises an error. Without columns (`Schema(slots=64)`), a hash assigns
    every key of a dict to one of the slots.

    >>> schema = Schema(
    ...     numbers=("age",), categories=("city",), values={"city": ["Oslo", "Rome"]}
    ... )
    >>> schema.encode([{"age": 40, "city": "Rome"}, {"age": None, "city": "Lima"}])
    array([[40.,  0.,  1.,  0.],
           [nan,  0.,  0.,  1.]])
    >>> Schema(categories=("city",), buckets=3).encode({"city": "Rome"})
    array([0., 0., 1.])
    """

    numbers: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    buckets: int = 8
    slots: int = 64
    values: (
        Mapping[str, Sequence[object]] | tuple[tuple[str, tuple[str, ...]], ...]
    ) = ()

    def __post_init__(self) -> None:
        for what in ("numbers", "categories"):
            names = getattr(self, what)
            if isinstance(names, str) or not all(_is_name(name) for name in names):
                raise InvalidInput(
                    f"{what} must be names of columns; got {names!r:.60}"
                )
            object.__setattr__(self, what, tuple(names))
        both = sorted(set(self.numbers) & set(self.categories))
        if both:
            raise InvalidInput(
                f"a column must be numbers or categories; got {both[0]!r} as both"
            )
        whole("buckets", self.buckets, high=2**20)
        whole("slots", self.slots, high=2**20)
        values = _checked_values(self.values, self.categories)
        object.__setattr__(self, "values", values)

    @classmethod
    def of(cls, contexts: Context, *, most: int = 64) -> "Schema":
        """Infer the schema from contexts (dicts or a data frame), with the `most`
        frequent values of each category.

        A column that contains any text is a category, and so is a column with a
        categorical type in its table.

        >>> Schema.of([{"age": 3, "city": "Rome"}, {"age": None, "city": None}])
        Schema(numbers=('age',), categories=('city',), buckets=8, slots=64,
        values=(('city', ('Rome',)),))
        """
        whole("most", most, high=2**20)
        records = rows(contexts) if is_batch(contexts) and len(contexts) else []
        if not records or not all(isinstance(record, Mapping) for record in records):
            raise _no_records(contexts)
        names: dict[str, None] = {}  # ordered by first occurrence
        texts = categorical(contexts)
        for record in records:
            for key, value in record.items():
                name = str(key)
                names[name] = None
                if isinstance(simple(value), str):
                    texts.add(name)
        numbers = tuple(name for name in names if name not in texts)
        categories = tuple(name for name in names if name in texts)
        schema = cls(
            numbers=numbers,
            categories=categories,
        )
        # raises for a column that is neither numbers nor categories
        schema.encode(records)
        return replace(schema, values=_frequent(records, schema.categories, most))

    @property
    def is_free(self) -> bool:
        """Return whether no columns are named, so that all are read."""
        return not self.numbers and not self.categories

    @property
    def width(self) -> int:
        """Number of values that encode a context."""
        if self.is_free:
            return self.slots
        return len(self.numbers) + sum(map(self._n_places, self._value_places))

    @property
    def columns(self) -> tuple[str, ...]:
        """A name for each number that encodes a context. Slots, and columns that
        several values may share, are numbered.

        >>> Schema(("age",), ("city",), buckets=2).columns
        ('age', 'city 0', 'city 1')
        >>> Schema(("age",), ("city",), values={"city": ["Rome"]}).columns
        ('age', 'city=Rome', 'city other')
        """
        if self.is_free:
            return tuple(f"slot {i}" for i in range(self.slots))
        columns = list(self.numbers)
        for name, places in zip(self.categories, self._value_places, strict=True):
            if places:
                columns += [f"{name}={value}" for value in places]
                columns.append(f"{name} other")
            else:
                columns += [f"{name} {i}" for i in range(self.buckets)]
        return tuple(columns)

    @cached_property
    def _value_places(self) -> tuple[dict[str, int], ...]:
        """The columns of known values for each category, empty if values are hashed."""
        values: dict[str, Sequence[Any]] = dict(self.values)
        places = []
        for name in self.categories:
            texts = values.get(name, ())
            places.append({text: place for place, text in enumerate(texts)})
        return tuple(places)

    def _n_places(self, value_places: dict[str, int]) -> int:
        """Return the number of columns of a category."""
        return len(value_places) + 1 if value_places else self.buckets

    def encode(self, context: Context) -> Array:
        """Encode the context as numbers (…, width). A list of dicts or a data frame has
        one row per context."""
        if type(context) is dict or isinstance(context, Mapping):
            return self._row(context)
        if not has_names(context):
            return self._check_encoded(numbers(context))
        if not is_batch(context):
            return self._row(one(context))
        records = rows(context)[: length(context)]
        # Encode in blocks, because one array per row would need much more memory.
        parts = []
        for first in range(0, len(records), _PART):
            part = records[first : first + _PART]
            parts.append(np.stack([self.encode(row) for row in part]))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _check_encoded(self, context: Array) -> Array:
        """Return numbers that this schema has encoded before."""
        if context.shape[-1:] != (self.width,):
            raise InvalidInput(
                f"context must have {self.width} numbers, as the schema says; got "
                f"shape {context.shape}: give a dict or a data frame, or a result of "
                "`encode`"
            )
        return numeric(context)

    def _row(self, record: Mapping[str, object]) -> Array:
        if self.is_free:
            return self._hash(record)
        row = np.zeros(self.width)
        is_complete = True
        for place, name in enumerate(self.numbers):
            value = record.get(name, _ABSENT)
            if value is _ABSENT:
                is_complete = False
                value = None
            row[place] = as_number(name, value)
        start = len(self.numbers)
        for name, places in zip(self.categories, self._value_places, strict=True):
            value = record.get(name, _ABSENT)
            if value is _ABSENT:
                is_complete = False
                value = None
            text = category_text(name, value)
            if text is not None and places:
                row[start + places.get(text, len(places))] = 1.0
            elif text is not None:
                row[start + _place(f"{name}={text}", self.buckets)] = 1.0
            start += len(places) + 1 if places else self.buckets
        if is_complete:
            return row
        # Column names are strings, but keys of dicts may be numbers.
        if not all(isinstance(name, str) for name in record):
            return self._row({str(name): value for name, value in record.items()})
        check_columns((*self.numbers, *self.categories), tuple(record))
        return row

    def _hash(self, record: Mapping[str, object]) -> Array:
        row = np.zeros(self.slots)
        for name, value in record.items():
            common = value if isinstance(value, str | int | float) else simple(value)
            if isinstance(common, str):
                row[_place(f"{name}={common}", self.slots)] += 1.0
            elif not missing(common):
                row[_place(str(name), self.slots)] += as_number(str(name), common)
        return row


def _checked_values(
    given: Any, categories: tuple[str, ...]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return pairs of a category and its values as text, in the order of the
    categories."""
    try:
        lists = {name: list(values) for name, values in dict(given).items()}
        if any(isinstance(values, str) for values in dict(given).values()):
            raise TypeError("a text is not a list of values")
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            "values must be a list for each category, by its name; got "
            f"{short_repr(given)}"
        ) from error
    texts: dict[str, tuple[str, ...]] = {}
    for name, values in lists.items():
        if name not in categories:
            raise InvalidInput(
                f"values must be given for categories; {name!r:.60} is not a "
                "categorical column"
            )
        known = [category_text(name, value) for value in values]
        texts[name] = tuple(text for text in known if text is not None)
        if not texts[name] or len(set(texts[name])) < len(values):
            raise InvalidInput(
                f"values of {name!r:.60} must be at least one, all distinct and none "
                "missing; "
                f"got {short_repr(values)}"
            )
    return tuple((name, texts[name]) for name in categories if name in texts)


def _frequent(
    records: Sequence[Any], categories: tuple[str, ...], most: int
) -> dict[str, list[str]]:
    """Return the most frequent values of each category, in alphabetical order. Among
    equally frequent values the first in the alphabet are chosen."""
    counts = {name: Counter[str]() for name in categories}
    for record in records:
        for key, value in record.items():
            name = str(key)
            text = category_text(name, value) if name in counts else None
            if text is not None:
                counts[name][text] += 1
    frequent = {}
    for name, count in counts.items():
        ranked = sorted(sorted(count), key=count.__getitem__, reverse=True)
        if ranked:
            frequent[name] = sorted(ranked[:most])
    return frequent


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name != ""


def _no_records(contexts: Any) -> InvalidInput:
    """Return the error for contexts without names."""
    is_empty = is_batch(contexts) and not len(contexts)
    got = "no rows" if is_empty else short_repr(contexts)
    then = "give contexts as policies will receive them"
    if is_table(contexts) and not is_empty:
        then = "name its columns with text"
    return InvalidInput(
        "contexts must be a list of dicts, or a data frame with names; got "
        f"{got}: {then}"
    )


def category_text(name: str, value: object) -> str | None:
    """Return a category as text, the same for 3 and 3.0, because a column of whole
    numbers with a missing value contains floats.

    Return None if it is missing.
    """
    if type(value) is str:
        return value
    if missing(value):
        return None
    plain = value.item() if isinstance(value, np.generic) else simple(value)
    if isinstance(plain, float) and plain.is_integer():
        plain = int(plain)
    if not isinstance(plain, str | int | float):
        raise unreadable(name, value, "text, a number, True or False")
    is_huge = isinstance(plain, int) and not -HUGE < plain < HUGE
    # Python refuses to print very long integers in decimal.
    return f"{plain:#x}" if is_huge else str(plain)


@lru_cache(maxsize=65_536)
def _place(text: str, n: int) -> int:
    """Return the slot of a word, which is the same in every process."""
    hashed = blake2b(text.encode(errors="replace"), digest_size=8, key=b"oddsmith")
    return int.from_bytes(hashed.digest(), "big") % n
