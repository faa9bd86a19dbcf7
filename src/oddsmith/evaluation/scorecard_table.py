"""A scorecard as text and as JSON."""

from collections.abc import Mapping, Sequence
from math import floor, isfinite, log10
from typing import Any, NamedTuple

from oddsmith.evaluation.lift import monthly_sum
from oddsmith.evaluation.one_look import Effect
from oddsmith.evaluation.sample_ratio import SampleRatio
from oddsmith.evaluation.scorecard import MetricResult
from oddsmith.evaluation.segments import SegmentScores
from oddsmith.files.reports.page import Table

__all__ = [
    "Scorecard",
    "result_sentence",
    "scorecard_record",
    "scorecard_table",
    "scorecard_text",
]

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


class Scorecard(NamedTuple):
    """The results of all metrics, the results of the primary metric by segment and by
    slot, and the checks.

    `level` is the simultaneous level of all intervals. `per_day` is the number of rows
    per day, or None if it is not known.
    """

    level: float
    control: str
    results: tuple[MetricResult, ...]
    segments: Mapping[str, SegmentScores] = {}
    slots: Mapping[int, tuple[MetricResult, ...]] = {}
    sample_ratio: SampleRatio | None = None
    per_day: float | None = None
    notes: tuple[str, ...] = ()


def scorecard_text(found: Scorecard) -> str:
    """Return a scorecard as text."""
    sentences = []
    if found.sample_ratio is not None and found.sample_ratio.is_mismatch:
        sentences.append(_ratio_sentence(found.sample_ratio))
    for one in found.results:
        sentences.append(result_sentence(one, found.level))
    sentences += _month_notes(found)
    details = [*_range_notes(found.results), *_slot_notes(found.slots)]
    details += _segment_notes(found.segments)
    if found.sample_ratio is not None and not found.sample_ratio.is_mismatch:
        details.append(_ratio_sentence(found.sample_ratio))
    parts = [
        "\n".join(sentences),
        str(scorecard_table(found.results)),
        "\n".join(details),
        "\n".join(found.notes),
    ]
    return "\n\n".join(filter(None, parts))


def scorecard_table(results: Sequence[MetricResult]) -> Table:
    """Return a row for each metric of each target."""
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
    """Return a result as a sentence.

    `level` is the simultaneous level of all intervals.
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
    """Return the outcome, and for a guardrail whether its limit holds."""
    if one.metric.role != "guardrail" or one.outcome == "refused":
        return one.outcome
    if one.is_within_limit:
        return "within the limit"
    if one.is_beyond_limit:
        return "beyond the limit"
    return "limit not decided"


def _month_notes(found: Scorecard) -> list[str]:
    """Return the differences as sums per month, in a sentence per target."""
    sums: dict[str, list[str]] = {}
    for one in found.results:
        month = _per_month(one, found.per_day)
        if month is None:
            continue
        unit = f" {one.metric.display_unit}".rstrip()
        sums.setdefault(one.target, []).append(
            f"{one.metric.name} {_rounded(month.value)}{unit} "
            f"({_rounded(month.low)} to {_rounded(month.high)})"
        )
    return [
        f"{target}: per month, at {found.per_day:,.5g} per day: {'; '.join(parts)}."
        for target, parts in sums.items()
    ]


def _rounded(value: float) -> str:
    """Return a sum with three significant digits.

    >>> _rounded(24021.4), _rounded(-0.123456)
    ('+24,000', '-0.123')
    """
    digits = 2 - floor(log10(abs(value))) if value else 0
    rounded = round(value, digits)
    if digits <= 0:
        return f"{rounded:+,.0f}"
    return f"{rounded:+.{digits}f}"


def _per_month(one: MetricResult, per_day: float | None) -> Effect | None:
    """Return the difference as a sum per month. Return None for ratios, without an
    interval, or if the number of rows per day is unknown."""
    has_interval = one.outcome != "refused"
    if per_day is None or one.metric.ratio is not None or not has_interval:
        return None
    return one.difference.times(monthly_sum(1.0, per_day))


def _ratio_sentence(check: SampleRatio) -> str:
    """Return the result of the sample ratio check as a sentence."""
    if not check.is_mismatch:
        return (
            "Sample ratio: arms were drawn as often as their propensities say (p = "
            f"{check.p_value:.2g})."
        )
    pairs = zip(check.counts.tolist(), check.expected.tolist(), strict=True)
    counts = ", ".join(f"{count:,} of {expected:,.0f}" for count, expected in pairs)
    return (
        "Sample ratio mismatch: these results are not valid, because arms were not "
        f"drawn as often as their propensities say (p = {check.p_value:.2g}; "
        f"draws of expected draws: {counts})."
    )


def _range_notes(results: Sequence[MetricResult]) -> list[str]:
    """Return notes on how many amounts are outside a metric's range, and on the
    difference without clipping."""
    notes = []
    for one in results:
        if not one.clipped_share:
            continue
        share = 100 * one.clipped_share
        note = (
            f"{one.metric.name} is kept in [{one.metric.low:g}, {one.metric.top:g}]; "
            f"{share:.2g} % of amounts are outside."
        )
        if isfinite(one.uncapped_difference):
            note += (
                f" Without this range the difference of {one.target} is "
                f"{one.uncapped_difference:+.4g}, without an interval."
            )
        notes.append(note)
    return notes


def _slot_notes(slots: Mapping[int, tuple[MetricResult, ...]]) -> list[str]:
    """Return a sentence per slot and target."""
    return [
        f"  slot {slot}: {result_sentence(one, one.level)}"
        for slot, results in slots.items()
        for one in results
    ]


def _segment_notes(segments: Mapping[str, SegmentScores]) -> list[str]:
    """Return the result of the test that all effects are equal, followed by a sentence
    per segment."""
    notes = []
    for target, found in segments.items():
        q = found.heterogeneity
        if q is not None:
            differs = "No segment differs" if q.p_value > 0.05 else "Segments differ"
            notes.append(f"{target}: {differs} (Cochran's Q, p = {q.p_value:.2g}).")
        for name, one in found.results.items():
            notes.append(f"  {name}: {result_sentence(one, one.level)}")
    return notes


def scorecard_record(found: Scorecard) -> dict[str, Any]:
    """Return a scorecard as JSON; numbers that are not finite are null."""
    segments = {}
    for target, scores in found.segments.items():
        q = scores.heterogeneity
        segments[target] = {
            "segments": {
                name: _result_record(one) for name, one in scores.results.items()
            },
            "cochran_q": None if q is None else q._asdict(),
        }
    slots = {
        str(slot): [_result_record(one) for one in results]
        for slot, results in found.slots.items()
    }
    return {
        "control": found.control,
        "level": found.level,
        "results": [_result_record(one, found.per_day) for one in found.results],
        "segments": segments,
        "slots": slots,
        "sample_ratio": _ratio_record(found.sample_ratio),
        "per_day": found.per_day,
        "notes": list(found.notes),
    }


def _ratio_record(check: SampleRatio | None) -> dict[str, Any] | None:
    if check is None:
        return None
    return {
        "counts": check.counts.tolist(),
        "expected": check.expected.tolist(),
        "p_value": check.p_value,
        "is_mismatch": check.is_mismatch,
    }


def _result_record(one: MetricResult, per_day: float | None = None) -> dict[str, Any]:
    """Return one result as JSON."""
    metric = one.metric
    month = _per_month(one, per_day)
    record: dict[str, Any] = {
        "metric": metric.name,
        "role": metric.role,
        "better": metric.better,
        "unit": metric.display_unit,
        "cap": metric.cap,
        "limit": metric.limit,
    }
    for name in ("target", "control", "rows", "excluded_rows", "level", "interval"):
        record[name] = getattr(one, name)
    for name in ("outcome", "refused", "clipped_share"):
        record[name] = getattr(one, name)
    for name in ("target_value", "control_value", "uncapped_difference"):
        record[name] = _finite(getattr(one, name))
    for name in ("difference", "lift"):
        record[name] = _effect(getattr(one, name))
    record["per_month"] = None if month is None else _effect(month)
    record["within_limit"] = one.is_within_limit
    record["beyond_limit"] = one.is_beyond_limit
    return record


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
