"""Bucket: sums over the decisions of a time interval, in total and by arm."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from oddsmith.core.decision import LEAST_PROPENSITY
from oddsmith.server.statistics.arm_names import FRESH, NamedArms

__all__ = ["ArmDraw", "ArmRow", "Bucket"]


class ArmDraw(NamedTuple):
    """The position of a decision, its arm, and the propensity of that arm."""

    position: int
    arm: str
    odds: float


@dataclass(slots=True)
class ArmRow:
    """Sums over the decisions of one arm that were made at position `since` or later.

    `odds` sums its propensities over all decisions, whether or not they drew the arm.
    `weighted` sums reward / propensity, and `squares` sums (reward / propensity)².
    """

    since: int = 0
    drawn: float = 0.0
    odds: float = 0.0
    rewarded: float = 0.0
    total: float = 0.0
    weighted: float = 0.0
    squares: float = 0.0

    def sums(self) -> tuple[float, ...]:
        """Return all fields but `since`, in order."""
        return (
            self.drawn,
            self.odds,
            self.rewarded,
            self.total,
            self.weighted,
            self.squares,
        )

    def copy(self) -> "ArmRow":
        """Return a copy that can be changed without changing this one."""
        return ArmRow(self.since, *self.sums())

    def add(self, other: "ArmRow") -> None:
        """Add the sums of another row."""
        self.since = max(self.since, other.since)
        self.drawn += other.drawn
        self.odds += other.odds
        self.rewarded += other.rewarded
        self.total += other.total
        self.weighted += other.weighted
        self.squares += other.squares


@dataclass(slots=True)
class Bucket:
    """The number of decisions shown, of decisions that count, of decisions that
    count by default, and the sum of rewards.

    `looks` is the number of the selection at which its arms were named; `last` is the
    position of its last decision. `others` contains the sums of arms without a row.
    """

    shown: float = 0.0
    counted: float = 0.0
    defaults: float = 0.0
    total: float = 0.0
    arms: dict[str, ArmRow] = field(default_factory=dict)
    others: ArmRow | None = None
    looks: int = -1
    last: int = 0

    def copy(self) -> "Bucket":
        """Return a copy that can be changed without changing this one."""
        copy = Bucket(self.shown, self.counted, self.defaults, self.total)
        copy.arms = {arm: row.copy() for arm, row in self.arms.items()}
        if self.others is not None:
            copy.others = self.others.copy()
        copy.looks = self.looks
        copy.last = self.last
        return copy

    def show(
        self, draw: ArmDraw, odds: Mapping[str, float], named: NamedArms, position: int
    ) -> None:
        """Add a decision that was shown at this position, with the propensities of all
        arms."""
        if self.looks != named.looks:
            self._name(named, position)
        made = draw.position
        self.shown += 1
        self.last = max(self.last, made)
        self._row(draw).drawn += 1
        rows = self.arms
        rest = 0.0
        for name, p in odds.items():
            row = rows.get(name)
            if row is not None and made >= row.since:
                row.odds += p
            else:
                rest += p
        if rest:
            self._rest().odds += rest

    def count(
        self, draw: ArmDraw, reward: float, before: float | None, defaults: int
    ) -> None:
        """Add the reward of a decision; `before` is the reward that it replaces.

        `defaults` is 1 if the decision counts by its default from now on, and -1 if it
        no longer does.
        """
        new = before is None
        gone = before or 0.0
        row = self._row(draw)
        self.counted += new
        self.defaults += defaults
        self.total += reward - gone
        row.rewarded += new
        row.total += reward - gone
        if draw.odds > 0:
            # old stores may contain smaller values
            least = max(draw.odds, LEAST_PROPENSITY)
            row.weighted += (reward - gone) / least
            row.squares += (reward * reward - gone * gone) / (least * least)

    def add(self, other: "Bucket", named: NamedArms) -> None:
        """Add the sums of another bucket.

        A reward does not tell which bucket contains its decision. So if an arm has a
        row in only one of the two, later rewards of its decisions are added to
        `others`.
        """
        if not named.are_fixed and self.shown:
            after = max(self.last, other.last) + 1
            for arm in self.arms.keys() ^ other.arms.keys():
                self.arms.setdefault(arm, ArmRow()).since = after
        for arm, row in other.arms.items():
            self.arms.setdefault(arm, ArmRow()).add(row)
        if other.others is not None:
            self._rest().add(other.others)
        self.shown += other.shown
        self.counted += other.counted
        self.defaults += other.defaults
        self.total += other.total
        self.looks = -1
        self.last = max(self.last, other.last)
        if not named.are_fixed:
            most_drawn = sorted(self.arms, key=lambda arm: -self.arms[arm].drawn)
            self._drop(most_drawn[FRESH:])

    def _row(self, draw: ArmDraw) -> ArmRow:
        """Return the row that the sums of this decision belong to."""
        row = self.arms.get(draw.arm)
        if row is None or draw.position < row.since:
            return self._rest()
        return row

    def _rest(self) -> ArmRow:
        if self.others is None:
            self.others = ArmRow()
        return self.others

    def _name(self, named: NamedArms, position: int) -> None:
        """Add rows for newly named arms, and remove those of arms that are no longer
        named."""
        self.looks = named.looks
        new = [arm for arm in named.since if arm not in self.arms]
        since = 0
        if not named.are_fixed:
            old = [arm for arm in self.arms if arm not in named.since]
            old.sort(key=lambda arm: self.arms[arm].drawn)
            excess = len(self.arms) + len(new) - FRESH
            self._drop(old[: max(0, excess)])
            if self.shown:
                since = position
        for arm in new:
            self.arms[arm] = ArmRow(since)

    def _drop(self, arms: list[str]) -> None:
        """Move the sums of these arms to `others`."""
        for arm in arms:
            row = self.arms.pop(arm)
            row.since = 0
            self._rest().add(row)
