"""Log: a typed table of decisions and rewards, checked once when it is created."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from oddsmith.core.arrays import Array, Bools, Ints
from oddsmith.core.contexts import is_table, join_batches, take_rows
from oddsmith.core.contexts import rows as contexts_of
from oddsmith.core.decision import Context, Decision, State, align_columns
from oddsmith.core.errors import InvalidInput, NoSuchRow
from oddsmith.core.names import check_choice, check_names
from oddsmith.core.policy import Policy
from oddsmith.logs import offers, slates
from oddsmith.logs.knowledge import (
    COMPARED,
    KINDS,
    OF_DRAWN_ROWS,
    USES,
    FeatureKind,
    LogKind,
    Use,
)
from oddsmith.logs.rules import check_rows, drawn_entries, typed

__all__ = ["COLUMNS", "Log", "MAY_LACK"]


@dataclass(frozen=True, eq=False, repr=False)
class Log:
    """T decisions and their rewards, column by column; only `arm` and `reward` are
    required.

    - `reward` is NaN if the reward has not arrived.
    - `propensities` (T, K) are those of all arms under the logging policy, and
      `propensity` (T,) is that of the drawn arm (by default, from `propensities`).
    - Policies learn from `advice`, `bonus` and `log_weights` (T, N). `experts` names
      the N experts; `advice` then contains their predictions for the drawn arm.
    - `context` is an array, a list or a data frame of T rows. `time` contains times in
      UTC, or numbers. `fingerprint` identifies the policy that decided. `arms` names
      the K arms.
    - If arms were passed in each call, `offered` has their names for each row, and
      `features` the features of these arms, or of the drawn one, by name. Rows with
      fewer arms than others are padded at the end: `propensities` with zeros,
      `eligible` with False. `arms` are then the names that all rows share, or None if
      rows differ.
    - Rows with the same `slate` were decided together, each for a `slot` from 1 on. A
      decision without slots has the slate None and the slot 0.
    - An experiment with a control adds `control` (T, K), the propensities of the
      control, and `holdout` (T,), the share of the control in the draw. If units are
      assigned to groups, it also adds the `unit` and the `group` ("policy" or
      "control") that made the decision, or None if one draw served both.
    - `metric` (T, M) contains amounts of other metrics in their own units, NaN if there
      is no amount yet; `metrics` are their names.

    Errors name the column, the row and the rule. Indexing with a slice, a mask or a
    list of numbers returns a log of these rows. A number returns one row as a dict of
    its columns, and iteration yields such dicts.

    >>> log = Log(
    ...     arm=[0, 1, 1],
    ...     reward=[1, 0, np.nan],
    ...     propensities=[[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]],
    ... )
    >>> log.propensity
    array([0.5, 0.1, 0.8])
    >>> len(log.rewarded()), log.kind
    (2, 'exact')
    >>> [row["reward"] for row in log[:2]], log[-1]["propensity"]
    ([1.0, 0.0], 0.8)
    >>> log = Log(
    ...     arm=[0, 2],
    ...     reward=[1, 0],
    ...     offered=[["a", "b"], ["c", "a", "d"]],
    ...     propensity=[0.5, 0.2],
    ... )
    >>> log.n_arms, log.arms
    (3, None)
    """

    arm: Ints
    reward: Array
    propensity: Array | None = None
    propensities: Array | None = None
    eligible: Bools | None = None
    context: Context = None
    advice: Array | None = None
    bonus: Array | None = None
    log_weights: Array | None = None
    step: Ints | None = None
    time: Any = None
    decision_id: Any = None
    fingerprint: Any = None
    offered: Any = None
    features: Any = None
    slate: Any = None
    slot: Ints | None = None
    control: Array | None = None
    holdout: Array | None = None
    group: Any = None
    unit: Any = None
    metric: Array | None = None
    arms: Sequence[str] | None = None
    experts: Sequence[str] | None = None
    metrics: Sequence[str] | None = None

    def __post_init__(self) -> None:
        for what in _NAMES:
            names = getattr(self, what)
            if names is not None:
                object.__setattr__(self, what, check_names(what, names))
        columns = self.columns()
        if self.offered is not None or self.features is not None:
            columns = offers.normalize_offers(columns)
        for name, value in columns.items():
            object.__setattr__(self, name, typed(name, value))
        for name, value in self.columns().items():
            if len(value) != len(self.arm):
                raise InvalidInput(
                    f"column {name}: must have {len(self.arm)} rows like arm; got "
                    f"{len(value)}"
                )
        if self.offered is not None:
            self._share_names(offers.shared_names(self.offered))
        check_rows(self)
        propensity = self.propensity
        if propensity is None and self.propensities is not None:
            propensity = drawn_entries(self.propensities, self.arm)
        if propensity is not None:
            # clip, because sums of propensities may exceed 1 by rounding
            object.__setattr__(self, "propensity", np.minimum(propensity, 1.0))

    def _share_names(self, names: tuple[str, ...] | None) -> None:
        """Set `arms` to the names that all rows offered. Raise if `arms` was given with
        other names."""
        if self.arms not in (None, names):
            what = "differ from row to row"
            if names is not None:
                what = f"are {list(names[:8])}"
            raise InvalidInput(
                f"arms must be the names that all rows offered, which {what}; got "
                f"{list(self.arms[:8])}"
            )
        object.__setattr__(self, "arms", names)

    @classmethod
    def of(
        cls,
        decisions: Decision | Iterable[Decision],
        rewards: object,
        metrics: Mapping[str, Any] | None = None,
        **columns: object,
    ) -> "Log":
        """Return the log of these decisions and rewards (NaN for a reward that has not
        arrived). `metrics` has amounts by metric; other columns are passed by name."""
        if isinstance(decisions, Decision):
            stacked = decisions
        else:
            rows: list[Any] = []
            for one in decisions:
                if isinstance(one, Decision):
                    one = one._replace(advisers=None)
                rows.append(one)
            stacked = Decision.stack(rows)
        numbered = stacked.by_number()
        fields = {
            name: getattr(numbered, name)
            for name in Decision._fields
            if name not in _DECISIONS_OWN
        }
        fields["offered"] = numbered.arms
        if numbered.step is None or None in np.atleast_1d(numbered.step):
            fields["step"] = None
        if metrics:
            amounts = [np.asarray(column, np.float64) for column in metrics.values()]
            fields["metric"] = np.column_stack(amounts)
            fields["metrics"] = list(metrics)
        fields.update(reward=rewards, **columns)
        return cls(**fields)

    @classmethod
    def concatenated(cls, logs: Sequence["Log"]) -> "Log":
        """Join logs, one after the other. Columns that some of them lack are
        dropped."""
        if not logs:
            raise InvalidInput("logs must not be empty; got 0 of them")
        if len(logs) == 1:
            return logs[0]
        if len({log.offered is None for log in logs}) > 1:
            raise InvalidInput(
                "logs must all have the names that were offered, or none of them; got "
                "a mixture"
            )
        arms = [log.arms for log in logs]
        if logs[0].offered is None and len(set(arms)) > 1:
            raise InvalidInput(f"logs must be about the same arms; got {arms[:3]}")
        if len({log.experts for log in logs if log.advice is not None}) > 1:
            experts = [log.experts for log in logs]
            raise InvalidInput(
                f"logs must have advice of the same experts; got {experts[:3]}"
            )
        metrics = [log.metrics for log in logs]
        if len(set(metrics)) > 1:
            raise InvalidInput(f"logs must have the same metrics; got {metrics[:3]}")
        names = []
        for name in COLUMNS:
            is_everywhere = all(getattr(log, name) is not None for log in logs)
            if name in MAY_LACK or is_everywhere:
                names.append(name)
        parts = [{name: getattr(log, name) for name in names} for log in logs]
        slates.add_missing_slates(parts)
        whole = offers.join_offers(parts)
        for name, values in align_columns(parts).items():
            if values[0] is not None:
                whole[name] = join_batches(values)
        return cls._trusted(whole, logs[0])

    def columns(self) -> dict[str, Any]:
        """Return the columns that this log has, by name."""
        values = {name: getattr(self, name) for name in COLUMNS}
        return {name: value for name, value in values.items() if value is not None}

    def decisions(self) -> Decision:
        """Return all decisions as one `Decision` with a leading axis, for `fold`."""
        if self.propensities is None:
            raise InvalidInput(
                "column propensities: must be there to make decisions; got none"
            )
        return Decision(
            self.step,
            self.context,
            self.eligible,
            self.arm,
            self.propensities,
            advice=self.advice,
            bonus=self.bonus,
            log_weights=self.log_weights,
            arms=self.offered,
            features=self.features,
            control=self.control,
            holdout=self.holdout,
            group=self.group,
            unit=self.unit,
        )

    def rewarded(self) -> "Log":
        """Return the rows whose reward has arrived."""
        waiting = np.isnan(self.reward)
        return self[~waiting] if waiting.any() else self

    def state_of(self, policy: Policy) -> State:
        """Return the state of a policy after it learned from this log, for
        `Agent(policy, start=log)`.

        >>> from oddsmith.policies.auto import auto
        >>> log = Log(arm=[0, 1], reward=[1, np.nan], context=[[1.0], [2.0]])
        >>> log.state_of(auto(["mail", "call"], size="small")).learnt
        1
        """
        # imported here to avoid a cycle, because `fit` imports this module
        from oddsmith.logs.fit import fit_log

        return fit_log(policy, self).state

    def split(self, rows: int) -> "Iterator[Log]":
        """Yield the log in pieces of at most this many rows."""
        for start in range(0, len(self), rows):
            yield self[start : start + rows]

    def offering(self, arms: object) -> "Log":
        """Return the same rows with names and features of the arms, in the form of
        `arms=` of a decision.

        Every row then offers all arms in the log's order. Its mask and its propensities
        stay the same.

        >>> log = Log(arm=[1], reward=[1], propensity=[0.5], arms=["hat", "coat"])
        >>> log.offering({"coat": {"price": 90}, "hat": {"price": 20}}).known_features
        'all'
        """
        names, features = offers.everywhere(self, arms)
        columns = self.columns()
        columns["offered"] = [names] * len(self)
        columns["features"] = None if features is None else [features] * len(self)
        return Log(**columns, experts=self.experts, metrics=self.metrics)

    def without(self, *names: str) -> "Log":
        """Return the same rows without these columns."""
        columns = self.columns()
        for name in names:
            columns.pop(name, None)
        return self._trusted(columns, self)

    @property
    def kind(self) -> LogKind:
        """Which propensities are known: "exact" (of all arms), "drawn" (of the drawn
        arm), "deterministic" (all are 1) or "unknown"."""
        if self.propensity is None:
            return "unknown"
        chosen = self.propensity
        if self.eligible is not None:
            chosen = chosen[self.eligible.sum(axis=1) > 1]
        elif self.offered is not None:
            chosen = chosen[offers.sizes(self.offered) > 1]
        if len(chosen) and (chosen == 1).all():
            return "deterministic"
        return "drawn" if self.propensities is None else "exact"

    @property
    def known_features(self) -> FeatureKind:
        """The arms whose features are known: "all" that were offered, only the "drawn"
        one, or "none"."""
        return offers.feature_kind(self)

    @property
    def allows(self) -> tuple[Use, ...]:
        """The uses that this log allows, a subset of "learning", "models", "weights"
        and "odds"."""
        by_features: Collection[Use] = USES
        if self.known_features == "drawn":
            by_features = OF_DRAWN_ROWS
        by_odds = [use for use, (_, kinds) in USES.items() if self.kind in kinds]
        return tuple(use for use in by_odds if use in by_features)

    def require(self, use: Use) -> None:
        """Raise an error if this log does not allow the use. The error names the uses
        that it allows.

        >>> Log(arm=[0], reward=[1]).require("weights")
        Traceback (most recent call last):
        oddsmith.core.errors.InvalidInput: importance weights (ips, snips, dr) need ...
        """
        check_choice("use", use, USES)
        what, kinds = USES[use]
        if self.kind not in kinds:
            own = f"{self.kind} ({KINDS[self.kind]})"
            others = " and ".join(USES[other][0] for other in self.allows)
            raise InvalidInput(
                f"{what} need a log that is {' or '.join(kinds)}; this one is {own}, "
                f"which allows {others}"
            )
        if use not in self.allows:
            others = " and ".join(OF_DRAWN_ROWS[other] for other in self.allows)
            raise InvalidInput(
                f"{COMPARED} need the features of all arms offered; this log has those "
                f"of the drawn arm only, which allows {others}"
            )

    @property
    def n_arms(self) -> int:
        """The number of arms K according to the columns or the names (the largest
        number if rows differ), otherwise the largest arm plus one."""
        for column in (self.propensities, self.eligible):
            if column is not None:
                return int(column.shape[1])
        if self.offered is not None:
            return max(map(len, self.offered), default=0)
        if self.arms is not None:
            return len(self.arms)
        return int(self.arm.max(initial=-1)) + 1

    def __repr__(self) -> str:
        waiting = int(np.isnan(self.reward).sum())
        arms = f"{self.n_arms} arms"
        if self.offered is not None and not self.arms:
            arms = f"up to {self.n_arms} arms that differ"
        return (
            f"Log(of {len(self)} decisions over {arms}, {waiting} without reward; "
            f"{', '.join(self.columns())})"
        )

    def __len__(self) -> int:
        return len(self.arm)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[row] for row in range(len(self)))

    @overload
    def __getitem__(self, rows: int | np.int64) -> dict[str, Any]: ...
    @overload
    def __getitem__(
        self, rows: slice | Sequence[int] | npt.NDArray[np.generic]
    ) -> "Log": ...
    def __getitem__(self, rows: object) -> "dict[str, Any] | Log":
        """Return one row as a dict for a number, or a log of the rows for a slice, a
        mask or a list of numbers."""
        chosen = rows if isinstance(rows, slice) else _numbers(rows, len(self))
        columns = self.columns().items()
        if isinstance(chosen, int):
            return {name: _row(value, chosen) for name, value in columns}
        some = {name: take_rows(value, chosen) for name, value in columns}
        return self._trusted(some, self)

    @classmethod
    def _trusted(cls, columns: Mapping[str, object], like: "Log") -> "Log":
        """Return a log of columns that were checked before, with the names of the log
        `like`."""
        log = object.__new__(cls)
        for name in COLUMNS:
            object.__setattr__(log, name, columns.get(name))
        for name in _NAMES:
            object.__setattr__(log, name, getattr(like, name))
        if log.offered is not None:
            for name, value in offers.trim_arms(log.columns()).items():
                object.__setattr__(log, name, value)
            object.__setattr__(log, "arms", offers.shared_names(log.offered))
        return log


_NAMES = ("arms", "experts", "metrics")
COLUMNS = tuple(field.name for field in fields(Log) if field.name not in _NAMES)
# fields of a decision that a log stores under another name, or not at all
_DECISIONS_OWN = ("index", "arms", "advisers")
# columns that a log may lack. Without them all arms were eligible, every expert made a
# prediction, and there are no features or slates.
MAY_LACK = ("eligible", "log_weights", "features", "slate", "slot")


def _numbers(rows: object, length: int) -> int | Bools | Ints:
    """Return a number as an int. Return a slice, a list of numbers or a mask as an
    array."""
    array = np.asarray(rows)
    if array.dtype.kind == "b" and array.shape == (length,):
        return array
    if array.size and (array.dtype.kind not in "iu" or array.ndim > 1):
        raise InvalidInput(
            "rows must be a number, a slice, a list of numbers, or a mask of as many "
            "entries as there are rows (columns are attributes, as in log.reward); got "
            f"{rows!r:.60}"
        )
    outside = array[(array < -length) | (array >= length)]
    if outside.size:
        raise NoSuchRow(
            f"row must be in [{-length}, {length}), because the log has {length} rows; "
            f"got {outside.flat[0]}"
        )
    if array.ndim == 0:
        return int(array) % length
    return array.astype(np.int64)


def _row(values: Sequence[object], row: int) -> object:
    value: object
    if is_table(values):
        value = contexts_of(take_rows(values, slice(row, row + 1)))[0]
    else:
        value = values[row]
    return value.item() if isinstance(value, np.generic) else value
