"""Routes that make decisions: a single decision, a slate, or a batch."""

import asyncio
from collections.abc import Sequence

from oddsmith.core.errors import Conflict, InvalidInput
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.http.routes.draw import (
    ENTRY_ARMS,
    NewDecision,
    answer_new,
    check_unit,
    decide,
    make,
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

__all__ = ["ROUTES", "decide", "decide_batch"]


async def decide_batch(
    experiment: Experiment, message: DecideBatch, sender: str
) -> Results:
    """Make many decisions with one commit; each entry gets its own answer or error."""
    n_arms = 0
    for entry in message.decisions:
        if entry.arms is None:
            entry.arms = message.arms
        if entry.arms is not None:
            n_arms += len(entry.arms)
        elif experiment.arms is not None:
            n_arms += len(experiment.arms)
    if n_arms > ENTRY_ARMS:
        raise InvalidInput(
            f"a batch must have at most {ENTRY_ARMS:,} arms in all its entries; got "
            f"{n_arms:,} in {len(message.decisions):,} decisions: send fewer"
        )
    answers: Sequence[DecisionAnswer | BaseException]
    if experiment.settings.sticky:
        decisions = (decide(experiment, entry, sender) for entry in message.decisions)
        answers = await asyncio.gather(*decisions, return_exceptions=True)
    else:
        answers = await _decide_all(experiment, message.decisions, sender)
    results: list[DecisionAnswer | ErrorAnswer] = []
    for answer in answers:
        if isinstance(answer, BaseException):
            results.append(ErrorAnswer.of(answer))
        else:
            results.append(answer)
    return Results(results)


async def _decide_all(
    experiment: Experiment, entries: Sequence[DecideEntry], sender: str
) -> list[DecisionAnswer | BaseException]:
    """Make the decisions of entries that do not depend on each other; return an answer
    or an error for each entry."""
    answers: dict[int, DecisionAnswer | BaseException] = {}
    made: dict[int, NewDecision] = {}
    turns = Turns()
    for place, entry in enumerate(entries):
        try:
            check_unit(experiment, entry)
            made[place] = await make(experiment, entry, entry.id, sender)
        except Exception as error:
            answers[place] = error
        await turns.give()
    if made:
        events = [new.event for new in made.values()]
        receipts = await experiment.writer.append(events)
        for (place, new), receipt in zip(made.items(), receipts, strict=True):
            try:
                answers[place] = await answer_new(experiment, new, receipt)
            except Conflict as error:
                answers[place] = error
    return [answers[place] for place in range(len(entries))]


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
        "Draw arms for many decisions.",
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
