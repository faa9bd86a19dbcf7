"""JSON lines: one object per line, with our column names as keys. `Decision.to_json`
with a reward has this form."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from oddsmith.core.errors import BadFile, BrokenLog
from oddsmith.core.exact_json import decode, encode, encode_floats
from oddsmith.logs.offers import BY_ARM
from oddsmith.logs.pieces import Layout, Piece, found_columns, metric_names
from oddsmith.logs.table import Log

__all__ = ["decode_field", "is_list_of", "objects", "read_pieces", "write"]


def objects(path: Path, rows: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Yield the objects of a file in blocks of `rows`, each with the number of its
    first object. Blank lines are skipped."""
    first = 0
    try:
        with path.open(encoding="utf-8") as file:
            lines = (line for line in file if line.strip())
            while some := list(islice(lines, rows)):
                yield (
                    first,
                    [_object(path, i, line) for i, line in enumerate(some, first)],
                )
                first += len(some)
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"{path} must be a text file of JSON lines; {error}") from error


def is_list_of(values: object, kind: type) -> bool:
    """Return whether JSON is a list of values of one type."""
    return isinstance(values, list) and all(type(value) is kind for value in values)


def read_pieces(path: Path, layout: Layout) -> Iterator[Piece]:
    """Read a file of JSON lines in pieces. null is read as NaN. If `arm` is a name,
    `index` contains the arm's number.

    `arms` and `experts`, in the first row, name the arms and the experts. If every row
    has `arms`, these are the names that were passed in the call (`offered`).
    """
    arms: Sequence[str] | None = None
    experts: Sequence[str] | None = None
    metrics: Sequence[str] | None = None
    _, head = next(objects(path, 2), (0, []))
    has_offers = bool(head) and all("arms" in row and "index" in row for row in head)
    for first, rows in objects(path, layout.rows):
        if has_offers:
            for row in rows:
                if "arms" in row:
                    row["offered"] = row.pop("arms")
        else:
            _check_names(path, first, rows)
        arms = rows[0].get("arms", arms)
        experts = rows[0].get("experts", experts)
        metrics = rows[0].get("metrics", metrics)
        if isinstance(metrics, Mapping):
            raise BadFile(
                f"{path} must have a key metric.NAME for each metric, such as "
                '"metric.revenue"; got an object metrics'
            )
        keys = list(dict.fromkeys(key for row in rows for key in row))
        found = found_columns(keys, layout, str(path))
        columns = _columns(rows, found)
        for name in ("context", "features"):
            if name in columns:
                values = enumerate(columns[name], first)
                columns[name] = [
                    decode_field(value, name, row, path) for row, value in values
                ]
        present = {name: values for name, values in columns.items() if values}
        own = "fingerprint" in keys
        amounts = metrics or metric_names(found)
        yield Piece(present, first, arms, experts, own, amounts)


def _columns(
    rows: Sequence[Mapping[str, Any]], found: Mapping[str, str | list[str]]
) -> dict[str, Any]:
    """Return the values of all rows under our names. `found` maps them to the keys."""
    columns: dict[str, Any] = {}
    for name, theirs in found.items():
        if isinstance(theirs, str):
            columns[name] = [row.get(theirs) for row in rows]
        else:
            columns[name] = [[row.get(key) for key in theirs] for row in rows]
            if name == "context":
                columns[name] = _contexts(theirs, columns[name])
    if "index" in rows[0]:
        columns["arm"] = [row.get("index") for row in rows]
    # A missing mask allows all arms; missing log weights mean that all experts made
    # predictions.
    if "eligible" in columns:
        columns["eligible"] = _fill_lists(
            columns["eligible"], True, columns.get("offered")
        )
    if "log_weights" in columns:
        columns["log_weights"] = _fill_lists(columns["log_weights"], None, None)
    return columns


def write(logs: Iterable[Log], file: IO[bytes]) -> None:
    """Write logs as JSON lines; the first line names the arms and the experts."""
    for number, log in enumerate(logs):
        for i, row in enumerate(log):
            line: dict[str, object] = {}
            if number == 0 and i == 0:
                if log.arms and log.offered is None:
                    line["arms"] = list(log.arms)
                if log.experts:
                    line["experts"] = list(log.experts)
                if log.metrics:
                    line["metrics"] = list(log.metrics)
            for name, value in row.items():
                line[name] = _json_value(name, value, row.get("offered"))
            file.write(json.dumps(line, allow_nan=False).encode() + b"\n")


def _json_value(name: str, value: Any, names: Sequence[str] | None) -> object:
    if name in ("context", "features"):
        return encode(value)
    if name == "offered":
        return list(value)
    if name in BY_ARM and names is not None:
        value = value[: len(names)]
    if isinstance(value, np.ndarray):
        return encode_floats(value) if value.dtype.kind == "f" else value.tolist()
    if hasattr(value, "isoformat"):
        return f"{value.isoformat()}Z"
    return None if value != value else value


def _object(path: Path, row: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
        if not isinstance(value, dict):
            raise ValueError(f"it is a {type(value).__name__}")
    except (ValueError, RecursionError) as error:
        raise BrokenLog(
            "(all)", row, f"must be a JSON object; {error!s:.100}", str(path)
        ) from error
    return value


def _contexts(keys: Sequence[str], rows: list[Any]) -> list[Any]:
    """Return contexts by the names of their keys, as for tables, unless all values are
    numbers."""
    kinds = {type(value) for row in rows for value in row}
    if kinds <= {int, float, bool, type(None)}:
        return rows
    names = [key.removeprefix("context.") for key in keys]
    return [dict(zip(names, row, strict=True)) for row in rows]


def decode_field(value: Any, name: str, row: int, source: Path | str = "") -> Any:
    """Return the value that `encode` wrote. An error for any other value names column
    and row."""
    try:
        return decode(value)
    except (
        TypeError,
        ValueError,
        KeyError,
        AttributeError,
        IndexError,
        OverflowError,
    ) as error:
        raise BrokenLog(
            name,
            row,
            f"must be JSON as write_log writes it; got {value!r:.60}",
            str(source),
        ) from error


def _check_names(path: Path, first: int, rows: list[dict[str, Any]]) -> None:
    """Raise for names of arms in a later row, because they would be names of that row
    alone."""
    for row, one in enumerate(rows, first):
        if row and "arms" in one:
            rule = (
                "must be in every row together with index, as in decisions, or only "
                "in the first row"
            )
            raise BrokenLog("arms", row, rule, str(path))


def _fill_lists(
    lists: list[Any], fill: object, offers: Sequence[Any] | None
) -> list[Any]:
    """Replace absent lists by `fill`, once per offered arm. Without any list, return
    no rows."""
    width = next((len(row) for row in lists if isinstance(row, list)), None)
    if width is None:
        return []
    rows = []
    for place, row in enumerate(lists):
        n = width
        if offers is not None:
            names = offers[place]
            n = len(names) if isinstance(names, list) else 0
        rows.append([fill] * n if row is None else row)
    return rows
