"""The studentised bootstrap: how far estimates from resampled rows are from the estimate, in their standard errors."""

import numpy as np

from oddsmith.arrays import Array
from oddsmith.evaluation.ends import moments
from oddsmith.evaluation.terms import Terms

__all__ = ["studentised"]

_BLOCK = 2**21  # numbers held at once
_GROUPS = 20_000


def studentised(terms: Terms, *, level: float, seed: int = 0, resamples: int = 999) -> tuple[float, float]:
    """The bootstrap-t interval (Efron 1979; Hall 1988): ratios are resampled as ratios, differences row by row.

    What is resampled for an end of the interval are the rows and one more at that end of the range (`ends`). Of more
    than 20,000 rows, neighbours are added up to 20,000 groups first, which leaves the sums' law as it is.
    """
    low, high = (moments(terms.values, np.asarray(end)) for end in terms.ends)
    above = np.quantile(_errors(terms, terms.ends[0], seed, resamples), (1 + level) / 2, method="inverted_cdf")
    below = np.quantile(_errors(terms, terms.ends[1], seed, resamples), (1 - level) / 2, method="inverted_cdf")
    return float(low.mean - above * low.error), float(high.mean - below * high.error)


def _errors(terms: Terms, more: float, seed: int, resamples: int) -> Array:
    """t = (resampled estimate - estimate) / its standard error, of the rows and one more, for so many resamples."""
    rng = np.random.default_rng([seed, 1979])
    top, bottom = _linear(terms, more)
    each = max(1, _BLOCK // len(top))
    parts = [_resampled(top, bottom, rng, min(each, resamples - start)) for start in range(0, resamples, each)]
    return np.concatenate(parts)


def _linear(terms: Terms, more: float) -> tuple[Array, Array | None]:
    """Numerators around 0 and denominators around 1 (None: all 1); the ratio of sums is how far a resample is off."""
    values, n = np.append(terms.values, more), len(terms) + 1
    top, bottom = values - values.mean(), None
    if terms.ratio and terms.weights is not None:
        weights = np.append(terms.weights, terms.weights.max() if terms.heaviest is None else terms.heaviest)
        bottom = weights / weights.mean()
    if n <= _GROUPS:
        return top, bottom
    starts = np.arange(_GROUPS) * n // _GROUPS
    sums = [
        np.add.reduceat(column, starts) * (_GROUPS / n) for column in (top, np.ones(n) if bottom is None else bottom)
    ]
    return sums[0], sums[1]


def _resampled(top: Array, bottom: Array | None, rng: np.random.Generator, resamples: int) -> Array:
    n = len(top)
    drawn = rng.integers(0, n, size=(resamples, n), dtype=np.int32 if n < 2**31 else np.int64)
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
    with np.errstate(divide="ignore", invalid="ignore"):  # a resample without spread is infinitely far, or nowhere
        found: Array = np.where(errors > 0, moved / errors, np.where(moved == 0, 0.0, np.sign(moved) * np.inf))
    return found
