"""The sentence that names the policy with the largest reward in a world, with an
interval."""

from collections.abc import Mapping

import numpy as np
from scipy.special import stdtrit

from oddsmith.core.arrays import Array
from oddsmith.files.reports.answer import Span, chart, compared, digits, interval
from oddsmith.lab.run import mean_and_error

__all__ = ["interval_of", "leader", "regrets"]

_LEVEL = 0.95


def leader(totals: Mapping[str, Array], *, steps: int, unit: str = "runs") -> str:
    """Return a sentence on how much more the policy with the smallest mean regret earns
    than the second. `totals` are regrets by policy (units,).

    Regrets are compared in pairs per unit (run or seed), because all policies see the
    same contexts in a unit. The interval is Student's. Its level is 95 % for all pairs
    of policies together (Bonferroni), because the two best policies are not known in
    advance.

    >>> leader(
    ...     {"one": np.array([3.0, 5, 4]), "two": np.array([13.0, 15.5, 14])}, steps=100
    ... )
    'one earns 10.17 more in 100 steps than two, [9.45, 10.88] (95 % interval over 3
    paired runs)'
    """
    first, *others = sorted(totals, key=lambda name: float(totals[name].mean()))
    best = totals[first]
    n = len(best)
    n_policies = len(totals)
    if n < 2:
        regret = f"{best.mean():,.2f}"
        result = f"has a regret of {regret}"
        if others:
            result = f"has the smallest regret of {n_policies} policies, {regret}"
        noun = unit.removesuffix("s")
        return (
            f"{first} {result} in {steps:,} steps; one {noun} gives no measure of "
            "chance, use more"
        )
    if not others:
        span = interval_of(best)
        lost = f"{span.value:,.{digits(span)}f} rewards"
        sample = f"{n:,} {unit}"
        return (
            f"{first} loses {lost} to the best arm in {steps:,} steps, "
            f"{interval(span)} (95 % interval over {sample})"
        )
    second = others[0]
    pairs = n_policies * (n_policies - 1) // 2
    span = interval_of(totals[second] - best, pairs=pairs)
    how = f"95 % interval over {n:,} paired {unit}"
    if len(others) > 1:
        first = f"{first}, the best of {n_policies},"
        second = f"{second}, the next"
    return compared(first, second, span, how, unit=f"in {steps:,} steps")


def regrets(totals: Mapping[str, Array], prefix: str = "") -> str:
    """Draw regrets with their intervals for a terminal, the smallest first. Return ""
    for single runs.

    The axis ends at three times the median policy, so that one bad policy does not hide
    the differences of the others.
    """
    spans = []
    for name, values in totals.items():
        if len(values) > 1:
            spans.append((prefix + name, interval_of(values)))
    if not spans:
        return ""
    spans.sort(key=lambda named_span: named_span[1])
    middle = (len(spans) - 1) // 2
    _, median = spans[middle]
    return chart(spans, zero="no regret", most=3 * median.high)


def interval_of(values: Array, *, pairs: int = 1) -> Span:
    """Return the mean of independent numbers and its Student interval at level 1 - 0.05
    / pairs.

    >>> interval_of(np.array([1.0, 2.0, 3.0])).low
    -0.484...
    """
    mean, error = mean_and_error(np.asarray(values))
    quantile = 1 - (1 - _LEVEL) / (2 * pairs)
    factor = stdtrit(len(values) - 1, quantile)
    reach = float(factor) * error
    return Span(mean, mean - reach, mean + reach)
