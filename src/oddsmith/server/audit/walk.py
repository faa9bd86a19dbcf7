"""Every decision of a store with the state it was made with, the states in order: one
fold forward over all events.

A state is rewritten where a correction, or a reward after a default, reached back: then
it is folded again from a state that was kept on the way. Snapshots of the store are not
believed, but for the one before any event, if it has one.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from oddsmith.core.arrays import Ints
from oddsmith.core.decision import Decision
from oddsmith.core.errors import OddsmithError
from oddsmith.core.policy import Policy
from oddsmith.files.state import unpack_part
from oddsmith.server.fold.fold import Change, FoldState, copy_fold, initial_fold, refold
from oddsmith.server.store.protocol import ContextErased, Draw, Evidence, Line, Reading
from oddsmith.server.store.snapshots import retained_positions

__all__ = [
    "Ahead",
    "StateCursor",
    "Stops",
    "UNREADABLE",
    "Visit",
    "made_with",
    "read_decisions",
    "start_of",
    "walk",
]

UNREADABLE = (
    OddsmithError,
    ValueError,
    KeyError,
    TypeError,
    IndexError,
    AttributeError,
)
"""What reading a damaged record may raise."""

_CHUNK = 500  # decisions in memory at a time
_WINDOW = 2000  # lines looked ahead: positions of a server are far apart
_BEHIND = 10_000  # lines kept behind, at least: what is folded again is mostly young
_APART = 50  # states from one that is kept to the next
_DENSE = 100  # youngest states that all stay, where they are small


class Stops(NamedTuple):
    """Positions, in order, whose states are told on the way, as a `StateCursor` has
    them."""

    positions: Sequence[int]
    tell: Callable[[int, FoldState | None, str, bool], None]


class Visit(NamedTuple):
    """A decision, and the state it says it was made with; `why` says what keeps either
    from being there.

    `erased` where that is an erased context, from which the policy would learn.
    """

    line: Line
    decision: Decision | None
    evidence: Evidence
    folded: FoldState | None
    why: str = ""
    erased: bool = False


def walk(
    reading: Reading,
    start: FoldState | None,
    change: Change | None,
    until: int,
    stops: Stops | None = None,
) -> Iterator[Visit]:
    """All decisions up to `until`, in the order of the states they were made with;
    without a start, no states."""
    follower = (
        None if start is None else StateCursor(Ahead(reading, until), start, change)
    )
    waiting = deque([] if stops is None or follower is None else stops.positions)

    def look(before: int) -> None:
        while (
            stops is not None
            and follower is not None
            and waiting
            and waiting[0] <= before
        ):
            stops.tell(waiting[0], *follower.at(waiting.popleft()))

    for chunk in _chunks(_ordered(reading, until)):
        wanted = set(chunk)
        lines = {
            line.position: line
            for line in reading.lines(min(chunk) - 1, max(chunk))
            if line.position in wanted
        }
        for position, (decision, evidence, why) in zip(
            chunk, read_decisions(reading, chunk), strict=True
        ):
            line = lines[position]
            if follower is None or decision is None or not made_with(line):
                yield Visit(line, decision, evidence, None, why)
            else:
                look(line.seen or 0)
                yield Visit(line, decision, evidence, *follower.at(line.seen or 0))
    look(until)


def made_with(line: Line) -> bool:
    """Whether a decision's line names a state that was there before it."""
    return line.seen is not None and 0 <= line.seen < line.position


def start_of(reading: Reading, policy: Policy) -> FoldState:
    """The state before any event: the one it was begun with, else the prior."""
    if any(snapshot.position == 0 for snapshot in reading.snapshots()):
        state = unpack_part(reading.content(0), policy, "the snapshot at position 0")
        return initial_fold(reading, policy, state)
    return initial_fold(reading, policy, policy.init())


def read_decisions(
    reading: Reading, positions: Sequence[int]
) -> list[tuple[Decision | None, Evidence, str]]:
    """The decisions at these positions and their evidence; None, and why, for one that
    cannot be read."""
    try:
        read = zip(
            reading.decisions(positions), reading.evidence(positions), strict=True
        )
        return [(decision, evidence, "") for decision, evidence in read]
    except UNREADABLE as error:
        if len(positions) == 1:
            return [(None, Evidence(None, False), f"{type(error).__name__}: {error}")]
        return [
            found
            for position in positions
            for found in read_decisions(reading, [position])
        ]


class StateCursor:
    """The state at one position after the other, each at or after the last."""

    def __init__(
        self, reading: "Ahead", start: FoldState, change: Change | None
    ) -> None:
        self._reading, self._change = reading, change
        self._now = start
        self._kept = [copy_fold(start)]
        self._broken, self._erased = "", False
        self._passed = 0  # states since the last one that was kept
        # whether the state may be written into, by the fold that is under way
        self._written = False

    def at(self, position: int) -> tuple[FoldState | None, str, bool]:
        """The fold of all events up to a position; None, why, and whether contexts were
        erased, where it stopped."""
        if not self._broken and position > self._now.position:
            self._written = False
            try:
                self._now = refold(self._reading, position, self._before, self._change)
            # a damaged record, an erased context, or whatever learners raise
            except Exception as error:
                self._broken = f"the fold stops before position {position}: {error}"
                self._erased = isinstance(error, ContextErased)
            else:
                self._keep()
        return (
            (None, self._broken, self._erased)
            if self._broken
            else (self._now, "", False)
        )

    def _before(self, latest: int) -> FoldState:
        if self._now.position <= latest and not self._written:
            self._written = self._now.policy.in_place
            return self._now
        return copy_fold(
            next(kept for kept in reversed(self._kept) if kept.position <= latest)
        )

    def _keep(self) -> None:
        apart = _APART * (_DENSE if self._now.policy.in_place else 1)
        self._passed += 1
        if self._passed >= apart:
            self._passed = 0
            self._kept.append(copy_fold(self._now))
            positions = [kept.position for kept in self._kept]
            stay = retained_positions(positions) | set(
                [] if self._now.policy.in_place else positions[-_DENSE:]
            )
            self._kept = [kept for kept in self._kept if kept.position in stay]


class Ahead:
    """What a fold reads, some thousand lines ahead and behind: the fold then asks for a
    few of them at a time."""

    def __init__(self, reading: Reading, head: int) -> None:
        self._reading, self._head = reading, head
        self.rule, self.late, self.zero = reading.rule, reading.late, reading.zero
        self.metrics = reading.metrics
        self.reward_weights = reading.reward_weights
        self._first = self._last = 0
        self._lines: list[Line] = []
        self._about: dict[str, list[Line]] = {}
        self._decisions: dict[int, Decision] = {}

    def lines(self, after: int, until: int) -> Iterator[Line]:
        """The lines with after < position <= until, in order."""
        while until > self._last:
            self._look_ahead()
        if after < self._first:
            return self._reading.lines(after, until)
        first, last = (
            bisect_right(self._lines, position, key=attrgetter("position"))
            for position in (after, until)
        )
        return iter(self._lines[first:last])

    def history(self, ids: Sequence[str], until: int) -> list[Line]:
        """All lines about these decisions up to `until`, in order."""
        if until > self._last or any(id not in self._about for id in ids):
            return self._reading.history(ids, until)
        return sorted(
            line for id in ids for line in self._about[id] if line.position <= until
        )

    def decisions(self, positions: Sequence[int]) -> list[Decision]:
        """The decisions made at these positions, in the order asked for."""
        if all(position in self._decisions for position in positions):
            return [self._decisions[position] for position in positions]
        return self._reading.decisions(positions)

    def draws(self, positions: Sequence[int]) -> list[Draw | None]:
        """What the arms of these decisions were drawn from."""
        return self._reading.draws(positions)

    def decisions_with_draws(
        self, positions: Sequence[int]
    ) -> list[tuple[Decision, Draw | None]]:
        """Both of these."""
        return list(zip(self.decisions(positions), self.draws(positions), strict=True))

    def _look_ahead(self) -> None:
        new = list(islice(self._reading.lines(self._last, self._head), _WINDOW))
        until = new[-1].position if len(new) == _WINDOW else self._head
        self._lines += new
        self._last = until
        told: dict[str, list[Line]] = {line.id: [] for line in new if line.of_decision}
        for line in self._reading.history(list(told), until):
            told[line.id].append(line)
        self._about |= told
        learnt = _made_in([lines for lines in told.values() if len(lines) > 1])
        self._read([position for position in learnt if position not in self._decisions])
        if len(self._lines) > 2 * _BEHIND:
            self._forget()

    def _read(self, positions: list[int]) -> None:
        for chunk in _chunks(np.array(positions, dtype=np.int64)):
            try:
                self._decisions |= zip(
                    chunk, self._reading.decisions(chunk), strict=True
                )
            except UNREADABLE:  # one of them is damaged: reading it alone will say so
                continue

    def _forget(self) -> None:
        self._first = self._lines[-_BEHIND - 1].position
        self._lines = self._lines[-_BEHIND:]
        self._about = {
            line.id: self._about[line.id] for line in self._lines if line.of_decision
        }
        kept = _made_in(self._about.values())
        self._decisions = {
            position: self._decisions[position]
            for position in kept
            if position in self._decisions
        }


def _made_in(told: Iterable[list[Line]]) -> list[int]:
    """The positions of the decisions among lines about decisions."""
    return [
        line.position for lines in told for line in lines if line.kind == "decision"
    ]


def _ordered(reading: Reading, until: int) -> Ints:
    """The positions of all decisions, by the state they were made with."""
    made = (line for line in reading.lines(0, until) if line.kind == "decision")
    pairs = ((line.position, line.seen if made_with(line) else 0) for line in made)
    table: Ints = np.fromiter(pairs, dtype=np.dtype((np.int64, 2)))
    ordered: Ints = table[np.lexsort((table[:, 0], table[:, 1])), 0]
    return ordered


def _chunks(positions: Ints) -> Iterator[list[int]]:
    yield from (
        positions[first : first + _CHUNK].tolist()
        for first in range(0, len(positions), _CHUNK)
    )
