"""OFREP, the OpenFeature Remote Evaluation Protocol: sticky experiments as feature
flags; see docs/howto."""

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Literal
from urllib.parse import unquote

import msgspec

from oddsmith.contexts.flat import flat
from oddsmith.core.errors import InvalidInput, OddsmithError
from oddsmith.server.experiment.experiment import EVERYTHING, Experiment
from oddsmith.server.http.access import check_scope
from oddsmith.server.http.door import Door, DoorAnswer, DoorRefusal, Visit
from oddsmith.server.http.keys import Scope
from oddsmith.server.http.response import JSON, Headers, Refusal, Response
from oddsmith.server.http.routes import rewards
from oddsmith.server.http.routes.decide import decide
from oddsmith.server.http.routes.route import Route
from oddsmith.server.http.service import NotFound, Service
from oddsmith.server.messages.calls import Activate, DecideEntry
from oddsmith.server.store.events import is_id

__all__ = [
    "Evaluation",
    "EvaluationRequest",
    "Failure",
    "Flags",
    "Ofrep",
    "evaluate",
    "evaluate_all",
]


class EvaluationRequest(msgspec.Struct):
    """Whose flag it is, and what is known of them: `targetingKey` is the unit, all else
    the context of a decision."""

    context: dict[str, Any] | None = None


class Evaluation(DoorAnswer):
    """A flag's value: that of the arm, which is its variant; `metadata` has the
    decision's id and its odds, and for `deferred=true` whether it counts already."""

    key: str
    value: Any
    variant: str
    metadata: dict[str, str | float | bool]
    reason: Literal["SPLIT"] = "SPLIT"

    @property
    def id(self) -> str:
        """That of the decision."""
        return str(self.metadata["decision_id"])


class Failure(msgspec.Struct, rename="camel"):
    """A flag that could not be evaluated."""

    key: str
    error_code: str
    error_details: str


class Flags(msgspec.Struct):
    """All flags of a unit."""

    flags: list[Evaluation | Failure]


_UNIT = "targetingKey"
_encode = msgspec.json.Encoder().encode


async def evaluate(service: Service, visit: Visit) -> Evaluation:
    """One flag; its decision counts, also where it was deferred before, unless the
    query says `deferred=true`."""
    name, deferred = (
        visit.parameters["key"],
        visit.query_fields.get("deferred") == "true",
    )
    check_scope(visit.key, frozenset({"decide"}), name)
    experiment = service.experiments.get(name)
    if experiment is None or (why := _no_flag(experiment)):
        raise NotFound(
            f"there is no flag {name!r:.80}"
            + ("" if experiment is None else f": {why}")
        )
    answer = await _evaluated(experiment, visit, deferred=deferred)
    if deferred:
        answer.metadata["counts"] = await _counts(experiment, answer.id)
    return answer


async def evaluate_all(service: Service, visit: Visit) -> Response:
    """All flags that the key may ask for, as deferred decisions; 304 where the caller
    has this answer already."""
    _unit_and_context(visit.message)
    found = [
        one
        for name, one in sorted(service.experiments.items())
        if visit.key.may("decide", name)
    ]
    flags = [one for one in found if not _no_flag(one)]
    if flags:
        service.rates.count_entries(visit.key.name, visit.key.rate, len(flags))
    body = _encode(
        Flags(list(await asyncio.gather(*(_entry(one, visit) for one in flags))))
    )
    tag = f'"{blake2b(body, digest_size=16).hexdigest()}"'
    headers = [*JSON, (b"etag", tag.encode()), (b"cache-control", b"private, no-cache")]
    known = [
        one.strip().removeprefix("W/")
        for one in (visit.header(b"if-none-match") or "").split(",")
    ]
    return (
        Response(304, b"", headers[1:])
        if tag in known or "*" in known
        else Response(200, body, headers)
    )


async def _entry(experiment: Experiment, visit: Visit) -> Evaluation | Failure:
    """One flag among all, or why there is none: the others stand."""
    try:
        return await _evaluated(experiment, visit, deferred=True)
    except DoorRefusal as error:
        return Failure(experiment.name, error.code, str(error))
    except OddsmithError as error:
        return Failure(experiment.name, "GENERAL", str(error))


async def _evaluated(
    experiment: Experiment, visit: Visit, *, deferred: bool
) -> Evaluation:
    unit, context = _unit_and_context(visit.message)
    experiment.check_restored()
    entry = DecideEntry(context=context, unit=unit, deferred=deferred, odds=False)
    try:
        answer = await decide(experiment, entry, visit.sender)
    except InvalidInput as error:
        raise DoorRefusal(400, "INVALID_CONTEXT", str(error)) from error
    if not answer.new and not deferred:
        await _activate(experiment, answer.id, visit.sender)
    values, facts = (
        experiment.setup.file.flag_values,
        {"decision_id": answer.id, "experiment": answer.experiment},
    )
    value = values.get(answer.arm, answer.arm)
    return Evaluation(
        answer.experiment, value, answer.arm, facts | {"propensity": answer.propensity}
    )


async def _activate(experiment: Experiment, id: str, sender: str) -> None:
    """The decision counts from now on, if it was deferred and did not."""
    if await _counts(experiment, id):
        return
    # its context is erased: the unit keeps its arm, and it cannot count any more
    with suppress(InvalidInput):
        await rewards.activate(experiment, Activate(id=id), sender)


async def _counts(experiment: Experiment, id: str) -> bool:
    """Whether a decision was not deferred, or is activated."""
    lines = await asyncio.to_thread(experiment.store.history, [id], EVERYTHING)
    deferred = any(line.deferred for line in lines)
    return not deferred or any(line.kind == "activation" for line in lines)


def _unit_and_context(request: EvaluationRequest) -> tuple[str, dict[str, Any]]:
    """The unit, and all else that is known, in one flat dict."""
    given = request.context or {}
    unit = given.get(_UNIT)
    if unit is None or unit == "":
        raise DoorRefusal(
            400,
            "TARGETING_KEY_MISSING",
            f"context must have {_UNIT}, the unit that keeps its arm; got none",
        )
    if not is_id(unit):
        allowed = "text of 1 to 256 characters, none of them NUL"
        raise DoorRefusal(
            400, "INVALID_CONTEXT", f"{_UNIT} must be {allowed}; got {unit!r:.60}"
        )
    rest = {name: value for name, value in given.items() if name != _UNIT}
    try:
        return unit, flat(rest)
    except InvalidInput as error:
        raise DoorRefusal(400, "INVALID_CONTEXT", str(error)) from error


def _no_flag(experiment: Experiment) -> str:
    """Why an experiment is no flag; empty if it is one."""
    if experiment.arms is None:
        return "its arms come with calls"
    if not experiment.settings.sticky:
        return (
            "it is not sticky, so a unit would see another arm each time ([service] "
            "sticky = true)"
        )
    return (
        "it is in shadow mode, where an incumbent acts"
        if experiment.settings.shadow
        else ""
    )


_ROOT, _ALL = "/ofrep/", "/ofrep/v1/evaluate/flags"
_DECIDE: frozenset[Scope] = frozenset({"decide"})
_ONE_FLAG = Route(
    "POST",
    f"{_ALL}/{{key}}",
    evaluate,
    "Evaluate a flag.",
    _DECIDE,
    EvaluationRequest,
    Evaluation,
    each=True,
)
_ALL_FLAGS = Route(
    "POST",
    _ALL,
    evaluate_all,
    "Evaluate all flags.",
    _DECIDE,
    EvaluationRequest,
    Flags,
    each=True,
)
_STATUSES = {409: 400, 413: 400, 422: 400}
_CODES = {
    "malformed": "PARSE_ERROR",
    "invalid": "PARSE_ERROR",
    "not_found": "FLAG_NOT_FOUND",
}
_OWN = ("TARGETING_KEY_MISSING", "INVALID_CONTEXT")


@dataclass(frozen=True)
class Ofrep(Door):
    """The door for OpenFeature's clients; `flag` is the one that a call is about."""

    flag: str | None = None

    @property
    def routes(self) -> tuple[Route, ...]:  # type: ignore[override]
        """One flag, and all of them."""
        return tuple(route._replace(door=self) for route in (_ONE_FLAG, _ALL_FLAGS))

    def find(
        self, method: str, raw_path: str, query: bytes
    ) -> tuple[Route, dict[str, str]] | Response | None:
        """The route of a path as it was sent, with the flag's `key`."""
        if not raw_path.startswith(_ROOT):
            return None
        flag = unquote(raw_path[len(_ALL) + 1 :])
        if raw_path != _ALL and not (raw_path.startswith(f"{_ALL}/") and flag):
            what = (
                f"there is no path {raw_path!r:.80}; flags are asked for with POST "
                f"{_ALL}, or {_ALL}/KEY"
            )
            return self.refusal_response(Refusal(404, "no_path", what), None)
        if method != "POST":
            response = self.refusal_response(
                Refusal(405, "method", f"method must be POST; got {method:.20}"), None
            )
            return response._replace(headers=[*response.headers, (b"allow", b"POST")])
        if raw_path == _ALL:
            return _ALL_FLAGS._replace(door=self), {}
        return _ONE_FLAG._replace(door=replace(self, flag=flag)), {"key": flag}

    def refusal_response(self, refusal: Refusal, route: Route | None) -> Response:
        """The answer that says no: `{"key", "errorCode", "errorDetails"}`, without a
        key where no flag is meant."""
        status = _STATUSES.get(refusal.status, refusal.status)
        code = (
            refusal.code
            if refusal.code in _OWN
            else _CODES.get(refusal.code, "GENERAL")
        )
        about = {} if self.flag is None else {"key": self.flag}
        body = json.dumps(
            about | {"errorCode": code, "errorDetails": refusal.error}
        ).encode()
        return Response(
            status, body, refusal._replace(status=status).response().headers
        )

    def token(self, headers: Headers) -> str:
        """The key in X-API-Key, or behind Bearer in Authorization."""
        sent = dict(headers)
        if (key := sent.get(b"x-api-key")) is not None:
            return key.decode("latin-1").strip()
        scheme, _, token = (
            sent.get(b"authorization", b"").decode("latin-1").partition(" ")
        )
        return token if scheme.lower() == "bearer" else ""
