"""Beta-Bernoulli Thompson sampling with exact propensities."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oddsmith.core.arrays import Array, Bools, number
from oddsmith.core.decision import Context, Odds, Step
from oddsmith.core.expert_policy import check_eligible, mix_uniform
from oddsmith.core.names import arm_names
from oddsmith.experts.best_arm import beta_best
from oddsmith.policies.parts.counts import CountState, OverArms

__all__ = ["BetaThompsonSampling"]


@dataclass(frozen=True, eq=False)
class BetaThompsonSampling(OverArms):
    """Draw each arm with the probability that its Beta(wins + a, losses + b) is the
    largest (Thompson 1933).

    See also Agrawal and Goyal 2012, Kaufmann, Korda and Munos 2012. The propensities
    are computed by quadrature, within 1e-6 of exact Thompson sampling, and arms are
    drawn from exactly these. Rewards between 0 and 1 count as fractions of a win.

    >>> policy = BetaThompsonSampling(3)
    >>> policy.odds(policy.init(), None).propensities.round(6)
    array([0.333333, 0.333333, 0.333333])
    """

    wins: float = 1.0
    losses: float = 1.0
    gamma: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for what in ("wins", "losses"):
            number(what, getattr(self, what), low=0.01, high=1e6)
        number("gamma", self.gamma, low=0, high=1)

    @property
    def explores(self) -> bool:
        return self.gamma > 0  # with gamma = 0, propensities can underflow to 0

    def odds(
        self,
        state: CountState,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Odds:
        check_eligible(eligible, self.n_arms)
        best = self._best(state, eligible)
        return Odds(mix_uniform(best, self.gamma, eligible))

    def moments(self, state: CountState) -> tuple[Array, Array | None]:
        """Return mean and standard deviation of the Beta distributions (…, K)."""
        n = state.pulls + self.wins + self.losses
        mean = (state.sums + self.wins) / n
        variance = mean * (1 - mean) / (n + 1)
        return mean, np.sqrt(variance)

    def named_posterior(
        self, state: CountState, arms: Sequence[str] | None
    ) -> dict[str, float]:
        """Return the probability that each arm is the best, before gamma, by name."""
        names = arm_names(self.n_arms, arms)
        best = self._best(state, None)
        return dict(zip(names, best.tolist(), strict=True))

    def _best(self, state: CountState, eligible: Bools | None) -> Array:
        """Return the probability that each arm is the best (…, K)."""
        wins = state.sums + self.wins
        losses = state.pulls - state.sums + self.losses
        return beta_best(wins, losses, eligible)
