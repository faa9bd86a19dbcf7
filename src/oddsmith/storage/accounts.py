"""The account of one decision: from its lines, in order, where in the log it counts, and with which reward."""

from math import fsum
from typing import NamedTuple

from oddsmith.storage.base import Late, Line, Rule

__all__ = ["Account", "Count"]


class Count(NamedTuple):
    """A step of the fold: the decision made at `made` counts at `position` with `value`.

    With `before`, it has counted already, with that value, and turns into this one.
    """

    position: int
    made: int
    value: float
    before: float | None = None


class Account:
    """When and with what a decision counts.

    It is *settled* by the line that completes it: the decision itself, its activation if it was deferred, and a reward
    or default (with the rule "sum": the default, which closes the window). That position never changes again. Its
    *value* is the last correction, else the reward (the sum of the parts, at most 1), else the default.

    A reward that changes the value of a settled decision is late. Where late rewards "rewrite", the decision counts
    with its value where it was settled, as if it had always been that one. Where they count as they "arrive", it counts
    there with the value it had then, and turns into another with each late reward, where that stands. A correction
    always rewrites: the decision counts once, where it was settled, with the corrected value.

    >>> account = Account("first", "arrives")
    >>> account.take(Line(1, "decision", "a", "", None, 0.0, False, 0))
    >>> account.take(Line(2, "default", "a", "", 0.0, 60.0, False, None))
    >>> account.take(Line(9, "reward", "a", "", 1.0, 99.0, False, None))
    >>> account.counts
    (Count(position=2, made=1, value=0.0, before=None), Count(position=9, made=1, value=1.0, before=0.0))
    """

    __slots__ = ("_turns", "correction", "default", "deferred", "late", "made", "parts", "rule", "settled", "shown")

    def __init__(self, rule: Rule, late: Late) -> None:
        self.rule, self.late = rule, late
        self.made: int = 0
        self.deferred = self.shown = False
        self.parts: tuple[float, ...] = ()
        self.default: float | None = None
        self.correction: float | None = None
        self.settled: int = 0
        self._turns: tuple[tuple[int, float], ...] = ()  # where the value became what, but for corrections

    def take(self, line: Line) -> None:
        """Take the next line."""
        if line.kind == "decision":
            self.made, self.deferred = line.position, bool(line.deferred)
        elif line.kind == "activation":
            self.shown = True
        elif line.kind == "reward" and line.value is not None:
            self.parts = (*self.parts, line.value)
        elif line.kind == "default":
            self.default = line.value
        elif line.kind == "correction":
            self.correction = line.value
        if not self.settled and self._complete():
            self.settled = line.position
        if self.settled and (not self._turns or self._turns[-1][1] != self._rewarded):
            self._turns = (*self._turns, (line.position, self._rewarded))

    def _complete(self) -> bool:
        has_value = self.default is not None or (self.rule == "first" and bool(self.parts))
        return bool(self.made) and has_value and (self.shown or not self.deferred)

    @property
    def counts(self) -> tuple[Count, ...]:
        """Where and with what the decision counts, as of the lines taken; nowhere before it is settled."""
        if not self.settled:
            return ()
        if self.late == "rewrites" or self.correction is not None or len(self._turns) == 1:
            return (Count(self.settled, self.made, self.value),)
        befores = (None, *(value for _, value in self._turns))
        return tuple(
            Count(position, self.made, value, before)
            for (position, value), before in zip(self._turns, befores, strict=False)
        )

    @property
    def value(self) -> float:
        """The reward as of the lines taken; NaN while there is none."""
        return self._rewarded if self.correction is None else self.correction

    @property
    def _rewarded(self) -> float:
        if self.parts:
            return self.parts[0] if self.rule == "first" else min(1.0, fsum(self.parts))
        return float("nan") if self.default is None else self.default
