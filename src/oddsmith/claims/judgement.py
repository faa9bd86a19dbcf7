"""Judgements: a measured number, or a sample of them, against what a rule accepts."""

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
    """An exact number is at most a bound."""
    holds = value <= bound
    return Claim(rule, case, f"≤ {bound:,.6g}", f"{value:,.6g}", holds)


def least(rule: Rule, case: str, value: float, bound: float) -> Claim:
    """An exact number is at least a bound."""
    holds = value >= bound
    return Claim(rule, case, f"≥ {bound:,.6g}", f"{value:,.6g}", holds)


def within(rule: Rule, case: str, value: float, low: float, high: float) -> Claim:
    """An exact number lies in a range that theory gives."""
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
    """An exact number is the predicted one, up to `off`, or to the share `relative` of
    it."""
    allowed = max(off, relative * abs(predicted))
    holds = abs(value - predicted) <= allowed
    return Claim(rule, case, f"{predicted:,.6g}", f"{value:,.6g}", holds)


def mean_is(
    rule: Rule, case: str, sample: Array, mean: float, *, error: float | None = None
) -> Claim:
    """A sample has this mean: the difference is within normal quantiles of its exact
    standard error.

    Without an exact error the sample's own and Student's quantiles are taken.
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
    """The mean of a sample may be at most a bound: rejected if Student's lower limit
    for it is above."""
    found, error = mean_and_error(sample)
    low = found - _width(rule, sample.size, error)
    measured = format_mean(found, error)
    return Claim(rule, case, f"≤ {bound:,.4g}", measured, low <= bound)


def mean_least(rule: Rule, case: str, sample: Array, bound: float) -> Claim:
    """The mean of a sample may be no smaller than a bound: rejected if Student's upper
    limit for it is below."""
    found, error = mean_and_error(sample)
    high = found + _width(rule, sample.size, error)
    measured = format_mean(found, error)
    return Claim(rule, case, f"≥ {bound:,.4g}", measured, high >= bound)


def _width(rule: Rule, n: int, error: float) -> float:
    """The distance of Student's limit from the mean of n numbers."""
    quantile = stats.t.isf(rule.level, n - 1)
    return float(quantile * error)


def rare(rule: Rule, case: str, events: Bools, chance: float) -> Claim:
    """Events of probability at most `chance`: rejected if so many would be rarer than
    the rule's level."""
    count = int(events.sum())
    n = events.size
    tail = 1.0
    if count:
        tail = float(stats.binom.sf(count - 1, n, chance))
    holds = tail >= rule.level
    measured = f"{count} of {n}"
    return Claim(rule, case, f"≤ {chance:g} of runs", measured, holds)


def above_zero(rule: Rule, case: str, differences: Array) -> Claim:
    """Paired differences have a mean above 0: accepted if Student's lower limit is
    above 0."""
    found, error = mean_and_error(differences)
    low = found - _width(rule, differences.size, error)
    bounds = np.round(low, 4)
    measured = f"{format_mean(found, error)}, at least {bounds:g}"
    return Claim(rule, case, "> 0", measured, low > 0)
