"""Duration of an experiment: smallest detectable effect, and days needed."""

from math import inf

from oddsmith.core.arrays import number

__all__ = ["days_needed", "smallest_detectable_effect"]

# Quantile of the standard normal distribution for 80 % power.
_POWER_QUANTILE = 0.84


def smallest_detectable_effect(half_width: float, standard_error: float) -> float:
    """Return h + 0.84 s, the smallest effect for which the interval excludes 0 with a
    probability of 80 %.

    `half_width` h is the current half-width of the interval, `standard_error` s that of
    the estimate.
    """
    return half_width + _POWER_QUANTILE * standard_error


def days_needed(
    rows: int,
    half_width: float,
    standard_error: float,
    effect: float,
    rows_per_day: float,
) -> float:
    """Return the additional days until an `effect` is detected with 80 % probability.

    Half-width and standard error shrink as 1/√n, so n ((h + 0.84 s)² / δ² - 1) more
    rows are needed, or none if the data suffice.

    >>> round(days_needed(4000, 0.05, 0.0125, 0.03, 1000), 1)
    12.3
    """
    number("rows_per_day", rows_per_day, low=0, high=inf, open_low=True)
    if effect == 0:
        return inf
    detectable = smallest_detectable_effect(half_width, standard_error)
    more_rows = rows * ((detectable / effect) ** 2 - 1)
    return max(0.0, more_rows / rows_per_day)
