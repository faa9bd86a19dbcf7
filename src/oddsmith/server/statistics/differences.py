"""Statistics for comparisons with the control, for every metric and every candidate
(the policy and its arms).

Rows are added in batches. Sums are integers, so they do not depend on the batches. The
results are the same as those of `oddsmith evaluate` for an exported log, because both
use the same functions and rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from oddsmith.contexts.metrics import REWARD, Metric, MetricRole
from oddsmith.contexts.rewards import RewardScale
from oddsmith.core.arrays import Array
from oddsmith.core.decision import LEAST_PROPENSITY
from oddsmith.evaluation.lift import anytime_lift, split_level
from oddsmith.evaluation.mean_units import mean_interval, mean_units, no_mean_units
from oddsmith.evaluation.one_look import Effect
from oddsmith.evaluation.paired_bets import (
    PairedRows,
    PairedSums,
    pair_odds,
    row_units,
)
from oddsmith.server.fold.accounts import Count
from oddsmith.server.fold.amounts import Amount
from oddsmith.server.statistics.snapshot import pack_units, unpack_units
from oddsmith.server.statistics.units import Unit, Units
from oddsmith.server.store.protocol import Draw

__all__ = ["Comparison", "Differences", "POLICY", "no_sums_reason"]

POLICY = "policy"
"""Name of the candidate that is the policy itself; other candidates are arms."""
_BY_UNIT = "policy by unit"  # key of the policy's sums if each row is a unit
_CONTROL, _TARGET = 1, 0
_MOST_ARMS = 20
"""Maximum number of arms that are candidates."""
_WAIT = 128
_UNITS = 1 << 60
_REWARD = Metric(REWARD, role="primary", high=1.0)
_UNIT = RewardScale(0.0, 1.0)


class Comparison(NamedTuple):
    """A candidate compared with the control in one metric, in the metric's unit. If
    `refused` gives a reason, there are no intervals."""

    metric: Metric
    candidate: str
    rows: int
    value: float
    control_value: float
    difference: Effect
    lift: Effect
    refused: str = ""


def no_sums_reason(metric: Metric) -> str:
    """Return the reason why a metric has no sums; empty if it has sums."""
    if metric.ratio is not None:
        return (
            "intervals of a ratio are valid for one analysis only: use oddsmith "
            "evaluate on an export"
        )
    if not metric.is_bounded:
        return (
            "the metric has no cap, which intervals that stay valid at any time "
            "need: declare one"
        )
    return ""


def _without_interval(
    metric: Metric, candidate: str, rows: int, reason: str
) -> Comparison:
    """Return a comparison without numbers, and the reason."""
    nan = float("nan")
    nothing = Effect(nan, nan, nan)
    return Comparison(metric, candidate, rows, nan, nan, nothing, nothing, reason)


class _Row(NamedTuple):
    """A row that is added to sums: the drawn arm, and the propensities (K,) of the
    draw, of the candidate and of the control. `sign` is 1 to add the row, and -1 to
    subtract it."""

    arm: int
    odds: Array
    target: Array
    control: Array
    reward: float
    sign: int


def _exact(value: float) -> int:
    """Return a number as an integer multiple of 2^-60, so that sums do not depend on
    the order."""
    return int(value * _UNITS)


def _exact_sum(values: Array) -> int:
    return sum(map(int, (values * _UNITS).tolist()))


@dataclass(slots=True)
class _Mean:
    """The sums of one policy in one metric: Σ w r and Σ w. The control also has sums of
    bets on its mean."""

    total: int = 0
    weight: int = 0
    bets: Any = field(default_factory=no_mean_units)

    @property
    def value(self) -> float:
        """Return Σ w r / Σ w."""
        return self.total / self.weight

    def add(self, weights: Array, reward: Array, sign: int) -> None:
        """Add rows, or subtract them if `sign` is -1."""
        self.total += sign * _exact_sum(weights * reward)
        self.weight += sign * _exact_sum(weights)

    def bet(self, weights: Array, reward: Array, sign: int) -> None:
        """Add the terms of rows to the bets."""
        self.bets = self.bets + sign * mean_units(weights, reward)


@dataclass(slots=True)
class _Pair:
    """The sums of one candidate in one metric: bets on the difference, and the sums of
    the candidate and of the control.

    The bets on the control's mean are the same for all candidates, so they are only in
    the pair of the policy.
    """

    paired: PairedSums = field(default_factory=PairedSums)
    target: _Mean = field(default_factory=_Mean)
    control: _Mean = field(default_factory=_Mean)

    def copy(self) -> "_Pair":
        """Return a copy that can be changed without changing this one."""
        paired = PairedSums(self.paired.rows, self.paired.units)
        return _Pair(paired, replace(self.target), replace(self.control))

    def add(self, rows: list[_Row], *, bets: bool) -> None:
        """Add or subtract rows; with `bets`, also the bets on the control's mean."""
        for sign in (1, -1):
            some = [row for row in rows if row.sign == sign]
            if some:
                self._add(some, sign, bets=bets)

    def _add(self, rows: list[_Row], sign: int, *, bets: bool) -> None:
        by_width: dict[int, list[_Row]] = {}
        for row in rows:
            by_width.setdefault(len(row.odds), []).append(row)
        for some in by_width.values():
            arm = np.array([row.arm for row in some])
            odds = np.stack([row.odds for row in some])
            target = np.stack([row.target for row in some])
            control = np.stack([row.control for row in some])
            reward = np.array([row.reward for row in some])
            pairs = pair_odds(arm, odds, target, control, reward)
            self._add_pairs(pairs, sign)
            places = np.arange(len(some))
            drawn = odds[places, arm]
            self.target.add(target[places, arm] / drawn, reward, sign)
            own = control[places, arm] / drawn
            self.control.add(own, reward, sign)
            if bets:
                self.control.bet(own, reward, sign)

    def _add_pairs(self, pairs: PairedRows, sign: int) -> None:
        units = row_units(pairs)
        n_rows = self.paired.rows + sign * len(pairs.apart)
        paired_units = self.paired.units + sign * units
        self.paired = PairedSums(n_rows, paired_units)

    def compare(
        self, metric: Metric, candidate: str, level: float, mean: _Mean
    ) -> Comparison:
        """Return the comparison with anytime-valid intervals at this level. `mean`
        contains the bets on the control's mean."""
        rows = self.paired.rows
        if rows < 2:
            reason = "fewer than 2 decisions have an amount"
            return _without_interval(metric, candidate, rows, reason)
        if self.target.weight <= 0 or self.control.weight <= 0:
            reason = "no decision could have been made by both sides"
            return _without_interval(metric, candidate, rows, reason)
        target = self.target.value
        control = self.control.value
        control_value = metric.value(control)
        difference_level, control_level = split_level(level)
        low, high = self.paired.bounds(difference_level)
        change = min(max(target - control, low), high)
        difference = Effect(change, low, high).times(metric.top - metric.low)
        control_mean = mean_interval(mean.bets, rows, control_level)
        return Comparison(
            metric=metric,
            candidate=candidate,
            rows=rows,
            value=metric.value(target),
            control_value=control_value,
            difference=difference,
            lift=anytime_lift(metric, difference, control_mean, control_value),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the sums as a snapshot contains them."""
        return {
            "rows": self.paired.rows,
            "paired": pack_units(self.paired.units.ravel()),
            "target": [self.target.total, self.target.weight],
            "control": [self.control.total, self.control.weight],
            "control_bets": pack_units(self.control.bets.ravel()),
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "_Pair":
        """Return the sums that `to_json` wrote."""
        units = unpack_units(given["paired"]).reshape(PairedSums().units.shape)
        bets = unpack_units(given["control_bets"]).reshape(no_mean_units().shape)
        target_total, target_weight = given["target"]
        control_total, control_weight = given["control"]
        return cls(
            PairedSums(given["rows"], units),
            _Mean(target_total, target_weight),
            _Mean(control_total, control_weight, bets),
        )


@dataclass(slots=True)
class Differences:
    """The sums for comparisons of all candidates in all metrics.

    A decision counts in a metric as soon as it has an amount of the metric. If units or
    pages are assigned to groups, all decisions of a unit form one row with the total of
    their amounts. The row belongs to the group of the unit's first decision with an
    amount.
    """

    metrics: dict[str, Metric] = field(default_factory=lambda: {REWARD: _REWARD})
    pairs: dict[tuple[str, str], _Pair] = field(default_factory=dict)
    units: Units = field(default_factory=Units)
    waiting: dict[tuple[str, str], list[_Row]] = field(default_factory=dict)
    scale: RewardScale = field(default_factory=lambda: _UNIT)

    @classmethod
    def of(
        cls,
        metrics: Mapping[str, Mapping[str, Any]],
        scale: RewardScale | None = None,
    ) -> "Differences":
        """Return empty sums for an experiment with these metrics, given as JSON.

        The reward is one of the metrics. `scale` contains its units and its range.
        """
        declared = {name: Metric.from_json(one) for name, one in metrics.items()}
        scale = scale or _UNIT
        role: MetricRole = "primary"
        if any(one.role == "primary" for one in declared.values()):
            role = "secondary"
        reward = declared.get(REWARD, Metric(REWARD, role=role))
        # a cap on the totals of units may be larger than the largest reward
        high = max(scale.high, reward.cap or scale.high)
        reward = replace(reward, low=scale.low, high=high)
        return cls({REWARD: reward} | declared | {REWARD: reward}, scale=scale)

    def copy(self) -> "Differences":
        """Return a copy that can be changed without changing this one."""
        return Differences(
            self.metrics,
            {key: pair.copy() for key, pair in self.pairs.items()},
            self.units.copy(),
            {key: list(rows) for key, rows in self.waiting.items()},
            self.scale,
        )

    def count(self, count: Count, drawn: Draw, arms: tuple[str, ...] | None) -> None:
        """Add a reward, or replace an earlier one."""
        value = self._in_units(count.value)
        before = None if count.before is None else self._in_units(count.before)
        self._take(REWARD, count.made, value, before, drawn, arms)

    def count_amount(
        self, amount: Amount, drawn: Draw, arms: tuple[str, ...] | None
    ) -> None:
        """Add an amount of a metric, or replace an earlier one."""
        metric = self.metrics.get(amount.metric)
        if metric is None or no_sums_reason(metric):
            return
        self._take(amount.metric, amount.made, amount.value, amount.before, drawn, arms)

    def _in_units(self, reward: float) -> float:
        """Convert a reward in [0, 1] to the caller's units."""
        return self.scale.low + reward * (self.scale.high - self.scale.low)

    def settled_copy(self) -> "Differences":
        """Return a copy to which all waiting rows are added."""
        now = self.copy()
        now._settle()
        return now

    def compare(self, metric: str, candidate: str, level: float) -> Comparison:
        """Return a comparison at this level. Rows that wait for the next batch are not
        included."""
        declared = self.metrics[metric]
        reason = no_sums_reason(declared)
        if reason:
            return _without_interval(declared, candidate, 0, reason)
        pair = self.pairs[self._key(metric, candidate)]
        mean = self.pairs[self._key(metric, POLICY)].control
        return pair.compare(declared, candidate, level, mean)

    def has_sums(self, metric: str, candidate: str) -> bool:
        """Return whether there are sums for a comparison of this candidate in this
        metric."""
        return self._key(metric, candidate) in self.pairs

    def _key(self, metric: str, candidate: str) -> tuple[str, str]:
        """Return the key of the sums. Once there are units, the policy is compared by
        unit, and decisions without a group are left out."""
        if candidate == POLICY and self._has_units:
            return metric, _BY_UNIT
        return metric, candidate

    @property
    def _has_units(self) -> bool:
        return any(candidate == _BY_UNIT for _, candidate in self.pairs)

    def _take(
        self,
        name: str,
        made: int,
        value: float,
        before: float | None,
        drawn: Draw,
        arms: tuple[str, ...] | None,
    ) -> None:
        if drawn.group is not None:
            self._take_unit(name, made, value, before, drawn)
            return
        if drawn.shadow and drawn.holdout > 0:
            return  # an incumbent beside another control
        control = _control_of(drawn)
        if control is None or drawn.holdout >= 1 or drawn.odds_drawn < LEAST_PROPENSITY:
            return
        policy = _policy_of(drawn, control)
        if policy is None:
            return
        candidates = {POLICY: policy}
        if arms is not None and 1 < len(arms) <= _MOST_ARMS:
            identity = np.eye(len(drawn.odds))
            candidates |= dict(zip(arms, identity, strict=False))
        for candidate, target in candidates.items():
            row = _Row(drawn.number, drawn.odds, target, control, 0.0, 1)
            self._wait((name, candidate), row, value)
            if before is not None:
                self._wait((name, candidate), row, before, sign=-1)

    def _take_unit(
        self, name: str, made: int, value: float, before: float | None, drawn: Draw
    ) -> None:
        """Update a unit's total after the amount of one of its decisions has
        changed."""
        share = drawn.holdout
        if not 0 < share < 1:
            return
        place = list(self.metrics).index(name)
        group = _CONTROL if drawn.group == "control" else _TARGET
        first = Unit(group, share, made, (None,) * len(self.metrics))
        unit = None
        if drawn.unit is not None:
            unit = self.units.get(drawn.unit)
        elif before is not None:
            unit = first.with_total(place, _exact(before))
        unit = unit or first
        if made < unit.made:
            self._assign_again(unit, first)
            unit = first._replace(totals=unit.totals)
        total = unit.totals[place]
        new_total = (total or 0) + _exact(value) - _exact(before or 0.0)
        if drawn.unit is not None:
            self.units.put(drawn.unit, unit.with_total(place, new_total))
        key = name, _BY_UNIT
        row = _unit_row(unit)
        self._wait(key, row, new_total / _UNITS)
        if total is not None:
            self._wait(key, row, total / _UNITS, sign=-1)

    def _assign_again(self, unit: Unit, first: Unit) -> None:
        """Move the totals of a unit to another group and share, because an earlier
        decision now has an amount."""
        for name, total in zip(self.metrics, unit.totals, strict=True):
            if total is not None:
                key = name, _BY_UNIT
                self._wait(key, _unit_row(first), total / _UNITS)
                self._wait(key, _unit_row(unit), total / _UNITS, sign=-1)

    def _wait(
        self, key: tuple[str, str], row: _Row, value: float, sign: int = 1
    ) -> None:
        """Queue a row that is added or subtracted later, in a batch."""
        reward = self.metrics[key[0]].scaled(value)
        rows = self.waiting.setdefault(key, [])
        rows.append(row._replace(reward=reward, sign=sign))
        if len(rows) >= _WAIT:
            self._settle()

    def _settle(self) -> None:
        """Add the waiting rows."""
        for key, rows in self.waiting.items():
            if rows:
                pair = self.pairs.setdefault(key, _Pair())
                pair.add(rows, bets=key[1] in (POLICY, _BY_UNIT))
        self.waiting = {}

    def to_json(self) -> dict[str, Any]:
        """Return the sums as a snapshot contains them."""
        now = self.settled_copy()
        pairs = []
        for key in sorted(now.pairs):
            metric, candidate = key
            sums = now.pairs[key].to_json()
            pairs.append({"metric": metric, "candidate": candidate, **sums})
        return {
            "metrics": {name: one.to_json() for name, one in now.metrics.items()},
            "pairs": pairs,
            "units": now.units.to_json(),
            "scale": [self.scale.low, self.scale.high],
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "Differences":
        """Return the sums that `to_json` wrote."""
        low, high = given["scale"]
        read = cls.of(given["metrics"], RewardScale(low, high))
        for one in given["pairs"]:
            read.pairs[one["metric"], one["candidate"]] = _Pair.from_json(one)
        read.units = Units.from_json(given["units"])
        return read

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Differences) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]


_TARGET_ODDS: Array = np.array([1.0, 0.0])
_CONTROL_ODDS: Array = np.array([0.0, 1.0])


def _unit_row(unit: Unit) -> _Row:
    """Return a row of sums for a unit. The row does not contain the reward."""
    odds = np.array([1 - unit.share, unit.share])
    return _Row(unit.group, odds, _TARGET_ODDS, _CONTROL_ODDS, 0.0, 1)


def _control_of(drawn: Draw) -> Array | None:
    """Return the propensities of the control, or of the incumbent in shadow mode."""
    if drawn.control is not None:
        return drawn.control
    return drawn.odds if drawn.shadow else None


def _policy_of(drawn: Draw, control: Array) -> Array | None:
    """Return the policy's propensities. If an incumbent acted, they are the recorded
    ones of the policy's own draw; otherwise they are computed from the mixture with the
    control. None if they were not recorded."""
    if drawn.shadow:
        return None if drawn.own is None else drawn.own.odds
    if drawn.holdout == 0:
        return drawn.odds
    odds = (drawn.odds - drawn.holdout * control) / (1 - drawn.holdout)
    odds = np.maximum(odds, 0.0)
    policy: Array = odds / odds.sum()
    return policy
