"""The rules that every row of a log must satisfy. The error names the column, the row
and the rule."""

from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from oddsmith.core.arrays import Array, Bools, Ints
from oddsmith.core.decision import LEAST_PROPENSITY
from oddsmith.core.errors import BrokenLog, InvalidInput
from oddsmith.logs.offers import check_features, check_offers
from oddsmith.logs.slates import check_slates, slate_column, slot_column

__all__ = ["TYPES", "check_rows", "drawn_entries", "times", "typed"]

if TYPE_CHECKING:
    from oddsmith.logs.table import Log


T = TypeVar("T", bound=np.generic)

TYPES: dict[str, tuple[type[np.generic], int]] = {
    "arm": (np.int64, 1),
    "reward": (np.float64, 1),
    "propensity": (np.float64, 1),
    "propensities": (np.float64, 2),
    "eligible": (np.bool_, 2),
    "advice": (np.float64, 2),
    "bonus": (np.float64, 2),
    "log_weights": (np.float64, 2),
    "control": (np.float64, 2),
    "holdout": (np.float64, 1),
    "metric": (np.float64, 2),
    "step": (np.int64, 1),
    "slot": (np.int64, 1),
}
_WORDS: dict[type[np.generic], str] = {
    np.int64: "a whole number",
    np.float64: "a number",
    np.bool_: "true or false",
}


def typed(name: str, value: Collection[object]) -> Collection[object]:
    """Return the column as an array of its type, or raise an error that names the first
    wrong row."""
    if name in ("decision_id", "fingerprint"):
        return _texts(name, value)
    if name == "slate":
        return slate_column(value)
    if name in ("group", "unit"):
        return _texts_or_none(name, value)
    if name == "time":
        return times(value)
    if name not in TYPES:
        return value
    kind, ndim = TYPES[name]
    if name == "slot":
        value = slot_column(value)
    try:
        array = np.asarray(value)
    except ValueError:  # the lists have different lengths
        array = np.asarray(None)
    if array.dtype.kind not in "fiub":
        array = _numbers(name, value)
    if array.ndim != ndim:
        raise InvalidInput(
            f"column {name}: must have {ndim} axes; got shape {array.shape}"
        )
    with np.errstate(invalid="ignore"):
        # the check below rejects NaN in integer columns
        column = array.astype(kind, copy=False)
    if kind is not np.float64 and array.dtype != kind and array.size:
        is_same = (column == array).reshape(len(array), -1).all(axis=1)
        _require(name, is_same, array, f"must be {_WORDS[kind]}")
    return column


def check_rows(log: "Log") -> None:
    """Raise an error for the first row that breaks a rule. The columns already have
    their types and the length of `arm`."""
    for name, (holds, rule) in _RULES.items():
        column = getattr(log, name)
        if column is not None:
            _require(name, holds(column), column, rule)
    if log.offered is not None:
        check_offers(log)
    widths = _widths(log, "arms", "propensities", "eligible", "control")
    for name, width in widths.items():
        rule = f"must be below the {width} arms of {name}"
        _require("arm", log.arm < width, log.arm, rule)
    _check_widths(widths)
    _check_widths(_widths(log, "experts", "advice", "bonus", "log_weights"))
    if log.metric is not None:
        _check_metrics(log)
    if log.features is not None:
        check_features(log)
    if log.slate is not None or log.slot is not None:
        check_slates(log)
    if log.eligible is not None:
        is_eligible = drawn_entries(log.eligible, log.arm)
        rule = "must allow the arm that was drawn"
        _require("eligible", is_eligible, log.arm, rule)
    if log.propensities is not None:
        _check_odds(log, log.propensities)
    if log.control is not None or log.group is not None:
        _check_control(log)
    if log.decision_id is not None:
        _check_unique(log.decision_id)


def drawn_entries(columns: npt.NDArray[T], arm: Ints) -> npt.NDArray[T]:
    """Return the entry (T,) of the drawn arm in each row of (T, K)."""
    entries: npt.NDArray[T] = np.take_along_axis(columns, arm[:, None], axis=1)
    return entries[:, 0]


_GROUPS = ("policy", "control", None)
_ROUNDING = 1e-9  # tolerance for sums of propensities
_REWARD = "must be in [0, 1], or NaN"
_PROPENSITY = f"must be in [{LEAST_PROPENSITY:g}, 1]"
_NEXT = {
    _REWARD: (
        ": say what the lowest and the highest are, commands by --reward LOW HIGH, "
        "Python by RewardScale"
    ),
    _PROPENSITY: (
        ": write odds as shares, 50 % as 0.5; leave out rows whose odds are not known, "
        "or the whole column"
    ),
}
_RULES: dict[str, tuple[Callable[[Array], Bools | np.bool_], str]] = {
    "arm": (lambda a: a >= 0, "must be 0 or more"),
    "reward": (lambda r: ~((r < 0) | (r > 1)), _REWARD),
    "propensity": (
        lambda p: (p >= LEAST_PROPENSITY) & (p <= 1 + _ROUNDING),
        _PROPENSITY,
    ),
    "step": (lambda s: s >= 0, "must be 0 or more"),
    "holdout": (
        lambda h: ~((h < 0) | (h > 1)),
        "must be in [0, 1], or NaN without a control",
    ),
    "metric": (
        lambda m: ~np.isinf(m).any(axis=1),
        "must be finite, or NaN where no amount has come",
    ),
    "advice": (
        lambda f: ~np.isinf(f).any(axis=1),
        "must be finite, or NaN where an expert slept",
    ),
    "bonus": (
        lambda b: ~np.isinf(b).any(axis=1),
        "must be finite, or NaN where an expert slept",
    ),
    "log_weights": (
        lambda w: ~(w > 1e-9).any(axis=1),
        "must be at most 0, relative to the leader",
    ),
}


def _check_odds(log: "Log", propensities: Array) -> None:
    least = propensities.min(axis=1)
    _require("propensities", least >= 0, least, "must not be negative")
    total = propensities.sum(axis=1)
    _require("propensities", np.abs(total - 1) <= 1e-6, total, "must sum to 1")
    of_arm = drawn_entries(propensities, log.arm)
    rule = f"must be at least {LEAST_PROPENSITY:g} for the arm that was drawn"
    _require("propensities", of_arm >= LEAST_PROPENSITY, of_arm, rule)
    if log.propensity is not None:
        is_same = np.abs(log.propensity - of_arm) <= 1e-9
        rule = "must be the drawn arm's entry of propensities"
        _require("propensity", is_same, log.propensity, rule)
    if log.eligible is not None:
        outside = np.where(log.eligible, 0.0, propensities).max(axis=1)
        rule = "must be 0 for arms that are not eligible"
        _require("propensities", outside == 0, outside, rule)


def _check_metrics(log: "Log") -> None:
    """Raise an error if there are amounts of metrics without names."""
    if log.metrics is None:
        raise InvalidInput(
            "metrics must name the columns of metric, such as ['revenue']; got none"
        )
    _check_widths(_widths(log, "metrics", "metric"))


def _check_control(log: "Log") -> None:
    """Raise an error if the propensities of the control do not sum to 1, or if a group
    has an unknown name."""
    if log.control is not None:
        total = log.control.sum(axis=1)
        is_positive = (log.control >= 0).all(axis=1)
        sums_to_one = np.abs(total - 1) <= 1e-6
        is_odds = is_positive & sums_to_one
        _require("control", is_odds, total, "must be odds that sum to 1")
    if log.group is not None:
        is_group = np.array([one in _GROUPS for one in log.group], dtype=np.bool_)
        rule = 'must be "policy", "control", or None where one draw served both'
        _require("group", is_group, log.group, rule)
        if log.holdout is None:
            raise InvalidInput(
                "column holdout, the share of the control group, must be given with "
                "column group; got none"
            )


def _check_unique(ids: npt.NDArray[np.object_]) -> None:
    seen: set[str] = set()
    for row, one in enumerate(ids.tolist()):
        if one in seen:
            raise BrokenLog("decision_id", row, f"must be unique; got {one!r} again")
        seen.add(one)


def _widths(log: "Log", names: str, *columns: str) -> dict[str, int]:
    """Return the number of entries per row according to the names, and according to
    each column."""
    widths = {}
    if getattr(log, names) is not None:
        widths[names] = len(getattr(log, names))
    for name in columns:
        column = getattr(log, name)
        if column is not None:
            widths[name] = np.shape(column)[1]
    return widths


def _check_widths(widths: Mapping[str, int]) -> None:
    for name, width in widths.items():
        first, right = next(iter(widths.items()))
        if width != right:
            raise InvalidInput(
                f"column {name}: must have {right} entries per row like {first}; got "
                f"{width}"
            )


def _require(
    column: str, holds: Bools | np.bool_, values: npt.NDArray[np.generic], rule: str
) -> None:
    """Raise an error for the first row that breaks the rule."""
    if holds.all():
        return
    row = int(np.argmin(holds))
    value = " ".join(f"{values[row]}".split())
    then = _NEXT.get(rule, "")
    raise BrokenLog(column, row, f"{rule}; got {value:.80}{then}")


def _numbers(name: str, values: Collection[object]) -> npt.NDArray[np.generic]:
    """Convert rows of any values (None, mixtures, lists of different lengths) to
    numbers, or raise an error for the first value that is not a number."""
    kind, ndim = TYPES[name]
    rule = f"must be {_WORDS[kind]}"
    if ndim > 1:
        rule = f"must be a list, each entry {_WORDS[kind]}"
    rows: list[npt.NDArray[np.generic]] = []
    for row, value in enumerate(values):
        try:
            numbers = np.asarray(value)
            if numbers.dtype.kind not in "fiub" or numbers.ndim != ndim - 1:
                numbers = _number_row(value, ndim)
        except (TypeError, ValueError) as error:
            raise BrokenLog(name, row, f"{rule}; got {value!r:.60}") from error
        rows.append(numbers)
        if numbers.shape != rows[0].shape:
            raise BrokenLog(
                name,
                row,
                f"must have {len(rows[0])} entries like row 0; got {len(numbers)}",
            )
    return np.array(rows)


def _number_row(value: Any, ndim: int) -> npt.NDArray[np.generic]:
    if ndim == 1:
        numbers = np.array(_number(value))
    else:
        numbers = np.array([_number(entry) for entry in value])
    if numbers.dtype.kind not in "fiub":
        raise ValueError("a whole number that is too large")
    return numbers


def _number(value: object) -> object:
    """Return a number, or NaN for None. Text raises an error, even if it looks like a
    number."""
    if value is None:
        return np.nan
    if isinstance(value, float | int | np.number | np.bool_):
        return value
    # JSON has no number for infinity, so files contain text
    if isinstance(value, str) and value in ("inf", "-inf"):
        return float(value)
    raise TypeError(f"{type(value).__name__}")


def _texts(name: str, value: Collection[object]) -> npt.NDArray[np.object_]:
    texts = np.empty(len(value), dtype=object)
    for row, text in enumerate(value):
        if not isinstance(text, str) or not text:
            raise BrokenLog(name, row, f"must be text; got {text!r:.60}")
        texts[row] = str(text)
    return texts


def _texts_or_none(name: str, value: Collection[object]) -> npt.NDArray[np.object_]:
    texts = np.empty(len(value), dtype=object)
    for row, text in enumerate(value):
        is_missing = text is None or text != text
        if not is_missing and (not isinstance(text, str) or not text):
            raise BrokenLog(name, row, f"must be text, or None; got {text!r:.60}")
        texts[row] = None if is_missing else str(text)
    return texts


def times(value: Collection[object]) -> npt.NDArray[np.generic]:
    """Return times as datetime64[us] in UTC; numbers stay as they are."""
    try:
        array = np.asarray(value)
    except ValueError:  # the lists have different lengths
        array = np.asarray(value, dtype=object)
    if array.dtype.kind == "M":
        moments = array.astype("datetime64[us]")
        _require("time", ~np.isnat(moments), moments, "must be a time")
        return moments
    if array.dtype.kind in "fiu":
        return array
    moments = np.empty(len(array), dtype="datetime64[us]")
    for row, one in enumerate(value):
        try:
            moments[row] = _moment(one)
        except (TypeError, ValueError, OverflowError) as error:
            raise BrokenLog(
                "time",
                row,
                f"must be a time like 2026-03-01T12:00:00Z; got {one!r:.60}: write it "
                "so, or leave the column out: columns={'time': ''}, --columns time=",
            ) from error
    return moments


def _moment(value: object) -> datetime:
    """Return the time in UTC of a datetime or of its text."""
    moment = value
    if not isinstance(moment, datetime):
        moment = datetime.fromisoformat(value if isinstance(value, str) else "")
    if moment.tzinfo is None:
        return moment
    return moment.astimezone(UTC).replace(tzinfo=None)
