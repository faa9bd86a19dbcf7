"""Read-only facts of an experiment: policy, model, logs and status.

The policy comes from the policy file, and the model is computed from the log. They
cannot be set, because then decisions could no longer be verified.
"""

import asyncio
from typing import Any

from oddsmith.files.state import pack
from oddsmith.server.compat.personalizer.times import time_text
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.http.door import NO_CONTENT, DoorRefusal, Visit
from oddsmith.server.http.response import Response
from oddsmith.server.store.protocol import Store, decision_line

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
_NEVER = 0.0  # time that is reported for a model that has learned nothing


async def policy(experiment: Experiment, _: Visit) -> dict[str, str]:
    """Return the kind of the policy and its fingerprint, which snapshots and exports
    also contain."""
    kind = experiment.setup.file.kind
    fingerprint = experiment.store.fingerprint
    arms = "arms passed in each call"
    if experiment.arms is not None:
        arms = f"{len(experiment.arms)} arms"
    arguments = f"kind {kind}, fingerprint {fingerprint}, {arms}"
    return {"name": kind, "arguments": arguments}


async def delete_policy(experiment: Experiment, visit: Visit) -> dict[str, str]:
    """Return the policy without a change, because the policy file already defines the
    default policy."""
    return await policy(experiment, visit)


async def fixed_policy(experiment: Experiment, _: Visit) -> Response:
    """Raise the error for changing the policy."""
    name = experiment.setup.file.path.name
    raise fixed("the policy", f"change {name}, and begin a new store")


async def fixed_model(_: Experiment, __: Visit) -> Response:
    """Raise the error for changing or deleting the model."""
    raise fixed(
        "the model", "begin a new store, for which `start` in [service] names a state"
    )


def fixed(what: str, instead: str) -> DoorRefusal:
    """Return the error for changing something that the log and the policy file
    define."""
    return DoorRefusal(
        403,
        "InvalidApiAccess",
        f"{what} is computed from the log and the policy file; to change it, {instead}",
    )


async def model(experiment: Experiment, _: Visit) -> Response:
    """Return the newest state, in the format of `Agent.save` and `oddsmith fit`."""
    # The state may be updated in place: hold the lock so that we never read a
    # half-finished update.
    async with experiment.follower.learning:
        now = experiment.follower.now
        content = await asyncio.to_thread(
            pack, now.policy, now.state, {"position": now.position}
        )
    return Response(200, content, [(b"content-type", b"application/octet-stream")])


async def model_properties(experiment: Experiment, _: Visit) -> dict[str, str]:
    """Return the times of the log's first event, and of the last event in the state."""
    store = experiment.store
    position = experiment.follower.now.position
    first, last = await asyncio.to_thread(_end_times, store, position)
    return {"creationTime": time_text(first), "lastModifiedTime": time_text(last)}


async def log_properties(experiment: Experiment, _: Visit) -> dict[str, Any]:
    """Return the times of the first and the last decision."""
    dates = await asyncio.to_thread(date_range, experiment)
    if dates is None:
        raise DoorRefusal(404, "LogsPropertiesNotFound", "there are no logs yet")
    first, last = dates
    return {"dateRange": {"from": time_text(first), "to": time_text(last)}}


async def delete_logs(experiment: Experiment, _: Visit) -> Response:
    """Erase the contexts of all decisions whose window is closed. The policy still
    needs the contexts of decisions with an open window.

    If the window has no end, all contexts are erased.
    """
    await experiment.erase(experiment.settings.window or 0.0)
    return NO_CONTENT


async def status(experiment: Experiment, _: Visit) -> dict[str, str]:
    """Report that the key is valid and the experiment can decide."""
    return {
        "service": "oddsmith",
        "apiStatus": "Valid",
        "apiStatusMessage": f"experiment {experiment.name} is ready",
    }


def date_range(experiment: Experiment) -> tuple[float, float] | None:
    """Return the times of the first and the last decision in the log; None if there are
    none."""
    store = experiment.store
    head = store.head()
    first = decision_line(store.lines(0, head))
    if first is None:
        return None
    before = head + 1
    while True:
        lines = store.lines_back(before, _PAGE)
        last = decision_line(lines)
        if last is not None:
            return first.time, last.time
        before = lines[-1].position


def _end_times(store: Store, position: int) -> tuple[float, float]:
    """Return the times of the first event, and of the event at a position."""
    first = next(iter(store.lines(0, position)), None)
    last = next(iter(store.lines_back(position + 1, 1)), None)
    if first is None or last is None:
        return _NEVER, _NEVER
    return first.time, last.time
