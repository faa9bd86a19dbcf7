"""Segments: the effect in declared parts of the traffic, and whether it differs."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy import stats

from oddsmith.core.errors import InvalidInput
from oddsmith.evaluation.one_look import Effect

__all__ = ["Heterogeneity", "check_heterogeneity", "segment_level"]


class Heterogeneity(NamedTuple):
    """Cochran's Q of the effects of segments: `statistic` has a χ² law with `degrees`
    of freedom if all effects are equal."""

    statistic: float
    degrees: int
    p_value: float


def segment_level(level: float, n_segments: int) -> float:
    """The level of each of S segments at which all intervals hold together.

    >>> round(segment_level(0.95, 5), 4)
    0.99
    """
    return 1 - (1 - level) / n_segments


def check_heterogeneity(effects: Mapping[str, Effect]) -> Heterogeneity:
    """Cochran's Q, Σ (e_s - ē)² / s_s² with ē weighted by 1 / s².

    >>> effects = {
    ...     "mobile": Effect(0.03, 0.01, 0.05, 0.01),
    ...     "desktop": Effect(0.01, -0.01, 0.03, 0.01),
    ... }
    >>> found = check_heterogeneity(effects)
    >>> round(found.statistic, 9), found.degrees, round(found.p_value, 4)
    (2.0, 1, 0.1573)
    """
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
    return Heterogeneity(statistic, degrees, float(stats.chi2.sf(statistic, degrees)))
