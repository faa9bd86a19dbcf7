"""Routes that decide: one decision, the slots of a slate, or many decisions."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace

from oddsmith.core.errors import Conflict, InvalidInput
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.http.routes.draw import (
    ENTRY_ARMS,
    check_unit,
    complete,
    make,
    offer,
    told,
)
from oddsmith.server.http.routes.route import (
    BATCH_BYTES,
    CHANGES,
    DECIDE,
    WRITES,
    Route,
)
from oddsmith.server.http.routes.slates import decide_slate
from oddsmith.server.http.routes.turns import Turns
from oddsmith.server.messages.calls import (
    Decide,
    DecideBatch,
    DecideEntry,
    DecisionAnswer,
    ErrorAnswer,
    Results,
    SlateAnswer,
)
from oddsmith.server.store.events import DecisionMade

__all__ = ["ROUTES", "decide", "decide_batch"]


async def decide(
    experiment: Experiment, message: DecideEntry, sender: str
) -> DecisionAnswer:
    """One decision, on disk; `sender` is the name of the key that asks for it."""
    for_unit = experiment.settings.sticky and (
        message.incumbent is None or experiment.settings.shadow
    )
    # an incumbent that steps in keeps nothing for a unit
    if message.unit is not None or for_unit:
        return await _decide_for_unit(experiment, message, sender)
    event, answer = await make(experiment, message, message.id, sender)
    (receipt,) = await experiment.writer.append([event])
    return await complete(experiment, event, answer, receipt)


async def decide_batch(
    experiment: Experiment, message: DecideBatch, sender: str
) -> Results:
    """Many decisions with one commit; each entry is answered, or refused, for
    itself."""
    for entry in message.decisions:
        entry.arms = message.arms if entry.arms is None else entry.arms
    choices = sum(
        len(experiment.arms or () if entry.arms is None else entry.arms)
        for entry in message.decisions
    )
    if choices > ENTRY_ARMS:
        got = f"{choices:,} in {len(message.decisions):,} decisions"
        raise InvalidInput(
            f"a batch must have at most {ENTRY_ARMS:,} arms in all its entries; got "
            f"{got}: send fewer"
        )
    if experiment.settings.sticky:
        decided = (decide(experiment, entry, sender) for entry in message.decisions)
        answers = await asyncio.gather(*decided, return_exceptions=True)
    else:
        answers = await _decide_all(experiment, message.decisions, sender)
    return Results(
        [
            ErrorAnswer.of(one) if isinstance(one, BaseException) else one
            for one in answers
        ]
    )


async def _decide_all(
    experiment: Experiment, entries: Sequence[DecideEntry], sender: str
) -> list[DecisionAnswer | BaseException]:
    answers: list[DecisionAnswer | BaseException] = []
    made: dict[int, tuple[DecisionMade, DecisionAnswer]] = {}
    turns = Turns()
    for place, entry in enumerate(entries):
        try:
            check_unit(experiment, entry)
            made[place] = await make(experiment, entry, entry.id, sender)
            answers.append(made[place][1])
        except Exception as error:
            answers.append(error)
        await turns.give()
    receipts = (
        await experiment.writer.append([event for event, _ in made.values()])
        if made
        else ()
    )
    for (place, one), receipt in zip(made.items(), receipts, strict=True):
        try:
            answers[place] = await complete(experiment, *one, receipt)
        except Conflict as error:
            answers[place] = error
    return answers


async def _decide_for_unit(
    experiment: Experiment, message: DecideEntry, sender: str
) -> DecisionAnswer:
    """The decision that the unit has, or its next one."""
    check_unit(experiment, message)
    while True:
        kept, turn = await _kept_for(experiment, message)
        if kept is not None:
            return kept
        event, answer = await make(experiment, message, None, sender)
        (receipt,) = await experiment.writer.append(
            [replace(event, unit=message.unit, turn=turn)]
        )
        if receipt.new:  # else another request was faster, for the same unit
            return await complete(experiment, event, answer, receipt)


async def _kept_for(
    experiment: Experiment, message: DecideEntry
) -> tuple[DecisionAnswer | None, int]:
    """The decision a unit has, if its arm is eligible here; and the turn that its next
    one is."""
    lines = await asyncio.to_thread(experiment.store.of_unit, message.unit or "")
    allowed: Collection[str] | None = message.eligible
    if experiment.arms is None or message.arms is not None:
        call = offer(experiment, experiment.follower.now, message)
        allowed = {
            arm
            for place, arm in enumerate(call.names)
            if call.mask is None or call.mask[place]
        }
    for line in lines:
        if allowed is None or line.arm in allowed:
            (decision,) = await asyncio.to_thread(
                experiment.store.decisions, [line.position]
            )
            return told(experiment, line, decision, with_odds=message.odds), len(lines)
    return None, len(lines) + 1


_KNOWN: dict[str, object] = {
    "article-17": {"topic": "sports", "age_h": 2.0},
    "article-18": {"topic": "tech", "age_h": None},
}
_SLOTS = [
    {"name": "top", "features": {"size": "large"}},
    {"name": "side", "eligible": list(_KNOWN)},
]
_VISIT: dict[str, object] = {"context": {"hour": 9, "device": "phone"}}

ROUTES = (
    Route(
        "POST",
        "/v1/decide",
        decide,
        "Draw an arm, or one for each slot.",
        DECIDE,
        Decide,
        DecisionAnswer,
        CHANGES,
        slate_handler=decide_slate,
        slate_answer=SlateAnswer,
        examples={
            "Arms of the policy file": _VISIT,
            "Arms of the call, with features": _VISIT
            | {"id": "visit-7", "arms": _KNOWN},
            "Arms of the call, names alone": _VISIT
            | {"id": "visit-8", "arms": list(_KNOWN)},
            "Two slots": _VISIT | {"id": "page-7", "arms": _KNOWN, "slots": 2},
            "Slots with names": _VISIT
            | {"id": "page-8", "arms": _KNOWN, "slots": _SLOTS},
        },
    ),
    Route(
        "POST",
        "/v1/decide/batch",
        decide_batch,
        "Draw arms.",
        DECIDE,
        DecideBatch,
        Results,
        WRITES,
        BATCH_BYTES,
        examples={
            "Arms for all, and for one": {
                "decisions": [_VISIT, _VISIT | {"arms": ["a"]}],
                "arms": _KNOWN,
            }
        },
    ),
)
