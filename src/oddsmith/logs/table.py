"""Log: a typed table of decisions and rewards, checked once when it is made."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from oddsmith.arrays import Array, Bools, Ints
from oddsmith.columns import aligned
from oddsmith.decision import Decision
from oddsmith.errors import InvalidInput

__all__ = ["Log"]


@dataclass(frozen=True, eq=False, repr=False)
class Log:
    """T decisions and their rewards, column by column; only `arm` and `reward` are required.

    A reward of NaN has not arrived. `propensities` (T, K) are the logger's odds of all arms, `propensity` (T,) of the
    drawn one (taken from them when absent). `advice`, `bonus`, `log_weights` (T, N) are what learning needs. `context`
    is an array, a list or a data frame of T rows. Anything wrong is refused with column, row and rule.

    >>> log = Log(arm=[0, 1, 1], reward=[1, 0, np.nan], propensities=[[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]])
    >>> log.propensity
    array([0.5, 0.1, 0.8])
    >>> len(log.rewarded())
    2
    """

    arm: Ints
    reward: Array
    propensity: Array | None = None
    propensities: Array | None = None
    eligible: Bools | None = None
    context: Any = None
    advice: Array | None = None
    bonus: Array | None = None
    log_weights: Array | None = None
    step: Ints | None = None
    time: Any = None
    decision_id: Any = None
    fingerprint: Any = None

    def __post_init__(self) -> None:
        for name, (kind, ndim) in _COLUMNS.items():
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _column(name, value, kind, ndim))
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and len(value) != len(self.arm):
                raise InvalidInput(f"column {field.name}: must have {len(self.arm)} rows like arm; got {len(value)}")
        self._check_rows()
        if self.propensity is None and self.propensities is not None:
            object.__setattr__(self, "propensity", _of_arm(self.propensities, self.arm))

    @classmethod
    def of(cls, decisions: Decision | Iterable[Decision], rewards: Any, **columns: Any) -> "Log":
        """The log of these decisions and rewards (NaN where none has come); more columns by name."""
        stacked = decisions if isinstance(decisions, Decision) else Decision.stacked(decisions)
        known = stacked.numbered()
        shared = {name: getattr(known, name) for name in Decision._fields if name != "index"}
        if known.step is None or None in np.atleast_1d(known.step):
            shared["step"] = None
        return cls(reward=rewards, **(shared | columns))

    @classmethod
    def concatenated(cls, logs: Sequence["Log"]) -> "Log":
        """One log after the other; columns that some of them lack are left out."""
        if not logs:
            raise InvalidInput("logs must not be empty; got 0 of them")
        lacking = [
            f.name for f in fields(cls) if f.name not in _MAY_LACK and any(getattr(g, f.name) is None for g in logs)
        ]
        parts = [{f.name: getattr(log, f.name) for f in fields(cls) if f.name not in lacking} for log in logs]
        columns: Any = aligned(parts)
        return cls(**{name: _joined(values) for name, values in columns.items() if values[0] is not None})

    def decisions(self) -> Decision:
        """All decisions as one, with a leading axis: what `fold` takes."""
        if self.propensities is None:
            raise InvalidInput("column propensities: must be there to make decisions; got none")
        return Decision(
            self.step,
            self.context,
            self.eligible,
            self.arm,
            self.propensities,
            self.advice,
            self.bonus,
            self.log_weights,
        )

    def rewarded(self) -> "Log":
        """The rows whose reward has arrived."""
        return self[~np.isnan(self.reward)]

    @property
    def n_arms(self) -> int:
        """K, where the log says it; else the largest arm plus one."""
        for column in (self.propensities, self.eligible):
            if column is not None:
                return int(column.shape[1])
        return int(self.arm.max(initial=-1)) + 1

    def __repr__(self) -> str:
        columns = [f.name for f in fields(self) if getattr(self, f.name) is not None]
        waiting = int(np.isnan(self.reward).sum())
        return f"Log(of {len(self)} decisions over {self.n_arms} arms, {waiting} without reward; {', '.join(columns)})"

    def __len__(self) -> int:
        return len(self.arm)

    def __getitem__(self, rows: Any) -> "Log":
        """The rows of a slice, a mask or an array of numbers."""
        if isinstance(rows, int | np.integer):
            rows = slice(rows, rows + 1 if rows != -1 else None)
        columns: Any = {field.name: _rows(getattr(self, field.name), rows) for field in fields(self)}
        return Log(**columns)

    def _check_rows(self) -> None:
        _require("arm", self.arm >= 0, self.arm, "must be 0 or more")
        _require("reward", ~((self.reward < 0) | (self.reward > 1)), self.reward, "must be in [0, 1], or NaN")
        if self.propensity is not None:
            inside = (self.propensity > 0) & (self.propensity <= 1)
            _require("propensity", inside, self.propensity, "must be in (0, 1]")
        for name in ("propensities", "eligible"):
            column = getattr(self, name)
            if column is not None:
                n_arms = column.shape[1]
                _require("arm", self.arm < n_arms, self.arm, f"must be below the {n_arms} arms of {name}")
        if self.eligible is not None:
            _require("eligible", _of_arm(self.eligible, self.arm), self.arm, "must allow the arm that was drawn")
        if self.propensities is not None:
            self._check_odds(self.propensities)

    def _check_odds(self, propensities: Array) -> None:
        total = propensities.sum(axis=1)
        _require("propensities", (propensities >= 0).all(axis=1), propensities.min(axis=1), "must not be negative")
        _require("propensities", np.abs(total - 1) <= 1e-6, total, "must sum to 1")
        drawn = _of_arm(propensities, self.arm)
        _require("propensities", drawn > 0, drawn, "must be above 0 for the arm that was drawn")
        if self.propensity is not None:
            same = np.abs(self.propensity - drawn) <= 1e-9
            _require("propensity", same, self.propensity, "must be the drawn arm's entry of propensities")
        if self.eligible is not None:
            outside = np.where(self.eligible, 0.0, propensities).max(axis=1)
            _require("propensities", outside == 0, outside, "must be 0 for arms that are not eligible")


_MAY_LACK = ("eligible", "log_weights")  # absence has a meaning: all arms, nobody slept
_COLUMNS = {
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


def _column(name: str, value: Any, kind: Any, ndim: int) -> Any:
    """The column as an array of its type, or one sentence why not."""
    try:
        array = np.asarray(value)
        column = array.astype(kind, copy=False)
        if kind is not np.float64 and not np.array_equal(column, array):
            raise ValueError("they are not whole numbers" if kind is np.int64 else "they are not true or false")
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"column {name}: must be {np.dtype(kind)}; {error}") from error
    if column.ndim != ndim:
        raise InvalidInput(f"column {name}: must have {ndim} axes; got shape {column.shape}")
    return column


def _require(column: str, holds: Any, values: Any, rule: str) -> None:
    """Refuses the first row that breaks the rule."""
    if not holds.all():
        row = int(np.argmin(holds))
        raise InvalidInput(f"column {column}, row {row}: {rule}; got {values[row]}")


def _of_arm(columns: Any, arm: Ints) -> Any:
    return np.take_along_axis(columns, arm[:, None], axis=1)[:, 0]


def _rows(value: Any, rows: Any) -> Any:
    if value is None:
        return None
    if hasattr(value, "iloc"):
        return value.iloc[rows]
    if isinstance(value, list):
        return [value[i] for i in np.arange(len(value))[rows]]
    return value[rows]


def _joined(parts: list[Any]) -> Any:
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    return [row for part in parts for row in (part.to_dict("records") if hasattr(part, "to_dict") else part)]
