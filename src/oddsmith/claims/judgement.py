"""Compare a measured number, or a sample, with the acceptance criterion of a rule."""

import numpy as np
from scipy import stats

from oddsmith.claims.claim import Claim, Rule, format_mean
from oddsmith.core.arrays import Array, Bools
from oddsmith.lab.run import mean_and_error

__all__ = [
    "above_zero",
    "equal",
    "least",
    "mean_is",
    "mean_least",
    "mean_most",
    "most",
    "rare",
    "within",
]


def most(rule: Rule, case: str, value: float, bound: float) -> Claim:
    """Claim that an exact number is at most a bound."""
    holds = value <= bound
    return Claim(rule, case, f"≤ {bound:,.6g}", f"{value:,.6g}", holds)


def least(rule: Rule, case: str, value: float, bound: float) -> Claim:
    """Claim that an exact number is at least a bound."""
    holds = value >= bound
    return Claim(rule, case, f"≥ {bound:,.6g}", f"{value:,.6g}", holds)


def within(rule: Rule, case: str, value: float, low: float, high: float) -> Claim:
    """Claim that an exact number lies in a range that theory gives."""
    predicted = f"{low:,.6g} to {high:,.6g}"
    holds = low <= value <= high
    return Claim(rule, case, predicted, f"{value:,.6g}", holds)


def equal(
    rule: Rule,
    case: str,
    value: float,
    predicted: float,
    *,
    off: float = 0.0,
    relative: float = 0.0,
) -> Claim:
    """Claim that an exact number differs from the predicted one by at most `off`, or by
    at most the fraction `relative` of the predicted number."""
    allowed = max(off, relative * abs(predicted))
    holds = abs(value - predicted) <= allowed
    return Claim(rule, case, f"{predicted:,.6g}", f"{value:,.6g}", holds)


def mean_is(
    rule: Rule, case: str, sample: Array, mean: float, *, error: float | None = None
) -> Claim:
    """Claim that a sample has this mean. The claim holds if the difference is within
    the normal quantiles, in units of the exact standard error.

    Without an exact error, use the sample's own standard error and Student's quantiles.
    """
    found, own_error = mean_and_error(sample)
    tail = rule.level / 2
    if error is None:
        error = own_error
        quantile = stats.t.isf(tail, sample.size - 1)
    else:
        quantile = stats.norm.isf(tail)
    holds = abs(found - mean) <= quantile * error
    return Claim(rule, case, f"{mean:,.4g}", format_mean(found, error), holds)


def mean_most(rule: Rule, case: str, sample: Array, bound: float) -> Claim:
    """Claim that the mean of a sample is at most a bound. The claim fails if Student's
    lower limit for the mean is above the bound."""
    found, error = mean_and_error(sample)
    low = found - _width(rule, sample.size, error)
    measured = format_mean(found, error)
    return Claim(rule, case, f"≤ {bound:,.4g}", measured, low <= bound)


def mean_least(rule: Rule, case: str, sample: Array, bound: float) -> Claim:
    """Claim that the mean of a sample is at least a bound. The claim fails if Student's
    upper limit for the mean is below the bound."""
    found, error = mean_and_error(sample)
    high = found + _width(rule, sample.size, error)
    measured = format_mean(found, error)
    return Claim(rule, case, f"≥ {bound:,.4g}", measured, high >= bound)


def _width(rule: Rule, n: int, error: float) -> float:
    """Return the distance between the mean of n numbers and Student's limit."""
    quantile = stats.t.isf(rule.level, n - 1)
    return float(quantile * error)


def rare(rule: Rule, case: str, events: Bools, chance: float) -> Claim:
    """Claim that events have probability at most `chance`. The claim fails if the
    binomial probability of so many events is below the rule's level."""
    count = int(events.sum())
    n = events.size
    tail = 1.0
    if count:
        tail = float(stats.binom.sf(count - 1, n, chance))
    holds = tail >= rule.level
    measured = f"{count} of {n}"
    return Claim(rule, case, f"≤ {chance:g} of runs", measured, holds)


def above_zero(rule: Rule, case: str, differences: Array) -> Claim:
    """Claim that paired differences have a mean above 0. The claim holds if Student's
    lower limit is above 0."""
    found, error = mean_and_error(differences)
    low = found - _width(rule, differences.size, error)
    bounds = np.round(low, 4)
    measured = f"{format_mean(found, error)}, at least {bounds:g}"
    return Claim(rule, case, "> 0", measured, low > 0)
