"""NamedArms: which arms have sums of their own, where not all of them can."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["FIXED", "FRESH", "NamedArms"]

FIXED = 50
"""So many arms of an experiment are all named; of more, and of arms that come with
calls, `FRESH` are."""
FRESH = 20
"""Arms that are named because they are drawn most."""
# draws from one look to the next: at first, and after some doublings
_FIRST, _LAST = 10, 100
# looks from one halving of what was counted to the next, after the first ones
_HALVES = 10


@dataclass(slots=True)
class NamedArms:
    """The arms that are named, and the position of the first decision from which on
    they are.

    Of few fixed arms all, from the start. Else the twenty that were drawn most lately:
    looks are taken after 10, 20, 40, 80 and then 100 more draws, and what was counted
    before counts half after each of the first looks, then after every tenth. A look is
    taken at a line of the log, so all replicas name the same arms; it knows no later
    draw, so an arm is not named for being lucky.

    >>> named = NamedArms(None)
    >>> for position in range(1, 11):
    ...     named.draw("ab"[position % 3 == 0], position)
    >>> named.since
    {'a': 11, 'b': 11}
    """

    arms: tuple[str, ...] | None
    since: dict[str, int] = field(default_factory=dict)
    draws: dict[str, int] = field(default_factory=dict)
    left: int = _FIRST
    length: int = _FIRST
    looks: int = 0

    def __post_init__(self) -> None:
        if self.are_fixed and not self.since:
            self.since = dict.fromkeys(self.arms or (), 0)

    @property
    def are_fixed(self) -> bool:
        """Whether all arms are named."""
        return self.arms is not None and len(self.arms) <= FIXED

    def copy(self) -> "NamedArms":
        """The same, to go on from."""
        return NamedArms(
            self.arms, self.since, dict(self.draws), self.left, self.length, self.looks
        )

    def become(self, arms: tuple[str, ...]) -> None:
        """The experiment has these arms from now on."""
        self.arms, self.looks = arms, self.looks + 1
        if self.are_fixed:
            self.since = dict.fromkeys(arms, 0)

    def draw(self, arm: str, position: int) -> None:
        """An arm was drawn, at this position; that may be time for a look."""
        if self.are_fixed:
            return
        self.draws[arm] = self.draws.get(arm, 0) + 1
        self.left -= 1
        if self.left:
            return
        is_early = self.length < _LAST
        self.left = self.length = min(2 * self.length, _LAST)
        self.looks += 1
        # of equals those first drawn
        top = sorted(self.draws, key=lambda one: -self.draws[one])[:FRESH]
        self.since = {one: self.since.get(one, position + 1) for one in top}
        if is_early or self.looks % _HALVES == 0:
            self.draws = {
                one: times // 2 for one, times in self.draws.items() if times > 1
            }

    def to_json(self) -> dict[str, Any]:
        """What a snapshot holds of it."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "NamedArms":
        """What `to_json` gave."""
        arms = given["arms"]
        return cls(**dict(given) | {"arms": None if arms is None else tuple(arms)})
