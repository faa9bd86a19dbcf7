"""walk: yield every decision of a store with the state that it was made with. The
states are computed in a single pass over all events.

If a correction, or a reward after a default, changes the effect of an earlier event,
the state is computed again from a recent state in memory. Snapshots of the store are
not used, except for a snapshot before any event.
"""

from array import array
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
    "DecisionRecord",
    "StateAt",
    "StateCursor",
    "Stops",
    "UNREADABLE",
    "Visit",
    "has_earlier_state",
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
"""Exceptions that reading a damaged record can raise."""

_CHUNK = 500  # decisions in memory at a time
_WINDOW = 2000  # lines to read ahead, because positions of a server are far apart
# minimum number of lines in memory, because most corrections concern recent decisions
_BEHIND = 10_000
_APART = 50  # of the older states, only every 50th stays in memory
_DENSE = 100  # number of newest states that all stay in memory if they are small


class StateAt(NamedTuple):
    """The state after all events up to a position, or the reason why it cannot be
    computed.

    If `erased`, the reason is that the policy would learn from an erased context.
    """

    folded: FoldState | None
    why: str = ""
    erased: bool = False


class Stops(NamedTuple):
    """Positions in increasing order, and a function that is called with the state at
    each position."""

    positions: Sequence[int]
    tell: Callable[[int, StateAt], None]


class DecisionRecord(NamedTuple):
    """A decision and its evidence, or the reason why it cannot be read."""

    decision: Decision | None
    evidence: Evidence
    why: str = ""


class Visit(NamedTuple):
    """A decision and the state it was made with, as recorded.

    `why` says why the decision or the state is missing, if it is. `erased` is true if
    the policy would have to learn from an erased context.
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
    """Yield all decisions up to `until`, in the order of their states.

    Without a start, the visits have no states.
    """
    lines_of = _lines_by_chunk(reading, until)
    if start is None:
        for line, record in lines_of:
            yield Visit(line, record.decision, record.evidence, None, record.why)
        return
    cursor = StateCursor(Ahead(reading, until), start, change)
    waiting = deque(() if stops is None else stops.positions)

    def tell_until(position: int) -> None:
        while stops is not None and waiting and waiting[0] <= position:
            stop = waiting.popleft()
            stops.tell(stop, cursor.at(stop))

    for line, record in lines_of:
        decision = record.decision
        if decision is None or not has_earlier_state(line):
            yield Visit(line, decision, record.evidence, None, record.why)
            continue
        tell_until(line.seen or 0)
        state = cursor.at(line.seen or 0)
        yield Visit(
            line, decision, record.evidence, state.folded, state.why, state.erased
        )
    tell_until(until)


def _lines_by_chunk(
    reading: Reading, until: int
) -> Iterator[tuple[Line, DecisionRecord]]:
    """Yield the decisions and their lines, in the order of their states."""
    for chunk in _chunks(_ordered(reading, until)):
        lines = {line.position: line for line in _lines_at(reading, chunk)}
        records = read_decisions(reading, chunk)
        for position, record in zip(chunk, records, strict=True):
            yield lines[position], record


def _lines_at(reading: Reading, positions: Sequence[int]) -> Iterator[Line]:
    wanted = set(positions)
    for line in reading.lines(min(positions) - 1, max(positions)):
        if line.position in wanted:
            yield line


def has_earlier_state(line: Line) -> bool:
    """Return whether the state that a decision refers to comes before the decision."""
    return line.seen is not None and 0 <= line.seen < line.position


def start_of(reading: Reading, policy: Policy) -> FoldState:
    """Return the state before any event: the state `start` of the policy file, or else
    the prior."""
    if any(snapshot.position == 0 for snapshot in reading.snapshots()):
        state = unpack_part(reading.content(0), policy, "the snapshot at position 0")
        return initial_fold(reading, policy, state)
    return initial_fold(reading, policy, policy.init())


def read_decisions(reading: Reading, positions: Sequence[int]) -> list[DecisionRecord]:
    """Return the decisions at these positions with their evidence."""
    try:
        decisions = reading.decisions(positions)
        evidence = reading.evidence(positions)
        pairs = zip(decisions, evidence, strict=True)
        return [DecisionRecord(decision, one) for decision, one in pairs]
    except UNREADABLE as error:
        if len(positions) == 1:
            why = f"{type(error).__name__}: {error}"
            return [DecisionRecord(None, Evidence(None, False), why)]
    records: list[DecisionRecord] = []
    for position in positions:
        records += read_decisions(reading, [position])
    return records


class StateCursor:
    """Computes the states at given positions. Each position must be at least as large
    as the previous one."""

    def __init__(
        self, reading: "Ahead", start: FoldState, change: Change | None
    ) -> None:
        self._reading = reading
        self._change = change
        self._now = start
        self._recent = [copy_fold(start)]
        self._failure: StateAt | None = None
        # number of states since the last one that was added to `_recent`
        self._passed = 0
        # whether the current state may be updated in place
        self._is_written = False

    def at(self, position: int) -> StateAt:
        """Return the state after all events up to a position."""
        if self._failure is None and position > self._now.position:
            self._is_written = False
            try:
                self._now = refold(self._reading, position, self._before, self._change)
            # possible errors: a damaged record, an erased context, or any error of an
            # expert while it learns
            except Exception as error:
                why = f"the fold stops before position {position}: {error}"
                is_erased = isinstance(error, ContextErased)
                self._failure = StateAt(None, why, is_erased)
            else:
                self._keep()
        return self._failure or StateAt(self._now)

    def _before(self, latest: int) -> FoldState:
        if self._now.position <= latest and not self._is_written:
            self._is_written = self._now.policy.in_place
            return self._now
        usable = [one for one in self._recent if one.position <= latest]
        return copy_fold(usable[-1])

    def _keep(self) -> None:
        in_place = self._now.policy.in_place
        self._passed += 1
        if self._passed < (_APART * _DENSE if in_place else _APART):
            return
        self._passed = 0
        self._recent.append(copy_fold(self._now))
        positions = [one.position for one in self._recent]
        stay = retained_positions(positions)
        if not in_place:
            stay |= set(positions[-_DENSE:])
        self._recent = [one for one in self._recent if one.position in stay]


class Ahead:
    """A cache of lines and decisions, for computing states a few lines at a time.

    It contains a few thousand lines before and after the current one.
    """

    def __init__(self, reading: Reading, head: int) -> None:
        self._reading = reading
        self._head = head
        self.rule = reading.rule
        self.late = reading.late
        self.zero = reading.zero
        self.metrics = reading.metrics
        self.reward_weights = reading.reward_weights
        self._first = 0
        self._last = 0
        self._lines: list[Line] = []
        self._about: dict[str, list[Line]] = {}
        self._decisions: dict[int, Decision] = {}

    def lines(self, after: int, until: int) -> Iterator[Line]:
        """Return the lines with after < position <= until, in order."""
        while until > self._last:
            self._look_ahead()
        if after < self._first:
            return self._reading.lines(after, until)
        position = attrgetter("position")
        first = bisect_right(self._lines, after, key=position)
        last = bisect_right(self._lines, until, key=position)
        return iter(self._lines[first:last])

    def history(self, ids: Sequence[str], until: int) -> list[Line]:
        """Return all lines about these decisions up to `until`, in order."""
        if until > self._last or any(id not in self._about for id in ids):
            return self._reading.history(ids, until)
        lines: list[Line] = []
        for id in ids:
            lines += [line for line in self._about[id] if line.position <= until]
        return sorted(lines)

    def decisions(self, positions: Sequence[int]) -> list[Decision]:
        """Return the decisions at these positions, in this order."""
        if all(position in self._decisions for position in positions):
            return [self._decisions[position] for position in positions]
        return self._reading.decisions(positions)

    def draws(self, positions: Sequence[int]) -> list[Draw | None]:
        """Return the draws of these decisions."""
        return self._reading.draws(positions)

    def decisions_with_draws(
        self, positions: Sequence[int]
    ) -> list[tuple[Decision, Draw | None]]:
        """Return the decisions with their draws."""
        return list(zip(self.decisions(positions), self.draws(positions), strict=True))

    def _look_ahead(self) -> None:
        new = list(islice(self._reading.lines(self._last, self._head), _WINDOW))
        until = new[-1].position if len(new) == _WINDOW else self._head
        self._lines += new
        self._last = until
        about: dict[str, list[Line]] = {}
        for line in new:
            if line.of_decision:
                about[line.id] = []
        for line in self._reading.history(list(about), until):
            about[line.id].append(line)
        self._about |= about
        with_rewards = [lines for lines in about.values() if len(lines) > 1]
        self._load(_made_in(with_rewards) - self._decisions.keys())
        if len(self._lines) > 2 * _BEHIND:
            self._forget()

    def _load(self, positions: set[int]) -> None:
        for chunk in _chunks(np.array(sorted(positions), dtype=np.int64)):
            try:
                decisions = self._reading.decisions(chunk)
            # at least one decision is damaged; it is found when each is read alone
            except UNREADABLE:
                continue
            self._decisions |= zip(chunk, decisions, strict=True)

    def _forget(self) -> None:
        self._first = self._lines[-_BEHIND - 1].position
        self._lines = self._lines[-_BEHIND:]
        ids = {line.id for line in self._lines if line.of_decision}
        self._about = {id: self._about[id] for id in ids}
        known = _made_in(self._about.values()) & self._decisions.keys()
        self._decisions = {position: self._decisions[position] for position in known}


def _made_in(histories: Iterable[list[Line]]) -> set[int]:
    """Return the positions of the decisions among these lines."""
    made: set[int] = set()
    for lines in histories:
        made |= {line.position for line in lines if line.kind == "decision"}
    return made


def _ordered(reading: Reading, until: int) -> Ints:
    """Return the positions of all decisions, in the order of their states."""
    positions = array("q")
    states = array("q")
    for line in reading.lines(0, until):
        if line.kind == "decision":
            is_known = has_earlier_state(line)
            positions.append(line.position)
            states.append(line.seen or 0 if is_known else 0)
    table = np.array(positions, dtype=np.int64)
    ordered: Ints = table[np.lexsort((table, np.array(states, dtype=np.int64)))]
    return ordered


def _chunks(positions: Ints) -> Iterator[list[int]]:
    for first in range(0, len(positions), _CHUNK):
        yield positions[first : first + _CHUNK].tolist()
