"""Routes of rewards: a reward, many of them, corrections, and decisions that were
shown."""

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

__all__ = ["ROUTES", "activate", "correct", "kept", "reward", "reward_batch"]


async def reward(
    experiment: Experiment, message: m.RewardGiven, sender: str
) -> m.EventAnswer:
    """Keep a reward."""
    event = _reward(experiment, message, sender)
    for refusal in (await slot_refusals(experiment, [message])).values():
        raise refusal
    return await _about_decision(experiment, event)


async def reward_batch(
    experiment: Experiment, message: m.RewardBatch, sender: str
) -> m.Results:
    """Keep many rewards; each entry is answered for itself."""
    events: list[Reward | InvalidInput] = []
    lost = await experiment.unlearnable_ids([one.id for one in message.rewards])
    refusals = await slot_refusals(experiment, message.rewards)
    for place, one in enumerate(message.rewards):
        try:
            _check_in_reach(one.id, lost)
            event = _reward(experiment, one, sender)
            events.append(refusals.get(place, event))
        except InvalidInput as error:
            events.append(error)
    good = [event for event in events if isinstance(event, Reward)]
    receipts = iter(await experiment.writer.append(good) if good else ())
    return m.Results(
        [
            await _entry(experiment, one, next(receipts))
            if isinstance(one, Reward)
            else m.ErrorAnswer.of(one)
            for one in events
        ]
    )


async def activate(
    experiment: Experiment, message: m.Activate, sender: str
) -> m.EventAnswer:
    """A deferred decision was shown, or all of a slate."""
    if message.slate is not None and message.id is None:
        return await activate_slate(experiment, message.slate, sender)
    if message.id is None or message.slate is not None:
        raise InvalidInput(
            f"id or slate must be given; got {'both' if message.id else 'none'}"
        )
    return await _about_decision(
        experiment, Activation(message.id, experiment.clock(), sender)
    )


async def correct(
    experiment: Experiment, message: m.Correct, sender: str
) -> m.EventAnswer:
    """Keep a correction; the state follows once it is folded anew."""
    value = _scaled(experiment, message.reward)
    event = Correction(message.id, value, experiment.clock(), message.key, sender)
    try:
        receipt = await experiment.append(event)
    except Conflict:
        raise
    except InvalidInput as error:  # there is no reward to correct
        raise Conflict(str(error)) from error
    return kept(message.id, receipt)


def _reward(experiment: Experiment, message: m.RewardEntry, sender: str) -> Reward:
    if message.key and experiment.settings.rule != "sum":
        raise InvalidInput(
            "key must be left out where the first reward counts (reward_rule = 'sum' "
            "adds parts up)"
        )
    return Reward(
        message.id,
        _scaled(experiment, message.reward),
        experiment.clock(),
        message.key,
        sender,
    )


def _scaled(experiment: Experiment, reward: float) -> float:
    low, high = experiment.scale.low, experiment.scale.high
    if not low <= reward <= high:
        raise InvalidInput(
            f"reward must be in [{low:.12g}, {high:.12g}]; got {reward:.12g}"
        )
    return experiment.scale.reward(reward)


def _check_in_reach(id: str, lost: set[str]) -> None:
    """What cannot be folded must not get into the log."""
    if id in lost:
        raise InvalidInput(
            "id must be of a decision whose context experts can learn from; that of "
            f"{id!r} is erased"
        )


async def _about_decision(
    experiment: Experiment, event: Reward | Activation
) -> m.EventAnswer:
    """Keep what is about a decision, which may come later; a slate is none."""
    _check_in_reach(event.id, await experiment.unlearnable_ids([event.id]))
    try:
        return kept(event.id, await experiment.append(event))
    except OfSlate as error:
        raise await with_slots(experiment, error, event.id) from error


async def _entry(
    experiment: Experiment, event: Reward, receipt: Receipt
) -> m.EventAnswer | m.ErrorAnswer:
    if isinstance(receipt.refused, OfSlate):
        return m.ErrorAnswer.of(await with_slots(experiment, receipt.refused, event.id))
    if receipt.refused is not None:
        return m.ErrorAnswer.of(experiment.in_units(receipt.refused))
    return kept(event.id, receipt)


def kept(id: str, receipt: Receipt) -> m.EventAnswer:
    return m.EventAnswer(id, receipt.position, receipt.new, receipt.parked)


ROUTES = (
    Route(
        "POST",
        "/v1/reward",
        reward,
        "Reward a decision.",
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
        "Reward.",
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
        "Count it.",
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
