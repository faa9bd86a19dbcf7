"""Evaluations: requests to estimate policies from the log. Requests and answers are
stored in the log, for replicas and restarts.

A request, its answer and its deletion are stored as changes of a setting that is named
by the evaluation's id. A request without an answer is pending. The process that
received the request computes the answer; after a restart, the first process that reads
the request computes it.
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
from oddsmith.server.store.protocol import Line, Store

__all__ = [
    "apply_evaluation",
    "create_evaluation",
    "delete_evaluation",
    "evaluation",
    "evaluations",
    "put_evaluation",
]

QUESTION = "personalizer evaluation"
ANSWER = "personalizer evaluation result"
DELETED = "personalizer evaluation deleted"
MOST_EVALUATIONS = 100
_SECONDS = 900.0  # time limit of an evaluation in seconds
_UNDER_WAY = 10
_OWN = ("Online", "Baseline", "Random")
_log = logging.getLogger(__name__)


class _Evaluation(NamedTuple):
    """An evaluation in the log; `answer` is None while it is pending."""

    id: str
    created: float
    question: dict[str, Any]
    answer: dict[str, Any] | None


async def create_evaluation(experiment: Experiment, visit: Visit) -> Response:
    """Write a request to the log, and start to compute its answer. An HTTP request that
    is repeated with the same id creates no second evaluation."""
    return await _create(experiment, visit, request_id(visit) or str(uuid4()))


async def put_evaluation(experiment: Experiment, visit: Visit) -> Response:
    """Write a request with the caller's id to the log. Repeating the call changes
    nothing."""
    id = checked_id("id of an evaluation", visit.parameters["id"])
    return await _create(experiment, visit, id)


async def evaluations(experiment: Experiment, _: Visit) -> Response:
    """Return all evaluations, without their results."""
    records: list[dict[str, Any]] = []
    for one in await _all(experiment):
        records.append(_record(one) | {"policyResults": []})
    return Response(200, json.dumps(records).encode(), JSON)


async def evaluation(experiment: Experiment, visit: Visit) -> Response:
    """Return one evaluation with its results."""
    one = await _one(experiment, visit.parameters["id"])
    if one.answer is None:
        _begin(experiment, one)
    return Response(200, json.dumps(_record(one)).encode(), JSON)


async def delete_evaluation(experiment: Experiment, visit: Visit) -> Response:
    """Delete an evaluation."""
    one = await _one(experiment, visit.parameters["id"])
    experiment.long_reads.jobs.end((experiment.name, one.id))
    event = ConfigurationChange(DELETED, True, experiment.clock(), one.id, visit.sender)
    await experiment.append(event)
    return NO_CONTENT


async def apply_evaluation(experiment: Experiment, visit: Visit) -> Response:
    """Accept the policy that is served already. For any other policy raise an error,
    because it would need a log of its own."""
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
    start = seconds_of("startTime", contract.start_time)
    end = seconds_of("endTime", contract.end_time)
    if not start < end:
        raise InvalidInput(
            f"startTime must be before endTime; got {contract.start_time} and "
            f"{contract.end_time}"
        )
    _check_names([one.name for one in contract.policies])
    await _check_dates(experiment, start, end)
    known = await _all(experiment)
    if len(known) >= MOST_EVALUATIONS and id not in {one.id for one in known}:
        raise InvalidInput(
            f"there must be at most {MOST_EVALUATIONS} evaluations; got one more: "
            "delete some first"
        )
    if len(experiment.long_reads.jobs) >= _UNDER_WAY:
        raise Busy(f"at most {_UNDER_WAY} evaluations may be running; ask again later")
    question: dict[str, Any] = {
        "name": contract.name,
        "startTime": start,
        "endTime": end,
        "policies": [[one.name, one.arguments] for one in contract.policies],
    }
    event = ConfigurationChange(
        QUESTION, question, experiment.clock(), id, visit.sender
    )
    try:
        await experiment.append(event)
        one = await _one(experiment, id)
    # another request for this id, or a deleted evaluation
    except (Conflict, DoorRefusal) as error:
        raise InvalidInput(
            f"evaluation {id!r:.60} was requested before with other fields: send the "
            "same fields, or another id"
        ) from error
    if one.answer is None:
        _begin(experiment, one)
    headers = [*JSON, (b"location", _location(visit, id))]
    return Response(201, json.dumps(_record(one)).encode(), headers)


def _check_names(names: list[str]) -> None:
    """Raise if the names of policies are not distinct."""
    if len({*names, *_OWN}) < len(names) + len(_OWN):
        raise DoorRefusal(
            400,
            "DuplicateCustomPolicyNames",
            f"names of policies must be distinct, and none of {', '.join(_OWN)}; got "
            f"{names!r:.120}",
        )


async def _check_dates(experiment: Experiment, start: float, end: float) -> None:
    """Raise if there are no decisions in the time range."""
    dates = await asyncio.to_thread(date_range, experiment)
    found = "there are none"
    if dates is not None:
        first, last = dates
        if start <= last and first <= end:
            return
        found = f"they are from {time_text(first)} to {time_text(last)}"
    raise DoorRefusal(
        400,
        "NoLogsExistInDateRange",
        f"there must be decisions from startTime to endTime; {found}",
    )


def _location(visit: Visit, id: str) -> bytes:
    """Return the address of an evaluation, in the caller's API version."""
    version = visit.parameters["version"]
    is_in_path = version.startswith("v")
    words = ["personalizer"]
    if "experiment" in visit.parameters:
        words.insert(0, visit.parameters["experiment"])
    if is_in_path:
        words.append(version)
    words += ["evaluations", id]
    path = "".join("/" + quote(word, safe="") for word in words)
    if not is_in_path:
        path += f"?api-version={version}"
    return path.encode()


async def _all(experiment: Experiment) -> list[_Evaluation]:
    """Return all evaluations, oldest first."""
    return await asyncio.to_thread(_read_all, experiment.store)


def _read_all(store: Store) -> list[_Evaluation]:
    questions = store.of_setting(QUESTION)
    answers = {line.key: _value(line) for line in store.of_setting(ANSWER)}
    deleted = {line.key for line in store.of_setting(DELETED)}
    found: list[_Evaluation] = []
    for line in questions:
        if line.key not in deleted:
            answer = answers.get(line.key)
            found.append(_Evaluation(line.key, line.time, _value(line), answer))
    return found


async def _one(experiment: Experiment, id: str) -> _Evaluation:
    for one in await _all(experiment):
        if one.id == id:
            return one
    raise DoorRefusal(404, "EvaluationNotFound", f"there is no evaluation {id!r:.60}")


def _value(line: Line) -> Any:
    return json.loads(line.body or "{}").get("value")


def _record(one: _Evaluation) -> dict[str, Any]:
    """Return an evaluation as JSON; `why` and `events` are our own fields."""
    question = one.question
    answer = one.answer or {"status": "pending"}
    start = time_text(question["startTime"])
    end = time_text(question["endTime"])
    return {
        "id": one.id,
        "name": question["name"],
        "startTime": start,
        "endTime": end,
        "jobId": one.id,
        "status": answer["status"],
        "policyResults": answer.get("policyResults", []),
        "featureImportance": [],
        "evaluationType": "Manual",
        "creationTime": time_text(one.created),
        "events": answer.get("events"),
        "why": answer.get("why"),
    }


def _begin(experiment: Experiment, one: _Evaluation) -> None:
    """Start to compute an answer, unless this process is doing so already. If too many
    are running, the evaluation stays pending until it is read again."""
    jobs = experiment.long_reads.jobs
    if len(jobs) < _UNDER_WAY:
        jobs.begin((experiment.name, one.id), partial(_answer, experiment, one))


async def _answer(experiment: Experiment, one: _Evaluation) -> None:
    """Compute an answer, and write it. If two replicas do so, the first answer
    counts."""
    answer = await _result(experiment, one.question)
    event = ConfigurationChange(ANSWER, answer, experiment.clock(), one.id)
    try:
        await experiment.append(event)
    except Conflict:
        _log.info(
            "evaluation %s of %s was answered by another process, too",
            one.id,
            experiment.name,
        )
    except StoreFailed as error:  # the evaluation starts again when it is read
        _log.warning(
            "evaluation %s of %s could not be stored: %s",
            one.id,
            experiment.name,
            error,
        )


async def _result(experiment: Experiment, question: dict[str, Any]) -> dict[str, Any]:
    """Compute an answer in a separate process; return it, or the reason why there is
    none."""
    order = {
        "place": experiment.settings.store,
        "experiment": experiment.name,
        "seconds": _SECONDS,
        "reward": [experiment.scale.low, experiment.scale.high],
        "policies": question["policies"],
        "start": question["startTime"],
        "end": question["endTime"],
    }
    try:
        output = await experiment.long_reads.jobs.run_module(
            evaluation_process.__name__, json.dumps(order).encode(), _SECONDS
        )
    except TimeoutError:
        why = f"it took more than {_SECONDS:g} seconds: choose a shorter time"
        return {"status": "timeout", "why": why}
    except OddsmithError as error:
        return {"status": "failed", "why": str(error)}
    answer: dict[str, Any] = json.loads(output)
    answer["status"] = "failed" if "why" in answer else "completed"
    return answer
