"""Results of `verify`. At each level a recorded value can follow from the other
records, differ, or be untested."""

from collections import Counter
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple, TypeAlias

__all__ = ["CheckResult", "Differs", "Level", "Miss", "Untested", "VerifyReport"]

_SHOWN = 5  # maximum number of differing records that are listed per level
_ROUNDING = 1e-9


class Differs(NamedTuple):
    """Result of a check that failed: the recorded value, the value that follows from
    the other records, and the distance of the two if they are numbers."""

    recorded: str
    follows: str
    by: float = inf


class Untested(NamedTuple):
    """Result of a check that was impossible: the reason why a record could not be
    checked.

    `excused` is true if the record could not be checked in a complete store, either.
    """

    why: str
    excused: bool = False


CheckResult: TypeAlias = Differs | Untested | None
"""The result of a check: None if the record follows from the others."""


class Miss(NamedTuple):
    """A record that does not follow from the other records."""

    level: str
    id: str
    position: int
    recorded: str
    follows: str

    def __str__(self) -> str:
        place = f"{self.level}, position {self.position:,}"
        if self.id:
            place = f"{place} {self.id!r}"
        return f"{place}: recorded {self.recorded}; {self.follows} follows"


@dataclass
class Level:
    """The results at one level: the number of checked records, and how many of them
    follow from the other records.

    `untested` counts the records that could not be checked, by reason; `lacking` is how
    many of them could have been checked in a complete store. `misses` contains the
    first records that do not follow. `worst` is the largest distance between a recorded
    number and the number that follows (inf if a record is not a number).

    >>> odds = Level("odds")
    >>> (
    ...     odds.take("a", 1, None),
    ...     odds.take("b", 2, Differs("0.5", "0.6")),
    ...     odds.take("c", 3, Untested("no votes")),
    ... )
    (None, None, None)
    >>> odds.checked, odds.followed, dict(odds.untested)
    (2, 1, {'no votes': 1})
    """

    name: str
    checked: int = 0
    followed: int = 0
    untested: Counter[str] = field(default_factory=Counter)
    lacking: int = 0
    misses: list[Miss] = field(default_factory=list)
    worst: float = 0.0

    def take(self, id: str, position: int, answer: CheckResult) -> None:
        """Count the result of a check."""
        if isinstance(answer, Untested):
            self.untested[answer.why] += 1
            self.lacking += not answer.excused
            return
        self.checked += 1
        if answer is None:
            self.followed += 1
            return
        self.worst = max(self.worst, answer.by)
        if len(self.misses) < _SHOWN:
            miss = Miss(self.name, id, position, answer.recorded, answer.follows)
            self.misses.append(miss)

    def record(self) -> dict[str, object]:
        """Return the level as JSON."""
        return {
            "checked": self.checked,
            "followed": self.followed,
            "lacking": self.lacking,
            "worst": self.worst,
            "untested": dict(self.untested),
            "misses": [miss._asdict() for miss in self.misses],
        }


class VerifyReport(NamedTuple):
    """The result of `verify`: the results by level, and the numbers of events and
    decisions."""

    experiment: str
    events: int
    decisions: int
    levels: tuple[Level, ...]

    @property
    def holds(self) -> bool:
        """Whether all records that could be checked follow from the other records."""
        return all(level.checked == level.followed for level in self.levels)

    @property
    def complete(self) -> bool:
        """Whether all records were checked that can be checked in a complete store."""
        return not any(level.lacking for level in self.levels)

    @property
    def misses(self) -> tuple[Miss, ...]:
        """The first records of each level that do not follow."""
        return tuple(miss for level in self.levels for miss in level.misses)

    @property
    def rounding(self) -> bool:
        """Whether the records differ only by rounding, which another build of the
        arithmetic library may cause."""
        return not self.holds and all(level.worst <= _ROUNDING for level in self.levels)

    def record(self) -> dict[str, object]:
        """Return the report as JSON."""
        return {
            "experiment": self.experiment,
            "holds": self.holds,
            "complete": self.complete,
            "rounding": self.rounding,
            "events": self.events,
            "decisions": self.decisions,
            "levels": {level.name: level.record() for level in self.levels},
        }
