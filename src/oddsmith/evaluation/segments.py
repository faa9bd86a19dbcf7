"""Segments: the effect in each declared part of the traffic, and a test whether effects
differ."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from oddsmith.contexts.metrics import Metric
from oddsmith.core.arrays import Bools
from oddsmith.core.contexts import rows as context_rows
from oddsmith.core.errors import InvalidInput
from oddsmith.evaluation.one_look import Effect, LiftScale
from oddsmith.evaluation.scorecard import MetricResult, ScoreInterval, score_metrics
from oddsmith.logs.table import Log

__all__ = [
    "Heterogeneity",
    "SegmentScores",
    "check_heterogeneity",
    "score_segments",
    "segment_level",
    "segment_masks",
]


class Heterogeneity(NamedTuple):
    """Cochran's Q of the effects of segments. `statistic` has a χ² distribution with
    `degrees` of freedom if all effects are equal."""

    statistic: float
    degrees: int
    p_value: float


def segment_level(level: float, n_segments: int) -> float:
    """Return the level of each of S segments at which all S intervals hold
    simultaneously.

    >>> round(segment_level(0.95, 5), 4)
    0.99
    """
    return 1 - (1 - level) / n_segments


def check_heterogeneity(effects: Mapping[str, Effect]) -> Heterogeneity:
    """Return Cochran's Q, Σ (e_s - ē)² / s_s² with ē weighted by 1 / s².

    >>> effects = {
    ...     "mobile": Effect(0.03, 0.01, 0.05, 0.01),
    ...     "desktop": Effect(0.01, -0.01, 0.03, 0.01),
    ... }
    >>> found = check_heterogeneity(effects)
    >>> round(found.statistic, 9), found.degrees, round(found.p_value, 4)
    (2.0, 1, 0.1573)
    """
    from scipy.stats import chi2

    if len(effects) < 2:
        raise InvalidInput(f"Q needs at least 2 segments; got {len(effects)}")
    values = np.array([one.value for one in effects.values()])
    errors = np.array([one.standard_error for one in effects.values()])
    if not (errors > 0).all():
        raise InvalidInput(
            "Q needs the standard error of each segment, above 0; got "
            f"{errors.tolist()}"
        )
    precision = errors**-2
    mean = precision @ values / precision.sum()
    statistic = float(precision @ (values - mean) ** 2)
    degrees = len(effects) - 1
    return Heterogeneity(statistic, degrees, float(chi2.sf(statistic, degrees)))


class SegmentScores(NamedTuple):
    """The result of each segment by name, with intervals that hold simultaneously, and
    the test that all effects are equal. The test is None if fewer than 2 segments have
    an effect."""

    results: dict[str, MetricResult]
    heterogeneity: Heterogeneity | None


def segment_masks(
    log: Log, segments: Mapping[str, Sequence[object]]
) -> dict[str, Bools]:
    """Return a mask (T,) of the rows of each declared segment, by `field=value` of the
    context.

    >>> log = Log(
    ...     arm=[0, 1],
    ...     reward=[1, 0],
    ...     context=[{"device": "mobile"}, {"device": "desktop"}],
    ... )
    >>> segment_masks(log, {"device": ["mobile"]})["device=mobile"].tolist()
    [True, False]
    """
    if log.context is None:
        raise InvalidInput("segments need the column context of the log; got none")
    contexts = context_rows(log.context)
    masks = {}
    for field, values in segments.items():
        own = [_field(context, field) for context in contexts]
        for value in values:
            masks[f"{field}={value}"] = np.array([one == value for one in own])
    return masks


def _field(context: Any, name: str) -> object:
    try:
        return context[name]
    except (KeyError, IndexError, TypeError, ValueError):
        return None


def score_segments(
    log: Log,
    masks: Mapping[str, Bools],
    target: object,
    control: object,
    metric: Metric,
    *,
    target_name: str = "target",
    control_name: str = "control",
    interval: ScoreInterval = "anytime",
    level: float = 0.95,
    lift: LiftScale = "log",
    floor: float | None = None,
    overrule: Sequence[str] = (),
) -> SegmentScores:
    """Score a metric in each of S segments, each at level 1 - (1 - level)/S. Other
    settings are those of `score_metrics`.

    Cochran's Q compares the one-look effects of the segments.
    """
    own_level = segment_level(level, len(masks))
    results = {}
    effects = {}
    for name, mask in masks.items():
        rows = np.flatnonzero(mask)
        if len(rows) < 2:
            continue
        parts = []
        for odds in (target, control):
            table = np.asarray(odds, dtype=np.float64)
            parts.append(table if table.ndim == 1 else table[rows])
        score = partial(
            score_metrics,
            log[rows],
            {target_name: parts[0]},
            parts[1],
            [metric],
            control_name=control_name,
            level=own_level,
            lift=lift,
            floor=floor,
            overrule=overrule,
        )
        (results[name],) = score(interval=interval)
        (one,) = score(interval="one_look")
        if one.difference.standard_error > 0:
            effects[name] = one.difference
    heterogeneity = None
    if len(effects) > 1:
        heterogeneity = check_heterogeneity(effects)
    return SegmentScores(results, heterogeneity)
