"""EXP4: experts are weighed by what their advice would have earned, whatever they predict (Auer et al. 2002)."""

from dataclasses import dataclass

import numpy as np

from oddsmith.arrays import Ints, Real, number
from oddsmith.decision import Decision
from oddsmith.policies.over_experts import ExpertState, OverBallots, column, drawn_advice

__all__ = ["EXP4"]


@dataclass(frozen=True, eq=False)
class EXP4(OverBallots):
    """Importance-weighted losses of ballots: no expert need be right, and rewards may be anything (theory 5.4).

        Pr(a) = (1 - γ) Σ_i w_i ξ_i(a) / Σ_i w_i + γ / K        w_i ← w_i exp(-η ξ_i(a) (1 - r) / Pr(a))

    ξ_i is expert i's ballot. Regret to the best expert is at most sqrt(2 K T ln N) with η = sqrt(2 ln N / (K T)),
    γ = 0; the recipe `exp4` sets it. The factors carry the odds they were drawn with, so the posterior does not
    depend on the order of rewards.

    >>> from oddsmith.experts.given import GivenExperts
    >>> policy = EXP4(GivenExperts(["cold", "warm"]), eta=0.1)
    >>> policy.odds(policy.init(), np.array([[0.2, 0.1], [0.6, 0.9]])).propensities
    array([0.5, 0.5])
    """

    eta: float
    gamma: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        number("eta", self.eta, low=0, high=np.inf, open_low=True)
        object.__setattr__(self, "gamma", number("gamma", self.gamma, low=0, high=1))

    @property
    def explores(self) -> bool:
        return self.gamma > 0

    def exploration(self, n_arms: int | Ints) -> Real:
        return self.gamma

    def update(self, state: ExpertState, decision: Decision, reward: Real) -> ExpertState:
        """Charge every expert the lost reward in proportion to its vote for the drawn arm, over the odds."""
        ballots = drawn_advice(decision, len(self.prior))
        lost = (1 - column(reward)) / column(decision.propensity)
        return self.reweighed(state, -self.eta * ballots * lost, decision, reward)
