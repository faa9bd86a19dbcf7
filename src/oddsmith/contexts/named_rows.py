"""Arms in a data frame: a row for each, named by the column `arm` or the index."""

from collections.abc import Sequence
from typing import Any

from oddsmith.contexts.forms import rows
from oddsmith.errors import InvalidInput

__all__ = ["named_rows"]


def named_rows(table: Any) -> tuple[list[object], list[Any]]:
    """Names and features of the rows of a data frame."""
    columns = [str(name) for name in (table.column_names if hasattr(table, "column_names") else table.columns)]
    if "arm" in columns:
        records: list[dict[str, Any]] = [dict(row) for row in rows(table)]
        return [record.pop("arm") for record in records], [record or None for record in records]
    if not hasattr(table, "iloc"):
        raise InvalidInput(f"arms must have a column 'arm' with their names; got the columns {columns[:8]}")
    features = list(rows(table)) if columns else [None] * len(table)
    _check_index(table.index, columns, features)
    return table.index.tolist(), features


def _check_index(index: Any, columns: Sequence[str], features: Sequence[Any]) -> None:
    """Refuse the index 0, 1, 2, … that a frame has unless it gets another, beside words: it is no one's names.

    Arms would have other names in each call. Rows of numbers alone are taken, for their numbers may be the names.
    """
    if type(index).__name__ != "RangeIndex" or index.name is not None or (index.start, index.step) != (0, 1):
        return
    words = [
        name for name in columns if any(isinstance(row, dict) and isinstance(row.get(name), str) for row in features)
    ]
    if words:
        ids = [name for name in words if len({str(row[name]) for row in features}) == len(features)]
        give = f"arms.set_index({ids[0]!r}), say" if ids else "give them an index, or a column 'arm', of names"
        raise InvalidInput(f"arms must be named by their column 'arm' or their index; got 0, 1, 2, …: {give}")
