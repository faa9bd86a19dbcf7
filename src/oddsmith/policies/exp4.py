"""EXP4: weight experts by the estimated reward of their ballots, without using their
predictions (Auer et al. 2002)."""

from dataclasses import dataclass

import numpy as np

from oddsmith.core import weights
from oddsmith.core.arrays import Array, Bools, Ints, Real, number
from oddsmith.core.decision import Context, Decision, Odds, Step
from oddsmith.core.expert_policy import (
    ExpertState,
    MultiplicativeWeights,
    check_eligible,
    column,
    drawn_advice,
)
from oddsmith.core.experts import checked_predictions
from oddsmith.core.offer import AnyOffer

__all__ = ["EXP4", "OverBallots"]


@dataclass(frozen=True, eq=False)
class OverBallots(MultiplicativeWeights):
    """Base class of policies that score ballots instead of predictions. A subclass
    defines `exploration`."""

    weighs_ballots = True
    # Learning divides rewards by the propensity of the drawn arm.
    importance_weighted = True

    def exploration(self, n_arms: int | Ints) -> Real:
        """Return the total propensity (…) that is spread uniformly over this many
        eligible arms."""
        self._lacks("exploration", "write it")

    def odds(
        self,
        state: ExpertState,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Odds:
        """Return the weighted ballots mixed with exploration. The ballots are recorded
        as advice; that of an expert without a vote is NaN."""
        check_eligible(eligible)
        advice = self.experts.advise(state.experts, context, eligible)
        return self.weigh(state, advice, eligible=eligible, step=step)

    def weigh(
        self,
        state: ExpertState,
        advice: tuple[Array, Array],
        *,
        eligible: Bools | None = None,
        step: Step = None,
        offer: AnyOffer | None = None,
        uniform: Array | None = None,
    ) -> Odds:
        """Return the propensities from the experts' ballots."""
        log_weights = state.log_weights
        ballots = checked_predictions(advice[1], log_weights, eligible)
        n_arms: int | Ints = ballots.shape[-1]
        if eligible is not None:
            n_arms = eligible.sum(axis=-1)
        gamma = self.exploration(n_arms)
        propensities = weights.mix(log_weights, ballots, gamma, eligible, uniform)
        cast = ballots.any(axis=-1, keepdims=True)
        if cast.all():
            return self.complete(Odds(propensities, ballots))
        ballots = np.where(cast, ballots, np.nan)
        return self.complete(Odds(propensities, ballots, None, log_weights))


@dataclass(frozen=True, eq=False)
class EXP4(OverBallots):
    """EXP4 with importance-weighted losses of ballots. It assumes neither a correct
    expert nor any distribution of rewards (docs/math 5.4).

        Pr(a) = (1 - γ) Σ_i w_i ξ_i(a) / Σ_i w_i + γ / K
        w_i ← w_i exp(-η ξ_i(a) (1 - r) / Pr(a))

    ξ_i is expert i's ballot. Regret to the best expert is at most sqrt(2 K T ln N) with
    η = sqrt(2 ln N / (K T)), γ = 0, which the recipe `exp4` sets. The factors depend
    only on the propensities of the draw, so the posterior does not depend on the order
    of rewards.

    >>> from oddsmith.experts.external import GivenExperts
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

    def update(
        self, state: ExpertState, decision: Decision, reward: Real
    ) -> ExpertState:
        """Add the importance-weighted loss of the reward to each expert, in proportion
        to its vote for the drawn arm."""
        ballots = drawn_advice(decision, len(self.prior))
        lost = (1 - column(reward)) / column(decision.propensity)
        factors = -self.eta * ballots * lost
        return self.reweigh(state, factors, decision, reward)
