"""Bounded: any policy, with floors and caps under and over its odds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oddsmith.arrays import Array, Bools, Real, finite
from oddsmith.decision import Context, Decision, Odds, Policy, State, check_policy, fold
from oddsmith.errors import Infeasible, InvalidInput
from oddsmith.policies.base import complete
from oddsmith.policies.explanation import ArmExplanation, Explanation
from oddsmith.policies.projection import project

__all__ = ["Bounded"]


@dataclass(frozen=True, eq=False)
class Bounded:
    """`policy` with the closest odds (Kullback-Leibler) that keep every eligible arm between its floor and its cap.

    Floors and caps are one number for all arms, or one per arm. An arm that is not eligible has odds 0 all the same;
    the only eligible arm has odds 1, for a cap cannot bind alone. Where the eligible arms cannot carry the caps,
    `Infeasible` says so. The policy learns from the bounded odds, those that were drawn from.

    >>> import numpy as np
    >>> from oddsmith.experts.given import GivenExperts
    >>> from oddsmith.policies.recipes import thompson_sampling
    >>> fair = Bounded(thompson_sampling(GivenExperts(["only"])), floors=0.1)
    >>> fair.odds(fair.init(), np.array([[0.2, 0.9, 0.5]])).propensities
    array([0.1, 0.8, 0.1])
    """

    policy: Policy
    floors: Any = 0.0
    caps: Any = 1.0

    def __post_init__(self) -> None:
        check_policy(self.policy)
        for what in ("floors", "caps"):
            bounds = finite(what, getattr(self, what))
            if bounds.ndim > 1 or (bounds < 0).any() or (bounds > 1).any():
                raise InvalidInput(f"{what} must be one number in [0, 1], or one per arm; got {getattr(self, what)!r}")
            object.__setattr__(self, what, bounds)
        if self.floors.ndim and self.caps.ndim and self.floors.shape != self.caps.shape:
            raise InvalidInput(f"floors and caps must be for as many arms; got {self.floors.size} and {self.caps.size}")
        if (self.floors > self.caps).any():
            raise Infeasible(f"floors must not exceed caps; got {self.floors.tolist()} above {self.caps.tolist()}")

    @property
    def moves(self) -> bool:
        return self.policy.moves

    @property
    def arms(self) -> Sequence[str] | None:
        """The arms' names, where the policy knows them."""
        return getattr(self.policy, "arms", None)

    def init(self, shape: tuple[int, ...] = ()) -> State:
        return self.policy.init(shape)

    def odds(self, state: State, context: Context, *, eligible: Bools | None = None, step: Any = None) -> Odds:
        """The policy's odds, projected; its bonus is that of the projected odds, advice and weights are its own."""
        return self._bound(self.policy.odds(state, context, eligible=eligible, step=step), eligible)

    def weigh(
        self, state: State, advice: tuple[Array, Array], *, eligible: Bools | None = None, step: Any = None
    ) -> Odds:
        """The odds from advice at hand, projected; for a policy inside that weighs votes."""
        inner: Any = self.policy
        return self._bound(inner.weigh(state, advice, eligible=eligible, step=step), eligible)

    def _bound(self, odds: Odds, eligible: Bools | None) -> Odds:
        n_arms = odds.propensities.shape[-1]
        for what, bounds in (("floors", self.floors), ("caps", self.caps)):
            if bounds.ndim and bounds.size != n_arms:
                raise InvalidInput(f"{what} must be one per arm; got {bounds.size} for {n_arms} arms")
        propensities = project(odds.propensities, self.floors, self.caps, eligible)
        return self.complete(odds._replace(propensities=propensities))

    def complete(self, odds: Odds) -> Odds:
        """As the policy inside completes them."""
        return complete(self.policy, odds)

    def update(self, state: State, decision: Decision, reward: Real) -> State:
        return self.policy.update(state, decision, reward)

    def fold(self, state: State, decisions: Decision, rewards: Any) -> State:
        """As the policy inside folds: bounds change what is drawn, not what is learnt."""
        return fold(self.policy, state, decisions, rewards)

    def posterior(self, state: State) -> Array:
        """The posterior of the policy inside."""
        inner: Any = self.policy
        posterior: Array = inner.posterior(state)
        return posterior

    def explain(
        self, state: State, context: Context, *, eligible: Bools | None = None, step: Any = None
    ) -> Explanation | ArmExplanation:
        """The explanation of the policy inside, with the bounded odds."""
        inner: Any = self.policy
        explanation: Explanation | ArmExplanation = inner.explain(state, context, eligible=eligible, step=step)
        return explanation._replace(propensities=self.odds(state, context, eligible=eligible, step=step).propensities)
