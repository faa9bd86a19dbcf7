"""Slates: the part of /v1/decide that fills several slots. All slots use the same
state, and are written with one commit."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from oddsmith.agent.call import Call, call_of
from oddsmith.agent.slate import Slot, remaining_call, slate_of, slots_of
from oddsmith.contexts.values import check_json
from oddsmith.core.errors import Conflict, InvalidInput
from oddsmith.server.experiment.experiment import EVERYTHING, Experiment
from oddsmith.server.experiment.follower import Now
from oddsmith.server.http.routes.draw import (
    ENTRY_ARMS,
    NewDecision,
    SlotCall,
    answer_new,
    answer_stored,
    check_again,
    check_unit,
    make,
    new_id,
    offer_call,
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
from oddsmith.server.store.events import Activation, is_id
from oddsmith.server.store.protocol import Receipt, Store
from oddsmith.server.store.slates import OfSlate, slot_id

__all__ = ["activate_slate", "decide_slate", "slot_refusals", "with_slots"]


class _NewSlate(NamedTuple):
    """The decisions of all slots, which are not on disk yet, and the input of the
    policy for each slot."""

    decisions: list[NewDecision]
    calls: Sequence[Call]


async def decide_slate(
    experiment: Experiment, message: Decide, sender: str
) -> SlateAnswer:
    """Decide all slots, and answer when all of them are on disk; `sender` is the name
    of the key.

    If the slate was decided before, return its first answer.
    """
    slots = _checked_slots(experiment, message)
    slate = message.id
    if slate is None:
        # Reserve a step now, because other requests may run before the first slot takes
        # one.
        experiment.steps += 1
        slate = new_id(experiment)
    lock: Any = nullcontext()
    if experiment.follower.now.in_place:
        lock = experiment.follower.learning
    async with lock:  # all slots use the same state
        new = await _fill_once(experiment, message, slate, slots, sender)
    receipts = await experiment.writer.append([one.event for one in new.decisions])
    if receipts[0].refused is not None:
        raise receipts[0].refused
    is_new = all(receipt.new for receipt in receipts)
    if is_new:
        answers = await _new_answers(experiment, new.decisions, receipts)
    else:
        answers = await _first_answers(experiment, slate, new, with_odds=message.odds)
    slot_answers: list[SlotAnswer] = []
    for number, (slot, answer) in enumerate(zip(slots, answers, strict=True), 1):
        fields = _set_fields(answer)
        slot_answers.append(SlotAnswer(slot=number, name=slot.name, **fields))
    return SlateAnswer(slate, experiment.name, slot_answers, is_new)


async def activate_slate(
    experiment: Experiment, slate: str, sender: str
) -> EventAnswer:
    """Activate all decisions of a slate with one commit."""
    lines = await asyncio.to_thread(experiment.store.of_slate, slate)
    if not lines:
        raise NotFound(
            f"there is no slate {slate!r:.140} in experiment {experiment.name!r}"
        )
    lost = await experiment.unlearnable_ids([line.id for line in lines])
    if lost:
        raise InvalidInput(
            f"slate must be one that experts can learn from; contexts of {len(lost)} "
            "slots are erased"
        )
    receipts = await experiment.writer.append(
        [Activation(line.id, experiment.clock(), sender) for line in lines]
    )
    position = max(receipt.accepted() for receipt in receipts)
    return EventAnswer(slate, position, any(receipt.new for receipt in receipts))


async def slot_refusals(
    experiment: Experiment, rewards: Sequence[RewardEntry]
) -> dict[int, InvalidInput]:
    """Return errors for rewards of unknown slots of known slates, by their index in
    `rewards`.

    A reward for an unknown slate is accepted. It waits until the slate is decided, like
    a reward for any unknown id.
    """
    by_slot = {
        place: entry for place, entry in enumerate(rewards) if entry.slate is not None
    }
    if not by_slot:
        return {}
    return await asyncio.to_thread(_slot_refusals, experiment.store, by_slot)


async def with_slots(
    experiment: Experiment, refused: OfSlate, slate: str
) -> InvalidInput:
    """Return the error for a slate's id in place of a decision's id. It lists the slots
    of the slate."""
    lines = await asyncio.to_thread(experiment.store.of_slate, slate)
    names = _slot_names(slate, [line.id for line in lines])
    return InvalidInput(f"{refused} with {names}: send slate, and slot for a reward")


def _slot_refusals(
    store: Store, rewards: Mapping[int, RewardEntry]
) -> dict[int, InvalidInput]:
    ids = [reward.id for reward in rewards.values()]
    decided = _decided(store, ids)
    refusals: dict[int, InvalidInput] = {}
    for place, reward in rewards.items():
        slate = reward.slate or ""
        if reward.id in decided or not is_id(slate):
            continue
        slots = [line.id for line in store.of_slate(slate)]
        if slots:
            refusals[place] = InvalidInput(
                f"slot must be one of slate {slate!r:.140}, which has "
                f"{_slot_names(slate, slots)}; got {str(reward.slot)!r:.60}"
            )
        elif _decided(store, [slate]):
            refusals[place] = InvalidInput(
                f"slate must be one; got {slate!r:.140}, which is a decision: send it "
                "as id"
            )
    return refusals


def _decided(store: Store, ids: Sequence[str]) -> set[str]:
    """Return the ids that belong to decisions."""
    history = store.history(ids, EVERYTHING)
    return {line.id for line in history if line.kind == "decision"}


def _slot_names(slate: str, ids: Sequence[str]) -> str:
    """Describe the slots of a slate. The store contains only hashes of slot names, so
    only numbers can be listed."""
    numbers = [str(number) for number in range(1, len(ids) + 1)]
    if list(ids) != [slot_id(slate, number) for number in numbers]:
        return f"{len(ids)} slots with other names"
    if len(ids) < 10:
        return f"slots {', '.join(numbers)}"
    return f"slots 1 to {len(ids)}"


def _checked_slots(experiment: Experiment, message: Decide) -> Sequence[SlotEntry]:
    """Return the slots of the message, by name or number. Raise an error if other
    fields of the message do not allow slots."""
    if experiment.settings.sticky:
        raise InvalidInput(
            f"slots must be left out, because experiment {experiment.name!r} is "
            "sticky; got some"
        )
    check_unit(experiment, message)
    if message.incumbent is not None or message.incumbent_odds is not None:
        raise InvalidInput(
            "incumbent and its odds must be given for each of the slots; got them "
            "outside of slots"
        )
    check_json(message.context)
    if isinstance(message.slots, list):
        check_json([slot.features for slot in message.slots], "slots")
        slots_of([Slot(slot.name) for slot in message.slots])
        return message.slots
    return [SlotEntry(name=slot.name) for slot in slots_of(message.slots)]


async def _fill_once(
    experiment: Experiment,
    message: Decide,
    slate: str,
    slots: Sequence[SlotEntry],
    sender: str,
) -> _NewSlate:
    """Decide all slots with the same actions of operators, too. If one is read in the
    meantime, decide them again."""
    operator = experiment.operator
    while True:
        action = operator.controls.position
        new = await _fill(experiment, message, slate, slots, sender)
        if all(one.event.action == action for one in new.decisions):
            return new


async def _fill(
    experiment: Experiment,
    message: Decide,
    slate: str,
    slots: Sequence[SlotEntry],
    sender: str,
) -> _NewSlate:
    """Decide all slots with the current state."""
    now = experiment.now
    whole = _slate_call(experiment, now, message)
    choices = len(slots) * len(whole.names)
    if choices > ENTRY_ARMS:
        raise InvalidInput(
            f"slots times arms must be at most {ENTRY_ARMS:,}; got {choices:,}: offer "
            "a shortlist"
        )
    places = [Slot(slot.name, slot.features, eligible=slot.eligible) for slot in slots]
    restrict = None
    if experiment.operator.bars_arms:
        restrict = experiment.operator.restrict
    calls = slate_of(whole, message.context, places, restrict)
    _check_incumbents(slots, calls)
    decisions: list[NewDecision] = []
    turns = Turns()
    for number, (slot, call) in enumerate(zip(slots, calls, strict=True), 1):
        entry = DecideEntry(
            context=call.context,
            unit=message.unit,
            deferred=message.deferred,
            incumbent=slot.incumbent,
            incumbent_odds=slot.incumbent_odds,
            odds=message.odds,
        )
        drawn_arms = [new.event.decision.number for new in decisions]
        slot_call = SlotCall(
            now, remaining_call(call, drawn_arms, len(call.names)), slate
        )
        id = slot_id(slate, slot.name)
        try:
            new = await make(experiment, entry, id, sender, slot_call)
        except InvalidInput as error:
            raise InvalidInput(f"slot {slot.name!r:.40}: {error}") from error
        event = replace(new.event, slate=slate, slot=number)
        decisions.append(new._replace(event=event))
        await turns.give()
    return _NewSlate(decisions, calls)


def _check_incumbents(slots: Sequence[SlotEntry], calls: Sequence[Call]) -> None:
    """Raise if an earlier slot could draw the arm of an incumbent, whether or not it
    does.

    If only some draws were refused, the propensities would not be those of the
    remaining draws.
    """
    earlier_calls: list[Call] = []
    for slot, call in zip(slots, calls, strict=True):
        if slot.incumbent is None:
            earlier_calls.append(call)
        elif earlier_calls and slot.incumbent in call.names:
            arm = call.names.number(slot.incumbent, "incumbent")
            masks = [earlier.mask for earlier in earlier_calls]
            if any(mask is None or mask[arm] for mask in masks):
                raise InvalidInput(
                    f"slot {slot.name!r:.40}: incumbent must be an arm that no slot "
                    f"before it may draw; got {slot.incumbent!r:.60}: put it before "
                    "them, or give all slots incumbents"
                )


def _slate_call(experiment: Experiment, now: Now, message: Decide) -> Call:
    """Return the input of the policy before any slot is filled."""
    if now.arms is None or message.arms is not None:
        return offer_call(experiment, now, message)
    return call_of(now.policy, now.arms, message.context, None, message.eligible)


async def _new_answers(
    experiment: Experiment, decisions: list[NewDecision], receipts: Sequence[Receipt]
) -> list[DecisionAnswer]:
    """Return the answers for the slots of a new slate."""
    pairs = zip(decisions, receipts, strict=True)
    return [await answer_new(experiment, new, receipt) for new, receipt in pairs]


async def _first_answers(
    experiment: Experiment, slate: str, new: _NewSlate, *, with_odds: bool | None
) -> list[DecisionAnswer]:
    """Return the original answers if this slate was requested before; it must still
    have the same slots."""
    lines = await asyncio.to_thread(experiment.store.of_slate, slate)
    kept_ids = [line.id for line in lines]
    new_ids = [one.event.id for one in new.decisions]
    if kept_ids != new_ids:
        raise Conflict(
            f"slate {slate!r:.140} was decided before, with other slots; ask with "
            "another id"
        )
    for line, call in zip(lines, new.calls, strict=True):
        check_again(f"slate {slate!r:.140}", line.arm, call.names, call.mask)
    positions = [line.position for line in lines]
    decisions = await asyncio.to_thread(experiment.store.decisions, positions)
    return [
        answer_stored(experiment, line, decision, with_odds=with_odds)
        for line, decision in zip(lines, decisions, strict=True)
    ]


def _set_fields(answer: DecisionAnswer) -> dict[str, Any]:
    """Return the fields of an answer that are set."""
    fields = msgspec.structs.asdict(answer)
    return {name: value for name, value in fields.items() if value is not msgspec.UNSET}
