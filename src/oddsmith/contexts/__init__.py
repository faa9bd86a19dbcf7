"""Contexts in every form that users bring, read in one way everywhere: forms, values and numbers."""

from oddsmith.contexts.flat import flat
from oddsmith.contexts.forms import (
    NamedRow,
    as_array,
    categorical,
    has_names,
    is_batch,
    is_series,
    is_table,
    joined,
    length,
    one,
    rows,
    taken,
)
from oddsmith.contexts.named_rows import named_rows
from oddsmith.contexts.reading import numbers
from oddsmith.contexts.values import (
    as_number,
    check_columns,
    check_json,
    missing,
    plain,
    shown,
    simple,
    single,
    unreadable,
)

__all__ = [
    "NamedRow",
    "as_array",
    "as_number",
    "categorical",
    "check_columns",
    "check_json",
    "flat",
    "has_names",
    "is_batch",
    "is_series",
    "is_table",
    "joined",
    "length",
    "missing",
    "named_rows",
    "numbers",
    "one",
    "plain",
    "rows",
    "shown",
    "simple",
    "single",
    "taken",
    "unreadable",
]
