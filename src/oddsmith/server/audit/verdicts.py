"""What a proof says: for each level what followed, what did not, and what could not be
checked."""

from collections import Counter
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple, TypeAlias

__all__ = ["CheckResult", "Differs", "Level", "Miss", "Untested", "VerifyReport"]

_SHOWN = 5  # records named for each level
_ROUNDING = 1e-9


class Differs(NamedTuple):
    """What a record says, and what follows; for numbers, how far apart they are."""

    recorded: str
    follows: str
    by: float = inf


class Untested(NamedTuple):
    """Why a record could not be checked; `excused` where no whole store would allow
    it."""

    why: str
    excused: bool = False


CheckResult: TypeAlias = Differs | Untested | None
"""What a check says of a record; None: it follows."""


class Miss(NamedTuple):
    """A record that does not follow."""

    level: str
    id: str
    position: int
    recorded: str
    follows: str

    def __str__(self) -> str:
        name = f" {self.id!r}" if self.id else ""
        return (
            f"{self.level}, position {self.position:,}{name}: recorded "
            f"{self.recorded}; {self.follows} follows"
        )


@dataclass
class Level:
    """One level of a proof: how many records were checked, and how many of them
    followed.

    `untested` counts, by reason, those that could not be checked, and `lacking` those
    of them that a whole store would have allowed to be checked; `misses` are the first
    that do not follow; `worst` is how far from what follows any of them is (inf where
    it is not a matter of numbers).

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
        """Count what a check says of a record."""
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
            self.misses.append(
                Miss(self.name, id, position, answer.recorded, answer.follows)
            )

    def record(self) -> dict[str, object]:
        """The level as JSON."""
        counts = {
            name: getattr(self, name)
            for name in ("checked", "followed", "lacking", "worst")
        }
        return counts | {
            "untested": dict(self.untested),
            "misses": [miss._asdict() for miss in self.misses],
        }


class VerifyReport(NamedTuple):
    """The levels of a proof over `events` events and `decisions` decisions of an
    experiment."""

    experiment: str
    events: int
    decisions: int
    levels: tuple[Level, ...]

    @property
    def holds(self) -> bool:
        """Whether everything that could be checked follows."""
        return all(level.checked == level.followed for level in self.levels)

    @property
    def complete(self) -> bool:
        """Whether all was checked that a whole store allows to be checked."""
        return not any(level.lacking for level in self.levels)

    @property
    def misses(self) -> tuple[Miss, ...]:
        """The first records of each level that do not follow."""
        return tuple(miss for level in self.levels for miss in level.misses)

    @property
    def rounding(self) -> bool:
        """Whether all that does not follow differs by rounding alone, as from another
        build of the arithmetic."""
        return not self.holds and all(level.worst <= _ROUNDING for level in self.levels)

    def record(self) -> dict[str, object]:
        """The verdict as JSON."""
        names = ("experiment", "holds", "complete", "rounding", "events", "decisions")
        facts = {name: getattr(self, name) for name in names}
        return {
            **facts,
            "levels": {level.name: level.record() for level in self.levels},
        }
