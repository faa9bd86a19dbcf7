"""Sample ratio check: test whether arms or groups were served as often as expected from
their propensities."""

from typing import NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, Ints
from oddsmith.core.errors import InvalidInput
from oddsmith.logs.table import Log

__all__ = ["SampleRatio", "check_log", "check_sample_ratio"]

_LARGEST_P = 0.001


class SampleRatio(NamedTuple):
    """Counts (K,) and their expected values (K,), with the p-value of a χ² test."""

    counts: Ints
    expected: Array
    p_value: float

    @property
    def is_mismatch(self) -> bool:
        """Whether the p-value is below 0.001. If so, the results of the experiment are
        not valid."""
        return self.p_value < _LARGEST_P


def check_sample_ratio(arm: Ints, odds: Array) -> SampleRatio:
    """Return the χ² test of the drawn arms (T,) against propensities (T, K), or (K,)
    for a fixed split.

    For a fixed split this is Pearson's test. Otherwise the test uses the covariance Σ
    (diag p - p pᵀ) of the counts. The test is for a single look; use `served_as_logged`
    for a bandit.

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


def check_log(log: Log) -> SampleRatio | None:
    """Return the sample ratio check of a log. Return None if the propensities of all
    arms are not known, or if no arm was drawn at random.

    If only drawn propensities are logged, those of all arms can be derived for two arms
    and for a fixed split.

    >>> log = Log(arm=[0, 1, 1, 2], reward=[0] * 4, propensity=[0.2, 0.3, 0.3, 0.5])
    >>> check_log(log).expected.round(3).tolist()
    [0.8, 1.2, 2.0]
    """
    if log.offered is not None:
        return None
    odds = _all_odds(log)
    if odds is None or (odds.max(axis=1) >= 1).all():
        return None
    return check_sample_ratio(log.arm, odds)


def _all_odds(log: Log) -> Array | None:
    """Return the propensities (T, K) of all arms if they are known."""
    if log.propensities is not None:
        return log.propensities
    if log.propensity is None or log.eligible is not None:
        return None
    n_arms = log.n_arms
    if n_arms == 2:
        of_second = np.where(log.arm == 1, log.propensity, 1 - log.propensity)
        return np.column_stack([1 - of_second, of_second])
    split = np.full(n_arms, np.nan)
    split[log.arm] = log.propensity
    is_fixed = bool((split[log.arm] == log.propensity).all())
    if is_fixed and abs(split.sum() - 1) <= 1e-6:
        return np.tile(split, (len(log), 1))
    return None
