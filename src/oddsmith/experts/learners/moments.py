"""Running moments of the rows seen by learners, and standardisation of rows."""

from typing import NamedTuple, Self

import numpy as np

from oddsmith.core import kernels
from oddsmith.core.arrays import Array, Bools, flat_rows
from oddsmith.experts.learners.protocol import LearnerInput

__all__ = ["RunningMoments", "standardise", "with_row"]

# Clip values beyond this many standard deviations, so that one outlier does not
# dominate a regression.
_FAR = 5.0
# Smallest divisor of all values, so that a rare category does not dominate.
_LEAST = 0.2


class RunningMoments(NamedTuple):
    """Number of rows with a value, their mean, and the sum of squared deviations from
    it, for each column (…, d)."""

    counts: Array
    mean: Array
    squares: Array

    @classmethod
    def none(cls, dim: int, shape: tuple[int, ...] = ()) -> Self:
        """Return the moments before any row."""
        return cls(*np.zeros((3, *shape, dim)))

    def wider(self, is_zero: Bools, seen: float) -> "RunningMoments":
        """Return the moments with further columns, d in all. In the `seen` earlier
        rows, a new column counts as 0 where `is_zero` (d) is true, otherwise as
        missing."""
        *lead, dim = self.mean.shape
        widths = [(0, 0)] * len(lead) + [(0, len(is_zero) - dim)]
        moments = RunningMoments(*(np.pad(part, widths) for part in self))
        moments.counts[..., dim:] = np.where(is_zero[dim:], seen, 0.0)
        return moments


def with_row(moments: RunningMoments, x: Array) -> RunningMoments:
    """Add one row to the moments in place (Welford); missing numbers change nothing."""
    compiled = kernels.compiled()
    if compiled is not None and x.ndim == 1:
        compiled.add_row(*moments, x)
        return moments
    counts, mean, squares = moments
    there = ~np.isnan(x)
    counts += there
    shift = np.where(there, x - mean, 0.0)
    mean += shift / np.maximum(counts, 1.0)
    squares += shift * np.where(there, x - mean, 0.0)
    return moments


def standardise(moments: RunningMoments, x: Array, is_category: Bools) -> LearnerInput:
    """Subtract the mean from rows (…, d), divide numbers by their standard deviation
    and clip them to ±5, then divide all columns by the same root, so that their squares
    sum to about 1.

    root² is the number of numeric columns that vary plus the sum of the categories'
    variances.
    """
    compiled = kernels.compiled()
    if compiled is not None and moments.mean.ndim == 1 and x.flags.c_contiguous:
        z = np.empty(x.shape)
        compiled.standardise(*moments, is_category, flat_rows(x), flat_rows(z))
        return LearnerInput(x, z)
    variance = moments.squares / np.maximum(moments.counts, 1.0)
    varies = variance > 0
    heft = np.where(is_category, variance, varies)
    total = np.add.reduce(heft, axis=-1, keepdims=True)
    root = np.where(total > 0, np.maximum(np.sqrt(total), _LEAST), 1.0)
    unit = np.where(varies & ~is_category, np.sqrt(variance), 1.0)
    z = (x - moments.mean) / unit
    z = np.where(np.isnan(z), 0.0, z)
    z = np.minimum(np.maximum(z, -_FAR), _FAR)
    return LearnerInput(x, z / root)
