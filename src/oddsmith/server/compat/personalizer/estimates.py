"""Estimate the values of policies from a log, in the format of Personalizer's
evaluations: sums by time, and a value with an interval.

With w = π(a)/p(a) of the drawn action and r its reward in the caller's units, a summary
contains Σ w r, the number of events, Σ w and Σ (w r)². The average reward is Σ w r / Σ
w (`snips`), which changes its units like the rewards do. `confidenceInterval` is the
distance from the average to the farther end of the interval of `oddsmith evaluate`. If
the interval cannot be computed, there is no average, either.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from oddsmith.contexts.rewards import RewardScale
from oddsmith.core.arrays import Array, Ints
from oddsmith.core.errors import InvalidInput
from oddsmith.evaluation import (
    arm_target,
    estimate,
    first_target,
    logged,
    snips,
    uniform_target,
)
from oddsmith.evaluation.diagnostics import MISSING
from oddsmith.evaluation.rows import rewarded_rows, rows_of
from oddsmith.logs.table import Log
from oddsmith.server.compat.personalizer.times import time_text

__all__ = ["Candidate", "policy_results", "window_of"]

_WINDOWS = {
    300: "PT5M",
    3600: "PT1H",
    86_400: "P1D",
    604_800: "P7D",
    2_592_000: "P30D",
    31_536_000: "P365D",
}
# maximum number of time windows; a result is stored as one event of the log
_MOST_WINDOWS = 40
_SOURCES = {"Online": "served", "Baseline": "first", "Random": "uniform"}
_BY_LOG: dict[str, Callable[[Log], Array]] = {
    "uniform": uniform_target,
    "first": first_target,
}
_UNKNOWN = (
    "arguments must be uniform, first (the first action that is not excluded) or "
    "arm:NAME, because only these can be estimated from the log alone; arguments of "
    "Vowpal Wabbit cannot be run here: use `oddsmith evaluate` for policy files"
)


class Candidate(NamedTuple):
    """A policy that an evaluation compares: its name, and the arguments that define
    it."""

    name: str
    arguments: str


def policy_results(
    log: Log, custom: Sequence[Candidate], scale: RewardScale
) -> list[dict[str, Any]]:
    """Return the results of four kinds of policies: the served one, always the caller's
    first action, uniform random draws, and the custom policies."""
    seconds = window_of(log)
    results: list[dict[str, Any]] = []
    for source, arguments in _SOURCES.items():
        result = _result(log, Candidate(source, arguments), scale, seconds)
        results.append({"policySource": source} | result)
    for one in custom:
        result = _result(log, one, scale, seconds)
        results.append({"policySource": "Custom"} | result)
    return results


def window_of(log: Log) -> int:
    """Return the length of the log's time windows in seconds: the shortest with at most
    40 windows.

    >>> from oddsmith.logs.table import Log
    >>> hours = np.array([0, 30], dtype="datetime64[h]")
    >>> window_of(Log(arm=[0, 0], reward=[1, 0], time=hours))
    3600
    """
    times = _seconds(log)
    span = times.max() - times.min()
    for length in _WINDOWS:
        if span < (_MOST_WINDOWS - 1) * length:
            return length
    return max(_WINDOWS)


def _result(
    log: Log, one: Candidate, scale: RewardScale, seconds: int
) -> dict[str, Any]:
    """Return the result of one policy, or only the reason if the log cannot evaluate
    it."""
    result: dict[str, Any] = {"name": one.name, "arguments": one.arguments}
    try:
        odds = _odds(log, one.arguments)
    except InvalidInput as error:
        return result | {"summary": [], "totalSummary": None, "refused": str(error)}
    summaries: list[dict[str, Any]] = []
    for start, rows in _by_window(log, seconds):
        own_odds = None if odds is None else odds[rows]
        summary = _summary(log[rows], own_odds, scale)
        summaries.append(_head(start, seconds) | summary)
    first = float(_seconds(log).min())
    total = _head(first, seconds) | _summary(log, odds, scale)
    result["summary"] = summaries
    result["totalSummary"] = total
    result["refused"] = total["refused"]
    return result


def _head(start: float, seconds: int) -> dict[str, Any]:
    """Return the start and the length of a time window."""
    return {"timeStamp": time_text(start), "aggregateTimeWindow": _WINDOWS[seconds]}


def _odds(log: Log, arguments: str) -> Array | None:
    """Return the propensities (T, K) of a policy that the log alone can evaluate; None
    for the served policy."""
    if arguments == "served":
        return None
    kind, _, name = arguments.strip().partition(":")
    if kind == "arm" and name:
        return arm_target(log, name)
    if name or kind not in _BY_LOG:
        raise InvalidInput(_UNKNOWN)
    return _BY_LOG[kind](log)


def _summary(log: Log, odds: Array | None, scale: RewardScale) -> dict[str, Any]:
    """Return the sums over some rows, and the value with its interval. If the value
    cannot be estimated, it is null, and `refused` contains the reason."""
    n_rewards = int((~np.isnan(log.reward)).sum())
    sums: dict[str, Any] = {"ipsEstimatorDenominator": n_rewards}
    try:
        known = rewarded_rows(log)
        weights = np.ones(len(known))
        has_sums = True
        if odds is not None:
            rows = rows_of(log, odds)
            weights = rows.weights
            # if too much probability mass of the policy is missing, its sums mean
            # nothing
            has_sums = rows.missing.mean() <= MISSING
        gains = weights * scale.value(known.reward)
        sums["snipsEstimatorDenominator"] = float(weights.sum())
        sums["nonZeroProbability"] = int((weights > 0).sum())
        sums["ipsEstimatorNumerator"] = float(gains.sum()) if has_sums else None
        sums["sumOfSquares"] = float(gains @ gains) if has_sums else None
        terms = logged(log) if odds is None else snips(log, odds)
        found = estimate(terms)
    except InvalidInput as error:
        return sums | _no_value(str(error))
    if found.refused:
        return sums | _no_value(found.why)
    value = scale.value(found.value)
    low = scale.value(found.low)
    high = scale.value(found.high)
    return sums | {
        "averageReward": value,
        "confidenceInterval": max(high - value, value - low),
        "low": low,
        "high": high,
        "refused": None,
    }


def _no_value(why: str) -> dict[str, Any]:
    return {
        "averageReward": None,
        "confidenceInterval": None,
        "low": None,
        "high": None,
        "refused": why,
    }


def _by_window(log: Log, seconds: int) -> Iterator[tuple[float, Ints]]:
    """Yield the start of each time window with decisions, and its rows."""
    numbers = _seconds(log) // seconds
    order = np.argsort(numbers, kind="stable").astype(np.int64)
    windows, starts = np.unique(numbers[order], return_index=True)
    parts = np.split(order, starts[1:])
    for number, rows in zip(windows.tolist(), parts, strict=True):
        yield number * seconds, rows


def _seconds(log: Log) -> Array:
    """Return the times of decisions in seconds since 1970."""
    microseconds = np.asarray(log.time).astype("datetime64[us]").astype(np.int64)
    return microseconds / 1e6
