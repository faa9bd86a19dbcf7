"""CSV with a header, read batch by batch. Contexts have plain columns where a
spreadsheet can show them, and JSON otherwise.

    arm,reward,propensities.sports,propensities.tech,context.age,context.city,context.json,decision_id
    tech,1.0,0.25,0.75,31,Rome,,d-1 sports,,0.5,0.5,,,"{""age"": null, ""city"":
    ""Oslo""}",d-2

`read_pieces` returns exactly the numbers that `write` wrote, to the last bit, and the
same contexts.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from oddsmith.core.contexts import rows as contexts_of
from oddsmith.core.decision import Context
from oddsmith.core.errors import BadFile, BrokenLog, InvalidInput
from oddsmith.core.exact_json import encode
from oddsmith.files.npz import most_unpacked
from oddsmith.logs.arrow import arrow, pieces, slices
from oddsmith.logs.offers import BY_ARM
from oddsmith.logs.pieces import Layout, Piece, column_list, found_columns
from oddsmith.logs.table import Log

__all__ = ["batches", "names", "read_pieces", "write"]

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.csv import CSVStreamingReader


_START = 65_536  # bytes to read in order to detect the delimiter
_BLOCK = 2**20  # bytes to decompress at a time when counting them
_WITH_COMMA = re.compile(r"(?<![^;\t\n])-?\d+,\d+(?![^;\t\r\n])")
_WITH_POINT = re.compile(r"(?<![^;\t\n])-?\d+\.\d+(?![^;\t\r\n])")
_YES_NO = ("yes", "no", "y", "n", "ja", "nein", "oui", "non", "si", "sí")
_TEXTS = ("decision_id", "fingerprint", "slate", "group", "unit")
_NUMBERS = (
    "reward",
    "propensity",
    "propensities",
    "advice",
    "bonus",
    "log_weights",
    "control",
    "holdout",
    "metric",
)


def names(path: Path) -> list[str]:
    """Return the names in the header; raise if a file unpacks to more than the
    limit."""
    _check_size(path)
    return list(_schema(path).names)


def read_pieces(path: Path, layout: Layout) -> Iterator[Piece]:
    """Read a CSV file in pieces. An empty field is a missing value; in the column
    `reward` it means that no reward has arrived. NaN, NA and null are missing values in
    columns of numbers, and text in columns of text."""
    pa = arrow()
    schema = _schema(path)
    found = found_columns(schema.names, layout, str(path))
    types = {}
    numeric: dict[str, str] = {}
    for name in _NUMBERS:
        for column in column_list(found.get(name, [])):
            numeric[column] = name
            if not pa.types.is_boolean(schema.field(column).type):
                types[column] = pa.float64()
    texts = ["context.json"]
    for name in _TEXTS:
        texts += column_list(found.get(name, []))
    arm = str(found["arm"])
    if arm in schema.names and pa.types.is_null(schema.field(arm).type):
        # pyarrow infers the type null if every arm is named NA, so read the names as
        # text.
        texts.append(arm)
    for column in texts:
        if column in schema.names:
            types[column] = pa.string()
    try:
        yield from pieces(_batches(path, layout.rows, types), found, str(path))
    except pa.ArrowInvalid as error:
        _check_numbers(path, layout.rows, numeric, schema.names)
        raise BadFile(f"{path} must be CSV; {error}") from error


def _schema(path: Path) -> "pa.Schema":
    """Return the names and types of the columns, from the first block."""
    try:
        with _open(path, {}) as file:
            return file.schema
    except (arrow().ArrowException, OSError) as error:
        raise BadFile(f"{path} must be CSV with a header; {error}") from error


def batches(path: Path, rows: int, texts: Sequence[str]) -> "Iterator[pa.RecordBatch]":
    """Yield record batches of all columns. The columns in `texts` are read as text,
    also if their values look like numbers."""
    pa = arrow()
    types = {name: pa.string() for name in names(path) if name in texts}
    try:
        yield from _batches(path, rows, types)
    except pa.ArrowInvalid as error:
        raise BadFile(f"{path} must be CSV; {error}") from error


def _batches(
    path: Path, rows: int, types: "Mapping[str, pa.DataType]"
) -> "Iterator[pa.RecordBatch]":
    with _open(path, types) as file:
        for batch in file:
            yield from slices(_without_empty_texts(batch), rows)


def _without_empty_texts(batch: "pa.RecordBatch") -> "pa.RecordBatch":
    """Replace empty texts in the batch by null."""
    from pyarrow import compute

    pa = arrow()
    missing = pa.scalar(None, pa.string())
    for place, field in enumerate(batch.schema):
        if not pa.types.is_string(field.type):
            continue
        texts = batch.column(place)
        texts = compute.if_else(compute.equal(texts, ""), missing, texts)
        batch = batch.set_column(place, field, texts)
    return batch


def _check_numbers(
    path: Path, rows: int, numeric: Mapping[str, str], present: list[str]
) -> None:
    """Raise for the first field that is not a number in a column of numbers."""
    from pyarrow import csv

    first = 0
    missing = (None, *csv.ConvertOptions().null_values)
    for batch in _batches(path, rows, dict.fromkeys(present, arrow().string())):
        for column, name in numeric.items():
            for row, text in enumerate(batch.column(column).to_pylist(), first):
                if text not in missing and not _reads_as_number(text):
                    rule = f"must be a number; got {text!r:.60}{_cure(text)}"
                    raise BrokenLog(name, row, rule, str(path))
        first += len(batch)


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _cure(text: str) -> str:
    """Suggest how to write the text as a number, if there is a likely reading."""
    if text.strip().lower() in _YES_NO:
        return ": write 1 for yes and 0 for no"
    if _reads_as_number(text.replace(",", ".", 1)):
        return ": write it with a decimal point"
    return ""


def _open(path: Path, types: "Mapping[str, pa.DataType]") -> "CSVStreamingReader":
    from pyarrow import csv

    delimiter, point = _signs(path)
    fields = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    how = csv.ConvertOptions(column_types=types, decimal_point=point)
    return csv.open_csv(path, parse_options=fields, convert_options=how)


def _check_size(path: Path) -> None:
    """Raise if a compressed file is too large; pyarrow decompresses it according to the
    suffix."""
    pa = arrow()
    packed = path.stat().st_size
    most = most_unpacked(packed)
    unpacked = 0
    try:
        with pa.input_stream(path) as file:
            if not isinstance(file, pa.CompressedInputStream):
                return
            while unpacked <= most and (block := file.read(_BLOCK)):
                unpacked += len(block)
    except (pa.ArrowException, OSError) as error:
        raise BadFile(f"{path} must be CSV with a header; {error}") from error
    if unpacked > most:
        raise BadFile(
            f"{path} must have at most {most:,} bytes when unpacked; it has more. If "
            "you trust it, unpack it first"
        )


def _signs(path: Path) -> tuple[str, str]:
    """Return the delimiter of fields and the decimal sign. A header with semicolons or
    tabs and no comma comes from a spreadsheet, which may use a decimal comma, as in
    0,5.
    """
    with path.open("rb") as file:
        start = file.read(_START).decode("utf-8", "ignore")
    header, _, rows = start.partition("\n")
    if "," in header:
        return ",", "."
    delimiter = next((sign for sign in ";\t" if sign in header), ",")
    if delimiter == "," or not _WITH_COMMA.search(rows) or _WITH_POINT.search(rows):
        return delimiter, "."
    return delimiter, ","


# texts that CSV readers interpret as missing or special values
_MISSING = frozenset(
    ("na", "n/a", "nan", "null", "none", "true", "false", "inf", "infinity")
)


def write(logs: Iterable[Log], file: IO[bytes]) -> None:
    """Write logs with the same columns as CSV."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    plain_writer = csv.writer(text, lineterminator="\n")
    quoting_writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    header: list[str] = []
    plain: dict[str, type] = {}
    for log in logs:
        if log.offered is not None or log.features is not None:
            raise InvalidInput(
                "column offered or features: CSV has no lists for arms that are "
                "passed in the call: write Parquet, JSON lines or dsjson"
            )
        if not header:
            plain = _plain_columns(log.context)
        columns = dict(_columns(log, plain))
        if not header:
            header = list(columns)
            plain_writer.writerow(header)
        if list(columns) != header:
            raise InvalidInput(f"logs must have the same columns and arms; got {log!r}")
        # Python 3.11 and 3.12 do not quote a carriage return.
        writer = quoting_writer if _has_returns(columns) else plain_writer
        writer.writerows(zip(*columns.values(), strict=True))
    text.flush()
    text.detach()


def _has_returns(columns: Mapping[str, Sequence[object]]) -> bool:
    for name in _TEXTS:
        for cell in columns.get(name, ()):
            if isinstance(cell, str) and "\r" in cell:
                return True
    return False


def _columns(log: Log, plain: Mapping[str, type]) -> Iterator[tuple[str, list[object]]]:
    """Return the columns of the file with their cells."""
    arms = log.arms
    if arms is not None and not all(map(_is_word, arms)):
        arms = None
    experts = log.experts
    if experts is not None and all(name.isdigit() for name in experts):
        experts = None
    for name, value in log.columns().items():
        if name == "arm":
            numbers = value.tolist()
            yield name, numbers if arms is None else [arms[arm] for arm in numbers]
        elif name == "context":
            yield from _context_columns(value, plain)
        elif name == "time" and value.dtype.kind == "M":
            yield name, [f"{time}Z" for time in value]
        elif value.ndim == 2:
            names = experts
            if name in BY_ARM:
                names = arms
            elif name == "metric":
                names = log.metrics
            yield from _wide_columns(name, value, names)
        elif name != "propensity" or log.propensities is None:
            yield name, _cells(value)
    # Without these columns, the file would not contain the names of the arms.
    if arms is not None and log.propensities is None and log.eligible is None:
        for arm in arms:
            yield f"eligible.{arm}", ["true"] * len(log)


def _wide_columns(
    name: str, values: npt.NDArray[np.generic], ends: Sequence[str] | None
) -> Iterator[tuple[str, list[object]]]:
    """Yield columns whose names end in names or numbers of arms or experts."""
    for i, end in enumerate(ends or range(values.shape[1])):
        yield f"{name}.{end}", _cells(values[:, i])


def _cells(values: npt.NDArray[np.generic]) -> list[object]:
    if values.dtype.kind == "b":
        return ["true" if value else "false" for value in values]
    cells = values.tolist()
    return ["" if cell is None or cell != cell else cell for cell in cells]


def _context_columns(
    context: Context, plain: Mapping[str, type]
) -> Iterator[tuple[str, list[object]]]:
    """Yield columns for contexts: one per number; or one per simple key, and JSON for
    the rows that do not fit."""
    is_array = isinstance(context, np.ndarray) and context.ndim == 2
    if is_array and context.dtype.kind in "fiu":
        yield from _wide_columns("context", context, None)
        return
    rows = contexts_of(context)
    fits = [_fits(row, plain) for row in rows]
    for i, key in enumerate(plain):
        values: list[object] = []
        for row, fit in zip(rows, fits, strict=True):
            place = i if isinstance(row, list) else key
            values.append(row[place] if fit else "")
        yield f"context.{key}", values
    texts: list[object] = []
    for row, fit in zip(rows, fits, strict=True):
        texts.append("" if fit else _json(row))
    yield "context.json", texts


def _json(context: Context) -> str:
    # the space distinguishes the context null from a missing field
    return " null" if context is None else json.dumps(encode(context))


def _plain_columns(context: Context) -> dict[str, type]:
    """Return the keys that get their own columns, with the type text or number, from
    the first context."""
    rows = [] if context is None else contexts_of(context)
    first = next((row for row in rows if row is not None), None)
    kinds: dict[str, type] = {}
    if isinstance(first, list):
        kinds = {str(i): float for i in range(len(first))}
    elif isinstance(first, dict):
        for key, value in first.items():
            if not _is_word(key) or key == "json":
                return {}
            kinds[key] = float if _is_number(value) else str
    return kinds if _fits(first, kinds) else {}


def _fits(row: Context, plain: Mapping[str, type]) -> bool:
    """Return whether a context has exactly these keys, each with a number or a word as
    its value."""
    if not plain:
        return False
    if isinstance(row, list):
        keys = [str(i) for i in range(len(row))]
        return list(plain) == keys and all(map(_is_number, row))
    if not isinstance(row, dict) or list(row) != list(plain):
        return False
    for key, kind in plain.items():
        fits = _is_number if kind is float else _is_word
        if not fits(row[key]):
            return False
    return True


def _is_number(value: Context) -> bool:
    return type(value) in (int, float) and isfinite(value) and abs(value) < 2**53


def _is_word(value: object) -> bool:
    """Return whether every CSV reader reads this value as text, and not as a number, a
    time or a missing value."""
    if not isinstance(value, str) or value.lower() in _MISSING:
        return False
    return value[:1].isalpha() and "\n" not in value and "\r" not in value
