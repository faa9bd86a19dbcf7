"""Limits: the ASGI layer around the application. It refuses requests that are too
large, or that a page of another site has sent.

Such requests are refused before their bodies are read. Limits on time are in `wire`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from oddsmith.server.http.access import is_loopback
from oddsmith.server.http.response import Refusal, Response

__all__ = [
    "HttpScope",
    "Limits",
    "Message",
    "Receive",
    "SAFE_HEADERS",
    "Send",
    "foreign_header",
]

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
"""Headers of every answer, unless a route sets its own."""

_CLOSE = (b"connection", b"close")
_CROWDED = (
    "too many connections of clients with a key are open; close some, or try again"
)
_STOPPED = "the service has stopped before this was done; send it again, same id"
# a body of up to 4 times the limit is read to its end before it is refused
_LENIENT = 4
_KEYS = (b"authorization", b"ocp-apim-subscription-key")
# Headers that name the site of a request. Scripts in a page cannot set the last four.
_ORIGIN_HEADERS = (
    b"host",
    b"origin",
    b"sec-fetch-site",
    b"sec-fetch-mode",
    b"sec-fetch-dest",
)
_ONCE = frozenset(
    {b"content-length", b"transfer-encoding", b"expect", *_ORIGIN_HEADERS, *_KEYS}
)
# "none" means that the user typed the address or opened a bookmark
_OWN_SITES = (None, b"same-origin", b"none")


async def _nothing() -> None:
    """Default for `begin` and `end`: do nothing."""


def _stay() -> None:
    """Default for `drain`: there are no open calls to end."""


def _as_it_is(scope: HttpScope) -> HttpScope:
    """Default for `enter`: pass the scope to the application."""
    return scope


@dataclass(frozen=True, slots=True)
class Limits:
    """An ASGI application that reads complete request bodies and passes them to `app`.
    A request that is too large is refused before it is read, or while it arrives.

    `enter` checks the head of a request. It returns either a response, so that the body
    is not read, or an object that is passed to `app`. The object may have four
    attributes: `authenticated` (the caller has a valid key), `waits` (the call is
    cancelled when the client disconnects), `body_bytes` (limit of its body) and
    `refusal_response` (a function that formats refusals).

    `begin` and `end` are awaited when the server starts and ends; `drain` is called
    when it will end soon. `body_bytes` contains the limits of bodies by path, and
    `body` the limit for other paths. `target` limits path and query; `headers` and
    `header_bytes` limit the number and size of headers. `local` must be true for a
    service without keys: browsers can then call it from its own pages only
    (`foreign_header`).
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
        """Answer one request, or run the ASGI lifespan."""
        if scope["type"] != "http":
            await self._live(receive, send)
            return
        response = await self.respond(scope, receive)
        if response is None:
            return
        headers: list[tuple[bytes, bytes]] = []
        if response.status != 204:
            headers.append((b"content-length", b"%d" % len(response.body)))
        headers += response.headers
        own = {name for name, _ in response.headers}
        headers += [pair for pair in SAFE_HEADERS if pair[0] not in own]
        start = {
            "type": "http.response.start",
            "status": response.status,
            "headers": headers,
        }
        await send(start)
        body = b"" if response.status == 304 else response.body
        await send({"type": "http.response.body", "body": body})

    async def respond(
        self,
        scope: HttpScope,
        receive: Receive,
        recognize: Callable[[bool], bool] | None = None,
    ) -> Response | None:
        """Return the response to one request, to which the caller adds Content-Length
        and the security headers. Return None if the client has disconnected.

        `recognize` is called before the body is read. Its argument is true if the
        request has a valid key. If it returns False, there is no place for the
        connection.
        """
        once: dict[bytes, bytes] = {}
        twice = b""
        size = 0
        for name, value in scope["headers"]:
            size += len(name) + len(value) + 4
            if name in _ONCE:
                if name in once:
                    twice = name
                once[name] = value
        # check the limits of the head first, then the key, and read the body last
        call = self._check_head(scope, size, once) or self.enter(scope)
        authenticated = getattr(call, "authenticated", False)
        if recognize is not None and not recognize(authenticated):
            call = _final(503, "busy", _CROWDED)
        if isinstance(call, Response):
            return _without_body(call, once)
        limit = getattr(call, "body_bytes", None)
        if not limit:
            limit = self.body_bytes.get(scope["path"], self.body)
        refused: Callable[..., Response] = getattr(
            call, "refusal_response", Refusal.response
        )
        try:
            body = await _read_body(receive, limit, once, twice)
            if body is None:
                return None
            if isinstance(body, Refusal):
                return refused(body, _CLOSE)
            answer = self.app(call, body)
            if getattr(call, "waits", False):
                return await _unless_gone(answer, receive)
            return await answer
        except asyncio.CancelledError:  # the server is stopping
            return refused(Refusal(503, "stopping", _STOPPED), _CLOSE)

    async def _live(self, receive: Receive, send: Send) -> None:
        """Run the ASGI lifespan: call `begin` and `end`."""
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

    def _check_head(
        self, scope: HttpScope, size: int, once: Mapping[bytes, bytes]
    ) -> Response | None:
        """Return a refusal if the head of a request is too large or comes from another
        site; otherwise None. `size` is the size of the headers in bytes."""
        path = scope.get("raw_path") or scope["path"].encode()
        if len(path) + len(scope["query_string"]) > self.target:
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
        if not self.local:
            return None
        foreign = foreign_header(scope["method"], once)
        if not foreign:
            return None
        value = once.get(foreign.lower().encode(), b"").decode("latin-1")
        return _final(
            403,
            "forbidden",
            "a service without keys must be called from this machine, and not by a "
            f"page of another site or port; got {foreign} {value!r:.80}: serve with "
            "--keys, or call it from a program",
        )


def foreign_header(method: str, headers: Mapping[bytes, bytes]) -> str:
    """Return the header that shows that a request comes from another site; empty if
    there is none.

    The header Host must name this machine, because the name of another site may resolve
    to this address. Origin, which browsers send with every POST, must equal the Host:
    another port of this machine counts as another site. Sec-Fetch-Site must be
    same-origin or none. Links from other sites to a page are permitted, because
    following them only reads, and the other site cannot see the answer.

    >>> foreign_header("POST", {b"host": b"[::1]:80", b"origin": b"http://[::1]:80"})
    ''
    >>> foreign_header("POST", {b"host": b"[::1]:80", b"origin": b"http://[::1]:3000"})
    'Origin'
    """
    host = headers.get(b"host", b"").lower()
    if not _is_local(host):
        return "Host"
    origin = headers.get(b"origin")
    if origin is not None:
        own_origins = (b"http://" + host, b"https://" + host)
        if origin.lower() not in own_origins:
            return "Origin"
    if headers.get(b"sec-fetch-site") in _OWN_SITES:
        return ""
    is_link = (
        method in ("GET", "HEAD")
        and headers.get(b"sec-fetch-mode") == b"navigate"
        and headers.get(b"sec-fetch-dest") == b"document"
    )
    if is_link:
        return ""
    return "Sec-Fetch-Site"


@lru_cache(maxsize=64)
def _is_local(host: bytes) -> bool:
    """Return whether a Host header names this machine."""
    try:
        name = urlsplit(f"//{host.decode('latin-1')}").hostname
    except ValueError:
        return False
    return is_loopback(name or "")


async def _read_body(
    receive: Receive, limit: int, once: Mapping[bytes, bytes], twice: bytes
) -> bytes | Refusal | None:
    """Return the whole body, a refusal if it is too large, or None if the client has
    disconnected."""
    if twice:
        return _malformed(f"the header {twice.decode()} must be sent once")
    length = once.get(b"content-length")
    if length is not None:
        if b"transfer-encoding" in once:
            return _malformed(
                "content-length and transfer-encoding must not be sent together"
            )
        if not length.isdigit():
            return _malformed("content-length must be a whole number")
        # int() is slow for strings with very many digits
        n_bytes = int(length) if len(length) <= 18 else 10**18
        if n_bytes > limit:
            if n_bytes <= _LENIENT * limit and b"expect" not in once:
                # Most clients read the answer only after sending everything; otherwise
                # they would report a broken connection.
                await _drop_body(receive)
            return _too_large(limit)
    # bytearray, because a list of a million parts of one byte would take 50 MB
    whole = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part: bytes = message.get("body", b"")
        if len(whole) + len(part) > limit:
            return _too_large(limit)
        if not message.get("more_body", False):
            if whole:
                return bytes(whole + part)
            return part
        whole += part


async def _unless_gone(
    answer: Awaitable[Response], receive: Receive
) -> Response | None:
    """Return the answer. If the client disconnects, cancel the call and return None."""
    answer_task = asyncio.ensure_future(answer)
    gone_task = asyncio.ensure_future(_disconnection(receive))
    tasks = (answer_task, gone_task)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if answer_task.done():
            return answer_task.result()
        return None
    finally:
        answer_task.cancel()
        gone_task.cancel()


async def _disconnection(receive: Receive) -> None:
    """Wait until the client disconnects."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return


async def _drop_body(receive: Receive) -> None:
    """Read and discard the rest of a body."""
    while True:
        message = await receive()
        is_last = not message.get("more_body", False)
        if message["type"] == "http.disconnect" or is_last:
            return


def _without_body(response: Response, once: Mapping[bytes, bytes]) -> Response:
    """Return a response to a request whose body was not read. The connection stays open
    only if the unread body is short."""
    length = once.get(b"content-length", b"0")
    if b"transfer-encoding" not in once and length.isdigit() and len(length) <= 5:
        return response
    headers = dict.fromkeys([*response.headers, _CLOSE])
    return response._replace(headers=list(headers))


def _malformed(why: str) -> Refusal:
    return Refusal(400, "malformed", why)


def _too_large(limit: int) -> Refusal:
    return Refusal(413, "too_large", f"the body must have at most {limit:,} bytes")


def _final(status: int, code: str, why: str) -> Response:
    """Return a refusal that closes the connection, because the rest of the request will
    not be read."""
    return Refusal(status, code, why).response(_CLOSE)
