"""Limits: no request is larger than what the service can use (how slow it may be is for the `wire` to say)."""

from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oddsmith.service.guard import is_loopback
from oddsmith.service.refusal import Refusal

__all__ = ["BATCH_PATHS", "Limits", "SAFE_HEADERS"]

BATCH_PATHS = frozenset({"/v1/decide/batch", "/v1/reward/batch"})

SAFE_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
"""Sent with every answer, unless a route has set its own."""

_ONCE = frozenset({b"content-length", b"transfer-encoding", b"host", b"origin", b"authorization"})


@dataclass(frozen=True, slots=True)
class Limits:
    """An ASGI application in front of `app`: what is too much is refused before it is read, or while it comes.

    `app` gets the whole body in one message. At most the limit is kept of a body, however it is sent. `target` limits
    path and query, `headers` and `header_bytes` the rest of the head. `local` is for a service without keys: it serves
    programs of this machine, but not pages in its browser, so Host, and Origin where there is one, must name it.
    """

    app: ASGIApp
    body: int = 65_536
    batch_body: int = 1 << 20
    batch_paths: frozenset[str] = BATCH_PATHS
    headers: int = 64
    header_bytes: int = 16_384
    target: int = 2_048
    local: bool = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = _safe(list(message.get("headers", ())))
            await send(message)

        limit = self.batch_body if scope["path"] in self.batch_paths else self.body
        body = self._refused(scope, limit) or await _gathered(receive, limit)
        if isinstance(body, Refusal):
            await _answer(send_safely, body)
        elif body is not None:
            await self.app(scope, _Whole(body, receive).receive, send_safely)

    def _refused(self, scope: Scope, limit: int) -> Refusal | None:
        """Why the head alone is enough to refuse."""
        length = len(scope.get("raw_path") or scope["path"].encode()) + len(scope["query_string"])
        if length > self.target:
            return Refusal(414, "path_too_long", f"path and query must have at most {self.target:,} bytes")
        pairs = scope["headers"]
        size = 0
        once: dict[bytes, bytes] = {}
        for name, value in pairs:
            size += len(name) + len(value) + 4
            if name in _ONCE:
                if name in once:
                    return _malformed(f"the header {name.decode()} must be sent once")
                once[name] = value
        if len(pairs) > self.headers or size > self.header_bytes:
            most = f"{self.headers} headers and {self.header_bytes:,} bytes of them"
            return Refusal(431, "headers_too_large", f"a request must have at most {most}")
        if self.local and not _is_local(once.get(b"host"), once.get(b"origin")):
            here = "a service without keys must be called from this machine, and not by a page of another site"
            return Refusal(403, "forbidden", f"{here}; Host or Origin says otherwise")
        return _refused_length(once.get(b"content-length"), b"transfer-encoding" in once, limit)


def _refused_length(length: bytes | None, chunked: bool, limit: int) -> Refusal | None:
    if length is None:
        return None
    if chunked:
        return _malformed("content-length and transfer-encoding must not be sent together")
    if not length.isdigit():
        return _malformed("content-length must be a whole number")
    return _too_large(limit) if len(length) > 18 or int(length) > limit else None


async def _gathered(receive: Receive, limit: int) -> bytes | Refusal | None:
    """The whole body, or why there is none; None if the caller is gone."""
    whole = bytearray()  # not a list of parts: a million parts of one byte would be 50 MB
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


class _Whole:
    """A body in one message; after it, what the server says next."""

    __slots__ = ("_body", "_next")

    def __init__(self, body: bytes, after: Receive) -> None:
        self._body: bytes | None = body
        self._next = after

    async def receive(self) -> Message:
        if self._body is None:
            return await self._next()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


@lru_cache(maxsize=64)
def _is_local(host: bytes | None, origin: bytes | None) -> bool:
    """Whether Host, and Origin if a browser sent one, name this machine; a page of another site cannot feign both."""
    texts = [f"//{(host or b'').decode('latin-1')}"]
    if origin is not None:
        texts.append(origin.decode("latin-1"))
    try:
        return all(is_loopback(urlsplit(text).hostname or "") for text in texts)
    except ValueError:
        return False


def _safe(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    own = {name for name, _ in headers}
    return headers + [pair for pair in SAFE_HEADERS if pair[0] not in own]


async def _answer(send: Send, refusal: Refusal) -> None:
    """Refuse, and close: what is left of the request is never read."""
    headers = refusal.headers(close=True)
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": refusal.body()})


def _malformed(why: str) -> Refusal:
    return Refusal(400, "malformed", why)


def _too_large(limit: int) -> Refusal:
    return Refusal(413, "too_large", f"the body must have at most {limit:,} bytes")
