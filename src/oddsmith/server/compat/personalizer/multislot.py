"""Multi-slot calls: rank actions for several slots, write rewards of slots, and
activate all slots."""

from collections.abc import Sequence

from oddsmith.core.errors import InvalidInput
from oddsmith.server.compat.personalizer.events import part_key
from oddsmith.server.compat.personalizer.messages import (
    MultiSlotAnswer,
    MultiSlotRequest,
    MultiSlotRewards,
    PageSlot,
    SlotAction,
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
    """Draw an action for each slot. No action is drawn for two slots."""
    request: MultiSlotRequest = visit.message
    arms = offer_of(request.actions)
    if len(request.slots) > len(arms):
        raise InvalidInput(
            f"slots must be at most as many as actions, {len(arms)}; got "
            f"{len(request.slots)}"
        )
    slots = [_slot(experiment, slot, arms) for slot in request.slots]
    _check_baselines(request.slots)
    message = Decide(
        context=flat_features(request.context_features or [], "contextFeatures"),
        arms=arms,
        id=event_id(request.event_id, visit),
        deferred=bool(request.defer_activation),
        slots=slots,
        odds=True,
    )
    answer = await decide_slate(experiment, message, visit.sender)
    if not answer.new:
        for decision, slot in zip(answer.slots, slots, strict=True):
            odds = decision.odds if isinstance(decision.odds, dict) else {}
            eligible = slot.eligible or arms
            check_same(
                experiment, answer.slate, odds=odds, arms=arms, eligible=eligible
            )
    slot_actions = [SlotAction(one.name, one.arm) for one in answer.slots]
    return MultiSlotAnswer(slot_actions, answer.slate)


async def reward_slots(experiment: Experiment, visit: Visit) -> Response:
    """Write rewards of some slots. Rewards of other slots may follow, and slots without
    a reward get the default."""
    message: MultiSlotRewards = visit.message
    low = experiment.scale.low
    high = experiment.scale.high
    for one in message.reward:  # check all entries before writing any
        slot = checked_id("slotId", one.slot_id)
        if not low <= one.value <= high:
            raise InvalidInput(
                f"value of slot {slot!r:.60} must be in [{low:g}, {high:g}]; got "
                f"{one.value:g}"
            )
    slate = checked_id("eventId", visit.parameters["event"])
    key = part_key(experiment, visit)
    rewards: list[RewardEntry] = []
    for place, one in enumerate(message.reward):
        entry = RewardEntry(
            slate=slate,
            slot=text_of(one.slot_id),
            reward=one.value,
            key=key and f"{place} {key}"[:LONGEST_ID],
        )
        rewards.append(entry)
    refusals = await slot_refusals(experiment, rewards)
    for refusal in refusals.values():
        raise refusal
    results = await reward_batch(experiment, RewardBatch(rewards=rewards), visit.sender)
    is_sum = experiment.settings.rule == "sum"
    for result in results.results:
        if isinstance(result, ErrorAnswer):
            is_repeat = result.code == "conflict" and not is_sum
            if not is_repeat:
                raise InvalidInput(result.error)
    return NO_CONTENT


async def activate_slots(experiment: Experiment, visit: Visit) -> Response:
    """Activate all slots of an event."""
    # An id that no event can have would wait forever for its decision.
    slate = checked_id("eventId", visit.parameters["event"])
    await activate(experiment, Activate(slate=slate), visit.sender)
    return NO_CONTENT


def _slot(experiment: Experiment, slot: PageSlot, arms: dict[str, object]) -> SlotEntry:
    """Convert a slot to our own format; in shadow mode its baseline is the incumbent's
    action."""
    name = text_of(slot.id)
    baseline = text_of(slot.baseline_action)
    excluded = {text_of(one) for one in slot.excluded_actions or ()}
    unknown = sorted(excluded - arms.keys())
    if unknown:
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
    features: dict[str, object] | None = None
    if slot.features:
        features = flat_features(slot.features, f"features of slot {name!r:.60}")
    eligible: list[str] | None = None
    if excluded:
        eligible = [arm for arm in arms if arm not in excluded]
    incumbent = baseline if experiment.settings.shadow else None
    return SlotEntry(
        name=name, features=features, eligible=eligible, incumbent=incumbent
    )


def _check_baselines(slots: Sequence[PageSlot]) -> None:
    """Raise if two slots have the same baseline action."""
    names = [text_of(slot.baseline_action) for slot in slots]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput(
                f"baselineAction must be another one in each slot; got {name!r:.60} "
                "twice"
            )
