"""Reward and activate: what became of an event."""

from uuid import uuid4

from oddsmith.core.errors import Conflict
from oddsmith.server.compat.personalizer.messages import request_id
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.http.door import NO_CONTENT, Visit
from oddsmith.server.http.response import Response
from oddsmith.server.http.routes import rewards
from oddsmith.server.messages.calls import Activate, RewardGiven

__all__ = ["activate", "part_key", "reward"]


async def reward(experiment: Experiment, visit: Visit) -> Response:
    """Keep a reward; where the first one counts, a later one is passed over."""
    id, key = visit.parameters["event"], part_key(experiment, visit)
    try:
        await rewards.reward(
            experiment,
            RewardGiven(id=id, reward=visit.message.value, key=key),
            visit.sender,
        )
    except Conflict:
        if experiment.settings.rule == "sum":
            raise
    return NO_CONTENT


async def activate(experiment: Experiment, visit: Visit) -> Response:
    """An event that was deferred counts from now on."""
    await rewards.activate(
        experiment, Activate(id=visit.parameters["event"]), visit.sender
    )
    return NO_CONTENT


def part_key(experiment: Experiment, visit: Visit) -> str:
    """What tells the parts of a sum apart: the id of the request, so that one that is
    sent again counts once."""
    if experiment.settings.rule != "sum":
        return ""
    return request_id(visit) or uuid4().hex
