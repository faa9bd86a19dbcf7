"""Anytime-valid lower bounds on a running mean, also if the mean drifts or the tail is
heavy.

Let x_t ≥ 0 have the mean v_t given the past. For a centre c ≥ 0 and a rate λ with λ c <
1, both chosen in advance,

    (1 + λ (x_t - c)) exp(λ c - λ v_t)

is never negative and has mean (1 + λ (v_t - c)) exp(-λ (v_t - c)) ≤ 1 given the past.
Its product over rows depends on the unknown means only through their sum. With V = (v_1
+ … + v_t)/t and the sums G_λc = Σ ln(1 + λ (x - c)) + λ c,

    W_t = Σ over λ, c of share(λ, c) exp(G_λc - λ t V),   shares that sum to 1,

is below 1/α at every row simultaneously with probability at least 1 - α (Ville). It
decreases in V, so the running means that are not rejected are those above one number.
(After Waudby-Smith et al. 2022, who bound the logarithm from below by a sub-gamma
function.) Only the sums are stored, and they do not depend on the order of rows: a row
can be removed and added again with another value. If the centre c differs from the mean
v, the logarithm of a bet with rate λ grows by λ² (v - c)²/2 less per row. The centres
are so close to each other that one is near every mean.

If a column y in [0, L] has the mean total - v_t, with L known before the rows, then L -
y has the mean v_t + L - total, so bets on it are also bets on v_t (`limited_sums`).
Their rates may be larger, up to nearly 1/L, and L - y varies little if y is rarely
above 0. So for rare rewards the bound is close to that of a betting interval for a
single look.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from oddsmith.core.arrays import Array

__all__ = [
    "MeanBets",
    "RATES",
    "Sums",
    "bets_within",
    "limited_bets",
    "limited_sums",
    "log_evidence",
    "running_bound",
    "running_sums",
]

RATES: Array = 2.0 ** np.arange(6, -15, -1.0)
# Smallest and largest rate that logs of a hundred to a million rows need, and the share
# of the money for the rates in this range.
_USUAL = (2.0**-9, 2.0)
_USUAL_SHARE = 0.9
# Number of steps from the first to the last centre: _FINE for rates within _FINE_RATES,
# _COARSE for all other rates.
_FINE, _COARSE = 16, 4
_FINE_RATES = (2.0**-8, 1.0)
# Weight of the first and last centre relative to the others, because means of rare
# rewards are near the ends.
_END_SHARE = 3.0
# Bets on L - y: the largest share of its money that each bet can lose in one row, and
# the relative amount of money for each bet. Bets with large losses are best for rare
# rewards and few rows.
_LOSSES: Array = np.array([0.8, 0.5, *(2.0 ** np.arange(-2, -15, -1.0))])
_LOSS_PARTS: Array = np.array([3.0, 2.0, 1.0, 1.0, *([0.5] * 11)])
# Centres of the bets on L - y, as values of y, and the relative amount of money for
# each centre.
_LIMITED_CENTRES = (0.0, 0.25, 0.5)
_CENTRE_PARTS = (4.0, 1.0, 1.0)
# Share of the total money that is bet on L - y.
_LIMITED_SHARE = 0.6
# Steps of Newton's method. It approaches the root from below, so stopping early gives a
# smaller but still valid bound.
_STEPS = 60


class MeanBets(NamedTuple):
    """Rates, centres and log shares of the bets (B,) on a mean within known bounds."""

    rates: Array
    centres: Array
    log_shares: Array


class Sums(NamedTuple):
    """Sufficient statistics for the bound: the number of rows (…), G_λc (…, B) and the
    bets."""

    rows: Array
    gains: Array
    bets: MeanBets


@lru_cache(maxsize=64)
def bets_within(low: float = 0.0, high: float = 1.0) -> MeanBets:
    """Return the bets on a mean between `low` ≥ 0 and `high`, which must be known in
    advance.

    The centres divide the range from `low` to `high` into 16 steps, or into 4 steps for
    very small and very large rates λ. Centres above 1/(2λ) are not used.

    >>> bets = bets_within()
    >>> len(bets.rates), round(float(np.exp(bets.log_shares).sum()), 12)
    (187, 1.0)
    """
    least, most = _USUAL
    usual = (least <= RATES) & (most >= RATES)
    share_of_usual = _USUAL_SHARE / usual.sum()
    share_of_other = (1 - _USUAL_SHARE) / (~usual).sum()
    rates = []
    centres = []
    shares = []
    for rate, is_usual in zip(RATES.tolist(), usual, strict=True):
        steps = _COARSE
        if _FINE_RATES[0] <= rate <= _FINE_RATES[1]:
            steps = _FINE
        width = high - low
        grid = [low + width * step / steps for step in range(steps + 1)]
        near = [min(centre, 0.5 / rate) for centre in grid]
        own = list(dict.fromkeys(near))
        parts = []
        for centre in own:
            is_end = centre in (low, high)
            parts.append(_END_SHARE if is_end else 1.0)
        share = float(share_of_usual if is_usual else share_of_other)
        total = sum(parts)
        rates += [rate] * len(own)
        centres += own
        shares += [share * part / total for part in parts]
    return MeanBets(np.array(rates), np.array(centres), np.log(shares))


def running_sums(
    x: Array, bets: MeanBets | None = None, *, every: bool = False
) -> Sums:
    """Return the sums for x ≥ 0 (…, T) after all rows, or with `every` after each row:
    (…, T), (…, T, B)."""
    if bets is None:
        bets = bets_within()
    pairs = zip(bets.rates, bets.centres, strict=True)
    steps = x.shape[-1]
    gains = []
    if every:
        for rate, centre in pairs:
            growth = np.log1p(rate * (x - centre))
            gain = growth + rate * centre
            gains.append(np.cumsum(gain, axis=-1))
        numbers = np.arange(1.0, steps + 1)
        rows = np.broadcast_to(numbers, x.shape)
        return Sums(rows, np.stack(gains, axis=-1), bets)
    times: Array = np.ones(steps)
    rows = np.full(x.shape[:-1], float(steps))
    if x.ndim == 1:  # rewards, and so terms, often have few distinct values
        x, counts = np.unique(x, return_counts=True)
        times = counts.astype(np.float64)
    for rate, centre in pairs:
        growth = np.log1p(rate * (x - centre))
        gain = growth @ times
        gains.append(gain + rate * centre * rows)
    return Sums(rows, np.stack(gains, axis=-1), bets)


@lru_cache(maxsize=64)
def limited_bets(limit: float) -> MeanBets:
    """Return the bets on L - y for a column y in [0, L], with L = `limit`. No bet loses
    more than 0.8 of its money in one row.

    >>> bets = limited_bets(4.0)
    >>> len(bets.rates), round(float(np.exp(bets.log_shares).sum()), 12)
    (45, 1.0)
    """
    rates, centres = np.meshgrid(
        _LOSSES / limit, limit - np.array(_LIMITED_CENTRES), indexing="ij"
    )
    parts = np.outer(_LOSS_PARTS, _CENTRE_PARTS)
    shares = parts / parts.sum()
    log_shares = np.log(shares).ravel()
    return MeanBets(rates.ravel(), centres.ravel(), log_shares)


def limited_sums(own: Sums, y: Array, limit: float, total: float) -> Sums:
    """Return the sums for x (`own`) joined with the sums for `limit` - y (…, T), where
    y ≤ `limit` and the means of x and y sum to `total`.

    The mean of limit - y is larger than that of x by limit - total, and the bets on
    limit - y are corrected for this difference.
    """
    every = own.gains.ndim > y.ndim
    more = running_sums(limit - y, limited_bets(limit), every=every)
    above = more.rows * (limit - total)
    credit = more.bets.rates * above[..., None]
    more_gains = more.gains - credit
    log_shares = own.bets.log_shares + np.log(1 - _LIMITED_SHARE)
    more_log_shares = more.bets.log_shares + np.log(_LIMITED_SHARE)
    rates = np.concatenate([own.bets.rates, more.bets.rates])
    centres = np.concatenate([own.bets.centres, more.bets.centres])
    all_shares = np.concatenate([log_shares, more_log_shares])
    bets = MeanBets(rates=rates, centres=centres, log_shares=all_shares)
    gains = np.concatenate([own.gains, more_gains], -1)
    return Sums(own.rows, gains, bets)


def log_evidence(sums: Sums, mean: Array) -> Array:
    """Return ln W (…), the log evidence against a running mean (…)."""
    from scipy.special import logsumexp

    total = sums.rows * mean
    charges = sums.bets.rates * total[..., None]
    terms = sums.gains + sums.bets.log_shares - charges
    return np.asarray(logsumexp(terms, axis=-1))


def running_bound(sums: Sums, alpha: float) -> Array:
    """Return the largest running mean (…) that is rejected at level alpha, or 0 if no
    mean is rejected.

    >>> x = np.random.default_rng(0).random(4000) * np.linspace(2, 0, 4000)
    >>> bool(0.4 < running_bound(running_sums(x), 0.025) < x.mean())
    True
    """
    needed = -np.log(alpha)
    rates = sums.bets.rates
    charges = rates * sums.rows[..., None]  # cost of the bets per unit of the mean
    gains = sums.gains + sums.bets.log_shares
    # Start value: the bound of the best single bet.
    mean = ((gains - needed) / charges).max(axis=-1)
    for _ in range(_STEPS):
        terms = gains - charges * mean[..., None]
        largest = terms.max(axis=-1, keepdims=True)
        weights = np.exp(terms - largest)
        weighted = (weights * rates).sum(axis=-1)
        mean_rate = weighted / weights.sum(axis=-1)
        excess = log_evidence(sums, mean) - needed
        step = excess / (mean_rate * sums.rows)
        mean = mean + np.maximum(step, 0.0)
        size = np.maximum(1.0, np.abs(mean))
        if (step <= 1e-12 * size).all():
            break
    bound: Array = np.maximum(mean, 0.0)
    return bound
