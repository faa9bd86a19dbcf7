"""Diagnostics that show how well a log supports a target, and rules that refuse an
estimate unless the user names them in `overrule`.

No rule reads a reward, only weights and logged propensities. If the propensities of all
arms are logged, the effective number of rows and the largest share are their expected
values, which do not depend on the draw. If an interval were reported only after
favourable draws, its coverage would be below its level.
"""

from collections.abc import Iterable
from math import ceil, log10, sqrt
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.core.errors import InvalidInput
from oddsmith.core.names import hint
from oddsmith.evaluation.bets import log_shortfall, log_wealth
from oddsmith.evaluation.slates import per_slate
from oddsmith.evaluation.terms import Terms

__all__ = [
    "ASYMPTOTIC",
    "Diagnostics",
    "MISSING",
    "RULES",
    "SHARE",
    "broken_rules",
    "check_rules",
    "diagnose",
]

MISSING = 1e-9
ESS = 100.0
SHARE = 0.05
OFF = 0.3
ERRORS = 4.0
EVIDENCE = 1000.0
# Tolerance for the distance of the mean weight from 1 if its standard error is 0.
# Propensities may be rounded, for instance 0.3333 for 1/3.
ROUNDED = 1e-3
# Largest accepted error of the mean weight due to rounded propensities. Intervals are
# widened by the actual error.
_MOST_ROUNDING = 0.05
# If weights hardly vary and their mean differs from 1 by less than this, the cause is
# probably that propensities have few digits.
_DIGITS = 0.05
RULES = ("overlap", "ess", "share", "weight", "digits")
"""Names of the rules that `overrule` accepts."""
ASYMPTOTIC = ("beta", "normal", "bootstrap")
# Diagnostics are needed several times, and terms do not change, so cache them.
_CACHE: "WeakKeyDictionary[Terms, dict[float | None, Diagnostics]]" = (
    WeakKeyDictionary()
)


class Diagnostics(NamedTuple):
    """Diagnostics that show how well a log of `n` rows supports a target.

    `ess` is the effective sample size: T / mean E[w² | x] if the propensities of all
    arms are logged, otherwise (Σw)²/Σw². `largest_share` is the share of the total
    weight on a single row: on the expected heaviest of T rows if the propensities of
    all arms are logged, otherwise on the heaviest drawn row. `missing` is the target's
    mean probability of arms that the logging policy could not draw. The mean of the
    weights is `mean_weight` ± `weight_error`; it should be 1 - `missing` if the
    propensities are right. `inflation` is an e-value against the hypothesis that the
    mean weight is at most 1 (`bets`). `deflation` is an e-value against the hypothesis
    that it is at least 1 - `missing`. `deflation` is None if no bound on the weights is
    known, because only drawn propensities are logged and no floor is given. `rounding`
    is the possible error of the mean weight because propensities have few digits. If
    rows were decided together, all these numbers refer to slates instead of rows, and
    `unit` is "slate" ("decision" if most decisions have no slate).
    """

    n: int
    ess: float
    largest_share: float
    missing: float
    mean_weight: float
    weight_error: float
    inflation: float
    unit: str = "row"
    deflation: float | None = 1.0
    rounding: float = 0.0


def diagnose(terms: Terms, floor: float | None = None) -> Diagnostics:
    """Return the diagnostics of terms. For a difference of two targets, return the
    worse value of the two.

    `floor`, the smallest propensity of the logging policy, bounds the weights if only
    drawn propensities are logged.
    """
    known = _CACHE.setdefault(terms, {})
    if floor not in known:
        found = _diagnose(per_slate(terms), floor)
        deflation = _deflation(terms, floor)
        known[floor] = found._replace(deflation=deflation)
    return known[floor]


def _deflation(terms: Terms, floor: float | None) -> float | None:
    """Return an e-value against the hypothesis that the conditional mean weight is at
    least 1 - missing.

    Each row's weight has a bound from its logged propensities or the floor, which is
    known before the draw. So the rows of a slate count separately, in any order. For a
    difference of two targets, return the larger e-value of the two.
    """
    if terms.parts is not None:
        sides = [_deflation(part, floor) for part in terms.parts]
        known = [side for side in sides if side is not None]
        if len(known) == len(sides):
            return max(known)
        return None
    if terms.weights is None:
        return 1.0
    expected = 1.0 - terms.missing - ROUNDED
    if terms.ceiling is not None:
        most = terms.ceiling
    elif floor is not None:
        most = np.maximum(1.0 / floor, terms.weights)
    else:
        return None
    return _evidence(log_shortfall(terms.weights, expected, most))


def _evidence(log_money: Array) -> float:
    return float(np.exp(min(700.0, float(log_money))))


def _diagnose(terms: Terms, floor: float | None) -> Diagnostics:
    if terms.parts is not None:
        first, second = terms.parts
        own = diagnose(first, floor)
        other = diagnose(second, floor)
        worse = max(own, other, key=_excess)
        largest_share = max(own.largest_share, other.largest_share)
        missing = max(own.missing, other.missing)
        inflation = max(own.inflation, other.inflation)
        return Diagnostics(
            n=len(terms),
            ess=min(own.ess, other.ess),
            largest_share=largest_share,
            missing=missing,
            mean_weight=worse.mean_weight,
            weight_error=worse.weight_error,
            inflation=inflation,
            unit=terms.unit,
            rounding=own.rounding + other.rounding,
        )
    n = len(terms)
    missing = float(terms.missing.mean())
    weights = terms.weights
    if weights is None:
        share = 1.0 / n
        mean = 1.0 - missing
        return Diagnostics(n, float(n), share, missing, mean, 0.0, 1.0, terms.unit)
    rounding = 0.0
    if terms.rounding is not None:
        rounding = float(terms.rounding.mean())
    if terms.expected_squares is not None and terms.heaviest is not None:
        squares = max(float(terms.expected_squares.mean()), 1e-300)
        ess = n / squares
        share = terms.heaviest / n
        mass = 1.0 - missing
        spread = sqrt(max(0.0, squares - mass**2))
    else:
        total = float(weights.sum())
        squares = float((weights**2).mean())
        ess = 0.0
        if squares > 0:
            ess = total**2 / (n * squares)
        share = 1.0
        if total > 0:
            share = float(weights.max()) / total
        spread = float(weights.std())
    log_money = log_wealth(weights, np.array(1.0 + ROUNDED), looks=1)
    inflation = _evidence(log_money[-1])
    weight_error = spread / sqrt(n)
    return Diagnostics(
        n=n,
        ess=ess,
        largest_share=share,
        missing=missing,
        mean_weight=float(weights.mean()),
        weight_error=weight_error,
        inflation=inflation,
        unit=terms.unit,
        rounding=rounding if rounding >= ROUNDED else 0.0,
    )


def broken_rules(one: Diagnostics, interval: str) -> dict[str, str]:
    """Return a sentence for each broken rule that matters for this kind of interval.

    Every interval needs a logging policy that could draw all arms of the target, and
    propensities whose rounding changes the mean weight by less than 0.05. Beta, normal
    and bootstrap intervals also need enough rows without a dominant one. Bernstein and
    anytime intervals hold for any distribution of weights and need only correct
    propensities. One e-value tests whether the mean weight is above 1, another one
    whether it is below 1; with correct propensities, each reaches 1000 with probability
    at most 1/1000.
    """
    asymptotic = interval in ASYMPTOTIC
    why: dict[str, str] = {}
    if one.missing > MISSING:
        why["overlap"] = (
            f"{one.missing:.2%} of the target's mass is on arms the logging policy "
            "could not "
            "draw; allowed 0"
        )
    if asymptotic and one.ess < ESS:
        rows = f"{one.unit}s"
        why["ess"] = (
            f"{one.n:,} {rows} are worth {one.ess:.1f} {rows} of the target's own; "
            f"allowed at least {ESS:g}"
        )
    if asymptotic and one.largest_share > SHARE:
        why["share"] = (
            f"one {one.unit} carries {one.largest_share:.0%} of all weight; allowed at "
            f"most {SHARE:.0%}"
        )
    if asymptotic and _excess(one) > 1:
        why["weight"] = _far_off(one)
    if one.rounding > _MOST_ROUNDING:
        why["digits"] = _few_digits(one)
    if not asymptotic:
        off = _proven_off(one)
        if off:
            why["weight"] = off
    return why


def _far_off(one: Diagnostics) -> str:
    """Explain why the mean weight is too far from 1, for intervals that need many
    rows."""
    cause = ""
    if one.mean_weight < 1 - one.missing:
        cause = ", unless what the target draws is hardly ever drawn"
    error = ERRORS * one.weight_error
    digits = ""
    excess = abs(one.mean_weight - 1 + one.missing)
    if error < ROUNDED and excess < _DIGITS:
        digits = (
            f", or {ROUNDED:g} for odds that were rounded: write them with more digits"
        )
    return (
        f"the mean weight is {one.mean_weight:.4g} ± {one.weight_error:.2g}, which "
        f"is 1 for right propensities{cause}; allowed within {OFF:g} and within "
        f"{ERRORS:g} standard errors{digits}"
    )


def _few_digits(one: Diagnostics) -> str:
    """Explain that propensities were rounded too much, and how many more digits are
    needed."""
    if one.rounding == np.inf:
        return (
            "propensities were rounded, and some are no more than half of their last "
            "digit: log them with all digits"
        )
    more = ceil(log10(one.rounding / ROUNDED))
    return (
        f"propensities were rounded, which may move the mean weight by "
        f"{one.rounding:.2g}; allowed {_MOST_ROUNDING:g}: log them with all digits, "
        f"or {more} more"
    )


def _proven_off(one: Diagnostics) -> str:
    """Return a sentence if the mean weight is provably not 1, otherwise "". The proof
    makes no assumption about the distribution of weights."""
    allowed = f"allowed below {EVIDENCE:g}"
    if one.inflation >= EVIDENCE:
        return (
            f"the mean weight is above 1 (e-value {one.inflation:.2g}, {allowed}), so "
            "the propensities are too small"
        )
    short = 1 - one.missing - one.mean_weight
    cause = (
        "so the propensities are too large, or rewards are missing for some arms more "
        "often than for others"
    )
    if one.deflation is None:
        has_rows = one.ess >= ESS
        light = has_rows and one.largest_share <= SHARE
        noise = max(ERRORS * one.weight_error, ROUNDED)
        if not light or short <= noise:
            return ""
        mean = f"{one.mean_weight:.4g} ± {one.weight_error:.2g}"
        return (
            f"the mean weight is {mean}, {cause}; if the logging policy hardly ever "
            "drew what "
            "the target draws, give floor, or log the odds of all arms"
        )
    if one.deflation >= EVIDENCE:
        mass = 1 - one.missing
        return (
            f"the mean weight is below {mass:.4g} (e-value {one.deflation:.2g}, "
            f"{allowed}), {cause}"
        )
    return ""


def check_rules(overrule: Iterable[str]) -> tuple[str, ...]:
    """Return the names of rules to overrule, or raise for an unknown name."""
    names = (overrule,) if isinstance(overrule, str) else tuple(overrule)
    for name in names:
        if name not in RULES:
            raise InvalidInput(
                f"overrule must name rules of {', '.join(RULES)}; got {name!r}"
                f"{hint(str(name), RULES)}"
            )
    return names


def _excess(one: Diagnostics) -> float:
    """Return the error of the mean weight as a multiple of the allowed error."""
    distance = abs(one.mean_weight - (1 - one.missing))
    off = max(0.0, distance - one.rounding)
    noise = max(ERRORS * one.weight_error, ROUNDED)
    return max(off / OFF, off / noise)
