"""Limits: the ASGI side of the application. No request is larger than what the service
can use (`wire` limits time)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from oddsmith.server.http.origins import ORIGIN_HEADERS, foreign_header
from oddsmith.server.http.response import Refusal, Response

__all__ = ["HttpScope", "Limits", "Message", "Receive", "SAFE_HEADERS", "Send"]

HttpScope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

SAFE_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
"""Sent with every answer, unless a route has set its own."""

_CLOSE = (b"connection", b"close")
_CROWDED = (
    "too many connections of clients with a key are open; close some, or try again"
)
_LENIENT = 4  # times the limit: a longer body is refused before it has come
_KEYS = (b"authorization", b"ocp-apim-subscription-key")
_ONCE = frozenset(
    {b"content-length", b"transfer-encoding", b"expect", *ORIGIN_HEADERS, *_KEYS}
)


async def _nothing() -> None:
    """What begins and ends where there is nothing to do."""


def _stay() -> None:
    """What drains where there is nothing to tell."""


def _as_it_is(scope: HttpScope) -> HttpScope:
    """The head, for an application that reads it for itself."""
    return scope


@dataclass(frozen=True, slots=True)
class Limits:
    """An ASGI application: what is too much is refused before it is read, or while it
    comes; `app` gets whole bodies.

    `enter` reads the head alone: it returns what `app` takes beside the body, or an
    answer for which no body is read. What it returned may have a true `waits`: then it
    is given up where its caller is gone; a true `authenticated`, if its caller has a
    key in force; `body_bytes`, the limit of its body; and
    `refused`, which makes answers of refusals. `begin` and `end` are awaited at the
    start and the end of the server, and `drain` is called when the end is near.
    `body_bytes` limits the bodies of paths, and `body` those of all others; at most the
    limit is kept of a body, however it is sent. `target` limits path and query,
    `headers` and `header_bytes` the rest of the head. `local` is for a service without
    keys: it serves programs of this machine and its own pages in a browser, but no
    pages of other sites (`foreign_header`).
    """

    app: Callable[[Any, bytes], Awaitable[Response]]
    begin: Callable[[], Awaitable[None]] = _nothing
    end: Callable[[], Awaitable[None]] = _nothing
    enter: Callable[[HttpScope], Any] = _as_it_is
    drain: Callable[[], None] = _stay
    body: int = 65_536
    body_bytes: Mapping[str, int] = field(default_factory=dict)
    headers: int = 64
    header_bytes: int = 16_384
    target: int = 4_096
    local: bool = False

    async def __call__(self, scope: HttpScope, receive: Receive, send: Send) -> None:
        """Answer one request, or live as long as the server."""
        if scope["type"] != "http":
            await self._live(receive, send)
            return
        response = await self.respond(scope, receive)
        if response is not None:
            own = {name for name, _ in response.headers}
            length = (
                []
                if response.status == 204
                else [(b"content-length", b"%d" % len(response.body))]
            )
            headers = [
                *length,
                *response.headers,
                *(pair for pair in SAFE_HEADERS if pair[0] not in own),
            ]
            await send(
                {
                    "type": "http.response.start",
                    "status": response.status,
                    "headers": headers,
                }
            )
            await send(
                {
                    "type": "http.response.body",
                    "body": b"" if response.status == 304 else response.body,
                }
            )

    async def respond(
        self,
        scope: HttpScope,
        receive: Receive,
        recognize: Callable[[bool], bool] | None = None,
    ) -> Response | None:
        """The answer to one request, without its length and the safe headers; None if
        the caller is gone.

        Before the body is read, `recognize` is called with whether the request has a
        key in force. If it returns False, there is no place for the connection.
        """
        once: dict[bytes, bytes] = {}
        twice, size = b"", 0
        for name, value in scope["headers"]:
            size += len(name) + len(value) + 4
            if name in _ONCE:
                twice = name if name in once else twice
                once[name] = value
        # the head, then the key, and only then the body
        call = self._refused(scope, size, once) or self.enter(scope)
        authenticated = getattr(call, "authenticated", False)
        if recognize is not None and not recognize(authenticated):
            call = _final(503, "busy", _CROWDED)
        if isinstance(call, Response):
            call = _without_body(call, once)
        else:
            limit = getattr(call, "body_bytes", None) or self.body_bytes.get(
                scope["path"], self.body
            )
            shape = getattr(call, "refused", Refusal.response)
            try:
                body = await _gathered(receive, limit, once, twice)
                if body is None:
                    return None
                if isinstance(body, Refusal):
                    return shape(body, _CLOSE)
                answering = self.app(call, body)
                call = await (
                    _unless_gone(answering, receive)
                    if getattr(call, "waits", False)
                    else answering
                )
                if call is None:
                    return None
            except asyncio.CancelledError:  # the server stops, and waits no longer
                why = (
                    "the service has stopped before this was done; send it again, same "
                    "id"
                )
                call = shape(Refusal(503, "stopping", why), _CLOSE)
        response: Response = call
        return response

    async def _live(self, receive: Receive, send: Send) -> None:
        """ASGI's lifespan: begin with the server, end with it."""
        await receive()
        try:
            await self.begin()
        except BaseException as error:
            await send(
                {
                    "type": "lifespan.startup.failed",
                    "message": f"{type(error).__name__}: {error}",
                }
            )
            raise
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.end()
        await send({"type": "lifespan.shutdown.complete"})

    def _refused(
        self, scope: HttpScope, size: int, once: Mapping[bytes, bytes]
    ) -> Response | None:
        """Why the head is too much, or comes from elsewhere; `size` is that of its
        headers."""
        target = len(scope.get("raw_path") or scope["path"].encode()) + len(
            scope["query_string"]
        )
        if target > self.target:
            return _final(
                414,
                "path_too_long",
                f"path and query must have at most {self.target:,} bytes",
            )
        if len(scope["headers"]) > self.headers or size > self.header_bytes:
            most = f"{self.headers} headers and {self.header_bytes:,} bytes of them"
            return _final(
                431, "headers_too_large", f"a request must have at most {most}"
            )
        foreign = foreign_header(scope["method"], once) if self.local else ""
        if foreign:
            sent = once.get(foreign.lower().encode(), b"").decode("latin-1")
            return _final(
                403,
                "forbidden",
                "a service without keys must be called from this machine, and not by a "
                f"page of another site or port; got {foreign} {sent!r:.80}: serve with "
                "--keys, or call it from a program",
            )
        return None


async def _gathered(
    receive: Receive, limit: int, once: Mapping[bytes, bytes], twice: bytes
) -> bytes | Refusal | None:
    """The whole body, or the refusal of the one that the head announces; None if the
    caller is gone."""
    if twice:
        return _malformed(f"the header {twice.decode()} must be sent once")
    if (length := once.get(b"content-length")) is not None:
        if b"transfer-encoding" in once:
            return _malformed(
                "content-length and transfer-encoding must not be sent together"
            )
        if not length.isdigit():
            return _malformed("content-length must be a whole number")
        if len(length) > 18 or int(length) > limit:
            if (
                len(length) <= 18
                and int(length) <= _LENIENT * limit
                and b"expect" not in once
            ):
                # most clients look for an answer once all is sent, and else see a
                # broken connection
                await _drop(receive)
            return _too_large(limit)
    # not a list of parts: a million parts of one byte would be 50 MB
    whole = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part: bytes = message.get("body", b"")
        if len(whole) + len(part) > limit:
            return _too_large(limit)
        if not message.get("more_body", False):
            return part if not whole else bytes(whole + part)
        whole += part


async def _unless_gone(
    answering: Awaitable[Response], receive: Receive
) -> Response | None:
    """The answer; None as soon as the caller is gone, and then the answering ends."""
    answer, gone = (
        asyncio.ensure_future(answering),
        asyncio.ensure_future(_gone(receive)),
    )
    try:
        await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
        return answer.result() if answer.done() else None
    finally:
        answer.cancel()
        gone.cancel()


async def _gone(receive: Receive) -> None:
    """Wait until the caller is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _drop(receive: Receive) -> None:
    """Wait for the end of a body that is not kept."""
    while (message := await receive())["type"] != "http.disconnect" and message.get(
        "more_body", False
    ):
        pass


def _without_body(response: Response, once: Mapping[bytes, bytes]) -> Response:
    """An answer that did not wait for the body; the connection goes on only if the rest
    of that can be short."""
    length = once.get(b"content-length", b"0")
    if b"transfer-encoding" not in once and length.isdigit() and len(length) <= 5:
        return response
    return response._replace(headers=list(dict.fromkeys([*response.headers, _CLOSE])))


def _malformed(why: str) -> Refusal:
    return Refusal(400, "malformed", why)


def _too_large(limit: int) -> Refusal:
    return Refusal(413, "too_large", f"the body must have at most {limit:,} bytes")


def _final(status: int, code: str, why: str) -> Response:
    """A refusal after which the connection is closed: what is left of the request is
    never read."""
    return Refusal(status, code, why).response(_CLOSE)
