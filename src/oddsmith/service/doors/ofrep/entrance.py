"""Ofrep: paths, keys and refusals of the OpenFeature Remote Evaluation Protocol, version 1 of its paths."""

import json
from dataclasses import dataclass, replace
from urllib.parse import unquote

from oddsmith.service.doors.door import Door
from oddsmith.service.doors.ofrep.evaluating import evaluate, evaluate_all
from oddsmith.service.doors.ofrep.messages import Evaluation, EvaluationRequest, Flags
from oddsmith.service.keys import Scope
from oddsmith.service.response import Headers, Refusal, Response
from oddsmith.service.routes import Route

__all__ = ["Ofrep"]

_ROOT, _ALL = "/ofrep/", "/ofrep/v1/evaluate/flags"
_DECIDE: frozenset[Scope] = frozenset({"decide"})
_ONE_FLAG = Route(
    "POST", f"{_ALL}/{{key}}", evaluate, "Evaluate a flag.", _DECIDE, EvaluationRequest, Evaluation, each=True
)
_ALL_FLAGS = Route("POST", _ALL, evaluate_all, "Evaluate all flags.", _DECIDE, EvaluationRequest, Flags, each=True)
_STATUSES = {409: 400, 413: 400, 422: 400}
_CODES = {"malformed": "PARSE_ERROR", "invalid": "PARSE_ERROR", "not_found": "FLAG_NOT_FOUND"}
_OWN = ("TARGETING_KEY_MISSING", "INVALID_CONTEXT")


@dataclass(frozen=True)
class Ofrep(Door):
    """The door for OpenFeature's clients; `flag` is the one that a call is about."""

    flag: str | None = None

    @property
    def routes(self) -> tuple[Route, ...]:  # type: ignore[override]
        """One flag, and all of them."""
        return tuple(route._replace(door=self) for route in (_ONE_FLAG, _ALL_FLAGS))

    def find(self, method: str, raw_path: str, query: bytes) -> tuple[Route, dict[str, str]] | Response | None:
        """The route of a path as it was sent, with the flag's `key`."""
        if not raw_path.startswith(_ROOT):
            return None
        flag = unquote(raw_path[len(_ALL) + 1 :])
        if raw_path != _ALL and not (raw_path.startswith(f"{_ALL}/") and flag):
            what = f"there is no path {raw_path!r:.80}; flags are asked for with POST {_ALL}, or {_ALL}/KEY"
            return self.refused(Refusal(404, "no_path", what), None)
        if method != "POST":
            response = self.refused(Refusal(405, "method", f"method must be POST; got {method:.20}"), None)
            return response._replace(headers=[*response.headers, (b"allow", b"POST")])
        if raw_path == _ALL:
            return _ALL_FLAGS._replace(door=self), {}
        return _ONE_FLAG._replace(door=replace(self, flag=flag)), {"key": flag}

    def refused(self, refusal: Refusal, route: Route | None) -> Response:
        """The answer that says no: `{"key", "errorCode", "errorDetails"}`, without a key where no flag is meant."""
        status = _STATUSES.get(refusal.status, refusal.status)
        code = refusal.code if refusal.code in _OWN else _CODES.get(refusal.code, "GENERAL")
        about = {} if self.flag is None else {"key": self.flag}
        body = json.dumps(about | {"errorCode": code, "errorDetails": refusal.error}).encode()
        return Response(status, body, refusal._replace(status=status).response().headers)

    def token(self, headers: Headers) -> str:
        """The key in X-API-Key, or behind Bearer in Authorization."""
        sent = dict(headers)
        if (key := sent.get(b"x-api-key")) is not None:
            return key.decode("latin-1").strip()
        scheme, _, token = sent.get(b"authorization", b"").decode("latin-1").partition(" ")
        return token if scheme.lower() == "bearer" else ""
