"""Betting bounds: anytime-valid lower bounds on the mean of a nonnegative column, also
for heavy tails.

For any m and 0 < f < 1, the factor 1 - f + f x/m is never negative, because x ≥ 0, and
its mean is at most 1 if E[x | past] ≤ m. So the mean over fractions f of Π_t (1 - f + f
x_t/m) is a test supermartingale. It ever exceeds 1/α with probability at most α
(Ville's inequality). It decreases in m, so all values of m below one number are
rejected, and bisection finds this number (Waudby-Smith and Ramdas 2024, with a mixture
of fixed bets). If another column y in [0, L] has the mean total - m, half of the money
is bet on L - y, whose mean is m + L - total.
"""

from typing import NamedTuple

import numpy as np

from oddsmith.core.arrays import Array

__all__ = ["FRACTIONS", "Limited", "log_shortfall", "log_wealth", "lower_bound"]

FRACTIONS: Array = 0.5 ** np.arange(1.0, 17.0)
"""Fractions f of the money to bet."""
# Fractions of the money that are bet on L - y. They may be large, because L - y is
# nearly constant if rewards are rare.
_LIMITED_FRACTIONS: Array = np.array([0.9, 0.75, *FRACTIONS[:14]])
# Rates of the bets that a mean is below a number, and the largest share of the money
# that such a bet loses in one row.
_SHORTFALL_RATES: Array = 2.0 ** np.arange(2, -11, -1.0)
_LOSS = 0.9
_DOUBLINGS = 3
# Number of factors multiplied before taking a logarithm. Each is between 1/2 and 1e18,
# so their product does not overflow.
_INNER = 2**_DOUBLINGS
_LOOKS = 1024
_HALVINGS = 32


class Limited(NamedTuple):
    """A second column y (…, T) with values in [0, limit]. `total` is the sum of the
    means of y and of the first column x."""

    y: Array
    limit: float
    total: float


def log_wealth(
    x: Array, mean: Array, looks: int = _LOOKS, limited: Limited | None = None
) -> Array:
    """Return the log wealth (…, looks) of bets that the mean of x (…, T) is above
    `mean` (…), at no more than `looks` evenly spaced rows.

    >>> float(log_wealth(np.ones(100), np.array(1.0))[-1])
    0.0
    """
    own = _log_wealth(x, mean, looks, FRACTIONS)
    if limited is None:
        return own
    # The hypothesis for the mean of limit - y.
    other_mean = np.asarray(mean + limited.limit - limited.total)
    possible = other_mean > 0
    other_column = limited.limit - limited.y
    safe_mean = np.where(possible, other_mean, 1.0)
    more = _log_wealth(other_column, safe_mean, looks, _LIMITED_FRACTIONS)
    # The mean of limit - y cannot be negative, so reject such hypotheses at once.
    more = np.where(possible[..., None], more, np.inf)
    joint = np.logaddexp(own, more)
    return np.asarray(joint - np.log(2.0))


def _log_wealth(x: Array, mean: Array, looks: int, fractions: Array) -> Array:
    steps = x.shape[-1]
    every = -(-steps // looks)  # rows between two checks of the wealth
    if every > 1:
        every = -(-every // _INNER) * _INNER
    looks = -(-steps // every)
    # Pad with zeros: a bet on an excess of 0 leaves the wealth unchanged.
    excess = np.zeros((*x.shape[:-1], looks * every))
    ratios = excess[..., :steps]
    np.divide(x, mean[..., None], out=ratios)
    ratios -= 1.0
    total = np.full((*x.shape[:-1], looks), -np.inf)
    for fraction in fractions:
        factors = 1.0 + fraction * excess
        if every > 1:
            for _ in range(_DOUBLINGS):
                even = factors[..., ::2]
                odd = factors[..., 1::2]
                factors = even * odd
            logs = np.log(factors).reshape(*total.shape, -1)
            growth = logs.sum(axis=-1)
        else:
            growth = np.log(factors)
        own = np.cumsum(growth, axis=-1)
        np.logaddexp(total, own, out=total)
    total -= np.log(len(fractions))
    return total


def log_shortfall(x: Array, mean: Array, most: Array) -> Array:
    """Return the log wealth (…) of bets that E x (…, T) is below `mean` (…, T) given
    the past, where rows have x ≤ `most` (…, T): Π (1 + λ (mean - x)), mixed over rates.

    A rate is reduced in rows in which the bet could lose more than 0.9 of the money.
    The reduction does not depend on earlier rows, so the order of rows does not matter.
    """
    loss = np.maximum(most - mean, 1e-300)
    total = np.full(x.shape[:-1], -np.inf)
    for rate in _SHORTFALL_RATES:
        rates = np.minimum(rate, _LOSS / loss)
        gains = np.log1p(rates * (mean - x))
        total = np.logaddexp(total, gains.sum(axis=-1))
    return np.asarray(total - np.log(len(_SHORTFALL_RATES)))


def lower_bound(x: Array, alpha: float, limited: Limited | None = None) -> Array:
    """Return the largest mean (…) that bets on x ≥ 0 (…, T) reject at level alpha at
    any of the checked times, or 0 if there is none.

    >>> bool(0.3 < lower_bound(np.tile([0.0, 1.0], 200), 0.025) < 0.5)
    True
    """
    counts = np.arange(1, x.shape[-1] + 1)
    needed = -np.log(alpha)
    # Start of the bisection: bets against the largest running mean never win.
    means = np.cumsum(x, axis=-1) / counts
    high = means.max(axis=-1)
    if limited is not None:
        other_means = np.cumsum(limited.y, axis=-1) / counts
        others = other_means.min(axis=-1)
        high = np.maximum(high, limited.total - others)
    low = np.zeros_like(high)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_positive = middle > 0
        mean = np.where(is_positive, middle, 1.0)
        wealth = log_wealth(x, mean, limited=limited).max(axis=-1)
        refuted = is_positive & (wealth >= needed)
        low = np.where(refuted, middle, low)
        high = np.where(refuted, high, middle)
    return np.asarray(low)
