"""Intervals that count one more row at each end of the range: for few rewards, and for heavy rows not drawn yet.

Rows that were drawn do not show how far a term can go: of a hundred rows without a reward the spread is 0. So the low
end of an interval is that of the rows and one more at the least term that a row could have had, the high end that of
the rows and one more at the most (`Terms.ends`, by the logged odds). Of many rows that changes nothing.
"""

from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

from scipy.special import betaincinv

from oddsmith.evaluation.terms import Terms

__all__ = ["Moments", "beta_interval", "moments", "normal_interval"]


class Moments(NamedTuple):
    """The mean and the variance of n terms and of one more."""

    n: int
    mean: float
    variance: float

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return sqrt(self.variance / self.n)


def moments(terms: Terms, more: float) -> Moments:
    """The mean and the variance of the terms with one more row, whose term is `more`."""
    n = len(terms) + 1
    mean = (float(terms.values.sum()) + more) / n
    return Moments(n, mean, (float(((terms.values - mean) ** 2).sum()) + (more - mean) ** 2) / n)


def normal_interval(terms: Terms, *, level: float) -> tuple[float, float]:
    """Mean - z s/√n with one more row at the low end, mean + z s/√n with one more at the high end."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    low, high = (moments(terms, end) for end in terms.ends)
    return low.mean - z * low.error, high.mean + z * high.error


def beta_interval(terms: Terms, *, level: float) -> tuple[float, float]:
    """Quantiles of the beta laws on the range that have the mean and the variance of the terms with one more row.

    With [b, c] the range of a row's term, m and s² the moments of n rows and one more at c, the high end is

        b + (c - b) · quantile of Beta(uk, (1 - u)k) at (1 + level)/2,
        u = (m - b)/(c - b),  k = u (1 - u) (c - b)² (n + 2)/s² - 1,

    and the low end the same with one more row at b. Of rewards 0 and 1 that is Clopper and Pearson's interval (1934),
    exactly; of rare rewards with weights Fay and Feuer's (1997); of many rows the normal one.
    """
    low, high = terms.ends
    return _quantile(terms, low, (1 - level) / 2), _quantile(terms, high, (1 + level) / 2)


def _quantile(terms: Terms, more: float, chance: float) -> float:
    low, high = terms.ends
    found, width = moments(terms, more), high - low
    place = (found.mean - low) / width if width > 0 else 0.0
    if not 0 < place < 1 or found.variance <= 1e-24 * width**2:
        return more  # all rows are at this end
    size = place * (1 - place) * width**2 * (found.n + 1) / found.variance - 1
    return low + width * float(betaincinv(place * size, (1 - place) * size, chance)) if size > 0 else more
