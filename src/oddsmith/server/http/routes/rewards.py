"""Routes for rewards: single rewards, batches, corrections and activations."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from msgspec import UNSET

from oddsmith.contexts.metrics import check_amounts
from oddsmith.core.errors import Conflict, InvalidInput
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.http.routes.route import (
    ADMIN,
    BATCH_BYTES,
    CHANGES,
    DECIDE,
    REWARD,
    WRITES,
    Route,
)
from oddsmith.server.http.routes.slates import activate_slate, slot_refusals, with_slots
from oddsmith.server.messages import calls as m
from oddsmith.server.store.events import (
    Activation,
    Correction,
    Event,
    MetricAmount,
    MetricCorrection,
    Reward,
)
from oddsmith.server.store.protocol import Receipt
from oddsmith.server.store.slates import OfSlate, slot_id

_Outcomes: TypeAlias = list[Reward | MetricAmount]
"""The reward of a decision, and amounts of its metrics."""

__all__ = ["ROUTES", "activate", "correct", "event_answer", "reward", "reward_batch"]


async def reward(
    experiment: Experiment, message: m.RewardGiven, sender: str
) -> m.EventAnswer:
    """Write a reward and amounts of metrics, with one commit."""
    events = _outcomes(experiment, message, sender)
    if message.slate is not None:
        refusals = await slot_refusals(experiment, [message])
        for refusal in refusals.values():
            raise refusal
    return await _append(experiment, events)


async def reward_batch(
    experiment: Experiment, message: m.RewardBatch, sender: str
) -> m.Results:
    """Write many rewards with one commit; each entry gets its own answer or error."""
    lost = await experiment.unlearnable_ids([one.id for one in message.rewards])
    refusals = await slot_refusals(experiment, message.rewards)
    entries: list[_Outcomes | InvalidInput] = []
    for place, entry in enumerate(message.rewards):
        try:
            if entry.id in lost:
                raise _out_of_reach(entry.id)
            events = _outcomes(experiment, entry, sender)
            entries.append(refusals.get(place, events))
        except InvalidInput as error:
            entries.append(error)
    outcomes = [event for one in entries if isinstance(one, list) for event in one]
    receipts: Iterator[Receipt] = iter(())
    if outcomes:
        receipts = iter(await experiment.writer.append(outcomes))
    results: list[m.EventAnswer | m.ErrorAnswer] = []
    for one in entries:
        if isinstance(one, InvalidInput):
            results.append(m.ErrorAnswer.of(one))
        else:
            own = [next(receipts) for _ in one]
            results.append(await _entry_answer(experiment, one[0].id, own))
    return m.Results(results)


async def activate(
    experiment: Experiment, message: m.Activate, sender: str
) -> m.EventAnswer:
    """Activate a deferred decision, a slot, or all slots of a slate."""
    id = message.id
    if id is None and message.slate is not None:
        if message.slot is None:
            return await activate_slate(experiment, message.slate, sender)
        id = slot_id(message.slate, str(message.slot))
    elif id is None or message.slate is not None or message.slot is not None:
        got = "none" if id is None else "both"
        raise InvalidInput(f"id or slate must be given; got {got}")
    event = Activation(id, experiment.clock(), sender)
    return await _append(experiment, [event])


async def correct(
    experiment: Experiment, message: m.Correct, sender: str
) -> m.EventAnswer:
    """Write corrections to the log. The state contains them after it was computed
    again."""
    now = experiment.clock()
    events: list[Correction | MetricCorrection] = []
    if message.reward is not UNSET:
        value = _scaled_reward(experiment, message.reward)
        events.append(Correction(message.id, value, now, message.key, sender))
    if message.metrics is not UNSET:
        amounts = check_amounts(experiment.design.metrics, message.metrics)
        for name, amount in amounts.items():
            events.append(
                MetricCorrection(message.id, name, amount, now, message.key, sender)
            )
    try:
        receipts = await _accepted(experiment, events)
    except Conflict:
        raise
    except InvalidInput as error:  # the decision has no reward to correct
        raise Conflict(str(error)) from error
    return event_answer(message.id, receipts)


def _outcomes(
    experiment: Experiment, message: m.RewardEntry, sender: str
) -> "_Outcomes":
    """Return the events of a reward and its amounts, all with the same time."""
    now = experiment.clock()
    events: _Outcomes = []
    if message.reward is not UNSET:
        if message.key and experiment.settings.rule != "sum":
            raise InvalidInput(
                "key must be left out, because only the first reward counts "
                "(reward_rule = 'sum' adds parts up)"
            )
        value = _scaled_reward(experiment, message.reward)
        events.append(Reward(message.id, value, now, message.key, sender))
    if message.metrics is not UNSET:
        amounts = check_amounts(experiment.design.metrics, message.metrics)
        for name, amount in amounts.items():
            events.append(
                MetricAmount(message.id, name, amount, now, message.key, sender)
            )
    return events


def _scaled_reward(experiment: Experiment, reward: float) -> float:
    """Convert a reward from the caller's units to [0, 1]."""
    low = experiment.scale.low
    high = experiment.scale.high
    if not low <= reward <= high:
        raise InvalidInput(
            f"reward must be in [{low:.12g}, {high:.12g}]; got {reward:.12g}"
        )
    return (reward - low) / (high - low)


def _out_of_reach(id: str) -> InvalidInput:
    """Return the error for an event that is not written, because the state could not be
    updated with it."""
    return InvalidInput(
        "id must be of a decision whose context experts can learn from; that of "
        f"{id!r} is erased"
    )


async def _append(
    experiment: Experiment, events: "Sequence[Reward | MetricAmount | Activation]"
) -> m.EventAnswer:
    """Write events about one decision, which may not have been made yet. Raise an error
    if the id is that of a slate."""
    id = events[0].id
    lost = await experiment.unlearnable_ids([id])
    if id in lost:
        raise _out_of_reach(id)
    try:
        receipts = await _accepted(experiment, events)
    except OfSlate as error:
        raise await with_slots(experiment, error, id) from error
    return event_answer(id, receipts)


async def _accepted(
    experiment: Experiment, events: Sequence[Event]
) -> Sequence[Receipt]:
    """Return the receipts of events that are on disk; raise the first refusal."""
    receipts = await experiment.writer.append(events)
    for receipt in receipts:
        if receipt.refused is not None:
            raise experiment.in_units(receipt.refused)
    return receipts


async def _entry_answer(
    experiment: Experiment, id: str, receipts: Sequence[Receipt]
) -> m.EventAnswer | m.ErrorAnswer:
    """Return the answer to an entry of a batch."""
    for receipt in receipts:
        if isinstance(receipt.refused, OfSlate):
            refusal = await with_slots(experiment, receipt.refused, id)
            return m.ErrorAnswer.of(refusal)
        if receipt.refused is not None:
            return m.ErrorAnswer.of(experiment.in_units(receipt.refused))
    return event_answer(id, receipts)


def event_answer(id: str, receipts: Sequence[Receipt]) -> m.EventAnswer:
    """Return the answer for events that are on disk. It contains the last position, and
    whether any of the events is new."""
    position = max(receipt.position for receipt in receipts)
    is_new = any(receipt.new for receipt in receipts)
    is_parked = any(receipt.parked for receipt in receipts)
    return m.EventAnswer(
        id,
        position,
        is_new,
        is_parked,
    )


ROUTES = (
    Route(
        "POST",
        "/v1/reward",
        reward,
        "Write the reward of a decision.",
        REWARD,
        m.RewardGiven,
        m.EventAnswer,
        CHANGES,
        examples={
            "The reward of a visit": {"id": "visit-7", "reward": 1},
            "The reward of a slot": {"slate": "page-8", "slot": "top", "reward": 1},
            "An order": {"id": "visit-7", "metrics": {"revenue": 34.9}},
        },
    ),
    Route(
        "POST",
        "/v1/reward/batch",
        reward_batch,
        "Reward many decisions.",
        REWARD,
        m.RewardBatch,
        m.Results,
        WRITES,
        BATCH_BYTES,
        examples={
            "Two rewards": {
                "rewards": [
                    {"id": "visit-7", "reward": 1},
                    {"id": "visit-8", "reward": 0},
                ]
            }
        },
    ),
    Route(
        "POST",
        "/v1/activate",
        activate,
        "Activate a deferred decision, or a slate.",
        DECIDE | REWARD,
        m.Activate,
        m.EventAnswer,
        WRITES,
        examples={
            "It was shown": {"id": "visit-7"},
            "A slot was shown": {"slate": "page-7", "slot": "top"},
            "All slots were shown": {"slate": "page-7"},
        },
    ),
    Route(
        "POST",
        "/v1/correct",
        correct,
        "Correct a reward.",
        ADMIN,
        m.Correct,
        m.EventAnswer,
        CHANGES,
        examples={
            "It was sent back": {"id": "visit-7", "reward": 0, "key": "return-31"}
        },
    ),
)
