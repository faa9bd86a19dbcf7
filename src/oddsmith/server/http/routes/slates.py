"""Slates: the part of /v1/decide that fills several slots, by one state and with one
commit; what misses a slot."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, TypeAlias

import msgspec

from oddsmith.agent.call import Call, call_of
from oddsmith.agent.slate import Slot, left, slate_of, slots_of
from oddsmith.contexts.values import check_json
from oddsmith.core.errors import Conflict, InvalidInput
from oddsmith.server.experiment.experiment import EVERYTHING, Experiment
from oddsmith.server.experiment.follower import Now
from oddsmith.server.http.routes.draw import (
    ENTRY_ARMS,
    Ready,
    check_again,
    check_unit,
    complete,
    make,
    offer,
    told,
)
from oddsmith.server.http.routes.turns import Turns
from oddsmith.server.http.service import NotFound
from oddsmith.server.messages.calls import (
    Decide,
    DecideEntry,
    DecisionAnswer,
    EventAnswer,
    RewardEntry,
    SlateAnswer,
    SlotAnswer,
    SlotEntry,
)
from oddsmith.server.store.events import Activation, DecisionMade, is_id
from oddsmith.server.store.protocol import Store
from oddsmith.server.store.slates import OfSlate, slot_id

__all__ = ["activate_slate", "decide_slate", "missed", "with_slots"]

_Made: TypeAlias = list[tuple[DecisionMade, DecisionAnswer]]


async def decide_slate(
    experiment: Experiment, message: Decide, sender: str
) -> SlateAnswer:
    """The decisions of all slots, on disk together; `sender` is the name of the key
    that asks for them.

    A slate that was decided before gets its first answer.
    """
    slots = _checked_slots(experiment, message)
    slate = message.id
    # a step of its own, for others may ask before the first slot takes one
    if slate is None:
        experiment.steps += 1
        slate = (
            f"{int(experiment.clock() * 1000):011x}{experiment.mark}"
            f"{experiment.steps & 0xFFFF:04x}"
        )
    held = (
        experiment.follower.learning
        if experiment.follower.now.in_place
        else nullcontext()
    )
    async with held:  # one state for all of them
        made, calls = await _fill(experiment, message, slate, slots, sender)
    receipts = await experiment.writer.append([event for event, _ in made])
    if receipts[0].refused is not None:
        raise receipts[0].refused
    if not all(receipt.new for receipt in receipts):
        answers, new = (
            await _first_answers(
                experiment, slate, made, calls, with_odds=message.odds
            ),
            False,
        )
    else:
        pairs = zip(made, receipts, strict=True)
        answers, new = (
            [await complete(experiment, *one, receipt) for one, receipt in pairs],
            True,
        )
    named = zip(slots, answers, strict=True)
    return SlateAnswer(
        slate,
        experiment.name,
        [
            SlotAnswer(slot=n, name=slot.name, **_fields(answer))
            for n, (slot, answer) in enumerate(named, 1)
        ],
        new,
    )


async def activate_slate(
    experiment: Experiment, slate: str, sender: str
) -> EventAnswer:
    """All decisions of a slate were shown: written with one commit."""
    lines = await asyncio.to_thread(experiment.store.of_slate, slate)
    if not lines:
        raise NotFound(
            f"there is no slate {slate!r:.140} in experiment {experiment.name!r}"
        )
    if lost := await experiment.unlearnable_ids([line.id for line in lines]):
        raise InvalidInput(
            f"slate must be one that experts can learn from; contexts of {len(lost)} "
            "slots are erased"
        )
    receipts = await experiment.writer.append(
        [Activation(line.id, experiment.clock(), sender) for line in lines]
    )
    position = max(receipt.accepted() for receipt in receipts)
    return EventAnswer(slate, position, any(receipt.new for receipt in receipts))


async def missed(
    experiment: Experiment, rewards: Sequence[RewardEntry]
) -> dict[int, InvalidInput]:
    """Refusals of rewards by slate and slot, by their places: the slate is known, and
    has no such slot.

    Those of slates that are not known yet wait for them, as rewards of unknown ids do.
    """
    named = {
        place: (one.id, one.slate, one.slot)
        for place, one in enumerate(rewards)
        if one.slate is not None
    }
    return await asyncio.to_thread(_missed, experiment.store, named) if named else {}


async def with_slots(
    experiment: Experiment, refused: OfSlate, slate: str
) -> InvalidInput:
    """The refusal of an id that is a slate's, with the slots that it has."""
    lines = await asyncio.to_thread(experiment.store.of_slate, slate)
    return InvalidInput(
        f"{refused} with {_names(slate, [line.id for line in lines])}: send slate, and "
        "slot for a reward"
    )


def _missed(
    store: Store, named: Mapping[int, tuple[str, str, str | int | None]]
) -> dict[int, InvalidInput]:
    history = store.history([id for id, _, _ in named.values()], EVERYTHING)
    decided = {line.id for line in history if line.kind == "decision"}
    refusals: dict[int, InvalidInput] = {}
    for place, (id, slate, slot) in named.items():
        if id in decided or not is_id(slate):
            continue
        if ids := [line.id for line in store.of_slate(slate)]:
            had = (
                f"slot must be one of slate {slate!r:.140}, which has "
                f"{_names(slate, ids)}"
            )
            refusals[place] = InvalidInput(f"{had}; got {str(slot)!r:.60}")
        elif any(
            line.kind == "decision" for line in store.history([slate], EVERYTHING)
        ):
            refusals[place] = InvalidInput(
                f"slate must be one; got {slate!r:.140}, which is a decision: send it "
                "as id"
            )
    return refusals


def _names(slate: str, ids: Sequence[str]) -> str:
    """The slots of a slate in words; the log knows names by their hashes alone, so that
    only numbers can be told."""
    numbers = [str(n) for n in range(1, len(ids) + 1)]
    if list(ids) != [slot_id(slate, name) for name in numbers]:
        return f"{len(ids)} slots of other names"
    return f"slots {', '.join(numbers)}" if len(ids) < 10 else f"slots 1 to {len(ids)}"


def _checked_slots(experiment: Experiment, message: Decide) -> Sequence[SlotEntry]:
    """The slots as they were sent, or so many; what does not go with slots is
    refused."""
    if experiment.settings.sticky:
        raise InvalidInput(
            f"slots must be left out, for experiment {experiment.name!r} is sticky; "
            "got some"
        )
    check_unit(experiment, message)
    if message.incumbent is not None or message.incumbent_odds is not None:
        raise InvalidInput(
            "incumbent and its odds must be given in each of the slots; got them "
            "beside slots"
        )
    check_json(message.context)
    if isinstance(message.slots, list):
        check_json([slot.features for slot in message.slots], "slots")
        slots_of([Slot(slot.name) for slot in message.slots])
        return message.slots
    return [SlotEntry(name=slot.name) for slot in slots_of(message.slots)]


async def _fill(
    experiment: Experiment,
    message: Decide,
    slate: str,
    slots: Sequence[SlotEntry],
    sender: str,
) -> tuple[_Made, Sequence[Call]]:
    """The decisions of all slots, not yet on disk, by the state of now; and what each
    slot may have."""
    now = experiment.follower.now
    whole = _call(experiment, now, message)
    if (choices := len(slots) * len(whole.names)) > ENTRY_ARMS:
        raise InvalidInput(
            f"slots times arms must be at most {ENTRY_ARMS:,}; got {choices:,}: offer "
            "a shortlist"
        )
    places = [Slot(slot.name, slot.features, eligible=slot.eligible) for slot in slots]
    made: _Made = []
    calls = slate_of(whole, message.context, places)
    _check_incumbents(slots, calls)
    turns = Turns()
    for place, call in enumerate(calls):
        slot, taken = slots[place], [event.decision.number for event, _ in made]
        asked = DecideEntry(
            context=call.context,
            deferred=message.deferred,
            incumbent=slot.incumbent,
            incumbent_odds=slot.incumbent_odds,
            odds=message.odds,
        )
        ready = Ready(now, left(call, taken, len(call.names)))
        try:
            event, answer = await make(
                experiment, asked, slot_id(slate, slot.name), sender, ready
            )
        except InvalidInput as error:
            raise InvalidInput(f"slot {slot.name!r:.40}: {error}") from error
        made.append((replace(event, slate=slate, slot=place + 1), answer))
        await turns.give()
    return made, calls


def _check_incumbents(slots: Sequence[SlotEntry], calls: Sequence[Call]) -> None:
    """Refuses an incumbent's arm that a slot before it may draw, whatever is drawn.

    Odds of what was drawn would not be those of what is seen, if some draws were
    refused.
    """
    drawn: list[Call] = []
    for slot, call in zip(slots, calls, strict=True):
        if slot.incumbent is None:
            drawn.append(call)
        elif drawn and slot.incumbent in call.names:
            arm = call.names.number(slot.incumbent, "incumbent")
            if any(earlier.mask is None or earlier.mask[arm] for earlier in drawn):
                then = "put it before them, or give all slots incumbents"
                raise InvalidInput(
                    f"slot {slot.name!r:.40}: incumbent must be an arm that no slot "
                    f"before it may draw; got {slot.incumbent!r:.60}: {then}"
                )


def _call(experiment: Experiment, now: Now, message: Decide) -> Call:
    """What is asked before any slot is filled."""
    if now.arms is None or message.arms is not None:
        return offer(experiment, now, message)
    return call_of(now.policy, now.arms, message.context, None, message.eligible)


async def _first_answers(
    experiment: Experiment,
    slate: str,
    made: _Made,
    calls: Sequence[Call],
    *,
    with_odds: bool | None,
) -> list[DecisionAnswer]:
    """What was answered for a slate that was decided before, if it is the one that is
    asked for now."""
    lines = await asyncio.to_thread(experiment.store.of_slate, slate)
    if [line.id for line in lines] != [event.id for event, _ in made]:
        raise Conflict(
            f"slate {slate!r:.140} was decided before, with other slots; ask with "
            "another id"
        )
    for line, call in zip(lines, calls, strict=True):
        check_again(f"slate {slate!r:.140}", line.arm, call.names, call.mask)
    decisions = await asyncio.to_thread(
        experiment.store.decisions, [line.position for line in lines]
    )
    return [
        told(experiment, *one, with_odds=with_odds)
        for one in zip(lines, decisions, strict=True)
    ]


def _fields(answer: DecisionAnswer) -> dict[str, Any]:
    """The fields of an answer that are set."""
    return {
        name: value
        for name, value in msgspec.structs.asdict(answer).items()
        if value is not msgspec.UNSET
    }
