"""Exact sums: numbers are rounded to multiples of 2^-32, so that sums do not depend on
the order.

Therefore many rows can be added at once, and a removed row leaves no rounding error. A
sum of 10^9 logarithms does not overflow.
"""

import numpy as np

from oddsmith.core.arrays import Array, Ints

__all__ = ["in_units", "of_units"]

_UNIT = 2.0**32


def in_units(values: Array) -> Ints:
    """Round numbers to multiples of 2^-32, and return these multiples as integers.

    >>> in_units(np.array([0.5, -1.0])).tolist()
    [2147483648, -4294967296]
    """
    units = values * _UNIT
    return np.rint(units, out=units).astype(np.int64)


def of_units(sums: Ints) -> Array:
    """Convert sums of integer multiples of 2^-32 to floats."""
    return sums / _UNIT
