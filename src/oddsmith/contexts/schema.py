"""Schema: raw contexts (arrays, dicts, rows of data frames) as numbers, the same in
every process."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np

from oddsmith.contexts.numbers import numbers
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

__all__ = ["Schema", "category_text", "numeric"]

_ABSENT: object = object()


_PART = 65_536  # contexts encoded at once


@dataclass(frozen=True)
class Schema:
    """Which columns are numbers and which are categories, and the `values` of
    categories that are known.

    `encode` gives float64 (…, width): NaN where a number is missing, infinite or beyond
    1e100. A category whose values are known has a place for each, and one for all
    others. One whose values are not, because the schema was written by hand, has
    `buckets` places that values find by a keyed hash: they need not be known, and share
    places. A category that is missing has no place. Columns that are not named are left
    out, but a context that lacks a column and has one of nearly the same name is
    refused. Without columns (`Schema(slots=64)`), every key of a dict finds a place
    among the slots by its hash.

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
            if isinstance(names, str) or not all(
                isinstance(name, str) and name for name in names
            ):
                raise InvalidInput(
                    f"{what} must be names of columns; got {names!r:.60}"
                )
            object.__setattr__(self, what, tuple(names))
        if twice := set(self.numbers) & set(self.categories):
            raise InvalidInput(
                f"a column must be numbers or categories; got {sorted(twice)[0]!r} as "
                "both"
            )
        for what in ("buckets", "slots"):
            whole(what, getattr(self, what), high=2**20)
        object.__setattr__(
            self, "values", _checked_values(self.values, self.categories)
        )

    @classmethod
    def of(cls, contexts: Context, *, most: int = 64) -> "Schema":
        """The schema of these contexts (dicts, or a data frame), with the `most`
        frequent values of each category.

        A column with any text in it is a category, and so is one that its table says is
        categorical.

        >>> Schema.of([{"age": 3, "city": "Rome"}, {"age": None, "city": None}])
        Schema(numbers=('age',), categories=('city',), buckets=8, slots=64,
        values=(('city', ('Rome',)),))
        """
        whole("most", most, high=2**20)
        records = rows(contexts) if is_batch(contexts) and len(contexts) else []
        if not records or not all(isinstance(record, Mapping) for record in records):
            got = (
                "no rows"
                if is_batch(contexts) and not len(contexts)
                else short_repr(contexts)
            )
            then = (
                "name its columns by text"
                if is_table(contexts) and records
                else "bring what policies will be asked"
            )
            raise InvalidInput(
                "contexts must be a list of dicts, or a data frame with names; got "
                f"{got}: {then}"
            )
        names = list(dict.fromkeys(str(name) for record in records for name in record))
        texts = {
            str(n)
            for record in records
            for n, value in record.items()
            if isinstance(simple(value), str)
        }
        texts.update(categorical(contexts))
        schema = cls(
            tuple(n for n in names if n not in texts),
            tuple(n for n in names if n in texts),
        )
        schema.encode(records)  # which refuses a column that is neither
        return replace(schema, values=_frequent(records, schema.categories, most))

    @property
    def is_free(self) -> bool:
        """Whether no columns are named: all of them are read."""
        return not self.numbers and not self.categories

    @property
    def width(self) -> int:
        """How many numbers a context becomes."""
        sizes = (len(known) + 1 if known else self.buckets for known in self._known)
        return self.slots if self.is_free else len(self.numbers) + sum(sizes)

    @property
    def columns(self) -> tuple[str, ...]:
        """A name for each of these numbers: places without a value of their own are
        numbered, and so are slots.

        >>> Schema(("age",), ("city",), buckets=2).columns
        ('age', 'city 0', 'city 1')
        >>> Schema(("age",), ("city",), values={"city": ["Rome"]}).columns
        ('age', 'city=Rome', 'city other')
        """
        if self.is_free:
            return tuple(f"slot {i}" for i in range(self.slots))
        places = list(self.numbers)
        for name, known in zip(self.categories, self._known, strict=True):
            own = [f"{name}={value}" for value in known]
            places += (
                [*own, f"{name} other"]
                if own
                else [f"{name} {i}" for i in range(self.buckets)]
            )
        return tuple(places)

    @cached_property
    def _known(self) -> tuple[dict[str, int], ...]:
        """The places of known values, for each category; none where values are
        hashed."""
        known: dict[str, Sequence[Any]] = dict(self.values)
        return tuple(
            {text: i for i, text in enumerate(known.get(name, ()))}
            for name in self.categories
        )

    def encode(self, context: Context) -> Array:
        """The context as numbers (…, width); a list of dicts or a data frame has a row
        for each."""
        if type(context) is dict or isinstance(context, Mapping):
            return self._row(context)
        if not has_names(context):
            return self._encoded(numbers(context))
        if is_batch(context):
            records = rows(context)[: length(context)]
            # few at a time: an array for each row takes more memory than its numbers
            parts = [
                np.stack([self.encode(row) for row in records[first : first + _PART]])
                for first in range(0, len(records), _PART)
            ]
            return parts[0] if len(parts) == 1 else np.concatenate(parts)
        return self._row(one(context))

    def _encoded(self, context: Array) -> Array:
        """Numbers that this schema has made before, or that need none of it."""
        if context.shape[-1:] != (self.width,):
            got = (
                f"got shape {context.shape}: give a dict or a data frame, or what "
                "`encode` made of one"
            )
            raise InvalidInput(
                f"context must have {self.width} numbers, as the schema says; {got}"
            )
        return numeric(context)

    def _row(self, record: Mapping[str, object]) -> Array:
        if self.is_free:
            return self._hashed(record)
        row = np.zeros(self.width)
        absent = False
        for i, name in enumerate(self.numbers):
            if (value := record.get(name, _ABSENT)) is _ABSENT:
                absent, value = True, None
            row[i] = as_number(name, value)
        at = len(self.numbers)
        for name, known in zip(self.categories, self._known, strict=True):
            if (value := record.get(name, _ABSENT)) is _ABSENT:
                absent = True
            elif (text := category_text(name, value)) is not None:
                place = (
                    known.get(text, len(known))
                    if known
                    else _place(f"{name}={text}", self.buckets)
                )
                row[at + place] = 1.0
            at += len(known) + 1 if known else self.buckets
        # keys of dicts may be numbers, too
        if absent and not all(isinstance(name, str) for name in record):
            return self._row({str(name): value for name, value in record.items()})
        if absent:
            check_columns((*self.numbers, *self.categories), tuple(record))
        return row

    def _hashed(self, record: Mapping[str, object]) -> Array:
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
    """Pairs of a category and its values as text, in the order of the categories."""
    try:
        lists = {
            name: list(values)
            for name, values in dict(given).items()
            if not isinstance(values, str)
        }
        if len(lists) < len(dict(given)):
            raise TypeError("a text is no list of values")
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            "values must be a list for each category, by its name; got "
            f"{short_repr(given)}"
        ) from error
    known: dict[str, tuple[str, ...]] = {}
    for name, values in lists.items():
        if name not in categories:
            raise InvalidInput(
                f"values must be those of categories; got {name!r:.60}, which is none"
            )
        texts = [
            text for value in values if (text := category_text(name, value)) is not None
        ]
        if not texts or len(set(texts)) < len(values):
            raise InvalidInput(
                f"values of {name!r:.60} must be distinct, at least one, none missing; "
                f"got {short_repr(values)}"
            )
        known[name] = tuple(texts)
    return tuple((name, known[name]) for name in categories if name in known)


def _frequent(
    records: Sequence[Any], categories: tuple[str, ...], most: int
) -> dict[str, list[str]]:
    """The most frequent values of each category, of equals the first in the alphabet,
    in alphabetical order."""
    counts = {name: Counter[str]() for name in categories}
    for record in records:
        for name, value in record.items():
            if (
                str(name) in counts
                and (text := category_text(str(name), value)) is not None
            ):
                counts[str(name)][text] += 1
    ranked = {
        name: sorted(count, key=lambda text: (-count[text], text))
        for name, count in counts.items()
    }
    return {name: sorted(texts[:most]) for name, texts in ranked.items() if texts}


def category_text(name: str, value: object) -> str | None:
    """A category as text, the same for 3 and 3.0: a column of whole numbers with a gap
    is one of floats.

    None where it is missing.
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
    # Python does not write out whole numbers of any length
    return f"{plain:#x}" if is_huge else str(plain)


def numeric(context: Array) -> Array:
    """An array of numbers (…, d), d at least 1, with NaN for what is infinite or
    huge."""
    if context.ndim == 0:
        raise InvalidInput(
            "context must be an array of numbers, a dict or a row; got the number "
            f"{context}"
        )
    if context.shape[-1] == 0:
        raise InvalidInput(
            f"context must have at least one number; got none, shape {context.shape}"
        )
    with np.errstate(invalid="ignore"):
        encoded: Array = np.where(np.abs(context) < HUGE, context, np.nan)
    return encoded


@lru_cache(maxsize=65_536)
def _place(text: str, n: int) -> int:
    """Where a word goes: the same in every process."""
    return (
        int.from_bytes(
            blake2b(
                text.encode(errors="replace"), digest_size=8, key=b"oddsmith"
            ).digest(),
            "big",
        )
        % n
    )
