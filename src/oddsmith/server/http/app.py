"""The application: from a request to the handler of its route, and from errors to
refusals."""

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
from oddsmith.server.http.door import Door, Refused, Told, Visit
from oddsmith.server.http.keys import Key, KeyRing
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

__all__ = ["App", "Call", "make_app"]

_log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode
# of JSON without escapes; "" for a string that is no key
_keys = re.compile(rb'("[^"]*")(?=\s*:)|"[^"]*"').findall
_KINDS: dict[type[Exception], tuple[int, str]] = {
    Forbidden: (403, "forbidden"),
    NotFound: (404, "not_found"),
    Restoring: (503, "restoring"),  # before StoreFailed, which it is
    Conflict: (409, "conflict"),
    StoreFailed: (503, "store_failed"),
    Busy: (503, "busy"),
}
_FEW = 200  # of keys that are looked at one by one
_FULL = ("disk is full", "database or disk is full", "No space left")


class Call(NamedTuple):
    """A request whose body is not read yet: its route, the parameters in its path, its
    query, and whose key it has.

    `waits`: it may be held open for long, and is given up where the caller is gone. Of
    a door's route, `headers` are kept, too, and `body_bytes` is the most that its body
    may have. `authenticated`: the caller has a key in force, or needs none.
    """

    route: Route
    parameters: dict[str, str]
    query: bytes
    key: Key
    waits: bool
    headers: Headers
    body_bytes: int | None
    authenticated: bool

    def refused(self, refusal: Refusal, *more: tuple[bytes, bytes]) -> Response:
        """The answer that says no, in the shape of the route's door, with `more`
        headers."""
        return _shaped(refusal, self.route, *more)


class App:
    """Answers requests by the table of routes; `service` has the experiments, `page`
    what a browser is shown."""

    def __init__(
        self,
        service: Service,
        page: PageFiles,
        access_log: Callable[[AccessLine], None] | None = None,
        doors: Sequence[Door] = (),
    ) -> None:
        self.service, self._page, self._access_log, self._doors = (
            service,
            page,
            access_log,
            doors,
        )
        self._routes = {
            (route.method, route.path): route
            for route in service.routes
            if "{" not in route.path
        }
        self._decoders = {
            # a query is all strings
            route.handler: msgspec.json.Decoder(
                route.message, strict=route.method != "GET"
            )
            for route in (
                *service.routes,
                *(route for door in doors for route in door.routes),
            )
            if route.message is not None
        }

    def enter(self, scope: HttpScope) -> Call | Response:
        """The call that a head stands for, or its refusal: of the path, of the method,
        of the key and its scopes."""
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        route, parameters = self._routes.get((method, scope["path"])), dict[str, str]()
        if route is None:
            match = self._match(method, scope)
            if isinstance(match, Response):
                self._note(AccessLine(method, "", match.status, 0.0, len(match.body)))
                return match
            route, parameters = match
        key = ANYONE
        if self.service.ring is not None:
            if route.door is None:
                sent = next(
                    (
                        value
                        for name, value in scope["headers"]
                        if name == b"authorization"
                    ),
                    b"",
                ).decode("latin-1")
            else:
                sent = f"Bearer {route.door.token(scope['headers'])}"
            access = authorize(self.service.ring, sent, route.scopes)
            if isinstance(access, Refusal):
                return self._refuse(route, access, scope)
            key = access
        if route.scopes and (
            key.rate is not None or self.service.rates.default is not None
        ):
            try:
                self.service.rates.count_call(key.name, key.rate)
            except TooMany as error:
                return self._refuse(route, _refusal(error, route, b""), scope, key.name)
        limit = None if route.door is None else route.body_bytes
        return Call(
            route,
            parameters,
            scope["query_string"],
            key,
            route.waits,
            scope["headers"],
            limit,
            key is not STRANGER,
        )

    def _match(
        self, method: str, scope: HttpScope
    ) -> tuple[Route, dict[str, str]] | Response:
        """The route of a path that is not in the table as it is: of the page, of a
        door, or with a parameter."""
        file = self._page.answer(
            method, scope["path"], scope["headers"], scope["query_string"]
        )
        if file is not None:
            return file
        raw = scope["raw_path"].decode("latin-1")
        refused: list[Response] = []
        for door in self._doors:
            found = door.find(method, raw, scope["query_string"])
            if isinstance(found, Response):
                refused.append(found)
            elif found is not None:
                return found
        # a path that a door refuses may be our own, with a name that is a door's word
        own = _find(self.service.routes, method, scope["path"], raw)
        if not isinstance(own, Response) or own.status != 404 or not refused:
            return own
        return next((one for one in refused if one.status != 404), refused[0])

    def _refuse(
        self, route: Route, refusal: Refusal, scope: HttpScope, key: str = ""
    ) -> Response:
        """The answer to a head that is refused, counted; too many wrong keys from one
        address close the connection."""
        self.service.metrics.series(route.path, refusal.status)[0].inc()
        address = scope.get("client") or ("",)
        closed = refusal.status == 401 and self.service.wrong_keys.too_many(address[0])
        response = _shaped(refusal, route, *[(b"connection", b"close")] * closed)
        self._note(
            AccessLine(
                route.method, route.path, response.status, 0.0, len(response.body), key
            )
        )
        return response

    def _note(self, line: AccessLine) -> None:
        if self._access_log is not None:
            self._access_log(line)

    async def __call__(self, call: Call, body: bytes) -> Response:
        """The answer to one call."""
        start, route, name, answer = time.perf_counter(), call.route, None, None
        if route.method == "GET":
            query = dict(
                parse_qsl(call.query.decode("latin-1"), keep_blank_values=True)
            )
            body = _encode(query | call.parameters)
        try:
            if route.door is not None:
                name, answer = await self._visit(call, body)
            elif route.message is None:
                check_scope(call.key, frozenset() if route.each else route.scopes, None)
                answer = await route.handler(self.service, call.key)
            else:
                message, experiments = (
                    self._decoders[route.handler].decode(body),
                    self.service.experiments,
                )
                # there are two keys, if they are no text
                if (colons := body.count(b":")) > 1:
                    keys = list(filter(None, _keys(body))) if colons < _FEW else []
                    # as they may, in two objects
                    if not keys or len(keys) != len(set(keys)) or b"\\" in body:
                        check_keys(body)
                name = message.experiment
                if name is None and len(experiments) == 1:
                    (name,) = experiments
                experiment = experiments.get(name or "")
                if (
                    experiment is None
                    or experiment.follower.now.state is None
                    or call.key is not ANYONE
                ):
                    self._check(call, name, experiment)
                slots = getattr(message, "slots", None)
                if slots or isinstance(message, DecideBatch | RewardBatch):
                    self.service.rates.count_entries(
                        call.key.name, call.key.rate, len(message)
                    )
                sender = (call.key.name,) if route.method == "POST" else ()
                answer = await (route.slate_handler if slots else route.handler)(
                    experiment, message, *sender
                )
            response = (
                answer
                if isinstance(answer, Response)
                else Response(route.status, _encode(answer), JSON)
            )
        except Exception as error:
            response = _shaped(_refusal(error, route, body), route)
        answers, seconds = self.service.metrics.series(route.path, response.status)
        answers.inc()
        took = time.perf_counter() - start
        seconds.observe(took)
        if self._access_log is not None:
            id = (
                answer.id
                if isinstance(answer, DecisionAnswer | SlateAnswer | EventAnswer | Told)
                else None
            )
            facts = round(took * 1000, 3), len(response.body), call.key.name, name, id
            self._access_log(
                AccessLine(route.method, route.path, response.status, *facts)
            )
        return response

    async def _visit(self, call: Call, body: bytes) -> tuple[str | None, Any]:
        """What a door's route answers, and of which experiment; None where it is about
        all of them."""
        route, experiments = call.route, self.service.experiments
        message = (
            None
            if route.message is None
            else self._decoders[route.handler].decode(body)
        )
        visit = Visit(call.parameters, call.query, call.headers, call.key, message)
        if route.each:
            return None, await route.handler(self.service, visit)
        # a key for one means that one
        few = tuple(experiments) if len(experiments) == 1 else call.key.experiments
        name = call.parameters.get("experiment") or (few[0] if len(few) == 1 else None)
        experiment = experiments.get(name or "")
        self._check(call, name, experiment)
        return name, await route.handler(experiment, visit)

    def _check(
        self, call: Call, name: str | None, experiment: Experiment | None
    ) -> None:
        """Refuses what the key does not allow, a name that no experiment has, and one
        that is not ready."""
        check_scope(call.key, call.route.scopes, name)
        if experiment is None:
            raise self._unknown(call, name)
        experiment.check_restored()

    def _unknown(self, call: Call, name: str | None) -> InvalidInput:
        """The refusal of an experiment's name; it names only experiments that the key
        may call."""
        count, scopes = len(self.service.experiments), call.route.scopes
        names = [
            one
            for one in self.service.experiments
            if any(call.key.may(scope, one) for scope in scopes)
        ]
        listed = (
            ", ".join(names[:20]) + (" …" if len(names) > 20 else "")
            if names
            else "none that this key may call"
        )
        if name is None:
            return InvalidInput(
                f"experiment must be given where there are {count}, {listed}; got none"
            )
        meant = hint(name[:80], names) or "."
        return NotFound(
            f"there is no experiment {name!r:.80}{meant} There is: {listed}"
        )


def make_app(
    opened: Sequence[ExperimentSetup],
    *,
    keys: KeyRing | None = None,
    clock: Clock | None = None,
    rate: Rate | None = None,
    access_log: Callable[[AccessLine], None] | None = None,
    room: Connections | None = None,
    dashboard: bool = True,
    doors: Sequence[Door] = (),
) -> Limits:
    """The ASGI application that serves these experiments, and closes their stores at
    its end.

    `rate` is that of keys that have none of their own; `access_log` is given a line for
    each answer; `room` has the connections of its server, for metrics. Without
    `dashboard` there is no page. `doors` are the APIs of other products: paths that are
    not our own are theirs, if they know them.
    """
    service = Service(opened, ROUTES, ring=keys, clock=clock, rate=rate, room=room)
    app = App(
        service,
        PageFiles(page_folder() if dashboard else {}, docs_page(ROUTES)),
        access_log,
        doors,
    )
    sizes = {route.path: route.body_bytes for route in ROUTES}
    if any(one.arms is None for one in opened):
        sizes["/v1/decide"] = OFFER_BYTES
    return Limits(
        app,
        service.begin,
        service.end,
        enter=app.enter,
        drain=service.drain,
        body_bytes=sizes,
        local=keys is None,
    )


def _find(
    routes: Sequence[Route], method: str, path: str, raw: str
) -> tuple[Route, dict[str, str]] | Response:
    """The route of a path with a parameter in it, and the parameter; or the refusal of
    a path or a method.

    A parameter may hold any character: it is found in the path as it was sent.
    """
    allowed = []
    for route in routes:
        fits = re.fullmatch(
            re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(route.path)), raw
        )
        if fits is not None and route.method == method:
            return route, {
                name: unquote(value) for name, value in fits.groupdict().items()
            }
        allowed += [route.method] if fits is not None else []
    if allowed:
        methods = ", ".join(allowed)
        refusal = Refusal(
            405, "method", f"method of {path!r:.80} must be {methods}; got {method:.20}"
        )
        return refusal.response(
            (b"allow", methods.replace("GET", "GET, HEAD").encode())
        )
    near = (
        hint(path[:80], [route.path for route in routes])
        or "; GET /openapi.json lists all paths"
    )
    return Refusal(404, "not_found", f"there is no path {path!r:.80}{near}").response()


def _shaped(refusal: Refusal, route: Route, *more: tuple[bytes, bytes]) -> Response:
    """The answer that says no, in the shape of the route's door, with `more`
    headers."""
    if route.door is None:
        return refusal.response(*more)
    response = route.door.refused(refusal, route)
    return response._replace(headers=[*response.headers, *more])


def _refusal(error: Exception, route: Route, body: bytes) -> Refusal:
    """The refusal that an error stands for; one that is not foreseen is in the log."""
    text = str(error)
    if isinstance(error, Refused):
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
        _log.error(
            "%s %s failed: %s", route.method, route.path, place_of(error, frames=30)
        )
        return Refusal(500, "internal", "the service has failed; see its log")
    return Refusal(
        *next(
            (_KINDS[kind] for kind in _KINDS if isinstance(error, kind)),
            (422, "invalid"),
        ),
        text,
    )
