"""The rules that every row of a log keeps; a violation names column, row and rule."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

from oddsmith.arrays import Ints
from oddsmith.errors import BrokenLog, InvalidInput

__all__ = ["TYPES", "check_rows", "drawn", "typed"]

TYPES: dict[str, tuple[Any, int]] = {
    "arm": (np.int64, 1),
    "reward": (np.float64, 1),
    "propensity": (np.float64, 1),
    "propensities": (np.float64, 2),
    "eligible": (np.bool_, 2),
    "advice": (np.float64, 2),
    "bonus": (np.float64, 2),
    "log_weights": (np.float64, 2),
    "step": (np.int64, 1),
}
_WORDS = {np.int64: "a whole number", np.float64: "a number", np.bool_: "true or false"}


def typed(name: str, value: Any) -> Any:
    """The column as an array of its type, or one sentence why not."""
    if name in ("decision_id", "fingerprint"):
        return _texts(name, value)
    if name == "time":
        return _times(value)
    if name not in TYPES:
        return value
    kind, ndim = TYPES[name]
    try:
        array = np.asarray(value)
    except ValueError:  # lists of different lengths
        array = np.asarray(None)
    if array.dtype.kind not in "fiub":
        array = _numbers(name, value)
    if array.ndim != ndim:
        raise InvalidInput(f"column {name}: must have {ndim} axes; got shape {array.shape}")
    with np.errstate(invalid="ignore"):  # NaN as a whole number is found below
        column = array.astype(kind, copy=False)
    if kind is not np.float64 and array.dtype != kind and array.size:
        _require(name, (column == array).reshape(len(array), -1).all(axis=1), array, f"must be {_WORDS[kind]}")
    return column


def check_rows(columns: Mapping[str, Any], n_arms: int | None, n_experts: int | None = None) -> None:
    """Refuses the first row that breaks a rule; `columns` are typed, and as long as `arm`."""
    arm = columns["arm"]
    for name, (holds, rule) in _RULES.items():
        if columns.get(name) is not None:
            _require(name, holds(columns[name]), columns[name], rule)
    widths = {"arms": n_arms} | {name: _width(columns, name) for name in ("propensities", "eligible")}
    for name, width in widths.items():
        if width is not None:
            _require("arm", arm < width, arm, f"must be below the {width} arms of {name}")
    _check_widths(widths)
    _check_widths({"experts": n_experts} | {name: _width(columns, name) for name in ("advice", "bonus", "log_weights")})
    if columns.get("eligible") is not None:
        _require("eligible", drawn(columns["eligible"], arm), arm, "must allow the arm that was drawn")
    if columns.get("propensities") is not None:
        _check_odds(columns)
    if columns.get("decision_id") is not None:
        _check_unique(columns["decision_id"])


def drawn(columns: Any, arm: Ints) -> Any:
    """The entry (T,) of the drawn arm in each row of (T, K)."""
    return np.take_along_axis(columns, arm[:, None], axis=1)[:, 0]


_RULES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "arm": (lambda a: a >= 0, "must be 0 or more"),
    "reward": (lambda r: ~((r < 0) | (r > 1)), "must be in [0, 1], or NaN"),
    "propensity": (lambda p: (p > 0) & (p <= 1), "must be in (0, 1]"),
    "step": (lambda s: s >= 0, "must be 0 or more"),
    "advice": (lambda f: ~np.isinf(f).any(axis=1), "must be finite, or NaN where an expert slept"),
    "bonus": (lambda b: ~np.isinf(b).any(axis=1), "must be finite, or NaN where an expert slept"),
    "log_weights": (lambda w: ~(w > 1e-9).any(axis=1), "must be at most 0, relative to the leader"),
}


def _check_odds(columns: Mapping[str, Any]) -> None:
    propensities, arm = columns["propensities"], columns["arm"]
    total = propensities.sum(axis=1)
    _require("propensities", (propensities >= 0).all(axis=1), propensities.min(axis=1), "must not be negative")
    _require("propensities", np.abs(total - 1) <= 1e-6, total, "must sum to 1")
    of_arm = drawn(propensities, arm)
    _require("propensities", of_arm > 0, of_arm, "must be above 0 for the arm that was drawn")
    if columns.get("propensity") is not None:
        same = np.abs(columns["propensity"] - of_arm) <= 1e-9
        _require("propensity", same, columns["propensity"], "must be the drawn arm's entry of propensities")
    if columns.get("eligible") is not None:
        outside = np.where(columns["eligible"], 0.0, propensities).max(axis=1)
        _require("propensities", outside == 0, outside, "must be 0 for arms that are not eligible")


def _check_unique(ids: Any) -> None:
    seen: set[str] = set()
    for row, one in enumerate(ids):
        if one in seen:
            raise BrokenLog("decision_id", row, f"must be unique; got {one!r} again")
        seen.add(one)


def _width(columns: Mapping[str, Any], name: str) -> int | None:
    return None if columns.get(name) is None else int(columns[name].shape[1])


def _check_widths(widths: Mapping[str, int | None]) -> None:
    known = [(name, width) for name, width in widths.items() if width is not None]
    for name, width in known[1:]:
        if width != known[0][1]:
            raise InvalidInput(f"column {name}: must have {known[0][1]} entries a row like {known[0][0]}; got {width}")


def _require(column: str, holds: Any, values: Any, rule: str) -> None:
    """Refuses the first row that breaks the rule."""
    if not holds.all():
        row = int(np.argmin(holds))
        raise BrokenLog(column, row, f"{rule}; got {values[row]}")


def _numbers(name: str, values: Any) -> Any:
    """Rows of anything (None, mixtures, lists of different lengths) as numbers; the first that is none is named."""
    kind, ndim = TYPES[name]
    word = f"must be {_WORDS[kind]}" if ndim == 1 else f"must be a list, each entry {_WORDS[kind]}"
    rows: list[Any] = []
    for row, value in enumerate(values):
        try:
            numbers = np.asarray(value)
            if numbers.dtype.kind not in "fiub" or numbers.ndim != ndim - 1:
                numbers = np.array([np.nan if v is None else _number(v) for v in value] if ndim > 1 else _number(value))
        except (TypeError, ValueError) as error:
            raise BrokenLog(name, row, f"{word}; got {value!r:.60}") from error
        rows.append(numbers)
        if numbers.shape != rows[0].shape:
            raise BrokenLog(name, row, f"must have {len(rows[0])} entries like row 0; got {len(numbers)}")
    return np.array(rows)


def _number(value: Any) -> Any:
    """A number, NaN for nothing; text is refused, even if it looks like one."""
    if value is None or isinstance(value, float | int | np.number | np.bool_):
        return np.nan if value is None else value
    if value in ("inf", "-inf"):  # as JSON has no word for it
        return float(value)
    raise TypeError(f"{type(value).__name__}")


def _texts(name: str, value: Any) -> Any:
    texts = np.empty(len(value), dtype=object)
    for row, text in enumerate(value):
        if not isinstance(text, str) or not text:
            raise BrokenLog(name, row, f"must be text; got {text!r:.60}")
        texts[row] = str(text)
    return texts


def _times(value: Any) -> Any:
    """Times in UTC as datetime64[us], or numbers as they are."""
    array = np.asarray(value)
    if array.dtype.kind == "M":
        times = array.astype("datetime64[us]")
        _require("time", ~np.isnat(times), times, "must be a time")
        return times
    if array.dtype.kind in "fiu":
        return array
    times = np.empty(len(array), dtype="datetime64[us]")
    for row, one in enumerate(value):
        try:
            moment = one if isinstance(one, datetime) else datetime.fromisoformat(one)
        except (TypeError, ValueError) as error:
            raise BrokenLog("time", row, f"must be a time like 2026-03-01T12:00:00Z; got {one!r:.60}") from error
        times[row] = moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    return times
