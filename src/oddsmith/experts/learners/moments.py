"""Running moments of the rows that learners have seen, and rows standardised by
them."""

from typing import NamedTuple, Self

import numpy as np

from oddsmith.core import kernels
from oddsmith.core.arrays import Array, Bools, flat_rows
from oddsmith.experts.learners.protocol import LearnerInput

__all__ = ["RunningMoments", "standardised", "with_row"]

# standard deviations beyond which a number is cut: one wild value must not rule a
# regression
_FAR = 5.0
# of the root by which all is divided: a category that is hardly ever there must not
# rule one either
_LEAST = 0.2


class RunningMoments(NamedTuple):
    """For each column (…, d) how many rows had it, their mean and their sum of squares
    about it."""

    counts: Array
    mean: Array
    squares: Array

    @classmethod
    def none(cls, dim: int, shape: tuple[int, ...] = ()) -> Self:
        """Those of no row at all."""
        return cls(*(np.zeros((*shape, dim)) for _ in range(3)))

    def wider(self, is_zero: Bools, seen: float) -> "RunningMoments":
        """With further columns, of `is_zero` (d) the last ones: that were 0 in the
        `seen` rows so far, or missing."""
        *lead, dim = self.mean.shape
        more = [(0, 0)] * len(lead) + [(0, len(is_zero) - dim)]
        moments = RunningMoments(*(np.pad(part, more) for part in self))
        moments.counts[..., dim:] = np.where(is_zero[dim:], seen, 0.0)
        return moments


def with_row(moments: RunningMoments, x: Array) -> RunningMoments:
    """The moments with one more row (Welford), in place; missing numbers change
    nothing."""
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


def standardised(moments: RunningMoments, x: Array, is_category: Bools) -> LearnerInput:
    """Rows (…, d) less their mean: numbers over their sd, cut at five, categories as
    they are; over one root for all.

    The root is that of how many numbers vary and of the categories' variances: squares
    sum to about 1.
    """
    compiled = kernels.compiled()
    if compiled is not None and moments.mean.ndim == 1 and x.flags.c_contiguous:
        z = np.empty(x.shape)
        compiled.standardise(*moments, is_category, flat_rows(x), flat_rows(z))
        return LearnerInput(x, z)
    variance = moments.squares / np.maximum(moments.counts, 1.0)
    live = variance > 0
    total = np.add.reduce(np.where(is_category, variance, live), axis=-1, keepdims=True)
    root = np.where(total > 0, np.maximum(np.sqrt(total), _LEAST), 1.0)
    unit = np.where(live & ~is_category, np.sqrt(variance), 1.0)
    z = (x - moments.mean) / unit
    z = np.minimum(np.maximum(np.where(np.isnan(z), 0.0, z), -_FAR), _FAR)
    return LearnerInput(x, z / root)
