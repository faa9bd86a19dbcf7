"""Prior mean and standard deviation of an arm without rewards, from the rewards of all
arms.

Rewards are in [0, 1], in units of the largest one (`unit.py`). With mean m, their
standard deviation is at most sqrt(m (1 - m)). So clicks at a rate of 1 %, and labels
that are right in 90 % of the cases, both start with uncertainties of the size of their
rewards.
"""

import numpy as np

from oddsmith.core.arrays import Array

__all__ = ["largest_sd", "prior_mean"]


def prior_mean(total: Array, count: Array) -> Array:
    """Return the prior mean (…) of an arm without rewards, from the sum and the number
    of all rewards.

    The result is m + sqrt(m (1 - m)), but at most max(m, 1/2), where m is the mean of
    all rewards and of two additional rewards of 1/2. This prior mean is optimistic, so
    that new arms are tried, but small if all rewards are small.

    >>> prior_mean(np.array([0.0, 8.0, 1.0]), np.array([0.0, 8.0, 198.0]))
    array([0.5       , 0.9       , 0.10949874])
    """
    mean = _mean(total, count)
    optimistic = mean + np.sqrt(mean * (1 - mean))
    start: Array = np.maximum(mean, np.minimum(0.5, optimistic))
    return start


def largest_sd(total: Array, count: Array) -> Array:
    """Return the largest standard deviation (…) that rewards with this sum can have.

    >>> largest_sd(np.array([0.0, 1.0]), np.array([0.0, 198.0]))
    array([0.5       , 0.09949874])
    """
    mean = _mean(total, count)
    sd: Array = np.sqrt(mean * (1 - mean))
    return sd


def _mean(total: Array, count: Array) -> Array:
    """Return the mean of all rewards and of two additional rewards of 1/2. It is in (0,
    1) up to rounding."""
    mean: Array = np.minimum((1 + total) / (2 + count), 1.0)
    return mean
