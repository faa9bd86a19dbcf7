"""CapGroup: a cap on the total propensity of a group of arms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from oddsmith.core.arrays import Bools, number
from oddsmith.core.errors import InvalidInput
from oddsmith.core.names import hint
from oddsmith.core.offer import Offer
from oddsmith.policies.parts.feasible import refuse_overlaps

__all__ = ["CapGroup", "check_groups", "members_of_arms", "members_of_offer"]


@dataclass(frozen=True)
class CapGroup:
    """Arms whose propensities sum to at most `at_most`.

    The arms are either listed by name (by number if arms have no names), or they are
    all offered arms whose `feature` has this `value`.

    >>> str(CapGroup(0.3, arms=("ad-1", "ad-2")))
    "the group of 'ad-1', 'ad-2'"
    >>> str(CapGroup(0.3, feature="sponsored", value=True))
    'the group sponsored = True'
    """

    at_most: float
    arms: Sequence[str] | Sequence[int] = ()
    feature: str | None = None
    value: Any = None

    def __post_init__(self) -> None:
        at_most = number("at_most", self.at_most, low=0, high=1)
        object.__setattr__(self, "at_most", at_most)
        if isinstance(self.arms, str) or not isinstance(self.arms, Sequence):
            raise InvalidInput(
                f"arms of a group must be a list of names; got {self.arms!r:.60}"
            )
        arms = tuple(self.arms)
        object.__setattr__(self, "arms", arms)
        if len(set(arms)) < len(arms):
            raise InvalidInput(
                f"arms of a group must be distinct; got {list(arms)!r:.80}"
            )
        by_feature = isinstance(self.feature, str) and self.value is not None
        neither = self.feature is None and self.value is None
        if bool(arms) == by_feature or not (by_feature or neither):
            raise InvalidInput(
                "a group must have arms, or a feature and its value; got arms "
                f"{list(arms)!r:.60}, feature {self.feature!r:.40} and value "
                f"{self.value!r:.40}"
            )

    def __str__(self) -> str:
        if self.feature is not None:
            return f"the group {self.feature} = {self.value!r:.40}"
        names = [f"{arm!r:.40}" for arm in self.arms[:8]]
        more = len(self.arms) - len(names)
        ending = f" and {more} more" if more else ""
        return f"the group of {', '.join(names)}{ending}"


def check_groups(groups: object, arms: Sequence[str] | None) -> tuple[CapGroup, ...]:
    """Return the groups, or raise unless their arms are known and the groups are nested
    or disjoint."""
    checked: tuple[Any, ...] = (None,)
    if isinstance(groups, Sequence):
        checked = tuple(groups)
    if not all(isinstance(group, CapGroup) for group in checked):
        raise InvalidInput(f"cap_groups must be a list of CapGroup; got {groups!r:.60}")
    if arms is not None:
        for group in checked:
            _check_arms(group, arms)
    for one, other in combinations(checked, 2):
        _check_pair(one, other)
    return checked


def _check_arms(group: CapGroup, arms: Sequence[str]) -> None:
    """Raise for a group by feature, or with unknown arms, if the arms are fixed."""
    if group.feature is not None:
        raise _features_needed(group)
    for arm in group.arms:
        if arm not in arms:
            raise InvalidInput(
                f"cap_groups must name arms of {list(arms)[:8]}; got "
                f"{arm!r:.40}{hint(str(arm), arms)}"
            )


def _features_needed(group: CapGroup) -> InvalidInput:
    return InvalidInput(
        f"{group} needs arms that are passed in the call with their features; here "
        "the arms are fixed: list them in arms"
    )


def _check_pair(one: CapGroup, other: CapGroup) -> None:
    if one.feature is not None and one.feature == other.feature:
        if one.value == other.value:
            raise InvalidInput(f"cap_groups must be distinct; got {one} twice")
        return
    shared = [arm for arm in one.arms if arm in other.arms]
    if 0 < len(shared) < min(len(one.arms), len(other.arms)):
        raise InvalidInput(
            f"cap_groups must be nested or disjoint; {one} and {other} share "
            f"{shared[0]!r:.40}, and neither contains the other"
        )


def members_of_arms(
    groups: Sequence[CapGroup], arms: Sequence[str] | None, n_arms: int
) -> Bools:
    """Return which of the fixed arms (G, K) belong to which group."""
    members = np.zeros((len(groups), n_arms), dtype=np.bool_)
    for row, group in zip(members, groups, strict=True):
        if group.feature is not None:
            raise _features_needed(group)
        for arm in group.arms:
            place = arm if arms is None else list(arms).index(str(arm))
            if not isinstance(place, int) or not 0 <= place < n_arms:
                raise InvalidInput(
                    "cap_groups by name need arms with names: those of experts, or "
                    f"of the call; got {arm!r:.40} for {n_arms} arms without names"
                )
            row[place] = True
    return members


def members_of_offer(groups: Sequence[CapGroup], offer: Offer) -> Bools:
    """Return which arms of an offer (G, K) belong to which group."""
    members = np.zeros((len(groups), len(offer.arms)), dtype=np.bool_)
    for row, group in zip(members, groups, strict=True):
        for place, arm in enumerate(offer.arms):
            row[place] = _belongs(group, offer, arm)
    refuse_overlaps(members, [str(group) for group in groups])
    return members


def _belongs(group: CapGroup, offer: Offer, arm: str) -> bool:
    if group.feature is None:
        return arm in group.arms
    known = offer.features_of(arm)
    if known is None:
        return False
    if not isinstance(known, Mapping):
        raise InvalidInput(
            f"{group} needs features with names; arm {arm!r:.40} has "
            f"{type(known).__name__}"
        )
    return bool(known.get(group.feature) == group.value)
