"""Checks of a store's facts, snapshots and erased contexts against its events."""

import json
from array import array
from collections.abc import Mapping
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
from oddsmith.server.audit.walk import UNREADABLE, StateAt, Stops, Visit
from oddsmith.server.fold.fold import FoldState
from oddsmith.server.store.changes import arms_since
from oddsmith.server.store.protocol import Erased, Reading, Snapshot

__all__ = ["Contexts", "StateCheck", "check_facts"]


def check_facts(
    reading: Reading,
    arbiter: Policy | None,
    policy: Policy | None,
    expected: Mapping[str, object],
) -> Level:
    """Check that the facts of a store agree with each other, with the store's policy,
    and with `expected`."""
    about = reading.about
    level = Level("facts")
    for fact in ("seed", "arms"):
        is_known = about.get(fact) is not None
        if fact == "arms" and fact in about:  # the arms are null if calls pass them
            is_known = True
        answer = None
        if not is_known:
            answer = Untested(f"the store does not say its {fact}")
        level.take(fact, 0, answer)
    recorded = dict(about)
    before: list[str] = []
    for since, names in arms_since(reading):  # new arms are added at the end
        arms = list(names)
        if since:
            level.take("arms", since, _same("arms", arms[: len(before)], before))
        before = arms
        recorded["arms"] = arms
    for fact, value in expected.items():
        if fact in recorded:
            level.take(fact, 0, _same(fact, recorded[fact], value))
    text = json.dumps(reading.description, sort_keys=True)
    mark = reading.fingerprint
    follows = sha256(text.encode()).hexdigest()[:32]
    level.take("policy", 0, _same("fingerprint", mark, follows))
    if policy is not None:
        with suppress(NotPortable):
            level.take("models", 0, _same("fingerprint", mark, fingerprint(policy)))
    if arbiter is not None and about.get("judge") is not None:
        level.take("judge", 0, _check_judge(arbiter, reading.description))
        experts = about["judge"].get("experts")
        registered = list(reading.experts or experts)
        level.take("experts", 0, _same("experts", registered, experts))
    return level


def _same(what: str, recorded: object, follows: object) -> CheckResult:
    if recorded == follows:
        return None
    return Differs(f"{what} {recorded!r:.60}", f"{follows!r:.60}")


def _check_judge(arbiter: Policy, description: Json) -> CheckResult:
    judge = _without_experts(describe(arbiter))
    policy = _without_experts(description)
    if judge == policy:
        return None
    return Differs("a judge", difference(judge, policy, "judge"))


def _without_experts(description: Json) -> Json:
    """Return a policy's description without its experts. The store does not contain the
    real experts, so they cannot be compared."""
    if not isinstance(description, dict):
        return description
    return {
        name: _without_experts(inner)
        for name, inner in description.items()
        if name != "experts"
    }


class StateCheck:
    """Compares each snapshot with the state that is computed from the events before it.

    A snapshot before any event is not checked, because the computation starts from it.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._snapshots = {
            one.position: one for one in reading.snapshots() if one.position > 0
        }
        self.level = Level("states")

    def check_head(self, head: int) -> None:
        """Report snapshots beyond the last event, because their events are missing."""
        for position in self._snapshots:
            if position > head:
                recorded = f"a snapshot of position {position:,}"
                follows = f"none after the last event, {head:,},"
                self.level.take("", position, Differs(recorded, follows))

    def stops(self, head: int, tolerance: float, *, models: bool = False) -> Stops:
        """Return the positions of the snapshots and of the last event, with the
        function that checks the state there.

        If the state cannot be computed, this is reported as a difference. With
        `models`, the position counts as untested instead.
        """

        def check(position: int, state: StateAt) -> None:
            answer: CheckResult = None
            if state.folded is not None:
                if position in self._snapshots:
                    snapshot = self._snapshots[position]
                    answer = self._answer(snapshot, state.folded, tolerance)
            elif models:
                answer = Untested(state.why, state.erased)
            else:
                recorded = f"events that cannot be folded ({state.why:.120})"
                answer = Differs(recorded, "a state")
            self.level.take("", position, answer)

        before = [position for position in self._snapshots if position < head]
        return Stops([*sorted(before), head], check)

    def _answer(
        self, snapshot: Snapshot, folded: FoldState, tolerance: float
    ) -> CheckResult:
        try:
            content = self._reading.content(snapshot.position)
        except InvalidInput:
            return Untested("it was deleted meanwhile", excused=True)
        except UNREADABLE as error:
            return _damaged(error)
        by = 0.0
        try:
            state = unpack_part(content, folded.policy, "the snapshot")
            pairs = zip(leaves_of(state), leaves_of(folded.state), strict=True)
            for (_, one), (_, other) in pairs:
                by = max(by, how_far(np.asarray(one), np.asarray(other)))
        except UNREADABLE as error:
            return _damaged(error)
        if by <= tolerance:
            return None
        return Differs("another state", "the fold of the events before it", by)


def _damaged(error: Exception) -> Differs:
    return Differs(f"something that is not a snapshot ({error!s:.80})", "a snapshot")


class Contexts:
    """Finds contexts that were deleted individually.

    The service always erases all contexts before some time. So if a context is missing
    while an older one is still there, somebody else has deleted it.
    """

    def __init__(self) -> None:
        self._rows: array[float] = array("d")
        self._ids: dict[int, str] = {}

    def take(self, visit: Visit) -> None:
        """Count a decision."""
        if visit.decision is None or visit.decision.context is None:
            return
        line = visit.line
        is_erased = isinstance(visit.decision.context, Erased)
        self._rows.extend((line.position, line.time, is_erased))
        if is_erased and len(self._ids) < 10_000:
            self._ids[line.position] = line.id

    def report(self, level: Level) -> None:
        """Add the decisions without a context that come after an older one with its
        context."""
        rows = np.frombuffer(self._rows, dtype=np.float64).reshape(-1, 3)
        if not len(rows):
            return
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        positions, times, erased = rows.T
        is_erased = erased > 0
        oldest = np.minimum.accumulate(np.where(is_erased, np.inf, times))
        wrong = Differs(
            "an erased context", "a context that is there, as older ones are,"
        )
        for position in positions[is_erased & (times >= oldest)].tolist():
            place = int(position)
            level.take(self._ids.get(place, ""), place, wrong)
