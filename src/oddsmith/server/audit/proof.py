"""Panel: a policy's real experts, asked again in the contexts of old decisions."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from oddsmith.contexts.values import single
from oddsmith.core.arrays import number
from oddsmith.core.decision import Context, Decision, State
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
from oddsmith.server.audit.verdicts import (
    CheckResult,
    Differs,
    Level,
    Untested,
    VerifyReport,
)
from oddsmith.server.audit.walk import UNREADABLE, Visit, made_with, start_of, walk
from oddsmith.server.fold.fold import FoldState, roster_change
from oddsmith.server.fold.judge import gts_inside, judge, judge_from_json, judge_to_json
from oddsmith.server.store.protocol import Erased, Reading

__all__ = ["Panel", "judge_of", "verify"]


class Panel:
    """Asks without a limit of time; an expert that raises sleeps."""

    def __init__(self) -> None:
        self._policy: Policy | None = None
        self._bank: Experts | None = None
        self._asked: tuple[Policy, Policy] | None = None

    def advice_answer(self, visit: Visit) -> CheckResult:
        """Whether the experts say what was recorded."""
        return self._answer(visit, self._check_advice)

    def odds_answer(self, visit: Visit) -> CheckResult:
        """Whether the policy, with its models, gives the recorded odds, to 1e-9."""
        return self._answer(visit, self._check_odds)

    def _answer(
        self, visit: Visit, check: Callable[[Visit, FoldState, Decision], CheckResult]
    ) -> CheckResult:
        """What a check says, where the experts can be asked."""
        if visit.folded is None or visit.decision is None:
            return Untested(
                visit.why or "the state it was made with is not known", visit.erased
            )
        if isinstance(visit.decision.context, Erased) or isinstance(
            visit.decision.features, Erased
        ):
            return Untested("its context was erased", excused=True)
        try:
            return check(visit, visit.folded, visit.decision)
        except Exception as error:  # whatever the experts of others raise
            return Untested(f"the experts cannot be asked: {type(error).__name__}")

    def _check_advice(
        self, visit: Visit, folded: FoldState, decision: Decision
    ) -> CheckResult:
        if decision.advice is None:
            return Untested("it has no advice")
        opinions = self._ask(folded.policy, folded.state, decision)
        if opinions is None:
            return Untested("its policy records no advice", excused=True)
        return check_advice(decision, visit.evidence.votes, opinions)

    def _ask(self, policy: Policy, state: State, decision: Decision) -> Opinions | None:
        inner, context = gts_inside(policy), _question(decision)
        if inner is None:
            advice = (
                self._patient(policy)
                .odds(state, context, eligible=decision.eligible, step=decision.step)
                .advice
            )
            names = [f"expert {i}" for i in range(0 if advice is None else len(advice))]
            return None if advice is None else Opinions(names, advice, None, np.True_)
        if policy is not self._policy or self._bank is None:
            bank = inner.experts
            self._policy, self._bank = (
                policy,
                Guarded(bank.experts if isinstance(bank, Guarded) else bank),
            )
        answer = policy.cast(
            self._bank.advise(state.experts, context, decision.eligible),
            eligible=decision.eligible,
            offer=context if isinstance(context, Offer) else None,
        )
        return Opinions(inner.experts.names, *answer, inner.prior > 0)

    def _check_odds(
        self, _: Visit, folded: FoldState, decision: Decision
    ) -> CheckResult:
        context, step = _question(decision), decision.step
        again = self._patient(folded.policy).odds(
            folded.state, context, eligible=decision.eligible, step=step
        )
        if decision.advice is not None and again.advice is not None:
            asleep = np.isnan(decision.advice)
            speaks = ~np.isnan(again.advice[:, decision.number])
            if (asleep & speaks).any():
                return SPEAKS_NOW
        follows = odds_of_record(decision, again.propensities)
        return same_odds(decision.propensities, follows, CLOSE)

    def _patient(self, policy: Policy) -> Policy:
        """The policy with experts that sleep where they fail, without a limit of
        time."""
        bank = policy.bank
        if bank is None:
            return policy
        if self._asked is None or self._asked[0] is not policy:
            inner = bank.experts if isinstance(bank, Guarded) else bank
            guard = Guarded(inner, None, policy.prediction_range)
            self._asked = policy, policy.with_bank(guard)
        return self._asked[1]


def _question(decision: Decision) -> Context:
    """What the policy was asked: the offer, or the context."""
    return decision.question if decision.arms is not None else single(decision.context)


def verify(
    reading: Reading,
    *,
    policy: Policy | None = None,
    bench: Mapping[str, Experts] | None = None,
    facts: Mapping[str, object] | None = None,
    tolerance: float = 0.0,
) -> VerifyReport:
    """Whether the events have no gap, facts and snapshots are as they must be, and
    every decision follows, thrice.

    1. The draw: the arm is the one that seed and id draw from the recorded odds.
    2. The odds: recorded votes, weighed by the fold of all events up to the recorded
       position, give the recorded odds to the last bit. Needs no models: the store says
       how its policy weighs. Other builds of the arithmetic may round in another way;
       for them there is a `tolerance`.
    3. The experts, where `policy` is given (and `bench`, the experts that joined):
       asked again in the recorded context, they say what was recorded, to 1e-9; those
       that learn are folded along. Odds whose votes were not kept are recomputed from
       them too.

    `facts` are what the policy file says of name, arms, units of rewards and seed: the
    store must say the same.

    One pass forward for levels 1 and 2, one for level 3, in memory that does not grow
    with the store but for a few bytes for each decision. Level 3 takes as long as the
    experts took to decide. Progress is shown on a terminal; of level 3 elsewhere, too,
    as a line on standard error every 30 s.
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
    counts: Counter[str] = field(default_factory=Counter)

    def report(self, models: bool) -> VerifyReport:
        levels = (self.facts, self.events, self.draw, self.odds, self.states.level)
        name = str(self.reading.about.get("experiment", ""))
        return VerifyReport(
            name,
            self.counts.total(),
            self.counts["decision"],
            (*levels, self.experts) if models else levels,
        )

    def check_store(self, policy: Policy | None, said: Mapping[str, object]) -> None:
        """What needs no fold: the facts, the positions of events and of snapshots."""
        self.facts = check_facts(self.reading, self.arbiter, policy, said)
        self.states.check_head(self.head)
        self.events, self.counts = _events(self.reading, self.head)

    def weigh_again(self, tolerance: float, *, models: bool) -> None:
        """Draws, odds and states, by the judge."""
        reading, arbiter, contexts = self.reading, self.arbiter, Contexts()
        start = None if arbiter is None else start_of(reading, arbiter)
        visits = walk(
            reading,
            start,
            roster_change(),
            self.head,
            self.states.stops(self.head, tolerance),
        )
        draws = Draws(reading)
        for visit in progress(visits, self.counts["decision"], "draws and odds"):
            place = visit.line.id, visit.line.position
            contexts.take(visit)
            self.draw.take(*place, _draw_answer(visit, draws))
            if not models or not _needs_models(visit, arbiter):
                self.odds.take(*place, _odds_answer(visit, arbiter, tolerance))
        for miss in contexts.misses():
            self.events.take(*miss)

    def ask_again(
        self, policy: Policy, bench: Mapping[str, Experts], tolerance: float
    ) -> None:
        """The experts, and odds whose votes were not kept."""
        panel, start = Panel(), start_of(self.reading, policy)
        stops = self.states.stops(self.head, max(tolerance, CLOSE), models=True)
        visits = walk(self.reading, start, roster_change(bench), self.head, stops)
        for visit in progress(
            visits, self.counts["decision"], "experts", every=LINE_EVERY_S
        ):
            place = visit.line.id, visit.line.position
            self.experts.take(*place, panel.advice_answer(visit))
            if _needs_models(visit, self.arbiter):
                self.odds.take(*place, _stated(visit) or panel.odds_answer(visit))


def judge_of(reading: Reading, policy: Policy | None = None) -> Policy | None:
    """The judge that the store names, else that of the policy; None where there is
    none."""
    kept = reading.about.get("judge")
    if kept is None:
        return None if policy is None else judge(policy)
    if policy is not None and (mine := judge_to_json(policy)) != kept:
        raise BadFile(
            "the policy must be the one the store was made with; "
            f"{difference(kept, mine)}"
        )
    return judge_from_json(kept)


def _events(reading: Reading, head: int) -> tuple[Level, Counter[str]]:
    """Whether every position from 1 to the head is there, and how many events there
    are of each kind."""
    level = Level("events")
    counts = Counter[str]()
    before = 0
    total = sum(reading.tally().values())
    for line in progress(reading.lines(0, head), total, "events"):
        if reading.gapless and line.position != before + 1:
            gap = line.position - before - 1
            level.take(
                "",
                before + 1,
                Differs("nothing", f"an event at each of {gap:,} positions"),
            )
        keyed = reading.rule != "sum" and line.kind == "reward" and line.key
        wrong = (
            Differs(f"a reward with key {line.key!r:.60}", "one without")
            if keyed
            else None
        )
        level.take(line.id, line.position, wrong)
        before = line.position
        counts[line.kind] += 1
    return level, counts


def _draw_answer(visit: Visit, draws: Draws) -> CheckResult:
    if visit.decision is None:
        return _damaged(visit.why)
    try:
        return draws.check(visit.line, visit.decision, visit.evidence)
    except UNREADABLE as error:
        return _damaged(error)


def _odds_answer(visit: Visit, arbiter: Policy | None, tolerance: float) -> CheckResult:
    if (wrong := _stated(visit)) is not None:
        return wrong
    if visit.decision is None:
        return Untested("it cannot be read")
    if arbiter is None:
        if visit.evidence.shadow:
            return check_incumbent(None, visit.evidence) or Untested(
                INCUMBENT, excused=True
            )
        return Untested("the store does not say how its policy weighs votes")
    if visit.folded is None:
        return Untested(visit.why)
    try:
        found = check_odds(
            visit.decision,
            visit.evidence,
            visit.folded.policy,
            visit.folded.state,
            tolerance,
        )
        return check_incumbent(found, visit.evidence)
    except UNREADABLE as error:
        return _damaged(error)


def _damaged(why: object) -> Differs:
    """Parts of a decision do not fit together, or cannot be read."""
    return Differs(f"what is no decision ({why!s:.80})", "a decision")


def _needs_models(visit: Visit, arbiter: Policy | None) -> bool:
    """Whether the odds can be recomputed with the policy's own models only."""
    return not visit.evidence.shadow and (
        arbiter is None or visit.evidence.votes is None
    )


def _stated(visit: Visit) -> CheckResult:
    """Whether the state it says it was made with was there before it."""
    return (
        None
        if made_with(visit.line)
        else Differs(f"the state at position {visit.line.seen}", "one before it")
    )
