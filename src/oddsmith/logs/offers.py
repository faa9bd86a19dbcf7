"""Offers in a log: the names of the arms of each row, and what was known of them,
brought to one form and checked.

Odds and masks of rows with fewer arms than others are padded, with 0 and False.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from oddsmith.contexts.offers import offered
from oddsmith.core.arrays import Bools, Ints
from oddsmith.core.errors import BrokenLog, InvalidInput
from oddsmith.logs.knowledge import FeatureKind

__all__ = [
    "BY_ARM",
    "Features",
    "brought",
    "check_features",
    "check_offers",
    "everywhere",
    "feature_kind",
    "offer_mask",
    "shared",
    "sizes",
    "taken_out",
    "trimmed",
]

if TYPE_CHECKING:
    from oddsmith.logs.table import Log


Features: TypeAlias = Mapping[str, Any] | None
"""What is known of the arms of a row, by name."""
BY_ARM = ("propensities", "eligible", "control")
"""The columns with an entry for each arm."""


def _names_column(rows: Collection[object]) -> list[tuple[str, ...]]:
    """The names offered in each row; equal ones are the same tuple."""
    known: dict[tuple[object, ...], tuple[str, ...]] = {}
    column = []
    for row, names in enumerate(rows):
        if isinstance(names, str) or not isinstance(names, Sequence | np.ndarray):
            raise BrokenLog(
                "offered", row, f"must be a list of names; got {names!r:.60}"
            )
        key = tuple(names)
        # 1, 1.0 and True are equal keys
        found = known.get(key) if all(type(name) is str for name in key) else None
        if found is None:
            try:
                found = offered(None, list(key)).arms
            except InvalidInput as error:
                raise BrokenLog("offered", row, str(error)) from error
            known[found] = found
        column.append(found)
    return column


def _features_column(rows: Collection[object]) -> list[Features]:
    """The features of each row by name, None where nothing is known."""
    kept = list(rows)  # so that no two of them have one id
    known: dict[int, Features] = {}
    column: list[Features] = []
    for row, given in enumerate(kept):
        features = given or None if isinstance(given, Mapping) else given
        if features is not None and id(features) not in known:
            if not isinstance(features, Mapping):
                raise BrokenLog(
                    "features",
                    row,
                    f"must be a dict of name: features, or None; got {features!r:.60}",
                )
            try:
                known[id(features)] = offered(None, features).features
            except InvalidInput as error:
                raise BrokenLog("features", row, str(error)) from error
        column.append(None if features is None else known[id(features)])
    return column


def brought(columns: Mapping[str, Any]) -> dict[str, Any]:
    """The columns with offers in one form, and odds and masks padded to the most arms
    of a row."""
    whole = dict(columns)
    if "offered" in whole:
        names = whole["offered"] = _names_column(whole["offered"])
        if (rows := len(whole["arm"])) != len(names):
            raise InvalidInput(
                f"column offered: must have {rows} rows like arm; got {len(names)}"
            )
        whole |= {
            name: _padded(name, whole[name], names) for name in BY_ARM if name in whole
        }
    if "features" in whole:
        whole["features"] = _features_column(whole["features"])
    return trimmed(whole)


def trimmed(columns: Mapping[str, Any]) -> dict[str, Any]:
    """The columns with odds and masks as wide as the most arms of a row, and wider
    where there is something beyond.

    Where rows differ in number, there is a mask, which says which places are taken.
    """
    whole, names = dict(columns), columns.get("offered") or ()
    width = max(map(len, names), default=0)
    for name in BY_ARM:
        column = whole.get(name)
        if (
            width
            and isinstance(column, np.ndarray)
            and column.ndim == 2
            and not column[:, width:].any()
        ):
            whole[name] = column[:, :width]
    if whole.get("eligible") is None and any(len(row) < width for row in names):
        whole["eligible"] = offer_mask(names, width)
    return whole


def taken_out(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Offers and features of logs, one after the other, taken out of the parts; their
    odds and masks padded to fit."""
    whole: dict[str, Any] = {}
    features = [part.pop("features", None) for part in parts]
    if any(own is not None for own in features):
        lengths = [len(part["arm"]) for part in parts]
        whole["features"] = [
            one
            for own, n in zip(features, lengths, strict=True)
            for one in ([None] * n if own is None else own)
        ]
    named = [part.pop("offered", None) for part in parts]
    if any(names is None for names in named):
        return whole
    whole["offered"] = [row for names in named for row in names]
    width = max(map(len, whole["offered"]), default=0)
    masked = (
        any(part["eligible"] is not None for part in parts)
        or not offer_mask(whole["offered"], width).all()
    )
    for part, names in zip(parts, named, strict=True):
        if masked and part["eligible"] is None:
            part["eligible"] = offer_mask(names, width)
        part |= {
            name: _widened(part[name], width)
            for name in BY_ARM
            if part.get(name) is not None
        }
    return whole


def _widened(column: npt.NDArray[np.generic], width: int) -> npt.NDArray[np.generic]:
    return np.pad(column, [(0, 0), (0, max(0, width - column.shape[1]))])[:, :width]


def _padded(name: str, rows: Any, offers: Sequence[tuple[str, ...]]) -> Any:
    """Lists with an entry for each arm offered, padded to the most; an array, and what
    is no list, as it is."""
    if (isinstance(rows, np.ndarray) and rows.ndim == 2) or len(rows) != len(offers):
        return rows
    width, nothing = (
        max(map(len, offers), default=0),
        False if name == "eligible" else 0.0,
    )
    column: list[object] = []
    for row, (entries, names) in enumerate(zip(rows, offers, strict=True)):
        if not isinstance(entries, list | tuple | np.ndarray):
            raise BrokenLog(
                name,
                row,
                "must be a list with an entry for each arm offered; got "
                f"{entries!r:.60}",
            )
        if len(entries) not in (len(names), width):
            raise BrokenLog(
                name,
                row,
                f"must have {len(names)} entries, one for each arm offered; got "
                f"{len(entries)}",
            )
        column.append([*entries, *[nothing] * (width - len(entries))])
    return column


def offer_mask(offers: Sequence[tuple[str, ...]], width: int) -> Bools:
    """Which of `width` places (T, width) are those of arms that were offered."""
    mask: Bools = np.arange(width) < sizes(offers)[:, None]
    return mask


def sizes(offers: Sequence[tuple[str, ...]]) -> Ints:
    """How many arms each row offered (T,)."""
    return np.fromiter(map(len, offers), dtype=np.int64, count=len(offers))


def everywhere(log: "Log", arms: object) -> tuple[tuple[str, ...], Features]:
    """The names and the features of the arms of a log that names none or these, in its
    order."""
    if log.offered is not None:
        raise InvalidInput(
            "log must be about arms that do not change; it has the names that each row "
            "offered"
        )
    offer = offered(None, arms)
    names = offer.arms if log.arms is None else tuple(log.arms)
    if odd := sorted(set(names) ^ set(offer.arms)):
        known = "lack" if odd[0] in names else "have, beside those of the log,"
        raise InvalidInput(
            f"arms must be the log's {len(names)}; they {known} {odd[0]!r:.40}"
        )
    if log.arms is None and len(names) != log.n_arms:
        raise InvalidInput(
            f"arms must be as many as the log has, {log.n_arms}; got {len(names)}"
        )
    features = offer.features
    return names, None if features is None else {name: features[name] for name in names}


def shared(offers: Sequence[tuple[str, ...]]) -> tuple[str, ...] | None:
    """The names that all rows offered, in one order; None where rows differ."""
    return (
        offers[0]
        if len(offers) and all(names == offers[0] for names in offers)
        else None
    )


def check_offers(log: "Log") -> None:
    """Refuses the first row whose arm, odds or mask do not fit the arms that it
    offered."""
    if log.offered is not None:
        n = sizes(log.offered)
        _refuse(
            "arm",
            log.arm >= n,
            lambda row: f"must be below the {n[row]} arms offered; got {log.arm[row]}",
        )
        for name in BY_ARM:
            if (column := getattr(log, name)) is not None:
                _check_padding(name, column, n)


def feature_kind(log: "Log") -> FeatureKind:
    """Whether a log knows the features of all arms that could be drawn, of the drawn
    one only, or none."""
    if log.features is None or all(row is None for row in log.features):
        return "none"
    needed = np.full(len(log), log.n_arms)
    if log.offered is not None:
        needed = sizes(log.offered)
    elif log.eligible is not None:
        needed = log.eligible.sum(axis=1)
    pairs = zip(log.features, needed.tolist(), strict=True)
    return "all" if all(row is None or len(row) >= n for row, n in pairs) else "drawn"


def _check_padding(name: str, column: npt.NDArray[np.generic], n: Ints) -> None:
    width, nothing = column.shape[1], "false" if name == "eligible" else "0"
    _refuse(
        name,
        n > width,
        lambda row: (
            f"must have {n[row]} entries, one for each arm offered; got {width}"
        ),
    )
    beyond = (column != 0) & (np.arange(width) >= n[:, None])
    _refuse(
        name,
        beyond.any(axis=1),
        lambda row: f"must be {nothing} beyond the {n[row]} arms offered",
    )


def check_features(log: "Log") -> None:
    """Refuses features of arms that were not offered, without the drawn one, or of two
    kinds."""
    first: tuple[int, int | None] | None = None
    seen: set[tuple[int, int]] = set()
    for row, (arm, own) in enumerate(
        zip(log.arm.tolist(), log.features or (), strict=False)
    ):
        if own is None:
            continue
        names = log.arms if log.offered is None else log.offered[row]
        if names is not None:
            if names[arm] not in own:
                raise BrokenLog(
                    "features",
                    row,
                    f"must have those of the drawn arm {names[arm]!r:.40}",
                )
            if (id(names), id(own)) not in seen and (
                unknown := [name for name in own if name not in names]
            ):
                raise BrokenLog(
                    "features",
                    row,
                    "must be of arms that were offered; got those of "
                    f"{unknown[0]!r:.40}",
                )
            seen.add((id(names), id(own)))
        width = _width(next(one for one in own.values() if one is not None))
        first = first or (row, width)
        if width != first[1]:
            raise BrokenLog(
                "features",
                row,
                f"must be {_words(first[1])} like row {first[0]}; got {_words(width)}",
            )


def _width(features: Any) -> int | None:
    """How many numbers there are; None for a dict."""
    return None if isinstance(features, Mapping) else np.atleast_1d(features).size


def _words(width: int | None) -> str:
    return "dicts" if width is None else f"{width} numbers"


def _refuse(column: str, wrong: Bools, sentence: Any) -> None:
    """Refuses the first row that is wrong."""
    if wrong.any():
        row = int(np.argmax(wrong))
        raise BrokenLog(column, row, sentence(row))
