"""Route for the results of an experiment, which compare the policy with the control by
metric."""

from collections.abc import Sequence
from math import isfinite

from oddsmith.evaluation.lift import metric_outcome
from oddsmith.evaluation.one_look import Effect
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.http.routes.route import READ, Route
from oddsmith.server.messages import calls as m
from oddsmith.server.messages import figures as f
from oddsmith.server.statistics.differences import (
    POLICY,
    Comparison,
    Differences,
    no_sums_reason,
)

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
        experiment=experiment.name,
        position=position,
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
    """Return the results of some candidates in all metrics. The intervals of all
    candidates hold simultaneously."""
    pairs = []
    for metric in differences.metrics.values():
        has_no_sums = bool(differences.pairs and no_sums_reason(metric))
        for candidate in candidates:
            is_explained = has_no_sums and candidate == POLICY
            if is_explained or differences.has_sums(metric.name, candidate):
                pairs.append((metric, candidate))
    n_figures = len(differences.metrics) * len(candidates)
    level = 1 - (1 - _LEVEL) / max(1, n_figures)
    found = (differences.compare(metric.name, name, level) for metric, name in pairs)
    return [_result(one) for one in found]


def _result(one: Comparison) -> f.MetricResult:
    metric = one.metric
    return f.MetricResult(
        metric=metric.name,
        role=metric.role,
        better=metric.better,
        display_unit=metric.display_unit,
        candidate=one.candidate,
        rows=one.rows,
        value=_number(one.value),
        control_value=_number(one.control_value),
        difference=_effect(one.difference),
        lift=_effect(one.lift),
        outcome=metric_outcome(metric, one.difference),
        refused=one.refused or None,
    )


def _effect(effect: Effect) -> f.EffectFigures:
    return f.EffectFigures(
        value=_number(effect.value),
        low=_number(effect.low),
        high=_number(effect.high),
    )


def _number(value: float) -> float | None:
    """Return a number; None if it is unknown or infinite."""
    return value if isfinite(value) else None


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
