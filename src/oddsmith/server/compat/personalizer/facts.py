"""Policy, model, logs and status: what may be read of an experiment, and what cannot be
set from outside.

A policy is its file, and a model is the fold of the log: who could set either could not
prove a decision any more.
"""

import asyncio
from typing import Any

from oddsmith.files.state import pack
from oddsmith.server.compat.personalizer.times import time_text
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.http.door import NO_CONTENT, DoorRefusal, Visit
from oddsmith.server.http.response import Response

__all__ = [
    "date_range",
    "delete_logs",
    "delete_policy",
    "fixed",
    "fixed_model",
    "fixed_policy",
    "log_properties",
    "model",
    "model_properties",
    "policy",
    "status",
]

_PAGE = 1000
_NEVER = 0.0  # while nothing was learnt, the model is as old as time


async def policy(experiment: Experiment, _: Visit) -> dict[str, str]:
    """The policy by its kind, and the fingerprint that snapshots and exports name it
    by."""
    kind, arms = experiment.setup.file.kind, experiment.arms
    offered = "arms of the call" if arms is None else f"{len(arms)} arms"
    return {
        "name": kind,
        "arguments": (
            f"kind {kind}, fingerprint {experiment.store.fingerprint}, {offered}"
        ),
    }


async def delete_policy(experiment: Experiment, visit: Visit) -> dict[str, str]:
    """The policy as it is: that of the file is the default."""
    return await policy(experiment, visit)


async def fixed_policy(experiment: Experiment, _: Visit) -> Response:
    """Refuses another policy."""
    raise fixed(
        "the policy",
        f"change {experiment.setup.file.path.name}, and begin a new store",
    )


async def fixed_model(_: Experiment, __: Visit) -> Response:
    """Refuses another model, and none."""
    raise fixed(
        "the model", "begin a new store, for which `start` in [service] names a state"
    )


def fixed(what: str, instead: str) -> DoorRefusal:
    """The refusal of what cannot be set from outside."""
    return DoorRefusal(
        403,
        "InvalidApiAccess",
        f"{what} is the fold of the log by the policy file; to change it, {instead}",
    )


async def model(experiment: Experiment, _: Visit) -> Response:
    """The newest state, as `Agent.save` and `oddsmith fit` write it."""
    # a state that is written in place is read between two updates
    async with experiment.follower.learning:
        now = experiment.follower.now
        content = await asyncio.to_thread(
            pack, now.policy, now.state, {"position": now.position}
        )
    return Response(200, content, [(b"content-type", b"application/octet-stream")])


async def model_properties(experiment: Experiment, _: Visit) -> dict[str, str]:
    """When the log began, and when the last event came that the model knows."""
    times = await asyncio.to_thread(
        _learnt, experiment, experiment.follower.now.position
    )
    return {
        name: time_text(time)
        for name, time in zip(("creationTime", "lastModifiedTime"), times, strict=True)
    }


async def log_properties(experiment: Experiment, _: Visit) -> dict[str, Any]:
    """When the first and the last decision were made."""
    found = await asyncio.to_thread(date_range, experiment)
    if found is None:
        raise DoorRefusal(404, "LogsPropertiesNotFound", "there are no logs yet")
    return {"dateRange": {"from": time_text(found[0]), "to": time_text(found[1])}}


async def delete_logs(experiment: Experiment, _: Visit) -> Response:
    """Erase the contexts of all decisions whose window is closed: those of others are
    still to be learnt from.

    A window without an end keeps none of them: else nothing could be erased, ever.
    """
    await experiment.erase(experiment.settings.window or 0.0)
    return NO_CONTENT


async def status(experiment: Experiment, _: Visit) -> dict[str, str]:
    """That the key is right, and the experiment decides."""
    return {
        "service": "oddsmith",
        "apiStatus": "Valid",
        "apiStatusMessage": f"experiment {experiment.name} is ready",
    }


def date_range(experiment: Experiment) -> tuple[float, float] | None:
    """The times of the first and of the last decision in the log; None where there is
    none."""
    store = experiment.store
    head = store.head()
    first = next(
        (line.time for line in store.lines(0, head) if line.kind == "decision"), None
    )
    if first is None:
        return None
    before = head + 1
    while True:
        lines = store.lines_back(before, _PAGE)
        last = next((line.time for line in lines if line.kind == "decision"), None)
        if last is not None:
            return first, last
        before = lines[-1].position


def _learnt(experiment: Experiment, position: int) -> tuple[float, float]:
    """The times of the first event, and of the one at a position."""
    first = next((line.time for line in experiment.store.lines(0, position)), _NEVER)
    last = next(
        (line.time for line in experiment.store.lines_back(position + 1, 1)), _NEVER
    )
    return first, last
