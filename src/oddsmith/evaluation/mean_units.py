"""Anytime-valid bounds on a policy's mean, from sums that do not depend on the order of
rows.

The bets are those of `mean_bounds`, on w r and on w (1 - r). Their logarithms are
summed as integer units, so that rows can be removed exactly.
"""

import numpy as np

from oddsmith.core.arrays import Array, Ints
from oddsmith.evaluation.exact_sums import in_units, of_units
from oddsmith.evaluation.mean_bounds import Sums, bets_within, running_bound
from oddsmith.evaluation.paired_bets import Bounds

__all__ = ["mean_interval", "mean_units", "no_mean_units"]

# Rows per block, so that tables stay in the cache.
_PIECE = 40


def no_mean_units() -> Ints:
    """Return the sums before any row, shape (2, bets)."""
    return np.zeros((2, len(bets_within().rates)), np.int64)


def mean_units(weights: Array, reward: Array) -> Ints:
    """Return the contribution of rows with these weights and rewards (T,) to the sums,
    shape (2, bets)."""
    bets = bets_within()
    units = no_mean_units()
    for start in range(0, len(weights), _PIECE):
        rows = slice(start, start + _PIECE)
        gain = weights[rows] * reward[rows]
        x = np.stack([gain, weights[rows] - gain])
        logs = np.log1p(bets.rates * (x[..., None] - bets.centres))
        units += in_units(logs).sum(axis=1)
    return units


def mean_interval(units: Ints, rows: int, level: float) -> Bounds:
    """Return the interval of the mean after this number of rows.

    >>> rng = np.random.default_rng(0)
    >>> reward = (rng.random(4000) < 0.3).astype(np.float64)
    >>> low, high = mean_interval(mean_units(np.ones(4000), reward), 4000, 0.95)
    >>> bool(0.25 < low < reward.mean() < high < 0.35)
    True
    """
    bets = bets_within()
    alpha = (1 - level) / 2
    gains = of_units(units) + rows * bets.rates * bets.centres
    low, loss = (
        float(running_bound(Sums(np.asarray(float(rows)), one, bets), alpha))
        for one in gains
    )
    return Bounds(min(low, 1.0), max(1.0 - loss, 0.0))
