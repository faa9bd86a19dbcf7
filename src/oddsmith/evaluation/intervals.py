"""Intervals: compute a value and its confidence interval from terms, or refuse with a
reason."""

from collections.abc import Iterable, Mapping
from functools import partial
from math import log, sqrt
from typing import NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, number
from oddsmith.core.errors import InvalidInput
from oddsmith.core.names import check_choice
from oddsmith.evaluation.bets import Limited, lower_bound
from oddsmith.evaluation.diagnostics import (
    ASYMPTOTIC,
    MISSING,
    SHARE,
    Diagnostics,
    broken_rules,
    check_rules,
    diagnose,
)
from oddsmith.evaluation.ends import beta_interval, normal_interval, studentised
from oddsmith.evaluation.mean_bounds import (
    Sums,
    bets_within,
    limited_sums,
    running_bound,
    running_sums,
)
from oddsmith.evaluation.paired_bets import PairedSums, pair_policies
from oddsmith.evaluation.slates import per_slate
from oddsmith.evaluation.terms import Bets, DrawnOdds, Extremes, Terms

__all__ = [
    "ASSUMPTIONS",
    "Comparison",
    "Estimate",
    "INTERVALS",
    "compare",
    "estimate",
    "outer_terms",
    "sums_of_bets",
]


def outer_terms(terms: Terms) -> tuple[Terms, Terms] | None:
    """Return terms whose mean is at most the value, and terms whose mean is at least
    the value, or None if all propensities are known.

    Let D = w - w' be the difference of the weights of two targets, P the probability
    that the first target places more than the second, and N the probability that it
    places less. Then the terms are

        D⁺ r + D⁻ (1 - r) - N   and   P - D⁺ (1 - r) - D⁻ r

    so the probability that both targets place on the same arms cancels. For a single
    target, D = w, P = 1 and N = 0.
    """
    sides = [part.drawn for part in terms.parts or (terms,)]
    drawn = [side for side in sides if side is not None]
    if len(drawn) < len(sides) or all(side.target is None for side in drawn):
        return None
    first = drawn[0]
    reward = first.reward
    apart = first.weights
    more = first.mass
    less = np.zeros(len(terms))
    if len(drawn) == 2:
        second = drawn[1]
        apart = first.weights - second.weights
        more, less = _masses(first, second)
    up = np.maximum(apart, 0.0)
    down = np.maximum(-apart, 0.0)
    ones = np.ones(len(up))
    least = up * reward + down * (1 - reward) - less
    most = more - up * (1 - reward) - down * reward
    highest_up = up - less
    lowest_up = down - less
    highest_down = more - down
    lowest_down = more - up
    lower = Extremes(highest_up, lowest_up, ones)
    upper = Extremes(highest_down, lowest_down, ones)
    return _bound(terms, least, lower), _bound(terms, most, upper)


def _bound(terms: Terms, values: Array, extremes: Extremes) -> Terms:
    return Terms(
        terms.name,
        values,
        terms.missing,
        extremes=lambda: extremes,
        slates=terms.slates,
    )


def _masses(first: DrawnOdds, second: DrawnOdds) -> tuple[Array, Array]:
    """Return how much probability the first target puts on arms beyond the second, and
    vice versa.

    If one of the two is the logging policy and only drawn propensities are logged, both
    amounts are estimated by means over rows. The probability by which π is smaller than
    p is E (1 - w)⁺. The probability by which π is larger is the same, minus the
    probability of π on arms that could not be drawn.
    """
    if first.target is not None and second.target is not None:
        apart = first.target - second.target
        more = np.maximum(apart, 0.0).sum(axis=1)
        return more, np.maximum(-apart, 0.0).sum(axis=1)
    # The weights of the logging policy are all 1.
    both_weights = first.weights * second.weights
    light = np.maximum(1.0 - both_weights, 0.0)
    more = light + first.mass - 1.0
    less = light + second.mass - 1.0
    return more, less


ASSUMPTIONS = {
    "beta": "many rows, none of them heavy",
    "normal": "many rows, none of them heavy",
    "bootstrap": "many rows, none of them heavy",
    "bernstein": "independent rows of one law, looked at once",
    "anytime": (
        "at every row at once, for the mean value of the rows so far, which may drift"
    ),
    "anytime_constant": "at every row at once, if the value is the same in all rows",
}
"""Assumption of each interval, by name."""
INTERVALS = tuple(ASSUMPTIONS)
"""Names of the intervals that `interval` accepts."""
_NOT_CONSTANT = (
    "no constant value fits the rows: by some of them it is above {:.4g}, by others "
    "below {:.4g}; use an anytime interval, which is for the mean of a value that "
    "drifts"
)


class Estimate(NamedTuple):
    """A value with the ends `low` and `high` of its interval. If `refused` contains
    rules, these three numbers are NaN and `why` explains the refusal.

    The interval is for the mean of the estimator, which is the target's value if it is
    `unbiased` (never if the logging policy could not draw an arm of the target).
    Otherwise the estimator has a bias that the interval does not contain, unless
    `counted` is true: if the shrinkage was chosen from the same rows, the interval also
    includes the interval without shrinkage, and so covers the target's value.
    `overruled` are broken rules that the user named in `overrule`. If the mean of the
    terms is outside the interval, for instance because it is above 1, `cut_from` is
    this mean and `value` is the nearer end.
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
    counted: bool = False
    cut_from: float | None = None

    def __str__(self) -> str:
        if self.refused:
            return f"{self.name}: refused: {self.why}"
        kind = f"{self.level:.3g} {self.interval}"
        if self.interval.startswith("anytime"):
            kind += f": {self.assumption}"
        bias = ", its bias not counted"
        if self.unbiased or self.counted:
            bias = ""
        if self.cut_from is not None:
            bias += f", cut from {self.cut_from:.4g}"
        return (
            f"{self.name}: {self.value:.4g} in [{self.low:.4g}, {self.high:.4g}] "
            f"({kind}{bias})"
        )

    @property
    def assumption(self) -> str:
        """The assumption of the interval, besides correct propensities."""
        return ASSUMPTIONS[self.interval]


def estimate(
    terms: Terms,
    *,
    level: float = 0.95,
    interval: str = "beta",
    floor: float | None = None,
    seed: int = 0,
    overrule: Iterable[str] = (),
) -> Estimate:
    """Return the mean of the terms with one of six intervals, or a refusal by the rules
    in `diagnostics`.

    * `beta`: Clopper and Pearson's interval, extended to weights; `normal`: mean ± z
      sd/√T; `bootstrap`: studentised, with random draws from `seed`. All three add one
      row at each end of the range, which matters if there are few rewards or some rows
      have large weights (`ends`).
    * `bernstein`: mean ± sqrt(2 V ln(4/α)/T) + 7 (b - a) ln(4/α) / (3 (T - 1)), V the
      sample variance, for independent terms in [a, b] and any T (Maurer and Pontil
      2009, Theorem 4).
    * `anytime`: valid at all times simultaneously, so you may look and stop whenever
      you like. It is for the mean value of the rows so far, which may drift
      (`running`). `anytime_constant` assumes that the value is the same in all rows
      (`betting`). It is refused as "constant" if no value fits the rows, but a slow
      drift may remain undetected: if in doubt, use `anytime`. For `ips`, both kinds
      need no bound on weights, and a `floor` makes them narrower, most of all if
      rewards are rare. For other estimators, both kinds need the range [a, b] of the
      terms.

    If the log has only the propensities of drawn arms, a `floor` also makes the first
    three intervals narrower, if there are at least 20 times 1/floor rows. The range [a,
    b] comes from `floor`, the smallest propensity of the logging policy, or from a
    chosen threshold. Intervals are cut to [0, 1], the range of values ([-1, 1] for
    differences). A mean outside its interval is replaced by the nearer end
    (`cut_from`). For rows that were decided together, the value is the mean over slates
    of the means over their slots, and slates are the independent units (`slates`).

    >>> from oddsmith.evaluation import ips
    >>> from oddsmith.logs import Log
    >>> log = Log(
    ...     arm=[0, 1] * 200, reward=[1, 0] * 100 + [1, 1] * 100, propensity=[0.5] * 400
    ... )
    >>> print(estimate(ips(log, [0.9, 0.1])))
    ips: 0.95 in [0.8641, 1] (0.95 beta)
    >>> print(estimate(ips(log[:40], [0.9, 0.1])))
    ips: refused: 40 rows are worth 24.4 rows of the target's own; allowed at least 100
    """
    number("level", level, low=0, high=1, open_low=True, open_high=True)
    check_choice("interval", interval, INTERVALS)
    own = per_slate(terms)
    if len(own) < 2:
        raise InvalidInput(
            f"an interval needs at least 2 {own.unit}s with rewards; got {len(own)}"
        )
    names = check_rules(overrule)
    if floor is not None:
        terms.limit(floor)  # raises if the logged propensities contradict the floor
    found = diagnose(terms, None if interval in ASYMPTOTIC else floor)
    against = broken_rules(found, interval)
    refused = tuple(name for name in against if name not in names)
    has_support = found.missing <= MISSING
    overruled = tuple(name for name in against if name in names)
    counted = terms.whole is not None and has_support
    answer = Estimate(
        name=terms.name,
        value=np.nan,
        low=np.nan,
        high=np.nan,
        level=level,
        interval=interval,
        unbiased=terms.unbiased and has_support,
        setting=terms.setting,
        diagnostics=found,
        refused=refused,
        overruled=overruled,
        why="; ".join(against[name] for name in refused),
        counted=counted,
    )
    if refused:
        return answer
    low, high = _widest_ends(terms, interval, level, floor, seed)
    # Widen the interval for rounded propensities. Rewards are in [0, 1], so the mean
    # changes at most as much as the mean weight.
    low -= found.rounding
    high += found.rounding
    if low > high:
        why = _NOT_CONSTANT.format(low, high)
        return answer._replace(refused=("constant",), why=why)
    low = min(max(low, terms.least_value), 1.0)
    high = min(max(high, terms.least_value), 1.0)
    mean = float(own.values.mean())
    value = min(max(mean, low), high)
    cut_from = None
    if value != mean:
        cut_from = mean
    return answer._replace(value=value, low=low, high=high, cut_from=cut_from)


def _widest_ends(
    terms: Terms, interval: str, level: float, floor: float | None, seed: int
) -> tuple[float, float]:
    """Return the ends of the interval. They are widened if the terms are shrunk or if
    arms were not drawn, and narrowed as far as the floor allows."""
    if interval not in ASYMPTOTIC:
        return _unshrunk_ends(terms, interval, level, floor, seed)
    low, high = _unshrunk_ends(terms, interval, level, None, seed)
    bounds = outer_terms(terms.whole or terms)
    if bounds is None:
        return low, high
    least, most = bounds
    least_low, _ = _ends(least, interval, level, None, seed)
    _, most_high = _ends(most, interval, level, None, seed)
    low = min(low, least_low)
    high = max(high, most_high)
    if not _is_light(terms, floor):
        return low, high
    inner_low, inner_high = _unshrunk_ends(terms, interval, level, floor, seed)
    return max(low, inner_low), min(high, inner_high)


def _unshrunk_ends(
    terms: Terms, interval: str, level: float, floor: float | None, seed: int
) -> tuple[float, float]:
    """Return the ends of the interval, widened to include the interval without
    shrinkage. The chosen setting varies with the rows, and the variance of the terms
    does not include this variation."""
    low, high = _ends(terms, interval, level, floor, seed)
    if terms.whole is None:
        return low, high
    whole_low, whole_high = _ends(terms.whole, interval, level, floor, seed)
    return min(low, whole_low), max(high, whole_high)


def _is_light(terms: Terms, floor: float | None) -> bool:
    """Return whether only `floor` bounds the weights, and no row can have a large share
    of the total weight.

    Such terms need no bounds for undrawn arms (`outer_terms`).
    """
    if floor is None or terms.slates is not None:
        return False
    if outer_terms(terms) is None:
        return False
    return terms.limit(floor) <= SHARE * len(terms)


def _ends(
    of_rows: Terms, interval: str, level: float, floor: float | None, seed: int
) -> tuple[float, float]:
    terms = per_slate(of_rows)
    if interval == "bootstrap":
        return studentised(terms, terms.ends_within(floor), level=level, seed=seed)
    if interval in ASYMPTOTIC:
        least, most = terms.ends_within(floor)
        ends = np.asarray(least), np.asarray(most)
        make_interval = normal_interval
        if interval == "beta":
            make_interval = beta_interval
        low, high = make_interval(terms.values, ends, level)
        return float(low), float(high)
    if terms.ratio or terms.tuned:
        reason = "has a setting chosen from the same rows"
        if terms.ratio:
            reason = "is a ratio"
        raise InvalidInput(
            f"{interval} intervals need terms that are independent; got {terms.name}, "
            f"which {reason}"
        )
    if not terms.beforehand:
        raise InvalidInput(
            f"{interval} intervals need predictions that were made before the rows, "
            f"and a cross-fitted model has seen later ones; got {terms.name}: use ips, "
            "or a model fitted on earlier rows (beforehand=True)"
        )
    if interval == "bernstein":
        return _bernstein(terms, level, floor)
    if interval == "anytime":
        bounds = _paired_ends(terms, level, floor)
        if bounds is not None:
            return bounds
    bets = terms.betting(floor)
    alpha = (1 - level) / 2
    if interval == "anytime":
        of_gain, of_loss = sums_of_bets(bets, terms.least_value)
        gain = float(running_bound(of_gain, alpha))
        loss = float(running_bound(of_loss, alpha))
    else:
        gain, loss = _constant_bounds(bets, alpha)
    return gain - bets.gain_shift, bets.loss_shift - loss


def _paired_ends(
    terms: Terms, level: float, floor: float | None
) -> tuple[float, float] | None:
    """Return the interval of a difference of two `ips` terms by paired bets. Return
    None for other terms, for slates, and if the log has only drawn propensities and
    there is no floor."""
    if terms.parts is None or terms.unit != "row":
        return None
    target, control = (part.policy_rows for part in terms.parts)
    if target is None or control is None:
        return None
    rows = pair_policies(target, control, floor)
    if rows is None:
        return None
    sums = PairedSums()
    sums.add(rows)
    return sums.bounds(level)


def sums_of_bets(bets: Bets, least: float, *, every: bool = False) -> tuple[Sums, Sums]:
    """Return the sums of the bets on the means of the gain and of the loss, for values
    between `least` and 1. With `every`, return the sums after each row."""
    least_gain = max(0.0, least + bets.gain_shift)
    least_loss = max(0.0, bets.loss_shift - 1.0)
    on_gain = bets_within(least_gain, 1.0 + bets.gain_shift)
    on_loss = bets_within(least_loss, bets.loss_shift - least)
    gain = running_sums(bets.gain, on_gain, every=every)
    loss = running_sums(bets.loss, on_loss, every=every)
    if bets.limit == np.inf:
        return gain, loss
    gain_sums = limited_sums(gain, bets.loss, bets.limit, bets.total)
    loss_sums = limited_sums(loss, bets.gain, bets.limit, bets.total)
    return (
        gain_sums,
        loss_sums,
    )


def _constant_bounds(bets: Bets, alpha: float) -> list[float]:
    """Return the bounds on the means of the gain and of the loss, assuming that these
    means are the same in all rows."""
    both = np.stack([bets.gain, bets.loss])
    limited = None
    if bets.limit != np.inf:
        limited = Limited(both[::-1], bets.limit, bets.total)
    bounds: list[float] = lower_bound(both, alpha, limited).tolist()
    return bounds


def _bernstein(terms: Terms, level: float, floor: float | None) -> tuple[float, float]:
    low, high = terms.span(floor)
    n = len(terms)
    chance = log(4 / (1 - level))
    variance = float(terms.values.var(ddof=1))
    # Maurer and Pontil 2009, Theorem 4.
    reach = sqrt(2 * variance * chance / n)
    factor = 7 * (high - low) * chance
    reach += factor / (3 * (n - 1))
    mean = float(terms.values.mean())
    return mean - reach, mean + reach


class Comparison(NamedTuple):
    """The estimate of each target, and of its difference from the baseline, by name."""

    baseline: str
    values: dict[str, Estimate]
    differences: dict[str, Estimate]


def compare(
    terms: Mapping[str, Terms],
    *,
    baseline: str | None = None,
    level: float = 0.95,
    interval: str = "beta",
    floor: float | None = None,
    seed: int = 0,
    overrule: Iterable[str] = (),
) -> Comparison:
    """Compare targets with the baseline (by default the first one) on the same rows of
    a log.

    Differences are taken row by row, so everything the targets share cancels. The
    intervals of all m differences hold simultaneously at `level`, because each has the
    level 1 - (1 - level)/m (Bonferroni). The interval of each value has the level
    `level`.

    >>> from oddsmith.evaluation import ips, logged
    >>> from oddsmith.logs import Log
    >>> log = Log(
    ...     arm=[0, 1] * 200, reward=[1, 0] * 150 + [1, 1] * 50, propensity=[0.5] * 400
    ... )
    >>> found = compare({"today": logged(log), "new": ips(log, [0.9, 0.1])})
    >>> print(found.differences["new"])
    new - today: 0.3 in [0.2419, 0.3548] (0.95 beta)
    """
    if len(terms) < 2:
        raise InvalidInput(f"a comparison needs at least 2 targets; got {len(terms)}")
    base = baseline
    if base is None:
        base = next(iter(terms))
    check_choice("baseline", base, terms)
    rules = check_rules(overrule)
    estimate_at = partial(
        estimate, interval=interval, floor=floor, seed=seed, overrule=rules
    )
    share = (1 - level) / (len(terms) - 1)
    values = {}
    differences = {}
    for name, own in terms.items():
        value = estimate_at(own, level=level)
        values[name] = value._replace(name=name)
        if name != base:
            difference = own.minus(terms[base])
            found = estimate_at(difference, level=1 - share)
            differences[name] = found._replace(name=f"{name} - {base}")
    return Comparison(base, values, differences)
