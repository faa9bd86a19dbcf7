"""Draws and rewards by arm since the start of the experiment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from oddsmith.server.fold.accounts import Count

__all__ = ["ArmCounts", "ArmSum"]

_NAMED = 10_000  # arms with separate counts; limited because calls can offer any arms


class ArmSum(NamedTuple):
    """Decisions that drew an arm, those with a reward, and the sum of rewards in
    [0, 1].

    `since` is the position of the first decision in these sums.
    """

    since: int = 0
    decided: int = 0
    rewarded: int = 0
    total: float = 0.0

    def plus(self, decided: int, rewarded: int, total: float) -> "ArmSum":
        """Return the sum of both."""
        decided += self.decided
        rewarded += self.rewarded
        return ArmSum(self.since, decided, rewarded, self.total + total)


@dataclass(slots=True)
class ArmCounts:
    """Sums by arm.

    When there are more than 10,000 arms, the half with fewer draws (among equals, the
    older arms) moves to `others`. Later rewards of their earlier decisions are also
    added there.

    >>> counts = ArmCounts()
    >>> counts.draw(7, "news")
    >>> counts.by_name
    {'news': ArmSum(since=7, decided=1, rewarded=0, total=0.0)}
    """

    by_name: dict[str, ArmSum] = field(default_factory=dict)
    others: ArmSum = field(default_factory=ArmSum)

    def copy(self) -> "ArmCounts":
        """Return a copy that can be changed without changing this one."""
        return ArmCounts(dict(self.by_name), self.others)

    def draw(self, position: int, arm: str) -> None:
        """Count a draw of an arm at this position."""
        before = self.by_name.get(arm)
        if before is not None:
            self.by_name[arm] = before.plus(1, 0, 0.0)
            return
        self.by_name[arm] = ArmSum(position, 1)
        if len(self.by_name) > _NAMED:
            self._forget_rare()

    def count(self, count: Count, arm: str) -> None:
        """Count the reward of a decision that drew this arm."""
        rewarded = int(count.before is None)
        gain = count.value - (count.before or 0.0)
        known = self.by_name.get(arm)
        if known is None or count.made < known.since:
            self.others = self.others.plus(0, rewarded, gain)
        else:
            self.by_name[arm] = known.plus(0, rewarded, gain)

    def to_json(self) -> dict[str, Any]:
        """Return the counts as a snapshot contains them."""
        return {"by_name": self.by_name, "others": self.others}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "ArmCounts":
        """Return the counts that `to_json` wrote."""
        counts = cls(others=ArmSum(*given["others"]))
        for arm, values in given["by_name"].items():
            counts.by_name[arm] = ArmSum(*values)
        return counts

    def _forget_rare(self) -> None:
        """Move the half of the arms with fewer draws to `others`."""
        known = self.by_name
        rarest = sorted(known, key=lambda arm: (known[arm].decided, known[arm].since))
        for arm in rarest[: _NAMED // 2]:
            rare = known.pop(arm)
            self.others = self.others.plus(rare.decided, rare.rewarded, rare.total)
