"""Long tables: one row per offered arm, and a column that groups rows by decision.

decision_id,arm,drawn,reward,propensity,context.hour,topic,age_h
d-1,article-17,true,1,0.25,9,sports,2.0
d-1,article-18,false,,0.75,9,tech,0.5
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from oddsmith.core.contexts import missing
from oddsmith.core.errors import BadFile, BrokenLog, InvalidInput
from oddsmith.core.names import hint
from oddsmith.logs import arrow, csv, jsonl, parquet
from oddsmith.logs.files import form_of, path_of
from oddsmith.logs.pieces import Names, column_list
from oddsmith.logs.table import Log

__all__ = ["read_long"]

if TYPE_CHECKING:
    import pyarrow as pa

_NEEDED = ("decision_id", "arm", "drawn", "reward")
_ONCE = ("time", "step", "fingerprint", "slate", "slot", "holdout", "group", "unit")
_METRIC = "metric."
_COLUMNS = (*_NEEDED, "propensity", "eligible", "context", "metric", *_ONCE)
_FORMATS = ("parquet", "csv", "jsonl")
_HERE = {"offered": "arm", "propensities": "propensity"}
_ROWS = 65_536


class _Table(NamedTuple):
    """The columns of a long table by name, and the names of those that contain columns
    of `Log`, keys of the context, metrics and features."""

    columns: Mapping[str, Sequence[Any]]
    found: Mapping[str, str]
    context: Mapping[str, str]
    metrics: Sequence[str]
    features: Sequence[str]

    def column(self, name: str) -> Sequence[Any]:
        """Return the table's column for this column of `Log`."""
        return self.columns[self.found[name]]


def read_long(
    source: object,
    *,
    columns: Names | None = None,
    features: Sequence[str] | None = None,
    format: str | None = None,
) -> Log:
    """Read the log in a long table: a file (Parquet, CSV, JSON lines) or a table, with
    a row per offered arm.

    Rows with the same `decision_id` are one decision. `arm` names the arm, and `drawn`
    marks the drawn one, whose `reward` counts. `propensity` contains the propensities
    of all arms, or only of the drawn ones. `columns` maps our names to theirs. The
    columns of `metric` (otherwise all that begin with "metric.") are amounts of the
    drawn arm. The columns of `context` (otherwise all that begin with "context."),
    `time`, `step`, `fingerprint`, `slate`, `slot`, `holdout`, `group` and `unit` have
    the same value in all rows of a decision. All other columns are features of the
    arms, unless `features` names these columns.

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
    for one in names:
        if one not in _COLUMNS:
            raise InvalidInput(
                f"columns must map from {', '.join(_COLUMNS)}; got {one!r}"
                f"{hint(one, _COLUMNS)}"
            )
    name, found = _load(source, names, format)
    table = _match_columns(found, names, features, name)
    try:
        decisions = _decisions(table)
        fields = _fields(table, decisions)
    except BrokenLog as error:
        raise error.shift(0, name) from error
    try:
        return Log(**fields)
    except BrokenLog as error:
        column = _HERE.get(error.column, error.column)
        row = decisions[error.row][0]
        if error.column == "reward":
            row = decisions[error.row][fields["arm"][error.row]]
        raise BrokenLog(column, row, error.rule, name) from error


def _load(
    source: object, names: Names, form: str | None
) -> tuple[str, dict[str, list[Any]]]:
    """Return the name of the source, and its columns as lists."""
    if hasattr(source, "__arrow_c_stream__"):
        name = type(source).__name__
        return name, _lists(arrow.stream(source, _ROWS), name)
    path = path_of(source)
    name = str(path)
    form = form or form_of(path)
    if form not in _FORMATS:
        raise InvalidInput(
            f"format of a long table must be one of {', '.join(_FORMATS)}; got {form!r}"
        )
    if form == "jsonl":
        rows = [row for _, some in jsonl.objects(path, _ROWS) for row in some]
        keys = dict.fromkeys(key for row in rows for key in row)
        return name, {key: [row.get(key) for row in rows] for key in keys}
    if form == "parquet":
        return name, _lists(parquet.batches(path, _ROWS), name)
    texts = ("decision_id", "arm", "fingerprint", "slate", "group", "unit")
    theirs = [str(names.get(one, one)) for one in texts]
    return name, _lists(csv.batches(path, _ROWS, theirs), name)


def _lists(batches: "Iterable[pa.RecordBatch]", source: str) -> dict[str, list[Any]]:
    """Return the columns of record batches as lists."""
    columns: dict[str, list[Any]] = {}
    for batch in batches:
        names = batch.schema.names
        for name, values in zip(names, batch.columns, strict=True):
            if names.count(name) > 1:
                raise BadFile(f"{source} must have one column {name!r}; it has several")
            columns.setdefault(name, []).extend(values.to_pylist())
    return columns


def _match_columns(
    columns: Mapping[str, Sequence[Any]],
    names: Names,
    features: Sequence[str] | None,
    source: str,
) -> _Table:
    """Find the columns of `Log`, the context, the metrics and the features among the
    table's columns."""
    if not any(map(len, columns.values())):
        raise BadFile(f"{source} must have at least one row; got none")
    if "context" in names:
        context = {theirs: theirs for theirs in column_list(names["context"])}
    else:
        beside = [theirs for theirs in columns if theirs.startswith("context.")]
        context = {theirs: theirs.removeprefix("context.") for theirs in beside}
    metrics = [theirs for theirs in columns if theirs.startswith(_METRIC)]
    if "metric" in names:
        metrics = column_list(names["metric"])
    found = {}
    wanted = [*context, *metrics]
    for name in _COLUMNS:
        if name in ("context", "metric"):
            continue
        theirs = str(names.get(name, name))
        if name in _NEEDED or name in names:
            wanted.append(theirs)
        if theirs in columns:
            found[name] = theirs
    for theirs in [*wanted, *(features or ())]:
        if theirs not in columns:
            raise BadFile(
                f"{source} must have the column {theirs!r} (columns={{…}} maps our "
                f"names to others); it has {', '.join(columns) or 'none'}"
                f"{hint(theirs, columns)}"
            )
    if features is None:
        ours = {*found.values(), *context, *metrics}
        features = [theirs for theirs in columns if theirs not in ours]
    return _Table(columns, found, context, metrics, list(features))


def _decisions(table: _Table) -> list[list[int]]:
    """Return the rows of each decision, in the order of the decisions' first rows."""
    groups: dict[str, list[int]] = {}
    for row, id in enumerate(table.column("decision_id")):
        if id is None or id == "":
            raise BrokenLog(
                "decision_id", row, "must be given, to group rows by decision; got none"
            )
        groups.setdefault(str(id), []).append(row)
    return list(groups.values())


def _fields(table: _Table, decisions: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return the columns of the log."""
    arms = table.column("arm")
    for row, arm in enumerate(arms):
        if isinstance(arm, bool) or not isinstance(arm, str | int):
            raise BrokenLog(
                "arm", row, f"must be a name, text or a whole number; got {arm!r:.60}"
            )
    drawn = [_drawn_row(table, rows) for rows in decisions]
    ids = table.column("decision_id")
    rewards = table.column("reward")
    pairs = zip(decisions, drawn, strict=True)
    places = [rows.index(row) for rows, row in pairs]
    drawn_rewards = [rewards[row] for row in drawn]
    decision_ids = [str(ids[rows[0]]) for rows in decisions]
    fields: dict[str, Any] = {
        "arm": places,
        "reward": drawn_rewards,
        "offered": _by_decision(arms, decisions),
        "decision_id": decision_ids,
        "features": _features(table, decisions, drawn),
    }
    fields |= _odds(table, decisions, drawn)
    if "eligible" in table.found:
        fields["eligible"] = _by_decision(table.column("eligible"), decisions)
    if table.context:
        columns = [_once(table, theirs, decisions) for theirs in table.context]
        keys = list(table.context.values())
        fields["context"] = [
            dict(zip(keys, row, strict=True)) for row in zip(*columns, strict=True)
        ]
    if table.metrics:
        amounts = [table.columns[theirs] for theirs in table.metrics]
        fields["metric"] = [[column[row] for column in amounts] for row in drawn]
        fields["metrics"] = [name.removeprefix(_METRIC) for name in table.metrics]
    for name in _ONCE:
        if name in table.found:
            fields[name] = list(_once(table, table.found[name], decisions))
    return fields


def _by_decision(
    column: Sequence[Any], decisions: Sequence[Sequence[int]]
) -> list[list[Any]]:
    """Return the values of each decision, one per offered arm."""
    return [[column[row] for row in rows] for rows in decisions]


def _drawn_row(table: _Table, rows: Sequence[int]) -> int:
    """Return the row of a decision whose arm was drawn, which must be a single one."""
    flags = table.column("drawn")
    for row in rows:
        if flags[row] not in (0, 1):  # 0 and 1 are equal to false and true
            raise BrokenLog(
                "drawn", row, f"must be true or false; got {flags[row]!r:.60}"
            )
    drawn = [row for row in rows if flags[row]]
    if len(drawn) == 1:
        return drawn[0]
    row = drawn[1] if drawn else rows[0]
    id = table.column("decision_id")[row]
    raise BrokenLog(
        "drawn",
        row,
        f"must be true for one arm of decision {id!r:.40}; got {len(drawn) or 'none'}",
    )


def _odds(
    table: _Table, decisions: Sequence[Sequence[int]], drawn: Sequence[int]
) -> dict[str, Any]:
    """Return the propensities of all arms, or only of the drawn ones if the others are
    missing."""
    if "propensity" not in table.found:
        return {}
    odds = table.column("propensity")
    absent = [row for row, one in enumerate(odds) if one is None or one != one]
    if not absent:
        return {"propensities": _by_decision(odds, decisions)}
    if len(absent) + len(drawn) == len(odds) and not set(absent) & set(drawn):
        return {"propensity": [odds[row] for row in drawn]}
    raise BrokenLog(
        "propensity",
        absent[0],
        "must be given for all arms, or only for the drawn ones; got none",
    )


def _features(
    table: _Table, decisions: Sequence[Sequence[int]], drawn: Sequence[int]
) -> list[Any] | None:
    """Return the features of the arms by name, only those of the drawn arms if all
    other rows are empty."""
    if not table.features:
        return None
    columns = [table.columns[name] for name in table.features]
    records: list[dict[str, Any] | None] = []
    for values in zip(*columns, strict=True):
        is_empty = all(map(missing, values))
        record = dict(zip(table.features, values, strict=True))
        records.append(None if is_empty else record)
    drawn_rows = set(drawn)
    of_all = len(drawn_rows) == len(records)
    for row, known in enumerate(records):
        if known is not None and row not in drawn_rows:
            of_all = True
    arms = table.column("arm")
    features = []
    for rows in decisions:
        some = rows if of_all else [row for row in rows if row in drawn_rows]
        features.append({arms[row]: records[row] for row in some})
    return features


def _once(
    table: _Table, theirs: str, decisions: Sequence[Sequence[int]]
) -> Iterator[Any]:
    """Yield the value of each decision, which must be the same in all of its rows."""
    column = table.columns[theirs]
    for rows in decisions:
        first = column[rows[0]]
        for row in rows:
            value = column[row]
            are_missing = value != value and first != first
            if value != first and not are_missing:
                id = table.column("decision_id")[row]
                raise BrokenLog(
                    theirs,
                    row,
                    f"must be the same in all rows of decision {id!r:.40}; got "
                    f"{first!r:.30} and {value!r:.30}",
                )
        yield first
