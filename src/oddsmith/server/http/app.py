"""The application: dispatch requests to the handlers of their routes, and turn errors
into error responses."""

import logging
import re
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote

import msgspec

from oddsmith.core.errors import (
    Conflict,
    InvalidInput,
    OddsmithError,
    StoreFailed,
    place_of,
)
from oddsmith.core.names import hint
from oddsmith.server.experiment.clock import Clock
from oddsmith.server.experiment.experiment import Experiment, Restoring
from oddsmith.server.experiment.start import ExperimentSetup
from oddsmith.server.experiment.threads import Busy
from oddsmith.server.http.access import (
    ANYONE,
    STRANGER,
    Forbidden,
    authorize,
    check_scope,
)
from oddsmith.server.http.connections import Connections
from oddsmith.server.http.docs_page import docs_page
from oddsmith.server.http.door import Door, DoorAnswer, DoorRefusal, Visit
from oddsmith.server.http.keys import Key, KeyRing, Scope
from oddsmith.server.http.limits import HttpScope, Limits
from oddsmith.server.http.log_lines import AccessLine
from oddsmith.server.http.page_files import PageFiles, page_folder
from oddsmith.server.http.rates import Rate, TooMany
from oddsmith.server.http.response import JSON, Headers, Refusal, Response
from oddsmith.server.http.routes import ROUTES
from oddsmith.server.http.routes.route import OFFER_BYTES, Route
from oddsmith.server.http.service import NotFound, Service
from oddsmith.server.messages.calls import (
    DecideBatch,
    DecisionAnswer,
    EventAnswer,
    RewardBatch,
    SlateAnswer,
)
from oddsmith.server.messages.refusals import check_keys, sentence

__all__ = ["App", "RequestHead", "make_app"]

_log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode
# matches the strings of a JSON text without escapes; group 1 is empty unless the string
# is a key
_keys = re.compile(rb'("[^"]*")(?=\s*:)|"[^"]*"').findall
_KINDS: dict[type[Exception], tuple[int, str]] = {
    Forbidden: (403, "forbidden"),
    NotFound: (404, "not_found"),
    # Restoring is a subclass of StoreFailed, so it must come before it
    Restoring: (503, "restoring"),
    Conflict: (409, "conflict"),
    StoreFailed: (503, "store_failed"),
    Busy: (503, "busy"),
}
# bodies with at most this many keys are checked here for repeated keys; `check_keys`
# checks larger bodies
_FEW = 200
_FULL = ("disk is full", "database or disk is full", "No space left")
_NAMES = 20  # maximum number of experiment names in an error message
_WITH_ID = (DecisionAnswer, SlateAnswer, EventAnswer, DoorAnswer)
"""Types of answers whose id is written to the access log."""


class RequestHead(NamedTuple):
    """The head of a request: its route, the parameters in its path, and its key.

    If `waits` is true, the call may take long, and is cancelled when the client
    disconnects. `body_bytes` limits the body of another product's API (a `Door`).
    `authenticated` is true if the caller has a valid key, or needs none.
    """

    route: Route
    parameters: dict[str, str]
    query: bytes
    key: Key
    waits: bool
    headers: Headers
    body_bytes: int | None
    authenticated: bool

    def refusal_response(
        self, refusal: Refusal, *more: tuple[bytes, bytes]
    ) -> Response:
        """Return the refusal in the format of the route's API, with additional
        headers."""
        return _error_response(refusal, self.route, *more)


class App:
    """Answers requests. `service` contains the routes and the experiments, and `page`
    contains the files for browsers."""

    def __init__(
        self,
        service: Service,
        page: PageFiles,
        access_log: Callable[[AccessLine], None] | None = None,
        doors: Sequence[Door] = (),
    ) -> None:
        self.service = service
        self._page = page
        self._access_log = access_log
        self._doors = doors
        self._routes = {
            (route.method, route.path): route
            for route in service.routes
            if "{" not in route.path
        }
        self._decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
        door_routes = [route for door in doors for route in door.routes]
        for route in (*service.routes, *door_routes):
            if route.message is not None:
                is_strict = route.method != "GET"  # all values in a query are strings
                decoder = msgspec.json.Decoder(route.message, strict=is_strict)
                self._decoders[route.handler] = decoder

    def enter(self, scope: HttpScope) -> RequestHead | Response:
        """Check path, method, key and scopes of a request.

        Return a response if the request is refused or asks for a file.
        """
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        route = self._routes.get((method, scope["path"]))
        parameters: dict[str, str] = {}
        if route is None:
            match = self._match(method, scope)
            if isinstance(match, Response):
                self._note(AccessLine(method, "", match.status, 0.0, len(match.body)))
                return match
            route, parameters = match
        key = ANYONE
        if self.service.ring is not None:
            authorization = _authorization(route, scope["headers"])
            access = authorize(self.service.ring, authorization, route.scopes)
            if isinstance(access, Refusal):
                return self._refuse(route, access, scope)
            key = access
        rates = self.service.rates
        if route.scopes and (key.rate is not None or rates.default is not None):
            try:
                rates.count_call(key.name, key.rate)
            except TooMany as error:
                refusal = _refusal_of(error, route, b"")
                return self._refuse(route, refusal, scope, key.name)
        limit = None if route.door is None else route.body_bytes
        return RequestHead(
            route,
            parameters,
            query=scope["query_string"],
            key=key,
            waits=route.waits,
            headers=scope["headers"],
            body_bytes=limit,
            authenticated=key is not STRANGER,
        )

    def _match(
        self, method: str, scope: HttpScope
    ) -> tuple[Route, dict[str, str]] | Response:
        """Find the route of a path that is not a fixed entry of the table: a file for
        browsers, another product's API, or a path with a parameter."""
        path = scope["path"]
        query = scope["query_string"]
        file = self._page.answer(method, path, scope["headers"], query)
        if file is not None:
            return file
        raw_path = scope["raw_path"].decode("latin-1")
        refusals: list[Response] = []
        for door in self._doors:
            match = door.find(method, raw_path, query)
            if isinstance(match, Response):
                refusals.append(match)
            elif match is not None:
                return match
        # A path that another API refuses may belong to our API, if it contains a name
        # that is a word of the other API.
        own = _find(self.service.routes, method, path, raw_path)
        if not isinstance(own, Response) or own.status != 404 or not refusals:
            return own
        for refusal in refusals:
            if refusal.status != 404:
                return refusal
        return refusals[0]

    def _refuse(
        self, route: Route, refusal: Refusal, scope: HttpScope, key: str = ""
    ) -> Response:
        """Count a request that is refused after its head was read, and return the
        response.

        After too many wrong keys from one address, the response closes the connection.
        """
        answers, _ = self.service.metrics.series(route.path, refusal.status)
        answers.inc()
        address, *_ = scope.get("client") or ("",)
        is_guess = refusal.status == 401 and self.service.wrong_keys.too_many(address)
        headers = [(b"connection", b"close")] if is_guess else []
        response = _error_response(refusal, route, *headers)
        n_bytes = len(response.body)
        line = AccessLine(route.method, route.path, response.status, 0.0, n_bytes, key)
        self._note(line)
        return response

    def _note(self, line: AccessLine) -> None:
        if self._access_log is not None:
            self._access_log(line)

    async def __call__(self, head: RequestHead, body: bytes) -> Response:
        """Return the response to one request."""
        start = time.perf_counter()
        route = head.route
        name: str | None = None
        answer: Any = None
        if route.method == "GET":
            body = _query_as_json(head)
        try:
            if route.door is not None:
                name, answer = await self._visit(head, body)
            elif route.message is None:
                scopes: frozenset[Scope] = frozenset() if route.each else route.scopes
                check_scope(head.key, scopes, None)
                answer = await route.handler(self.service, head.key)
            else:
                message = self._decoders[route.handler].decode(body)
                n_colons = body.count(b":")
                if n_colons > 1:  # with one colon there is only one key
                    keys: list[bytes] = []
                    if n_colons < _FEW:
                        keys = list(filter(None, _keys(body)))
                    is_unique = 0 < len(keys) == len(set(keys))
                    # equal keys are allowed in different objects, so parse the body to
                    # find out
                    if not is_unique or b"\\" in body:
                        check_keys(body)
                experiments = self.service.experiments
                name = message.experiment
                if name is None and len(experiments) == 1:
                    (name,) = experiments
                experiment = experiments.get(name or "")
                if (
                    experiment is None
                    or experiment.follower.now.state is None
                    or head.key is not ANYONE
                ):
                    self._check(head, name, experiment)
                slots = getattr(message, "slots", None)
                if slots or isinstance(message, DecideBatch | RewardBatch):
                    key = head.key
                    self.service.rates.count_entries(key.name, key.rate, len(message))
                handler = route.slate_handler if slots else route.handler
                if route.method == "POST":
                    answer = await handler(experiment, message, head.key.name)
                else:
                    answer = await handler(experiment, message)
            if isinstance(answer, Response):
                response = answer
            else:
                response = Response(route.status, _encode(answer), JSON)
        except Exception as error:
            response = _error_response(_refusal_of(error, route, body), route)
        answers, seconds = self.service.metrics.series(route.path, response.status)
        answers.inc()
        duration = time.perf_counter() - start
        seconds.observe(duration)
        if self._access_log is not None:
            id = answer.id if isinstance(answer, _WITH_ID) else None
            line = AccessLine(
                route.method,
                route.path,
                response.status,
                ms=round(duration * 1000, 3),
                bytes=len(response.body),
                key=head.key.name,
                experiment=name,
                decision=id,
            )
            self._access_log(line)
        return response

    async def _visit(self, head: RequestHead, body: bytes) -> tuple[str | None, Any]:
        """Call a handler of another product's API. Return the name of the experiment
        and the answer.

        The name is None if the route is about all experiments.
        """
        route = head.route
        experiments = self.service.experiments
        message = None
        if route.message is not None:
            message = self._decoders[route.handler].decode(body)
        visit = Visit(head.parameters, head.query, head.headers, head.key, message)
        if route.each:
            return None, await route.handler(self.service, visit)
        name = head.parameters.get("experiment")
        if not name:
            # a key for exactly one experiment selects that experiment
            names = tuple(experiments)
            if len(names) != 1:
                names = head.key.experiments
            name = names[0] if len(names) == 1 else None
        experiment = experiments.get(name or "")
        self._check(head, name, experiment)
        return name, await route.handler(experiment, visit)

    def _check(
        self, head: RequestHead, name: str | None, experiment: Experiment | None
    ) -> None:
        """Raise if the key does not permit the call, or if the experiment does not
        exist or is not ready."""
        check_scope(head.key, head.route.scopes, name)
        if experiment is None:
            raise self._unknown_experiment(head, name)
        experiment.check_restored()

    def _unknown_experiment(self, head: RequestHead, name: str | None) -> InvalidInput:
        """Return the error for an unknown experiment. It lists only experiments that
        the key may use."""
        names: list[str] = []
        for one in self.service.experiments:
            if any(head.key.may(scope, one) for scope in head.route.scopes):
                names.append(one)
        names_text = ", ".join(names[:_NAMES]) or "none that this key may call"
        if len(names) > _NAMES:
            names_text += " …"
        if name is None:
            count = len(self.service.experiments)
            return InvalidInput(
                f"experiment must be given where there are {count}, {names_text}; got "
                "none"
            )
        meant = hint(name[:80], names) or "."
        return NotFound(
            f"there is no experiment {name!r:.80}{meant} There is: {names_text}"
        )


def make_app(
    experiments: Sequence[ExperimentSetup],
    *,
    keys: KeyRing | None = None,
    clock: Clock | None = None,
    rate: Rate | None = None,
    access_log: Callable[[AccessLine], None] | None = None,
    room: Connections | None = None,
    dashboard: bool = True,
    doors: Sequence[Door] = (),
) -> Limits:
    """Return the ASGI application that serves these experiments and closes their stores
    when it ends.

    `rate` limits keys without a rate of their own. `access_log` is called with a line
    for each answer. `room` contains the server's connections, for metrics. Without
    `dashboard`, no files for browsers are served. `doors` are APIs of other products,
    whose paths are served in addition to those of oddsmith.
    """
    service = Service(experiments, ROUTES, ring=keys, clock=clock, rate=rate, room=room)
    files = page_folder() if dashboard else {}
    page = PageFiles(files, docs_page(ROUTES))
    app = App(service, page, access_log, doors)
    body_bytes = {route.path: route.body_bytes for route in ROUTES}
    if any(one.arms is None for one in experiments):
        body_bytes["/v1/decide"] = OFFER_BYTES
    return Limits(
        app,
        service.begin,
        service.end,
        enter=app.enter,
        drain=service.drain,
        body_bytes=body_bytes,
        local=keys is None,
    )


def _authorization(route: Route, headers: Headers) -> str:
    """Return the Authorization header of a request, or the key that another product's
    API finds in it."""
    if route.door is not None:
        return f"Bearer {route.door.token(headers)}"
    for name, value in headers:
        if name == b"authorization":
            return value.decode("latin-1")
    return ""


def _query_as_json(head: RequestHead) -> bytes:
    """Return the query and the path parameters as JSON, in the form of a POST body."""
    pairs = parse_qsl(head.query.decode("latin-1"), keep_blank_values=True)
    return _encode(dict(pairs) | head.parameters)


def _find(
    routes: Sequence[Route], method: str, path: str, raw_path: str
) -> tuple[Route, dict[str, str]] | Response:
    """Find the route of a path with a parameter.

    Return the route with the parameter, or a refusal of the path or method. A parameter
    may contain any character, so it is read from the raw path.
    """
    allowed: list[str] = []
    for route in routes:
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(route.path))
        match = re.fullmatch(pattern, raw_path)
        if match is None:
            continue
        if route.method == method:
            parameters = match.groupdict()
            return route, {name: unquote(text) for name, text in parameters.items()}
        allowed.append(route.method)
    if allowed:
        methods = ", ".join(allowed)
        refusal = Refusal(
            405, "method", f"method of {path!r:.80} must be {methods}; got {method:.20}"
        )
        with_head = methods.replace("GET", "GET, HEAD")
        return refusal.response((b"allow", with_head.encode()))
    near = hint(path[:80], [route.path for route in routes])
    then = near or "; GET /openapi.json lists all paths"
    return Refusal(404, "not_found", f"there is no path {path!r:.80}{then}").response()


def _error_response(
    refusal: Refusal, route: Route, *more: tuple[bytes, bytes]
) -> Response:
    """Return the refusal in the format of the route's API, with additional headers."""
    if route.door is None:
        return refusal.response(*more)
    response = route.door.refusal_response(refusal, route)
    return response._replace(headers=[*response.headers, *more])


def _refusal_of(error: Exception, route: Route, body: bytes) -> Refusal:
    """Return the refusal that reports an error. Unexpected errors are also logged."""
    text = str(error)
    if isinstance(error, DoorRefusal):
        return Refusal(error.status, error.code, text)
    if isinstance(error, TooMany):
        return Refusal(429, "too_many", text, error.seconds)
    if isinstance(error, msgspec.ValidationError) and route.message is not None:
        return Refusal(422, "invalid", sentence(text, route.message, body))
    if isinstance(error, msgspec.DecodeError | RecursionError | UnicodeError):
        return Refusal(400, "malformed", f"the body must be JSON; {text:.200}")
    if isinstance(error, StoreFailed) and any(word in text for word in _FULL):
        return Refusal(507, "disk_full", text)
    if not isinstance(error, OddsmithError):
        place = place_of(error, frames=30)
        _log.error("%s %s failed: %s", route.method, route.path, place)
        return Refusal(500, "internal", "the service has failed; see its log")
    for kind, (status, code) in _KINDS.items():
        if isinstance(error, kind):
            return Refusal(status, code, text)
    return Refusal(422, "invalid", text)
