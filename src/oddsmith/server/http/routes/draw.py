"""Make one decision: ask the experts, draw an arm, write the event, and answer.

Each stage of a decision has its own type: `Decide` (the message), `Call` (the input of
the policy), `Odds` (the propensities), `Decision`, `DecisionMade` (the event),
`EventRow` (the row in the store), `Receipt` (the position in the log) and
`DecisionAnswer`.
"""

import asyncio
import logging
from collections.abc import Collection, Hashable, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from msgspec import UNSET

from oddsmith.agent.call import Call, call_of
from oddsmith.contexts.values import check_json, single
from oddsmith.core.arrays import Array, Bools
from oddsmith.core.checks import check_odds
from oddsmith.core.decision import PAUSED, Context, Decision, Odds
from oddsmith.core.draw import draw
from oddsmith.core.errors import Conflict, InvalidInput
from oddsmith.core.names import Arms, OfferedArms
from oddsmith.core.offer import Offer
from oddsmith.experts.guard.guard import Guarded
from oddsmith.server.experiment.experiment import OTHERS, DrawnAdvice, Experiment
from oddsmith.server.experiment.follower import Now
from oddsmith.server.http.routes.incumbents import incumbent_decision
from oddsmith.server.messages.calls import DecideEntry, DecisionAnswer
from oddsmith.server.store.events import DecisionMade, OwnDraw
from oddsmith.server.store.protocol import Line, Receipt

__all__ = [
    "ENTRY_ARMS",
    "NewDecision",
    "SlotCall",
    "answer_new",
    "answer_stored",
    "check_again",
    "check_unit",
    "decide",
    "make",
    "new_id",
    "offer_call",
]

_log = logging.getLogger(__name__)
ENTRY_ARMS = 100_000
"""Maximum total number of arms in the decisions of one request. It limits the time and
the size of the answer."""
# with up to this number of arms, answers contain all propensities by default
_ODDS_ARMS = 100


class SlotCall(NamedTuple):
    """The input of the policy for one slot of a slate, and the state that is used for
    the whole slate."""

    now: Now
    call: Call
    slate: str


class NewDecision(NamedTuple):
    """A decision that is not on disk yet, as its event, with additional fields for the
    answer.

    `arms` labels the propensities, and `asleep` lists experts without a prediction.
    `with_odds` decides whether the answer contains the propensities of all arms; None
    includes them if there are few arms.
    """

    event: DecisionMade
    arms: Sequence[str]
    asleep: list[str]
    with_odds: bool | None


async def decide(
    experiment: Experiment, message: DecideEntry, sender: str
) -> DecisionAnswer:
    """Make one decision, and answer when it is on disk; `sender` is the name of the
    key."""
    settings = experiment.settings
    # An incumbent that decides instead of the policy does not fix the unit's arm.
    is_sticky = settings.sticky and (message.incumbent is None or settings.shadow)
    if is_sticky or (message.unit is not None and not experiment.has_units):
        return await _decide_for_unit(experiment, message, sender)
    if experiment.has_units:
        check_unit(experiment, message)
    new = await make(experiment, message, message.id, sender)
    (receipt,) = await experiment.writer.append([new.event])
    return await answer_new(experiment, new, receipt)


async def make(
    experiment: Experiment,
    message: DecideEntry,
    id: str | None,
    sender: str,
    slot: SlotCall | None = None,
) -> NewDecision:
    """Make a decision that is not on disk yet.

    If `slot` is given, its state is used, and the caller holds the lock of the state.
    Other decisions use the current state.
    """
    check_json(message.context)
    if experiment.assigner is not None and experiment.assigner.needs_start:
        await experiment.find_start()
    operator = experiment.operator
    now = experiment.now
    if slot is not None:
        now = slot.now
        call = slot.call
    else:
        call = _call(experiment, now, message)
    barred = None
    if operator.bars_arms:
        call, barred = operator.bar(call)
    experiment.steps += 1
    step = experiment.steps
    id = id or new_id(experiment)
    # read once, because other requests may run while experts are asked
    is_paused = operator.serves_control
    action = operator.controls.position
    if is_paused:
        odds = Odds(operator.control_odds(call, step))
        votes = None
    elif now.in_place and slot is None:
        arms = now.arms
        async with experiment.follower.learning:
            now = experiment.now
            is_current = now.arms is arms and operator.controls.position == action
            if is_current:
                odds, votes = await _odds(experiment, now, call, step)
        if not is_current:  # arms were added, or an operator acted, in the meantime
            return await make(experiment, message, id, sender)
    else:
        odds, votes = await _odds(experiment, now, call, step)
    check_odds(now.policy, odds, eligible=call.mask, step=step)
    if odds.propensities.shape != (len(call.names),):
        raise InvalidInput(
            "context must be a single one; the experts read "
            f"{odds.propensities.shape[:-1]} of them"
        )
    uniform = experiment.uniform(id)
    has_incumbent = message.incumbent is not None or message.incumbent_odds is not None
    is_incumbent = has_incumbent or experiment.settings.shadow
    slate = None if slot is None else slot.slate
    assigner = experiment.assigner
    assigned = None
    if assigner is not None and not is_paused:
        assigned = assigner.assign(
            now.policy, odds, call, step, id=id, unit=message.unit, slate=slate
        )
    served = odds
    if assigned is not None and not is_incumbent:
        served = assigned.odds
    drawn = draw(served, message.context, uniform, eligible=call.mask, step=step)
    own = None
    if is_incumbent:
        own = None if is_paused else OwnDraw(drawn.arm, odds.propensities)
        drawn = incumbent_decision(now.policy, message, call.names, drawn, odds)
    has_plain_names = call.features is None and call.names is now.arms
    if has_plain_names:  # gives the same result as `name_arm`, but is faster
        decision = drawn._replace(arm=call.names[drawn.arm], index=drawn.arm)
    else:
        decision = call.name_arm(drawn)
    if is_paused:
        decision = decision._replace(control=odds.propensities, group=PAUSED)
    elif assigned is not None:
        page = None if assigned.group is None else slate
        decision = assigned.record(decision, message.unit or page)
    elif assigner is not None:
        decision = assigner.record_report(
            decision, message.unit or slate, is_incumbent=is_incumbent
        )
    event = DecisionMade(
        id,
        decision,
        seen=now.position,
        time=experiment.clock(),
        deferred=message.deferred,
        votes=votes,
        shadow=is_incumbent,
        sender=sender,
        unit=message.unit,
        own=own,
        action=action,
        barred=barred,
        killed=operator.is_killed_here,
    )
    asleep: list[str] = []
    if decision.advice is not None and now.experts is not None:
        experiment.last_advice.append(DrawnAdvice(now.policy, decision.advice))
        if np.isnan(decision.advice).any():
            asleep = _sleepers(experiment, now, decision.advice)
    return NewDecision(event, call.names, asleep, message.odds)


def _call(experiment: Experiment, now: Now, message: DecideEntry) -> Call:
    """Return the input of the policy for a message."""
    if now.arms is None or message.arms is not None:
        return offer_call(experiment, now, message)
    # the usual case: the arms come from the policy file
    mask = None if message.eligible is None else now.arms.mask(message.eligible)
    return Call(single(message.context), message.context, mask, now.arms)


def new_id(experiment: Experiment) -> str:
    """Return an id for the decision or slate of the current step; ids sort by time."""
    milliseconds = int(experiment.clock() * 1000)
    last_digits = experiment.steps & 0xFFFF
    return f"{milliseconds:011x}{experiment.mark}{last_digits:04x}"


def offer_call(experiment: Experiment, now: Now, message: DecideEntry) -> Call:
    """Return the input of the policy for a message that passes its own arms."""
    if message.arms is None:
        give = (
            'send {"arms": {"article-17": {"topic": "sports"}, "article-18": null}}, '
            "or a list of names"
        )
        raise InvalidInput(
            f"arms must come with calls of experiment {experiment.name!r}; got none: "
            f"{give}"
        )
    check_json(message.arms, "arms")
    call = call_of(
        now.policy, now.arms, message.context, message.arms, message.eligible
    )
    if isinstance(call.names, Arms):
        return call
    return replace(call, names=OfferedArms(call.names))


async def _odds(
    experiment: Experiment, now: Now, call: Call, step: int
) -> tuple[Odds, Array | None]:
    """Return the propensities for this call, and the votes behind them.

    The library's own experts run on the event loop. Experts from outside this library
    run in threads, because they may be slow. They get a copy of the context, because
    they may change it even after their timeout. If the policy does not weigh votes of
    experts, the votes are None.
    """
    loop = asyncio.get_running_loop()
    context = call.question
    eligible = call.mask
    if now.advise is None or now.weigh is None:
        ask_policy = partial(_policy_odds, now, context, eligible, step)
        odds = await loop.run_in_executor(experiment.threads, ask_policy)
        return odds, None
    if now.inline:
        advice = now.advise(now.state.experts, context, eligible)
    else:
        ask = partial(now.advise, now.state.experts, deepcopy(context), eligible)
        advice = await loop.run_in_executor(experiment.threads, ask)
    offer = context if isinstance(context, Offer) else None
    if now.cast is not None:
        advice = now.cast(advice, eligible=eligible, offer=offer)
    _, votes = advice
    odds = now.weigh(now.state, advice, eligible=eligible, step=step, offer=offer)
    return odds, votes


def _policy_odds(now: Now, context: Context, eligible: Bools | None, step: int) -> Odds:
    """Return the propensities of a policy without guarded experts. If the policy raises
    any error, the context is refused."""
    try:
        return now.policy.odds(now.state, context, eligible=eligible, step=step)
    except InvalidInput:
        raise
    except Exception as error:
        raise InvalidInput(
            f"context must be one that the policy can read; {type(error).__name__}: "
            f"{error}"
        ) from error


def _sleepers(experiment: Experiment, now: Now, advice: Array) -> list[str]:
    """Return the experts without a prediction for the drawn arm. The first failure of
    each expert is logged as a warning."""
    names = () if now.experts is None else now.experts.names
    # some policies append other values to the predictions
    predictions = advice[: len(names)]
    places = np.flatnonzero(np.isnan(predictions)).tolist()
    asleep = [names[place] for place in places]
    if isinstance(now.experts, Guarded) and not experiment.warned.issuperset(asleep):
        for name, reason in now.experts.reasons().items():
            if name in asleep and name not in experiment.warned:
                _log.warning(
                    "experiment %s: expert %s sleeps: %r",
                    experiment.name,
                    name,
                    reason[:200],
                )
        experiment.warned.update(asleep)
    return asleep


async def answer_new(
    experiment: Experiment, new: NewDecision, receipt: Receipt
) -> DecisionAnswer:
    """Return the answer to a new decision that is on disk. If its id is a repeat,
    return the first answer."""
    if not receipt.new:
        return await _answer_again(experiment, new, receipt)
    event = new.event
    answer = _answer(
        experiment,
        event.decision,
        new.arms,
        id=event.id,
        position=receipt.position,
        seen=event.seen,
        new=True,
        with_odds=new.with_odds,
    )
    if event.own is not None:
        answer.would = new.arms[event.own.would]
    if new.asleep:
        answer.asleep = new.asleep
    # Arms that are passed in calls are counted together, because their number is
    # unbounded.
    has_arms = experiment.follower.now.arms is not None
    label = answer.arm if has_arms else OTHERS
    experiment.decided[label] += 1
    return answer


async def _answer_again(
    experiment: Experiment, new: NewDecision, receipt: Receipt
) -> DecisionAnswer:
    """Return the first answer to a decision with a repeated id."""
    id = new.event.id
    found = await asyncio.to_thread(experiment.find, id)
    if found is None:
        raise receipt.refused or Conflict(
            f"id must be that of a decision; got {id!r:.140}"
        )
    line, decision = found
    call = new.event.decision
    check_again(f"id {id!r}", line.arm, call.arms or experiment.arms, call.eligible)
    with_odds = new.with_odds
    if with_odds is None:
        with_odds = len(new.arms) <= _ODDS_ARMS
    return answer_stored(experiment, line, decision, with_odds=with_odds)


def answer_stored(
    experiment: Experiment, line: Line, decision: Decision, *, with_odds: bool | None
) -> DecisionAnswer:
    """Return the answer that was given for a decision in the store."""
    return _answer(
        experiment,
        decision,
        experiment.names_of(decision),
        id=line.id,
        position=line.position,
        seen=line.seen or 0,
        new=False,
        with_odds=with_odds,
    )


def _answer(
    experiment: Experiment,
    decision: Decision,
    arms: Sequence[str],
    *,
    id: str,
    position: int,
    seen: int,
    new: bool,
    with_odds: bool | None,
) -> DecisionAnswer:
    """Return the answer to a decision over these arms."""
    odds = dict(zip(arms, decision.propensities.tolist(), strict=True))
    if with_odds is None:
        with_odds = len(odds) <= _ODDS_ARMS
    return DecisionAnswer(
        id=id,
        experiment=experiment.name,
        arm=decision.arm,
        propensity=odds[decision.arm],
        odds=odds if with_odds else UNSET,
        step=decision.step,
        position=position,
        seen=seen,
        new=new,
    )


def check_again(
    what: str, arm: Hashable, names: Sequence[Hashable] | None, eligible: Bools | None
) -> None:
    """Raise if the first answer has an arm that the repeated call does not offer, or
    that is not eligible in it."""
    if names is None:
        return
    if arm not in names:
        raise Conflict(
            f"{what} was answered with arm {arm!r}, which is not among those offered "
            "now; offer it, or ask with another id"
        )
    if eligible is not None and not eligible[list(names).index(arm)]:
        raise Conflict(
            f"{what} was answered with arm {arm!r}, which is not eligible now; make it "
            "eligible, or ask with another id"
        )


def check_unit(experiment: Experiment, message: DecideEntry) -> None:
    """Raise an error if a unit is given but decisions have none, if it is missing, or
    if an id is given although the unit identifies the decision."""
    name = experiment.name
    sticky = experiment.settings.sticky
    has_units = experiment.has_units
    if message.unit is not None and not (sticky or has_units):
        raise InvalidInput(
            f"unit must be left out, because experiment {name!r} is not sticky, and "
            f"its holdout is not by unit; got {message.unit!r}"
        )
    if message.unit is None and sticky:
        raise InvalidInput(
            f"unit must be given, because experiment {name!r} is sticky; got none"
        )
    if message.unit is None and has_units:
        raise InvalidInput(
            f"unit must be given, because the holdout of experiment {name!r} is by "
            "unit; got none"
        )
    if message.id is not None and sticky:
        raise InvalidInput(
            "id must be left out, because a unit's decision has its own; got "
            f"{message.id!r}"
        )


async def _decide_for_unit(
    experiment: Experiment, message: DecideEntry, sender: str
) -> DecisionAnswer:
    """Return the existing decision of a unit, or make its next one."""
    check_unit(experiment, message)
    while True:
        lines = await asyncio.to_thread(experiment.store.of_unit, message.unit or "")
        for line in _allowed_lines(lines, _allowed_arms(experiment, message)):
            positions = [line.position]
            (decision,) = await asyncio.to_thread(experiment.store.decisions, positions)
            # A unit must not keep the policy's arm during a pause, nor the control's
            # arm after it.
            if (decision.group == PAUSED) == experiment.operator.serves_control:
                return answer_stored(experiment, line, decision, with_odds=message.odds)
        new = await make(experiment, message, None, sender)
        event = replace(new.event, unit=message.unit, turn=len(lines) + 1)
        (receipt,) = await experiment.writer.append([event])
        # otherwise a concurrent request of the same unit was first: look up its
        # decision
        if receipt.new:
            return await answer_new(experiment, new, receipt)


def _allowed_arms(
    experiment: Experiment, message: DecideEntry
) -> Collection[str] | None:
    """Return the arms that the message, the operator's actions and the rules permit;
    None for all."""
    now = experiment.now
    operator = experiment.operator
    has_arms = now.arms is not None and message.arms is None
    if has_arms and not operator.bars_arms:
        return message.eligible
    call = operator.restrict(_call(experiment, now, message))
    if call.mask is None:
        return set(call.names)
    return {arm for arm, free in zip(call.names, call.mask, strict=True) if free}


def _allowed_lines(
    lines: Sequence[Line], allowed: Collection[str] | None
) -> list[Line]:
    """Return the decisions whose arm is permitted."""
    return [line for line in lines if allowed is None or line.arm in allowed]
