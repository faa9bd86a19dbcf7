"""The sample ratio check: whether arms or groups were served as often as their
propensities say."""

from typing import NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, Ints
from oddsmith.core.errors import InvalidInput

__all__ = ["SampleRatio", "check_sample_ratio"]

_LARGEST_P = 0.001


class SampleRatio(NamedTuple):
    """Counts (K,) beside their expected values (K,), with the p-value of χ²."""

    counts: Ints
    expected: Array
    p_value: float

    @property
    def is_mismatch(self) -> bool:
        """Whether p is below 0.001: results are then not valid."""
        return self.p_value < _LARGEST_P


def check_sample_ratio(arm: Ints, odds: Array) -> SampleRatio:
    """The χ² test of the drawn arms (T,) against propensities (T, K), or (K,) for a
    fixed split.

    Of a fixed split it is Pearson's. Otherwise the counts have the covariance
    Σ (diag p - p pᵀ). It is for one look; a bandit is tested by `served_as_logged`.

    >>> arm = np.array([0] * 5075 + [1] * 4925)
    >>> round(check_sample_ratio(arm, np.array([0.5, 0.5])).p_value, 4)
    0.1336
    """
    from scipy.stats import chi2

    rows = len(arm)
    if rows == 0:
        raise InvalidInput("the sample ratio check needs rows; got none")
    table = np.broadcast_to(odds, (rows, odds.shape[-1]))
    counts = np.bincount(arm, minlength=table.shape[1])
    expected: Array = table.sum(axis=0)
    covariance = np.diag(expected) - table.T @ table
    excess = counts - expected
    inverse = np.linalg.pinv(covariance, rcond=1e-9, hermitian=True)
    degrees = int(np.linalg.matrix_rank(covariance, tol=1e-9 * rows, hermitian=True))
    if degrees == 0:
        return SampleRatio(counts, expected, 1.0)
    statistic = float(excess @ inverse @ excess)
    return SampleRatio(counts, expected, float(chi2.sf(statistic, degrees)))
