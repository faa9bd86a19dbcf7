"""Exact sums: numbers rounded to whole multiples of 2^-32, whose sums do not depend on
the order, to the last bit.

So rows may be added many at a time, and what was added can be taken out again. Sums of
10^9 logarithms fit.
"""

import numpy as np

from oddsmith.core.arrays import Array, Ints

__all__ = ["in_units", "of_units"]

_UNIT = 2.0**32


def in_units(values: Array) -> Ints:
    """Numbers as whole multiples of the unit.

    >>> in_units(np.array([0.5, -1.0])).tolist()
    [2147483648, -4294967296]
    """
    units = values * _UNIT
    return np.rint(units, out=units).astype(np.int64)


def of_units(sums: Ints) -> Array:
    """The numbers that sums of units are."""
    return sums / _UNIT
