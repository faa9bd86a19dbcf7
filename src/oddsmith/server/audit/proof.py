"""verify: check that every decision of a store can be computed again from the events.

If the models are there, the policy's own experts predict again for the recorded
contexts.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from oddsmith.contexts.values import single
from oddsmith.core.arrays import number
from oddsmith.core.decision import Context, Decision, Odds, State
from oddsmith.core.errors import BadFile
from oddsmith.core.experts import Experts
from oddsmith.core.offer import Offer
from oddsmith.core.policy import Policy
from oddsmith.experts.guard.guard import Guarded
from oddsmith.files.fingerprint import difference
from oddsmith.logs.progress import LINE_EVERY_S, progress
from oddsmith.policies.holdout import odds_of_record
from oddsmith.server.audit.checks import (
    CLOSE,
    INCUMBENT,
    SPEAKS_NOW,
    Draws,
    Opinions,
    check_advice,
    check_incumbent,
    check_odds,
    same_odds,
)
from oddsmith.server.audit.facts import Contexts, StateCheck, check_facts
from oddsmith.server.audit.force import InForce, is_paused
from oddsmith.server.audit.verdicts import (
    CheckResult,
    Differs,
    Level,
    Untested,
    VerifyReport,
)
from oddsmith.server.audit.walk import (
    UNREADABLE,
    Visit,
    has_earlier_state,
    start_of,
    walk,
)
from oddsmith.server.fold.fold import FoldState, roster_change
from oddsmith.server.fold.judge import gts_inside, judge, judge_from_json, judge_to_json
from oddsmith.server.store.protocol import Erased, Reading

__all__ = ["Panel", "judge_of", "verify"]


class Panel:
    """Calls the experts of a policy again, without a time limit. An expert that raises
    has no prediction."""

    def __init__(self) -> None:
        # cache of the last policy whose experts were asked, and these experts without a
        # time limit
        self._policy: Policy | None = None
        self._bank: Guarded | None = None
        # cache of the last policy that computed propensities, and the same policy
        # without a time limit
        self._patient_of: Policy | None = None
        self._patient: Policy | None = None

    def check_advice(self, visit: Visit) -> CheckResult:
        """Check that the experts predict the recorded values."""
        return self._run(visit, self._check_advice)

    def check_odds(self, visit: Visit) -> CheckResult:
        """Check that the policy, with its models, computes the recorded propensities,
        up to 1e-9."""
        return self._run(visit, self._check_odds)

    def _run(
        self, visit: Visit, check: Callable[[Visit, FoldState, Decision], CheckResult]
    ) -> CheckResult:
        """Run a check if the experts can be called."""
        decision = visit.decision
        if visit.folded is None or decision is None:
            why = visit.why or "the state it was made with is not known"
            return Untested(why, visit.erased)
        if isinstance(decision.context, Erased):
            return Untested("its context was erased", excused=True)
        if isinstance(decision.features, Erased):
            return Untested("its context was erased", excused=True)
        try:
            return check(visit, visit.folded, decision)
        # experts from outside this library may raise anything
        except Exception as error:
            return Untested(f"the experts cannot be asked: {type(error).__name__}")

    def _check_advice(
        self, visit: Visit, folded: FoldState, decision: Decision
    ) -> CheckResult:
        if decision.advice is None:
            return Untested("it has no advice")
        opinions = self._ask(folded.policy, folded.state, decision)
        if opinions is None:
            return Untested("its policy does not record advice", excused=True)
        return check_advice(decision, visit.evidence.votes, opinions)

    def _ask(self, policy: Policy, state: State, decision: Decision) -> Opinions | None:
        inner = gts_inside(policy)
        if inner is None:
            advice = self._odds(policy, state, decision).advice
            if advice is None:
                return None
            names = [f"expert {i}" for i in range(len(advice))]
            return Opinions(names, advice, None, np.True_)
        if policy is not self._policy or self._bank is None:
            self._policy = policy
            self._bank = Guarded(_without_guard(inner.experts))
        context = _question(decision)
        advised = self._bank.advise(state.experts, context, decision.eligible)
        offer = context if isinstance(context, Offer) else None
        answer = policy.cast(advised, eligible=decision.eligible, offer=offer)
        return Opinions(inner.experts.names, *answer, inner.prior > 0)

    def _check_odds(
        self, _: Visit, folded: FoldState, decision: Decision
    ) -> CheckResult:
        again = self._odds(folded.policy, folded.state, decision)
        if decision.advice is not None and again.advice is not None:
            was_silent = np.isnan(decision.advice)
            predicts = ~np.isnan(again.advice[:, decision.number])
            if (was_silent & predicts).any():
                return SPEAKS_NOW
        follows = odds_of_record(decision, again.propensities)
        return same_odds(decision.propensities, follows, CLOSE)

    def _odds(self, policy: Policy, state: State, decision: Decision) -> Odds:
        """Compute the propensities of a decision again, by a policy whose experts have
        no time limit."""
        if policy.bank is not None:
            if policy is not self._patient_of:
                bank = _without_guard(policy.bank)
                guard = Guarded(bank, None, policy.prediction_range)
                self._patient_of = policy
                self._patient = policy.with_bank(guard)
            policy = self._patient or policy
        return policy.odds(
            state,
            _question(decision),
            eligible=decision.eligible,
            step=decision.step,
        )


def _without_guard(bank: Experts) -> Experts:
    return bank.experts if isinstance(bank, Guarded) else bank


def _question(decision: Decision) -> Context:
    """Return the input of the policy: the offer of arms, or the context."""
    if decision.arms is not None:
        return decision.question
    return single(decision.context)


def verify(
    reading: Reading,
    *,
    policy: Policy | None = None,
    bench: Mapping[str, Experts] | None = None,
    facts: Mapping[str, object] | None = None,
    tolerance: float = 0.0,
) -> VerifyReport:
    """Check that no events are missing, that facts and snapshots are consistent, and
    that every decision can be computed again. Decisions are checked at three levels.

    1. The draw: seed and id select the arm from the recorded propensities.
    2. The propensities: recorded votes, weighed by the fold of all events up to the
       recorded position, give the recorded propensities to the last bit. This needs no
       models, because the store contains the judge of its policy. Other builds of the
       arithmetic can round differently; `tolerance` allows for them.
    3. The experts, if `policy` is given (and `bench`, the experts that joined): in the
       recorded context, they predict the recorded values again, to 1e-9. Experts that
       learn are folded. Without recorded votes, propensities are recomputed from them.

    `facts` contains name, arms, units of rewards and seed of the policy file, which
    must equal those of the store.

    Levels 1 and 2 read the store once, and level 3 once more. Memory grows by a few
    bytes per decision. Level 3 takes as long as the experts took to decide. Progress is
    shown on a terminal; level 3 also writes a line to standard error every 30 s.
    """
    number("tolerance", tolerance, low=0, high=1e-6)
    # read the snapshots first, because new events may be written in the meantime
    states = StateCheck(reading)
    proof = _Proof(reading, reading.head(), judge_of(reading, policy), states)
    proof.check_store(policy, facts or {})
    proof.weigh_again(tolerance, models=policy is not None)
    if policy is not None:
        proof.ask_again(policy, bench or {}, tolerance)
    return proof.report(policy is not None)


@dataclass
class _Proof:
    """The results of all checks while they run, by level."""

    reading: Reading
    head: int
    arbiter: Policy | None
    states: StateCheck
    facts: Level = field(default_factory=lambda: Level("facts"))
    events: Level = field(default_factory=lambda: Level("events"))
    draw: Level = field(default_factory=lambda: Level("draw"))
    odds: Level = field(default_factory=lambda: Level("odds"))
    experts: Level = field(default_factory=lambda: Level("experts"))
    counts: Counter[str] = field(default_factory=Counter)

    def report(self, models: bool) -> VerifyReport:
        levels: tuple[Level, ...] = (
            self.facts,
            self.events,
            self.draw,
            self.odds,
            self.states.level,
        )
        if models:
            levels = (*levels, self.experts)
        name = str(self.reading.about.get("experiment", ""))
        counts = self.counts
        return VerifyReport(name, counts.total(), counts["decision"], levels)

    def check_store(
        self, policy: Policy | None, expected: Mapping[str, object]
    ) -> None:
        """Check the facts, and the positions of events and snapshots."""
        self.facts = check_facts(self.reading, self.arbiter, policy, expected)
        self.states.check_head(self.head)
        self._check_events()

    def weigh_again(self, tolerance: float, *, models: bool) -> None:
        """Check draws, propensities and states with the policy that the store
        describes. This needs no models."""
        reading = self.reading
        arbiter = self.arbiter
        contexts = Contexts()
        draws = Draws(reading)
        start = None if arbiter is None else start_of(reading, arbiter)
        stops = self.states.stops(self.head, tolerance)
        visits = walk(reading, start, roster_change(), self.head, stops)
        force = InForce(reading)
        for visit in progress(visits, self.counts["decision"], "draws and odds"):
            line = visit.line
            contexts.take(visit)
            self.draw.take(line.id, line.position, _check_draw(visit, draws))
            if not models or not _needs_models(visit, arbiter):
                answer = _check_odds(force, visit, arbiter, tolerance)
                self.odds.take(line.id, line.position, answer)
        contexts.report(self.events)

    def ask_again(
        self, policy: Policy, bench: Mapping[str, Experts], tolerance: float
    ) -> None:
        """Check the experts, and the propensities of decisions without recorded
        votes."""
        panel = Panel()
        total = self.counts["decision"]
        start = start_of(self.reading, policy)
        stops = self.states.stops(self.head, max(tolerance, CLOSE), models=True)
        visits = walk(self.reading, start, roster_change(bench), self.head, stops)
        force = InForce(self.reading)
        for visit in progress(visits, total, "experts", every=LINE_EVERY_S):
            line = visit.line
            visit = force.applied(visit)
            answer = None if is_paused(visit) else panel.check_advice(visit)
            self.experts.take(line.id, line.position, answer)
            if _needs_models(visit, self.arbiter):
                answer = _check_state(visit) or force.check(visit)
                if answer is None and not is_paused(visit):
                    answer = panel.check_odds(visit)
                self.odds.take(line.id, line.position, answer)

    def _check_events(self) -> None:
        """Check that every position up to the head has an event, and count events."""
        reading = self.reading
        before = 0
        total = sum(reading.tally().values())
        for line in progress(reading.lines(0, self.head), total, "events"):
            if reading.gapless and line.position != before + 1:
                gap = line.position - before - 1
                missing = Differs("nothing", f"an event at each of {gap:,} positions")
                self.events.take("", before + 1, missing)
            wrong = None
            if reading.rule != "sum" and line.kind == "reward" and line.key:
                wrong = Differs(f"a reward with key {line.key!r:.60}", "one without")
            self.events.take(line.id, line.position, wrong)
            before = line.position
            self.counts[line.kind] += 1


def judge_of(reading: Reading, policy: Policy | None = None) -> Policy | None:
    """Return a policy that weighs recorded votes: the policy that the store describes
    or, without a description, the same part of `policy`. None if there is neither."""
    recorded = reading.about.get("judge")
    if recorded is None:
        return None if policy is None else judge(policy)
    if policy is not None:
        page = judge_to_json(policy)
        if page != recorded:
            raise BadFile(
                "the policy must be the one that the store was made with; "
                f"{difference(recorded, page)}"
            )
    return judge_from_json(recorded)


def _check_draw(visit: Visit, draws: Draws) -> CheckResult:
    if visit.decision is None:
        return _damaged(visit.why)
    if is_paused(visit) and visit.evidence.shadow:
        return Untested(INCUMBENT, excused=True)
    try:
        return draws.check(visit.line, visit.decision, visit.evidence)
    except UNREADABLE as error:
        return _damaged(error)


def _check_odds(
    force: InForce, visit: Visit, arbiter: Policy | None, tolerance: float
) -> CheckResult:
    wrong = _check_state(visit) or force.check(visit)
    if wrong is not None or is_paused(visit):
        return wrong
    visit = force.applied(visit)
    decision = visit.decision
    evidence = visit.evidence
    folded = visit.folded
    if decision is None:
        return Untested("it cannot be read")
    if arbiter is None:
        if not evidence.shadow:
            return Untested("the store does not describe how its policy weighs votes")
        answer = check_incumbent(None, evidence)
        return answer or Untested(INCUMBENT, excused=True)
    if folded is None:
        return Untested(visit.why)
    try:
        answer = check_odds(decision, evidence, folded.policy, folded.state, tolerance)
        return check_incumbent(answer, evidence)
    except UNREADABLE as error:
        return _damaged(error)


def _damaged(why: object) -> Differs:
    """Return the result for a decision that cannot be read, or whose fields contradict
    each other."""
    return Differs(f"something that is not a decision ({why!s:.80})", "a decision")


def _needs_models(visit: Visit, arbiter: Policy | None) -> bool:
    """Return whether only the policy's own models can recompute the propensities."""
    if visit.evidence.shadow or is_paused(visit):
        return False
    return arbiter is None or visit.evidence.votes is None


def _check_state(visit: Visit) -> CheckResult:
    """Check that the state of a decision existed before the decision."""
    if has_earlier_state(visit.line):
        return None
    return Differs(f"the state at position {visit.line.seen}", "one before it")
