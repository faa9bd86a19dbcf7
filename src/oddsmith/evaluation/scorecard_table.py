"""A scorecard as a table and as JSON."""

from collections.abc import Sequence
from math import isfinite
from typing import Any

from oddsmith.evaluation.one_look import Effect
from oddsmith.evaluation.scorecard import MetricResult
from oddsmith.files.reports.page import Table

__all__ = ["result_sentence", "scorecard_record", "scorecard_table"]

_HEADERS = (
    "metric",
    "target",
    "control value",
    "target value",
    "lift",
    "interval of the lift",
    "difference",
    "interval of the difference",
    "result",
)


def scorecard_table(results: Sequence[MetricResult]) -> Table:
    """A row for each metric of each target."""
    rows = []
    for one in results:
        lift = f"{_percent(one.lift.low)} to {_percent(one.lift.high)}"
        difference = f"{_signed(one.difference.low)} to {_signed(one.difference.high)}"
        row = (
            ", ".join(filter(None, [one.metric.name, one.metric.display_unit])),
            one.target,
            _format(one.control_value, "{:.4g}"),
            _format(one.target_value, "{:.4g}"),
            _percent(one.lift.value),
            lift,
            _signed(one.difference.value),
            difference,
            _verdict(one),
        )
        rows.append(row)
    caption = "Each metric against the control; the intervals hold together"
    return Table(_HEADERS, tuple(rows), caption)


def result_sentence(one: MetricResult, level: float) -> str:
    """A result in a sentence.

    `level` is that of all intervals together.
    """
    name = one.metric.name
    if one.outcome == "refused":
        return f"{one.target}: no result for {name}: {one.refused}."
    at = f"{100 * level:g} % interval"
    effect = f"{_signed(one.difference.value)} {one.metric.display_unit}".rstrip()
    low, high = _signed(one.difference.low), _signed(one.difference.high)
    if isfinite(one.lift.value):
        effect = _percent(one.lift.value)
        low, high = _percent(one.lift.low), _percent(one.lift.high)
    return (
        f"{one.target}: {name} {effect} against {one.control}, {at} {low} to {high}: "
        f"{_verdict(one)}."
    )


def _verdict(one: MetricResult) -> str:
    """The outcome, and for a guardrail whether its limit holds."""
    if one.metric.role != "guardrail" or one.outcome == "refused":
        return one.outcome
    if one.is_within_limit:
        return "within the limit"
    if one.is_beyond_limit:
        return "beyond the limit"
    return "limit not decided"


def scorecard_record(results: Sequence[MetricResult]) -> list[dict[str, Any]]:
    """The results as JSON; what is not a finite number is null."""
    return [
        {
            "metric": one.metric.name,
            "role": one.metric.role,
            "better": one.metric.better,
            "unit": one.metric.display_unit,
            "cap": one.metric.cap,
            "target": one.target,
            "control": one.control,
            "rows": one.rows,
            "target_value": _finite(one.target_value),
            "control_value": _finite(one.control_value),
            "difference": _effect(one.difference),
            "lift": _effect(one.lift),
            "level": one.level,
            "interval": one.interval,
            "outcome": one.outcome,
            "limit": one.metric.limit,
            "within_limit": one.is_within_limit,
            "beyond_limit": one.is_beyond_limit,
            "refused": one.refused,
            "share_above_cap": one.share_above_cap,
            "uncapped_difference": _finite(one.uncapped_difference),
        }
        for one in results
    ]


def _effect(effect: Effect) -> dict[str, float | None]:
    return {name: _finite(value) for name, value in effect._asdict().items()}


def _finite(value: float) -> float | None:
    if isfinite(value):
        return value
    return None


def _format(value: float, pattern: str) -> str:
    if isfinite(value):
        return pattern.format(value)
    return "not known"


def _signed(value: float) -> str:
    return _format(value, "{:+.4g}")


def _percent(value: float) -> str:
    return _format(100 * value, "{:+.1f} %")
