"""Columns: a column of numbers for every number, category, word and gap that was learnt
from, kept in a bank's state.

* A number has a column: NaN where it is missing, infinite or beyond 1e100. A whole
  number (of a dict or row, not of a plain array) that comes a second time, and is among
  the first 16 of its key, has one more that is 1 where it is this number: it may be a
  code. A key of nothing but 0 and 1 has none of these, and neither has one with other
  fractions.
* A text has a column, which is 1 where it is this text; one of more than three words
  has one for each of its words (lower case, letters and digits, 64 at most). True and
  False have one column, 1 for True.
* A key that had a value before, and has none now, has a column that is 1 where there is
  none. Words have no such column, and names and arrays do not miss each other.
* Columns are made when a context is learnt from, never by a question: what was never
  learnt is 0 or left out. They are appended in the order of learning, those of one
  context in the order of their names, and never change.
* At most 248 columns, 64 texts and words of one key (a first array has as many as it is
  long). A text that finds no place goes to one of 8 more, by its digest; numbers, codes
  and gaps that find none are left out.

The state holds digests, keyed by a salt: it tells no words, and two processes with one
salt agree.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from oddsmith.contexts.numbers import numbers
from oddsmith.contexts.places import (
    CATEGORY,
    FLAG,
    MISSING,
    MOST,
    MOST_VALUES,
    NUMBER,
    OTHER,
    WORD,
    Columns,
    Key,
    Part,
    Places,
    forget,
    parts_of,
    places_of,
)
from oddsmith.contexts.schema import Schema, category_text, numeric
from oddsmith.contexts.values import check_columns
from oddsmith.core.arrays import Array, Bools
from oddsmith.core.contexts import (
    HUGE,
    as_number,
    has_names,
    is_batch,
    length,
    missing,
    one,
    rows,
    simple,
)
from oddsmith.core.decision import Context

__all__ = [
    "Columns",
    "Fact",
    "GAP",
    "MEASURE",
    "empty_columns",
    "encoded_facts",
    "facts_of",
    "learnt",
    "read",
    "read_rows",
]

GAP, MEASURE = -1, -2
"""Forms beside those of places: no value, and a number that is no code."""
Fact: TypeAlias = tuple[str, int, Any]
"""A name, the form of its value, and the value."""


def facts_of(record: Mapping[str, object], schema: Schema | None) -> Iterator[Fact]:
    """What a context says, key by key."""
    return (
        _free_facts(record)
        if schema is None or schema.is_free
        else _schema_facts(record, schema)
    )


def _free_facts(record: Mapping[str, object]) -> Iterator[Fact]:
    for name, value in record.items():
        kind = type(value)
        if kind is str:
            yield name, WORD, value
        elif (kind is float or kind is int) and -HUGE < value < HUGE:  # type: ignore[operator]
            yield name, NUMBER, value
        elif kind is bool:
            yield name, FLAG, "True" if value else ""
        else:
            yield name, *_uncommon(name, value)


def _uncommon(name: str, value: object) -> tuple[int, Any]:
    """The form of a value of another kind, and the value as the nearest common one; or
    it is refused."""
    if missing(value):
        return GAP, None
    if isinstance(value, bool | np.bool_):
        return FLAG, "True" if value else ""
    common = simple(value)
    if isinstance(common, str):
        return WORD, str(common)
    real = as_number(name, common)
    return (NUMBER, real) if real == real else (GAP, None)


def _schema_facts(record: Mapping[str, object], schema: Schema) -> Iterator[Fact]:
    """The same, of the schema's columns alone."""
    names = (*schema.numbers, *schema.categories)
    if any(name not in record for name in names):
        # keys of dicts may be numbers, too
        record = {str(name): value for name, value in record.items()}
        check_columns(names, tuple(record))
    for name in schema.numbers:
        real = as_number(name, record.get(name))
        yield (name, MEASURE, real) if real == real else (name, GAP, None)
    for name in schema.categories:
        text = category_text(name, record.get(name))
        yield (name, GAP, None) if text is None else (name, CATEGORY, text)


def encoded_facts(names: Sequence[str], values: Array) -> Iterator[Fact]:
    """Numbers that a schema has made, by the names it gives them."""
    for name, value in zip(names, values.tolist(), strict=True):
        yield name, MEASURE if value == value else GAP, value


_FLOATS = np.dtype(np.float64)
_NUMBERS = frozenset((NUMBER, MEASURE))


class Wanted(NamedTuple):
    """A column that a context shows: the name of its key, for the order, the key, and
    what of it."""

    name: str
    key: Key
    part: Part


def empty_columns(salt: bytes = bytes(16)) -> Columns:
    """No columns yet; `salt` (16 bytes) keys their digests."""
    none = np.zeros(0, np.uint64)
    return Columns(
        none,
        none,
        np.zeros(0, np.int8),
        np.zeros((0, 2), np.uint64),
        np.frombuffer(salt, np.uint8),
    )


def read(columns: Columns, context: Context, schema: Schema | None = None) -> Array:
    """The context as float64 (…, d), in the columns learnt so far; a plain array that
    fits is given back as it is.

    With a `schema`, its columns alone are read, as the numbers or categories that it
    says they are.

    >>> columns = learnt(empty_columns(), {"age": 40, "city": "Rome"})
    >>> read(columns, [{"age": 31, "city": "Rome"}, {"city": "Oslo"}])
    array([[31.,  1.],
           [nan,  0.]])
    """
    places = places_of(columns)
    if type(context) is dict or isinstance(context, Mapping):
        return _row(places, context, schema)
    if (x := _as_array(context)) is not None:
        return _read_array(places, x, schema)
    if is_batch(context):
        return read_rows(columns, rows(context)[: length(context)], schema)
    return _row(places, one(context), schema)


def read_rows(
    columns: Columns, contexts: Sequence[Any], schema: Schema | None = None
) -> Array:
    """Contexts, one by one, as float64 (n, …, d)."""
    if not all(isinstance(context, Mapping) for context in contexts):
        are_arrays = all(
            isinstance(context, np.ndarray) and context.dtype.kind in "fiub"
            for context in contexts
        )
        if are_arrays and len({context.shape for context in contexts}) == 1:
            return read(columns, np.stack(contexts), schema)
        return np.stack([read(columns, context, schema) for context in contexts])
    places = places_of(columns)
    table = np.tile(places.blank, (len(contexts), 1))
    for row, context in zip(table, contexts, strict=True):
        _fill(places, row, facts_of(context, schema))
    return np.ascontiguousarray(table[:, :-1])


def learnt(columns: Columns, context: Context, schema: Schema | None = None) -> Columns:
    """The columns after a context, or each of a batch, was learnt from; the same object
    where nothing is new."""
    if (x := _as_array(context)) is not None:
        return _learnt_array(columns, x, schema)
    if not isinstance(context, Mapping) and is_batch(context):
        for row in rows(context)[: length(context)]:
            columns = learnt(columns, row, schema)
        return columns
    record = context if isinstance(context, Mapping) else one(context)
    return _learnt_facts(columns, facts_of(record, schema))


def _row(places: Places, record: Mapping[str, object], schema: Schema | None) -> Array:
    row = places.blank.copy()
    _fill(places, row, facts_of(record, schema))
    return row[:-1]


def _fill(places: Places, row: Array, facts: Iterable[Fact]) -> None:
    """Facts written into a blank row, which has one entry too many: place -1, for what
    has no column."""
    known = places.named
    for name, form, value in facts:
        if form == GAP:
            continue
        key = known.get(name) or places.key(name)
        row[key.missing] = 0.0
        if form in _NUMBERS:
            row[key.number] = value
            if key.n_codes:
                place = key.codes.get(value)
                row[places.code(key, value) if place is None else place] = 1.0
        else:
            text = key.texts.get((form, value)) or places.text(key, form, value)
            for place in text.places:
                row[place] = 1.0


def _as_array(context: Context) -> Array | None:
    """Numbers (…, m), m at least 1, of a context without names; they may be infinite or
    huge."""
    if (
        type(context) is np.ndarray
        and context.dtype is _FLOATS
        and context.ndim
        and context.shape[-1]
    ):
        return context
    if has_names(context):
        return None
    x = numbers(context)
    return x if x.ndim and x.shape[-1] else numeric(x)  # which refuses it


def _is_clean(x: Array) -> bool:
    """Whether nothing is missing, infinite or huge: a sum of squares is the cheapest to
    ask."""
    return bool(np.vdot(x, x) < HUGE)


def _read_array(places: Places, x: Array, schema: Schema | None) -> Array:
    if schema is not None and not schema.is_free:
        names, encoded = schema.columns, schema.encode(x)
        table = np.tile(places.blank, (*x.shape[:-1], 1))
        for row, values in zip(
            table.reshape(-1, table.shape[-1]),
            encoded.reshape(-1, len(names)),
            strict=True,
        ):
            _fill(places, row, encoded_facts(names, values))
        return np.ascontiguousarray(table[..., :-1])
    if places.in_order and x.shape[-1] == places.width and _is_clean(x):
        return x
    n = min(x.shape[-1], places.width)
    table = np.empty((*x.shape[:-1], len(places.blank) - 1))
    table[...] = places.blank[:-1]
    known = x[..., :n]
    is_gap = ~(np.abs(known) < HUGE)
    table[..., places.numbers[:n]] = np.where(is_gap, np.nan, known)
    marked = places.marked[places.marked < n]
    table[..., places.gaps[marked]] = is_gap[..., marked]
    return table


def _learnt_array(columns: Columns, x: Array, schema: Schema | None) -> Columns:
    if schema is not None and not schema.is_free:
        for values in schema.encode(x).reshape(-1, schema.width):
            columns = _learnt_facts(columns, encoded_facts(schema.columns, values))
        return columns
    places, m = places_of(columns), x.shape[-1]
    if m <= places.width and _is_clean(x):
        return columns
    most = max(MOST, 0 if len(columns.kinds) else m)
    is_gap: Bools = np.any(~(np.abs(x.reshape(-1, m)) < HUGE), axis=0)
    is_gap[places.marked[places.marked < m]] = False
    new = [(i, NUMBER) for i in range(places.width, min(m, most))]
    new += [
        (i, MISSING)
        for i in np.flatnonzero(is_gap).tolist()
        if i < places.width + len(new)
    ]
    wanted = [Wanted("", places.array_key(i), Part(kind, "")) for i, kind in new]
    return _grown(places, wanted, most=most) if wanted else columns


def _learnt_facts(columns: Columns, facts: Iterable[Fact]) -> Columns:
    places = places_of(columns)
    wanted: list[Wanted] = []
    wholes: list[tuple[str, int, int]] = []
    present: set[int] = set()
    known = places.named
    for name, form, value in facts:
        if form == GAP:
            continue
        key = known.get(name) or places.key(name)
        present.add(key.digest)
        if form in _NUMBERS:
            if key.number < 0 and not places.full:
                wanted.append(Wanted(str(name), key, Part(NUMBER, "")))
            if form == NUMBER:
                code, whole = places.news_of(key, value)
                wanted += [Wanted(str(name), key, code)] if code else []
                wholes += [(str(name), whole, key.digest)] if whole is not None else []
        elif not places.text(key, form, value).complete:
            wanted += [Wanted(str(name), key, part) for part in parts_of(form, value)]
    wanted.sort(key=lambda one: one.name)
    wanted += [
        Wanted("", key, Part(MISSING, ""))
        for key in places.unmarked
        if key.digest not in present
    ]
    wholes.sort()
    return (
        _grown(places, wanted, [whole[1:] for whole in wholes])
        if wanted or wholes
        else columns
    )


def _grown(
    places: Places,
    wanted: Iterable[Wanted],
    wholes: Sequence[tuple[int, int]] = (),
    *,
    most: int = MOST,
) -> Columns:
    """The columns and those that are wanted, as far as there is room for `most`, else
    for texts in the shared ones."""
    columns, new = places.columns, dict[int, tuple[int, int]]()
    room = most - int((columns.kinds != OTHER).sum())
    values = Counter[int]()
    for _, key, part in wanted:
        digest, owner, kind = places.digest(key, part), key.digest, part.kind
        if digest in places.at or digest in new:
            continue
        is_value = kind in (CATEGORY, WORD)
        if room > 0 and not (is_value and key.n_values + values[owner] >= MOST_VALUES):
            room -= 1
            values[owner] += is_value
            new[digest] = owner, kind
        elif is_value and (digest := places.other(digest)) not in places.at:
            new[digest] = 0, OTHER
    if not new and not wholes:
        return columns
    forget(columns)
    owners = np.array(list(new.values()), dtype=np.uint64).reshape(-1, 2)
    return Columns(
        np.append(columns.digests, np.array(list(new), dtype=np.uint64)),
        np.append(columns.keys, owners[:, 0]),
        np.append(columns.kinds, owners[:, 1].astype(np.int8)),
        np.concatenate(
            [columns.wholes, np.array(wholes, dtype=np.uint64).reshape(-1, 2)]
        ),
        columns.salt,
    )
