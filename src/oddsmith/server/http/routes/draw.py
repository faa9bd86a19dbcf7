"""How one decision is made: ask the experts, draw an arm, and what is written and
answered."""

import asyncio
import logging
from collections.abc import Hashable, Sequence
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
from oddsmith.core.decision import LEAST_PROPENSITY, Context, Decision, Odds, draw
from oddsmith.core.errors import Conflict, InvalidInput
from oddsmith.core.names import Arms, OfferedArms
from oddsmith.core.offer import Offer
from oddsmith.core.policy import Policy
from oddsmith.experts.guard.guard import Guarded
from oddsmith.server.experiment.experiment import OTHERS, Experiment
from oddsmith.server.experiment.follower import Now
from oddsmith.server.messages.calls import DecideEntry, DecisionAnswer
from oddsmith.server.store.events import DecisionMade, OwnDraw
from oddsmith.server.store.protocol import Line, Receipt

__all__ = [
    "ENTRY_ARMS",
    "Ready",
    "by_incumbent",
    "check_again",
    "check_unit",
    "complete",
    "make",
    "offer",
    "told",
]


def check_again(
    what: str, arm: Hashable, names: Sequence[Hashable] | None, eligible: Bools | None
) -> None:
    """Refuses to answer again with an arm that the repeated call does not offer, or
    that is not eligible in it."""
    if names is None:
        return
    if arm not in names:
        had = (
            f"{what} was answered with arm {arm!r}, which is not among those offered "
            "now"
        )
        raise Conflict(f"{had}; offer it, or ask with another id")
    if eligible is not None and not eligible[list(names).index(arm)]:
        had = f"{what} was answered with arm {arm!r}, which is not eligible now"
        raise Conflict(f"{had}; make it eligible, or ask with another id")


_log = logging.getLogger(__name__)
ENTRY_ARMS = 100_000
"""Arms in all decisions of one request: what is computed for it, and answered, grows
with their product."""
_ODDS_ARMS = 100  # up to so many, odds of all arms are answered unless told otherwise


class Ready(NamedTuple):
    """The state and the call of a decision that is made with others, by one state."""

    now: Now
    call: Call


async def complete(
    experiment: Experiment,
    event: DecisionMade,
    answer: DecisionAnswer,
    receipt: Receipt,
) -> DecisionAnswer:
    """The answer with its position; where the id was known before, the first answer
    stands."""
    if not receipt.new:
        first = await asyncio.to_thread(experiment.find, answer.id)
        if first is None:
            raise receipt.refused or Conflict(
                f"id must be that of a decision; got {answer.id!r:.140}"
            )
        decision = event.decision
        check_again(
            f"id {answer.id!r}",
            first[1].arm,
            decision.arms or experiment.arms,
            decision.eligible,
        )
        return told(experiment, *first, with_odds=answer.odds is not UNSET)
    answer.position = receipt.position
    # arms of calls have no end
    experiment.decided[
        OTHERS if experiment.follower.now.arms is None else answer.arm
    ] += 1
    return answer


async def make(
    experiment: Experiment,
    message: DecideEntry,
    id: str | None,
    sender: str,
    ready: Ready | None = None,
) -> tuple[DecisionMade, DecisionAnswer]:
    """A decision that is not yet on disk, and its answer, which lacks the position.

    Without `ready` it is made by the state of now; else what that is must be held still
    by the caller.
    """
    check_json(message.context)
    now, arms = experiment.follower.now, experiment.follower.now.arms
    if ready is not None:
        now, call = ready
    elif arms is None or message.arms is not None:
        call = offer(experiment, now, message)
    else:  # as most calls are
        mask = None if message.eligible is None else arms.mask(message.eligible)
        call = Call(single(message.context), message.context, mask, arms)
    step = experiment.steps = experiment.steps + 1
    id = (
        id
        or f"{int(experiment.clock() * 1000):011x}{experiment.mark}{step & 0xFFFF:04x}"
    )
    if now.in_place and ready is None:
        async with experiment.follower.learning:
            now = experiment.follower.now
            asked = (
                await _odds(experiment, now, call, step) if now.arms is arms else None
            )
        if asked is None:  # another replica has added arms meanwhile
            return await make(experiment, message, id, sender)
    else:
        asked = await _odds(experiment, now, call, step)
    odds, votes = asked
    check_odds(now.policy, odds, eligible=call.mask, step=step)
    if odds.propensities.shape != (len(call.names),):
        raise InvalidInput(
            "context must be a single one; the experts read "
            f"{odds.propensities.shape[:-1]} of them"
        )
    drawn = draw(
        odds, message.context, experiment.uniform(id), eligible=call.mask, step=step
    )
    own = None
    if (
        message.incumbent is not None
        or message.incumbent_odds is not None
        or experiment.settings.shadow
    ):
        own = OwnDraw(drawn.arm, odds.propensities)
        drawn = _incumbents(now, message, call.names, drawn, odds)
    plain = call.features is None and call.names is arms
    decision = (
        drawn._replace(arm=call.names[drawn.arm], index=drawn.arm)
        if plain
        else call.named(drawn)
    )
    facts = (
        now.position,
        experiment.clock(),
        message.deferred,
        votes,
        own is not None,
        sender,
    )
    event = DecisionMade(id, decision, *facts, own=own)
    answer = _answer(experiment, id, decision, now.position, message.odds)
    answer.would = UNSET if own is None else call.names[own.would]
    if decision.advice is not None and now.experts is not None:
        experiment.last_advice.add(now.policy, decision.advice)
        _tell_asleep(experiment, now, decision.advice, answer)
    return event, answer


def offer(experiment: Experiment, now: Now, message: DecideEntry) -> Call:
    """What is asked about the arms that came with the call."""
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
    return (
        call
        if isinstance(call.names, Arms)
        else replace(call, names=OfferedArms(call.names))
    )


def _answer(
    experiment: Experiment,
    id: str,
    decision: Decision,
    seen: int,
    with_odds: bool | None,
) -> DecisionAnswer:
    """The answer to a new decision; its position is not known yet."""
    shares = decision.propensities.tolist()
    # there may be more since
    names = decision.arms or (experiment.follower.now.arms or ())[: len(shares)]
    odds = dict(zip(names, shares, strict=True))
    return DecisionAnswer(
        id=id,
        experiment=experiment.name,
        arm=decision.arm,
        propensity=odds[decision.arm],
        odds=odds
        if with_odds or (with_odds is None and len(odds) <= _ODDS_ARMS)
        else UNSET,
        step=decision.step,
        position=0,
        seen=seen,
        new=True,
    )


def told(
    experiment: Experiment, line: Line, decision: Decision, *, with_odds: bool | None
) -> DecisionAnswer:
    """The answer that was given for a decision that is on disk."""
    answer = _answer(experiment, line.id, decision, line.seen or 0, with_odds)
    answer.position, answer.new = line.position, False
    return answer


async def _odds(
    experiment: Experiment, now: Now, call: Call, step: int
) -> tuple[Odds, Array | None]:
    """The odds in this context, or of this offer, and the votes they were made from.

    Our own banks run on the event loop; other people's code in threads, because it may
    be slow, and on a copy of the context, which it may write into, also when it is
    late. A policy that does not weigh votes gives its odds.
    """
    loop, context, eligible = asyncio.get_running_loop(), call.question, call.mask
    if now.advise is None or now.weigh is None:
        return await loop.run_in_executor(
            experiment.threads, partial(_plain_odds, now, context, eligible, step)
        ), None
    if now.inline:
        advice = now.advise(now.state.experts, context, eligible)
    else:
        ask = partial(now.advise, now.state.experts, deepcopy(context), eligible)
        advice = await loop.run_in_executor(experiment.threads, ask)
    offer = context if isinstance(context, Offer) else None
    if now.cast is not None:
        advice = now.cast(advice, eligible=eligible, offer=offer)
    return now.weigh(
        now.state, advice, eligible=eligible, step=step, offer=offer
    ), advice[1]


def _plain_odds(now: Now, context: Context, eligible: Bools | None, step: int) -> Odds:
    """The odds of a policy without experts under guard; whatever it raises is a refusal
    of the context."""
    try:
        return now.policy.odds(now.state, context, eligible=eligible, step=step)
    except InvalidInput:
        raise
    except Exception as error:
        raise InvalidInput(
            f"context must be one that the policy can read; {type(error).__name__}: "
            f"{error}"
        ) from error


def _tell_asleep(
    experiment: Experiment, now: Now, advice: Array, answer: DecisionAnswer
) -> None:
    """Name sleepers in the answer; one line in the log for each expert that fails, the
    first time."""
    names = () if now.experts is None else now.experts.names
    predictions = advice[: len(names)]  # policies may append values of their own
    asleep = [names[int(place)] for place in np.flatnonzero(np.isnan(predictions))]
    answer.asleep = asleep or UNSET
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


def _incumbents(
    now: Now, message: DecideEntry, arms: Arms, decision: Decision, ours: Odds
) -> Decision:
    """The decision of the incumbent that acts in shadow mode: its arm, with its
    odds."""
    if message.incumbent is None:
        raise InvalidInput(
            "incumbent must be given with incumbent_odds, and in shadow mode always; "
            "got none"
        )
    arm = arms.number(message.incumbent, "incumbent")
    if decision.eligible is not None and not decision.eligible[arm]:
        raise InvalidInput(
            f"incumbent must be an eligible arm; got {message.incumbent!r}"
        )
    odds = np.zeros(len(arms))
    for name, share in (message.incumbent_odds or {message.incumbent: 1.0}).items():
        odds[arms.number(name, "incumbent_odds")] = share
    if abs(odds.sum() - 1) > 1e-9:
        raise InvalidInput(f"incumbent_odds must sum to 1; got {odds.sum():.6g}")
    if decision.eligible is not None and odds[~decision.eligible].any():
        barred = arms[int((odds * ~decision.eligible).argmax())]
        raise InvalidInput(
            f"incumbent_odds must be 0 for arms that are not eligible; got "
            f"{odds[arms.number(barred, 'incumbent_odds')]:g} for {barred!r:.60}"
        )
    if odds[arm] < LEAST_PROPENSITY:
        raise InvalidInput(
            f"incumbent_odds must be at least {LEAST_PROPENSITY:g} for the incumbent, "
            f"{message.incumbent!r:.60}; got {odds[arm]:g}"
        )
    return by_incumbent(now.policy, decision, ours=ours, arm=arm, odds=odds)


def by_incumbent(
    policy: Policy, decision: Decision, *, ours: Odds, arm: int, odds: Array
) -> Decision:
    """A decision of the policy, by odds of ours, as the incumbent's: its arm and odds,
    our advice on that arm."""
    column = None if ours.advice is None else ours.advice[:, arm].astype(np.float64)
    bonus = policy.complete(ours._replace(propensities=odds)).bonus
    return decision._replace(arm=arm, propensities=odds, advice=column, bonus=bonus)


def check_unit(experiment: Experiment, message: DecideEntry) -> None:
    """Refuses a unit where nothing is kept for it, and its lack, or another id, where
    something is."""
    name, sticky = experiment.name, experiment.settings.sticky
    if message.unit is not None and not sticky:
        raise InvalidInput(
            f"unit must be left out, for experiment {name!r} is not sticky; got "
            f"{message.unit!r}"
        )
    if message.unit is None and sticky:
        raise InvalidInput(
            f"unit must be given, for experiment {name!r} is sticky; got none"
        )
    if message.id is not None and sticky:
        raise InvalidInput(
            "id must be left out, for a unit's decision has its own; got "
            f"{message.id!r}"
        )
