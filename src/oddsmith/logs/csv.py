"""CSV with a header, read batch by batch."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from oddsmith.errors import BadFile, BrokenLog
from oddsmith.logs.arrow import arrow, pieces
from oddsmith.logs.pieces import Layout, Piece, found_columns, listed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.csv import CSVStreamingReader

__all__ = ["names", "read"]

_TEXTS = ("decision_id", "fingerprint")
_NUMBERS = ("reward", "propensity", "propensities", "advice", "bonus", "log_weights")


def names(path: Path) -> list[str]:
    """The names in the header."""
    return list(_schema(path).names)


def read(path: Path, layout: Layout) -> Iterator[Piece]:
    """Pieces of a CSV file. An empty field is missing; in `reward` that means that none has come."""
    pa, schema = arrow(), _schema(path)
    found = found_columns(schema.names, layout, str(path))
    numeric = {one: name for name in _NUMBERS for one in listed(found.get(name, []))}
    types = {one: pa.float64() for one in numeric if not pa.types.is_boolean(schema.field(one).type)}
    texts = [*(one for name in _TEXTS for one in listed(found.get(name, []))), "context.json"]
    types |= {one: pa.string() for one in texts if one in schema.names}
    try:
        yield from pieces(_batches(path, layout.rows, types), layout, str(path))
    except pa.ArrowInvalid as error:
        _find_word(path, layout.rows, numeric, schema.names)
        raise BadFile(f"{path} must be CSV; {error}") from error


def _schema(path: Path) -> "pa.Schema":
    """Names and types, as far as the first block tells."""
    try:
        with _opened(path, {}) as file:
            return file.schema
    except (arrow().ArrowException, OSError) as error:
        raise BadFile(f"{path} must be CSV with a header; {error}") from error


def _batches(path: Path, rows: int, types: "Mapping[str, pa.DataType]") -> "Iterator[pa.RecordBatch]":
    with _opened(path, types) as file:
        for batch in file:
            yield from (batch.slice(start, rows) for start in range(0, len(batch), rows))


def _find_word(path: Path, rows: int, numeric: Mapping[str, str], present: list[str]) -> None:
    """Refuses the first field that should be a number and is not."""
    pa, first = arrow(), 0
    for batch in _batches(path, rows, dict.fromkeys(present, pa.string())):
        for one, name in numeric.items():
            for row, text in enumerate(batch.column(one).to_pylist()):
                if text and not _is_number(text):
                    raise BrokenLog(name, first + row, f"must be a number; got {text!r:.60}", str(path))
        first += len(batch)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _opened(path: Path, types: "Mapping[str, pa.DataType]") -> "CSVStreamingReader":
    from pyarrow import csv

    return csv.open_csv(path, convert_options=csv.ConvertOptions(column_types=types, strings_can_be_null=True))
