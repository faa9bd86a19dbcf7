"""CSV with a header, read batch by batch; plain columns for what a spreadsheet can
show, JSON for other contexts.

    arm,reward,propensities.sports,propensities.tech,context.age,context.city,context.json,decision_id
    tech,1.0,0.25,0.75,31,Rome,,d-1
    sports,,0.5,0.5,,,"{""age"": null, ""city"": ""Oslo""}",d-2

What `write` writes `read` gives back: the same numbers to the last bit, and the same
contexts.
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
from oddsmith.files.sizes import most_unpacked
from oddsmith.logs.arrow import arrow, pieces
from oddsmith.logs.offers import BY_ARM
from oddsmith.logs.pieces import Layout, Piece, found_columns, listed
from oddsmith.logs.table import Log

__all__ = ["batches", "names", "read", "write"]

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.csv import CSVStreamingReader


_START = 65_536  # bytes that are looked at for semicolons
_BLOCK = 2**20  # bytes that are unpacked at a time to count them
_WITH_COMMA, _WITH_POINT = (
    re.compile(rf"(?<![^;\t\n])-?\d+{sign}\d+(?![^;\t\r\n])") for sign in (",", r"\.")
)
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
    """The names in the header; a file that unpacks to more than it may is refused."""
    _check_size(path)
    return list(_schema(path).names)


def read(path: Path, layout: Layout) -> Iterator[Piece]:
    """Pieces of a CSV file. An empty field is missing; in `reward` that means that none
    has come. In columns of numbers, so are NaN, NA and null; in text they are text."""
    pa, schema = arrow(), _schema(path)
    found = found_columns(schema.names, layout, str(path))
    numeric = {one: name for name in _NUMBERS for one in listed(found.get(name, []))}
    types = {
        one: pa.float64()
        for one in numeric
        if not pa.types.is_boolean(schema.field(one).type)
    }
    texts = [
        *(one for name in _TEXTS for one in listed(found.get(name, []))),
        "context.json",
    ]
    arm = str(found["arm"])
    if arm in schema.names and pa.types.is_null(schema.field(arm).type):
        texts.append(arm)  # of one arm that is called NA
    types |= {one: pa.string() for one in texts if one in schema.names}
    try:
        yield from pieces(_batches(path, layout.rows, types), found, str(path))
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


def batches(path: Path, rows: int, texts: Sequence[str]) -> "Iterator[pa.RecordBatch]":
    """Record batches of all columns, some of which are text whatever they look like."""
    pa, present = arrow(), names(path)
    try:
        yield from _batches(
            path, rows, {one: pa.string() for one in texts if one in present}
        )
    except pa.ArrowInvalid as error:
        raise BadFile(f"{path} must be CSV; {error}") from error


def _batches(
    path: Path, rows: int, types: "Mapping[str, pa.DataType]"
) -> "Iterator[pa.RecordBatch]":
    with _opened(path, types) as file:
        for batch in file:
            full = _without_empty_texts(batch)
            yield from (full.slice(start, rows) for start in range(0, len(full), rows))


def _without_empty_texts(batch: "pa.RecordBatch") -> "pa.RecordBatch":
    """The batch with null for each text of no letters."""
    from pyarrow import compute

    pa = arrow()
    for place, field in enumerate(batch.schema):
        if not pa.types.is_string(field.type):
            continue
        texts = batch.column(place)
        nothing = pa.scalar(None, pa.string())
        filled = compute.if_else(compute.equal(texts, ""), nothing, texts)
        batch = batch.set_column(place, field, filled)
    return batch


def _find_word(
    path: Path, rows: int, numeric: Mapping[str, str], present: list[str]
) -> None:
    """Refuses the first field that should be a number and is not."""
    from pyarrow import csv

    pa, first = arrow(), 0
    missing = (None, *csv.ConvertOptions().null_values)
    for batch in _batches(path, rows, dict.fromkeys(present, pa.string())):
        for one, name in numeric.items():
            for row, text in enumerate(batch.column(one).to_pylist()):
                if text not in missing and not _reads_as_number(text):
                    raise BrokenLog(
                        name,
                        first + row,
                        f"must be a number; got {text!r:.60}{_cure(text)}",
                        str(path),
                    )
        first += len(batch)


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _cure(text: str) -> str:
    """How to write as a number what is none, where that can be guessed."""
    if text.strip().lower() in _YES_NO:
        return ": write 1 for yes and 0 for no"
    return (
        ": write it with a point" if _reads_as_number(text.replace(",", ".", 1)) else ""
    )


def _opened(path: Path, types: "Mapping[str, pa.DataType]") -> "CSVStreamingReader":
    from pyarrow import csv

    between, point = _signs(path)
    fields = csv.ParseOptions(delimiter=between, newlines_in_values=True)
    how = csv.ConvertOptions(column_types=types, decimal_point=point)
    return csv.open_csv(path, parse_options=fields, convert_options=how)


def _check_size(path: Path) -> None:
    """Refuse a compressed file that is too large; pyarrow unpacks by the suffix."""
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
    """What stands between fields, and in numbers: a header with semicolons or tabs and
    no comma is that of a spreadsheet, perhaps in a country that writes 0,5.
    """
    with path.open("rb") as file:
        start = file.read(_START).decode("utf-8", "ignore")
    header, _, rows = start.partition("\n")
    between = next(
        (sign for sign in ";\t" if sign in header and "," not in header), ","
    )
    comma = between != "," and _WITH_COMMA.search(rows) and not _WITH_POINT.search(rows)
    return between, "," if comma else "."


# as readers take them
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
            instead = "write Parquet, JSON lines or dsjson"
            raise InvalidInput(
                "column offered or features: CSV has no lists for arms that came with "
                f"the call: {instead}"
            )
        plain = plain if header else _plain_columns(log.context)
        columns = dict(_columns(log, plain))
        if not header:
            header = list(columns)
            plain_writer.writerow(header)
        if list(columns) != header:
            raise InvalidInput(f"logs must have the same columns and arms; got {log!r}")
        # Python 3.11 and 3.12 leave a carriage return without quotes
        writer = quoting_writer if _has_returns(columns) else plain_writer
        writer.writerows(zip(*columns.values(), strict=True))
    text.flush()
    text.detach()


def _has_returns(columns: Mapping[str, Sequence[object]]) -> bool:
    return any(
        isinstance(cell, str) and "\r" in cell
        for name in _TEXTS
        for cell in columns.get(name, ())
    )


def _columns(log: Log, plain: Mapping[str, type]) -> Iterator[tuple[str, list[object]]]:
    """The columns of the file, with their cells."""
    names = log.arms if log.arms is not None and all(map(_is_word, log.arms)) else None
    experts = (
        None
        if log.experts is None or all(one.isdigit() for one in log.experts)
        else log.experts
    )
    for name, value in log.columns().items():
        if name == "arm":
            yield (
                name,
                value.tolist() if names is None else [names[arm] for arm in value],
            )
        elif name == "context":
            yield from _context_columns(value, plain)
        elif name == "time" and value.dtype.kind == "M":
            yield name, [f"{time}Z" for time in value]
        elif value.ndim == 2:
            ends: Sequence[object] | None = experts
            if name in BY_ARM:
                ends = names
            if name == "metric":
                ends = log.metrics
            ends = ends or range(value.shape[1])
            yield from (
                (f"{name}.{end}", _cells(value[:, i])) for i, end in enumerate(ends)
            )
        elif name != "propensity" or log.propensities is None:
            yield name, _cells(value)
    # which arms there are
    if names is not None and log.propensities is None and log.eligible is None:
        yield from (
            (f"eligible.{name}", list[object](["true"] * len(log))) for name in names
        )


def _cells(values: npt.NDArray[np.generic]) -> list[object]:
    if values.dtype.kind == "b":
        return ["true" if value else "false" for value in values]
    return [
        "" if value is None or value != value else value for value in values.tolist()
    ]


def _context_columns(
    context: Context, plain: Mapping[str, type]
) -> Iterator[tuple[str, list[object]]]:
    """Numbers side by side; or a column for each plain key, and JSON for the rows that
    do not fit into these."""
    if (
        isinstance(context, np.ndarray)
        and context.ndim == 2
        and context.dtype.kind in "fiu"
    ):
        yield from (
            (f"context.{i}", _cells(context[:, i])) for i in range(context.shape[1])
        )
        return
    rows = contexts_of(context)
    fits = [_fits(row, plain) for row in rows]
    for i, key in enumerate(plain):
        values = (
            (row[i] if isinstance(row, list) else row[key]) if fit else ""
            for row, fit in zip(rows, fits, strict=True)
        )
        yield f"context.{key}", list(values)
    yield (
        "context.json",
        ["" if fit else _json(row) for row, fit in zip(rows, fits, strict=True)],
    )


def _json(context: Context) -> str:
    # null without a space is a missing field
    return " null" if context is None else json.dumps(encode(context))


def _plain_columns(context: Context) -> dict[str, type]:
    """The keys that get columns of their own, and whether they hold text or numbers:
    those of the first context."""
    first = next(
        (
            row
            for row in ([] if context is None else contexts_of(context))
            if row is not None
        ),
        None,
    )
    if isinstance(first, list):
        return (
            {str(i): float for i in range(len(first))}
            if all(map(_is_number, first))
            else {}
        )
    if not isinstance(first, dict) or not all(
        _is_word(key) and key != "json" for key in first
    ):
        return {}
    kinds: dict[str, type] = {
        key: float if _is_number(value) else str for key, value in first.items()
    }
    return kinds if _fits(first, kinds) else {}


def _fits(row: Context, plain: Mapping[str, type]) -> bool:
    """Whether a context is nothing but these numbers and words."""
    if isinstance(row, list):
        return (
            list(plain) == [str(i) for i in range(len(row))]
            and bool(plain)
            and all(map(_is_number, row))
        )
    if not isinstance(row, dict) or not plain or list(row) != list(plain):
        return False
    return all(
        (_is_number if kind is float else _is_word)(row[key])
        for key, kind in plain.items()
    )


def _is_number(value: Context) -> bool:
    return type(value) in (int, float) and isfinite(value) and abs(value) < 2**53


def _is_word(value: object) -> bool:
    """Whether every reader of CSV takes this for text, and for no number, time or
    missing value."""
    return (
        isinstance(value, str)
        and value[:1].isalpha()
        and value.lower() not in _MISSING
        and not any(character in "\n\r" for character in value)
    )
