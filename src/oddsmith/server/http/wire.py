"""Wire: a connection of uvicorn that limits the time of a request and the size of its
head."""

import logging
from asyncio import TimerHandle, Transport
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any, ClassVar

import uvicorn
from uvicorn.protocols.http.httptools_impl import (
    HttpToolsProtocol,
    RequestResponseCycle,
)

from oddsmith.server.http.connections import Connections, Flow
from oddsmith.server.http.limits import SAFE_HEADERS, Limits
from oddsmith.server.http.response import Refusal

__all__ = ["BACKLOG", "Wire", "server_config"]

BACKLOG = 4_096
"""Number of connections that may wait to be accepted. If there are more, the kernel
drops attempts, and clients retry after a second."""

_requests = logging.getLogger("uvicorn.error.requests")
# Unauthenticated clients could fill the log with broken requests, so those are only
# counted.
_requests.setLevel(logging.ERROR)


class Wire(HttpToolsProtocol):
    """A connection that limits the size of heads and requires complete requests within
    `request_s` seconds.

    uvicorn itself collects headers without a limit before it calls the application.
    `head_bytes` limits request line and headers. `message_bytes` limits a whole
    request, with its chunked encoding and trailers. A typical request arrives in one
    piece and sets no timer. At most `depth` requests can be queued behind the current
    one; if there are more, the connection is closed after the last of them. A client
    that reads fewer than `slow_bytes` of an answer in `write_s` seconds is
    disconnected. `room` decides which connections are admitted, and which are closed to
    make room.
    """

    request_s: ClassVar[float] = 10.0
    write_s: ClassVar[float] = 10.0
    slow_bytes: ClassVar[int] = 65_536
    head_bytes: ClassVar[int] = 32_768
    message_bytes: ClassVar[int] = 8 << 20  # 1 MiB in chunks of one byte takes 6 MiB
    # bytes to parse at a time; in chunks of one byte they take 0.25 ms
    piece_bytes: ClassVar[int] = 8_192
    depth: ClassVar[int] = 8

    def __init__(self, *args: Any, room: Connections, **more: Any) -> None:
        super().__init__(*args, **more)
        self._room = room
        self.logger = _requests
        self._in_head = True
        self._taken = 0
        self._over = False
        self._timer: TimerHandle | None = None
        self._stall: TimerHandle | None = None
        self._unsent = 0
        self._rest = bytearray()
        self._answered: RequestResponseCycle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Admit a new connection. Its time limit starts now, even if it sends
        nothing."""
        super().connection_made(transport)
        self.flow = Flow(transport, self._rest)
        address = self.client[0] if self.client else ""
        if self._room.admit(self, address):
            self._timer = self.loop.call_later(self.request_s, self._late)
            return
        why = (
            f"at most {self._room.each:,} connections of one address are served at a "
            "time; close some, or raise --connections-each"
        )
        self._refuse(Refusal(503, "busy", why))

    def connection_lost(self, exc: Exception | None) -> None:
        """Free the place of a connection that has ended."""
        self._disarm()
        self._read_on()
        self._room.leave(self)
        self.pipeline.clear()
        # uvicorn marks only the newest request as disconnected, but it may be queued
        # behind this one
        if self._answered is not None:
            self._answered.disconnected = True
            self._answered.message_event.set()
        super().connection_lost(exc)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answered = cycle
        task = self.loop.create_task(self._respond(cycle, app))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    async def _respond(self, cycle: RequestResponseCycle, app: Limits) -> None:
        """Answer one request, as `cycle.run_asgi` does, but with a single write. The
        bytes of the head are cached."""
        scope: Any = cycle.scope
        receive: Any = cycle.receive
        try:
            response = await app.respond(scope, receive, self._recognize)
        except BaseException:
            self.transport.close()
            raise
        if cycle.flow.write_paused and not cycle.disconnected:
            await cycle.flow.drain()
        if response is None or cycle.disconnected:
            return
        cycle.keep_alive &= (b"connection", b"close") not in response.headers
        head = head_of(response.status, tuple(response.headers), cycle.keep_alive)
        if response.status != 204:
            head = head % len(response.body)
        cycle.response_started = True
        cycle.response_complete = True
        # Answers to HEAD and with status 304 have no body, but have the Content-Length
        # of the omitted body.
        has_no_body = scope["method"] == "HEAD" or response.status == 304
        content = head if has_no_body else head + response.body
        self.transport.write(content)
        cycle.message_event.set()
        self._room.note_answer(self)
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _recognize(self, authenticated: bool) -> bool:
        return self._room.recognize(self, authenticated=authenticated)

    def drop(self) -> None:
        """Close at once, to make room for a new connection."""
        self._over = True
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Parse received bytes. If there are many, only one piece is parsed now, and
        the next piece after other connections had their turn."""
        if self._rest:
            self._rest += data
            return
        if len(data) <= self.piece_bytes:
            self._parse(data)
            return
        self._rest += data[self.piece_bytes :]
        self.transport.pause_reading()
        self._parse(data[: self.piece_bytes])
        self.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Parse the next piece of the received bytes."""
        if self.transport.is_closing() or self._over:
            self._rest.clear()
            return
        piece = bytes(self._rest[: self.piece_bytes])
        del self._rest[: self.piece_bytes]
        self._parse(piece)
        if self._rest:
            self.loop.call_soon(self._go_on)
        elif not self.flow.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def _parse(self, data: bytes) -> None:
        """Parse a piece of a request, and add its size to the size of the request."""
        if self._over:
            return
        self._taken += len(data)
        super().data_received(data)  # calls uvicorn's parser
        if self.transport.is_closing() or self._over:
            return
        if self._in_head and self._taken > self.head_bytes:
            why = f"a head must have at most {self.head_bytes:,} bytes"
            self._refuse(Refusal(431, "headers_too_large", why))
        elif self._taken > self.message_bytes:
            why = f"a request must have at most {self.message_bytes:,} bytes"
            self._refuse(Refusal(413, "too_large", why))
        elif self._timer is None and (self._taken or not self._in_head):
            self._timer = self.loop.call_later(self.request_s, self._late)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header. A trailer, which comes after the body, is ignored."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Queue a request with a complete head, unless too many are queued."""
        if len(self.pipeline) >= self.depth:
            # close after the last queued request
            self.pipeline[0][0].keep_alive = False
            self._over = True
        if self._over:
            raise _Enough
        super().on_headers_complete()
        self._in_head = False
        self.cycle.keep_alive &= not self._room.closing

    def on_message_complete(self) -> None:
        """Note the end of a request. The next bytes belong to the head of another
        request."""
        super().on_message_complete()
        self._disarm()
        self._in_head = True
        self._taken = 0

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are not HTTP, with our own message."""
        if self._over:
            return
        self._refuse(Refusal(400, "malformed", "a request must be valid HTTP/1.1"))

    def on_response_complete(self) -> None:
        """Continue after an answer is written. After the last answer, watch whether the
        client reads it."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._watch()

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection, because no further request arrived."""
        super().timeout_keep_alive_handler()
        self._watch()

    def pause_writing(self) -> None:
        """Stop writing, because the client reads too slowly."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Continue writing, because the client has read more."""
        super().resume_writing()
        if not self.transport.is_closing():
            self._read_on()

    def _watch(self) -> None:
        """Check from now on that the client reads its answers."""
        if self._stall is None:
            self._unsent = self.transport.get_write_buffer_size()
            self._stall = self.loop.call_later(self.write_s, self._stalled)

    def _stalled(self) -> None:
        """Disconnect a client that has read too little since the last check; otherwise
        check again later."""
        self._stall = None
        if self._unsent - self.transport.get_write_buffer_size() < self.slow_bytes:
            self.transport.abort()
        else:
            self._watch()

    def _read_on(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _late(self) -> None:
        why = f"a request must arrive within {self.request_s:g} seconds"
        self._refuse(Refusal(408, "timeout", why))

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, refusal: Refusal) -> None:
        """Send a refusal, count it and close the connection. If an earlier answer is
        unfinished, only close."""
        self._room.refused[refusal.status] += 1
        last = self.cycle
        # If false, the request was answered before its body arrived.
        free = last is None or (last.response_complete and self._in_head)
        if free or not (self._in_head or self.pipeline or last.response_started):
            response = refusal.response()
            head = head_of(response.status, tuple(response.headers), False)
            self.transport.write(head % len(response.body) + response.body)
        self.transport.close()
        self._watch()


@lru_cache(maxsize=256)
def head_of(
    status: int, headers: tuple[tuple[bytes, bytes], ...], keep_alive: bool
) -> bytes:
    """Return the head of an answer. It contains a placeholder for Content-Length,
    except for status 204."""
    own = {name for name, _ in headers}
    pairs = [*headers, *(pair for pair in SAFE_HEADERS if pair[0] not in own)]
    if not keep_alive and b"connection" not in own:
        pairs.append((b"connection", b"close"))
    first = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()
    lines = [first, *(b": ".join(pair) for pair in pairs)]
    head = b"\r\n".join(lines)
    if status == 204:
        return head + b"\r\n\r\n"
    return head.replace(b"%", b"%%") + b"\r\ncontent-length: %d\r\n\r\n"


class _Enough(Exception):
    """Raised to stop the parser, because no further request of this connection will be
    answered."""


def server_config(
    app: Limits,
    *,
    host: str,
    port: int,
    room: Connections | None = None,
    wire: type[Wire] = Wire,
) -> uvicorn.Config:
    """Return the configuration of uvicorn: connections are `Wire`, without websockets,
    banner and trusted proxy headers. The caller configures logging."""
    protocol: Any = partial(wire, room=room or Connections())
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        loop="uvloop",
        http=protocol,
        ws="none",
        log_config=None,
        access_log=False,
        backlog=BACKLOG,
        server_header=False,
        proxy_headers=False,
    )
