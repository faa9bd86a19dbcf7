"""Calls for the reward and the activation of an event."""

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
    """Write a reward. With the rule "first", later rewards are ignored."""
    message = RewardGiven(
        id=visit.parameters["event"],
        reward=visit.message.value,
        key=part_key(experiment, visit),
    )
    try:
        await rewards.reward(experiment, message, visit.sender)
    except Conflict:
        if experiment.settings.rule == "sum":
            raise
    return NO_CONTENT


async def activate(experiment: Experiment, visit: Visit) -> Response:
    """Activate a deferred event."""
    message = Activate(id=visit.parameters["event"])
    await rewards.activate(experiment, message, visit.sender)
    return NO_CONTENT


def part_key(experiment: Experiment, visit: Visit) -> str:
    """Return the key of one part of a summed reward. It is the id of the HTTP request,
    so that a repeated request counts once."""
    if experiment.settings.rule != "sum":
        return ""
    return request_id(visit) or uuid4().hex
