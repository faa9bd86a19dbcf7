"""Bounded: any policy, with floors and caps under and over its odds."""

from dataclasses import dataclass
from typing import Any

from oddsmith.arrays import Array, Bools, finite
from oddsmith.decision import Context, Odds, State, Step
from oddsmith.errors import Infeasible, InvalidInput
from oddsmith.policies.base import Policy, PolicyWrapper, check_policy
from oddsmith.policies.parts.projection import project

__all__ = ["Bounded"]


@dataclass(frozen=True, eq=False)
class Bounded(PolicyWrapper):
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
    def explores(self) -> bool:
        return bool(self.floors.min() > 0 or (self.policy.explores and self.caps.min() > 0))

    def odds(self, state: State, context: Context, *, eligible: Bools | None = None, step: Step = None) -> Odds:
        """The policy's odds, projected; its bonus is that of the projected odds, advice and weights are its own."""
        return self._bound(self.policy.odds(state, context, eligible=eligible, step=step), eligible)

    def weigh(
        self, state: State, advice: tuple[Array, Array], *, eligible: Bools | None = None, step: Step = None
    ) -> Odds:
        """The odds from advice at hand, projected."""
        return self._bound(self.policy.weigh(state, advice, eligible=eligible, step=step), eligible)

    def _bound(self, odds: Odds, eligible: Bools | None) -> Odds:
        n_arms = odds.propensities.shape[-1]
        for what, bounds in (("floors", self.floors), ("caps", self.caps)):
            if bounds.ndim and bounds.size != n_arms:
                raise InvalidInput(f"{what} must be one per arm; got {bounds.size} for {n_arms} arms")
        propensities = project(odds.propensities, self.floors, self.caps, eligible)
        return self.complete(odds._replace(propensities=propensities))
