"""Propensities that were written with few digits: how far the true ones may be."""

import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.logs.table import Log

__all__ = ["half_step", "largest_factor"]

_DIGITS = (1, 2, 3, 4)
_NEIGHBOURS = 4  # pairs of values one step apart, which a design does not have
_TENTHS = 6  # of odds in tenths, which designs do have
_EXACT = 1e-7  # of a step


def half_step(log: Log) -> float:
    """Half of the last digit that the logged propensities have; 0 where they were not
    rounded.

    Rounded values of a policy lie side by side on a grid of decimals: 0.03, 0.04, 0.05.
    A designed experiment has few values, far apart (0.05 and 0.85, 1/K), and the odds
    of three arms or more that add up to 1 were not rounded one by one.

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
        if (np.abs(steps - steps.round()) < _EXACT).all():
            neighbours = int((np.diff(np.unique(steps.round())) == 1).sum())
            least = _TENTHS if digits == 1 else _NEIGHBOURS
            return 0.5 * 10.0**-digits if neighbours >= least else 0.0
    return 0.0


def largest_factor(propensity: Array, half: float) -> Array:
    """By how much a weight may be too small: p / (p - half) (T,), infinite where p is
    not above half of a step."""
    left = propensity - half
    return np.divide(
        propensity, left, out=np.full_like(propensity, np.inf), where=left > 0
    )
