"""Scorecard: each metric of each target compared with a control, with lifts and
simultaneous intervals."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from oddsmith.contexts.metrics import REWARD, Metric
from oddsmith.core.arrays import Array, Bools, Ints, number
from oddsmith.core.errors import InvalidInput
from oddsmith.core.names import check_choice, hint
from oddsmith.evaluation.diagnostics import broken_rules, check_rules, diagnose
from oddsmith.evaluation.estimators import ips
from oddsmith.evaluation.holdouts import rows_before_end, unit_numbers
from oddsmith.evaluation.lift import (
    Outcome,
    anytime_lift,
    metric_outcome,
    split_level,
)
from oddsmith.evaluation.mean_units import mean_interval, mean_units
from oddsmith.evaluation.one_look import (
    Effect,
    LiftScale,
    WeightedMean,
    mean_difference,
    mean_lift,
    weighted_mean,
)
from oddsmith.evaluation.paired_bets import (
    Bounds,
    PairedRows,
    PairedSums,
    pair_policies,
)
from oddsmith.evaluation.slates import Slates, slates_of
from oddsmith.logs.table import Log

__all__ = [
    "MetricResult",
    "SCORE_INTERVALS",
    "ScoreInterval",
    "metric_amounts",
    "score_metrics",
]

ScoreInterval: TypeAlias = Literal["anytime", "one_look"]
SCORE_INTERVALS: tuple[ScoreInterval, ...] = ("anytime", "one_look")
"""The kinds of intervals in a scorecard: valid at every look, or at a single look."""
_NAN = float("nan")
_NO_EFFECT = Effect(_NAN, _NAN, _NAN)


class MetricResult(NamedTuple):
    """A metric of a target compared with the control, in the metric's unit.

    The intervals of `difference` and `lift` hold simultaneously at `level`. `rows` is
    the number of decisions or units with an amount. If `refused` contains a reason, the
    refused numbers are NaN. `clipped_share` is the share of amounts (by unit: of
    totals) below `low` or above the cap, and `uncapped_difference` is the difference
    without clipping, which has no interval. `excluded_rows` is the number of rows that
    are left out, because they came after the end of the experiment or have no
    propensities of target or control.
    """

    metric: Metric
    target: str
    control: str
    rows: int
    target_value: float
    control_value: float
    difference: Effect
    lift: Effect
    level: float
    interval: ScoreInterval
    refused: str = ""
    clipped_share: float = 0.0
    uncapped_difference: float = _NAN
    excluded_rows: int = 0

    @property
    def outcome(self) -> Outcome:
        """Whether the target is better than the control, by the metric's direction."""
        return metric_outcome(self.metric, self.difference)

    @property
    def harm(self) -> Bounds:
        """The harm to the metric in the terms of its limit, relative or absolute;
        positive is worse. It is not known for a limit on the mean, because a running
        service tests this limit for each arm."""
        if self.metric.is_of_mean:
            return Bounds(float("nan"), float("nan"))
        effect = self.difference if self.metric.is_absolute else self.lift
        if self.metric.better == "higher":
            return Bounds(-effect.high, -effect.low)
        return Bounds(effect.low, effect.high)

    @property
    def is_within_limit(self) -> bool:
        """Whether the largest harm is at most the guardrail's limit."""
        limit = self.metric.limit
        return limit is not None and self.harm.high <= limit

    @property
    def is_beyond_limit(self) -> bool:
        """Whether the smallest harm is above the guardrail's limit."""
        limit = self.metric.limit
        return limit is not None and self.harm.low > limit


def metric_amounts(log: Log, metric: Metric) -> Array:
    """Return the amounts (T,) of a metric in its unit. A missing amount is replaced by
    the default; it is NaN if there is no default, or if the reward of the decision is
    still pending.

    The reward is also a metric. Its amounts are in [0, 1], or in the units given by
    `low` and `high` of the metric.
    """
    names = log.metrics or ()
    if metric.name in names and log.metric is not None:
        amounts = log.metric[:, list(names).index(metric.name)]
    elif metric.name == REWARD:
        span = min(metric.high, 1e300) - metric.low
        amounts = metric.low + log.reward * span
        if not np.isfinite(metric.high):
            amounts = log.reward
    else:
        listed = ", ".join([REWARD, *names])
        raise InvalidInput(
            f"metric {metric.name} is not a column of the log{hint(metric.name, names)}"
            f"; the log has {listed}"
        )
    if metric.default is None:
        return amounts
    is_closed = ~np.isnan(log.reward)
    if not is_closed.any():
        is_closed = np.ones(len(log), np.bool_)
    return np.where(np.isnan(amounts) & is_closed, metric.default, amounts)


def score_metrics(
    log: Log,
    targets: Mapping[str, object],
    control: object,
    metrics: Sequence[Metric] | None = None,
    *,
    control_name: str = "control",
    interval: ScoreInterval = "anytime",
    level: float = 0.95,
    lift: LiftScale = "log",
    floor: float | None = None,
    overrule: Sequence[str] = (),
) -> tuple[MetricResult, ...]:
    """Compare each metric (None: the reward) of each target with the control.

    `targets` and `control` are propensities (T, K) or (K,), as returned by
    `arm_target`. All m intervals hold simultaneously at `level`, because each has the
    level 1 - (1 - level)/m. `anytime` intervals are valid at every look (for the mean
    effect of the rows so far) and need a `cap` or an upper end for each metric; ratio
    metrics have `one_look` intervals. If units have several rows, one-look intervals
    are computed by unit. Three kinds of rows are left out: those without an amount if
    the metric has no default, those after the end of the experiment, and those with
    propensities of NaN.

    >>> rng = np.random.default_rng(0)
    >>> arm = rng.integers(2, size=4000)
    >>> sale = rng.random(4000) < 0.1 + 0.1 * arm
    >>> log = Log(
    ...     arm=arm,
    ...     reward=sale,
    ...     propensity=np.full(4000, 0.5),
    ...     arms=["old", "new"],
    ...     metric=20.0 * sale[:, None],
    ...     metrics=["revenue"],
    ... )
    >>> found = score_metrics(
    ...     log, {"new": [0, 1]}, [1, 0], [Metric("revenue", cap=50.0)]
    ... )
    >>> found[0].outcome, bool(found[0].difference.low > 1)
    ('better', True)
    """
    number("level", level, low=0, high=1, open_low=True, open_high=True)
    check_choice("interval", interval, SCORE_INTERVALS)
    if metrics is None:
        metrics = [_reward_metric()]
    if not targets or not metrics:
        raise InvalidInput(
            "a scorecard needs a target and a metric; got "
            f"{len(targets)} targets and {len(metrics)} metrics"
        )
    by_name = {metric.name: metric for metric in metrics}
    tables = {name: np.asarray(odds, np.float64) for name, odds in targets.items()}
    control_table = np.asarray(control, np.float64)
    is_compared = rows_before_end(log)
    for table in (*tables.values(), control_table):
        is_compared &= ~np.isnan(table).any(axis=-1)
    excluded_rows = int((~is_compared).sum())
    if excluded_rows == len(log):
        raise InvalidInput(
            "a scorecard needs rows that compare target and control; got none before "
            "the end of the experiment with the odds of both"
        )
    if excluded_rows:
        tables = {name: _at(table, is_compared) for name, table in tables.items()}
        control_table = _at(control_table, is_compared)
        log = log[is_compared]
    own_level = 1 - (1 - level) / (len(targets) * len(metrics))
    # Check the weights on all rows, because they do not depend on rewards.
    full = Log(**log.columns() | _no_rewards(log), arms=log.arms)
    names = check_rules(overrule)
    found = []
    for name, table in tables.items():
        pair = _Pair(full, table, control_table, floor, names, interval)
        for metric in metrics:
            question = _Question(
                metric, by_name, name, control_name, own_level, interval, lift
            )
            result = _score(log, pair, question)
            found.append(result._replace(excluded_rows=excluded_rows))
    return tuple(found)


def _at(table: Array, rows: Bools) -> Array:
    """Return the propensities (T, K) of some rows; propensities (K,) apply to every
    row."""
    return table if table.ndim == 1 else table[rows]


def _no_rewards(log: Log) -> dict[str, object]:
    return {"reward": np.zeros(len(log)), "metric": None, "advice": None}


class _Question(NamedTuple):
    """One entry of a scorecard: the metric, the target and the settings of the
    comparison."""

    metric: Metric
    metrics: Mapping[str, Metric]
    target: str
    control: str
    level: float
    interval: ScoreInterval
    lift: LiftScale


class _Pair:
    """Target and control on all rows of a log, without amounts."""

    def __init__(
        self,
        log: Log,
        target: object,
        control: object,
        floor: float | None,
        overrule: tuple[str, ...],
        interval: ScoreInterval,
    ) -> None:
        self.log = log
        self.floor = floor
        self.overrule = overrule
        self.kind = "normal" if interval == "one_look" else "anytime"
        self.target = ips(log, target)
        self.control = ips(log, control)

    @cached_property
    def units(self) -> Ints | None:
        """The unit of each row if units have several rows, otherwise its slate."""
        units = unit_numbers(self.log)
        if units is None and self.slates is not None:
            return self.slates.number
        return units

    @cached_property
    def slates(self) -> Slates | None:
        """The slates of rows."""
        return slates_of(self.log)

    @cached_property
    def target_weights(self) -> Array:
        """Weights w = π/p of the drawn arms (T,)."""
        assert self.target.weights is not None
        return self.target.weights

    @cached_property
    def control_weights(self) -> Array:
        """Weights u = β/p of the drawn arms (T,)."""
        assert self.control.weights is not None
        return self.control.weights

    @cached_property
    def broken(self) -> dict[str, str]:
        """A sentence for each rule that refuses the means of target or control."""
        floor = None if self.kind == "normal" else self.floor
        for terms in (self.target, self.control):
            found = broken_rules(diagnose(terms, floor), self.kind)
            against = {
                rule: why for rule, why in found.items() if rule not in self.overrule
            }
            if against:
                return against
        return {}

    @cached_property
    def paired_rows(self) -> PairedRows:
        """The input of paired bets, without rewards."""
        if self.slates is not None:
            raise InvalidInput(
                "anytime differences are about decisions; the log has slates: restrict "
                "it to a slot (log[log.slot == 1], --slot 1), or ask for one_look"
            )
        target, control = self.target.policy_rows, self.control.policy_rows
        assert target is not None
        assert control is not None
        rows = pair_policies(target, control, self.floor)
        if rows is None:
            raise InvalidInput(
                "anytime differences need the odds of all arms, or floor, the smallest "
                "propensity of the logging policy; the log has those of drawn arms"
            )
        return rows


def _score(log: Log, pair: _Pair, question: _Question) -> MetricResult:
    metric = question.metric
    numerator = metric
    denominator = None
    if metric.ratio is not None:
        numerator = _part(question, metric.ratio[0])
        denominator = metric_amounts(log, _part(question, metric.ratio[1]))
    amounts = metric_amounts(log, numerator)
    known = ~np.isnan(amounts)
    if denominator is not None:
        known &= ~np.isnan(denominator)
    capped = np.clip(amounts, numerator.low, numerator.top)
    result = MetricResult(
        metric=metric,
        target=question.target,
        control=question.control,
        rows=int(known.sum()),
        target_value=_NAN,
        control_value=_NAN,
        difference=_NO_EFFECT,
        lift=_NO_EFFECT,
        level=question.level,
        interval=question.interval,
    )
    if result.rows < 2:
        return result._replace(refused="fewer than 2 rows have an amount")
    is_clipped = amounts[known] != capped[known]
    result = result._replace(clipped_share=float(is_clipped.mean()))
    refused = "; ".join(pair.broken.values())
    means = None
    if not refused:
        try:
            means = _Means.of(pair, capped, denominator, known)
        except InvalidInput as error:
            refused = str(error)
    if means is not None:
        uncapped = _uncapped(pair, amounts, denominator, known)
        result = result._replace(
            target_value=means.target.value,
            control_value=means.control.value,
            uncapped_difference=uncapped,
        )
    if question.interval == "one_look" or denominator is not None:
        result = result._replace(interval="one_look")
        if means is None:
            return result._replace(refused=refused)
        difference = mean_difference(means.target, means.control, question.level)
        lift = mean_lift(means.target, means.control, question.level, question.lift)
        return result._replace(
            difference=difference,
            lift=lift,
        )
    return _score_anytime(result, pair, numerator, capped, known, refused)


def _reward_metric() -> Metric:
    return Metric(REWARD, role="primary", high=1.0)


def _part(question: _Question, name: str) -> Metric:
    """Return a metric of a ratio by its name."""
    if name == REWARD:
        return question.metrics.get(name, _reward_metric())
    return question.metrics.get(name, Metric(name))


class _Means(NamedTuple):
    """The weighted means of target and control on the same rows."""

    target: WeightedMean
    control: WeightedMean

    @classmethod
    def of(
        cls, pair: _Pair, amounts: Array, denominator: Array | None, known: Bools
    ) -> "_Means":
        units = pair.units
        own = None
        if units is not None:
            _, own = np.unique(units[known], return_inverse=True)
        below = None if denominator is None else denominator[known]
        y = amounts[known]
        target = weighted_mean(pair.target_weights[known], y, below, own)
        control = weighted_mean(pair.control_weights[known], y, below, own)
        return cls(
            target,
            control,
        )


def _uncapped(
    pair: _Pair, amounts: Array, denominator: Array | None, known: Bools
) -> float:
    means = _Means.of(pair, amounts, denominator, known)
    return means.target.value - means.control.value


def _score_anytime(
    result: MetricResult,
    pair: _Pair,
    metric: Metric,
    capped: Array,
    known: Bools,
    refused: str,
) -> MetricResult:
    if not metric.is_bounded:
        return result._replace(
            refused=(
                f"anytime intervals of {metric.name} need an upper end: declare a cap, "
                "or ask for one_look"
            )
        )
    # Paired bounds are valid with missing probability, so a broken overlap rule alone
    # is no reason to refuse.
    if set(pair.broken) - {"overlap"}:
        return result._replace(refused=refused)
    width = metric.top - metric.low
    reward = (capped - metric.low) / width
    try:
        rows = pair.paired_rows._replace(reward=reward).at(known)
    except InvalidInput as error:
        return result._replace(refused=str(error))
    difference_level, control_level = split_level(result.level)
    sums = PairedSums()
    sums.add(rows)
    low, high = sums.bounds(difference_level)
    value = float(rows.differences(float(rows.reward.mean())).mean())
    if not refused:
        value = (result.target_value - result.control_value) / width
    difference = Effect(min(max(value, low), high), low, high).times(width)
    result = result._replace(difference=difference, refused=refused)
    if refused:
        return result
    units = mean_units(pair.control_weights[known], rows.reward)
    control_mean = mean_interval(units, len(rows.reward), control_level)
    lift = anytime_lift(metric, difference, control_mean, result.control_value)
    return result._replace(lift=lift)
