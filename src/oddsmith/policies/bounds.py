"""Bounded: floors and caps for the propensities of any policy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from oddsmith.core.arrays import Array, Bools, finite
from oddsmith.core.decision import Context, Odds, State, Step
from oddsmith.core.errors import Infeasible, InvalidInput
from oddsmith.core.explanation import ArmExplanation, Explanation
from oddsmith.core.names import hint
from oddsmith.core.offer import AnyOffer, Offer
from oddsmith.core.policy import Policy, check_policy
from oddsmith.policies.cap_groups import (
    check_groups,
    members_of_arms,
    members_of_offer,
)
from oddsmith.policies.parts.feasible import Limits, feasible_ballots
from oddsmith.policies.parts.projection import project, project_groups
from oddsmith.policies.wrapper import PolicyWrapper

__all__ = ["Bounded", "reads_features"]


@dataclass(frozen=True, eq=False)
class Bounded(PolicyWrapper):
    """Wrap `policy` so that every propensity is between its floor and its cap, and the
    sum over each group is at most the group's cap.

    Floors and caps are one number for all arms, one per arm, or a dict by name for some
    arms; `cap_groups` is a list of `CapGroup`, nested or disjoint.

    If the policy mixes ballots of experts, the bounds hold for each ballot: an expert
    votes for the feasible distribution with the highest predicted reward (it fills its
    best arm up to the cap, then the next), and the exploration (gamma) uses the
    feasible distribution closest to uniform. A mixture of feasible distributions is
    feasible. The propensities of other policies are replaced by the closest feasible
    ones (Kullback-Leibler). In both cases the policy learns from the propensities of
    the draw.

    An ineligible arm always has propensity 0. A single eligible arm has propensity 1
    despite its cap, and the cap of a group that contains all eligible arms does not
    apply. If no distribution over the eligible arms satisfies the other bounds, the
    call raises `Infeasible`. If K arms are passed in the call, a number f means a floor
    of min(f, 1/K) and a cap of max(f, 1/K); as a floor it is also at most an equal
    share of a group's cap.

    >>> import numpy as np
    >>> from oddsmith.experts.external import GivenExperts
    >>> from oddsmith.policies.recipes import thompson_sampling
    >>> fair = Bounded(thompson_sampling(GivenExperts(["only"])), floors=0.1, caps=0.7)
    >>> fair.odds(fair.init(), np.array([[0.2, 0.9, 0.5]])).propensities.round(12)
    array([0.1, 0.7, 0.2])
    """

    policy: Policy
    floors: Any = 0.0
    caps: Any = 1.0
    cap_groups: Any = ()

    weighs_ballots = False  # its ballots already satisfy the bounds

    def __post_init__(self) -> None:
        check_policy(self.policy)
        floors = _checked("floors", self.floors, self.arms)
        caps = _checked("caps", self.caps, self.arms)
        groups = check_groups(self.cap_groups, self.arms)
        object.__setattr__(self, "floors", floors)
        object.__setattr__(self, "caps", caps)
        object.__setattr__(self, "cap_groups", groups)
        if isinstance(floors, dict) or isinstance(caps, dict):
            return
        if floors.ndim and caps.ndim and floors.shape != caps.shape:
            raise InvalidInput(
                "floors and caps must be for the same number of arms; got "
                f"{floors.size} and {caps.size}"
            )
        if (floors > caps).any():
            raise Infeasible(
                f"floors must not exceed caps; got {floors.tolist()} above "
                f"{caps.tolist()}"
            )
        if groups and self.arms is not None:
            self.check_feasible(len(self.arms))

    def check_feasible(self, n_arms: int, eligible: Bools | None = None) -> None:
        """Raise if no distribution over `n_arms` fixed arms, or over the `eligible`
        arms among them, satisfies the bounds."""
        _ = self._limits(n_arms, eligible, None).uniform

    @property
    def explores(self) -> bool:
        by_name = isinstance(self.floors, dict)
        if not by_name and self.floors.min() > 0:
            return True
        caps = self.caps.values() if isinstance(self.caps, dict) else self.caps.flat
        shares = [group.at_most for group in self.cap_groups]
        if not self.policy.explores or min([*caps, *shares], default=1.0) == 0:
            return False
        # The members of a group are only known in a call.
        if by_name:
            return bool(sum(self.floors.values()) < min([1.0, *shares]))
        if not self.floors.ndim:
            return True
        return self._fixed_limits(self.floors.size).reach_all

    def with_arms(self, state: State, arms: Sequence[str]) -> tuple[Self, State]:
        """Return the policy with new arms, which belong to no group. A common bound
        applies to them too; if bounds are per arm, new arms have none."""
        policy, wider = self.policy.with_arms(state, arms)
        bounds = {"floors": self.floors, "caps": self.caps}
        for what, own in bounds.items():
            if np.ndim(own):
                free = np.full(len(arms) - own.size, _FREE[what])
                bounds[what] = np.append(own, free)
        return replace(self, policy=policy, **bounds), wider

    def odds(
        self,
        state: State,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Odds:
        """Return the policy's propensities, changed to lie within the bounds. Advice
        and weights are not changed; the bonus is computed from the bounded
        propensities."""
        offer = context if isinstance(context, AnyOffer) else None
        if self.policy.weighs_ballots:
            advice = self.policy.advice(state, context, eligible)
            return self.weigh(state, advice, eligible=eligible, step=step, offer=offer)
        odds = self.policy.odds(state, context, eligible=eligible, step=step)
        return self._project(odds, eligible, offer)

    def cast(
        self,
        advice: tuple[Array, Array],
        *,
        eligible: Bools | None = None,
        offer: AnyOffer | None = None,
    ) -> tuple[Array, Array]:
        """Return the advice with ballots within the bounds."""
        if not self.policy.weighs_ballots:
            return advice
        limits = self._limits(advice[0].shape[-1], eligible, offer)
        return self._cast(advice, limits)

    def weigh(
        self,
        state: State,
        advice: tuple[Array, Array],
        *,
        eligible: Bools | None = None,
        step: Step = None,
        offer: AnyOffer | None = None,
        uniform: Array | None = None,
    ) -> Odds:
        """Return the propensities for given advice, within the bounds."""
        if not self.policy.weighs_ballots:
            odds = self.policy.weigh(state, advice, eligible=eligible, step=step)
            return self._project(odds, eligible, offer)
        limits = self._limits(advice[0].shape[-1], eligible, offer)
        uniform = limits.uniform
        advice = self._cast(advice, limits)
        odds = self.policy.weigh(
            state, advice, eligible=eligible, step=step, uniform=uniform
        )
        propensities = limits.clip(odds.propensities)
        return self.complete(odds._replace(propensities=propensities))

    def explain(
        self,
        state: State,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Explanation | ArmExplanation:
        """Explain the bounded propensities. The explanation contains bounded ballots
        and exploration if the policy has ballots."""
        if not self.policy.weighs_ballots:
            return super().explain(state, context, eligible=eligible, step=step)
        offer = context if isinstance(context, AnyOffer) else None
        advice = self.policy.advice(state, context, eligible)
        limits = self._limits(advice[0].shape[-1], eligible, offer)
        explanation = self.policy.explain_advice(
            state,
            self._cast(advice, limits),
            context,
            eligible=eligible,
            step=step,
            uniform=limits.uniform,
        )
        propensities = limits.clip(explanation.propensities)
        return explanation._replace(propensities=propensities)

    def _cast(self, advice: tuple[Array, Array], limits: Limits) -> tuple[Array, Array]:
        predictions, ballots = advice
        feasible = feasible_ballots(ballots, predictions, limits)
        return predictions, feasible

    def _project(
        self, odds: Odds, eligible: Bools | None, offer: AnyOffer | None
    ) -> Odds:
        """Return the closest feasible odds."""
        propensities = odds.propensities
        limits = self._limits(propensities.shape[-1], eligible, offer)
        if self.cap_groups:
            propensities = _project_rows(propensities, limits)
        else:
            propensities = project(propensities, limits.low, limits.high, eligible)
        return self.complete(odds._replace(propensities=propensities))

    def _limits(
        self, n_arms: int, eligible: Bools | None, offer: AnyOffer | None
    ) -> Limits:
        """Return the bounds of a call; raise if no distribution satisfies them."""
        if offer is None:
            limits = self._fixed_limits(n_arms)
            if eligible is None:
                return limits
            return limits.restrict(eligible)
        shape = (len(offer.offers), len(offer.arms))
        masks = np.broadcast_to(True if eligible is None else eligible, shape)
        each = list[Limits]()
        for one, mask in zip(offer.offers, masks, strict=True):
            each.append(self._offer_limits(one, mask))
        if not offer.lead:
            return each[0]
        low = np.stack([one.low for one in each])
        high = np.stack([one.high for one in each])
        members = np.stack([one.members for one in each])
        at_most = np.stack([one.at_most for one in each])
        return Limits(
            low,
            high,
            members,
            at_most,
            np.stack([one.eligible for one in each]),
            each[0].labels,
        )

    @cached_property
    def _known_limits(self) -> dict[int, Limits]:
        """Return the limits with all arms eligible, by number of arms."""
        return {}

    def _fixed_limits(self, n_arms: int) -> Limits:
        """Return the bounds of fixed arms, with all arms eligible."""
        if n_arms in self._known_limits:
            return self._known_limits[n_arms]
        if isinstance(self.floors, dict) or isinstance(self.caps, dict):
            raise InvalidInput(
                "floors and caps by name need arms with names: those of experts, or "
                "of the call"
            )
        for what, bounds in (("floors", self.floors), ("caps", self.caps)):
            if bounds.ndim and bounds.size != n_arms:
                raise InvalidInput(
                    f"{what} must be one per arm; got {bounds.size} for {n_arms} arms"
                )
        members = members_of_arms(self.cap_groups, self.arms, n_arms)
        everyone = np.ones(n_arms, dtype=np.bool_)
        limits = self._limits_of(self.floors, self.caps, members, everyone)
        self._known_limits[n_arms] = limits
        return limits

    def _offer_limits(self, offer: Offer, eligible: Bools) -> Limits:
        """Return the bounds of arms that are passed in the call."""
        members = members_of_offer(self.cap_groups, offer)
        low, high = _of_offer(offer, self.floors, self.caps, eligible)
        if isinstance(self.floors, dict):
            return self._limits_of(low, high, members, eligible)
        for group, mine in zip(self.cap_groups, members & eligible, strict=True):
            if (mine == eligible).all():
                continue  # the cap on all arms has no effect
            share = group.at_most / max(int(mine.sum()), 1)
            low = np.where(mine, np.minimum(low, share), low)
        return self._limits_of(low, high, members, eligible)

    def _limits_of(
        self, low: Array, high: Array, members: Bools, eligible: Bools
    ) -> Limits:
        at_most = np.array([group.at_most for group in self.cap_groups])
        labels = [str(group) for group in self.cap_groups]
        limits = Limits(low, high, members, at_most, eligible, labels)
        return limits.restrict(eligible)


def reads_features(policy: Policy) -> bool:
    """Return whether the policy needs features of the offered arms to know their
    caps."""
    if not isinstance(policy, Bounded):
        return False
    return any(group.feature is not None for group in policy.cap_groups)


def _project_rows(propensities: Array, limits: Limits) -> Array:
    """Return the closest propensities within the bounds and group caps (…, K), row by
    row."""
    _ = limits.uniform  # raises if no propensities can satisfy the bounds
    shape = propensities.shape
    *lead, n_arms = shape
    n_groups = limits.at_most.shape[-1]
    low = np.broadcast_to(limits.low, shape)
    high = np.broadcast_to(limits.high, shape)
    members = np.broadcast_to(limits.members, (*lead, n_groups, n_arms))
    at_most = np.broadcast_to(limits.at_most, (*lead, n_groups))
    odds = np.empty(shape)
    for row in np.ndindex(*lead):
        odds[row] = project_groups(
            propensities[row], low[row], high[row], members[row], at_most[row]
        )
    return limits.clip(odds)


def _checked(what: str, bounds: object, arms: Sequence[str] | None) -> Any:
    """Return bounds in [0, 1]: an array of one number, or of one per arm; a dict by
    name if no arms are known."""
    values = finite(
        what, [0.0, *bounds.values()] if isinstance(bounds, Mapping) else bounds
    )
    if values.ndim > 1 or (values < 0).any() or (values > 1).any():
        raise InvalidInput(
            f"{what} must be one number in [0, 1], one per arm, or a dict by name; got "
            f"{bounds!r}"
        )
    if not isinstance(bounds, Mapping):
        return values
    if arms is None:
        return {str(name): float(bound) for name, bound in bounds.items()}
    for name in bounds:
        if name not in arms:
            raise InvalidInput(
                f"{what} must name arms of {list(arms)}; got {name!r}"
                f"{hint(str(name), arms)}"
            )
    return np.array([bounds.get(name, _FREE[what]) for name in arms], dtype=np.float64)


def _of_offer(
    offer: Offer, floors: Any, caps: Any, eligible: Bools
) -> tuple[Array, Array]:
    """Return floors and caps (K,) of the offered arms; raise if no propensities can
    satisfy them."""
    n_eligible = int(eligible.sum())
    even = 1 / max(n_eligible, 1)
    low = _of_arms(offer, "floors", floors)
    high = _of_arms(offer, "caps", caps)
    if not isinstance(floors, dict):
        low = np.minimum(low, even)
    if not isinstance(caps, dict):
        high = np.maximum(high, even)
    if n_eligible == 1:
        return low, high
    least = low[eligible]
    most = high[eligible]
    crossed = (least > most).any()
    if crossed or least.sum() > 1 + 1e-12 or most.sum() < 1 - 1e-12:
        is_bound = eligible & ((low > 0) | (high < 1))
        bound = [offer.arms[place] for place in np.flatnonzero(is_bound)]
        raise Infeasible(
            "floors and caps must allow propensities that sum to 1; the bounds of "
            f"arms {bound[:8]} do not"
        )
    return low, high


def _of_arms(offer: Offer, what: str, bounds: Any) -> Array:
    if isinstance(bounds, dict):
        return np.array([bounds.get(name, _FREE[what]) for name in offer.arms])
    if bounds.ndim:
        raise InvalidInput(
            f"{what} must be one number, or a dict by name, if arms are passed in the "
            "call"
        )
    return np.full(len(offer.arms), float(bounds))


# Floor and cap of arms that the dict does not contain.
_FREE = {"floors": 0.0, "caps": 1.0}
