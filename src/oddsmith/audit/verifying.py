"""verify: whether every decision of a store follows from what the store says, and which record does not."""

from collections.abc import Mapping, Sequence

from oddsmith.arrays import number
from oddsmith.audit.checks import INCUMBENT, check_draw, check_odds
from oddsmith.audit.panel import Panel
from oddsmith.audit.verdicts import CheckResult, Differs, Level, Untested, VerifyReport
from oddsmith.audit.walking import UNREADABLE, Visit, made_with, start_of, walk
from oddsmith.errors import BadFile
from oddsmith.experts.base import Experts
from oddsmith.fingerprint import difference
from oddsmith.policies.base import Policy
from oddsmith.policies.judge import judge, judge_from_json, judge_to_json
from oddsmith.progress import progress
from oddsmith.storage.base import Reading
from oddsmith.storage.folding import roster_change
from oddsmith.uniforms import Uniforms

__all__ = ["judge_of", "verify"]


def verify(
    reading: Reading,
    *,
    policy: Policy | None = None,
    bench: Mapping[str, Experts] | None = None,
    tolerance: float = 0.0,
) -> VerifyReport:
    """Whether the events have no gap, and every decision follows, on three levels.

    1. The draw: the arm is the one that seed and id draw from the recorded odds.
    2. The odds: recorded votes, weighed by the fold of all events up to the recorded position, give the recorded odds
       to the last bit. Needs no models: the store says how its policy weighs. Other builds of the arithmetic may round
       in another way; for them there is a `tolerance`.
    3. The experts, where `policy` is given (and `bench`, the experts that joined): asked again in the recorded context,
       they say what was recorded, to 1e-9; those that learn are folded along. Odds whose votes were not kept are
       recomputed from them too.

    One pass forward for levels 1 and 2, one for level 3, in memory that does not grow with the store but for a few
    bytes for each decision. Progress is shown on a terminal.
    """
    number("tolerance", tolerance, low=0, high=1e-6)
    head = reading.head()
    arbiter = judge_of(reading, policy)
    events, decisions = _events(reading, head)
    draw, odds, experts = Level("draw"), Level("odds"), Level("experts")
    seed, arms = reading.about.get("seed"), reading.about.get("arms") or ()
    uniform = None if seed is None else Uniforms(seed)
    start = None if arbiter is None else start_of(reading, arbiter)
    for visit in progress(walk(reading, start, roster_change(), head), decisions, "draws and odds"):
        place = visit.line.id, visit.line.position
        draw.take(*place, _draw_answer(visit, arms, uniform))
        if policy is None or not _needs_models(visit, arbiter):
            odds.take(*place, _odds_answer(visit, arbiter, tolerance))
    name = str(reading.about.get("experiment", ""))
    if policy is None:
        return VerifyReport(name, head, decisions, (events, draw, odds))
    panel = Panel()
    visits = walk(reading, start_of(reading, policy), roster_change(bench or {}), head)
    for visit in progress(visits, decisions, "experts"):
        place = visit.line.id, visit.line.position
        experts.take(*place, panel.advice_answer(visit))
        if _needs_models(visit, arbiter):
            odds.take(*place, _stated(visit) or panel.odds_answer(visit))
    return VerifyReport(name, head, decisions, (events, draw, odds, experts))


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
        level.take(line.id, line.position, None)
        before, decisions = line.position, decisions + (line.kind == "decision")
    return level, decisions


def _draw_answer(visit: Visit, arms: Sequence[str], uniform: Uniforms | None) -> CheckResult:
    if visit.decision is None:
        return _damaged(visit.why)
    try:
        return check_draw(visit.line.id, visit.decision, visit.evidence.shadow, arms, uniform)
    except UNREADABLE as error:
        return _damaged(error)


def _odds_answer(visit: Visit, arbiter: Policy | None, tolerance: float) -> CheckResult:
    if (wrong := _stated(visit)) is not None:
        return wrong
    if visit.decision is None:
        return Untested("it cannot be read")
    if arbiter is None:
        return Untested(INCUMBENT if visit.evidence.shadow else "the store does not say how its policy weighs votes")
    if visit.folded is None:
        return Untested(visit.why)
    try:
        return check_odds(visit.decision, visit.evidence, visit.folded.policy, visit.folded.state, tolerance)
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
