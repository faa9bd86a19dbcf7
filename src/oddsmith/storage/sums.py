"""Sums: what was drawn and what it earned, by arm, folded from the log beside the state."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from oddsmith.decision import Decision
from oddsmith.storage.accounts import Count
from oddsmith.storage.base import Line

__all__ = ["ArmSum", "Sums"]

_NAMED = 10_000  # arms that are counted by name: those that come with calls have no end


class ArmSum(NamedTuple):
    """How often an arm was drawn, how many of these decisions have counted, and their rewards in sum, from [0, 1] each.

    `since` is the position from which on its decisions are counted here.
    """

    since: int = 0
    decided: int = 0
    rewarded: int = 0
    total: float = 0.0

    def plus(self, decided: int, rewarded: int, total: float) -> "ArmSum":
        """This sum with so many more."""
        return ArmSum(self.since, self.decided + decided, self.rewarded + rewarded, self.total + total)


@dataclass(slots=True)
class Sums:
    """Sums by arm, each line taken in its turn, so that they are the same live, on replicas and after restarts.

    With more than 10,000 arms the half of them that was drawn least, of equals the older ones, is counted as `others`;
    so is all that comes later of the decisions that were made before.

    >>> sums = Sums()
    >>> sums.take(Line(7, "decision", "visit-1", "", None, 0.0, False, 0, arm="news"), None)
    >>> sums.arms
    {'news': ArmSum(since=7, decided=1, rewarded=0, total=0.0)}
    """

    arms: dict[str, ArmSum] = field(default_factory=dict)
    others: ArmSum = field(default_factory=ArmSum)

    def copy(self) -> "Sums":
        """The same sums, to go on from."""
        return Sums(dict(self.arms), self.others)

    def take(self, item: Count | Line, decision: Decision | None) -> None:
        """Take the next step of a fold; `decision` is the one that counts."""
        if isinstance(item, Line):
            if item.kind == "decision":
                self._draw(item.position, str(item.arm))
            return
        more = (1, item.value) if item.before is None else (0, item.value - item.before)
        arm = "" if decision is None else str(decision.arm)
        known = self.arms.get(arm)
        if known is None or item.made < known.since:
            self.others = self.others.plus(0, *more)
        else:
            self.arms[arm] = known.plus(0, *more)

    def _draw(self, position: int, arm: str) -> None:
        before = self.arms.get(arm)
        if before is not None:
            self.arms[arm] = before.plus(1, 0, 0.0)
            return
        self.arms[arm] = ArmSum(position, 1)
        if len(self.arms) > _NAMED:
            self._forget_rare()

    def to_json(self) -> dict[str, Any]:
        """What a snapshot holds of them."""
        return {"arms": self.arms, "others": self.others}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "Sums":
        """The sums that `to_json` gave."""
        return cls({arm: ArmSum(*values) for arm, values in given["arms"].items()}, ArmSum(*given["others"]))

    def _forget_rare(self) -> None:
        """Count the rarer half of the arms together."""
        rare = sorted(self.arms, key=lambda arm: (self.arms[arm].decided, self.arms[arm].since))[: _NAMED // 2]
        for arm in rare:
            self.others = self.others.plus(*self.arms.pop(arm)[1:])
