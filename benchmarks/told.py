"""What a part of the benchmarks tells: its section of RESULTS.md, and comparisons for
the front page."""

from dataclasses import dataclass
from importlib.metadata import version
from math import inf
from typing import Literal, NamedTuple

NEAR = 0.05
"""Ratios as near to 1 as this are told as level: times of one run differ by as much."""

Better = Literal["lower", "higher", "same"]
Verdict = Literal["won", "level", "lost", "the same", "DIFFERENT"]


@dataclass(frozen=True)
class Compared:
    """One measure of ours beside another's: with `same`, `ours` is the difference and
    `theirs` the largest allowed."""

    what: str
    peer: str
    ours: float
    theirs: float
    unit: str
    better: Better = "lower"

    def __post_init__(self) -> None:
        if not (0 <= self.ours < inf and 0 <= self.theirs < inf):
            raise ValueError(
                f"{self.what}: ours and theirs must be at least 0; got {self.ours!r} "
                f"and {self.theirs!r}"
            )

    @property
    def ratio(self) -> float:
        """Ours over theirs; infinity where theirs is 0 and ours is not.

        >>> Compared("a step", "a peer", 3.0, 4.0, "µs").ratio
        0.75
        """
        return self.ours / self.theirs if self.theirs else inf if self.ours else 1.0

    @property
    def verdict(self) -> Verdict:
        """Who is ahead, by more than 5 %.

        >>> [
        ...     Compared("a step", "a peer", x, 100.0, "µs").verdict
        ...     for x in (94, 96, 104, 106)
        ... ]
        ['won', 'level', 'level', 'lost']
        >>> Compared("rewards", "a peer", 94.0, 100.0, "", "higher").verdict
        'lost'
        """
        if self.better == "same":
            return "the same" if self.ours <= self.theirs else "DIFFERENT"
        if abs(self.ratio - 1) <= NEAR:
            return "level"
        return "won" if (self.ratio < 1) == (self.better == "lower") else "lost"


class Told(NamedTuple):
    """A section in Markdown that begins with its heading, and comparisons."""

    text: str
    compared: tuple[Compared, ...] = ()


def told(found: "str | Told") -> Told:
    """The same for parts that have nobody beside them, and give text alone."""
    return Told(found) if isinstance(found, str) else found


def release(package: str, name: str | None = None) -> str:
    """A package with its version, under the name its users know.

    >>> release("numpy", "NumPy").rpartition(".")[0].startswith("NumPy 2")
    True
    """
    return f"{name or package} {version(package)}"
