"""Pieces of a log file: rows that a reader returned and that were not checked yet, and
their conversion to a log."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from oddsmith.contexts.rewards import RewardScale
from oddsmith.core.arrays import Array
from oddsmith.core.errors import BadFile, BrokenLog, InvalidInput
from oddsmith.core.exact_json import decode
from oddsmith.core.names import hint
from oddsmith.logs.rules import typed
from oddsmith.logs.table import COLUMNS, Log

__all__ = [
    "Layout",
    "Names",
    "Piece",
    "column_list",
    "found_columns",
    "log_of",
    "metric_names",
    "names_in",
    "scale_rewards",
    "suffixes",
]


def scale_rewards(rewards: Collection[object], scale: RewardScale) -> Array:
    """Return (reward - low) / (high - low), NaN if no reward has arrived. Raise an
    error for the first reward outside the scale.

    >>> scale_rewards([5.0, None, 20], RewardScale(0, 20))
    array([0.25,  nan, 1.  ])
    """
    column = np.asarray(typed("reward", rewards), dtype=np.float64)
    is_outside = (column < scale.low) | (column > scale.high)
    if is_outside.any():
        row = int(np.argmax(is_outside))
        n_outside = int(is_outside.sum())
        least = np.nanmin(column)
        most = np.nanmax(column)
        raise BrokenLog(
            "reward",
            row,
            f"must be in [{scale.low:g}, {scale.high:g}], the units of rewards; got "
            f"{column[row]:g} ({n_outside:,} of {len(column):,} rows read are "
            f"outside; their rewards are from {least:g} to {most:g}): widen them (low "
            "and high of [reward] in the policy file, or --reward LOW HIGH), or cut "
            "such rewards",
        )
    return np.asarray((column - scale.low) / (scale.high - scale.low))


Names = Mapping[str, str | Sequence[str]]
"""For a column of `Log`, the name of the file's column or columns that contain it."""
_WIDE = (
    "propensities",
    "eligible",
    "advice",
    "bonus",
    "log_weights",
    "control",
    "metric",
    "context",
)
_NEEDED = ("arm", "reward")


class Layout(NamedTuple):
    """How to read a table: the file's names for columns of `Log`, the columns to read
    (None: all), and the number of rows to read at a time."""

    columns: Names
    only: Collection[str] | None
    rows: int


class Piece(NamedTuple):
    """Columns of some rows under the names of `Log`, not checked yet, with the number
    of the first row and the names of arms and experts, if known. `own` marks rows that
    `write_log` wrote, whose rewards are in [0, 1].
    """

    columns: dict[str, Any]
    first: int
    arms: Sequence[str] | None = None
    experts: Sequence[str] | None = None
    own: bool = False
    metrics: Sequence[str] | None = None


def log_of(
    piece: Piece,
    arms: Sequence[str] | None,
    experts: Sequence[str] | None,
    source: str,
    scale: RewardScale | None = None,
) -> Log:
    """Return the checked log, with rewards converted from the units of `scale`. An
    error names the row of the whole source."""
    arms = _one_order("arms", arms, piece.arms, source)
    experts = _one_order("experts", experts, piece.experts, source)
    columns = dict(piece.columns)
    offers = columns.get("offered")
    try:
        arm = columns["arm"]
        if not isinstance(arm, np.ndarray) or arm.dtype.kind not in "iuf":
            columns["arm"] = _arm_numbers(arm, offers, arms)
        if scale is not None:
            columns["reward"] = scale_rewards(columns["reward"], scale)
        if columns.get("features") is not None:
            columns["features"] = by_name(columns["features"], offers, arms)
        return Log(
            **columns,
            # With offers, each row has its own arm names.
            arms=arms if offers is None else None,
            experts=experts if "advice" in columns else None,
            metrics=piece.metrics if "metric" in columns else None,
        )
    except BrokenLog as error:
        raise error.shift(piece.first, source) from error
    except InvalidInput as error:
        raise InvalidInput(f"{source}: {error}") from error


def _one_order(
    what: str, given: Sequence[str] | None, own: Sequence[str] | None, source: str
) -> Sequence[str] | None:
    """Return the given names, or those of the source if none are given. Raise an error
    if the two differ."""
    if given is None or own is None:
        return own if given is None else given
    if tuple(given) != tuple(own):
        raise BadFile(
            f"{source} must have the {what} {_some(given)} in this order; it has "
            f"{_some(own)}"
        )
    return given


def column_list(theirs: str | Sequence[str]) -> list[str]:
    """Return the names of the file's columns that contain one column of `Log`."""
    return [theirs] if isinstance(theirs, str) else list(theirs)


def names_in(piece: Piece) -> set[str]:
    """Return the names of the arms in a piece, unless arms are numbers."""
    return {arm for arm in piece.columns["arm"] if isinstance(arm, str)}


def found_columns(
    present: Sequence[str], layout: Layout, source: str
) -> dict[str, str | list[str]]:
    """Find the file's columns for each column of `Log`: the columns given in `columns`,
    otherwise the column with the same name, otherwise the columns named
    `name.suffix`."""
    for name in layout.columns:
        if name not in COLUMNS:
            raise InvalidInput(
                f"columns must map from {', '.join(COLUMNS)}; got {name!r}"
                f"{hint(name, COLUMNS)}"
            )
    found: dict[str, str | list[str]] = {}
    for name in COLUMNS:
        theirs = layout.columns.get(name, name)
        if not theirs and name not in _NEEDED:
            continue  # the caller has excluded this column
        wanted = column_list(theirs)
        absent = [column for column in wanted if column not in present]
        if not absent:
            found[name] = theirs if isinstance(theirs, str) else wanted
            continue
        if name in layout.columns:
            raise BadFile(
                f"{source} must have the column {absent[0]!r} for {name}; it has "
                f"{_some(present)}{hint(absent[0], present)}"
            )
        beside = [column for column in present if column.startswith(f"{name}.")]
        if beside and name in _WIDE:
            found[name] = beside
        elif name in _NEEDED:
            raise BadFile(
                f"{source} must have the column {name!r} (columns={{'{name}': …}} maps "
                f"it to another name); it has {_some(present)}{hint(name, present)}"
            )
    for theirs in found.values():
        for column in column_list(theirs):
            count = list(present).count(column)
            if count > 1:
                raise BadFile(
                    f"{source} must have one column {column!r}; it has {count}"
                )
    if "metric" in layout.columns and found.get("metric", "metric") != "metric":
        # a single column with another name contains a single metric
        found["metric"] = column_list(found["metric"])
    slate_columns = found.keys() & {"slate", "slot"}
    if len(slate_columns) == 1 and not slate_columns & layout.columns.keys():
        # Ignore `slate` without `slot` and vice versa: logs have both or none, so such
        # a column means something else.
        del found[slate_columns.pop()]
    if layout.only is None:
        return found
    names = (*_NEEDED, "offered", *layout.only)
    return {name: theirs for name, theirs in found.items() if name in names}


def suffixes(
    found: Mapping[str, str | list[str]], *columns: str
) -> tuple[str, ...] | None:
    """Return the suffixes of columns such as `propensities.sports`; None if they are
    numbers."""
    for name in columns:
        theirs = found.get(name)
        if not isinstance(theirs, list):
            continue
        if all(column.startswith(f"{name}.") for column in theirs):
            ends = tuple(column.split(".", 1)[1] for column in theirs)
            return None if all(end.isdigit() for end in ends) else ends
    return None


def metric_names(found: Mapping[str, str | list[str]]) -> tuple[str, ...] | None:
    """Return the names of metrics, from those of their columns; None if there are no
    columns per metric.

    >>> metric_names({"metric": ["metric.revenue", "orders"]})
    ('revenue', 'orders')
    """
    theirs = found.get("metric")
    if not isinstance(theirs, list):
        return None
    return tuple(column.removeprefix("metric.") for column in theirs)


def by_name(
    rows: Sequence[Any], offers: Sequence[Any] | None, arms: Sequence[str] | None
) -> list[Mapping[str, Any] | None]:
    """Return the features of each row by name, from dicts, JSON text, or lists in the
    order of the names."""
    known: dict[str, Any] = {}
    column: list[Any] = []
    for row, features in enumerate(rows):
        if isinstance(features, str):
            if features not in known:
                known[features] = _from_text(features, row)
            features = known[features]
        if isinstance(features, list | np.ndarray):
            names = arms if offers is None else offers[row]
            features = _beside(features, names, row)
        column.append(features)
    return column


def _from_text(text: str, row: int) -> Any:
    try:
        return decode(json.loads(text))
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        IndexError,
        RecursionError,
    ) as error:
        raise BrokenLog(
            "features",
            row,
            f"must be JSON, by name or in the order of offered; {error!s:.100}",
        ) from error


def _beside(
    features: Collection[Any], names: Sequence[str] | None, row: int
) -> dict[str, Any]:
    """Return a list of features, which are in the order of the names, as a dict by
    name."""
    if names is None:
        raise BrokenLog(
            "features",
            row,
            "must be a dict by name if neither offered nor arms=[…] names the arms; "
            "got a list",
        )
    _check_offer(names, row)
    if len(features) != len(names):
        raise BrokenLog(
            "features",
            row,
            f"must be of {len(names)} arms, in their order; got {len(features)} "
            "entries",
        )
    by_arm = {}
    for name, value in zip(names, features, strict=True):
        by_arm[str(name)] = _from_text(value, row) if isinstance(value, str) else value
    return by_arm


def _check_offer(names: object, row: int) -> None:
    if not isinstance(names, list | tuple | np.ndarray):
        raise BrokenLog("offered", row, f"must be a list of names; got {names!r:.60}")


def _arm_numbers(
    arms: Collection[object], offers: Sequence[Any] | None, names: Sequence[str] | None
) -> Collection[object]:
    """Return arms as numbers. A name is replaced by its position among the arms offered
    in the row, or among all names."""
    places = {name: place for place, name in enumerate(names or ())}
    numbers: list[object] = []
    for row, arm in enumerate(arms):
        if not isinstance(arm, str):
            numbers.append(arm)
            continue
        if offers is not None:
            _check_offer(offers[row], row)
            places = {str(name): place for place, name in enumerate(offers[row])}
        if arm in places:
            numbers.append(places[arm])
            continue
        rule = f"must be a number where arms=[…] does not name them; got {arm!r:.60}"
        if places:
            rule = (
                f"must be one of {_some(list(places))}; got {arm!r:.60}"
                f"{hint(arm, places)}"
            )
        raise BrokenLog("arm", row, rule)
    return numbers


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more
