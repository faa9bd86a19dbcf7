"""Diagnostics: what stands beside each number, and the rules below which it is refused unless overruled by name."""

from collections.abc import Iterable
from math import sqrt
from typing import NamedTuple

import numpy as np

from oddsmith.errors import InvalidInput
from oddsmith.evaluation.betting import log_wealth
from oddsmith.evaluation.terms import Terms

__all__ = ["Diagnostics", "RULES", "broken", "check_rules", "diagnose"]

MISSING, ESS, SHARE, OFF, ERRORS, SKEW, EVIDENCE = 1e-9, 100.0, 0.05, 0.3, 4.0, 0.2, 1000.0
RULES = ("overlap", "ess", "share", "weight", "skew")
"""Names of the rules, as `overrule` takes them."""
_ASYMPTOTIC = ("normal", "bootstrap")


class Diagnostics(NamedTuple):
    """How far a log of `n` rows can carry a target.

    `ess` is the effective sample size (Σw)²/Σw², or T / mean E[w² | x] by the logged odds if that is less: it knows of
    weights that have not been drawn yet. `largest_share` of all weight is on one row; `missing` is the target's mean
    mass on arms that the logger could not draw. The weights average to `mean_weight` ± `weight_error`, which is
    1 - `missing` if the propensities are right; `inflation` is an e-value against a mean of at most 1 (`betting`).
    `skew` is the terms' skewness over √T: the error of the normal approximation, 1 if they do not vary at all.
    """

    n: int
    ess: float
    largest_share: float
    missing: float
    mean_weight: float
    weight_error: float
    inflation: float
    skew: float


def diagnose(terms: Terms) -> Diagnostics:
    """The diagnostics of terms; of a difference, the worse of its two sides, with the skewness of the difference."""
    if terms.parts is not None:
        a, b = (diagnose(part) for part in terms.parts)
        far = max(a, b, key=lambda d: abs(d.mean_weight - 1 + d.missing))
        return Diagnostics(
            len(terms),
            min(a.ess, b.ess),
            max(a.largest_share, b.largest_share),
            max(a.missing, b.missing),
            far.mean_weight,
            far.weight_error,
            max(a.inflation, b.inflation),
            _skew(terms),
        )
    n, missing = len(terms), float(terms.missing.mean())
    w = terms.weights
    if w is None:
        return Diagnostics(n, float(n), 1.0 / n, missing, 1.0 - missing, 0.0, 1.0, _skew(terms))
    total, squares = float(w.sum()), float((w**2).sum())
    ess = total**2 / squares if squares > 0 else 0.0
    if terms.expected_squares is not None:
        ess = min(ess, n / max(float(terms.expected_squares.mean()), 1e-300))
    share = float(w.max()) / total if total > 0 else 1.0
    inflation = float(np.exp(min(700.0, log_wealth(w, np.array(1.0), looks=1)[-1])))
    return Diagnostics(n, ess, share, missing, float(w.mean()), float(w.std()) / sqrt(n), inflation, _skew(terms))


def broken(found: Diagnostics, interval: str, *, one_sided: bool = False) -> dict[str, str]:
    """The rules that matter for this kind of interval and are broken, each with a sentence.

    Normal and bootstrap intervals need all rules; Bernstein and anytime ones hold for any tail, and need only that the
    logger could draw what the target draws and that the propensities are right. With `one_sided` bets (of `ips`) even
    missing mass is covered: it is between reward 0 and 1.
    """
    asymptotic = interval in _ASYMPTOTIC
    sentences: dict[str, str | None] = {
        "overlap": None if one_sided and not asymptotic else _overlap(found),
        "ess": _ess(found) if asymptotic else None,
        "share": _share(found) if asymptotic else None,
        "weight": _weight(found) if asymptotic else _inflation(found),
        "skew": _skewed(found) if asymptotic else None,
    }
    return {name: sentence for name, sentence in sentences.items() if sentence is not None}


def check_rules(overrule: Iterable[str]) -> tuple[str, ...]:
    """The names of rules to overrule, checked."""
    names = (overrule,) if isinstance(overrule, str) else tuple(overrule)
    for name in names:
        if name not in RULES:
            raise InvalidInput(f"overrule must name rules of {', '.join(RULES)}; got {name!r}")
    return names


def _skew(terms: Terms) -> float:
    centred = terms.values - terms.values.mean()
    spread = float(np.sqrt((centred**2).mean()))
    if spread <= 1e-12 * max(1.0, float(np.abs(terms.values).max())):
        return 1.0
    return abs(float(((centred / spread) ** 3).mean())) / sqrt(len(terms))


def _overlap(found: Diagnostics) -> str | None:
    if found.missing <= MISSING:
        return None
    return f"{found.missing:.2%} of the target's mass is on arms the logger could not draw; allowed 0"


def _ess(found: Diagnostics) -> str | None:
    if found.ess >= ESS:
        return None
    return f"{found.n:,} rows are worth {found.ess:.1f} rows of the target's own; allowed at least {ESS:g}"


def _share(found: Diagnostics) -> str | None:
    if found.largest_share <= SHARE:
        return None
    return f"one row carries {found.largest_share:.0%} of all weight; allowed at most {SHARE:.0%}"


def _weight(found: Diagnostics) -> str | None:
    off = abs(found.mean_weight - (1 - found.missing))
    if off <= OFF and off <= max(ERRORS * found.weight_error, 1e-6):
        return None
    return (
        f"the mean weight is {found.mean_weight:.3g} ± {found.weight_error:.2g}, which is 1 for right propensities; "
        f"allowed within {OFF:g} and within {ERRORS:g} standard errors"
    )


def _inflation(found: Diagnostics) -> str | None:
    if found.inflation < EVIDENCE:
        return None
    return (
        f"the mean weight is above 1 (e-value {found.inflation:.2g}, allowed below {EVIDENCE:g}), so the propensities "
        "are too small"
    )


def _skewed(found: Diagnostics) -> str | None:
    if found.skew <= SKEW:
        return None
    if found.skew == 1:
        return "the terms do not vary, which says nothing about how far off their mean may be"
    return f"the terms' skewness is {found.skew:.2f} √T, so they are not yet normal; allowed at most {SKEW:g} √T"
