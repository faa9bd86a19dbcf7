"""Routes for the charts of the dashboard: counts and rewards by time, and estimated
values of target policies."""

from oddsmith.contexts.rewards import RewardScale
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.http.routes.route import READ, Route
from oddsmith.server.messages import calls as m
from oddsmith.server.messages import figures as f
from oddsmith.server.monitor.open_windows import open_windows
from oddsmith.server.statistics.series import ArmRow, Bucket
from oddsmith.server.statistics.values import POLICY, SERVED, UNIFORM, Value

__all__ = ["ROUTES", "series", "values"]

_NAMED_ARMS = 20
_LEVEL = 0.95
_EMPTY = ArmRow()


async def series(experiment: Experiment, query: f.SeriesQuery) -> f.SeriesAnswer:
    """Return counts and rewards by time, in total and by arm."""
    sums = experiment.follower.sums
    position = experiment.follower.now.position
    width, buckets = sums.series.buckets(query.range, sums.named)
    numbers = range(0)
    if buckets:
        newest = (sums.series.newest or 0) * 10 // round(width)
        numbers = range(min(buckets), newest + 1)
    rows = [buckets.get(number) or Bucket() for number in numbers]
    names = _most_drawn(rows)
    arms: dict[str, f.ArmColumns] = {}
    for name in names:
        arms[name] = _columns([bucket.arms.get(name, _EMPTY) for bucket in rows])
    rest = [_others(bucket, names) for bucket in rows]
    has_others = any(row is not _EMPTY for row in rest)
    return f.SeriesAnswer(
        experiment.name,
        position,
        query.range,
        width,
        t=[number * width for number in numbers],
        decisions=[int(bucket.shown) for bucket in rows],
        rewards=[int(bucket.counted) for bucket in rows],
        defaults=[int(bucket.defaults) for bucket in rows],
        reward_sum=[bucket.total for bucket in rows],
        arms=arms,
        others=_columns(rest) if has_others else None,
    )


def _most_drawn(rows: list[Bucket]) -> list[str]:
    """Return the arms that were drawn most often, sorted by decreasing number of draws,
    then by name."""
    drawn: dict[str, float] = {}
    for bucket in rows:
        for name, row in bucket.arms.items():
            drawn[name] = drawn.get(name, 0.0) + row.drawn
    return sorted(drawn, key=lambda name: (-drawn[name], name))[:_NAMED_ARMS]


def _others(bucket: Bucket, names: list[str]) -> ArmRow:
    """Return the sums of all other arms."""
    rest = [row for name, row in bucket.arms.items() if name not in names]
    if bucket.others is not None:
        rest.append(bucket.others)
    if not rest:
        return _EMPTY
    total = ArmRow()
    for row in rest:
        total.add(row)
    return total


def _columns(rows: list[ArmRow]) -> f.ArmColumns:
    """Return the columns of one arm, with one entry for each bucket of time."""
    return f.ArmColumns(
        drawn=[int(row.drawn) for row in rows],
        odds_sum=[row.odds for row in rows],
        rewarded=[int(row.rewarded) for row in rows],
        reward_sum=[row.total for row in rows],
        weighted_sum=[row.weighted for row in rows],
        weighted_squares=[row.squares for row in rows],
    )


async def values(experiment: Experiment, _: m.Query) -> f.ValuesAnswer:
    """Return the estimated values of the served policy and of other target policies."""
    sums = experiment.follower.sums
    position = experiment.follower.now.position
    estimates = sums.values.estimates(sums.named, _LEVEL, shadow=sums.shadow)
    targets = [_target_value(one, experiment.scale) for one in estimates]
    sentence = _values_sentence(targets)
    windows = open_windows(sums, experiment.settings)
    if windows.word != "well":
        sentence = f"{sentence} {windows.sentence}"
    return f.ValuesAnswer(
        experiment.name, position, _LEVEL, "anytime", targets, sentence
    )


def _target_value(one: Value, scale: RewardScale) -> f.TargetValue:
    """Return a value in the caller's units."""

    def in_units(number: float | None) -> float | None:
        if number is None:
            return None
        return scale.value(number)

    return f.TargetValue(
        one.name,
        one.kind,
        value=in_units(one.value),
        low=in_units(one.low),
        high=in_units(one.high),
        n=one.n,
        ess=one.ess,
        refused=one.refused,
        is_cut=one.is_cut,
    )


def _values_sentence(targets: list[f.TargetValue]) -> str:
    """Return a sentence that compares the values, or the reason why they are not known
    yet."""
    by_kind = {one.kind: one for one in targets}
    served = by_kind[SERVED]
    if served.refused is not None:
        return f"Nothing can be said yet: {served.refused}."
    first = (
        f"What was served earned {_interval(served)} a decision, over {served.n:,} "
        "decisions"
    )
    if POLICY in by_kind:
        other = by_kind[POLICY]
        what = "the policy in its place"
    else:
        other = by_kind[UNIFORM]
        what = "even odds"
    if other.refused is not None:
        return f"{first}; what {what} would have earned is not known: {other.refused}."
    second = f"{first}; {what} would have earned {_interval(other)}"
    if _is_above(served, other):
        return f"{second}: less."
    if _is_above(other, served):
        return f"{second}: more."
    return f"{second}: a difference is not proved yet."


def _interval(one: f.TargetValue) -> str:
    """Format a value with its interval."""
    text = f"{one.low:.4g} to {one.high:.4g}"
    if one.is_cut:
        text = f"{text}; the mean of weighted rewards is outside"
    return f"{one.value:.4g} ({text})"


def _is_above(one: f.TargetValue, other: f.TargetValue) -> bool:
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
        "Values of the served decisions and of other targets.",
        READ,
        m.Query,
        f.ValuesAnswer,
    ),
)
