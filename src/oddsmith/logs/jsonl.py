"""JSON lines: one object a line, with our column names as keys (`Decision.to_json` and
a reward is one)."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from oddsmith.core.errors import BadFile, BrokenLog
from oddsmith.core.exact_json import decode, encode, encode_floats
from oddsmith.logs.offers import BY_ARM
from oddsmith.logs.pieces import Layout, Piece, found_columns, suffixes
from oddsmith.logs.table import Log

__all__ = ["decoded", "objects", "read", "write"]


def objects(path: Path, rows: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """The objects of a file, some rows at a time, with the number of the first; blank
    lines do not count."""
    try:
        with path.open(encoding="utf-8") as file:
            found, first = (line for line in file if line.strip()), 0
            while some := list(islice(found, rows)):
                yield (
                    first,
                    [_object(path, first + i, line) for i, line in enumerate(some)],
                )
                first += len(some)
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"{path} must be a text file of JSON lines; {error}") from error


def read(path: Path, layout: Layout) -> Iterator[Piece]:
    """Pieces of a file of JSON lines; null is NaN, and where an arm has a name its
    number is in `index`.

    `arms` and `experts`, in the first row, name the arms and the experts. Where every
    row has `arms`, as decisions among arms that came with the call have, they are the
    names that were offered.
    """
    arms, experts, metrics = None, None, None
    _, head = next(objects(path, 2), (0, []))
    decided = bool(head) and all("arms" in row and "index" in row for row in head)
    for first, rows in objects(path, layout.rows):
        if not decided:
            _check_names(path, first, rows)
        else:
            rows = [
                {
                    "offered" if key == "arms" else key: value
                    for key, value in row.items()
                }
                for row in rows
            ]
        arms, experts = rows[0].get("arms", arms), rows[0].get("experts", experts)
        metrics = rows[0].get("metrics", metrics)
        keys = list(dict.fromkeys(key for row in rows for key in row))
        found = found_columns(keys, layout, str(path))
        columns = {
            name: [_field(row, theirs) for row in rows]
            for name, theirs in found.items()
        }
        if isinstance(beside := found.get("context"), list):
            columns["context"] = _contexts(beside, columns["context"])
        if "index" in rows[0]:
            columns["arm"] = [row.get("index") for row in rows]
        for name in ("context", "features"):
            if name in columns:
                columns[name] = [
                    decoded(value, name, row, path)
                    for row, value in enumerate(columns[name], first)
                ]
        # absent: all arms, no expert slept
        for name, nothing in (("eligible", True), ("log_weights", None)):
            if name in columns:
                columns[name] = _filled(
                    columns[name],
                    nothing,
                    columns.get("offered") if name in BY_ARM else None,
                )
        kept = {name: values for name, values in columns.items() if values}
        own = "fingerprint" in keys
        named = metrics or suffixes(found, "metric")
        yield Piece(kept, first, arms, experts, own, named)


def write(logs: Iterable[Log], file: IO[bytes]) -> None:
    """Write logs as JSON lines; the first line names the arms and the experts."""
    for number, log in enumerate(logs):
        names = (
            {
                "arms": log.arms if log.offered is None else None,
                "experts": log.experts,
                "metrics": log.metrics,
            }
            if number == 0
            else {}
        )
        for i, row in enumerate(log):
            line: dict[str, object] = {
                what: list(all_of)
                for what, all_of in names.items()
                if all_of and i == 0
            }
            line |= {
                name: _written(name, value, row.get("offered"))
                for name, value in row.items()
            }
            file.write(json.dumps(line, allow_nan=False).encode() + b"\n")


def _written(name: str, value: Any, names: Sequence[str] | None) -> object:
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


def _field(row: dict[str, object], theirs: str | list[str]) -> object:
    return (
        row.get(theirs) if isinstance(theirs, str) else [row.get(one) for one in theirs]
    )


def _contexts(keys: Sequence[str], rows: list[Any]) -> list[Any]:
    """Contexts by the names of their keys, as those of tables are, unless all values
    are numbers."""
    kinds = {type(value) for row in rows for value in row}
    if kinds <= {int, float, bool, type(None)}:
        return rows
    names = [key.removeprefix("context.") for key in keys]
    return [dict(zip(names, row, strict=True)) for row in rows]


def decoded(value: Any, name: str, row: int, source: Path | str = "") -> Any:
    """The value that `encode` wrote; refused with column and row where it did not."""
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
    """Refuses names of arms in a later row: they would be those of that row alone."""
    for row, one in enumerate(rows, first):
        if row and "arms" in one:
            rule = (
                "must be in every row beside index, as decisions have it, or in the "
                "first row alone"
            )
            raise BrokenLog("arms", row, rule, str(path))


def _filled(
    lists: list[object], nothing: object, offers: Sequence[Any] | None
) -> list[object]:
    """Lists, with `nothing` in place of those that are absent, as often as arms were
    offered; none if all are."""
    width = next((len(one) for one in lists if isinstance(one, list)), None)
    if width is None:
        return []
    widths = (
        [width] * len(lists)
        if offers is None
        else [len(names) if isinstance(names, list) else 0 for names in offers]
    )
    return [
        [nothing] * n if one is None else one
        for one, n in zip(lists, widths, strict=True)
    ]
