"""Served as logged: a test for all times that drawn arms follow the logged odds, which catches caches and overrides."""

from math import exp, log
from typing import NamedTuple

import numpy as np

from oddsmith.arrays import Array, Ints, number
from oddsmith.errors import InvalidInput
from oddsmith.logs.table import Log

__all__ = ["ServedReport", "served_as_logged"]

_STRENGTHS = np.array([0.03, 0.1, 0.3, 0.9])
_SHARES = np.array([0.2, 0.5, 0.2, 0.1])  # of the money, by strength
_BLOCK = 256  # rows between the starts of new bets
_FIRST = 0.8  # the share of money for bets from the first row on


class ServedReport(NamedTuple):
    """What the drawn arms say about the logged odds after `n` rows.

    `e_value` is today's wealth of the bets (at most 1.8e308) and `p_value` min(1, 1 / the largest so far); `caught` is
    p_value ≤ alpha, first at row `row`. `suspect` is the override with the largest wealth, `strength` its ε.
    """

    n: int
    caught: bool
    alpha: float
    e_value: float
    p_value: float
    row: int | None
    suspect: str
    strength: float
    sentence: str


def served_as_logged(logged: Log, *, alpha: float = 0.05) -> ServedReport:
    """Bets that, with probability ε, an override picks the arm instead of the logged odds.

    Against H0, that the arm is drawn from the logged odds p, the override "arm b is forced" has the likelihood ratio

        1 - ε + ε 1[a = b] / p(b),

    which has mean at most 1 and needs the drawn arm's propensity only. Overrides: each arm, the previous row's arm (a
    cache), and where all odds are logged the likeliest arm (exploration cut off); ε = 0.03, 0.1, 0.3, 0.9. Most of the
    money is on bets from the first row, the rest on bets that start 256, 512, … rows later, for what breaks later. The
    mean wealth is a test supermartingale: an honest log is caught with probability at most alpha, whenever one looks.

    >>> arms = [0, 1, 2, 3] * 100
    >>> served_as_logged(Log(arm=arms, reward=[0] * 400, propensity=[0.25] * 400)).caught
    False
    >>> print(served_as_logged(Log(arm=[0, 1, 2, 2] * 100, reward=[0] * 400, propensity=[0.25] * 400)).sentence)
    Arms do not follow the logged odds (p < 0.000001, first below 0.05 at row 43): it looks as if arm 2 were forced
    in about 30% of rows.
    """
    number("alpha", alpha, low=0, high=1, open_low=True, open_high=True)
    if not isinstance(logged, Log) or logged.propensity is None:
        raise InvalidInput("the test needs a log with the logged odds of the drawn arm; got none")
    if not len(logged):
        raise InvalidInput("the test needs at least one row; got none")
    names = [f"arm {a} were forced" for a in range(logged.n_arms)] + ["the previous row's arm were repeated"]
    if logged.propensities is not None:
        names.append("the likeliest arm were forced")
    log_wealth, final = _wealth(logged, logged.propensity, len(names))
    best = np.unravel_index(int(final.argmax()), final.shape)
    return _report(log_wealth, names[int(best[1])], float(_STRENGTHS[best[0]]), alpha)


def _gains(logged: Log, propensity: Array, before: Ints, rows: slice) -> Array:
    """1[a = b] / p(b) - 1 of each override b (rows, B); 0 where it is known to be impossible."""
    arm, inverse, before = logged.arm[rows], 1.0 / propensity[rows], before[rows]
    gains = np.where(arm[:, None] == np.arange(logged.n_arms), inverse[:, None], 0.0) - 1.0
    repeated = np.where(arm == before, inverse, 0.0) - 1.0
    repeated[before < 0] = 0.0
    if logged.propensities is None:
        if logged.eligible is not None:
            gains[~logged.eligible[rows]] = 0.0
        return np.column_stack([gains, repeated])
    odds = logged.propensities[rows]
    gains[odds == 0] = 0.0
    repeated[odds[np.arange(len(arm)), before] == 0] = 0.0
    likeliest = np.where(arm == odds.argmax(axis=1), inverse, 0.0) - 1.0
    return np.column_stack([gains, repeated, likeliest])


def _wealth(logged: Log, propensity: Array, overrides: int) -> tuple[Array, Array]:
    """ln of the mean wealth after each row (T,), and of each bet (strengths, B) after the last."""
    steps, each = len(logged), np.log(_SHARES / overrides)[:, None]
    before = np.concatenate([[-1], logged.arm[:-1]])
    bets, total = np.full((len(_STRENGTHS), overrides), -np.inf), np.empty(steps)
    for block, start in enumerate(range(0, steps, _BLOCK)):
        rows = slice(start, start + _BLOCK)
        # after the first share, the rest times 1/(b (b + 1)): together 1, and what is left over is not bet yet
        money = _FIRST if block == 0 else (1 - _FIRST) / (block * (block + 1))
        left = (1 - _FIRST) / (block + 1)
        bets = np.logaddexp(bets, log(money) + each)
        gains = _gains(logged, propensity, before, rows)
        grown = np.cumsum(np.log1p(_STRENGTHS[:, None] * gains[:, None, :]), axis=0) + bets
        top = grown.max(axis=(1, 2))
        summed = np.log(np.exp(grown - top[:, None, None]).sum(axis=(1, 2))) + top
        total[rows] = np.logaddexp(summed, log(left))
        bets = grown[-1]
    return total, bets


def _report(log_wealth: Array, suspect: str, strength: float, alpha: float) -> ServedReport:
    peak = float(log_wealth.max())
    p_value, e_value = min(1.0, exp(-peak)), exp(min(float(log_wealth[-1]), log(np.finfo(np.float64).max)))
    caught = peak >= -log(alpha)
    row = int(np.argmax(log_wealth >= -log(alpha))) if caught else None
    shown = f"p = {p_value:.2g}" if p_value >= 1e-6 else "p < 0.000001"
    if caught:
        sentence = (
            f"Arms do not follow the logged odds ({shown}, first below {alpha:g} at row {row}): it looks as if "
            f"{suspect} in about {strength:.0%} of rows."
        )
    else:
        sentence = f"Nothing in {len(log_wealth):,} rows says that arms do not follow the logged odds ({shown})."
    return ServedReport(len(log_wealth), caught, alpha, e_value, p_value, row, suspect, strength, sentence)
