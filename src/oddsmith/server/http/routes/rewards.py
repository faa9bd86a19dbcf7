"""Routes of rewards: one reward, a batch, corrections and activations."""

from collections.abc import Iterator

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
from oddsmith.server.store.events import Activation, Correction, Reward
from oddsmith.server.store.protocol import Receipt
from oddsmith.server.store.slates import OfSlate

__all__ = ["ROUTES", "activate", "correct", "event_answer", "reward", "reward_batch"]


async def reward(
    experiment: Experiment, message: m.RewardGiven, sender: str
) -> m.EventAnswer:
    """Write a reward."""
    event = _reward(experiment, message, sender)
    refusals = await slot_refusals(experiment, [message])
    for refusal in refusals.values():
        raise refusal
    return await _append(experiment, event)


async def reward_batch(
    experiment: Experiment, message: m.RewardBatch, sender: str
) -> m.Results:
    """Write many rewards with one commit; each entry is answered by itself."""
    lost = await experiment.unlearnable_ids([one.id for one in message.rewards])
    refusals = await slot_refusals(experiment, message.rewards)
    events: list[Reward | InvalidInput] = []
    for place, entry in enumerate(message.rewards):
        try:
            _check_in_reach(entry.id, lost)
            event = _reward(experiment, entry, sender)
            events.append(refusals.get(place, event))
        except InvalidInput as error:
            events.append(error)
    rewards = [event for event in events if isinstance(event, Reward)]
    receipts: Iterator[Receipt] = iter(())
    if rewards:
        receipts = iter(await experiment.writer.append(rewards))
    results: list[m.EventAnswer | m.ErrorAnswer] = []
    for one in events:
        if isinstance(one, Reward):
            results.append(await _entry_answer(experiment, one, next(receipts)))
        else:
            results.append(m.ErrorAnswer.of(one))
    return m.Results(results)


async def activate(
    experiment: Experiment, message: m.Activate, sender: str
) -> m.EventAnswer:
    """Activate a deferred decision, or all of a slate."""
    if message.slate is not None and message.id is None:
        return await activate_slate(experiment, message.slate, sender)
    if message.id is None or message.slate is not None:
        got = "both" if message.id else "none"
        raise InvalidInput(f"id or slate must be given; got {got}")
    event = Activation(message.id, experiment.clock(), sender)
    return await _append(experiment, event)


async def correct(
    experiment: Experiment, message: m.Correct, sender: str
) -> m.EventAnswer:
    """Write a correction; the state follows after a refold."""
    value = _scaled_reward(experiment, message.reward)
    event = Correction(message.id, value, experiment.clock(), message.key, sender)
    try:
        receipt = await experiment.append(event)
    except Conflict:
        raise
    except InvalidInput as error:  # there is no reward to correct
        raise Conflict(str(error)) from error
    return event_answer(message.id, receipt)


def _reward(experiment: Experiment, message: m.RewardEntry, sender: str) -> Reward:
    if message.key and experiment.settings.rule != "sum":
        raise InvalidInput(
            "key must be left out where the first reward counts (reward_rule = 'sum' "
            "adds parts up)"
        )
    value = _scaled_reward(experiment, message.reward)
    return Reward(message.id, value, experiment.clock(), message.key, sender)


def _scaled_reward(experiment: Experiment, reward: float) -> float:
    """A reward in [0, 1], from one in the caller's units."""
    low = experiment.scale.low
    high = experiment.scale.high
    if not low <= reward <= high:
        raise InvalidInput(
            f"reward must be in [{low:.12g}, {high:.12g}]; got {reward:.12g}"
        )
    return experiment.scale.reward(reward)


def _check_in_reach(id: str, lost: set[str]) -> None:
    """Refuse events that cannot be folded, before they get into the log."""
    if id in lost:
        raise InvalidInput(
            "id must be of a decision whose context experts can learn from; that of "
            f"{id!r} is erased"
        )


async def _append(experiment: Experiment, event: Reward | Activation) -> m.EventAnswer:
    """Write an event about a decision, which may come later; the id of a slate is
    refused."""
    _check_in_reach(event.id, await experiment.unlearnable_ids([event.id]))
    try:
        receipt = await experiment.append(event)
    except OfSlate as error:
        raise await with_slots(experiment, error, event.id) from error
    return event_answer(event.id, receipt)


async def _entry_answer(
    experiment: Experiment, event: Reward, receipt: Receipt
) -> m.EventAnswer | m.ErrorAnswer:
    """The answer to an entry of a batch."""
    if isinstance(receipt.refused, OfSlate):
        refusal = await with_slots(experiment, receipt.refused, event.id)
        return m.ErrorAnswer.of(refusal)
    if receipt.refused is not None:
        return m.ErrorAnswer.of(experiment.in_units(receipt.refused))
    return event_answer(event.id, receipt)


def event_answer(id: str, receipt: Receipt) -> m.EventAnswer:
    """The answer about an event that is on disk."""
    return m.EventAnswer(id, receipt.position, receipt.new, receipt.parked)


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
