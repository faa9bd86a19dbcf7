"""Facts: what a context says of each of its keys, in one of few forms; what is in none of them is refused."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from oddsmith.arrays import Array
from oddsmith.contexts import as_number, check_columns, missing, simple
from oddsmith.contexts.values import HUGE
from oddsmith.experts.places import CATEGORY, FLAG, NUMBER, WORD
from oddsmith.experts.schema import Schema, category_text

__all__ = ["Fact", "GAP", "MEASURE", "encoded_facts", "facts_of"]

GAP, MEASURE = -1, -2
"""Forms beside those of places: no value, and a number that is no code."""
Fact: TypeAlias = tuple[str, int, Any]
"""A name, the form of its value, and the value."""


def facts_of(record: Mapping[str, object], schema: Schema | None) -> Iterator[Fact]:
    """What a context says, key by key."""
    return _free_facts(record) if schema is None or schema.is_free else _schema_facts(record, schema)


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
    """The form of a value of another kind, and the value as the nearest common one; or it is refused."""
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
        record = {str(name): value for name, value in record.items()}  # keys of dicts may be numbers, too
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
