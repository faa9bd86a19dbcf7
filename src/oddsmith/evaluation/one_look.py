"""Means, differences and lifts of weighted rows with intervals for a single look at the
results.

A policy's mean is Σ w y / Σ w d, with amounts y, denominators d (1, unless the metric
is a ratio) and importance weights w. Its error is the mean of the terms

    w (y - ρ d) / mean(w d),    ρ = Σ w y / Σ w d.

Terms of target and control are subtracted row by row, so everything they share cancels.
If a unit can have several rows, its terms are summed first, because rows of one unit
may depend on one another. For a fixed split of the traffic, the intervals are Welch's.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from oddsmith.core.arrays import Array, Ints
from oddsmith.core.errors import InvalidInput
from oddsmith.core.names import check_choice

__all__ = [
    "Effect",
    "LIFT_SCALES",
    "LiftScale",
    "WeightedMean",
    "mean_difference",
    "mean_lift",
    "weighted_mean",
]

LiftScale: TypeAlias = Literal["log", "linear"]
LIFT_SCALES: tuple[LiftScale, ...] = ("log", "linear")
"""Scales on which the interval of a lift is symmetric."""

_LARGEST_LOG = 700.0


class Effect(NamedTuple):
    """An estimate with its interval; `standard_error` is NaN for anytime-valid
    intervals."""

    value: float
    low: float
    high: float
    standard_error: float = float("nan")

    def times(self, factor: float) -> "Effect":
        """Return the effect multiplied by a factor. A negative factor swaps the ends of
        the interval."""
        low, high = sorted((factor * self.low, factor * self.high))
        standard_error = abs(factor) * self.standard_error
        return Effect(
            value=factor * self.value,
            low=low,
            high=high,
            standard_error=standard_error,
        )


@dataclass(frozen=True, eq=False)
class WeightedMean:
    """A policy's mean, and the terms (n,) whose mean is its error, one per row or per
    unit.

    `effective_size` is (Σ w)² / Σ w². For a fixed split, this is the policy's number of
    rows or units.
    """

    value: float
    terms: Array
    effective_size: float

    @property
    def variance(self) -> float:
        """Return the variance of the mean."""
        return float(self.terms @ self.terms) / len(self.terms) ** 2


def weighted_mean(
    weights: Array,
    amounts: Array,
    denominators: Array | None = None,
    units: Ints | None = None,
) -> WeightedMean:
    """Return a policy's mean from the weights, amounts and denominators (T,) of rows.

    `units` (T,) numbers the unit of each row.

    >>> weights = np.array([1.0, 1.0, 0.0, 1.0])
    >>> weighted_mean(weights, np.array([2.0, 4.0, 9.0, 3.0])).value
    3.0
    """
    if denominators is None:
        denominators = np.ones_like(amounts)
    total = float(weights @ denominators)
    if not total > 0:
        raise InvalidInput(
            "a mean needs rows that the policy would serve, with a positive "
            f"denominator; got a sum of {total:g}"
        )
    value = float(weights @ amounts) / total
    terms = weights * (amounts - value * denominators) * (len(amounts) / total)
    if units is not None:
        n_units = int(units.max()) + 1
        # Scale sums per unit so that the result is a mean over rows.
        scale = n_units / len(amounts)
        terms = scale * np.bincount(units, weights=terms).astype(np.float64)
        weights = np.bincount(units, weights=weights).astype(np.float64)
    effective_size = float(weights.sum() ** 2 / (weights @ weights))
    correction = np.nan
    if effective_size > 1:
        # Bessel's correction, as in the sample variance.
        correction = np.sqrt(effective_size / (effective_size - 1))
    return WeightedMean(value, terms * correction, effective_size)


def mean_difference(
    target: WeightedMean, control: WeightedMean, level: float = 0.95
) -> Effect:
    """Return the difference of two means over the same rows.

    >>> from scipy import stats
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=1000)
    >>> is_target = rng.random(1000) < 0.5
    >>> target = weighted_mean(is_target.astype(float), y)
    >>> control = weighted_mean((~is_target).astype(float), y)
    >>> effect = mean_difference(target, control)
    >>> welch = stats.ttest_ind(y[is_target], y[~is_target], equal_var=False)
    >>> bool(abs(effect.low - welch.confidence_interval().low) < 1e-12)
    True
    """
    value = target.value - control.value
    error = _standard_error(target.terms - control.terms)
    reach = _quantile(target, control, level) * error
    return Effect(value, value - reach, value + reach, error)


def mean_lift(
    target: WeightedMean,
    control: WeightedMean,
    level: float = 0.95,
    scale: LiftScale = "log",
) -> Effect:
    """Return the relative difference, V_target / V_control - 1.

    With the scale `log`, the delta method is applied to ln V_target - ln V_control,
    with `linear` to the ratio. Both need a control above 0, and `log` a target above 0;
    otherwise the ends are NaN.
    """
    check_choice("lift", scale, LIFT_SCALES)
    nan = float("nan")
    if control.value <= 0:
        return Effect(nan, nan, nan)
    ratio = target.value / control.value
    control_terms = control.terms / control.value
    if scale == "linear":
        error = _standard_error(target.terms / control.value - ratio * control_terms)
        reach = _quantile(target, control, level) * error
        return Effect(ratio - 1, ratio - 1 - reach, ratio - 1 + reach, error)
    if target.value <= 0:
        return Effect(ratio - 1, nan, nan)
    relative_target = WeightedMean(
        1.0, target.terms / target.value, target.effective_size
    )
    relative_control = WeightedMean(1.0, control_terms, control.effective_size)
    error = _standard_error(relative_target.terms - relative_control.terms)
    reach = _quantile(relative_target, relative_control, level) * error
    # exp overflows above 709
    factor = float(np.exp(reach)) if reach < _LARGEST_LOG else float("inf")
    return Effect(ratio - 1, ratio / factor - 1, ratio * factor - 1, ratio * error)


def _standard_error(terms: Array) -> float:
    return float(np.sqrt(terms @ terms)) / len(terms)


def _quantile(target: WeightedMean, control: WeightedMean, level: float) -> float:
    """Return Student's quantile with the degrees of freedom of Welch and
    Satterthwaite."""
    from scipy.stats import t

    variances = np.array([target.variance, control.variance])
    variances /= max(variances.max(), 1e-300)  # squares of variances may overflow
    sizes = np.array([target.effective_size, control.effective_size])
    parts = variances**2 / (sizes - 1)
    degrees = np.inf
    if parts.sum() > 0:
        degrees = variances.sum() ** 2 / parts.sum()
    return float(t.ppf((1 + level) / 2, degrees))
