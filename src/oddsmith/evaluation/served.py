"""Served as logged: a test for all times that drawn arms follow the logged odds, which catches caches and overrides."""

from math import exp, log
from typing import NamedTuple

import numpy as np

from oddsmith.arrays import Array, number
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
    names, gains = _gains(logged)
    log_wealth, final = _wealth(gains)
    best = np.unravel_index(int(final.argmax()), final.shape)
    return _report(log_wealth, names[int(best[1])], float(_STRENGTHS[best[0]]), alpha)


def _gains(logged: Log) -> tuple[list[str], Array]:
    """Names of the overrides, and 1[a = b] / p(b) - 1 of each (T, B); 0 in rows where it is known to be impossible."""
    arm, n, steps = logged.arm, logged.n_arms, len(logged)
    assert logged.propensity is not None
    inverse = 1.0 / logged.propensity
    names = [f"arm {a} were forced" for a in range(n)]
    hits = arm[:, None] == np.arange(n)
    gains = np.where(hits, inverse[:, None], 0.0) - 1.0
    if logged.propensities is not None:
        gains[logged.propensities == 0] = 0.0
    elif logged.eligible is not None:
        gains[~logged.eligible] = 0.0
    before = np.concatenate([[-1], arm[:-1]])
    extra = [np.where(arm == before, inverse, 0.0) - 1.0]
    extra[0][0] = 0.0
    names.append("the previous row's arm were repeated")
    if logged.propensities is not None:
        possible = logged.propensities[np.arange(1, steps), before[1:]] > 0
        extra[0][1:] = np.where(possible, extra[0][1:], 0.0)
        extra.append(np.where(arm == logged.propensities.argmax(axis=1), inverse, 0.0) - 1.0)
        names.append("the likeliest arm were forced")
    return names, np.concatenate([gains, np.stack(extra, axis=1)], axis=1)


def _wealth(gains: Array) -> tuple[Array, Array]:
    """ln of the mean wealth after each row (T,), and of each bet (strengths, B) after the last."""
    steps, overrides = gains.shape
    each = np.log(_SHARES / overrides)[:, None]
    bets = np.full((len(_STRENGTHS), overrides), -np.inf)
    total = np.empty(steps)
    for block, start in enumerate(range(0, steps, _BLOCK)):
        # after the first share, the rest times 1/(b (b + 1)): together 1, and what is left over is not bet yet
        money = _FIRST if block == 0 else (1 - _FIRST) / (block * (block + 1))
        left = 1 - _FIRST if block == 0 else (1 - _FIRST) / (block + 1)
        bets = np.logaddexp(bets, log(money) + each)
        grown = np.cumsum(np.log1p(_STRENGTHS[:, None] * gains[start : start + _BLOCK, None, :]), axis=0) + bets
        top = grown.max(axis=(1, 2))
        summed = np.log(np.exp(grown - top[:, None, None]).sum(axis=(1, 2))) + top
        total[start : start + _BLOCK] = np.logaddexp(summed, log(left))
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
