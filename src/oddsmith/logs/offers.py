"""Check the offers in a log (the names and features of each row's arms), and convert
them to one form.

Propensities and masks of rows with fewer arms than others are padded with 0 and False.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from oddsmith.contexts.offers import make_offer
from oddsmith.core.arrays import Bools, Ints
from oddsmith.core.errors import BrokenLog, InvalidInput
from oddsmith.logs.knowledge import FeatureKind

__all__ = [
    "BY_ARM",
    "Features",
    "check_features",
    "check_offers",
    "everywhere",
    "feature_kind",
    "join_offers",
    "normalize_offers",
    "offer_mask",
    "shared_names",
    "sizes",
    "trim_arms",
]

if TYPE_CHECKING:
    from oddsmith.logs.table import Log


Features: TypeAlias = Mapping[str, Any] | None
"""Features of the arms of a row, by name."""
BY_ARM = ("propensities", "eligible", "control")
"""The columns with one entry per arm."""


def _names_column(rows: Collection[object]) -> list[tuple[str, ...]]:
    """Return the names offered in each row. Equal lists of names share one tuple."""
    known: dict[tuple[object, ...], tuple[str, ...]] = {}
    column = []
    for row, names in enumerate(rows):
        if isinstance(names, str) or not isinstance(names, Sequence | np.ndarray):
            raise BrokenLog(
                "offered", row, f"must be a list of names; got {names!r:.60}"
            )
        key = tuple(names)
        # Check the type too: 1, 1.0 and True are equal as dict keys.
        is_text = all(type(name) is str for name in key)
        if not is_text or key not in known:
            try:
                checked = make_offer(None, list(key)).arms
            except InvalidInput as error:
                raise BrokenLog("offered", row, str(error)) from error
            known[checked] = checked
            key = checked
        column.append(known[key])
    return column


def _features_column(rows: Collection[object]) -> list[Features]:
    """Return the features of each row by name, or None for rows without features."""
    given = list(rows)  # keep all rows in memory, so that no id() is used twice
    known: dict[int, Features] = {}
    column: list[Features] = []
    for row, features in enumerate(given):
        is_empty = isinstance(features, Mapping) and not features
        if features is None or is_empty:
            column.append(None)
            continue
        if not isinstance(features, Mapping):
            raise BrokenLog(
                "features",
                row,
                f"must be a dict of name: features, or None; got {features!r:.60}",
            )
        if id(features) not in known:
            try:
                known[id(features)] = make_offer(None, features).features
            except InvalidInput as error:
                raise BrokenLog("features", row, str(error)) from error
        column.append(known[id(features)])
    return column


def normalize_offers(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns with offers in one form, and propensities and masks padded to
    the largest number of arms."""
    whole = dict(columns)
    if "offered" in whole:
        names = _names_column(whole["offered"])
        whole["offered"] = names
        rows = len(whole["arm"])
        if rows != len(names):
            raise InvalidInput(
                f"column offered: must have {rows} rows like arm; got {len(names)}"
            )
        for name in BY_ARM:
            if name in whole:
                whole[name] = _pad_lists(name, whole[name], names)
    if "features" in whole:
        whole["features"] = _features_column(whole["features"])
    return trim_arms(whole)


def trim_arms(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns with propensities and masks as wide as the largest number of
    arms, or wider if there are entries beyond it.

    If rows have different numbers of arms, a mask marks the positions of arms.
    """
    whole = dict(columns)
    names = columns.get("offered") or ()
    width = max(map(len, names), default=0)
    for name in BY_ARM:
        column = whole.get(name)
        if not width or not isinstance(column, np.ndarray) or column.ndim != 2:
            continue
        if not column[:, width:].any():
            whole[name] = column[:, :width]
    if whole.get("eligible") is None and any(len(row) < width for row in names):
        whole["eligible"] = offer_mask(names, width)
    return whole


def join_offers(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Move offers and features out of the parts into columns of all rows. Pad the
    propensities and masks of the parts to one width."""
    whole: dict[str, Any] = {}
    features = [part.pop("features", None) for part in parts]
    if any(own is not None for own in features):
        whole["features"] = []
        for part, own in zip(parts, features, strict=True):
            whole["features"] += [None] * len(part["arm"]) if own is None else own
    names_of_parts = [part.pop("offered", None) for part in parts]
    if any(names is None for names in names_of_parts):
        return whole
    whole["offered"] = list(chain.from_iterable(names_of_parts))
    width = max(map(len, whole["offered"]), default=0)
    has_mask = any(part["eligible"] is not None for part in parts)
    has_mask = has_mask or not offer_mask(whole["offered"], width).all()
    for part, names in zip(parts, names_of_parts, strict=True):
        if has_mask and part["eligible"] is None:
            part["eligible"] = offer_mask(names, width)
        for name in BY_ARM:
            if part.get(name) is not None:
                part[name] = _with_width(part[name], width)
    return whole


def _with_width(column: npt.NDArray[np.generic], width: int) -> npt.NDArray[np.generic]:
    missing = max(0, width - column.shape[1])
    return np.pad(column, [(0, 0), (0, missing)])[:, :width]


def _pad_lists(name: str, rows: Any, offers: Sequence[tuple[str, ...]]) -> Any:
    """Pad lists with one entry per offered arm to one length. Arrays, and values that
    are not lists, stay unchanged."""
    is_array = isinstance(rows, np.ndarray) and rows.ndim == 2
    if is_array or len(rows) != len(offers):
        return rows
    width = max(map(len, offers), default=0)
    fill = False if name == "eligible" else 0.0
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
        padding = [fill] * (width - len(entries))
        column.append([*entries, *padding])
    return column


def offer_mask(offers: Sequence[tuple[str, ...]], width: int) -> Bools:
    """Return a mask (T, width) of the positions of offered arms."""
    mask: Bools = np.arange(width) < sizes(offers)[:, None]
    return mask


def sizes(offers: Sequence[tuple[str, ...]]) -> Ints:
    """Return the number of arms that each row offered (T,)."""
    return np.fromiter(map(len, offers), dtype=np.int64, count=len(offers))


def everywhere(log: "Log", arms: object) -> tuple[tuple[str, ...], Features]:
    """Return the names and the features of arms that every row of a log offered, in the
    log's order."""
    if log.offered is not None:
        raise InvalidInput(
            "log must have the same arms in all rows; its rows offered different arms"
        )
    offer = make_offer(None, arms)
    names = offer.arms if log.arms is None else tuple(log.arms)
    differences = sorted(set(names) ^ set(offer.arms))
    if differences:
        odd = differences[0]
        known = "lack" if odd in names else "have, beside those of the log,"
        raise InvalidInput(
            f"arms must be the log's {len(names)}; they {known} {odd!r:.40}"
        )
    if log.arms is None and len(names) != log.n_arms:
        raise InvalidInput(
            f"arms must be as many as the log has, {log.n_arms}; got {len(names)}"
        )
    if offer.features is None:
        return names, None
    return names, {name: offer.features[name] for name in names}


def shared_names(offers: Sequence[tuple[str, ...]]) -> tuple[str, ...] | None:
    """Return the names that all rows offered in the same order, or None if rows
    differ."""
    if not len(offers):
        return None
    return offers[0] if all(names == offers[0] for names in offers) else None


def check_offers(log: "Log") -> None:
    """Raise for the first row whose arm, propensities or mask do not fit its offered
    arms."""
    n = sizes(log.offered)
    row = _first(log.arm >= n)
    if row is not None:
        raise BrokenLog(
            "arm", row, f"must be below the {n[row]} arms offered; got {log.arm[row]}"
        )
    for name in BY_ARM:
        column = getattr(log, name)
        if column is not None:
            _check_padding(name, column, n)


def feature_kind(log: "Log") -> FeatureKind:
    """Return whether a log knows the features of all eligible arms, of the drawn ones
    only, or of none."""
    if log.features is None or all(row is None for row in log.features):
        return "none"
    needed = np.full(len(log), log.n_arms)
    if log.offered is not None:
        needed = sizes(log.offered)
    elif log.eligible is not None:
        needed = log.eligible.sum(axis=1)
    for row, n in zip(log.features, needed.tolist(), strict=True):
        if row is not None and len(row) < n:
            return "drawn"
    return "all"


def _check_padding(name: str, column: npt.NDArray[np.generic], n: Ints) -> None:
    width = column.shape[1]
    row = _first(n > width)
    if row is not None:
        rule = f"must have {n[row]} entries, one for each arm offered; got {width}"
        raise BrokenLog(name, row, rule)
    is_beyond = np.arange(width) >= n[:, None]
    row = _first(((column != 0) & is_beyond).any(axis=1))
    if row is not None:
        fill = "false" if name == "eligible" else "0"
        raise BrokenLog(name, row, f"must be {fill} beyond the {n[row]} arms offered")


def check_features(log: "Log") -> None:
    """Raise for features of arms that were not offered, for missing features of the
    drawn arm, and for mixed kinds of features."""
    first: tuple[int, int | None] | None = None
    seen: set[tuple[int, int]] = set()
    rows = zip(log.arm.tolist(), log.features, strict=True)
    for row, (arm, own) in enumerate(rows):
        if own is None:
            continue
        names = log.arms if log.offered is None else log.offered[row]
        if names is not None:
            if names[arm] not in own:
                rule = f"must have those of the drawn arm {names[arm]!r:.40}"
                raise BrokenLog("features", row, rule)
            pair = (id(names), id(own))
            if pair not in seen:
                _check_offered(names, own, row)
            seen.add(pair)
        width = _width(next(one for one in own.values() if one is not None))
        if first is None:
            first = (row, width)
        first_row, first_width = first
        if width != first_width:
            raise BrokenLog(
                "features",
                row,
                f"must be {_words(first_width)} like row {first_row}; got "
                f"{_words(width)}",
            )


def _check_offered(names: Sequence[str], own: Mapping[str, Any], row: int) -> None:
    for name in own:
        if name not in names:
            raise BrokenLog(
                "features",
                row,
                f"must be of arms that were offered; got those of {name!r:.40}",
            )


def _width(features: Any) -> int | None:
    """Return the number of features, or None if they are a dict."""
    return None if isinstance(features, Mapping) else np.atleast_1d(features).size


def _words(width: int | None) -> str:
    return "dicts" if width is None else f"{width} numbers"


def _first(wrong: Bools) -> int | None:
    """Return the first row that is wrong, or None."""
    return int(np.argmax(wrong)) if wrong.any() else None
