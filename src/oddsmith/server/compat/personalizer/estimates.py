"""Estimates of policies over a log, as Personalizer's evaluations tell them: sums by
time, a value and its interval.

With w = π(a)/p(a) of the drawn action and r its reward in the caller's units, a summary
has Σ w r, the number of events, Σ w and Σ (w r)². The average reward is Σ w r / Σ w
(`snips`), which moves with the units as rewards do, and `confidenceInterval` reaches
from it to the farther end of the interval of `oddsmith evaluate`. Where that is
refused, so is the average.
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
_MOST_WINDOWS = 40  # a result is an event of the log
_SOURCES = {"Online": "served", "Baseline": "first", "Random": "uniform"}
_BY_LOG: dict[str, Callable[[Log], Array]] = {
    "uniform": uniform_target,
    "first": first_target,
}
_UNKNOWN = (
    "arguments must be uniform, first (the first action that is not excluded) or "
    "arm:NAME, which can be judged by the log alone; those of Vowpal Wabbit cannot be "
    "run here: `oddsmith evaluate` judges policy files"
)


class Candidate(NamedTuple):
    """A policy that is asked about, by the name that it was given, and what it would
    do."""

    name: str
    arguments: str


def policy_results(
    log: Log, custom: Sequence[Candidate], scale: RewardScale
) -> list[dict[str, Any]]:
    """The result of what was served, of the caller's own order, of even odds, and of
    what was asked about."""
    told = [(source, Candidate(source, word)) for source, word in _SOURCES.items()]
    told += [("Custom", one) for one in custom]
    seconds = window_of(log)
    return [
        {"policySource": source} | _result(log, one, scale, seconds)
        for source, one in told
    ]


def window_of(log: Log) -> int:
    """Seconds of the windows that the log is told by: the shortest of which there are
    not too many.

    >>> from oddsmith.logs.table import Log
    >>> hours = np.array([0, 30], dtype="datetime64[h]")
    >>> window_of(Log(arm=[0, 0], reward=[1, 0], time=hours))
    3600
    """
    seconds = _seconds(log)
    span = seconds.max() - seconds.min()
    return next(
        (one for one in _WINDOWS if span < (_MOST_WINDOWS - 1) * one), max(_WINDOWS)
    )


def _result(
    log: Log, one: Candidate, scale: RewardScale, seconds: int
) -> dict[str, Any]:
    """What is known of one policy; where it cannot be run, only why."""
    about: dict[str, Any] = {"name": one.name, "arguments": one.arguments}
    try:
        odds = _odds(log, one.arguments)
    except InvalidInput as error:
        return about | {"summary": [], "totalSummary": None, "refused": str(error)}
    window = {"aggregateTimeWindow": _WINDOWS[seconds]}
    parts = [
        {"timeStamp": time_text(start)}
        | window
        | _summary(log[rows], None if odds is None else odds[rows], scale)
        for start, rows in _by_window(log, seconds)
    ]
    total = (
        {"timeStamp": time_text(float(_seconds(log).min()))}
        | window
        | _summary(log, odds, scale)
    )
    return about | {
        "summary": parts,
        "totalSummary": total,
        "refused": total["refused"],
    }


def _odds(log: Log, words: str) -> Array | None:
    """The odds (T, K) of a policy that the log alone can judge; None for what was
    served."""
    if words == "served":
        return None
    kind, _, name = words.strip().partition(":")
    if kind == "arm" and name:
        return arm_target(log, name)
    if name or kind not in _BY_LOG:
        raise InvalidInput(_UNKNOWN)
    return _BY_LOG[kind](log)


def _summary(log: Log, odds: Array | None, scale: RewardScale) -> dict[str, Any]:
    """The sums of some rows, and the value with its interval; null, and `refused`,
    where it cannot be defended."""
    sums: dict[str, Any] = {
        "ipsEstimatorDenominator": int((~np.isnan(log.reward)).sum())
    }
    try:
        known = rewarded_rows(log)
        rows = None if odds is None else rows_of(log, odds)
        weights = np.ones(len(known)) if rows is None else rows.weights
        gains = weights * scale.value(known.reward)
        sums |= {
            "snipsEstimatorDenominator": float(weights.sum()),
            "nonZeroProbability": int((weights > 0).sum()),
        }
        sums |= {
            "ipsEstimatorNumerator": float(gains.sum()),
            "sumOfSquares": float(gains @ gains),
        }
        # then these sums say nothing of this policy
        if rows is not None and rows.missing.mean() > MISSING:
            sums |= {"ipsEstimatorNumerator": None, "sumOfSquares": None}
        found = estimate(logged(log) if odds is None else snips(log, odds))
    except InvalidInput as error:
        return sums | _no_value(str(error))
    if found.refused:
        return sums | _no_value(found.why)
    value, low, high = (
        scale.value(end) for end in (found.value, found.low, found.high)
    )
    half = max(high - value, value - low)
    return sums | {
        "averageReward": value,
        "confidenceInterval": half,
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
    """The start of each window that has decisions, and its rows."""
    numbers = _seconds(log) // seconds
    order = np.argsort(numbers, kind="stable").astype(np.int64)
    starts = np.unique(numbers[order], return_index=True)
    for number, rows in zip(
        starts[0].tolist(), np.split(order, starts[1][1:]), strict=True
    ):
        yield number * seconds, rows


def _seconds(log: Log) -> Array:
    """The times of decisions in seconds since 1970."""
    return np.asarray(log.time).astype("datetime64[us]").astype(np.int64) / 1e6
