"""Columns that learners create while they learn from contexts: one column of numbers
per number, category, word and missing value, stored in a bank's state.

* A number has one column, with NaN if the number is missing, infinite or beyond 1e100.
  A whole number in a dict or row may be a code, not a quantity. So if it occurs a
  second time, it gets an indicator column, which is 1 for this number. Indicators exist
  only for the first 16 numbers of a key, and not for keys that have only 0 and 1 or
  that also have fractions.
* A text has an indicator column. A text of more than three words instead has one for
  each of its words (lower case, letters and digits, 64 words at most). True and False
  share one column, which is 1 for True.
* If a key had a value earlier and has none now, it gets an indicator column for the
  missing value. This does not apply to single words, and a context of names is not
  compared with a context that is an array.
* Columns are only added while learning from a context. For a decision, values that were
  never learned are encoded as 0 or left out. New columns are appended in the order of
  their names, and existing columns never change.
* There are at most 248 columns, and 64 texts and words per key (the first array may
  have more). A text beyond the limit uses one of 8 shared columns, selected by its
  digest; numbers, codes and missing values beyond the limit have no column.

The state contains only digests of the words, which depend on a salt. Two processes with
the same salt have the same digests.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from oddsmith.contexts.numbers import numbers, numeric
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
from oddsmith.contexts.schema import Schema, category_text
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
    "learn_columns",
    "read_context",
    "read_rows",
]

GAP, MEASURE = -1, -2
"""Kinds of facts in addition to those of places: no value, and a number that cannot be
a code."""
Fact: TypeAlias = tuple[str, int, Any]
"""Name, kind and value of a fact."""


def facts_of(record: Mapping[str, object], schema: Schema | None) -> Iterator[Fact]:
    """Return the facts of a context, key by key."""
    if schema is None or schema.is_free:
        return _free_facts(record)
    return _schema_facts(record, schema)


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
    """Return the kind of a value of an uncommon type, and the value converted to a
    common type. Raise if this is impossible."""
    if missing(value):
        return GAP, None
    if isinstance(value, bool | np.bool_):
        return FLAG, "True" if value else ""
    common = simple(value)
    if isinstance(common, str):
        return WORD, str(common)
    real = as_number(name, common)
    is_missing = real != real
    return (GAP, None) if is_missing else (NUMBER, real)


def _schema_facts(record: Mapping[str, object], schema: Schema) -> Iterator[Fact]:
    """Return the facts of the schema's columns only."""
    names = (*schema.numbers, *schema.categories)
    if any(name not in record for name in names):
        # Column names are strings, but keys of dicts may be numbers.
        record = {str(name): value for name, value in record.items()}
        check_columns(names, tuple(record))
    for name in schema.numbers:
        real = as_number(name, record.get(name))
        is_missing = real != real
        yield (name, GAP, None) if is_missing else (name, MEASURE, real)
    for name in schema.categories:
        text = category_text(name, record.get(name))
        yield (name, GAP, None) if text is None else (name, CATEGORY, text)


def encoded_facts(names: Sequence[str], values: Array) -> Iterator[Fact]:
    """Return numbers that a schema has encoded, with the schema's names."""
    for name, value in zip(names, values.tolist(), strict=True):
        is_missing = value != value
        yield name, GAP if is_missing else MEASURE, value


_FLOATS = np.dtype(np.float64)
_NUMBERS = frozenset((NUMBER, MEASURE))


class NewColumn(NamedTuple):
    """A column that a context needs: the name of its key, by which columns are ordered,
    the key, and the part of the key's values that the column represents."""

    name: str
    key: Key
    part: Part


def empty_columns(salt: bytes = bytes(16)) -> Columns:
    """Return the state before any column; `salt` (16 bytes) keys the digests."""
    return Columns(
        digests=np.zeros(0, np.uint64),
        keys=np.zeros(0, np.uint64),
        kinds=np.zeros(0, np.int8),
        wholes=np.zeros((0, 2), np.uint64),
        salt=np.frombuffer(salt, np.uint8),
    )


def read_context(
    columns: Columns, context: Context, schema: Schema | None = None
) -> Array:
    """Return the context as float64 (…, d) in the columns learnt so far. A matching
    plain array is returned unchanged.

    With a `schema`, only its columns are read, as the numbers or categories that it
    declares.

    >>> columns = learn_columns(empty_columns(), {"age": 40, "city": "Rome"})
    >>> read_context(columns, [{"age": 31, "city": "Rome"}, {"city": "Oslo"}])
    array([[31.,  1.],
           [nan,  0.]])
    """
    places = places_of(columns)
    if type(context) is dict or isinstance(context, Mapping):
        return _row(places, context, schema)
    x = _as_array(context)
    if x is not None:
        return _read_array(places, x, schema)
    if is_batch(context):
        return read_rows(columns, rows(context)[: length(context)], schema)
    return _row(places, one(context), schema)


def read_rows(
    columns: Columns, contexts: Sequence[Any], schema: Schema | None = None
) -> Array:
    """Return contexts as float64 (n, …, d), read one by one."""
    if not all(isinstance(context, Mapping) for context in contexts):
        if _are_like_arrays(contexts):
            return read_context(columns, np.stack(contexts), schema)
        return np.stack(
            [read_context(columns, context, schema) for context in contexts]
        )
    places = places_of(columns)
    table = np.tile(places.blank, (len(contexts), 1))
    for row, context in zip(table, contexts, strict=True):
        _fill(places, row, facts_of(context, schema))
    return np.ascontiguousarray(table[:, :-1])


def _are_like_arrays(contexts: Sequence[Any]) -> bool:
    """Return whether all contexts are arrays of numbers with the same shape."""
    for context in contexts:
        if not isinstance(context, np.ndarray) or context.dtype.kind not in "fiub":
            return False
    return len({context.shape for context in contexts}) == 1


def learn_columns(
    columns: Columns, context: Context, schema: Schema | None = None
) -> Columns:
    """Return the columns after learning from a context or a batch, or the same object
    if no column was added."""
    x = _as_array(context)
    if x is not None:
        return _learn_array(columns, x, schema)
    if not isinstance(context, Mapping) and is_batch(context):
        for row in rows(context)[: length(context)]:
            columns = learn_columns(columns, row, schema)
        return columns
    record = context if isinstance(context, Mapping) else one(context)
    return _learn_facts(columns, facts_of(record, schema))


def _row(places: Places, record: Mapping[str, object], schema: Schema | None) -> Array:
    row = places.blank.copy()
    _fill(places, row, facts_of(record, schema))
    return row[:-1]


def _fill(places: Places, row: Array, facts: Iterable[Fact]) -> None:
    """Write facts into a blank row. The row has one extra entry: place -1 takes values
    without a column."""
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
    """Return the numbers (…, m), m at least 1, of a context without names. They may be
    infinite or huge."""
    is_floats = type(context) is np.ndarray and context.dtype is _FLOATS
    if is_floats and context.ndim and context.shape[-1]:
        floats: Array = context
        return floats
    if has_names(context):
        return None
    x = numbers(context)
    # raises for a context without numbers
    return x if x.ndim and x.shape[-1] else numeric(x)


def _is_clean(x: Array) -> bool:
    """Return whether no number is missing, infinite or huge. The sum of squares is the
    fastest test."""
    return bool(np.vdot(x, x) < HUGE)


def _read_array(places: Places, x: Array, schema: Schema | None) -> Array:
    if schema is not None and not schema.is_free:
        return _read_encoded(places, schema.encode(x), schema.columns)
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


def _read_encoded(places: Places, encoded: Array, names: Sequence[str]) -> Array:
    """Return numbers that a schema has encoded, with the schema's names."""
    table = np.tile(places.blank, (*encoded.shape[:-1], 1))
    table_rows = table.reshape(-1, table.shape[-1])
    encoded_rows = encoded.reshape(-1, len(names))
    for row, values in zip(table_rows, encoded_rows, strict=True):
        _fill(places, row, encoded_facts(names, values))
    return np.ascontiguousarray(table[..., :-1])


def _learn_array(columns: Columns, x: Array, schema: Schema | None) -> Columns:
    if schema is not None and not schema.is_free:
        for values in schema.encode(x).reshape(-1, schema.width):
            columns = _learn_facts(columns, encoded_facts(schema.columns, values))
        return columns
    places = places_of(columns)
    m = x.shape[-1]
    if m <= places.width and _is_clean(x):
        return columns
    most = MOST if len(columns.kinds) else max(MOST, m)
    width = max(places.width, min(m, most))
    is_gap: Bools = np.any(~(np.abs(x.reshape(-1, m)) < HUGE), axis=0)
    is_gap[places.marked[places.marked < m]] = False
    gaps = [i for i in np.flatnonzero(is_gap).tolist() if i < width]
    new = [_array_column(places, i, NUMBER) for i in range(places.width, width)]
    new += [_array_column(places, i, MISSING) for i in gaps]
    return _grow(places, new, most=most) if new else columns


def _array_column(places: Places, place: int, kind: int) -> NewColumn:
    return NewColumn("", places.array_key(place), Part(kind, ""))


def _learn_facts(columns: Columns, facts: Iterable[Fact]) -> Columns:
    places = places_of(columns)
    new: list[NewColumn] = []
    wholes: list[tuple[str, int, int]] = []
    present: set[int] = set()
    known = places.named
    for name, form, value in facts:
        if form == GAP:
            continue
        key = known.get(name) or places.key(name)
        present.add(key.digest)
        if form not in _NUMBERS:
            if not places.text(key, form, value).complete:
                new += [
                    NewColumn(str(name), key, part) for part in parts_of(form, value)
                ]
            continue
        if key.number < 0 and not places.full:
            new.append(NewColumn(str(name), key, Part(NUMBER, "")))
        if form == NUMBER:
            code, whole = places.news_of(key, value)
            if code is not None:
                new.append(NewColumn(str(name), key, code))
            if whole is not None:
                wholes.append((str(name), whole, key.digest))
    new.sort(key=lambda column: column.name)
    for key in places.unmarked:
        if key.digest not in present:
            new.append(NewColumn("", key, Part(MISSING, "")))
    if not new and not wholes:
        return columns
    wholes.sort()
    return _grow(places, new, [(whole, digest) for _, whole, digest in wholes])


def _grow(
    places: Places,
    wanted_columns: Iterable[NewColumn],
    wholes: Sequence[tuple[int, int]] = (),
    *,
    most: int = MOST,
) -> Columns:
    """Return the columns extended by the wanted ones while there is room for `most`;
    further texts use the shared columns."""
    columns = places.columns
    new: dict[int, tuple[int, int]] = {}  # maps each digest to key and kind
    room = most - int((columns.kinds != OTHER).sum())
    n_new_values = Counter[int]()
    for _, key, part in wanted_columns:
        digest = places.digest(key, part)
        if digest in places.at or digest in new:
            continue
        is_value = part.kind in (CATEGORY, WORD)
        is_full = is_value and key.n_values + n_new_values[key.digest] >= MOST_VALUES
        if room > 0 and not is_full:
            room -= 1
            n_new_values[key.digest] += is_value
            new[digest] = key.digest, part.kind
        elif is_value:
            other = places.other(digest)
            if other not in places.at:
                new[other] = 0, OTHER
    if not new and not wholes:
        return columns
    forget(columns)
    digests = np.array(list(new), dtype=np.uint64)
    keys = np.array([key for key, _ in new.values()], dtype=np.uint64)
    kinds = np.array([kind for _, kind in new.values()], dtype=np.int8)
    new_wholes = np.array(wholes, dtype=np.uint64).reshape(-1, 2)
    return Columns(
        digests=np.append(columns.digests, digests),
        keys=np.append(columns.keys, keys),
        kinds=np.append(columns.kinds, kinds),
        wholes=np.concatenate([columns.wholes, new_wholes]),
        salt=columns.salt,
    )
