"""Intervals that count one more row at each end of the range: for few rewards, and for
heavy rows not drawn yet.

Rows that were drawn do not show how far a term can go: of a hundred rows without a
reward the spread is 0. So the low end of an interval is that of the rows and one more
at the least term that a row could have had, the high end that of the rows and one more
at the most (`Terms.ends`, by the logged odds). Of many rows that changes nothing. Terms
are (…, T), their ends (…): any number of logs at once.
"""

from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.evaluation.terms import Terms

__all__ = ["Moments", "beta_interval", "moments", "normal_interval", "studentised"]


class Moments(NamedTuple):
    """The mean (…) and the variance (…) of n terms, one more among them."""

    n: int
    mean: Array
    variance: Array

    @property
    def error(self) -> Array:
        """The standard error of the mean."""
        return np.asarray(np.sqrt(self.variance / self.n))


def moments(values: Array, more: Array) -> Moments:
    """The mean and the variance of the terms (…, T) with one more row, whose term is
    `more` (…)."""
    n = values.shape[-1] + 1
    mean = (values.sum(axis=-1) + more) / n
    squares = np.square(values - mean[..., None]).sum(axis=-1)
    return Moments(n, mean, (squares + (more - mean) ** 2) / n)


def normal_interval(
    values: Array, ends: tuple[Array, Array], level: float
) -> tuple[Array, Array]:
    """Mean - z s/√n with one more row at the low end, mean + z s/√n with one more at
    the high end."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    low, high = (moments(values, end) for end in ends)
    return low.mean - z * low.error, high.mean + z * high.error


def beta_interval(
    values: Array, ends: tuple[Array, Array], level: float
) -> tuple[Array, Array]:
    """Quantiles of the beta laws on the range that have the mean and the variance of
    the terms with one more row.

    With [b, c] the range of a row's term, m and s² the moments of n rows and one more
    at c, the high end is

        b + (c - b) · quantile of Beta(uk, (1 - u)k) at (1 + level)/2,
        u = (m - b)/(c - b),  k = u (1 - u) (c - b)² (n + 2)/s² - 1,

    and the low end the same with one more row at b. Of rewards 0 and 1 that is Clopper
    and Pearson's interval (1934), exactly; of rare rewards with weights Fay and Feuer's
    (1997); of many rows the normal one.
    """
    chances = (1 - level) / 2, (1 + level) / 2
    pairs = zip(ends, chances, strict=True)
    low, high = (
        _quantile(moments(values, more), more, ends, chance) for more, chance in pairs
    )
    return low, high


def _quantile(
    summary: Moments, more: Array, ends: tuple[Array, Array], chance: float
) -> Array:
    """The quantile of the beta law; `more` itself where all rows are at this end."""
    from scipy.special import betaincinv

    low, width = ends[0], ends[1] - ends[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        place = (summary.mean - low) / width
        size = place * (1 - place) * width**2 * (summary.n + 1) / summary.variance - 1
        there = (
            (place > 0)
            & (place < 1)
            & (summary.variance > 1e-24 * width**2)
            & (size > 0)
        )
    a, b = (np.where(there, one, 1.0) for one in (place * size, (1 - place) * size))
    return np.asarray(np.where(there, low + width * betaincinv(a, b, chance), more))


_BLOCK = 2**21  # numbers held at once
_GROUPS = 20_000


def studentised(
    terms: Terms,
    ends: tuple[float, float],
    *,
    level: float,
    seed: int = 0,
    resamples: int = 999,
) -> tuple[float, float]:
    """The bootstrap-t interval (Efron 1979; Hall 1988): ratios are resampled as ratios,
    differences row by row.

    What is resampled for an end of the interval are the rows and one more at that end
    of the range (`ends`). Of more than 20,000 rows, neighbours are added up to 20,000
    groups first, which leaves the sums' law as it is.
    """
    low, high = (moments(terms.values, np.asarray(end)) for end in ends)
    above = np.quantile(
        _errors(terms, ends[0], seed, resamples),
        (1 + level) / 2,
        method="inverted_cdf",
    )
    below = np.quantile(
        _errors(terms, ends[1], seed, resamples),
        (1 - level) / 2,
        method="inverted_cdf",
    )
    return float(low.mean - above * low.error), float(high.mean - below * high.error)


def _errors(terms: Terms, more: float, seed: int, resamples: int) -> Array:
    """t = (resampled estimate - estimate) / its standard error, of the rows and one
    more, for so many resamples."""
    rng = np.random.default_rng([seed, 1979])
    top, bottom = _linear(terms, more)
    each = max(1, _BLOCK // len(top))
    parts = [
        _resampled(top, bottom, rng, min(each, resamples - start))
        for start in range(0, resamples, each)
    ]
    return np.concatenate(parts)


def _linear(terms: Terms, more: float) -> tuple[Array, Array | None]:
    """Numerators around 0 and denominators around 1 (None: all 1); the ratio of sums is
    how far a resample is off."""
    values, n = np.append(terms.values, more), len(terms) + 1
    top, bottom = values - values.mean(), None
    if terms.ratio and terms.weights is not None:
        weights = np.append(
            terms.weights,
            terms.weights.max() if terms.heaviest is None else terms.heaviest,
        )
        bottom = weights / weights.mean()
    if n <= _GROUPS:
        return top, bottom
    starts = np.arange(_GROUPS) * n // _GROUPS
    sums = [
        np.add.reduceat(column, starts) * (_GROUPS / n)
        for column in (top, np.ones(n) if bottom is None else bottom)
    ]
    return sums[0], sums[1]


def _resampled(
    top: Array, bottom: Array | None, rng: np.random.Generator, resamples: int
) -> Array:
    n = len(top)
    drawn = rng.integers(
        0, n, size=(resamples, n), dtype=np.int32 if n < 2**31 else np.int64
    )
    residuals = top[drawn]
    if bottom is None:
        moved = residuals.mean(axis=1)
        residuals -= moved[:, None]
    else:
        below = bottom[drawn]
        mean = np.maximum(below.mean(axis=1), 1e-300)
        moved = residuals.mean(axis=1) / mean
        residuals = (residuals - moved[:, None] * below) / mean[:, None]
    errors = np.sqrt(np.square(residuals, out=residuals).mean(axis=1) / n)
    # a resample without spread is infinitely far, or nowhere
    with np.errstate(divide="ignore", invalid="ignore"):
        statistics: Array = np.where(
            errors > 0,
            moved / errors,
            np.where(moved == 0, 0.0, np.sign(moved) * np.inf),
        )
    return statistics
