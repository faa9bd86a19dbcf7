"""The ASGI application: routes, keys, errors as answers, and the life of its experiments."""

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from oddsmith.errors import Conflict, InvalidInput, OddsmithError, StoreFailed
from oddsmith.service import routes
from oddsmith.service.clock import Clock
from oddsmith.service.experiment import Experiment
from oddsmith.service.guard import SCOPES, authorize
from oddsmith.service.keys import KeyRing
from oddsmith.service.limits import Limits
from oddsmith.service.messages import DecideEntry, Health, RewardEntry
from oddsmith.service.metrics import Metrics
from oddsmith.service.openapi import document
from oddsmith.service.opening import Opened
from oddsmith.service.operations import OPERATIONS, Operation
from oddsmith.service.refusal import Refusal
from oddsmith.spelling import did_you_mean

__all__ = ["Service", "make_app"]

_PLACE = re.compile(r"^(.*) - at `\$\.?(.+)`$", re.DOTALL)
_FIELD = re.compile(r"Object contains unknown field `(.*?)`", re.DOTALL)
_log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode
_FULL = ("disk is full", "database or disk is full", "No space left")


class Service:
    """The experiments of one process, by name, and who may call them."""

    def __init__(self, opened: Sequence[Opened], ring: KeyRing | None, clock: Clock | None = None) -> None:
        self._opened, self._ring, self._clock = opened, ring, clock or Clock()
        self.experiments: dict[str, Experiment] = {}
        self.metrics = Metrics(self.experiments.values())
        self._restoring: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """States are restored while `/healthz` answers already."""
        self.experiments |= {one.file.name: Experiment(one, self._clock) for one in self._opened}
        self._restoring = asyncio.create_task(self._restore())

    async def _restore(self) -> None:
        """All side by side: one that cannot be restored keeps no other waiting."""
        await asyncio.gather(*map(_restored, self.experiments.values()))

    async def end(self) -> None:
        """Keep snapshots, let go of everything."""
        if self._restoring is not None:
            self._restoring.cancel()
            await asyncio.gather(self._restoring, return_exceptions=True)
        await asyncio.gather(*(experiment.end() for experiment in self.experiments.values()))

    def named(self, name: str | None, operation: Operation, request: Request) -> Experiment:
        """The experiment of this name, or the only one; it must be ready. Refusals name those the key may call."""
        mine = [one for one in self.experiments if self._refused(operation, request, one) is None]
        if name is None and len(self.experiments) == 1:
            (experiment,) = self.experiments.values()
        elif name is None:
            count = len(self.experiments)
            raise InvalidInput(f"experiment must be given where there are {count}, {_some(mine)}; got none")
        elif name not in self.experiments:
            meant = did_you_mean(name[:80], mine)
            raise routes.NotFound(f"there is no experiment {name!r:.80}; {meant}There is: {_some(mine)}")
        else:
            experiment = self.experiments[name]
        if experiment.learner.now.state is None:
            raise StoreFailed(f"experiment {experiment.name!r} is not ready: {experiment.learner.trouble}")
        return experiment

    async def take(self, operation: Operation, decoder: Any, request: Request) -> Response:
        """A request with a body: checked, allowed, done."""
        asked = decoder.decode(await request.body())
        name = asked.experiment
        refused = self._refused(operation, request, self._only(name))
        if refused is not None:
            return _refuse(refused)
        answer = await getattr(routes, operation.name)(self.named(name, operation, request), asked)
        return Response(_encode(answer), media_type="application/json")

    async def tell(self, operation: Operation, request: Request) -> Response:
        """A question about one experiment."""
        name = request.query_params.get("experiment")
        refused = self._refused(operation, request, self._only(name))
        if refused is not None:
            return _refuse(refused)
        experiment = self.named(name, operation, request)
        if operation.name == "decision":
            explain = request.query_params.get("explain", "false")
            if explain not in ("true", "false"):
                raise InvalidInput(f"explain must be true or false; got {explain!r:.60}")
            answer: Any = await routes.decision(experiment, request.path_params["id"], explain == "true")
        else:
            answer = await getattr(routes, operation.name)(experiment)
        return Response(_encode(answer), media_type="application/json")

    async def about_itself(self, operation: Operation, request: Request) -> Response:
        """How the process is."""
        refused = self._refused(operation, request, None)
        if refused is not None:
            return _refuse(refused)
        if operation.name == "openapi":
            return Response(document(), media_type="application/json")
        if operation.name == "metrics":
            return Response(self.metrics.text(), media_type="text/plain; version=0.0.4")
        if operation.name == "health":
            return Response(_encode(Health(True, {})), media_type="application/json")
        troubles = {name: trouble for name, e in self.experiments.items() if (trouble := await _trouble(e))}
        if self._ring is not None:  # whoever has no key learns no path and no host
            troubles = dict.fromkeys(troubles, "not ready; the service's log says why")
        return Response(
            _encode(Health(not troubles, troubles)), 503 if troubles else 200, media_type="application/json"
        )

    def _only(self, name: str | None) -> str | None:
        """The experiment a request is about, before it is known to exist."""
        return next(iter(self.experiments)) if name is None and len(self.experiments) == 1 else name

    def _refused(self, operation: Operation, request: Request, experiment: str | None) -> Refusal | None:
        scopes = SCOPES[operation.method, operation.path]
        found = authorize(self._ring, request.headers.get("authorization"), scopes, experiment)
        return found if isinstance(found, Refusal) else None


def make_app(opened: Sequence[Opened], *, keys: KeyRing | None = None, clock: Clock | None = None) -> ASGIApp:
    """The application that serves these experiments, and closes their stores at its end."""
    service = Service(opened, keys, clock)

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        await service.begin()
        try:
            yield
        finally:
            await service.end()

    app = Starlette(
        routes=[Route(o.path, _endpoint(service, o), methods=[o.method], name=o.name) for o in OPERATIONS],
        lifespan=life,
        exception_handlers={404: _no_such_path, 405: _no_such_method, Exception: _our_fault},
    )
    app.state.service = service
    app.router.redirect_slashes = False
    return Limits(app, local=keys is None)


def _endpoint(service: Service, operation: Operation) -> Callable[[Request], Awaitable[Response]]:
    """One route: does its work, turns errors into answers, and counts."""
    if operation.body is not None:
        work: Any = partial(service.take, operation, msgspec.json.Decoder(operation.body))
    elif SCOPES[operation.method, operation.path] and operation.name != "metrics":
        work = partial(service.tell, operation)
    else:
        work = partial(service.about_itself, operation)

    async def endpoint(request: Request) -> Response:
        start = time.perf_counter()
        try:
            response: Response = await work(request)
        except (OddsmithError, msgspec.DecodeError, RecursionError, UnicodeError) as error:
            response = _refuse(_refusal(error, operation.body))
        except Exception:
            service.metrics.answered(operation.path, 500, time.perf_counter() - start)
            raise
        service.metrics.answered(operation.path, response.status_code, time.perf_counter() - start)
        return response

    return endpoint


def _refusal(error: Exception, body: Any) -> Refusal:
    """The answer that an error stands for; `body` is the type of message that was expected."""
    said = str(error)
    if isinstance(error, msgspec.ValidationError):
        return Refusal(422, "invalid", _PLACE.sub(r"\2: \1", _FIELD.sub(partial(_misspelt, body, said), said)))
    if isinstance(error, msgspec.DecodeError | RecursionError | UnicodeError):
        return Refusal(400, "malformed", f"the body must be JSON; {said:.200}")
    if isinstance(error, routes.NotFound):
        return Refusal(404, "not_found", said)
    if isinstance(error, Conflict):
        return Refusal(409, "conflict", said)
    if isinstance(error, StoreFailed):
        full = any(word in said for word in _FULL)
        return Refusal(507, "disk_full", said) if full else Refusal(503, "store_failed", said)
    return Refusal(422, "invalid", said)


def _misspelt(body: Any, said: str, found: re.Match[str]) -> str:
    """What is said of a field that is none: the one that may be meant, and all there are."""
    place = _PLACE.match(said)
    inner = {"decisions": DecideEntry, "rewards": RewardEntry}.get(place[2].partition("[")[0] if place else "", body)
    fields = inner.__struct_fields__
    return f"{found[1]:.80} is not a field; {did_you_mean(found[1][:80], fields)}Allowed: {', '.join(fields)}"


def _some(names: list[str]) -> str:
    return ", ".join(names[:20]) + (" …" if len(names) > 20 else "") if names else "none that this key may call"


def _refuse(refusal: Refusal) -> Response:
    response = Response(refusal.body(), refusal.status)
    response.raw_headers = refusal.headers()
    return response


async def _no_such_path(request: Request, _: Exception) -> Response:
    return _refuse(Refusal(404, "not_found", f"there is no path {request.url.path!r:.80}"))


async def _no_such_method(request: Request, error: Any) -> Response:
    response = _refuse(Refusal(405, "method", f"{request.method} is not a method of {request.url.path!r:.80}"))
    response.raw_headers += [(name.lower().encode(), value.encode()) for name, value in (error.headers or {}).items()]
    return response


async def _our_fault(_: Request, __: Exception) -> Response:
    return _refuse(Refusal(500, "internal", "the service has failed; its log says how"))


async def _restored(experiment: Experiment) -> None:
    while experiment.learner.trouble:
        try:
            await experiment.begin()
        except Exception as error:
            said = f"its state cannot be restored: {error}"
            if said != experiment.learner.trouble:
                _log.error("experiment %s is not ready: %s", experiment.name, said)
            experiment.learner.trouble = said
            await asyncio.sleep(1.0)


async def _trouble(experiment: Experiment) -> str:
    if experiment.learner.trouble:
        return experiment.learner.trouble
    try:
        await asyncio.wait_for(asyncio.to_thread(experiment.store.head), 2.0)
    except (StoreFailed, TimeoutError) as error:
        return f"its store does not answer: {error}"
    return ""
