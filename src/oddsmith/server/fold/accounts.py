"""The account of one decision: from its lines, in order, where in the log it counts,
and with which reward."""

from math import fsum
from typing import NamedTuple

from oddsmith.server.store.protocol import Late, Line, Rule

__all__ = ["Account", "Count", "Exposure"]


class Count(NamedTuple):
    """A step of the fold: the decision made at `made` counts at `position` with
    `value`.

    With `before`, it has counted already, with that value, and turns into this one.
    `is_default` says that the value is the default's, `was_default` that the one before
    was. `time` is that of the line at `position`, `decided` that of the decision.
    """

    position: int
    made: int
    value: float
    before: float | None = None
    is_default: bool = False
    was_default: bool = False
    time: float = 0.0
    decided: float = 0.0


class Exposure(NamedTuple):
    """A step of the fold: the decision made at `made`, at this time, was deferred, and
    activated at `position`."""

    position: int
    made: int
    time: float


class _Turn(NamedTuple):
    """From here on a decision has this value, which may be the default."""

    value: float
    is_default: bool
    position: int
    time: float


class Account:
    """When and with what a decision counts.

    It is *settled* by the line that completes it: the decision itself, its activation
    if it was deferred, and a reward or default (with the rules "first_at_close" and
    "sum": the default, which closes the window). That position never changes again. Its
    *value* is the last correction, else the reward (the first; with "sum" the sum of
    the parts, within 0 and 1), else the default. Parts are added up in the units of
    rewards, in which nothing is nothing: on the scale from 0 to 1 that is `zero`.

    A reward that changes the value of a settled decision is late. Where late rewards
    "rewrite", the decision counts with its value where it was settled, as if it had
    always been that one. Where they count as they "arrive", it counts there with the
    value it had then, and turns into another with each late reward, where that stands.
    A correction always rewrites: the decision counts once, where it was settled, with
    the corrected value.

    >>> account = Account("first", "arrives")
    >>> account.take(Line(1, "decision", "a", "", None, 0.0, False, 0))
    >>> account.take(Line(2, "default", "a", "", 0.0, 60.0, False, None))
    >>> account.take(Line(9, "reward", "a", "", 1.0, 99.0, False, None))
    >>> [count[:4] for count in account.counts]
    [(2, 1, 0.0, None), (9, 1, 1.0, 0.0)]
    """

    __slots__ = (
        *(
            "_turns",
            "activated",
            "correction",
            "decided",
            "default",
            "deferred",
            "late",
            "made",
            "parts",
            "rule",
        ),
        *("settled", "shown", "zero"),
    )

    def __init__(self, rule: Rule, late: Late, zero: float = 0.0) -> None:
        self.rule, self.late, self.zero = rule, late, zero
        self.made: int = 0
        self.decided = 0.0  # when
        self.deferred = self.shown = False
        self.activated: int = 0  # where a deferred decision began to count
        self.parts: tuple[float, ...] = ()
        self.default: float | None = None
        self.correction: float | None = None
        self.settled: int = 0
        # where the value became what, but for corrections
        self._turns: tuple[_Turn, ...] = ()

    def take(self, line: Line) -> None:
        """Take the next line."""
        if line.kind == "decision":
            self.made, self.decided, self.deferred = (
                line.position,
                line.time,
                bool(line.deferred),
            )
        elif line.kind == "activation":
            self.shown = True
        elif line.kind == "reward" and line.value is not None:
            self.parts = (*self.parts, line.value)
        elif line.kind == "default":
            self.default = line.value
        elif line.kind == "correction":
            self.correction = line.value
        if self.made and self.deferred and self.shown and not self.activated:
            self.activated = line.position
        if not self.settled and self._complete():
            self.settled = line.position
        if self.settled:
            now = _Turn(self._rewarded, not self.parts, line.position, line.time)
            if not self._turns or self._turns[-1][:2] != now[:2]:
                self._turns = (*self._turns, now)

    def _complete(self) -> bool:
        has_value = self.default is not None or (
            self.rule == "first" and bool(self.parts)
        )
        return bool(self.made) and has_value and (self.shown or not self.deferred)

    @property
    def counts(self) -> tuple[Count, ...]:
        """Where and with what the decision counts, as of the lines taken; nowhere
        before it is settled."""
        if not self.settled:
            return ()
        if (
            self.late == "rewrites"
            or self.correction is not None
            or len(self._turns) == 1
        ):
            is_default = not self.parts and self.correction is None
            time = self._turns[0].time
            return (
                Count(
                    self.settled,
                    self.made,
                    self.value,
                    None,
                    is_default,
                    False,
                    time,
                    self.decided,
                ),
            )
        counts: list[Count] = []
        before: tuple[float | None, bool] = (None, False)
        for value, is_default, position, time in self._turns:
            counts.append(
                Count(
                    position,
                    self.made,
                    value,
                    before[0],
                    is_default,
                    before[1],
                    time,
                    self.decided,
                )
            )
            before = value, is_default
        return tuple(counts)

    @property
    def value(self) -> float:
        """The reward as of the lines taken; NaN while there is none."""
        return self._rewarded if self.correction is None else self.correction

    @property
    def _sum(self) -> float:
        more = len(self.parts) - 1
        return min(1.0, max(0.0, fsum((*self.parts, -more * self.zero))))

    @property
    def _rewarded(self) -> float:
        if self.parts:
            return self._sum if self.rule == "sum" else self.parts[0]
        return float("nan") if self.default is None else self.default
