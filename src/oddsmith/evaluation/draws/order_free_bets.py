"""Served-as-logged test whose bets do not depend on the order of rows, so that the
service can update it incrementally.

This is a test by betting. The test in `check` covers more causes, but needs the rows in
order. Each bet is about one cause, that is, one way in which the arm could be drawn
from propensities q other than the logged p; q depends only on p. In every row a bet
stakes a share ε of its money, so that the money is multiplied by 1 - ε + ε q(a)/p(a).
This factor has a mean of at most 1 if arms follow p. So the money is a test
supermartingale, and the probability that it ever exceeds 1/α is at most α. Products of
factors do not depend on the order of rows.

The bets start again in every window of rows, so that repaired faults are forgotten. The
alarm of window k needs evidence of k (k + 1)/α. The shares 1/(k (k + 1)) sum to 1, so a
correct log raises an alarm in any window with probability at most α. The first window
has 1,024 rows, and each next one twice as many. A window that raises an alarm ends at
most 1,024 rows later, and the alarm stays until the next window is over.

Causes: an arm is forced, an arm is not served, the likeliest arm is forced,
propensities are uniform or sharper, exploration or small propensities are not served.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, inf, log
from typing import NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, Ints
from oddsmith.core.errors import InvalidInput
from oddsmith.evaluation.exact_sums import in_units, of_units
from oddsmith.logs.by_policy import names_of
from oddsmith.logs.table import Log

__all__ = ["ALARM", "Standing", "StandingBets", "standing_bets"]

_STRENGTHS: Array = np.array([0.03, 0.1, 0.3, 0.9])
# Logarithms of the initial shares of the money, one for each strength ε.
_SHARES: Array = np.log([0.15, 0.35, 0.2, 0.3])
_CUTS = (0.03, 0.1)
_CAUSES = (
    "the likeliest arm were forced",
    "arms were drawn from even odds",
    "arms were drawn from sharper odds (power 2)",
    "uniform exploration were logged but not served",
    *(f"arms with odds below {cut:g} were not served" for cut in _CUTS),
)
_FAMILIES = 3  # families: the causes above, forced arms, and arms that were not served
_FEW = 64  # up to this many arms, every arm has the same share
_LOOK = 16  # rows that are added together; then the evidence is checked
_SHORTEST = 1024  # rows per window
# Maximum rows per window after an alarm, so that the alarm clears after at most this
# many rows.
_LONGEST_AFTER = 16_384
ALARM = 0.001
"""If the log is correct, the probability that the p-value ever falls below this is at
most this number."""
_MOST = 1e15  # limit the payoff of a bet: a smaller payoff is still fair
_NOTHING = 1e-9  # propensities above the floor by less than this are rounding errors
_ALONE = 1e-6  # tolerance for sums of logged propensities
_LARGEST = log(np.finfo(np.float64).max)


class Standing(NamedTuple):
    """Result of the bets: current money (at most 1.8e308), the p-value, and the cause
    that has won most.

    The p-value is that of the current window, or that of the last window if it raised
    an alarm, corrected for the number of windows. An alarm ends after `clears_in` more
    rows unless the bets win again.
    """

    n: int
    e_value: float
    p_value: float
    suspect: str
    strength: float
    clears_in: int = 0


class _Row(NamedTuple):
    """The propensities of all arms, of the drawn arm and of the named arms, and the
    position of the drawn arm among the named ones (-1: not named)."""

    odds: list[float]
    drawn: float
    named: list[float]
    place: int


@dataclass(slots=True)
class StandingBets:
    """The money of all bets. `growth` contains its logarithms as integers, with shape
    (bets, strengths); there are bets for causes, forced arms and arms not served.

    `shares` are the shares of the money that are bet on each arm from the time at which
    it was named. `cash` is the money that is not bet, because it is reserved for arms
    that are not named yet or no longer named. Up to 16 rows are collected and then
    added together. Arrays are never modified in place.

    `growth`, `cash` and `peak` refer to the current window. `window` is the number of
    this window, starting at 1, `length` is its number of rows when it is complete, and
    `rows` is its number of rows so far. If the last window raised an alarm, `alarm` is
    the logarithm of its evidence and `suspect` the cause; otherwise `alarm` is 0.
    """

    n: int = 0
    growth: Ints = field(
        default_factory=lambda: np.zeros((len(_CAUSES), len(_STRENGTHS)), np.int64)
    )
    shares: dict[str, float] = field(default_factory=dict)
    cash: float = 2.0 / _FAMILIES
    begun: int = 0
    peak: float = 0.0
    waiting: list[_Row] = field(default_factory=list)
    window: int = 1
    rows: int = 0
    length: int = _SHORTEST
    alarm: float = 0.0
    suspect: str = ""
    strength: float = 0.0

    def copy(self) -> "StandingBets":
        """Return a copy that can be changed without changing this object."""
        """A copy that can be changed without changing this one."""
        return replace(self, waiting=self.waiting.copy())

    def current(self) -> "StandingBets":
        """Return a copy in which all pending rows have been added."""
        now = self.copy()
        now._settle()
        return now

    def name(self, arms: Sequence[str], *, few: bool) -> None:
        """Bet on these arms from now on. With `few` arms, all have equal shares, so
        they must be named before the first row."""
        self._settle()
        known = self.shares
        n_known = len(known)
        money = np.exp(self._log_money()).sum(axis=1)
        # For each arm, the position of the bet on "this arm is forced". The bet on
        # "this arm is not served" is n_known positions later.
        places = {}
        for i, arm in enumerate(known):
            places[arm] = len(_CAUSES) + i
        names = set(arms)
        freed = 0.0
        for arm, place in places.items():
            if arm not in names:
                not_served = money[place + n_known]
                freed += float(money[place] + not_served)
        self.cash += freed
        self.shares = {}
        for arm in arms:
            share = known.get(arm, 0.0)
            if arm not in known:
                share = self._next_share(few)
                self.cash -= 2.0 / _FAMILIES * share
            self.shares[arm] = share
        no_growth = np.zeros(len(_STRENGTHS), np.int64)
        rows = list(self.growth[: len(_CAUSES)])
        for offset in (0, n_known):
            for arm in arms:
                row = no_growth
                if arm in known:
                    row = self.growth[places[arm] + offset]
                rows.append(row)
        self.growth = np.array(rows)

    def _next_share(self, few: bool) -> float:
        """Return the share of the next new arm."""
        self.begun += 1
        if few:
            return 1.0 / _FEW
        return 1.0 / (self.begun * (self.begun + 1.0))

    def take(self, odds: Mapping[str, float], arm: str) -> None:
        """Add a row: the propensities of all arms and the drawn arm."""
        p = odds[arm]
        if p <= 0:
            return
        shares = self.shares
        named = [odds.get(name, 0.0) for name in shares]
        place = -1
        if arm in shares:
            place = list(shares).index(arm)
        row = _Row(list(odds.values()), p, named, place)
        self.waiting.append(row)
        self.n += 1
        self.rows += 1
        if self.rows % _LOOK == 0:
            self._settle()
            self.peak = max(self.peak, self.log_money())
            self._end_window()

    def _end_window(self) -> None:
        """Start the next window if the current one is complete. After an alarm, a
        window may have fewer rows."""
        is_alarm = self._evidence(self.peak) >= -log(ALARM)
        if is_alarm:
            self.length = min(self.length, self.rows + _SHORTEST)
        if self.rows < self.length:
            return
        self.alarm = 0.0
        if is_alarm:
            self.alarm = self._evidence(self.peak)
            self.suspect, self.strength = self._leader()
        self.length = self._next_length(is_alarm)
        self.window += 1
        self.rows = 0
        self.peak = 0.0
        self.growth = np.zeros_like(self.growth)
        named_share = sum(self.shares.values())
        self.cash = 2.0 / _FAMILIES * (1.0 - named_share)

    def _next_length(self, is_alarm: bool) -> int:
        """Return the number of rows of the next window."""
        double = 2 * self.length
        if is_alarm:
            return min(double, _LONGEST_AFTER)
        return double

    def _evidence(self, log_money: float) -> float:
        """Return the log evidence of this amount of money, corrected for the number of
        windows."""
        windows = self.window * (self.window + 1.0)
        return log_money - log(windows)

    def _settle(self) -> None:
        """Add the pending rows, grouped by their number of arms."""
        by_size: dict[int, list[_Row]] = {}
        for row in self.waiting:
            by_size.setdefault(len(row.odds), []).append(row)
        for rows in by_size.values():
            gains = _gains(rows)
            growth = np.log1p(gains[:, :, None] * _STRENGTHS)
            units = in_units(growth)
            self.growth = self.growth + units.sum(axis=0)
        self.waiting = []

    def log_money(self) -> float:
        """Return the log of all money."""
        from scipy.special import logsumexp

        bets = self
        if self.waiting:
            bets = self.current()
        logs = bets._log_money()
        with np.errstate(over="ignore"):
            money = float(np.exp(logs).sum()) + self.cash
        if money < inf:
            return log(money)
        return float(logsumexp(logs))

    def summary(self) -> Standing:
        """Return the evidence so far."""
        now = self.log_money()
        evidence = self._evidence(max(self.peak, now))
        suspect, strength = self._leader()
        needed = -log(ALARM)
        clears_in = 0
        if max(evidence, self.alarm) >= needed:
            clears_in = self.length - self.rows
        if evidence >= needed:
            clears_in += self._next_length(True)
        if self.alarm > evidence:
            evidence = self.alarm
            suspect = self.suspect
            strength = self.strength
        p_value = min(1.0, exp(-evidence))
        e_value = exp(min(now, _LARGEST))
        return Standing(self.n, e_value, p_value, suspect, strength, clears_in)

    def _leader(self) -> tuple[str, float]:
        """Return the cause whose bets have the most money in this window, and its
        strength."""
        logs = self.current()._log_money()
        best = int(logs.argmax())
        cause, strength = np.unravel_index(best, logs.shape)
        names = list(_CAUSES)
        names += [f"arm {arm} were forced" for arm in self.shares]
        names += [f"arm {arm} were not served" for arm in self.shares]
        return names[int(cause)], float(_STRENGTHS[int(strength)])

    def _log_money(self) -> Array:
        n = len(_CAUSES)
        of_causes = np.full(n, -log(n))
        of_arms = np.log(list(self.shares.values()))
        shares = np.concatenate([of_causes, of_arms, of_arms])
        growth = of_units(self.growth)
        return np.asarray(growth + _SHARES + shares[:, None] - log(_FAMILIES))


def standing_bets(log: Log) -> Standing:
    """Return the result of the bets for a log with the propensities of all arms. Bets
    on all arms begin at the first row.

    >>> rng = np.random.default_rng(0)
    >>> arm, odds = rng.integers(4, size=1000), np.full((1000, 4), 0.25)
    >>> standing_bets(Log(arm=arm, reward=np.zeros(1000), propensities=odds)).p_value
    1.0
    >>> arm[rng.random(1000) < 0.2] = 2
    >>> standing_bets(Log(arm=arm, reward=np.zeros(1000), propensities=odds)).suspect
    'arm 2 were forced'
    """
    if log.propensities is None:
        raise InvalidInput(
            "standing bets need a log with the odds of all arms; got none"
        )
    names: Sequence[str] = names_of(log)
    bets = StandingBets()
    bets.name(names, few=len(names) <= _FEW)
    for row, numbers in enumerate(log.propensities.tolist()):
        arms = names
        if log.offered is not None:
            arms = log.offered[row]
        odds = dict(zip(arms, numbers, strict=False))
        arm = arms[int(log.arm[row])]
        bets.take(odds, arm)
    return bets.summary()


def _gains(rows: Sequence[_Row]) -> Array:
    """Return the gains q(a)/p(a) - 1 of all bets (rows, bets), or 0 if q is 0
    everywhere."""
    p = np.array([row.drawn for row in rows])
    with np.errstate(over="ignore"):
        inverse = np.minimum(1.0 / p, _MOST)
    odds = np.array([row.odds for row in rows])
    causes = _cause_gains(odds, p, inverse)
    return np.hstack([causes, *_arm_gains(rows, inverse)])


def _cause_gains(odds: Array, p: Array, inverse: Array) -> Array:
    """Return the gains (rows, causes) of the bets on causes, in the order of
    `_CAUSES`."""
    able = odds > 0
    count = able.sum(axis=1)
    top = odds.max(axis=1)
    is_top = odds == top[:, None]
    is_only_top = is_top.sum(axis=1) == 1
    top_gain = np.where(p == top, inverse, 0.0) - 1.0
    likeliest = np.where(is_only_top, top_gain, 0.0)

    even = inverse / count - 1.0
    squares = (odds * odds).sum(axis=1)
    sharper = p * p * inverse / squares - 1.0

    least = np.where(able, odds, 2.0).min(axis=1)
    rest = odds.sum(axis=1) - count * least
    has_rest = rest > _NOTHING
    above_least = (p - least) * inverse
    without_least = above_least / np.where(has_rest, rest, 1.0) - 1.0
    explored = np.where(has_rest, without_least, 0.0)

    columns = [likeliest, even, sharper, explored]
    for cut in _CUTS:
        total = np.where(odds >= cut, odds, 0.0).sum(axis=1)
        has_some = total > 0
        inverse_total = 1.0 / np.where(has_some, total, 1.0)
        gain = np.where(p >= cut, inverse_total, 0.0) - 1.0
        columns.append(np.where(has_some, gain, 0.0))
    return np.stack(columns, axis=1)


def _arm_gains(rows: Sequence[_Row], inverse: Array) -> tuple[Array, Array]:
    """Return the gains (rows, arms) of the bets that an arm is forced, and that it is
    not served."""
    table = np.array([row.named for row in rows])
    named = table.reshape(len(rows), -1)
    has_others = named < 1 - _ALONE
    rest = np.where(has_others, 1.0 - named, 1.0)
    forced = np.where(named > 0, -1.0, 0.0)
    not_served = np.where(has_others, named / rest, 0.0)
    for i, row in enumerate(rows):
        if row.place >= 0:
            forced[i, row.place] = inverse[i] - 1.0
            is_possible = has_others[i, row.place]
            not_served[i, row.place] = -1.0 if is_possible else 0.0
    return forced, not_served
