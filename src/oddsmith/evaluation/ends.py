"""Intervals that add one row at each end of the range, so that they are valid for few
rewards, and if large weights were not drawn yet.

The drawn rows do not show how far a term can go: without any reward in a hundred rows,
the spread is 0. So the low end of an interval uses the rows and one more at the
smallest term that a row could have had, the high end the rows and one more at the
largest (`Terms.ends`, from the logged propensities). With many rows this changes
nothing. Terms are (…, T), their ends (…), for any number of logs at once.
"""

from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.evaluation.terms import Terms

__all__ = ["Moments", "beta_interval", "moments", "normal_interval", "studentised"]


class Moments(NamedTuple):
    """Mean (…) and variance (…) of n terms, including the added one."""

    n: int
    mean: Array
    variance: Array

    @property
    def error(self) -> Array:
        """Return the standard error of the mean."""
        return np.asarray(np.sqrt(self.variance / self.n))


def moments(values: Array, more: Array) -> Moments:
    """Return mean and variance of the terms (…, T) with one more term `more` (…)."""
    n = values.shape[-1] + 1
    mean = (values.sum(axis=-1) + more) / n
    distances = values - mean[..., None]
    squares = np.square(distances).sum(axis=-1)
    variance = (squares + (more - mean) ** 2) / n
    return Moments(n, mean, variance)


def normal_interval(
    values: Array, ends: tuple[Array, Array], level: float
) -> tuple[Array, Array]:
    """Return mean - z s/√n with one more row at the low end, and mean + z s/√n with one
    more at the high end."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    low = moments(values, ends[0])
    high = moments(values, ends[1])
    low_end = low.mean - z * low.error
    high_end = high.mean + z * high.error
    return low_end, high_end


def beta_interval(
    values: Array, ends: tuple[Array, Array], level: float
) -> tuple[Array, Array]:
    """Return quantiles of beta distributions on the range. Each has the mean and the
    variance of the terms with one more row.

    With [b, c] the range of a row's term, and m and s² the moments of n rows and one
    more at c, the high end is

        b + (c - b) · quantile of Beta(uk, (1 - u)k) at (1 + level)/2,
        u = (m - b)/(c - b),  k = u (1 - u) (c - b)² (n + 2)/s² - 1,

    and the low end is the same with one more row at b. For rewards 0 and 1 this is
    exactly Clopper and Pearson's interval (1934); for rare rewards with weights it is
    Fay and Feuer's (1997); for many rows the normal one.
    """
    low_end, high_end = ends
    of_low = moments(values, low_end)
    of_high = moments(values, high_end)
    low = _quantile(of_low, low_end, ends, (1 - level) / 2)
    high = _quantile(of_high, high_end, ends, (1 + level) / 2)
    return low, high


def _quantile(
    summary: Moments, more: Array, ends: tuple[Array, Array], chance: float
) -> Array:
    """Return the quantile of the beta distribution, or `more` if all rows are at this
    end of the range."""
    from scipy.special import betaincinv

    low, high = ends
    width = high - low
    with np.errstate(divide="ignore", invalid="ignore"):
        place = (summary.mean - low) / width
        size = place * (1 - place) * width**2 * (summary.n + 1) / summary.variance - 1
        is_inside = (place > 0) & (place < 1) & (size > 0)
        has_law = is_inside & (summary.variance > 1e-24 * width**2)
    a = np.where(has_law, place * size, 1.0)
    b = np.where(has_law, (1 - place) * size, 1.0)
    quantile = low + width * betaincinv(a, b, chance)
    return np.asarray(np.where(has_law, quantile, more))


_BLOCK = 2**21  # maximum numbers in memory at once
_GROUPS = 20_000


def studentised(
    terms: Terms,
    ends: tuple[float, float],
    *,
    level: float,
    seed: int = 0,
    resamples: int = 999,
) -> tuple[float, float]:
    """Return the bootstrap-t interval (Efron 1979; Hall 1988). Ratios are resampled as
    ratios, differences row by row.

    Each end of the interval resamples the rows and one more at that end of the range
    (`ends`). If there are more than 20,000 rows, neighbouring rows are first summed to
    20,000 groups, which does not change the distribution of the sums.
    """
    low_end, high_end = ends
    low = moments(terms.values, np.asarray(low_end))
    high = moments(terms.values, np.asarray(high_end))
    of_low = _errors(terms, low_end, seed, resamples)
    of_high = _errors(terms, high_end, seed, resamples)
    above = np.quantile(of_low, (1 + level) / 2, method="inverted_cdf")
    below = np.quantile(of_high, (1 - level) / 2, method="inverted_cdf")
    least = low.mean - above * low.error
    most = high.mean - below * high.error
    return float(least), float(most)


def _errors(terms: Terms, more: float, seed: int, resamples: int) -> Array:
    """Return t = (resampled estimate - estimate) / its standard error for each resample
    of the rows and one more."""
    rng = np.random.default_rng([seed, 1979])
    top, bottom = _linear(terms, more)
    each = max(1, _BLOCK // len(top))
    parts = []
    for start in range(0, resamples, each):
        size = min(each, resamples - start)
        parts.append(_resample(top, bottom, rng, size))
    return np.concatenate(parts)


def _linear(terms: Terms, more: float) -> tuple[Array, Array | None]:
    """Return numerators centred at 0 and denominators centred at 1 (None if all are 1).
    The ratio of their sums is the error of a resample."""
    values = np.append(terms.values, more)
    n = len(values)
    top = values - values.mean()
    bottom = None
    if terms.ratio and terms.weights is not None:
        weight = terms.heaviest
        if weight is None:
            weight = terms.weights.max()
        weights = np.append(terms.weights, weight)
        bottom = weights / weights.mean()
    if n <= _GROUPS:
        return top, bottom
    starts = np.arange(_GROUPS) * n // _GROUPS
    scale = _GROUPS / n
    if bottom is None:
        bottom = np.ones(n)
    tops = np.add.reduceat(top, starts) * scale
    return tops, np.add.reduceat(bottom, starts) * scale


def _resample(
    top: Array, bottom: Array | None, rng: np.random.Generator, resamples: int
) -> Array:
    """Return t for each resample of the rows."""
    n = len(top)
    dtype = np.int32 if n < 2**31 else np.int64
    rows = rng.integers(0, n, size=(resamples, n), dtype=dtype)
    residuals = top[rows]
    if bottom is None:
        distance = residuals.mean(axis=1)
        residuals -= distance[:, None]
    else:
        below = bottom[rows]
        mean = np.maximum(below.mean(axis=1), 1e-300)
        distance = residuals.mean(axis=1) / mean
        residuals -= distance[:, None] * below
        residuals /= mean[:, None]
    variance = np.square(residuals, out=residuals).mean(axis=1)
    errors = np.sqrt(variance / n)
    # If all values of a resample are equal, its statistic is infinite, or 0 if its mean
    # equals the estimate.
    with np.errstate(divide="ignore", invalid="ignore"):
        no_spread = np.where(distance == 0, 0.0, np.sign(distance) * np.inf)
        statistics: Array = np.where(errors > 0, distance / errors, no_spread)
    return statistics
