"""Bounded: any policy, with floors and caps under and over its odds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from oddsmith.core.arrays import Array, Bools, finite
from oddsmith.core.decision import Context, Odds, State, Step
from oddsmith.core.errors import Infeasible, InvalidInput
from oddsmith.core.offer import AnyOffer, Offer
from oddsmith.core.policy import Policy, check_policy
from oddsmith.policies.parts.projection import project
from oddsmith.policies.wrapper import PolicyWrapper

__all__ = ["Bounded"]


@dataclass(frozen=True, eq=False)
class Bounded(PolicyWrapper):
    """`policy` with the closest odds (Kullback-Leibler) that keep every eligible arm
    between its floor and its cap.

    Floors and caps are one number for all arms, one per arm, or a dict by name, which
    binds the arms it names. An arm that is not eligible has odds 0 all the same; the
    only eligible arm has odds 1, for a cap cannot bind alone. Where the eligible arms
    cannot carry the bounds, `Infeasible` says so; of K arms that come with the call a
    number f is min(f, 1/K) as a floor and max(f, 1/K) as a cap, which they always can.
    The policy learns from the bounded odds, those that were drawn from.

    >>> import numpy as np
    >>> from oddsmith.experts.external import GivenExperts
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
            object.__setattr__(
                self, what, _checked(what, getattr(self, what), self.arms)
            )
        if isinstance(self.floors, dict) or isinstance(self.caps, dict):
            return
        if self.floors.ndim and self.caps.ndim and self.floors.shape != self.caps.shape:
            raise InvalidInput(
                f"floors and caps must be for as many arms; got {self.floors.size} and "
                f"{self.caps.size}"
            )
        if (self.floors > self.caps).any():
            raise Infeasible(
                f"floors must not exceed caps; got {self.floors.tolist()} above "
                f"{self.caps.tolist()}"
            )

    @property
    def explores(self) -> bool:
        floored = not isinstance(self.floors, dict) and self.floors.min() > 0
        caps = self.caps.values() if isinstance(self.caps, dict) else self.caps.flat
        return bool(floored or (self.policy.explores and min(caps, default=1.0) > 0))

    def with_arms(self, state: State, arms: Sequence[str]) -> tuple[Self, State]:
        """The policy within one bound for all arms as it is; where each has its own,
        those that are new are free."""
        policy, wider = self.policy.with_arms(state, arms)
        ends = {"floors": self.floors, "caps": self.caps}
        bounds = {
            what: np.append(one, np.full(len(arms) - one.size, _FREE[what]))
            if np.ndim(one)
            else one
            for what, one in ends.items()
        }
        return replace(self, policy=policy, **bounds), wider

    def odds(
        self,
        state: State,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Odds:
        """The policy's odds, projected; its bonus is that of the projected odds, advice
        and weights are its own."""
        odds = self.policy.odds(state, context, eligible=eligible, step=step)
        if isinstance(context, AnyOffer):
            return self._offer_bound(odds, context, eligible)
        return self._bound(odds, eligible)

    def weigh(
        self,
        state: State,
        advice: tuple[Array, Array],
        *,
        eligible: Bools | None = None,
        step: Step = None,
        offer: Offer | None = None,
    ) -> Odds:
        """The odds from advice at hand, projected."""
        odds = self.policy.weigh(state, advice, eligible=eligible, step=step)
        return (
            self._bound(odds, eligible)
            if offer is None
            else self._offer_bound(odds, offer, eligible)
        )

    def _offer_bound(self, odds: Odds, offer: AnyOffer, eligible: Bools | None) -> Odds:
        """The odds of arms that came with the call, projected."""
        bounds = [
            _of_offer(one, self.floors, self.caps, mask)
            for one, mask in zip(offer.offers, _masks(offer, eligible), strict=True)
        ]
        floors, caps = (
            np.stack(part) if offer.lead else part[0]
            for part in zip(*bounds, strict=True)
        )
        return self.complete(
            odds._replace(
                propensities=project(odds.propensities, floors, caps, eligible)
            )
        )

    def _bound(self, odds: Odds, eligible: Bools | None) -> Odds:
        if isinstance(self.floors, dict) or isinstance(self.caps, dict):
            raise InvalidInput(
                "floors and caps by name need arms that have names: those of experts, "
                "or of the call"
            )
        n_arms = odds.propensities.shape[-1]
        for what, bounds in (("floors", self.floors), ("caps", self.caps)):
            if bounds.ndim and bounds.size != n_arms:
                raise InvalidInput(
                    f"{what} must be one per arm; got {bounds.size} for {n_arms} arms"
                )
        propensities = project(odds.propensities, self.floors, self.caps, eligible)
        return self.complete(odds._replace(propensities=propensities))


def _checked(what: str, bounds: object, arms: Sequence[str] | None) -> Any:
    """Bounds in [0, 1]: an array of one number, or of one per arm; a dict by name where
    no arms are known."""
    table = bounds if isinstance(bounds, Mapping) else None
    values = (
        finite(what, list(table.values()) if table else [0.0])
        if table is not None
        else finite(what, bounds)
    )
    if values.ndim > 1 or (values < 0).any() or (values > 1).any():
        raise InvalidInput(
            f"{what} must be one number in [0, 1], one per arm, or a dict by name; got "
            f"{bounds!r}"
        )
    if table is None:
        return values
    if arms is None:
        return {str(name): float(bound) for name, bound in table.items()}
    if unknown := [name for name in table if name not in arms]:
        raise InvalidInput(f"{what} must name arms of {list(arms)}; got {unknown[0]!r}")
    return np.array([table.get(name, _FREE[what]) for name in arms], dtype=np.float64)


def _masks(offer: AnyOffer, eligible: Bools | None) -> Sequence[Bools]:
    shape = (len(offer.offers), len(offer.arms))
    return list(np.broadcast_to(True if eligible is None else eligible, shape))


def _of_offer(
    offer: Offer, floors: Any, caps: Any, eligible: Bools
) -> tuple[Array, Array]:
    """Floors and caps (K,) of the arms offered; a table that they cannot carry is
    refused, by their names."""
    even = 1 / max(int(eligible.sum()), 1)
    low, high = _of_arms(offer, "floors", floors), _of_arms(offer, "caps", caps)
    low = low if isinstance(floors, dict) else np.minimum(low, even)
    high = high if isinstance(caps, dict) else np.maximum(high, even)
    bound = [
        name
        for name, low_, high_, open_to in zip(
            offer.arms, low, high, eligible, strict=True
        )
        if open_to and (low_ > 0 or high_ < 1)
    ]
    alone = eligible.sum() == 1
    if not alone and (
        (low > high)[eligible].any()
        or low[eligible].sum() > 1 + 1e-12
        or high[eligible].sum() < 1 - 1e-12
    ):
        raise Infeasible(
            f"floors and caps must leave odds that sum to 1; those of {bound[:8]} "
            "cannot hold together"
        )
    return low, high


def _of_arms(offer: Offer, what: str, bounds: Any) -> Array:
    if isinstance(bounds, dict):
        return np.array([bounds.get(name, _FREE[what]) for name in offer.arms])
    if bounds.ndim:
        raise InvalidInput(
            f"{what} must be one number, or a dict by name, where arms come with the "
            "call"
        )
    return np.full(len(offer.arms), float(bounds))


_FREE = {"floors": 0.0, "caps": 1.0}  # of arms that a table does not name
