"""verify: whether every decision of a store follows from what the store says, and which record does not."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from oddsmith.arrays import number
from oddsmith.audit.checks import CLOSE, Draws, check_odds
from oddsmith.audit.facts import Contexts, StateCheck, check_facts
from oddsmith.audit.panel import Panel
from oddsmith.audit.verdicts import CheckResult, Differs, Level, Untested, VerifyReport
from oddsmith.audit.walking import UNREADABLE, Visit, made_with, start_of, walk
from oddsmith.errors import BadFile
from oddsmith.experts.base import Experts
from oddsmith.fingerprint import difference
from oddsmith.policies.base import Policy
from oddsmith.policies.judge import judge, judge_from_json, judge_to_json
from oddsmith.progress import TOLD_S, progress
from oddsmith.storage.base import Reading
from oddsmith.storage.folding import roster_change

__all__ = ["judge_of", "verify"]


def verify(
    reading: Reading,
    *,
    policy: Policy | None = None,
    bench: Mapping[str, Experts] | None = None,
    facts: Mapping[str, object] | None = None,
    tolerance: float = 0.0,
) -> VerifyReport:
    """Whether the events have no gap, facts and snapshots are as they must be, and every decision follows, thrice.

    1. The draw: the arm is the one that seed and id draw from the recorded odds.
    2. The odds: recorded votes, weighed by the fold of all events up to the recorded position, give the recorded odds
       to the last bit. Needs no models: the store says how its policy weighs. Other builds of the arithmetic may round
       in another way; for them there is a `tolerance`.
    3. The experts, where `policy` is given (and `bench`, the experts that joined): asked again in the recorded context,
       they say what was recorded, to 1e-9; those that learn are folded along. Odds whose votes were not kept are
       recomputed from them too.

    `facts` are what the policy file says of name, arms, units of rewards and seed: the store must say the same.

    One pass forward for levels 1 and 2, one for level 3, in memory that does not grow with the store but for a few
    bytes for each decision. Level 3 takes as long as the experts took to decide. Progress is shown on a terminal; of
    level 3 elsewhere, too, as a line on standard error every 30 s.
    """
    number("tolerance", tolerance, low=0, high=1e-6)
    states = StateCheck(reading)  # before the head, which only grows
    proof = _Proof(reading, reading.head(), judge_of(reading, policy), states)
    proof.check_store(policy, facts or {})
    proof.weigh_again(tolerance, models=policy is not None)
    if policy is not None:
        proof.ask_again(policy, bench or {}, tolerance)
    return proof.report(policy is not None)


@dataclass
class _Proof:
    """The levels as they fill."""

    reading: Reading
    head: int
    arbiter: Policy | None
    states: StateCheck
    facts: Level = field(default_factory=lambda: Level("facts"))
    events: Level = field(default_factory=lambda: Level("events"))
    draw: Level = field(default_factory=lambda: Level("draw"))
    odds: Level = field(default_factory=lambda: Level("odds"))
    experts: Level = field(default_factory=lambda: Level("experts"))
    decisions: int = 0

    def report(self, models: bool) -> VerifyReport:
        levels = (self.facts, self.events, self.draw, self.odds, self.states.level)
        name = str(self.reading.about.get("experiment", ""))
        return VerifyReport(name, self.head, self.decisions, (*levels, self.experts) if models else levels)

    def check_store(self, policy: Policy | None, said: Mapping[str, object]) -> None:
        """What needs no fold: the facts, the positions of events and of snapshots."""
        self.facts = check_facts(self.reading, self.arbiter, policy, said)
        self.states.check_head(self.head)
        self.events, self.decisions = _events(self.reading, self.head)

    def weigh_again(self, tolerance: float, *, models: bool) -> None:
        """Draws, odds and states, by the judge."""
        reading, arbiter, contexts = self.reading, self.arbiter, Contexts()
        start = None if arbiter is None else start_of(reading, arbiter)
        visits = walk(reading, start, roster_change(), self.head, self.states.stops(self.head, tolerance))
        draws = Draws(reading)
        for visit in progress(visits, self.decisions, "draws and odds"):
            place = visit.line.id, visit.line.position
            contexts.take(visit)
            self.draw.take(*place, _draw_answer(visit, draws))
            if not models or not _needs_models(visit, arbiter):
                self.odds.take(*place, _odds_answer(visit, arbiter, draws, tolerance))
        for miss in contexts.misses():
            self.events.take(*miss)

    def ask_again(self, policy: Policy, bench: Mapping[str, Experts], tolerance: float) -> None:
        """The experts, and odds whose votes were not kept."""
        panel, start = Panel(), start_of(self.reading, policy)
        stops = self.states.stops(self.head, max(tolerance, CLOSE), models=True)
        visits = walk(self.reading, start, roster_change(bench), self.head, stops)
        for visit in progress(visits, self.decisions, "experts", every=TOLD_S):
            place = visit.line.id, visit.line.position
            self.experts.take(*place, panel.advice_answer(visit))
            if _needs_models(visit, self.arbiter):
                self.odds.take(*place, _stated(visit) or panel.odds_answer(visit))


def judge_of(reading: Reading, policy: Policy | None = None) -> Policy | None:
    """The judge that the store names, else that of the policy; None where there is none."""
    kept = reading.about.get("judge")
    if kept is None:
        return None if policy is None else judge(policy)
    if policy is not None and (mine := judge_to_json(policy)) != kept:
        raise BadFile(f"the policy must be the one the store was made with; {difference(kept, mine)}")
    return judge_from_json(kept)


def _events(reading: Reading, head: int) -> tuple[Level, int]:
    """Whether every position from 1 to the head is there, and how many of them are decisions."""
    level, before, decisions = Level("events"), 0, 0
    for line in progress(reading.lines(0, head), head, "events"):
        if reading.gapless and line.position != before + 1:
            gap = line.position - before - 1
            level.take("", before + 1, Differs("nothing", f"an event at each of {gap:,} positions"))
        keyed = reading.rule != "sum" and line.kind == "reward" and line.key
        wrong = Differs(f"a reward with key {line.key!r:.60}", "one without") if keyed else None
        level.take(line.id, line.position, wrong)
        before, decisions = line.position, decisions + (line.kind == "decision")
    return level, decisions


def _draw_answer(visit: Visit, draws: Draws) -> CheckResult:
    if visit.decision is None:
        return _damaged(visit.why)
    try:
        return draws.check(visit.line, visit.decision, visit.evidence)
    except UNREADABLE as error:
        return _damaged(error)


def _odds_answer(visit: Visit, arbiter: Policy | None, draws: Draws, tolerance: float) -> CheckResult:
    if (wrong := _stated(visit)) is not None:
        return wrong
    if visit.decision is None:
        return Untested("it cannot be read")
    if arbiter is None:
        why = "the store does not say how its policy weighs votes"
        return draws.incumbent if visit.evidence.shadow else Untested(why)
    if visit.folded is None:
        return Untested(visit.why)
    try:
        found = check_odds(visit.decision, visit.evidence, visit.folded.policy, visit.folded.state, tolerance)
        return draws.of_incumbent(found, visit.evidence) if visit.evidence.shadow else found
    except UNREADABLE as error:
        return _damaged(error)


def _damaged(why: object) -> Differs:
    """Parts of a decision do not fit together, or cannot be read."""
    return Differs(f"what is no decision ({why!s:.80})", "a decision")


def _needs_models(visit: Visit, arbiter: Policy | None) -> bool:
    """Whether the odds can be recomputed with the policy's own models only."""
    return not visit.evidence.shadow and (arbiter is None or visit.evidence.votes is None)


def _stated(visit: Visit) -> CheckResult:
    """Whether the state it says it was made with was there before it."""
    return None if made_with(visit.line) else Differs(f"the state at position {visit.line.seen}", "one before it")
