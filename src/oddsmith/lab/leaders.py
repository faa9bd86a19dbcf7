"""Which policy of a study earns most in a world, in one sentence, and whether that may
be chance."""

from collections.abc import Mapping

import numpy as np
from scipy.special import stdtrit

from oddsmith.core.arrays import Array
from oddsmith.files.reports.answer import Span, chart, compared, digits, interval
from oddsmith.lab.run import mean_and_error

__all__ = ["interval_of", "leader", "regrets"]

_LEVEL = 0.95


def leader(totals: Mapping[str, Array], *, steps: int, unit: str = "runs") -> str:
    """What the policy of least mean regret earns more than the next one; `totals` are
    regrets by policy (units,).

    Units (runs, or seeds) are paired: all policies meet the same contexts in each. The
    interval is Student's, at 95 % for all pairs of policies together (Bonferroni), as
    the two best are not known beforehand.

    >>> leader(
    ...     {"one": np.array([3.0, 5, 4]), "two": np.array([13.0, 15.5, 14])}, steps=100
    ... )
    'one earns 10.17 more in 100 steps than two, [9.45, 10.88] (95 % interval over 3
    paired runs)'
    """
    first, *others = sorted(totals, key=lambda name: float(totals[name].mean()))
    n, mean = len(totals[first]), float(totals[first].mean())
    if n < 2:
        one = (
            f"{first} has the least regret of {len(totals)} policies"
            if others
            else f"{first} has a regret of"
        )
        result = f"{one}, {mean:,.2f}" if others else f"{one} {mean:,.2f}"
        return (
            f"{result} in {steps:,} steps; one {unit.removesuffix('s')} says nothing "
            "about chance, ask for more"
        )
    if not others:
        span = interval_of(totals[first])
        ends = f"{interval(span)} (95 % interval over {n:,} {unit})"
        return (
            f"{first} loses {mean:,.{digits(span)}f} rewards to the best arm in "
            f"{steps:,} steps, {ends}"
        )
    span = interval_of(
        totals[others[0]] - totals[first], pairs=len(totals) * (len(totals) - 1) // 2
    )
    best = f"{first}, the best of {len(totals)}," if len(others) > 1 else first
    following = f"{others[0]}, the next" if len(others) > 1 else others[0]
    how = f"95 % interval over {n:,} paired {unit}"
    return compared(best, following, span, how, unit=f"in {steps:,} steps")


def regrets(totals: Mapping[str, Array], prefix: str = "") -> str:
    """A picture of regrets with their intervals for a terminal, the least first; "" for
    single runs.

    The axis ends at three times the median policy: one bad policy must not press the
    others to its start.
    """
    spans = sorted(
        ((prefix + name, interval_of(t)) for name, t in totals.items() if len(t) > 1),
        key=lambda b: b[1],
    )
    if not spans:
        return ""
    most = 3 * spans[(len(spans) - 1) // 2][1].high
    return chart(spans, zero="no regret", most=most)


def interval_of(values: Array, *, pairs: int = 1) -> Span:
    """The mean of independent numbers and its Student interval, at 1 - 0.05 / pairs.

    >>> interval_of(np.array([1.0, 2.0, 3.0])).low
    -0.484...
    """
    mean, error = mean_and_error(np.asarray(values))
    reach = float(stdtrit(len(values) - 1, 1 - (1 - _LEVEL) / (2 * pairs))) * error
    return Span(mean, mean - reach, mean + reach)
