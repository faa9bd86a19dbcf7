"""The route of results: the policy against the control, by metric."""

from collections.abc import Sequence
from math import isnan

from oddsmith.contexts.metrics import Metric
from oddsmith.evaluation.one_look import Effect
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.http.routes.route import READ, Route
from oddsmith.server.messages import calls as m
from oddsmith.server.messages import figures as f
from oddsmith.server.statistics.differences import POLICY, Comparison, Differences

__all__ = ["ROUTES", "results"]

_LEVEL = 0.95


async def results(experiment: Experiment, _: m.Query) -> f.ResultsAnswer:
    """Compare the policy and each arm with the control."""
    position = experiment.follower.now.position
    differences = experiment.follower.sums.differences.settled_copy()
    candidates = {candidate for _, candidate in differences.pairs}
    arms = [arm for arm in experiment.arms or () if arm in candidates]
    control = experiment.design.control
    holdout = experiment.design.holdout
    share = None
    if experiment.assigner is not None and holdout is not None:
        share = experiment.assigner.share()
    return f.ResultsAnswer(
        experiment.name,
        position,
        control=None if control is None else control.name,
        holdout=share,
        by=None if holdout is None else holdout.by,
        level=_LEVEL,
        metrics=_figures(differences, [POLICY]),
        arms=_figures(differences, arms),
    )


def _figures(
    differences: Differences, candidates: Sequence[str]
) -> list[f.MetricResult]:
    """Return the results of some candidates in all metrics; their intervals hold
    simultaneously."""
    pairs = [
        (metric, candidate)
        for metric in differences.metrics.values()
        for candidate in candidates
        if (metric.name, candidate) in differences.pairs
    ]
    n_figures = len(differences.metrics) * len(candidates)
    level = 1 - (1 - _LEVEL) / max(1, n_figures)
    found = (differences.compare(metric.name, name, level) for metric, name in pairs)
    return [_result(one) for one in found]


def _result(one: Comparison) -> f.MetricResult:
    metric = one.metric
    return f.MetricResult(
        metric.name,
        metric.role,
        metric.better,
        metric.display_unit,
        one.candidate,
        one.rows,
        _number(one.value),
        _number(one.control_value),
        _effect(one.difference),
        _effect(one.lift),
        _outcome(metric, one.difference),
        one.refused or None,
    )


def _outcome(metric: Metric, difference: Effect) -> str:
    if isnan(difference.low):
        return "refused"
    if difference.low <= 0 <= difference.high:
        return "inconclusive"
    is_higher = difference.low > 0
    return "better" if is_higher == (metric.better == "higher") else "worse"


def _effect(effect: Effect) -> f.EffectFigures:
    return f.EffectFigures(
        _number(effect.value), _number(effect.low), _number(effect.high)
    )


def _number(value: float) -> float | None:
    """Return a number; None if it is unknown or infinite."""
    return None if isnan(value) or value in (float("inf"), float("-inf")) else value


ROUTES = (
    Route(
        "GET",
        "/v1/results",
        results,
        "The policy against the control, metric by metric.",
        READ,
        m.Query,
        f.ResultsAnswer,
    ),
)
