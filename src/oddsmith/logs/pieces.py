"""Pieces: rows as a reader found them, and the log that they are."""

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
    "found_columns",
    "listed",
    "log_of",
    "names_in",
    "scaled",
    "suffixes",
]


def scaled(rewards: Collection[object], scale: RewardScale) -> Array:
    """(reward - low) / (high - low), NaN where none has come; the first reward outside
    of the scale is refused.

    >>> scaled([5.0, None, 20], RewardScale(0, 20))
    array([0.25,  nan, 1.  ])
    """
    column = np.asarray(typed("reward", rewards), dtype=np.float64)
    outside = (column < scale.low) | (column > scale.high)
    if outside.any():
        row = int(np.argmax(outside))
        least, most = np.nanmin(column), np.nanmax(column)
        rule = (
            f"must be in [{scale.low:g}, {scale.high:g}], the units of rewards; got "
            f"{column[row]:g}"
        )
        many = f"{int(outside.sum()):,} of {len(column):,} rows looked at"
        rule += f" ({many} are outside; all go from {least:g} to {most:g})"
        widen = (
            "widen them (low and high of [reward] in the policy file, or --reward LOW "
            "HIGH), or cut such rewards"
        )
        raise BrokenLog("reward", row, f"{rule}: {widen}")
    return np.asarray((column - scale.low) / (scale.high - scale.low))


Names = Mapping[str, str | Sequence[str]]
"""Our column names to theirs: one column, or several side by side."""
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
    """How a table is read: their names of our columns, which of ours are wanted (None:
    all), rows at a time."""

    columns: Names
    only: Collection[str] | None
    rows: int


class Piece(NamedTuple):
    """Columns of some rows by our names, unchecked; the number of the first row; the
    arms' and the experts' names, where they are known. `own` says that we wrote them:
    their rewards are in [0, 1], whatever the units were.
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
    """The checked log; a violation names the row of the whole source. Rewards are
    mapped from the units of `scale`."""
    for what, wanted, found in (
        ("arms", arms, piece.arms),
        ("experts", experts, piece.experts),
    ):
        if wanted is not None and found is not None and tuple(wanted) != tuple(found):
            raise BadFile(
                f"{source} must have the {what} {_some(wanted)} in this order; it has "
                f"{_some(found)}"
            )
    known, advisers = (
        piece.arms if arms is None else arms,
        piece.experts if experts is None else experts,
    )
    try:
        columns = piece.columns | {
            "arm": _numbered(piece.columns["arm"], piece.columns.get("offered"), known)
        }
        if scale is not None:
            columns["reward"] = scaled(columns["reward"], scale)
        if columns.get("features") is not None:
            columns["features"] = by_name(
                columns["features"], columns.get("offered"), known
            )
        # each row has names of its own
        names = known if columns.get("offered") is None else None
        return Log(
            **columns,
            arms=names,
            experts=advisers if "advice" in columns else None,
            metrics=piece.metrics if "metric" in columns else None,
        )
    except BrokenLog as error:
        raise error.shift(piece.first, source) from error
    except InvalidInput as error:
        raise InvalidInput(f"{source}: {error}") from error


def listed(theirs: str | Sequence[str]) -> list[str]:
    """The names of the columns that hold one of ours."""
    return [theirs] if isinstance(theirs, str) else list(theirs)


def names_in(piece: Piece) -> set[str]:
    """The arms' names in a piece whose arms are not numbers."""
    return {arm for arm in piece.columns["arm"] if isinstance(arm, str)}


def found_columns(
    present: Sequence[str], layout: Layout, source: str
) -> dict[str, str | list[str]]:
    """Where each of our columns is among theirs: as `columns` says, by its name, or by
    `name.suffix` side by side."""
    if unknown := [name for name in layout.columns if name not in COLUMNS]:
        raise InvalidInput(
            f"columns must map from {', '.join(COLUMNS)}; got {unknown[0]!r}"
            f"{hint(unknown[0], COLUMNS)}"
        )
    found: dict[str, str | list[str]] = {}
    left_out = [
        name
        for name, theirs in layout.columns.items()
        if not theirs and name not in _NEEDED
    ]
    for name in COLUMNS:
        if name in left_out:
            continue
        theirs = layout.columns.get(name, name)
        wanted = listed(theirs)
        if name in layout.columns and (
            absent := [one for one in wanted if one not in present]
        ):
            raise BadFile(
                f"{source} must have the column {absent[0]!r} for {name}; it has "
                f"{_some(present)}{hint(absent[0], present)}"
            )
        beside = (
            [one for one in present if one.startswith(f"{name}.")]
            if name in _WIDE
            else []
        )
        if all(one in present for one in wanted):
            found[name] = theirs if isinstance(theirs, str) else wanted
        elif beside:
            found[name] = beside
        elif name in _NEEDED:
            where = f"columns={{'{name}': …}} says where it is"
            raise BadFile(
                f"{source} must have the column {name!r} ({where}); it has "
                f"{_some(present)}{hint(name, present)}"
            )
    used = [one for theirs in found.values() for one in listed(theirs)]
    if twice := [one for one in used if list(present).count(one) > 1]:
        raise BadFile(
            f"{source} must have one column {twice[0]!r}; it has "
            f"{list(present).count(twice[0])}"
        )
    if (
        len(places := found.keys() & {"slate", "slot"}) == 1
        and not places & layout.columns.keys()
    ):
        # a word of their own: ours is never there without the other
        del found[places.pop()]
    kept = COLUMNS if layout.only is None else (*_NEEDED, "offered", *layout.only)
    return {name: theirs for name, theirs in found.items() if name in kept}


def suffixes(
    found: Mapping[str, str | list[str]], *columns: str
) -> tuple[str, ...] | None:
    """The names that stand in the names of columns, like `propensities.sports`; None
    where they are numbers."""
    for name in columns:
        theirs = found.get(name)
        if isinstance(theirs, list) and all(
            one.startswith(f"{name}.") for one in theirs
        ):
            ends = tuple(one.split(".", 1)[1] for one in theirs)
            return None if all(end.isdigit() for end in ends) else ends
    return None


def by_name(
    rows: Sequence[Any], offers: Sequence[Any] | None, arms: Sequence[str] | None
) -> list[Mapping[str, Any] | None]:
    """Features of each row by name, from dicts, JSON text, or lists in the order of the
    names."""
    known: dict[str, Any] = {}
    column: list[Any] = []
    for row, given in enumerate(rows):
        features = given
        if isinstance(given, str):
            if given not in known:
                known[given] = _from_text(given, row)
            features = known[given]
        if isinstance(features, list | np.ndarray):
            features = _beside(features, arms if offers is None else offers[row], row)
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
    """Features in the order of the names, by name."""
    if names is None:
        raise BrokenLog(
            "features",
            row,
            "must be by name where neither offered nor arms=[…] names the arms; got a "
            "list",
        )
    if not isinstance(names, list | tuple | np.ndarray):
        raise BrokenLog("offered", row, f"must be a list of names; got {names!r:.60}")
    if len(features) != len(names):
        raise BrokenLog(
            "features",
            row,
            f"must be of {len(names)} arms, in their order; got {len(features)} "
            "entries",
        )
    read = [_from_text(one, row) if isinstance(one, str) else one for one in features]
    return {str(name): one for name, one in zip(names, read, strict=True)}


def _numbered(
    arm: Collection[object], offers: Sequence[Any] | None, names: Sequence[str] | None
) -> Collection[object]:
    """Arms as numbers, where they are names: their places among those that were
    offered, or among all."""
    if isinstance(arm, np.ndarray) and arm.dtype.kind in "iuf":
        return arm
    places = {} if names is None else {name: i for i, name in enumerate(names)}
    numbers: list[object] = []
    for row, one in enumerate(arm):
        if not isinstance(one, str):
            numbers.append(one)
            continue
        if offers is not None:
            if not isinstance(offers[row], list | tuple | np.ndarray):
                raise BrokenLog(
                    "offered", row, f"must be a list of names; got {offers[row]!r:.60}"
                )
            places = {str(name): i for i, name in enumerate(offers[row])}
        if one in places:
            numbers.append(places[one])
        elif places:
            raise BrokenLog(
                "arm",
                row,
                f"must be one of {_some(list(places))}; got {one!r:.60}"
                f"{hint(one, places)}",
            )
        else:
            raise BrokenLog(
                "arm",
                row,
                f"must be a number where arms=[…] does not name them; got {one!r:.60}",
            )
    return numbers


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (
        f" and {len(names) - 8} more" if len(names) > 8 else ""
    )
