"""Intervals: from terms to a value with an interval that can be defended, or a refusal that says why."""

from collections.abc import Iterable
from math import log, sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from oddsmith.arrays import number
from oddsmith.errors import InvalidInput
from oddsmith.evaluation.betting import lower_bound
from oddsmith.evaluation.bootstrap import studentised
from oddsmith.evaluation.diagnostics import Diagnostics, broken, check_rules, diagnose
from oddsmith.evaluation.terms import Terms

__all__ = ["Estimate", "INTERVALS", "estimate"]

INTERVALS = ("normal", "bootstrap", "bernstein", "anytime")


class Estimate(NamedTuple):
    """A value with its interval; or, where `refused` names rules, NaN for all three and `why` in English.

    The interval is for the mean of the estimator, which is the target's value if `unbiased`; else bias comes on top.
    `overruled` are broken rules that were named in `overrule`.
    """

    name: str
    value: float
    low: float
    high: float
    level: float
    interval: str
    unbiased: bool
    setting: float | None
    diagnostics: Diagnostics
    refused: tuple[str, ...]
    overruled: tuple[str, ...]
    why: str

    def __str__(self) -> str:
        if self.refused:
            return f"{self.name}: refused: {self.why}"
        kind = f"{self.level:.3g} {self.interval}"
        bias = "" if self.unbiased else ", its bias not counted"
        return f"{self.name}: {self.value:.4g} in [{self.low:.4g}, {self.high:.4g}] ({kind}{bias})"


def estimate(
    terms: Terms,
    *,
    level: float = 0.95,
    interval: str = "normal",
    floor: float | None = None,
    seed: int = 0,
    overrule: Iterable[str] = (),
) -> Estimate:
    """The mean of the terms with an interval of one of four kinds, or a refusal by the rules of `diagnostics`.

    * `normal`: mean ± z sd/√T; `bootstrap`: studentised, by `seed`. Right for large T and tame weights.
    * `bernstein`: mean ± sqrt(2 V ln(4/α)/T) + 7 (b - a) ln(4/α) / (3 (T - 1)), V the sample variance, for independent
      terms in [a, b] and any T (Maurer and Pontil 2009, Theorem 4).
    * `anytime`: by betting, for all times at once, so one may look and stop whenever one likes. `ips` needs no bound on
      weights; others use [a, b].

    Where [a, b] is needed it comes from `floor`, the smallest propensity the logger can give, or from a chosen
    threshold. Intervals are cut to [0, 1], where values are ([-1, 1] for differences).

    >>> from oddsmith.evaluation import ips
    >>> from oddsmith.logs import Log
    >>> log = Log(arm=[0, 1] * 200, reward=[1, 0] * 100 + [1, 1] * 100, propensity=[0.5] * 400)
    >>> print(estimate(ips(log, [0.9, 0.1])))
    ips: 0.95 in [0.8663, 1] (0.95 normal)
    >>> print(estimate(ips(log[:40], [0.9, 0.1])))
    ips: refused: 40 rows are worth 24.4 rows of the target's own; allowed at least 100
    """
    number("level", level, low=0, high=1, open_low=True, open_high=True)
    if interval not in INTERVALS:
        raise InvalidInput(f"interval must be one of {', '.join(INTERVALS)}; got {interval!r}")
    if len(terms) < 2:
        raise InvalidInput(f"an interval needs at least 2 rows with rewards; got {len(terms)}")
    names, found = check_rules(overrule), diagnose(terms)
    against = broken(found, interval, one_sided=terms.bets is not None)
    refused, overruled = (tuple(n for n in against if (n in names) is kept) for kept in (False, True))
    value, low, high = np.nan, np.nan, np.nan
    if not refused:
        value = float(terms.values.mean())
        bottom = -1.0 if terms.parts is not None else 0.0
        low, high = (min(max(end, bottom), 1.0) for end in _ends(terms, interval, level, floor, seed))
    why = "; ".join(against[name] for name in refused)
    return Estimate(
        terms.name, value, low, high, level, interval, terms.unbiased, terms.setting, found, refused, overruled, why
    )


def _ends(terms: Terms, interval: str, level: float, floor: float | None, seed: int) -> tuple[float, float]:
    if interval == "bootstrap":
        return studentised(terms, level=level, seed=seed)
    if interval == "normal":
        reach = NormalDist().inv_cdf((1 + level) / 2) * float(terms.values.std(ddof=1)) / sqrt(len(terms))
        return float(terms.values.mean()) - reach, float(terms.values.mean()) + reach
    if terms.ratio or terms.tuned:
        reason = "is a ratio" if terms.ratio else "has a setting chosen from the same rows"
        raise InvalidInput(f"{interval} intervals need terms that are independent; got {terms.name}, which {reason}")
    return _bernstein(terms, level, floor) if interval == "bernstein" else _anytime(terms, level, floor)


def _bernstein(terms: Terms, level: float, floor: float | None) -> tuple[float, float]:
    low, high = terms.span(floor)
    n, chance = len(terms), log(4 / (1 - level))
    reach = sqrt(2 * float(terms.values.var(ddof=1)) * chance / n) + 7 * (high - low) * chance / (3 * (n - 1))
    mean = float(terms.values.mean())
    return mean - reach, mean + reach


def _anytime(terms: Terms, level: float, floor: float | None) -> tuple[float, float]:
    bets = terms.betting(floor)
    low, high = lower_bound(np.stack([bets.gain, bets.loss]), (1 - level) / 2)
    return float(low) - bets.gain_shift, bets.loss_shift - float(high)
