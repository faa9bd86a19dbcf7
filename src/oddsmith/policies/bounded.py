"""Bounded: any policy, with floors and caps under and over its odds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oddsmith.arrays import Array, Bools, Real, finite
from oddsmith.decision import Context, Decision, Odds, Policy, State, check_policy, fold
from oddsmith.errors import Infeasible, InvalidInput
from oddsmith.policies.explanation import Explanation
from oddsmith.weights import FAINT

__all__ = ["Bounded", "project"]


@dataclass(frozen=True, eq=False)
class Bounded:
    """`policy` with the closest odds (Kullback-Leibler) that keep every eligible arm between its floor and its cap.

    Floors and caps are one number for all arms, or one per arm. An arm that is not eligible has odds 0 all the same.

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
        """The policy's odds, projected; advice, bonus and weights as they were."""
        odds = self.policy.odds(state, context, eligible=eligible, step=step)
        n_arms = odds.propensities.shape[-1]
        for what, bounds in (("floors", self.floors), ("caps", self.caps)):
            if bounds.ndim and bounds.size != n_arms:
                raise InvalidInput(f"{what} must be one per arm; got {bounds.size} for {n_arms} arms")
        mask = np.True_ if eligible is None else eligible
        shape = odds.propensities.shape
        floors = np.broadcast_to(np.where(mask, self.floors, 0.0), shape)
        caps = np.broadcast_to(np.where(mask, self.caps, 0.0), shape)
        return odds._replace(propensities=project(odds.propensities, floors, caps))

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
    ) -> Explanation:
        """The explanation of the policy inside, with the bounded odds."""
        inner: Any = self.policy
        explanation: Explanation = inner.explain(state, context, eligible=eligible, step=step)
        return explanation._replace(propensities=self.odds(state, context, eligible=eligible, step=step).propensities)


def project(propensities: Array, floors: Array, caps: Array) -> Array:
    """The distribution closest to `propensities` (…, K) within the bounds: clip(λ p, floor, cap) that sums to 1.

    That form minimises KL(q, p) and KL(p, q) alike. Odds of 0 count as equal and infinitely small: they get mass beyond
    their floor only once every other arm is at its cap.

    >>> project(np.array([0.7, 0.3, 0.0]), np.array([0.0, 0.0, 0.1]), np.array([0.5, 1.0, 1.0]))
    array([0.5, 0.4, 0.1])
    """
    low, high = floors.sum(axis=-1), caps.sum(axis=-1)
    if (low > 1 + 1e-12).any() or (high < 1 - 1e-12).any():
        raise Infeasible(
            f"floors must sum to at most 1 and caps to at least 1 over the eligible arms; "
            f"got {float(low.max()):.6g} and {float(high.min()):.6g}"
        )
    tiny = propensities < FAINT
    ample = np.where(tiny, floors, caps).sum(axis=-1, keepdims=True) >= 1
    base = np.where(ample, np.where(tiny, 0.0, propensities), np.where(tiny, 1.0, 0.0))
    floors = np.where(~ample & ~tiny, caps, floors)
    return _scaled_to_one(base, floors, caps)


def _scaled_to_one(base: Array, floors: Array, caps: Array) -> Array:
    """clip(λ base, floors, caps) with Σ = 1: piecewise linear in λ, solved exactly between two breakpoints."""
    safe = np.where(base > 0, base, 1.0)
    leaves_floor, meets_cap = (np.where(base > 0, bound / safe, 0.0) for bound in (floors, caps))
    breaks = np.concatenate([leaves_floor, meets_cap], axis=-1)
    order = np.argsort(breaks, axis=-1, kind="stable")
    breaks = np.take_along_axis(breaks, order, axis=-1)
    slopes = np.cumsum(np.take_along_axis(np.concatenate([base, -base], axis=-1), order, axis=-1), axis=-1)
    start = floors.sum(axis=-1, keepdims=True)
    sums = np.concatenate([start, start + np.cumsum(slopes[..., :-1] * np.diff(breaks, axis=-1), axis=-1)], axis=-1)
    left = np.maximum((sums < 1).sum(axis=-1, keepdims=True) - 1, 0)
    at, reached, slope = (np.take_along_axis(values, left, axis=-1) for values in (breaks, sums, slopes))
    scale = at + np.where(slope > 0, (1 - reached) / np.where(slope > 0, slope, 1.0), 0.0)
    odds = np.clip(scale * base, floors, caps)
    normalised: Array = odds / odds.sum(axis=-1, keepdims=True)
    return normalised
