"""Choose the arms that have their own statistics, and count draws and rewards by arm
since the start of the experiment."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from oddsmith.server.fold.accounts import Count

__all__ = ["ArmCounts", "ArmSum", "FIXED", "FRESH", "NamedArms"]

FIXED = 50
"""If an experiment has at most this number of arms, all of them are named."""
FRESH = 20
"""Number of arms that are named if an experiment has more than `FIXED` arms, or if
calls pass their arms."""
_FIRST = 10  # draws before the first selection; doubles up to `_LAST`
_LAST = 100
# after the first selections, the counts are halved at every tenth selection
_HALVES = 10


@dataclass(slots=True)
class NamedArms:
    """The arms with statistics of their own (named arms), each with the position of the
    first decision in these statistics.

    If an experiment has at most 50 arms, all of them are named from the start.
    Otherwise the 20 arms with the most recent draws are named. They are selected again
    after 10, 20, 40, 80 and then every 100 draws. After each of the first selections,
    and then after every tenth one, the counts of earlier draws are halved. Selections
    happen at lines of the log, so all replicas name the same arms. A selection uses
    earlier draws only, so luck in later draws does not select an arm.

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
        """Return a copy that can be changed without changing this one."""
        return replace(self, draws=dict(self.draws))

    def become(self, arms: tuple[str, ...]) -> None:
        """Replace the arms of the experiment."""
        self.arms = arms
        self.looks += 1
        if self.are_fixed:
            self.since = dict.fromkeys(arms, 0)

    def draw(self, arm: str, position: int) -> None:
        """Count a draw of an arm at this position; select the named arms again if it is
        time."""
        if self.are_fixed:
            return
        self.draws[arm] = self.draws.get(arm, 0) + 1
        self.left -= 1
        if self.left:
            return
        is_early = self.length < _LAST
        self.left = self.length = min(2 * self.length, _LAST)
        self.looks += 1
        # sorted() is stable: arms with equal counts stay in the order of their first
        # draws
        top = sorted(self.draws, key=lambda one: -self.draws[one])[:FRESH]
        self.since = {one: self.since.get(one, position + 1) for one in top}
        if is_early or self.looks % _HALVES == 0:
            halves = {one: times // 2 for one, times in self.draws.items()}
            self.draws = {one: times for one, times in halves.items() if times}

    def to_json(self) -> dict[str, Any]:
        """Return the arms as a snapshot contains them."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "NamedArms":
        """Return the arms that `to_json` wrote."""
        fields = dict(given)
        if fields["arms"] is not None:
            fields["arms"] = tuple(fields["arms"])
        return cls(**fields)


_NAMED = 10_000  # arms with separate counts; limited because calls can offer any arms


class ArmSum(NamedTuple):
    """Counts of one arm: the decisions that drew it, how many of them have a reward,
    and the sum of the rewards in [0, 1].

    `since` is the position of the first decision in these sums.
    """

    since: int = 0
    decided: int = 0
    rewarded: int = 0
    total: float = 0.0

    def plus(self, decided: int, rewarded: int, total: float) -> "ArmSum":
        """Return the counts with these numbers added."""
        decided += self.decided
        rewarded += self.rewarded
        return ArmSum(self.since, decided, rewarded, self.total + total)


@dataclass(slots=True)
class ArmCounts:
    """Counts of decisions and rewards by arm.

    When there are more than 10,000 arms, the counts of the half with fewer draws are
    added to `others`; of arms with equal draws, the older ones move first. Later
    rewards of the moved decisions are also added to `others`.

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
