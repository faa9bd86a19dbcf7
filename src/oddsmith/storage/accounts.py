"""The account of one decision: from its lines, in order, where in the log it counts, and with which reward."""

from math import fsum

from oddsmith.storage.base import Line, Rule

__all__ = ["Account"]


class Account:
    """When and with what a decision counts.

    It is *settled* by the line that completes it: the decision itself, its activation if it was deferred, and a reward
    or default (with the rule "sum": the default, which closes the window). That position never changes again. Its
    *value* is the last correction, else the reward (the sum of the parts, at most 1), else the default; a line that
    changes the value of a settled decision rewrites history from that position on.

    >>> account = Account("first")
    >>> account.take(Line(1, "reward", "a", "", 1.0, 0.0, False, None))  # early: parked
    False
    >>> account.take(Line(2, "decision", "a", "", None, 0.0, False, 0))
    True
    >>> account.settled, account.value
    (2, 1.0)
    """

    __slots__ = ("correction", "default", "deferred", "made", "parts", "rule", "settled", "shown")

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.made: int = 0
        self.deferred = self.shown = False
        self.parts: tuple[float, ...] = ()
        self.default: float | None = None
        self.correction: float | None = None
        self.settled: int = 0

    def take(self, line: Line) -> bool:
        """Take the next line; whether it settles the account."""
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
        if self.settled or not self._complete():
            return False
        self.settled = line.position
        return True

    def _complete(self) -> bool:
        has_value = self.default is not None or (self.rule == "first" and bool(self.parts))
        return bool(self.made) and has_value and (self.shown or not self.deferred)

    @property
    def value(self) -> float:
        """The reward as of the lines taken; NaN while there is none."""
        if self.correction is not None:
            return self.correction
        if self.parts:
            return self.parts[0] if self.rule == "first" else min(1.0, fsum(self.parts))
        return float("nan") if self.default is None else self.default
