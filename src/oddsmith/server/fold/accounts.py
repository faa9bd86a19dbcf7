"""Account: compute the reward of one decision from its events, and the position in the
log where the reward counts."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import fsum, nan
from types import MappingProxyType
from typing import NamedTuple

from oddsmith.server.fold.amounts import Totals
from oddsmith.server.store.protocol import Foldable, Late, Line, Rule

__all__ = ["Account", "Count", "Exposure"]


class Count(NamedTuple):
    """A step in the computation of a state: at `position`, the decision made at `made`
    counts with the reward `value`.

    If the decision has counted already, `value` replaces `before`. `is_default` and
    `was_default` tell whether the new and the old value are defaults. `time` is the
    time of the event at `position`, and `decided` is the time of the decision. `learnt`
    is the value that the state has learned for this decision so far, which is `before`
    unless learning was frozen. If `is_frozen`, the state does not learn this value.
    """

    position: int
    made: int
    value: float
    before: float | None = None
    is_default: bool = False
    was_default: bool = False
    time: float = 0.0
    decided: float = 0.0
    learnt: float | None = None
    is_frozen: bool = False


class Exposure(NamedTuple):
    """A step in the computation of a state: the deferred decision made at `made` was
    activated at `position`.

    `time` is the time of the decision.
    """

    position: int
    made: int
    time: float


class _Turn(NamedTuple):
    """The value that a decision has from a position on."""

    value: float
    is_default: bool
    position: int
    time: float


class Account:
    """The events of one decision, from which its value and the position where it counts
    are computed.

    A decision is *settled* by the line that completes it: the decision itself, its
    activation if it was deferred, and a reward or a default. With the rules
    "first_at_close" and "sum" it needs the default, which closes the window. The
    position of that line never changes again. The *value* is the last correction if
    there is one, otherwise the reward, otherwise the default. The reward is the first
    one, or with "sum" the sum of the parts, clipped to [0, 1]. Parts are added up in
    the user's units; `zero` is the user's 0 on the scale from 0 to 1.

    A reward that changes the value of a settled decision is late. If late rewards
    "rewrite", the decision counts once, where it was settled, with the new value. If
    they count as they "arrive", the decision counts where it was settled with its value
    at that time, and each late reward replaces the value at its own position. A
    correction always rewrites.

    With `weights`, amounts of metrics are added to the reward: weight times amount, on
    the scale from 0 to 1. Then the reward is settled when the window closes.

    >>> account = Account("first", "arrives")
    >>> account.take(Line(1, "decision", "a", "", None, 0.0, False, 0))
    >>> account.take(Line(2, "default", "a", "", 0.0, 60.0, False, None))
    >>> account.take(Line(9, "reward", "a", "", 1.0, 99.0, False, None))
    >>> [count[:4] for count in account.counts]
    [(2, 1, 0.0, None), (9, 1, 1.0, 0.0)]
    """

    __slots__ = (
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
        "settled",
        "shown",
        "totals",
        "weights",
        "zero",
    )

    def __init__(
        self,
        rule: Rule,
        late: Late,
        zero: float = 0.0,
        weights: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self.rule = rule
        self.late = late
        self.zero = zero
        self.weights = weights
        self.totals = Totals() if weights else None
        # positions of the decision's events; 0 if an event has not come yet
        self.made = 0
        self.activated = 0
        self.settled = 0
        self.decided = 0.0  # time of the decision
        self.deferred = False
        self.shown = False
        self.parts: tuple[float, ...] = ()
        self.default: float | None = None
        self.correction: float | None = None
        self._turns: tuple[_Turn, ...] = ()  # values over time, without corrections

    @classmethod
    def of(cls, store: Foldable) -> "Account":
        """Return an empty account with the rules of a store."""
        return cls(store.rule, store.late, store.zero, store.reward_weights)

    @property
    def has_reward(self) -> bool:
        """Whether there is a reward, or an amount that the reward is computed from."""
        return bool(self.parts) or any(self._amounts())

    def take(self, line: Line) -> None:
        """Add the next line."""
        if self.totals is not None:
            self.totals.take(line)
        if line.kind == "decision":
            self.made = line.position
            self.decided = line.time
            self.deferred = bool(line.deferred)
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
        if not self.settled and self._is_complete():
            self.settled = line.position
        if self.settled:
            self._turn(line)

    def _is_complete(self) -> bool:
        if not self.made or (self.deferred and not self.shown):
            return False
        if self.default is not None:
            return True
        return self.rule == "first" and bool(self.parts) and not self.weights

    def _turn(self, line: Line) -> None:
        """Record the value after a line, if it has changed."""
        value = self._uncorrected
        is_default = not self.has_reward
        if self._turns:
            last = self._turns[-1]
            if last.value == value and last.is_default == is_default:
                return
        turn = _Turn(value, is_default, line.position, line.time)
        self._turns = (*self._turns, turn)

    @property
    def counts(self) -> tuple[Count, ...]:
        """The counts after the lines so far; empty before the decision is settled."""
        if not self.settled:
            return ()
        first = self._turns[0]
        is_corrected = self.correction is not None
        if self.late == "rewrites" or is_corrected or len(self._turns) == 1:
            is_default = not self.has_reward and not is_corrected
            once = _Turn(self.value, is_default, self.settled, first.time)
            return (self._count(once, None),)
        counts = [self._count(first, None)]
        for before, turn in pairwise(self._turns):
            counts.append(self._count(turn, before))
        return tuple(counts)

    def _count(self, turn: _Turn, before: _Turn | None) -> Count:
        count = Count(
            turn.position,
            self.made,
            turn.value,
            is_default=turn.is_default,
            time=turn.time,
            decided=self.decided,
        )
        if before is None:
            return count
        return count._replace(
            before=before.value, was_default=before.is_default, learnt=before.value
        )

    @property
    def value(self) -> float:
        """The reward after the lines so far; NaN while there is none."""
        if self.correction is not None:
            return self.correction
        return self._uncorrected

    @property
    def _uncorrected(self) -> float:
        """The reward or the default, without corrections."""
        if not self.has_reward:
            return nan if self.default is None else self.default
        if self.rule != "sum":
            return self.parts[0]
        extra = len(self.parts) - 1
        total = fsum((*self.parts, *self._amounts(), -extra * self.zero))
        return min(1.0, max(0.0, total))

    def _amounts(self) -> Iterator[float]:
        """Yield the contributions of metric amounts to the reward."""
        if self.totals is None:
            return
        for name, weight in self.weights.items():
            amount = self.totals.value(name)
            if amount is not None:
                yield weight * amount
