"""Reward and activate: what became of an event."""

from uuid import uuid4

from oddsmith.errors import Conflict
from oddsmith.service import handlers
from oddsmith.service.doors.door import NO_CONTENT, Visit
from oddsmith.service.doors.personalizer.ids import request_id
from oddsmith.service.experiment import Experiment
from oddsmith.service.messages import Activate, RewardGiven
from oddsmith.service.response import Response

__all__ = ["activate", "part_key", "reward"]


async def reward(experiment: Experiment, visit: Visit) -> Response:
    """Keep a reward; where the first one counts, a later one is passed over."""
    id, key = visit.parameters["event"], part_key(experiment, visit)
    try:
        await handlers.reward(experiment, RewardGiven(id=id, reward=visit.message.value, key=key), visit.sender)
    except Conflict:
        if experiment.settings.rule == "sum":
            raise
    return NO_CONTENT


async def activate(experiment: Experiment, visit: Visit) -> Response:
    """An event that was deferred counts from now on."""
    await handlers.activate(experiment, Activate(id=visit.parameters["event"]), visit.sender)
    return NO_CONTENT


def part_key(experiment: Experiment, visit: Visit) -> str:
    """What tells the parts of a sum apart: the id of the request, so that one that is sent again counts once."""
    if experiment.settings.rule != "sum":
        return ""
    return request_id(visit) or uuid4().hex
