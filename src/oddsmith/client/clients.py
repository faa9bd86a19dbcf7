"""Client and AsyncClient: the calls of the service with httpx, without and with
`await`."""

import logging
import time
from collections.abc import Awaitable, Callable
from functools import wraps
from inspect import signature
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Concatenate,
    ParamSpec,
    Self,
    TypeVar,
    get_args,
)
from urllib.parse import urlsplit

from oddsmith.client.calls import Calls
from oddsmith.client.outbox import Reported
from oddsmith.client.tries import Patience, Reply, Steps, Try
from oddsmith.core.arrays import number, whole
from oddsmith.core.errors import InvalidInput, import_extra

__all__ = ["AsyncClient", "Client"]

if TYPE_CHECKING:
    from httpx import Response


P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger(__name__)
# Close idle connections after 4 seconds, because the service closes them after 5.
_IDLE = 4.0


class _Base:
    """Base of both clients: the address, the key, the calls, and the settings of
    httpx."""

    _kind: ClassVar[str]

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        experiment: str | None = None,
        timeout: float = 5.0,
        retries: int | None = None,
    ) -> None:
        httpx = import_extra("httpx", f"{type(self).__name__} needs", "client")
        if retries is not None:
            whole("retries", retries, low=0, high=100)
        seconds = number("timeout", timeout, low=0, high=86_400, open_low=True)
        self.url = _checked_url(url)
        self._calls = Calls(experiment, Patience(seconds, retries))
        self._request_error = httpx.RequestError
        make = getattr(httpx, self._kind)
        limits = httpx.Limits(keepalive_expiry=_IDLE)
        self._http: Any = make(base_url=self.url, headers=_headers(key), limits=limits)

    def __repr__(self) -> str:
        # The key is omitted, because a repr may end up in logs.
        return f"{type(self).__name__}({self.url!r})"

    @staticmethod
    def _arguments(attempt: Try) -> dict[str, Any]:
        request = attempt.request
        return {
            "method": request.method,
            "url": request.path,
            "content": request.body,
            "params": request.query,
            "timeout": attempt.timeout,
        }

    @staticmethod
    def _reply(response: "Response") -> Reply:
        retry_after = response.headers.get("retry-after")
        return Reply(response.status_code, response.content, retry_after)

    @staticmethod
    def _warn(reported: Reported) -> None:
        if reported.waiting:
            _log.warning(
                "%d fallback decisions, rewards or activations could not be reported",
                reported.waiting,
            )

    def _no_reply(self, error: Exception) -> Reply:
        reason = f"{self.url}, {type(error).__name__} {error}".strip()
        return Reply(0, reason.encode())


def _like(build: Callable[..., Any], method: Any) -> Any:
    """Return `method` with the name, docstring and arguments of the call it makes."""
    method = wraps(build)(method)
    steps_signature = signature(build)
    answer_type = get_args(steps_signature.return_annotation)[-1]
    method.__signature__ = steps_signature.replace(return_annotation=answer_type)
    return method


def _now(
    build: Callable[Concatenate[Calls, P], Steps[T]],
) -> "Callable[Concatenate[Client, P], T]":
    def _method(self: "Client", *args: P.args, **kwargs: P.kwargs) -> T:
        return self._drive(build(self._calls, *args, **kwargs))

    method: Callable[Concatenate[Client, P], T] = _like(build, _method)
    return method


def _later(
    build: Callable[Concatenate[Calls, P], Steps[T]],
) -> "Callable[Concatenate[AsyncClient, P], Awaitable[T]]":
    async def _method(self: "AsyncClient", *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._drive(build(self._calls, *args, **kwargs))

    method: Callable[Concatenate[AsyncClient, P], Awaitable[T]] = _like(build, _method)
    return method


class Client(_Base):
    """A client of the decision service at `url`; thread-safe.

    `key` is an API key. `experiment` may be left out if the service has only one. A
    call without an answer (no connection, time-outs, 408, 429, 502, 503, 504, 507) is
    repeated for `timeout` seconds, or up to `retries` times if given, after growing
    pauses that respect Retry-After. Repeating is safe: every event has an id, which the
    client creates if none is given, and the service stores it once. No try begins later
    than `timeout` seconds after the call, or waits for the network longer than the
    remaining time. Rejected calls raise `Conflict` if another value was stored before,
    `InvalidInput`, or `ServiceError` for all other errors.

    >>> with Client("http://127.0.0.1:8000") as client:  # doctest: +SKIP
    ...     decided = client.decide({"hour": 9, "device": "phone"})
    ...     client.reward(decided.id, 1.0)
    """

    _kind = "Client"

    decide = _now(Calls.decide)
    decide_slate = _now(Calls.decide_slate)
    decide_batch = _now(Calls.decide_batch)
    reward = _now(Calls.reward)
    reward_batch = _now(Calls.reward_batch)
    correct = _now(Calls.correct)
    activate = _now(Calls.activate)
    activate_slate = _now(Calls.activate_slate)
    report = _now(Calls.report)
    add_expert = _now(Calls.add_expert)
    retire_expert = _now(Calls.retire_expert)
    act = _now(Calls.act)
    actions = _now(Calls.actions)
    experiments = _now(Calls.experiments)
    decisions = _now(Calls.decisions)
    changes = _now(Calls.changes)
    decision = _now(Calls.decision)
    slate = _now(Calls.slate)
    posterior = _now(Calls.posterior)
    posterior_history = _now(Calls.posterior_history)
    series = _now(Calls.series)
    stats = _now(Calls.stats)
    results = _now(Calls.results)
    values = _now(Calls.values)
    checks = _now(Calls.checks)
    ready = _now(Calls.ready)

    def _drive(self, steps: Steps[T]) -> T:
        try:
            attempt = next(steps)
            while True:
                time.sleep(attempt.pause)
                arguments = self._arguments(attempt)
                try:
                    reply = self._reply(self._http.request(**arguments))
                except self._request_error as error:
                    reply = self._no_reply(error)
                attempt = steps.send(reply)
        except StopIteration as end:
            answer: T = end.value
            return answer

    def close(self) -> None:
        """Report pending fallback decisions, and close the connections."""
        if self._calls.outbox:
            self._warn(self.report())
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(_Base):
    """`Client` for asyncio: the same calls as coroutines.

    >>> async def serve_one(context):
    ...     async with AsyncClient("http://127.0.0.1:8000") as client:
    ...         return await client.decide(context)
    """

    _kind = "AsyncClient"

    decide = _later(Calls.decide)
    decide_slate = _later(Calls.decide_slate)
    decide_batch = _later(Calls.decide_batch)
    reward = _later(Calls.reward)
    reward_batch = _later(Calls.reward_batch)
    correct = _later(Calls.correct)
    activate = _later(Calls.activate)
    activate_slate = _later(Calls.activate_slate)
    report = _later(Calls.report)
    add_expert = _later(Calls.add_expert)
    retire_expert = _later(Calls.retire_expert)
    act = _later(Calls.act)
    actions = _later(Calls.actions)
    experiments = _later(Calls.experiments)
    decisions = _later(Calls.decisions)
    changes = _later(Calls.changes)
    decision = _later(Calls.decision)
    slate = _later(Calls.slate)
    posterior = _later(Calls.posterior)
    posterior_history = _later(Calls.posterior_history)
    series = _later(Calls.series)
    stats = _later(Calls.stats)
    results = _later(Calls.results)
    values = _later(Calls.values)
    checks = _later(Calls.checks)
    ready = _later(Calls.ready)

    async def _drive(self, steps: Steps[T]) -> T:
        from asyncio import sleep

        try:
            attempt = next(steps)
            while True:
                await sleep(attempt.pause)
                arguments = self._arguments(attempt)
                try:
                    reply = self._reply(await self._http.request(**arguments))
                except self._request_error as error:
                    reply = self._no_reply(error)
                attempt = steps.send(reply)
        except StopIteration as end:
            answer: T = end.value
            return answer

    async def close(self) -> None:
        """Report pending fallback decisions, and close the connections."""
        if self._calls.outbox:
            self._warn(await self.report())
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _checked_url(url: str) -> str:
    if not _is_service_url(url):
        # Remove user and password, because the text may end up in logs.
        public = str(url).rpartition("@")[2]
        raise InvalidInput(
            "url must be like http://127.0.0.1:8000, without a user or a query; got "
            f"{public!r:.80}"
        )
    return url.rstrip("/")


def _is_service_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        has_port = parts.port != 0
    except (ValueError, AttributeError, TypeError):
        return False
    if parts.query or parts.fragment or parts.username or parts.password:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and has_port


def _headers(key: str | None) -> dict[str, str]:
    headers = {"content-type": "application/json"}
    if key is None:
        return headers
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise InvalidInput(
            "key must be one that `oddsmith keys create` printed; got something else"
        )
    return headers | {"authorization": f"Bearer {key}"}
