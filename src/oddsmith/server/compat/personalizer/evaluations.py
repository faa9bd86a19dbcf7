"""Evaluations: questions about the log, kept in it with their answers, so that replicas
and restarts know them.

A question, its answer and its deletion are changes of settings, named by the
evaluation's id. What has no answer is pending: the process that was asked begins it,
and after a restart the one that is asked for it.
"""

import asyncio
import json
import logging
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote
from uuid import uuid4

from oddsmith.core.errors import Conflict, InvalidInput, OddsmithError, StoreFailed
from oddsmith.server.compat.personalizer import evaluation_process
from oddsmith.server.compat.personalizer.facts import date_range, fixed
from oddsmith.server.compat.personalizer.messages import (
    ApplyContract,
    EvaluationContract,
    checked_id,
    request_id,
)
from oddsmith.server.compat.personalizer.times import seconds_of, time_text
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.experiment.threads import Busy
from oddsmith.server.http.door import NO_CONTENT, DoorRefusal, Visit
from oddsmith.server.http.response import JSON, Response
from oddsmith.server.store.events import ConfigurationChange
from oddsmith.server.store.protocol import Line

__all__ = [
    "apply_evaluation",
    "create_evaluation",
    "delete_evaluation",
    "evaluation",
    "evaluations",
    "put_evaluation",
]

QUESTION, ANSWER, DELETED = (
    f"personalizer evaluation{what}" for what in ("", " result", " deleted")
)
MOST_EVALUATIONS = 100
_SECONDS = 900.0  # that one may take
_UNDER_WAY = 10
_OWN = ("Online", "Baseline", "Random")
_log = logging.getLogger(__name__)


class _Kept(NamedTuple):
    """An evaluation as the log has it; `answer` is None while it is pending."""

    id: str
    created: float
    question: dict[str, Any]
    answer: dict[str, Any] | None


async def create_evaluation(experiment: Experiment, visit: Visit) -> Response:
    """Keep a question, and begin with it; a request that is sent again, by its id, is
    no second one."""
    return await _create(experiment, visit, request_id(visit) or str(uuid4()))


async def put_evaluation(experiment: Experiment, visit: Visit) -> Response:
    """Keep a question under the caller's id; the same one again changes nothing."""
    return await _create(
        experiment, visit, checked_id("id of an evaluation", visit.parameters["id"])
    )


async def evaluations(experiment: Experiment, _: Visit) -> Response:
    """All evaluations, without their results."""
    found = [_told(one) | {"policyResults": []} for one in await _all(experiment)]
    return Response(200, json.dumps(found).encode(), JSON)


async def evaluation(experiment: Experiment, visit: Visit) -> Response:
    """One evaluation with its results."""
    one = await _one(experiment, visit.parameters["id"])
    if one.answer is None:
        _begin(experiment, one)
    return Response(200, json.dumps(_told(one)).encode(), JSON)


async def delete_evaluation(experiment: Experiment, visit: Visit) -> Response:
    """Forget an evaluation: from now on there is none of this id."""
    one = await _one(experiment, visit.parameters["id"])
    experiment.long_reads.jobs.end((experiment.name, one.id))
    await experiment.append(
        ConfigurationChange(DELETED, True, experiment.clock(), one.id, visit.sender)
    )
    return NO_CONTENT


async def apply_evaluation(experiment: Experiment, visit: Visit) -> Response:
    """What is served already may be applied; another policy would be another log."""
    contract: ApplyContract = visit.message
    one = await _one(experiment, contract.evaluation_id)
    names = [*_OWN, *(name for name, _ in one.question["policies"])]
    if contract.policy_name not in names:
        raise InvalidInput(
            f"policyName must be one of {', '.join(names)}; got "
            f"{contract.policy_name!r:.60}"
        )
    if contract.policy_name != "Online":
        raise fixed(
            "the policy", "serve a policy file of another kind, with a store of its own"
        )
    return NO_CONTENT


async def _create(experiment: Experiment, visit: Visit, id: str) -> Response:
    contract: EvaluationContract = visit.message
    start, end = (
        seconds_of("startTime", contract.start_time),
        seconds_of("endTime", contract.end_time),
    )
    if not start < end:
        raise InvalidInput(
            f"startTime must be before endTime; got {contract.start_time} and "
            f"{contract.end_time}"
        )
    names = [one.name for one in contract.policies]
    if len(names + list(_OWN)) > len({*names, *_OWN}):
        twice = f"distinct, and none of {', '.join(_OWN)}"
        raise DoorRefusal(
            400,
            "DuplicateCustomPolicyNames",
            f"names of policies must be {twice}; got {names!r:.120}",
        )
    days = await asyncio.to_thread(date_range, experiment)
    if days is None or end < days[0] or start > days[1]:
        there = (
            "there are none"
            if days is None
            else f"they are from {time_text(days[0])} to {time_text(days[1])}"
        )
        raise DoorRefusal(
            400,
            "NoLogsExistInDateRange",
            f"there must be decisions from startTime to endTime; {there}",
        )
    known = await _all(experiment)
    if len(known) >= MOST_EVALUATIONS and id not in {one.id for one in known}:
        most = f"there must be at most {MOST_EVALUATIONS} evaluations"
        raise InvalidInput(f"{most}; got one more: delete some first")
    if len(experiment.long_reads.jobs) >= _UNDER_WAY:
        raise Busy(
            f"at most {_UNDER_WAY} evaluations may be under way; ask again later"
        )
    question: Any = {"name": contract.name, "startTime": start, "endTime": end}
    question |= {"policies": [[one.name, one.arguments] for one in contract.policies]}
    event = ConfigurationChange(
        QUESTION, question, experiment.clock(), id, visit.sender
    )
    try:
        await experiment.append(event)
        one = await _one(experiment, id)
    except (Conflict, DoorRefusal) as error:  # it was asked otherwise, or deleted
        raise InvalidInput(
            f"evaluation {id!r:.60} must be as it was asked first, or have another id"
        ) from error
    if one.answer is None:
        _begin(experiment, one)
    return Response(
        201,
        json.dumps(_told(one)).encode(),
        [*JSON, (b"location", _location(visit, id))],
    )


def _location(visit: Visit, id: str) -> bytes:
    """Where an evaluation is, by the way that its caller has come."""
    given, version = visit.parameters.get("experiment"), visit.parameters["version"]
    words = [
        given,
        "personalizer",
        version if version.startswith("v") else None,
        "evaluations",
        id,
    ]
    path = "".join("/" + quote(word, safe="") for word in words if word is not None)
    return (
        path if version.startswith("v") else f"{path}?api-version={version}"
    ).encode()


async def _all(experiment: Experiment) -> list[_Kept]:
    """The evaluations that there are, the oldest first."""

    def read() -> list[list[Line]]:
        return [
            experiment.store.of_setting(setting)
            for setting in (QUESTION, ANSWER, DELETED)
        ]

    questions, answers, deleted = await asyncio.to_thread(read)
    gone, told = (
        {line.key for line in deleted},
        {line.key: _value(line) for line in answers},
    )
    return [
        _Kept(q.key, q.time, _value(q), told.get(q.key))
        for q in questions
        if q.key not in gone
    ]


async def _one(experiment: Experiment, id: str) -> _Kept:
    found = next((one for one in await _all(experiment) if one.id == id), None)
    if found is None:
        raise DoorRefusal(
            404, "EvaluationNotFound", f"there is no evaluation {id!r:.60}"
        )
    return found


def _value(line: Line) -> Any:
    return json.loads(line.body or "{}").get("value")


def _told(one: _Kept) -> dict[str, Any]:
    """An evaluation as programs read it; `why` and `events` are ours."""
    answer = one.answer or {"status": "pending"}
    return {
        "id": one.id,
        "name": one.question["name"],
        "startTime": time_text(one.question["startTime"]),
        "endTime": time_text(one.question["endTime"]),
        "jobId": one.id,
        "status": answer["status"],
        "policyResults": answer.get("policyResults", []),
        "featureImportance": [],
        "evaluationType": "Manual",
        "creationTime": time_text(one.created),
        "events": answer.get("events"),
        "why": answer.get("why"),
    }


def _begin(experiment: Experiment, one: _Kept) -> None:
    """Begin with a question, unless it is under way here, or too many are: then it is
    pending until it is asked for."""
    jobs = experiment.long_reads.jobs
    if len(jobs) < _UNDER_WAY:
        jobs.begin((experiment.name, one.id), partial(_answer, experiment, one))


async def _answer(experiment: Experiment, one: _Kept) -> None:
    """Answer a question, and keep the answer; of two replicas that did, the first one's
    stays."""
    question = one.question
    order = {
        "place": experiment.settings.store,
        "experiment": experiment.name,
        "seconds": _SECONDS,
    }
    order |= {
        "reward": [experiment.scale.low, experiment.scale.high],
        "policies": question["policies"],
    }
    order |= {"start": question["startTime"], "end": question["endTime"]}
    try:
        printed = experiment.long_reads.jobs.printed(
            evaluation_process.__name__, json.dumps(order).encode(), _SECONDS
        )
        answer = json.loads(await printed)
        answer["status"] = "failed" if "why" in answer else "completed"
    except TimeoutError:
        answer = {
            "status": "timeout",
            "why": f"it took more than {_SECONDS:g} seconds: choose a shorter time",
        }
    except OddsmithError as error:
        answer = {"status": "failed", "why": str(error)}
    try:
        await experiment.append(
            ConfigurationChange(ANSWER, answer, experiment.clock(), one.id)
        )
    except Conflict:
        _log.info(
            "evaluation %s of %s was answered by another process, too",
            one.id,
            experiment.name,
        )
    except StoreFailed as error:  # who asks for it begins anew
        _log.warning(
            "evaluation %s of %s could not be kept: %s", one.id, experiment.name, error
        )
