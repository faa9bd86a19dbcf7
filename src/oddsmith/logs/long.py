"""Long tables: a row for each arm offered, and a column that says which rows are one
decision.

decision_id,arm,drawn,reward,propensity,context.hour,topic,age_h
d-1,article-17,true,1,0.25,9,sports,2.0
d-1,article-18,false,,0.75,9,tech,0.5
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from oddsmith.core.contexts import missing
from oddsmith.core.errors import BadFile, BrokenLog, InvalidInput
from oddsmith.core.names import hint
from oddsmith.logs import arrow, csv, jsonl, parquet
from oddsmith.logs.files import form_of, path_of
from oddsmith.logs.pieces import Names, listed
from oddsmith.logs.table import Log

__all__ = ["read_long"]

_NEEDED = ("decision_id", "arm", "drawn", "reward")
_ONCE = ("time", "step", "fingerprint", "slate", "slot")
_COLUMNS = (*_NEEDED, "propensity", "eligible", "context", *_ONCE)
_FORMATS = ("parquet", "csv", "jsonl")
_HERE = {"offered": "arm", "propensities": "propensity"}
_ROWS = 65_536


class _Table(NamedTuple):
    """Columns by their names, where ours are among them, and those that are
    features."""

    columns: Mapping[str, Sequence[Any]]
    found: Mapping[str, str]
    context: Mapping[str, str]
    features: Sequence[str]


def read_long(
    source: object,
    *,
    columns: Names | None = None,
    features: Sequence[str] | None = None,
    format: str | None = None,
) -> Log:
    """The log in a long table: a file (Parquet, CSV, JSON lines) or a table, with a row
    for each arm offered.

    Rows with one `decision_id` are one decision; `arm` names the arm, `drawn` says
    which one was drawn, whose `reward` counts. `propensity` are the odds of all arms,
    or of the drawn ones alone. `columns` maps our names to theirs; those of `context`
    (else all that begin with "context."), `time`, `step`, `fingerprint`, `slate` and
    `slot` are the same in all rows of a decision. The other columns are `features`,
    unless these are given.

    >>> import pyarrow
    >>> table = pyarrow.table(
    ...     {
    ...         "visit": [1, 1, 2],
    ...         "arm": ["a", "b", "c"],
    ...         "drawn": [0, 1, 1],
    ...         "reward": [0, 1, 0],
    ...         "age": [2.0, 0.5, 1.0],
    ...     }
    ... )
    >>> log = read_long(table, columns={"decision_id": "visit"})
    >>> log.offered, log.arm, log.features[0]
    ([('a', 'b'), ('c',)], array([1, 0]), {'a': {'age': 2.0}, 'b': {'age': 0.5}})
    """
    names = columns or {}
    if unknown := [one for one in names if one not in _COLUMNS]:
        raise InvalidInput(
            f"columns must map from {', '.join(_COLUMNS)}; got {unknown[0]!r}"
            f"{hint(unknown[0], _COLUMNS)}"
        )
    name, found = _read(source, names, format)
    table = _placed(found, names, features, name)
    try:
        decisions = _decisions(table)
        fields = _fields(table, decisions)
    except BrokenLog as error:
        raise error.shift(0, name) from error
    try:
        return Log(**fields)
    except BrokenLog as error:
        rows, place = (
            decisions[error.row],
            fields["arm"][error.row] if error.column == "reward" else 0,
        )
        raise BrokenLog(
            _HERE.get(error.column, error.column), rows[place], error.rule, name
        ) from error


def _read(
    source: object, names: Names, form: str | None
) -> tuple[str, dict[str, list[Any]]]:
    """The name of the source, and its columns as lists."""
    if hasattr(source, "__arrow_c_stream__"):
        name, batches = type(source).__name__, arrow.stream(source, _ROWS)
    else:
        path = path_of(source)
        name, form = str(path), form or form_of(path)
        if form not in _FORMATS:
            raise InvalidInput(
                f"format of a long table must be one of {', '.join(_FORMATS)}; got "
                f"{form!r}"
            )
        if form == "jsonl":
            return name, _objects(path)
        texts = [
            str(names.get(one, one))
            for one in ("decision_id", "arm", "fingerprint", "slate")
        ]
        batches = (
            parquet.batches(path, _ROWS)
            if form == "parquet"
            else csv.batches(path, _ROWS, texts)
        )
    columns: dict[str, list[Any]] = {}
    for batch in batches:
        if twice := [
            one for one in batch.schema.names if batch.schema.names.count(one) > 1
        ]:
            raise BadFile(f"{name} must have one column {twice[0]!r}; it has several")
        for one, values in zip(batch.schema.names, batch.columns, strict=True):
            columns.setdefault(one, []).extend(values.to_pylist())
    return name, columns


def _objects(path: Path) -> dict[str, list[Any]]:
    rows = [row for _, some in jsonl.objects(path, _ROWS) for row in some]
    return {
        key: [row.get(key) for row in rows]
        for key in dict.fromkeys(key for row in rows for key in row)
    }


def _placed(
    columns: Mapping[str, Sequence[Any]],
    names: Names,
    features: Sequence[str] | None,
    source: str,
) -> _Table:
    """Which of their columns are ours, and which are features."""
    if not any(map(len, columns.values())):
        raise BadFile(f"{source} must have at least one row; got none")
    beside = [one for one in columns if one.startswith("context.")]
    shared = (
        {one: one for one in listed(names["context"])}
        if "context" in names
        else {o: o[8:] for o in beside}
    )
    found = {name: str(names.get(name, name)) for name in _COLUMNS if name != "context"}
    wanted = [
        *shared,
        *(theirs for name, theirs in found.items() if name in _NEEDED or name in names),
    ]
    if absent := [one for one in [*wanted, *(features or ())] if one not in columns]:
        where = "columns={…} says where ours are"
        raise BadFile(
            f"{source} must have the column {absent[0]!r} ({where}); it has "
            f"{', '.join(columns) or 'none'}{hint(absent[0], columns)}"
        )
    found = {name: theirs for name, theirs in found.items() if theirs in columns}
    others = [one for one in columns if one not in found.values() and one not in shared]
    return _Table(
        columns, found, shared, others if features is None else list(features)
    )


def _decisions(table: _Table) -> list[list[int]]:
    """The rows of each decision; decisions are in the order of their first rows."""
    groups: dict[str, list[int]] = {}
    for row, one in enumerate(table.columns[table.found["decision_id"]]):
        if one is None or one == "":
            raise BrokenLog(
                "decision_id", row, "must say which rows are one decision; got none"
            )
        groups.setdefault(str(one), []).append(row)
    return list(groups.values())


def _fields(table: _Table, decisions: Sequence[Sequence[int]]) -> dict[str, Any]:
    """The columns of the log."""
    for row, arm in enumerate(table.columns[table.found["arm"]]):
        if isinstance(arm, bool) or not isinstance(arm, str | int):
            raise BrokenLog(
                "arm", row, f"must be a name, text or a whole number; got {arm!r:.60}"
            )
    drawn = [_drawn(table, rows) for rows in decisions]
    arms, rewards = (
        table.columns[table.found["arm"]],
        table.columns[table.found["reward"]],
    )
    fields: dict[str, Any] = {
        "arm": [rows.index(one) for rows, one in zip(decisions, drawn, strict=True)],
        "reward": [rewards[row] for row in drawn],
        "offered": [[arms[row] for row in rows] for rows in decisions],
        "decision_id": [
            str(table.columns[table.found["decision_id"]][rows[0]])
            for rows in decisions
        ],
        "features": _features(table, decisions, drawn),
    }
    fields |= _odds(table, decisions, drawn)
    if "eligible" in table.found:
        fields["eligible"] = [
            [table.columns[table.found["eligible"]][row] for row in rows]
            for rows in decisions
        ]
    if table.context:
        shared = {
            ours: list(_once(table, theirs, decisions))
            for theirs, ours in table.context.items()
        }
        fields["context"] = [
            dict(zip(shared, row, strict=True))
            for row in zip(*shared.values(), strict=True)
        ]
    fields |= {
        name: list(_once(table, table.found[name], decisions))
        for name in _ONCE
        if name in table.found
    }
    return fields


def _drawn(table: _Table, rows: Sequence[int]) -> int:
    """The one row of a decision whose arm was drawn."""
    flags = table.columns[table.found["drawn"]]
    for row in rows:
        if flags[row] not in (0, 1):  # which true and false are
            raise BrokenLog(
                "drawn", row, f"must be true or false; got {flags[row]!r:.60}"
            )
    chosen = [row for row in rows if flags[row]]
    if len(chosen) != 1:
        one = table.columns[table.found["decision_id"]][rows[0]]
        row, got = (rows[0], "none") if not chosen else (chosen[1], f"{len(chosen)}")
        raise BrokenLog(
            "drawn", row, f"must be true for one arm of decision {one!r:.40}; got {got}"
        )
    return chosen[0]


def _odds(
    table: _Table, decisions: Sequence[Sequence[int]], drawn: Sequence[int]
) -> dict[str, Any]:
    """The odds of all arms, or of the drawn ones where there are no others."""
    if "propensity" not in table.found:
        return {}
    odds = table.columns[table.found["propensity"]]
    absent = [row for row, one in enumerate(odds) if one is None or one != one]
    if not absent:
        return {"propensities": [[odds[row] for row in rows] for rows in decisions]}
    if len(absent) + len(drawn) == len(odds) and not set(absent) & set(drawn):
        return {"propensity": [odds[row] for row in drawn]}
    raise BrokenLog(
        "propensity",
        absent[0],
        "must be there for all arms, or for the drawn ones alone; got none",
    )


def _features(
    table: _Table, decisions: Sequence[Sequence[int]], drawn: Sequence[int]
) -> list[Any] | None:
    """What is known of the arms, by name: of the drawn ones alone where there is
    nothing in any other row."""
    if not table.features:
        return None
    arms, columns = (
        table.columns[table.found["arm"]],
        [table.columns[one] for one in table.features],
    )
    known = [
        any(not missing(value) for value in values)
        for values in zip(*columns, strict=True)
    ]
    own = set(drawn)
    of_all = any(one and row not in own for row, one in enumerate(known)) or len(
        own
    ) == len(known)
    records = [
        dict(zip(table.features, values, strict=True)) if one else None
        for values, one in zip(zip(*columns, strict=True), known, strict=True)
    ]
    return [
        {arms[row]: records[row] for row in rows if of_all or row in own}
        for rows in decisions
    ]


def _once(
    table: _Table, theirs: str, decisions: Sequence[Sequence[int]]
) -> Iterator[Any]:
    """The value of each decision, which all of its rows have."""
    column = table.columns[theirs]
    for rows in decisions:
        first = column[rows[0]]
        for row in rows:
            if column[row] != first and not (
                column[row] != column[row] and first != first
            ):
                one, got = (
                    table.columns[table.found["decision_id"]][rows[0]],
                    f"{first!r:.30} and {column[row]!r:.30}",
                )
                raise BrokenLog(
                    theirs,
                    row,
                    f"must be the same in all rows of decision {one!r:.40}; got {got}",
                )
        yield first
