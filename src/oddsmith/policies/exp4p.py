"""EXP4.P: EXP4 with a bonus for uncertain experts, so that its regret bound holds with
high probability."""

from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from oddsmith.core.arrays import Array, Ints, Real, number, whole
from oddsmith.core.decision import Decision, Odds
from oddsmith.core.errors import InvalidInput
from oddsmith.core.expert_policy import ExpertState, column, drawn_advice
from oddsmith.policies.exp4 import OverBallots

__all__ = ["EXP4P"]


@dataclass(frozen=True, eq=False)
class EXP4P(OverBallots):
    """Algorithm 1 of Beygelzimer et al. 2011 (docs/math 5.4) with a horizon of `steps`.
    Its bound holds with probability 1 - delta.

        Pr(a) = (1 - K p) Σ_i w_i ξ_i(a) / Σ_i w_i + p,
        p = min(1/K, sqrt(ln N / (K T)))
        w_i ← w_i exp( p/2 (ξ_i(a) r / Pr(a)
                            + sqrt(ln(N/δ) / (K T)) Σ_b ξ_i(b) / Pr(b)) )

    Regret is at most 6 sqrt(K T ln(N/δ)). The decision records the sum over arms as its
    `bonus`.

    >>> from oddsmith.experts.external import GivenExperts
    >>> policy = EXP4P(GivenExperts(["cold", "warm"]), steps=1000)
    >>> policy.odds(
    ...     policy.init(), np.array([[0.9, 0.1], [0.6, 0.2]])
    ... ).propensities.round(3)
    array([0.981, 0.019])
    """

    steps: int
    delta: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("steps", self.steps)
        number("delta", self.delta, low=0, high=1, open_low=True, open_high=True)

    @property
    def explores(self) -> bool:
        """Whether propensities have a lower bound. With a single expert they have
        none."""
        return len(self.prior) > 1

    def smallest(self, n_arms: int | Ints) -> Real:
        """Return the smallest propensity of any eligible arm; 0 for a single expert."""
        log_n = log(len(self.prior))
        rate = log_n / (n_arms * self.steps)
        return np.minimum(1 / n_arms, np.sqrt(rate))

    def exploration(self, n_arms: int | Ints) -> Real:
        gamma: Array = np.asarray(n_arms * self.smallest(n_arms))
        if gamma.ndim:
            return gamma
        return float(gamma)

    def complete(self, odds: Odds) -> Odds:
        """Return the propensities with Σ_b ξ(b)/Pr(b) of each expert as bonus."""
        odds_drawn = odds.propensities
        safe = np.where(odds_drawn > 0, odds_drawn, 1.0)[..., None, :]
        over_odds = np.asarray(odds.advice) / safe
        return odds._replace(bonus=over_odds.sum(axis=-1))

    def update(
        self, state: ExpertState, decision: Decision, reward: Real
    ) -> ExpertState:
        ballots = drawn_advice(decision, len(self.prior))
        if decision.bonus is None:
            raise InvalidInput(
                "decision must contain the bonus that EXP4P needs; got none"
            )
        n_arms: int | Ints = decision.propensities.shape[-1]
        if decision.eligible is not None:
            n_arms = np.asarray(decision.eligible).sum(axis=-1)[..., None]
        estimates = ballots * column(reward) / column(decision.propensity)
        log_term = log(len(self.prior) / self.delta)
        rate = log_term / (n_arms * self.steps)
        upper = estimates + np.sqrt(rate) * decision.bonus
        factors = self.smallest(n_arms) / 2 * upper
        return self.reweigh(state, factors, decision, reward)

    def bound(self, n_arms: int) -> float:
        """Return 6 sqrt(K T ln(N/δ)), which bounds the regret to the best expert with
        probability 1 - δ.

        >>> from oddsmith.experts.external import GivenExperts
        >>> round(EXP4P(GivenExperts(["a", "b"]), steps=100).bound(2))
        163
        """
        log_term = log(len(self.prior) / self.delta)
        return 6 * sqrt(n_arms * self.steps * log_term)
