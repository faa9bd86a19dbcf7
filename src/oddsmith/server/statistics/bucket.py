"""Bucket: sums over the decisions of some seconds, and over each arm of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from oddsmith.core.decision import LEAST_PROPENSITY
from oddsmith.server.statistics.arm_names import FRESH, NamedArms

__all__ = ["Bucket", "Draw", "Row"]

Row: TypeAlias = list[float]
"""Since which position, then drawn, odds, rewarded, rewards, weighted rewards, their
squares: sums of one arm."""
Draw: TypeAlias = tuple[int, str, float]
"""Of a decision the position, the drawn arm and its odds."""
_COLUMNS = 7
_ODDS = 2


@dataclass(slots=True)
class Bucket:
    """Sums over decisions: `counts` are how many there are, how many count, by a
    default, and their rewards.

    `looks` says as of when its arms are named, `last` is the last position that one of
    its decisions was made at.
    """

    counts: Row = field(default_factory=lambda: [0.0] * 4)
    arms: dict[str, Row] = field(default_factory=dict)
    others: Row | None = None
    looks: int = -1
    last: int = 0

    def copy(self) -> "Bucket":
        """The same, to be written into."""
        arms, others = {arm: row.copy() for arm, row in self.arms.items()}, self.others
        return Bucket(
            self.counts.copy(),
            arms,
            None if others is None else others.copy(),
            self.looks,
            self.last,
        )

    def show(
        self, draw: Draw, odds: Mapping[str, float], named: NamedArms, position: int
    ) -> None:
        """A decision was shown at this position; `odds` are those of all its arms."""
        made, arm, _ = draw
        if self.looks != named.looks:
            self._name(named, position)
        self.counts[0] += 1
        self.last = max(self.last, made)
        self._row(arm, made)[1] += 1
        rows, rest = self.arms, 0.0
        for name, p in odds.items():
            row = rows.get(name)
            if row is not None and made >= row[0]:
                row[_ODDS] += p
            else:
                rest += p
        if rest:
            self._rest()[_ODDS] += rest

    def count(
        self, draw: Draw, rewards: tuple[float, float | None], defaults: int
    ) -> None:
        """A decision counts: with a reward, and before with another one (None: it did
        not count).

        `defaults` is 1 where it counts by default from now on, -1 where it no longer
        does.
        """
        made, arm, odds = draw
        reward, before = rewards
        new, gone = (1.0, 0.0) if before is None else (0.0, before)
        counts, row = self.counts, self._row(arm, made)
        counts[1] += new
        counts[2] += defaults
        counts[3] += reward - gone
        row[3] += new
        row[4] += reward - gone
        if odds > 0:
            least = max(odds, LEAST_PROPENSITY)  # of old stores
            row[5] += (reward - gone) / least
            row[6] += (reward * reward - gone * gone) / (least * least)

    def add(self, other: "Bucket", named: NamedArms) -> None:
        """Make this the bucket of both.

        A decision does not say in which of them it was made. So the later rewards of an
        arm that is named in one of them alone count as others' from now on.
        """
        if not named.are_fixed and self.counts[0]:
            after = max(self.last, other.last) + 1
            for arm in self.arms.keys() ^ other.arms.keys():
                self.arms.setdefault(arm, [0.0] * _COLUMNS)[0] = after
        for arm, row in other.arms.items():
            _add(self.arms.setdefault(arm, [0.0] * _COLUMNS), row)
        if other.others is not None:
            _add(self._rest(), other.others)
        self.counts = [
            mine + theirs
            for mine, theirs in zip(self.counts, other.counts, strict=True)
        ]
        self.looks, self.last = -1, max(self.last, other.last)
        if not named.are_fixed:
            self._give_up(sorted(self.arms, key=lambda arm: -self.arms[arm][1])[FRESH:])

    def _row(self, arm: str, made: int) -> Row:
        """Where the sums of this arm are, for a decision made at this position."""
        row = self.arms.get(arm)
        return row if row is not None and made >= row[0] else self._rest()

    def _rest(self) -> Row:
        if self.others is None:
            self.others = [0.0] * _COLUMNS
        return self.others

    def _name(self, named: NamedArms, position: int) -> None:
        """Give rows to arms that are named since; those of the least drawn ones make
        room."""
        self.looks = named.looks
        new = [arm for arm in named.since if arm not in self.arms]
        if not named.are_fixed:
            old = sorted(
                (arm for arm in self.arms if arm not in named.since),
                key=lambda arm: self.arms[arm][1],
            )
            self._give_up(old[: max(0, len(self.arms) + len(new) - FRESH)])
        since = position if self.counts[0] and not named.are_fixed else 0
        for arm in new:
            self.arms[arm] = [since, *[0.0] * (_COLUMNS - 1)]

    def _give_up(self, arms: list[str]) -> None:
        for arm in arms:
            _add(self._rest(), [0.0, *self.arms.pop(arm)[1:]])


def _add(row: Row, other: Row) -> None:
    row[:] = [
        max(row[0], other[0]),
        *(mine + theirs for mine, theirs in zip(row[1:], other[1:], strict=True)),
    ]
