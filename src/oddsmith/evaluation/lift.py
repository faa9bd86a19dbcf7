"""Lift (relative effect) from anytime-valid intervals, outcomes ("better", "worse"),
and sums per month."""

from math import isnan
from typing import Any, Literal, TypeAlias

import numpy as np

from oddsmith.contexts.metrics import Metric
from oddsmith.evaluation.one_look import Effect
from oddsmith.evaluation.paired_bets import Bounds

__all__ = [
    "DAYS_PER_MONTH",
    "Outcome",
    "anytime_lift",
    "daily_volume",
    "lift_bounds",
    "metric_outcome",
    "monthly_sum",
    "split_level",
]

Outcome: TypeAlias = Literal["better", "worse", "inconclusive", "refused"]

DAYS_PER_MONTH = 30.4
_VOLUME_DAYS = 7
# Share of the error probability α that the interval of the control's mean uses.
_CONTROL_SHARE = 0.1


def split_level(level: float) -> tuple[float, float]:
    """Return the level of the difference and that of the control's mean at which both
    intervals hold simultaneously at `level`.

    >>> [round(one, 4) for one in split_level(0.95)]
    [0.955, 0.995]
    """
    alpha = 1 - level
    return 1 - (1 - _CONTROL_SHARE) * alpha, 1 - _CONTROL_SHARE * alpha


def lift_bounds(difference: Bounds, control: Bounds) -> Bounds:
    """Return the range of Δ / V over a rectangle of differences and control means.

    The range excludes 0 if and only if the interval of the difference does. If the
    control's mean may be 0, an end of the range is infinite.

    >>> lift_bounds(Bounds(0.1, 0.3), Bounds(1.0, 2.0))
    Bounds(low=0.05, high=0.3)
    >>> lift_bounds(Bounds(-0.1, 0.3), Bounds(0.0, 2.0))
    Bounds(low=-inf, high=inf)
    """
    mean_of_low = control.low
    if difference.low > 0:
        mean_of_low = control.high
    mean_of_high = control.high
    if difference.high > 0:
        mean_of_high = control.low
    low = _divide(difference.low, mean_of_low)
    high = _divide(difference.high, mean_of_high)
    return Bounds(low, high)


def _divide(difference: float, mean: float) -> float:
    if difference == 0:
        return 0.0
    if mean <= 0:
        return float("inf") if difference > 0 else float("-inf")
    return difference / mean


def anytime_lift(
    metric: Metric, difference: Effect, control_mean: Bounds, control_value: float
) -> Effect:
    """Return the lift over the control, from the difference in the metric's unit and
    the bounds of the control's scaled mean."""
    control = Bounds(metric.value(control_mean.low), metric.value(control_mean.high))
    low, high = lift_bounds(Bounds(difference.low, difference.high), control)
    if metric.low >= 0:
        low = max(low, -1.0)
    ratio = float("nan")
    if control_value > 0:
        ratio = min(max(difference.value / control_value, low), high)
    return Effect(ratio, low, high)


def metric_outcome(metric: Metric, difference: Effect) -> Outcome:
    """Return whether a difference is an improvement ("better") or not ("worse"), by the
    metric's direction.

    >>> metric_outcome(Metric("refunds", better="lower"), Effect(0.2, 0.1, 0.3))
    'worse'
    """
    low, high = difference.low, difference.high
    if isnan(low) or isnan(high):
        return "refused"
    if low <= 0 <= high:
        return "inconclusive"
    is_better = (low > 0) == (metric.better == "higher")
    return "better" if is_better else "worse"


def monthly_sum(difference: float, decisions_per_day: float) -> float:
    """Convert a difference per decision to a sum per month for a given traffic.

    >>> monthly_sum(0.5, 100)
    1520.0
    """
    return difference * decisions_per_day * DAYS_PER_MONTH


def daily_volume(times: Any) -> float | None:
    """Return the median number of decisions per day over the last 7 full days, or None
    if there is no full day or the times are not dates.

    >>> hours = np.arange(60) * np.timedelta64(1, "h")
    >>> daily_volume(np.datetime64("2026-03-01T12") + hours)
    24.0
    """
    if times is None or len(times) == 0 or times.dtype.kind != "M":
        return None
    days = times.astype("datetime64[D]").astype(np.int64)
    # The first and the last day of a log are rarely full.
    counts = np.bincount(days - days.min())[1:-1]
    if len(counts) == 0:
        return None
    return float(np.median(counts[-_VOLUME_DAYS:]))
