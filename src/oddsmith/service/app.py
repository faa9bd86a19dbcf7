"""The application: from a request to the handler of its route, and from errors to refusals."""

import logging
import re
import time
from collections.abc import Sequence
from urllib.parse import parse_qsl

import msgspec

from oddsmith.errors import Conflict, InvalidInput, OddsmithError, StoreFailed
from oddsmith.service.access import authorize
from oddsmith.service.clock import Clock
from oddsmith.service.keys import KeyRing
from oddsmith.service.limits import HttpScope, Limits
from oddsmith.service.opening import Opened
from oddsmith.service.process import NotFound, Service
from oddsmith.service.response import JSON, Refusal, Response
from oddsmith.service.routes import ROUTES, Route
from oddsmith.service.wrong_messages import sentence
from oddsmith.spelling import did_you_mean, hint

__all__ = ["App", "make_app"]

_log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode
_FULL = ("disk is full", "database or disk is full", "No space left")


class App:
    """Answers requests by the table of routes; `service` has the experiments."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._routes = {(route.method, route.path): route for route in ROUTES}
        self._decoders = {
            route.handler: msgspec.json.Decoder(route.message, strict=route.method == "POST")  # a query is all strings
            for route in ROUTES
            if route.message is not None
        }

    async def __call__(self, scope: HttpScope, body: bytes) -> Response:
        """The answer to one request."""
        start = time.perf_counter()
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        route, parameters = self._routes.get((method, scope["path"])), dict[str, str]()
        if route is None:
            match = _find(method, scope["path"])
            if isinstance(match, Response):
                return match
            route, parameters = match
        if method == "GET":
            query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
            body = _encode(query | parameters)
        try:
            response = await self._answer(route, scope, body)
        except (OddsmithError, msgspec.DecodeError, RecursionError, UnicodeError) as error:
            response = _refusal(error, route, body).response()
        except Exception:
            _log.exception("%s %s failed", route.method, route.path)
            response = Refusal(500, "internal", "the service has failed; see its log").response()
        answers, seconds = self.service.metrics.series(route.path, response.status)
        answers.inc()
        seconds.observe(time.perf_counter() - start)
        return response

    async def _answer(self, route: Route, scope: HttpScope, body: bytes) -> Response:
        """What the route's handler answers, if the key allows it."""
        experiments = self.service.experiments
        message = None if route.message is None else self._decoders[route.handler].decode(body)
        name = None if message is None else message.experiment
        if message is not None and name is None and len(experiments) == 1:
            (name,) = experiments
        if self.service.ring is not None and (refused := self._refused(route, scope, name)) is not None:
            return refused.response()
        if message is None:
            answer = await route.handler(self.service)
        else:
            experiment = experiments.get(name or "")
            if experiment is None:
                raise self._unknown(name, route, scope)
            if experiment.follower.now.state is None:
                raise StoreFailed(f"experiment {name!r} is not ready: {experiment.follower.trouble}")
            answer = await route.handler(experiment, message)
        return answer if isinstance(answer, Response) else Response(200, _encode(answer), JSON)

    def _refused(self, route: Route, scope: HttpScope, experiment: str | None) -> Refusal | None:
        header = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"authorization"), None)
        access = authorize(self.service.ring, header, route.scopes, experiment)
        return access if isinstance(access, Refusal) else None

    def _unknown(self, name: str | None, route: Route, scope: HttpScope) -> InvalidInput:
        """The refusal of an experiment's name; it names only experiments that the key may call."""
        count = len(self.service.experiments)
        names = [one for one in self.service.experiments if self._refused(route, scope, one) is None]
        listed = ", ".join(names[:20]) + (" …" if len(names) > 20 else "") if names else "none that this key may call"
        if name is None:
            return InvalidInput(f"experiment must be given where there are {count}, {listed}; got none")
        meant = did_you_mean(name[:80], names)
        return NotFound(f"there is no experiment {name!r:.80}; {meant}There is: {listed}")


def make_app(opened: Sequence[Opened], *, keys: KeyRing | None = None, clock: Clock | None = None) -> Limits:
    """The ASGI application that serves these experiments, and closes their stores at its end."""
    service = Service(opened, ROUTES, keys, clock)
    limits = {route.path: route.body_bytes for route in ROUTES}
    return Limits(App(service), service.begin, service.end, body_bytes=limits, local=keys is None)


def _find(method: str, path: str) -> tuple[Route, dict[str, str]] | Response:
    """The route of a path with a parameter in it, and the parameter; or the refusal of a path or a method."""
    allowed = []
    for route in ROUTES:
        fits = re.fullmatch(re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(route.path)), path)
        if fits is not None and route.method == method:
            return route, fits.groupdict()
        allowed += [route.method] if fits is not None else []
    if allowed:
        methods = ", ".join(allowed)
        refusal = Refusal(405, "method", f"method of {path!r:.80} must be {methods}; got {method:.20}")
        return refusal.response((b"allow", methods.replace("GET", "GET, HEAD").encode()))
    near = hint(path[:80], [route.path for route in ROUTES]) or "; GET /openapi.json lists all paths"
    return Refusal(404, "not_found", f"there is no path {path!r:.80}{near}").response()


def _refusal(error: Exception, route: Route, body: bytes) -> Refusal:
    """The refusal that an error stands for."""
    text = str(error)
    if isinstance(error, msgspec.ValidationError) and route.message is not None:
        return Refusal(422, "invalid", sentence(text, route.message, body))
    if isinstance(error, msgspec.DecodeError | RecursionError | UnicodeError):
        return Refusal(400, "malformed", f"the body must be JSON; {text:.200}")
    if isinstance(error, StoreFailed) and any(word in text for word in _FULL):
        return Refusal(507, "disk_full", text)
    kinds = {NotFound: (404, "not_found"), Conflict: (409, "conflict"), StoreFailed: (503, "store_failed")}
    return Refusal(*next((kinds[kind] for kind in kinds if isinstance(error, kind)), (422, "invalid")), text)
