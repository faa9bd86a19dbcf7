"""Multi-slot calls: a slate, one slot after the other; rewards by slot; activation of
all slots at once."""

from collections.abc import Sequence

from oddsmith.core.errors import InvalidInput
from oddsmith.server.compat.personalizer.events import part_key
from oddsmith.server.compat.personalizer.messages import (
    MultiSlotAnswer,
    MultiSlotRequest,
    MultiSlotRewards,
    PageSlot,
    SlotShown,
    checked_id,
    event_id,
    text_of,
)
from oddsmith.server.compat.personalizer.rank import check_same, flat_features, offer_of
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.http.door import NO_CONTENT, Visit
from oddsmith.server.http.response import Response
from oddsmith.server.http.routes.rewards import activate, reward_batch
from oddsmith.server.http.routes.slates import decide_slate, slot_refusals
from oddsmith.server.messages.calls import (
    Activate,
    Decide,
    ErrorAnswer,
    RewardBatch,
    RewardEntry,
    SlotEntry,
)
from oddsmith.server.store.events import LONGEST_ID

__all__ = ["activate_slots", "rank_slots", "reward_slots"]


async def rank_slots(experiment: Experiment, visit: Visit) -> MultiSlotAnswer:
    """An action for each slot; no action stands in two of them."""
    request: MultiSlotRequest = visit.message
    arms = offer_of(request.actions)
    if len(request.slots) > len(arms):
        raise InvalidInput(
            f"slots must be at most as many as actions, {len(arms)}; got "
            f"{len(request.slots)}"
        )
    slots = [_slot(experiment, slot, arms) for slot in request.slots]
    _check_baselines(request.slots)
    answer = await decide_slate(
        experiment,
        Decide(
            context=flat_features(request.context_features or [], "contextFeatures"),
            arms=arms,
            id=event_id(request.event_id, visit),
            deferred=bool(request.defer_activation),
            slots=slots,
            odds=True,
        ),
        visit.sender,
    )
    for shown, slot in () if answer.new else zip(answer.slots, slots, strict=True):
        odds = shown.odds if isinstance(shown.odds, dict) else {}
        check_same(
            experiment,
            answer.slate,
            odds=odds,
            arms=arms,
            eligible=slot.eligible or arms,
        )
    return MultiSlotAnswer(
        [SlotShown(one.name, one.arm) for one in answer.slots], answer.slate
    )


async def reward_slots(experiment: Experiment, visit: Visit) -> Response:
    """Keep rewards of some slots; others may follow, and those that never do get the
    default."""
    message: MultiSlotRewards = visit.message
    low, high = experiment.scale.low, experiment.scale.high
    for one in message.reward:  # all of them, or none
        slot = checked_id("slotId", one.slot_id)
        if not low <= one.value <= high:
            raise InvalidInput(
                f"value of slot {slot!r:.60} must be in [{low:g}, {high:g}]; got "
                f"{one.value:g}"
            )
    slate, key = (
        checked_id("eventId", visit.parameters["event"]),
        part_key(experiment, visit),
    )
    rewards = [
        RewardEntry(
            slate=slate,
            slot=text_of(one.slot_id),
            reward=one.value,
            key=key and f"{place} {key}"[:LONGEST_ID],
        )
        for place, one in enumerate(message.reward)
    ]
    for refusal in (await slot_refusals(experiment, rewards)).values():
        raise refusal
    results = await reward_batch(experiment, RewardBatch(rewards=rewards), visit.sender)
    for result in results.results:
        is_repeat = (
            isinstance(result, ErrorAnswer)
            and result.code == "conflict"
            and experiment.settings.rule != "sum"
        )
        if isinstance(result, ErrorAnswer) and not is_repeat:
            raise InvalidInput(result.error)
    return NO_CONTENT


async def activate_slots(experiment: Experiment, visit: Visit) -> Response:
    """All slots of an event count from now on."""
    # what no rank can have would be waited for for ever
    slate = checked_id("eventId", visit.parameters["event"])
    await activate(experiment, Activate(slate=slate), visit.sender)
    return NO_CONTENT


def _slot(experiment: Experiment, slot: PageSlot, arms: dict[str, object]) -> SlotEntry:
    """A slot as our own; its baseline is the incumbent's action, where one acts."""
    name, baseline = text_of(slot.id), text_of(slot.baseline_action)
    excluded = {text_of(one) for one in slot.excluded_actions or ()}
    if unknown := sorted(excluded - arms.keys()):
        raise InvalidInput(
            f"excludedActions of slot {name!r:.60} must be actions; got "
            f"{unknown[0]!r:.60}"
        )
    if baseline not in arms or baseline in excluded:
        why = "excluded" if baseline in excluded else "no action"
        raise InvalidInput(
            f"baselineAction of slot {name!r:.60} must be an action; got "
            f"{baseline!r:.60}, which is {why}"
        )
    return SlotEntry(
        name=name,
        features=flat_features(slot.features, f"features of slot {name!r:.60}")
        if slot.features
        else None,
        eligible=[arm for arm in arms if arm not in excluded] if excluded else None,
        incumbent=baseline if experiment.settings.shadow else None,
    )


def _check_baselines(slots: Sequence[PageSlot]) -> None:
    names = [text_of(slot.baseline_action) for slot in slots]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InvalidInput(
            f"baselineAction must be another one in each slot; got {twice[0]!r:.60} "
            "twice"
        )
