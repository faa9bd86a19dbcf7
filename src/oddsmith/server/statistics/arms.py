"""Counts by arm: what was drawn and what it earned, for ever."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from oddsmith.server.fold.accounts import Count

__all__ = ["ArmCounts", "ArmSum"]

_NAMED = 10_000  # arms that are counted by name: those that come with calls have no end


class ArmSum(NamedTuple):
    """How often an arm was drawn, how many of these decisions have counted, and their
    rewards in sum, from [0, 1] each.

    `since` is the position from which on its decisions are counted here.
    """

    since: int = 0
    decided: int = 0
    rewarded: int = 0
    total: float = 0.0

    def plus(self, decided: int, rewarded: int, total: float) -> "ArmSum":
        """This sum with so many more."""
        return ArmSum(
            self.since,
            self.decided + decided,
            self.rewarded + rewarded,
            self.total + total,
        )


@dataclass(slots=True)
class ArmCounts:
    """Sums by arm. With more than 10,000 arms the half of them that was drawn least, of
    equals the older ones, is counted as `others`; so is all that comes later of the
    decisions that were made before.

    >>> counts = ArmCounts()
    >>> counts.draw(7, "news")
    >>> counts.by_name
    {'news': ArmSum(since=7, decided=1, rewarded=0, total=0.0)}
    """

    by_name: dict[str, ArmSum] = field(default_factory=dict)
    others: ArmSum = field(default_factory=ArmSum)

    def copy(self) -> "ArmCounts":
        """The same counts, to go on from."""
        return ArmCounts(dict(self.by_name), self.others)

    def draw(self, position: int, arm: str) -> None:
        """An arm was drawn at this position."""
        before = self.by_name.get(arm)
        if before is not None:
            self.by_name[arm] = before.plus(1, 0, 0.0)
            return
        self.by_name[arm] = ArmSum(position, 1)
        if len(self.by_name) > _NAMED:
            self._forget_rare()

    def count(self, count: Count, arm: str) -> None:
        """A decision that drew this arm counts."""
        more = (
            (1, count.value)
            if count.before is None
            else (0, count.value - count.before)
        )
        known = self.by_name.get(arm)
        if known is None or count.made < known.since:
            self.others = self.others.plus(0, *more)
        else:
            self.by_name[arm] = known.plus(0, *more)

    def to_json(self) -> dict[str, Any]:
        """What a snapshot holds of them."""
        return {"by_name": self.by_name, "others": self.others}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "ArmCounts":
        """The counts that `to_json` gave."""
        by_name = {arm: ArmSum(*values) for arm, values in given["by_name"].items()}
        return cls(by_name, ArmSum(*given["others"]))

    def _forget_rare(self) -> None:
        """Count the rarer half of the arms together."""
        known = self.by_name
        for arm in sorted(
            known, key=lambda arm: (known[arm].decided, known[arm].since)
        )[: _NAMED // 2]:
            self.others = self.others.plus(*known.pop(arm)[1:])
