"""The studentised bootstrap: how far estimates from resampled rows are from the estimate, in their standard errors."""

import numpy as np

from oddsmith.arrays import Array
from oddsmith.evaluation.terms import Terms

__all__ = ["studentised"]

_BLOCK = 2**21  # numbers held at once
_GROUPS = 20_000


def studentised(terms: Terms, *, level: float, seed: int = 0, resamples: int = 999) -> tuple[float, float]:
    """The bootstrap-t interval (Efron 1979; Hall 1988): ratios are resampled as ratios, differences row by row.

    Of more than 20,000 rows, neighbours are added up to 20,000 groups first, which leaves the sums' law as it is.
    """
    rng = np.random.default_rng([seed, 1979])
    sides = [_linear(part) for part in terms.parts or (terms,)]
    n = len(sides[0][0])
    each = max(1, _BLOCK // n)
    parts = [_ratios(sides, rng, n, min(each, resamples - start)) for start in range(0, resamples, each)]
    low, high = np.quantile(np.concatenate(parts), [(1 - level) / 2, (1 + level) / 2], method="inverted_cdf")
    value, error = float(terms.values.mean()), float(terms.values.std()) / len(terms) ** 0.5
    return value - float(high) * error, value - float(low) * error


def _linear(terms: Terms) -> tuple[Array, Array | None]:
    """Numerators around 0 and denominators around 1 (None: all 1); the ratio of sums is how far a resample is off."""
    top, bottom, n = terms.values - terms.values.mean(), None, len(terms)
    if terms.ratio and terms.weights is not None:
        bottom = terms.weights / terms.weights.mean()
    if n <= _GROUPS:
        return top, bottom
    starts = np.arange(_GROUPS) * n // _GROUPS
    sums = [
        np.add.reduceat(column, starts) * (_GROUPS / n) for column in (top, np.ones(n) if bottom is None else bottom)
    ]
    return sums[0], sums[1]


def _ratios(sides: list[tuple[Array, Array | None]], rng: np.random.Generator, n: int, resamples: int) -> Array:
    """t = (resampled estimate - estimate) / its standard error, for so many resamples."""
    drawn = rng.integers(0, n, size=(resamples, n), dtype=np.int32 if n < 2**31 else np.int64)
    moved, residuals = np.zeros(resamples), np.zeros((resamples, n))
    for sign, (numerator, denominator) in zip((1.0, -1.0), sides, strict=False):
        top = numerator[drawn]
        if denominator is None:
            shift = top.mean(axis=1)
            residuals += sign * (top - shift[:, None])
        else:
            bottom = denominator[drawn]
            mean = np.maximum(bottom.mean(axis=1), 1e-300)
            shift = top.mean(axis=1) / mean
            residuals += sign * (top - shift[:, None] * bottom) / mean[:, None]
        moved += sign * shift
    errors = np.sqrt((residuals**2).mean(axis=1) / n)
    with np.errstate(divide="ignore", invalid="ignore"):  # a resample without spread is infinitely far, or nowhere
        found: Array = np.where(errors > 0, moved / errors, np.where(moved == 0, 0.0, np.sign(moved) * np.inf))
    return found
