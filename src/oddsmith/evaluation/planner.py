"""Exploration planner: compute the width of an interval, the number of decisions, or
gamma, if the other two are given."""

from dataclasses import dataclass
from math import ceil, inf, sqrt
from statistics import NormalDist

import numpy as np

from oddsmith.core.arrays import Array, finite, number
from oddsmith.core.errors import Infeasible, InvalidInput

__all__ = ["ExplorationPlan"]


@dataclass(frozen=True, eq=False)
class ExplorationPlan:
    """Precision of a later off-policy estimate of a target π from a log of the policy
    (1 - γ) p + γ/K, computed before any decision is made.

    `logger` and `target` are propensities (K,), or (T, K) over typical contexts.
    `second_moment` is E r² of the target's rewards (its value, if rewards are 0 or 1),
    or of the residual r - q for doubly robust estimates; it is assumed to be the same
    for all arms. `offset` is the variance that does not depend on γ (-value² for IPS;
    the variance of q(π) for DR; for IPS, 0 is conservative):

        V(γ) = second_moment · E Σ_a π(a)² / ((1 - γ) p(a) + γ/K) + offset
        width                2 z sqrt(V(γ) / n)

    If p is 0 for the target's arms, the factor E Σ_a … is K/γ: doubling γ halves the
    number of decisions.

    >>> plan = ExplorationPlan([1, 0, 0, 0], [0, 1, 0, 0], second_moment=0.1)
    >>> round(plan.width(0.02, 100_000), 4)
    0.0554
    >>> plan.decisions(0.02, 0.05), round(plan.gamma(0.05, 100_000), 4)
    (122927, 0.0246)
    """

    logger: Array
    target: Array
    second_moment: float = 1.0
    offset: float = 0.0
    level: float = 0.95

    def __post_init__(self) -> None:
        for what in ("logger", "target"):
            odds = np.atleast_2d(finite(what, getattr(self, what)))
            has_rows = odds.ndim == 2
            off = np.abs(odds.sum(axis=1) - 1)
            if not has_rows or (odds < 0).any() or (off > 1e-6).any():
                raise InvalidInput(
                    f"{what} must be odds (K,) or (T, K) that sum to 1; got shape "
                    f"{odds.shape}"
                )
            object.__setattr__(self, what, odds)
        arms = self.logger.shape[1]
        target_arms = self.target.shape[1]
        if arms != target_arms:
            raise InvalidInput(
                f"logger and target must have the same number of arms; got {arms} and "
                f"{target_arms}"
            )
        number("second_moment", self.second_moment, low=0, high=1, open_low=True)
        number("offset", self.offset, low=-1, high=1)
        number("level", self.level, low=0, high=1, open_low=True, open_high=True)

    def variance(self, gamma: float) -> float:
        """Return V(γ), the variance of one term; ∞ if the target draws an arm that the
        logging policy never draws."""
        number("gamma", gamma, low=0, high=1)
        arms = self.logger.shape[1]
        odds = (1 - gamma) * self.logger + gamma / arms
        with np.errstate(divide="ignore", invalid="ignore"):
            squares = self.target**2
            ratios = np.where(self.target > 0, squares / odds, 0.0)
        mean_square = float(ratios.sum(axis=1).mean())
        return max(0.0, self.second_moment * mean_square + self.offset)

    def width(self, gamma: float, n: int) -> float:
        """Return the width of the normal interval after n decisions."""
        number("n", n, low=1, high=inf)
        error = sqrt(self.variance(gamma) / n)
        return 2 * self._z() * error

    def decisions(self, gamma: float, width: float) -> int:
        """Return the number of decisions until the interval is at most this wide."""
        number("width", width, low=0, high=inf, open_low=True)
        rows_by_variance = (2 * self._z() / width) ** 2
        needed = self.variance(gamma) * rows_by_variance
        if needed == inf:
            raise Infeasible(
                "no number of decisions is enough for arms that the logging policy "
                "never "
                "draws; got gamma 0"
            )
        return max(1, ceil(needed - 1e-9))

    def gamma(self, width: float, n: int) -> float:
        """Return the smallest gamma for which the interval has at most this width after
        n decisions. Raise if no gamma is large enough.

        V is convex in γ, so the suitable gammas form an interval. The result is its
        left end, to 1e-9.
        """
        number("width", width, low=0, high=inf, open_low=True)
        number("n", n, low=1, high=inf)
        if self.width(0.0, n) <= width:
            return 0.0
        best = self._least()
        least = self.width(best, n)
        if least > width:
            raise Infeasible(
                f"no gamma gives a width of {width:g} after {n:,} decisions; the "
                f"smallest width is {least:.3g}, at gamma {best:.3g}"
            )
        low = 0.0
        high = best
        while high - low > 1e-9:
            middle = (low + high) / 2
            if self.width(middle, n) <= width:
                high = middle
            else:
                low = middle
        return high

    def _least(self) -> float:
        """Return the gamma with the smallest variance."""
        from scipy.optimize import minimize_scalar

        found = minimize_scalar(
            self.variance, bounds=(0, 1), method="bounded", options={"xatol": 1e-9}
        )
        return float(found.x)

    def _z(self) -> float:
        return NormalDist().inv_cdf((1 + self.level) / 2)
