"""Judgements: a measured number, or a sample of them, against what a rule accepts."""

import numpy as np
from scipy import stats

from oddsmith.claims.claim import Claim, Rule, shown
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
    return Claim(rule, case, f"≤ {bound:,.6g}", f"{value:,.6g}", value <= bound)


def least(rule: Rule, case: str, value: float, bound: float) -> Claim:
    """An exact number is at least a bound."""
    return Claim(rule, case, f"≥ {bound:,.6g}", f"{value:,.6g}", value >= bound)


def within(rule: Rule, case: str, value: float, low: float, high: float) -> Claim:
    """An exact number lies in a range that theory gives."""
    return Claim(
        rule, case, f"{low:,.6g} to {high:,.6g}", f"{value:,.6g}", low <= value <= high
    )


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
    held = abs(value - predicted) <= max(off, relative * abs(predicted))
    return Claim(rule, case, f"{predicted:,.6g}", f"{value:,.6g}", held)


def mean_is(
    rule: Rule, case: str, sample: Array, mean: float, *, error: float | None = None
) -> Claim:
    """A sample has this mean: the difference is within normal quantiles of its exact
    standard error.

    Without an exact error the sample's own and Student's quantiles are taken.
    """
    found, own = mean_and_error(sample)
    tail = rule.level / 2
    width = (
        stats.norm.isf(tail) * error
        if error is not None
        else stats.t.isf(tail, sample.size - 1) * own
    )
    return Claim(
        rule,
        case,
        f"{mean:,.4g}",
        shown(found, own if error is None else error),
        abs(found - mean) <= width,
    )


def mean_most(rule: Rule, case: str, sample: Array, bound: float) -> Claim:
    """The mean of a sample may be at most a bound: rejected if Student's lower limit
    for it is above."""
    found, error = mean_and_error(sample)
    low = found - stats.t.isf(rule.level, sample.size - 1) * error
    return Claim(rule, case, f"≤ {bound:,.4g}", shown(found, error), low <= bound)


def mean_least(rule: Rule, case: str, sample: Array, bound: float) -> Claim:
    """The mean of a sample may be no smaller than a bound: rejected if Student's upper
    limit for it is below."""
    found, error = mean_and_error(sample)
    high = found + stats.t.isf(rule.level, sample.size - 1) * error
    return Claim(rule, case, f"≥ {bound:,.4g}", shown(found, error), high >= bound)


def rare(rule: Rule, case: str, events: Bools, chance: float) -> Claim:
    """Events of probability at most `chance`: rejected if so many would be rarer than
    the rule's level."""
    count, n = int(events.sum()), events.size
    tail = float(stats.binom.sf(count - 1, n, chance)) if count else 1.0
    return Claim(
        rule, case, f"≤ {chance:g} of runs", f"{count} of {n}", tail >= rule.level
    )


def above_zero(rule: Rule, case: str, differences: Array) -> Claim:
    """Paired differences have a mean above 0: accepted if Student's lower limit is
    above 0."""
    found, error = mean_and_error(differences)
    low = found - stats.t.isf(rule.level, differences.size - 1) * error
    measured = f"{shown(found, error)}, at least {np.round(low, 4):g}"
    return Claim(rule, case, "> 0", measured, low > 0)
