"""Input of the bets that test logged propensities, and families of such bets.

If all propensities p are logged, the bet that the arm is drawn from q gains q(a) / p(a)
- 1. Its mean under p is at most 0 for every q that depends only on earlier rows and on
p. With only the drawn arm's propensity, a bet gains h_a(p(a)) / p(a) - 1. Its mean is
at most 0 for any other propensities, if Σ_a h_a(p_a) ≤ 1 for all p.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, Bools, Ints
from oddsmith.core.errors import InvalidInput
from oddsmith.logs.by_policy import names_of, over_arms
from oddsmith.logs.rules import drawn_entries
from oddsmith.logs.table import Log

__all__ = ["BetFamily", "Draws", "equal_bets"]

# Limit the payoff of a bet. A smaller payoff is still fair, and the product of sixteen
# payoffs does not overflow.
_MOST = 1e15
# Maximum number of arm names that have their own bets, if arms are passed in the call.
_MOST_NAMES = 256
_MOST_ODDS = 2**25  # maximum number of propensities in memory
_SUM = 1e-6  # tolerance for sums of logged propensities


class BetFamily(NamedTuple):
    """A family of bets: their descriptions, their shares of the family's money, and the
    function `gains(rows)` that returns (rows, B) ≥ -1."""

    names: Sequence[str]
    shares: Array
    gains: Callable[[slice], Array]


def equal_bets(names: Sequence[str], gains: Callable[[slice], Array]) -> BetFamily:
    """Return a family in which all bets have the same amount of money."""
    shares = np.full(len(names), 1 / len(names))
    return BetFamily(names, shares, gains)


class Draws:
    """The drawn arms and their propensities. The propensities of all arms are included
    if they are logged or if there are only two arms.

    `count` (T,) is the number of arms with positive propensity, as far as known before
    the row. `stated` is true if the log contains the number of arms. Otherwise arm
    numbers may have gaps, and bets on an arm begin only after `first` (K,), the row in
    which the arm first appears (T if it never does). `new` (T,) marks the first row of
    each arm.
    """

    def __init__(self, given: Log, propensity: Array, floor: float) -> None:
        logged = given
        self._offered = None
        if given.offered is not None and given.arms is None:
            logged, self._offered = _by_name(given)
        n = len(logged.arm)
        self.arm = logged.arm
        self.eligible = logged.eligible
        self.floor = floor
        self.n_arms = logged.n_arms
        numbers = [str(a) for a in range(self.n_arms)]
        self.labels = logged.arms or numbers
        if self._offered is not None:
            places = range(1, self.n_arms + 1)
            self.labels = [f"at place {place} of the offer" for place in places]
        columns = (logged.propensities, logged.eligible, logged.arms, self._offered)
        self.stated = any(column is not None for column in columns)
        self.first = np.full(self.n_arms, n)
        np.minimum.at(self.first, self.arm, np.arange(n))
        is_first = self.first[self.arm]
        self.new = np.arange(n) == is_first
        self.odds = logged.propensities
        self.count = self._arm_counts()
        has_two = (self.count <= 2).all()
        if self.odds is None and self.stated and has_two:
            self.odds = self._odds_of_two(propensity)
        self.propensity = propensity
        if self.odds is not None:
            self.propensity = drawn_entries(self.odds, self.arm)
        self.inverse: Array = np.minimum(1.0 / self.propensity, _MOST)
        if floor:
            self._check_floor()

    def gain(self, rows: slice, q: Array) -> Array:
        """Return the gain q(a) / p(a) - 1 of each row. The propensities q (rows, K) are
        first set to 0 for arms with p = 0 and scaled to sum to 1; the gain is 0 if all
        q are 0."""
        total = q.sum(axis=1)
        possible = total > 0
        drawn = drawn_entries(q, self.arm[rows])
        gains = drawn * self.inverse[rows]
        ratio = gains / np.where(possible, total, 1.0)
        return np.where(possible, ratio - 1.0, 0.0)

    def previous(self) -> tuple[Ints, Bools]:
        """Return, for each row, the number in this row of the arm that the previous row
        drew, and whether the row offers this arm."""
        first = self.arm[:1]
        before = np.concatenate([first, self.arm[:-1]])
        has_arm = np.arange(len(self.arm)) > 0
        if self._offered is None:
            return before, has_arm
        for row in range(1, len(before)):
            last_arm = self.arm[row - 1]
            name = self._offered[row - 1][last_arm]
            names = self._offered[row]
            has_arm[row] = name in names
            before[row] = 0
            if has_arm[row]:
                before[row] = names.index(name)
        return before, has_arm

    def _arm_counts(self) -> Ints:
        """Return the number of arms (T,) with positive propensity, as far as known
        before the row."""
        if self.eligible is not None:
            return np.asarray(self.eligible.sum(axis=1))
        if self.odds is not None:
            return np.asarray((self.odds > 0).sum(axis=1))
        if self.stated:
            return np.full(len(self.arm), self.n_arms)
        return np.asarray(np.cumsum(self.new) - self.new)

    def _odds_of_two(self, propensity: Array) -> Array:
        able: Array | Bools = np.ones((len(self.arm), self.n_arms))
        if self.eligible is not None:
            able = self.eligible
        odds = able * (1 - propensity)[:, None]
        places = self.arm[:, None]
        np.put_along_axis(odds, places, propensity[:, None], axis=1)
        return odds

    def _check_floor(self) -> None:
        count = self.count
        if not self.stated:
            count = self.count + self.new
        least = float(self.propensity.min())
        most = float(1 / count.max())
        if self.floor > (1 + 1e-9) * min(least, most):
            ends = f"the least logged odds, {least:g}, and 1 / arms, {most:g}"
            raise InvalidInput(f"floor must be at most {ends}; got {self.floor:g}")
        others = count - 1
        total = self.propensity + others * self.floor
        is_short = total > 1 + _SUM
        if is_short.any():
            row = int(np.argmax(is_short))
            odds = self.propensity[row]
            raise InvalidInput(
                f"the odds of row {row}, {odds:g}, leave less than the floor, "
                f"{self.floor:g}, for each of {others[row]} other arms; log "
                "`eligible`, or give a smaller floor"
            )


def _by_name(log: Log) -> tuple[Log, Sequence[tuple[str, ...]] | None]:
    """Return the log with one number per arm name, and the offers. If calls had too
    many names, arms are numbered by their positions in the offers.

    Bets may treat all names as known from the first row, because the offers do not
    depend on the draws.
    """
    names = names_of(log)
    size = len(names) * len(log)
    if len(names) <= _MOST_NAMES and size <= _MOST_ODDS:
        return over_arms(log, names), None
    return log, log.offered
