"""Unit of rewards: a power of two that is at least as large as all rewards so far.

Learners see rewards divided by this unit, and their predictions are multiplied by it.
So methods that assume rewards in [0, 1] work for rewards of any size: rewards of 1e-6
are learnt as fast as rewards of 1. Division by a power of two is exact.
"""

import numpy as np

from oddsmith.core.arrays import Array

__all__ = ["grown_unit", "unit_or_one"]

_SMALLEST = 2.0**-100


def grown_unit(unit: Array, rewards: Array) -> tuple[Array, Array]:
    """Return the unit (…) after these rewards, and the factor for earlier values.

    A unit of 0 means that all rewards so far were 0, which is 0 in any unit.

    >>> grown_unit(np.array([0.0, 0.25]), np.array([0.3, 1.0]))
    (array([0.5, 1. ]), array([1.  , 0.25]))
    """
    fraction, exponent = np.frexp(np.abs(rewards))
    is_power = fraction == 0.5
    needed = np.ldexp(1.0, np.where(is_power, exponent - 1, exponent))
    needed = np.where(fraction > 0, np.maximum(needed, _SMALLEST), 0.0)
    grown = np.maximum(unit, needed)
    ratio = unit / np.where(grown > 0, grown, 1.0)
    factor = np.where(unit > 0, ratio, 1.0)
    return grown, factor


def unit_or_one(unit: Array) -> Array:
    """Return the unit (…), or 1 if it is not known yet.

    >>> unit_or_one(np.array([0.0, 0.25]))
    array([1.  , 0.25])
    """
    known: Array = np.where(unit > 0, unit, 1.0)
    return known
