"""What pages show of an experiment: answers made from the sums that are folded beside
its state."""

from oddsmith.contexts.rewards import RewardScale
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.http.routes.route import READ, Route
from oddsmith.server.messages import calls as m
from oddsmith.server.messages import figures as f
from oddsmith.server.monitor.open_windows import open_windows
from oddsmith.server.statistics.bucket import Bucket, Row
from oddsmith.server.statistics.values import POLICY, SERVED, UNIFORM, Value

__all__ = ["ROUTES", "series", "values"]

_TOLD = 20  # arms by name
_LEVEL = 0.95
_EMPTY: Row = [0.0] * 7


async def series(experiment: Experiment, query: f.SeriesQuery) -> f.SeriesAnswer:
    """Sums by time, in all and by arm."""
    sums, position = experiment.follower.sums, experiment.follower.now.position
    width, buckets = sums.series.buckets(query.range, sums.named)
    numbers = (
        range(min(buckets), (sums.series.newest or 0) * 10 // round(width) + 1)
        if buckets
        else range(0)
    )
    rows = [buckets.get(number) or Bucket() for number in numbers]
    names = _most_drawn(rows)
    rest = [_others(bucket, names) for bucket in rows]
    return f.SeriesAnswer(
        experiment.name,
        position,
        query.range,
        width,
        [number * width for number in numbers],
        [int(bucket.counts[0]) for bucket in rows],
        [int(bucket.counts[1]) for bucket in rows],
        [int(bucket.counts[2]) for bucket in rows],
        [bucket.counts[3] for bucket in rows],
        {
            name: _columns([bucket.arms.get(name, _EMPTY) for bucket in rows])
            for name in names
        },
        _columns(rest) if any(row is not _EMPTY for row in rest) else None,
    )


def _most_drawn(rows: list[Bucket]) -> list[str]:
    """The arms that were drawn most, these first; of equals by name."""
    drawn: dict[str, float] = {}
    for bucket in rows:
        for name, row in bucket.arms.items():
            drawn[name] = drawn.get(name, 0.0) + row[1]
    return sorted(drawn, key=lambda name: (-drawn[name], name))[:_TOLD]


def _others(bucket: Bucket, names: list[str]) -> Row:
    """The sums of all arms but these."""
    rest = [row for name, row in bucket.arms.items() if name not in names]
    rest += [] if bucket.others is None else [bucket.others]
    return [sum(column) for column in zip(*rest, strict=True)] if rest else _EMPTY


def _columns(rows: list[Row]) -> f.ArmColumns:
    _, drawn, odds, rewarded, *sums = map(list, zip(*rows, strict=True))
    return f.ArmColumns(list(map(int, drawn)), odds, list(map(int, rewarded)), *sums)


async def values(experiment: Experiment, _: m.Query) -> f.ValuesAnswer:
    """What was served is worth, and what else would have been."""
    sums, position = experiment.follower.sums, experiment.follower.now.position
    found = list(sums.values.estimates(sums.named, _LEVEL, shadow=sums.shadow))
    told = [_told(one, experiment.scale) for one in found]
    still = open_windows(sums, experiment.settings)
    sentence = (
        f"{_worth(told)} {still.sentence}" if still.word != "well" else _worth(told)
    )
    return f.ValuesAnswer(experiment.name, position, _LEVEL, "anytime", told, sentence)


def _told(one: Value, scale: RewardScale) -> f.TargetValue:
    """A value in the caller's units."""
    value, low, high = (
        None if number is None else scale.value(number)
        for number in (one.value, one.low, one.high)
    )
    return f.TargetValue(
        one.name, one.kind, value, low, high, one.n, one.ess, one.refused, one.is_cut
    )


def _worth(told: list[f.TargetValue]) -> str:
    """One sentence on what it is worth, or why that is not known yet."""
    by_kind = {one.kind: one for one in told}
    served, ours = by_kind[SERVED], by_kind.get(POLICY)
    if served.refused is not None:
        return f"Nothing can be said yet: {served.refused}."
    first = (
        f"What was served earned {_shown(served)} a decision, over {served.n:,} "
        "decisions"
    )
    other, what = (
        (ours, "the policy in its place")
        if ours is not None
        else (by_kind[UNIFORM], "even odds")
    )
    if other.refused is not None:
        return (
            f"{first}; what {what} would have earned cannot be told: {other.refused}."
        )
    second = f"{first}; {what} would have earned {_shown(other)}"
    if _above(served, other):
        return f"{second}: less."
    return (
        f"{second}: more."
        if _above(other, served)
        else f"{second}: that they differ cannot be told yet."
    )


def _shown(one: f.TargetValue) -> str:
    outside = "; the mean of weighted rewards is outside" if one.is_cut else ""
    return f"{one.value:.4g} ({one.low:.4g} to {one.high:.4g}{outside})"


def _above(one: f.TargetValue, other: f.TargetValue) -> bool:
    return one.low is not None and other.high is not None and one.low > other.high


ROUTES = (
    Route(
        "GET",
        "/v1/series",
        series,
        "Sums by time, in all and by arm.",
        READ,
        f.SeriesQuery,
        f.SeriesAnswer,
        examples={"range": "day"},
    ),
    Route(
        "GET",
        "/v1/values",
        values,
        "What it is worth, and what else would be.",
        READ,
        m.Query,
        f.ValuesAnswer,
    ),
)
