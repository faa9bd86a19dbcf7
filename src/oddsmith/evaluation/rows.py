"""Input of estimators: checked arrays of the rows of a log that have a reward, and of a
target's propensities for these rows."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from oddsmith.core.arrays import Array, Bools, Ints, finite
from oddsmith.core.errors import InvalidInput
from oddsmith.evaluation.slates import Slates, heaviest_slate, slates_of
from oddsmith.evaluation.terms import heaviest
from oddsmith.logs.offers import offer_mask
from oddsmith.logs.rules import drawn_entries
from oddsmith.logs.table import Log

__all__ = [
    "Rows",
    "all_odds",
    "certain_rows",
    "half_step",
    "largest_factor",
    "rewarded_rows",
    "rows_of",
]

_ROUNDING = 1e-6  # tolerance for logged propensities, which may be float32
_SURE = 1e-12  # a propensity so close to 1 counts as a certain arm

# Numbers of digits to which propensities may have been rounded.
_DIGITS = (1, 2, 3, 4)
# Propensities are taken as rounded if at least this many pairs of their values are one
# step apart; propensities of a designed experiment have fewer such pairs.
_NEIGHBOURS = 4
# The same number for propensities with one digit. It is larger, because propensities of
# designed experiments are often tenths.
_TENTHS = 6
_EXACT = 1e-7  # tolerance as a share of one step


@dataclass(frozen=True, eq=False)
class Rows:
    """T rows whose reward has arrived, with the target's propensities `target` (T, K)
    and the columns of the log. `known` is the mask of these rows in the log.

    `propensity` (T,), `propensities` (T, K) and `eligible` (T, K) are None if the log
    does not have them. `slates` contains which rows were decided together, or None.
    `half_step` is half of the last digit of rounded propensities.
    """

    arm: Ints
    reward: Array
    target: Array
    propensity: Array | None
    propensities: Array | None
    eligible: Bools | None
    known: Bools
    slates: Slates | None = None
    half_step: float = 0.0

    @cached_property
    def rounding(self) -> Array | None:
        """Possible error of each weight (T,) due to rounded propensities, or None if
        they were not rounded."""
        if self.half_step == 0 or self.propensity is None:
            return None
        factors = largest_factor(self.propensity, self.half_step)
        errors = np.zeros_like(self.weights)
        drawn_by_both = self.weights > 0
        possible = self.weights * (factors - 1)
        errors[drawn_by_both] = possible[drawn_by_both]
        return errors

    @cached_property
    def weights(self) -> Array:
        """π(a) / p(a) of the drawn arms (T,). Raise if the log has no propensities."""
        if self.propensity is None:
            raise InvalidInput(
                "importance weights need the logged propensity of the drawn arm; got "
                "a log without propensities: use dm (a reward model), or log "
                "propensities from now on"
            )
        target = drawn_entries(self.target, self.arm)
        weights: Array = target / self.propensity
        return weights

    @cached_property
    def barred(self) -> Bools:
        """Mask of the arms (T, K) that the logging policy could not draw, as far as
        known."""
        if self.propensities is not None:
            return np.asarray(self.propensities == 0)
        barred: Bools = np.zeros(self.target.shape, np.bool_)
        if self.eligible is not None:
            barred = ~self.eligible
        if self.propensity is not None:
            is_sure = self.propensity >= 1 - _SURE
            arms = np.arange(self.target.shape[1])
            is_other = arms != self.arm[:, None]
            barred = barred | (is_sure[:, None] & is_other)
        return barred

    @cached_property
    def missing(self) -> Array:
        """The target's probability (T,) of arms that the logging policy could not draw,
        as far as known."""
        barred = np.where(self.barred, self.target, 0.0)
        mass: Array = barred.sum(axis=1)
        return mass

    @cached_property
    def drawable(self) -> Array:
        """The target's propensities (T, K), 0 for arms that the logging policy could
        not draw."""
        return np.where(self.barred, 0.0, self.target)

    @cached_property
    def least(self) -> float | None:
        """An upper bound of the smallest positive logged propensity of the target's
        arms, or None if no bound is known.

        If only drawn propensities are logged, the m other arms of the target have
        together 1 - p, so the smallest has at most (1 - p)/m.
        """
        if self.propensities is not None:
            has_both = (self.target > 0) & (self.propensities > 0)
            odds = self.propensities[has_both]
            return float(odds.min()) if odds.size else None
        if self.propensity is None:
            return None
        draws_own = drawn_entries(self.target, self.arm) > 0
        others = (self.target > 0).sum(axis=1) - draws_own
        # If the drawn arm had a propensity below 1, the other arms have the remaining
        # probability.
        is_sure = self.propensity >= 1 - _SURE
        has_others = (others > 0) & ~is_sure
        rest = 1 - self.propensity[has_others] + _ROUNDING
        odds_of_others = rest / others[has_others]
        own_odds = self.propensity[draws_own]
        odds = np.concatenate([own_odds, odds_of_others])
        return float(odds.min()) if odds.size else None

    @cached_property
    def ratios(self) -> Array | None:
        """π / p of all arms (T, K), 0 if the logging policy had propensity 0, or None
        if only the drawn arm's propensity is logged."""
        odds = self.propensities
        if odds is None:
            return None
        zeros = np.zeros_like(self.target)
        return np.divide(self.target, odds, out=zeros, where=odds > 0)

    @cached_property
    def ceiling(self) -> Array | None:
        """Largest weight (T,) that a row could have had by the logged propensities, or
        None if only the drawn arm's is logged."""
        if self.ratios is None:
            return None
        return np.asarray(self.ratios.max(axis=1))

    @cached_property
    def expected_squares(self) -> Array | None:
        """E[w² | x] (T,) by the logged propensities, or None if only the drawn arm's is
        logged."""
        if self.ratios is None:
            return None
        squares = (self.target * self.ratios).sum(axis=1)
        return np.asarray(squares)

    @cached_property
    def heaviest(self) -> float | None:
        """Mean weight of the heaviest row in T by the logged propensities, or None if
        only the drawn arm's is logged.

        If there are slates, this is an upper bound for the heaviest slate.
        """
        if self.ratios is None or self.propensities is None:
            return None
        if self.slates is not None:
            return heaviest_slate(self.ratios, self.propensities, self.slates)
        return heaviest(self.ratios, self.propensities)


def rewarded_rows(log: Log) -> Log:
    """Return the rows of the log whose reward has arrived, at least one."""
    known = log.rewarded()
    if not len(known):
        raise InvalidInput(f"log must have rewards; got none in {len(log)} rows")
    return known


def rows_of(log: Log, target: object) -> Rows:
    """Return the rewarded rows of the log with the propensities (T, K), or (K,) for all
    rows, of a target. Given `Rows` are returned unchanged."""
    if isinstance(target, Rows):
        return target
    if not isinstance(log, Log):
        raise InvalidInput(f"log must be a Log; got {type(log).__name__}")
    own = rewarded_rows(log)
    known = ~np.isnan(log.reward)
    odds = _check_target(log, target)
    if not known.all():
        odds = odds[known]
    propensities = all_odds(own)
    eligible = own.eligible
    # A row without reward may have more arms than any row with one.
    more = odds.shape[1] - own.n_arms
    if more > 0:
        width = [(0, 0), (0, more)]
        if propensities is not None:
            propensities = np.pad(propensities, width)
        if eligible is not None:
            eligible = np.pad(eligible, width)
    return Rows(
        arm=own.arm,
        reward=own.reward,
        target=odds,
        propensity=own.propensity,
        propensities=propensities,
        eligible=eligible,
        known=known,
        slates=slates_of(own),
        half_step=half_step(own),
    )


def all_odds(log: Log) -> Array | None:
    """Return the logging policy's propensities of all arms (T, K), logged or derived
    from those of the drawn arms, otherwise None.

    They can be derived if the log names two arms, or has two eligible or offered arms.
    They can also be derived if every drawn arm had propensity 1/K, where K is the
    number of such arms, because an arm with another propensity would have been drawn at
    some time.

    >>> all_odds(
    ...     Log(arm=[0, 1], reward=[1, 0], propensity=[0.9, 0.4], arms=["a", "b"])
    ... ).round(2).tolist()
    [[0.9, 0.1], [0.6, 0.4]]
    """
    p = log.propensity
    has_fixed_arms = log.arms is not None or log.eligible is not None
    stated = has_fixed_arms or log.offered is not None
    if log.propensities is not None or p is None or not stated:
        return log.propensities
    able: Bools = np.ones((len(log), log.n_arms), np.bool_)
    if log.eligible is not None:
        able = log.eligible
    count = able.sum(axis=1)
    has_two = (count <= 2).all()
    if not has_two:
        is_uniform = np.allclose(p * count, 1.0, rtol=0, atol=_ROUNDING)
        if not is_uniform:
            return None
    rest = np.where(p < 1 - _SURE, 1 - p, 0.0)
    each = rest / np.maximum(count - 1, 1)
    odds: Array = able * each[:, None]
    places = log.arm[:, None]
    np.put_along_axis(odds, places, p[:, None], axis=1)
    return odds


def certain_rows(log: Log) -> Bools:
    """Return a mask (T,) of the rows in which one arm had propensity 1 although others
    were eligible, so that there was no random draw.

    >>> log = Log(
    ...     arm=[0, 1, 1],
    ...     reward=[1, 0, 0],
    ...     propensity=[1, 1, 0.5],
    ...     eligible=[[1, 1], [0, 1], [1, 1]],
    ... )
    >>> certain_rows(log).tolist()
    [True, False, False]
    """
    if log.propensities is not None:
        sure = (log.propensities > 0).sum(axis=1) == 1
    elif log.propensity is not None:
        sure = log.propensity >= 1 - _SURE
    else:
        raise InvalidInput(
            "rows in which one arm had all odds are known by the logged odds; got a "
            "log without them"
        )
    able = log.n_arms
    if log.eligible is not None:
        able = log.eligible.sum(axis=1)
    return np.asarray(sure & (able > 1))


def _check_target(log: Log, target: object) -> Array:
    n = len(log)
    odds = finite("target", target)
    if odds.ndim == 1:
        odds = np.broadcast_to(odds, (n, len(odds)))
    if odds.ndim != 2 or len(odds) != n:
        raise InvalidInput(
            f"target must be the odds of all arms in each of the {n} rows; got "
            f"{odds.shape}"
        )
    states_arms = (
        log.propensities is not None
        or log.eligible is not None
        or log.offered is not None
    )
    width = odds.shape[1]
    if width < log.n_arms or (states_arms and width > log.n_arms):
        raise InvalidInput(
            f"target must have odds of the log's {log.n_arms} arms; got {width}"
        )
    total = odds.sum(axis=1)
    is_negative = (odds < 0).any(axis=1)
    wrong = is_negative | (np.abs(total - 1) > 1e-6)
    if wrong.any():
        row = int(np.argmax(wrong))
        least = odds[row].min()
        got = f"{least:g} … sum {total[row]:g}"
        raise InvalidInput(f"target, row {row}: must be odds that sum to 1; got {got}")
    if log.offered is None:
        return odds
    within = offer_mask(log.offered, log.n_arms)
    is_beyond = (odds > 0) & ~within
    wrong = is_beyond.any(axis=1)
    if wrong.any():
        row = int(np.argmax(wrong))
        n_offered = len(log.offered[row])
        raise InvalidInput(
            f"target, row {row}: must be 0 beyond the {n_offered} arms offered"
        )
    return odds


def half_step(log: Log) -> float:
    """Return half of the last digit of the logged propensities, 0 if they were not
    rounded.

    Rounded propensities of a policy are neighbours on a grid of decimals: 0.03, 0.04,
    0.05. A designed experiment has few values that are far apart (0.05 and 0.85, 1/K).
    Propensities of three or more arms that sum to 1 were not rounded one by one.

    >>> rng = np.random.default_rng(0)
    >>> odds = rng.uniform(0.05, 0.4, size=200)
    >>> log = Log(arm=[0] * 200, reward=[1] * 200, propensity=odds.round(2))
    >>> half_step(log), half_step(Log(arm=[0], reward=[1], propensity=[0.05]))
    (0.005, 0.0)
    """
    if log.propensity is None:
        return 0.0
    if log.propensities is not None and log.n_arms > 2:
        return 0.0
    values = np.unique(log.propensity)
    for digits in _DIGITS:
        steps = values * 10.0**digits
        whole = steps.round()
        if (np.abs(steps - whole) < _EXACT).all():
            is_next = np.diff(np.unique(whole)) == 1
            neighbours = int(is_next.sum())
            least = _NEIGHBOURS
            if digits == 1:
                least = _TENTHS
            if neighbours >= least:
                return 0.5 * 10.0**-digits
            return 0.0
    return 0.0


def largest_factor(propensity: Array, half: float) -> Array:
    """Return the largest factor p / (p - half) (T,) that rounding allows for a weight,
    infinite if p is at most half of a step."""
    rest = propensity - half
    infinite = np.full_like(propensity, np.inf)
    return np.divide(propensity, rest, out=infinite, where=rest > 0)
