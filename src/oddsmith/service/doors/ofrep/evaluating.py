"""Evaluation of flags: the decision that a unit of a sticky experiment has, or its first one."""

import asyncio
from contextlib import suppress
from hashlib import blake2b
from typing import Any

import msgspec

from oddsmith.contexts import flat
from oddsmith.errors import InvalidInput, OddsmithError, StoreFailed
from oddsmith.service import handlers
from oddsmith.service.access import check_scope
from oddsmith.service.deciding import decide
from oddsmith.service.doors.door import Refused, Visit
from oddsmith.service.doors.ofrep.messages import Evaluation, EvaluationRequest, Failure, Flags
from oddsmith.service.experiment import EVERYTHING, Experiment
from oddsmith.service.messages import Activate, DecideEntry
from oddsmith.service.process import NotFound, Service
from oddsmith.service.response import JSON, Response
from oddsmith.storage.events import is_id

__all__ = ["evaluate", "evaluate_all"]

_UNIT = "targetingKey"
_encode = msgspec.json.Encoder().encode


async def evaluate(service: Service, visit: Visit) -> Evaluation:
    """One flag; its decision counts, also where it was deferred before, unless the query says `deferred=true`."""
    name, deferred = visit.parameters["key"], visit.asked.get("deferred") == "true"
    check_scope(visit.key, frozenset({"decide"}), name)
    experiment = service.experiments.get(name)
    if experiment is None or (why := _no_flag(experiment)):
        raise NotFound(f"there is no flag {name!r:.80}" + ("" if experiment is None else f": {why}"))
    return await _evaluated(experiment, visit, deferred=deferred)


async def evaluate_all(service: Service, visit: Visit) -> Response:
    """All flags that the key may ask for, as deferred decisions; 304 where the caller has this answer already."""
    _unit_and_context(visit.message)
    found = [one for name, one in sorted(service.experiments.items()) if visit.key.may("decide", name)]
    flags = [one for one in found if not _no_flag(one)]
    if flags:
        service.rates.count_entries(visit.key.name, visit.key.rate, len(flags))
    body = _encode(Flags(list(await asyncio.gather(*(_entry(one, visit) for one in flags)))))
    tag = f'"{blake2b(body, digest_size=16).hexdigest()}"'
    headers = [*JSON, (b"etag", tag.encode()), (b"cache-control", b"private, no-cache")]
    known = [one.strip().removeprefix("W/") for one in (visit.header(b"if-none-match") or "").split(",")]
    return Response(304, b"", headers[1:]) if tag in known or "*" in known else Response(200, body, headers)


async def _entry(experiment: Experiment, visit: Visit) -> Evaluation | Failure:
    """One flag among all, or why there is none: the others stand."""
    try:
        return await _evaluated(experiment, visit, deferred=True)
    except Refused as error:
        return Failure(experiment.name, error.code, str(error))
    except OddsmithError as error:
        return Failure(experiment.name, "GENERAL", str(error))


async def _evaluated(experiment: Experiment, visit: Visit, *, deferred: bool) -> Evaluation:
    unit, context = _unit_and_context(visit.message)
    if experiment.follower.now.state is None:
        raise StoreFailed(f"experiment {experiment.name!r} is not ready: {experiment.follower.trouble}")
    entry = DecideEntry(context=context, unit=unit, deferred=deferred, odds=False)
    try:
        answer = await decide(experiment, entry, visit.sender)
    except InvalidInput as error:
        raise Refused(400, "INVALID_CONTEXT", str(error)) from error
    if not answer.new and not deferred:
        await _activate(experiment, answer.id, visit.sender)
    values, facts = experiment.opened.file.flag_values, {"decision_id": answer.id, "experiment": answer.experiment}
    value = values.get(answer.arm, answer.arm)
    return Evaluation(answer.experiment, value, answer.arm, facts | {"propensity": answer.propensity})


async def _activate(experiment: Experiment, id: str, sender: str) -> None:
    """The decision counts from now on, if it was deferred and did not."""
    lines = await asyncio.to_thread(experiment.store.history, [id], EVERYTHING)
    if any(line.deferred for line in lines) and all(line.kind != "activation" for line in lines):
        with suppress(InvalidInput):  # its context is erased: the unit keeps its arm, and it cannot count any more
            await handlers.activate(experiment, Activate(id=id), sender)


def _unit_and_context(request: EvaluationRequest) -> tuple[str, dict[str, Any]]:
    """The unit, and all else that is known, in one flat dict."""
    given = request.context or {}
    unit = given.get(_UNIT)
    if unit is None or unit == "":
        raise Refused(400, "TARGETING_KEY_MISSING", f"context must have {_UNIT}, the unit that keeps its arm; got none")
    if not is_id(unit):
        allowed = "text of 1 to 256 characters, none of them NUL"
        raise Refused(400, "INVALID_CONTEXT", f"{_UNIT} must be {allowed}; got {unit!r:.60}")
    rest = {name: value for name, value in given.items() if name != _UNIT}
    try:
        return unit, flat(rest)
    except InvalidInput as error:
        raise Refused(400, "INVALID_CONTEXT", str(error)) from error


def _no_flag(experiment: Experiment) -> str:
    """Why an experiment is no flag; empty if it is one."""
    if experiment.arms is None:
        return "its arms come with calls"
    if not experiment.settings.sticky:
        return "it is not sticky, so a unit would see another arm each time ([service] sticky = true)"
    return "it is in shadow mode, where an incumbent acts" if experiment.settings.shadow else ""
