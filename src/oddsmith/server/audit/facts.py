"""What a store says of itself, held against the rest of it: its facts, its snapshots,
its erased contexts."""

import json
from array import array
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256

import numpy as np

from oddsmith.core.errors import InvalidInput, NotPortable
from oddsmith.core.exact_json import Json
from oddsmith.core.policy import Policy
from oddsmith.files.fingerprint import describe, difference, fingerprint
from oddsmith.files.state import leaves_of, unpack_part
from oddsmith.server.audit.checks import how_far
from oddsmith.server.audit.verdicts import CheckResult, Differs, Level, Untested
from oddsmith.server.audit.walk import UNREADABLE, Stops, Visit
from oddsmith.server.fold.fold import FoldState
from oddsmith.server.store.changes import arms_since
from oddsmith.server.store.protocol import Erased, Reading, Snapshot

__all__ = ["Contexts", "StateCheck", "check_facts"]


def check_facts(
    reading: Reading,
    arbiter: Policy | None,
    policy: Policy | None,
    said: Mapping[str, object],
) -> Level:
    """Whether the facts of a store are there, and agree with each other, with its
    policy and with what is `said`."""
    level = Level("facts")
    for fact in ("seed", "arms"):
        # of calls: none
        said_there = reading.about.get(fact) is not None or (
            fact == "arms" and fact in reading.about
        )
        answer = None if said_there else Untested(f"the store does not say its {fact}")
        level.take(fact, 0, answer)
    known: list[tuple[int, tuple[str, ...]]] = []
    for since, arms in arms_since(reading):  # new ones stand behind the old ones
        before = known[-1][1] if known else ()
        if since:
            level.take(
                "arms", since, _same("arms", list(arms[: len(before)]), list(before))
            )
        known.append((since, arms))
    recorded = reading.about | ({"arms": list(known[-1][1])} if known else {})
    for fact, value in said.items():
        if fact in recorded:
            level.take(fact, 0, _same(fact, recorded[fact], value))
    text = json.dumps(reading.description, sort_keys=True)
    print_of_it = sha256(text.encode()).hexdigest()[:32]
    level.take("policy", 0, _same("fingerprint", reading.fingerprint, print_of_it))
    if policy is not None:
        with suppress(NotPortable):
            level.take(
                "models",
                0,
                _same("fingerprint", reading.fingerprint, fingerprint(policy)),
            )
    if arbiter is not None and reading.about.get("judge") is not None:
        told, follows = (
            _without_experts(describe(arbiter)),
            _without_experts(reading.description),
        )
        level.take(
            "judge",
            0,
            None
            if told == follows
            else Differs("a judge", difference(told, follows, "judge")),
        )
        names = reading.about["judge"].get("experts")
        level.take(
            "experts", 0, _same("experts", list(reading.experts or names), names)
        )
    return level


def _same(what: str, recorded: object, follows: object) -> CheckResult:
    return (
        None
        if recorded == follows
        else Differs(f"{what} {recorded!r:.60}", f"{follows!r:.60}")
    )


def _without_experts(description: Json) -> Json:
    """A policy's description without its experts: of a judge and of its policy they are
    the same."""
    if not isinstance(description, dict):
        return description
    return {
        name: _without_experts(inner)
        for name, inner in description.items()
        if name != "experts"
    }


class StateCheck:
    """Folds all events up to each snapshot and up to the head, and holds each snapshot
    against its fold.

    The one before any event is the start, and believed.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._snapshots = {
            one.position: one for one in reading.snapshots() if one.position > 0
        }
        self.level = Level("states")

    def check_head(self, head: int) -> None:
        """A snapshot beyond the head is of events that are gone."""
        for position in (position for position in self._snapshots if position > head):
            gone = Differs(
                f"a snapshot of position {position:,}",
                f"none after the last event, {head:,},",
            )
            self.level.take("", position, gone)

    def stops(self, head: int, tolerance: float, *, models: bool = False) -> Stops:
        """Where a walk up to the head is to look; a fold without models has no reason
        to stop on the way."""

        def tell(
            position: int, folded: FoldState | None, why: str, erased: bool
        ) -> None:
            if folded is None:
                lost = Differs(f"events that cannot be folded ({why:.120})", "a state")
                self.level.take("", position, Untested(why, erased) if models else lost)
            elif position in self._snapshots:
                self.level.take(
                    "",
                    position,
                    self._answer(self._snapshots[position], folded, tolerance),
                )
            else:
                self.level.take("", position, None)

        return Stops(
            sorted(
                {head, *(position for position in self._snapshots if position < head)}
            ),
            tell,
        )

    def _answer(
        self, snapshot: Snapshot, folded: FoldState, tolerance: float
    ) -> CheckResult:
        try:
            content = self._reading.content(snapshot.position)
        except InvalidInput:
            return Untested("it was thinned out meanwhile", excused=True)
        except UNREADABLE as error:
            return Differs(f"what is no snapshot ({error!s:.80})", "a snapshot")
        try:
            kept = unpack_part(content, folded.policy, "the snapshot")
            pairs = zip(leaves_of(kept), leaves_of(folded.state), strict=True)
            by = max(
                (
                    how_far(np.asarray(one), np.asarray(other))
                    for (_, one), (_, other) in pairs
                ),
                default=0.0,
            )
        except UNREADABLE as error:
            return Differs(f"what is no snapshot ({error!s:.80})", "a snapshot")
        return (
            None
            if by <= tolerance
            else Differs("another state", "the fold of the events before it", by)
        )


class Contexts:
    """Which contexts are there: erasing takes all that are older than a time, so none
    is gone while older ones stay."""

    def __init__(self) -> None:
        self._rows: array[float] = array("d")
        self._ids: dict[int, str] = {}

    def take(self, visit: Visit) -> None:
        """Count a decision."""
        if visit.decision is not None and visit.decision.context is not None:
            erased = isinstance(visit.decision.context, Erased)
            self._rows.extend((visit.line.position, visit.line.time, erased))
            if erased and len(self._ids) < 10_000:
                self._ids[visit.line.position] = visit.line.id

    def misses(self) -> Iterator[tuple[str, int, Differs]]:
        """The decisions whose context was taken out, although older ones that came
        before them are there."""
        rows = np.frombuffer(self._rows, dtype=np.float64).reshape(-1, 3)
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        oldest = (
            np.minimum.accumulate(np.where(rows[:, 2] > 0, np.inf, rows[:, 1]))
            if len(rows)
            else rows[:, 1]
        )
        for position, *_ in rows[(rows[:, 2] > 0) & (rows[:, 1] >= oldest)]:
            place = int(position)
            yield (
                self._ids.get(place, ""),
                place,
                Differs("an erased context", "one that is there, as older ones are,"),
            )
