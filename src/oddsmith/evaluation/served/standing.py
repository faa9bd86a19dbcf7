"""Standing bets: served as logged by bets that do not depend on the order of rows, so that a fold can keep them.

Each bets a share ε of its money in every row that the arm is drawn from other odds q, which follow from this row's odds
alone: the factor is 1 - ε + ε q(a)/p(a), of mean at most 1 if arms follow the logged odds (`check`, which has more
causes and needs the rows in order). Products are free of order; money is a test supermartingale, so that its largest
size so far is 1/α with probability at most α. Causes: an arm is forced, an arm is not served, the likeliest arm is
forced, odds are even or sharper, exploration or small odds are not served.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, inf, log
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from oddsmith.arrays import Array
from oddsmith.errors import InvalidInput
from oddsmith.logs.by_policy import names_of
from oddsmith.logs.table import Log

__all__ = ["Standing", "StandingBets", "standing_bets"]

_STRENGTHS: Array = np.array([0.03, 0.1, 0.3, 0.9])
_SHARES: Array = np.log([0.15, 0.35, 0.2, 0.3])  # of the money, by strength
_CUTS = (0.03, 0.1)
_CAUSES = (
    "the likeliest arm were forced",
    "arms were drawn from even odds",
    "arms were drawn from sharper odds (power 2)",
    "uniform exploration were logged but not served",
    *(f"arms with odds below {cut:g} were not served" for cut in _CUTS),
)
_FAMILIES = 3  # these causes, arms that are forced, arms that are not served
_FEW = 64  # arms that may have equal shares
_LOOK = 16  # rows between looks at the money
_MOST = 1e15  # a bet that pays less than it could is fair
_ALONE = 1e-6  # logged odds may sum to 1 within that
_LARGEST = log(np.finfo(np.float64).max)


class Standing(NamedTuple):
    """What the bets have come to: money now (at most 1.8e308), min(1, 1/the most so far), and what won most."""

    n: int
    e_value: float
    p_value: float
    suspect: str
    strength: float


@dataclass(slots=True)
class StandingBets:
    """The growth of all bets, in logarithms (bets, strengths): of causes, of arms being forced, of arms being left out.

    `shares` are of the money that is for an arm, from where it was named on; what is for arms that are not, or no
    longer, named is `cash`. Arrays are never written into.
    """

    n: int = 0
    growth: Array = field(default_factory=lambda: np.zeros((len(_CAUSES), len(_STRENGTHS))))
    shares: dict[str, float] = field(default_factory=dict)
    cash: float = 2.0 / _FAMILIES
    begun: int = 0
    peak: float = 0.0

    def copy(self) -> "StandingBets":
        """The same, to go on from."""
        return StandingBets(self.n, self.growth, self.shares, self.cash, self.begun, self.peak)

    def name(self, arms: Sequence[str], *, few: bool) -> None:
        """Bet on these arms from now on; where there are `few` they have equal shares, which must be known before."""
        money, before, known = np.exp(self._log_money()).sum(axis=1), len(self.shares), self.shares
        places = dict(zip(known, range(len(_CAUSES), len(_CAUSES) + before), strict=True))
        self.cash += sum(float(money[at] + money[at + before]) for arm, at in places.items() if arm not in set(arms))
        self.shares = {}
        for arm in arms:
            share = known.get(arm, 0.0)
            if arm not in known:
                share = 1.0 / _FEW if few else 1.0 / ((self.begun + 1.0) * (self.begun + 2.0))
                self.begun += 1
                self.cash -= 2.0 / _FAMILIES * share
            self.shares[arm] = share
        none = np.zeros(len(_STRENGTHS))
        rows = [self.growth[places[arm] + more] if arm in known else none for more in (0, before) for arm in arms]
        self.growth = np.array([*self.growth[: len(_CAUSES)], *rows])

    def take(self, odds: Mapping[str, float], arm: str) -> None:
        """Take a row: the odds of all arms, and the arm that was drawn."""
        p = odds[arm]
        if p <= 0:
            return
        inverse = min(1.0 / p, _MOST)
        gains = _gains(list(odds.values()), p, inverse)
        named = [odds.get(name, 0.0) for name in self.shares]
        gains += [-1.0 if q > 0 else 0.0 for q in named]
        gains += [q / (1.0 - q) if q < 1 - _ALONE else 0.0 for q in named]
        if arm in self.shares:
            at = len(_CAUSES) + list(self.shares).index(arm)
            gains[at] = inverse - 1.0
            gains[at + len(named)] = -1.0 if p < 1 - _ALONE else 0.0
        self.growth = self.growth + np.log1p(np.array(gains)[:, None] * _STRENGTHS)
        self.n += 1
        if self.n % _LOOK == 0:
            self.peak = max(self.peak, self.log_money())

    def log_money(self) -> float:
        """ln of all money."""
        logs = self._log_money()
        with np.errstate(over="ignore"):
            money = float(np.exp(logs).sum()) + self.cash
        return log(money) if money < inf else float(logsumexp(logs))

    def told(self) -> Standing:
        """What the bets have come to."""
        now, logs = self.log_money(), self._log_money()
        cause, strength = np.unravel_index(int(logs.argmax()), logs.shape)
        names = [*_CAUSES, *(f"arm {arm} were forced" for arm in self.shares)]
        names += [f"arm {arm} were not served" for arm in self.shares]
        share, p_value = float(_STRENGTHS[int(strength)]), min(1.0, exp(-max(self.peak, now)))
        return Standing(self.n, exp(min(now, _LARGEST)), p_value, names[int(cause)], share)

    def _log_money(self) -> Array:
        own = np.log(list(self.shares.values()))
        shares = np.concatenate([np.full(len(_CAUSES), -log(len(_CAUSES))), own, own])
        return np.asarray(self.growth + _SHARES + shares[:, None] - log(_FAMILIES))


def standing_bets(log: Log) -> Standing:
    """What the bets come to over the rows of a log with the odds of all arms; each arm is named from the start.

    >>> rng = np.random.default_rng(0)
    >>> arm, odds = rng.integers(4, size=1000), np.full((1000, 4), 0.25)
    >>> standing_bets(Log(arm=arm, reward=np.zeros(1000), propensities=odds)).p_value
    1.0
    >>> arm[rng.random(1000) < 0.2] = 2
    >>> standing_bets(Log(arm=arm, reward=np.zeros(1000), propensities=odds)).suspect
    'arm 2 were forced'
    """
    if log.propensities is None:
        raise InvalidInput("standing bets need a log with the odds of all arms; got none")
    names: Sequence[str] = names_of(log)
    bets = StandingBets()
    bets.name(names, few=len(names) <= _FEW)
    for row in range(len(log)):
        mine = names if log.offered is None else log.offered[row]
        bets.take(dict(zip(mine, log.propensities[row].tolist(), strict=False)), mine[int(log.arm[row])])
    return bets.told()


def _gains(odds: list[float], p: float, inverse: float) -> list[float]:
    """The gains q(a)/p(a) - 1 of the causes, of a row whose drawn arm has odds p; 0 where q is nowhere above 0."""
    able = [q for q in odds if q > 0]
    top, least, squares = max(able), min(able), sum([q * q for q in able])
    likeliest = 0.0 if able.count(top) > 1 else (inverse - 1.0 if p == top else -1.0)
    rest = sum(able) - len(able) * least
    explored = (p - least) * inverse / rest - 1.0 if rest > 1e-9 else 0.0
    cuts = []
    for cut in _CUTS:
        total = sum([q for q in able if q >= cut])
        cuts.append(0.0 if total <= 0 else (1.0 / total - 1.0 if p >= cut else -1.0))
    return [likeliest, inverse / len(able) - 1.0, p * p * inverse / squares - 1.0, explored, *cuts]
