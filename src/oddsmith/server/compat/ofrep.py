"""OFREP, the OpenFeature Remote Evaluation Protocol. Sticky experiments are served as
feature flags; see docs/howto/feature-flags.md."""

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
from oddsmith.server.http.door import Door, DoorAnswer, DoorRefusal, Visit, bearer_token
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
    """A request for flags. `targetingKey` in `context` is the unit; the other fields
    are the context of the decision."""

    context: dict[str, Any] | None = None


class Evaluation(DoorAnswer):
    """The value of a flag. `value` is the value of the drawn arm, and `variant` is the
    name of the arm.

    `metadata` contains the id and the propensity of the decision and, with
    `deferred=true`, whether the decision counts already.
    """

    key: str
    value: Any
    variant: str
    metadata: dict[str, str | float | bool]
    reason: Literal["SPLIT"] = "SPLIT"

    @property
    def id(self) -> str:
        """Id of the decision."""
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
    """Evaluate one flag. Its decision counts, unless the query contains
    `deferred=true`."""
    name = visit.parameters["key"]
    deferred = visit.query_fields.get("deferred") == "true"
    check_scope(visit.key, frozenset({"decide"}), name)
    experiment = service.experiments.get(name)
    if experiment is None:
        raise NotFound(f"there is no flag {name!r:.80}")
    reason = _no_flag(experiment)
    if reason:
        raise NotFound(f"there is no flag {name!r:.80}: {reason}")
    answer = await _evaluation(experiment, visit, deferred=deferred)
    if deferred:
        answer.metadata["counts"] = await _counts(experiment, answer.id)
    return answer


async def evaluate_all(service: Service, visit: Visit) -> Response:
    """Evaluate all flags that the key permits, as deferred decisions. Return status 304
    if the caller already has this answer."""
    _unit_and_context(visit.message)
    flags: list[Experiment] = []
    for name, experiment in sorted(service.experiments.items()):
        if visit.key.may("decide", name) and not _no_flag(experiment):
            flags.append(experiment)
    if flags:
        service.rates.count_entries(visit.key.name, visit.key.rate, len(flags))
    entries = await asyncio.gather(*[_entry(flag, visit) for flag in flags])
    body = _encode(Flags(list(entries)))
    tag = f'"{blake2b(body, digest_size=16).hexdigest()}"'
    headers = [(b"etag", tag.encode()), (b"cache-control", b"private, no-cache")]
    sent_tags = (visit.header(b"if-none-match") or "").split(",")
    known = [one.strip().removeprefix("W/") for one in sent_tags]
    if tag in known or "*" in known:
        return Response(304, b"", headers)
    return Response(200, body, [*JSON, *headers])


async def _entry(experiment: Experiment, visit: Visit) -> Evaluation | Failure:
    """Return the value of one flag, or its failure, which does not affect other
    flags."""
    try:
        return await _evaluation(experiment, visit, deferred=True)
    except DoorRefusal as error:
        return Failure(experiment.name, error.code, str(error))
    except OddsmithError as error:
        return Failure(experiment.name, "GENERAL", str(error))


async def _evaluation(
    experiment: Experiment, visit: Visit, *, deferred: bool
) -> Evaluation:
    """Decide the value of a flag, and return it when the decision is on disk."""
    unit, context = _unit_and_context(visit.message)
    experiment.check_restored()
    entry = DecideEntry(context=context, unit=unit, deferred=deferred, odds=False)
    try:
        answer = await decide(experiment, entry, visit.sender)
    except InvalidInput as error:
        raise DoorRefusal(400, "INVALID_CONTEXT", str(error)) from error
    if not answer.new and not deferred:
        await _activate(experiment, answer.id, visit.sender)
    value = experiment.setup.file.flag_values.get(answer.arm, answer.arm)
    facts: dict[str, str | float | bool] = {
        "decision_id": answer.id,
        "experiment": answer.experiment,
        "propensity": answer.propensity,
    }
    return Evaluation(answer.experiment, value, answer.arm, facts)


async def _activate(experiment: Experiment, id: str, sender: str) -> None:
    """Activate a deferred decision."""
    if await _counts(experiment, id):
        return
    # If its context is erased, the decision cannot count any more. The unit keeps its
    # arm.
    with suppress(InvalidInput):
        await rewards.activate(experiment, Activate(id=id), sender)


async def _counts(experiment: Experiment, id: str) -> bool:
    """Return whether a decision counts: it was not deferred, or it was activated."""
    lines = await asyncio.to_thread(experiment.store.history, [id], EVERYTHING)
    if not any(line.deferred for line in lines):
        return True
    return any(line.kind == "activation" for line in lines)


def _unit_and_context(request: EvaluationRequest) -> tuple[str, dict[str, Any]]:
    """Return the unit, and the rest of the request's context as one flat dict."""
    context = dict(request.context or {})
    unit = context.pop(_UNIT, None)
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
    try:
        return unit, flat(context)
    except InvalidInput as error:
        raise DoorRefusal(400, "INVALID_CONTEXT", str(error)) from error


def _no_flag(experiment: Experiment) -> str:
    """Return the reason why an experiment cannot be a flag; empty if it is one."""
    if experiment.arms is None:
        return "its arms are passed in calls"
    if not experiment.settings.sticky:
        return (
            "it is not sticky, so a unit could get another arm each time ([service] "
            "sticky = true)"
        )
    if experiment.settings.shadow:
        return "it is in shadow mode, where an incumbent decides"
    return ""


_ROOT = "/ofrep/"
_ALL = "/ofrep/v1/evaluate/flags"
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
    """The OFREP API for OpenFeature clients. `flag` is the name of a call's flag."""

    flag: str | None = None

    @property
    def routes(self) -> tuple[Route, ...]:  # type: ignore[override]
        """The routes for one flag and for all flags."""
        return tuple(route._replace(door=self) for route in (_ONE_FLAG, _ALL_FLAGS))

    def find(
        self, method: str, raw_path: str, query: bytes
    ) -> tuple[Route, dict[str, str]] | Response | None:
        """Return the route of a raw path, with the parameter `key`, which names the
        flag."""
        if not raw_path.startswith(_ROOT):
            return None
        is_all = raw_path == _ALL
        flag = unquote(raw_path.removeprefix(f"{_ALL}/"))
        is_one = raw_path.startswith(f"{_ALL}/") and flag
        if not is_all and not is_one:
            what = (
                f"there is no path {raw_path!r:.80}; flags are asked for with POST "
                f"{_ALL}, or {_ALL}/KEY"
            )
            return self.refusal_response(Refusal(404, "no_path", what), None)
        if method != "POST":
            refusal = Refusal(405, "method", f"method must be POST; got {method:.20}")
            response = self.refusal_response(refusal, None)
            return response._replace(headers=[*response.headers, (b"allow", b"POST")])
        if is_all:
            return _ALL_FLAGS._replace(door=self), {}
        return _ONE_FLAG._replace(door=replace(self, flag=flag)), {"key": flag}

    def refusal_response(self, refusal: Refusal, route: Route | None) -> Response:
        """Return the error response in OFREP's format, `{"key", "errorCode",
        "errorDetails"}`. Calls about all flags have no key."""
        status = _STATUSES.get(refusal.status, refusal.status)
        code = refusal.code
        if code not in _OWN:
            code = _CODES.get(code, "GENERAL")
        fields: dict[str, str] = {}
        if self.flag is not None:
            fields["key"] = self.flag
        fields["errorCode"] = code
        fields["errorDetails"] = refusal.error
        headers = refusal._replace(status=status).response().headers
        return Response(status, json.dumps(fields).encode(), headers)

    def token(self, headers: Headers) -> str:
        """Return the key in X-API-Key, or after Bearer in Authorization."""
        key = dict(headers).get(b"x-api-key")
        if key is None:
            return bearer_token(headers)
        return key.decode("latin-1").strip()
