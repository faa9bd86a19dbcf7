"""The server below the application: uvicorn, with limits on time, and on what it holds before a request has a head."""

import signal
import socket
from asyncio import TimerHandle, Transport
from collections.abc import Sequence
from http import HTTPStatus
from types import FrameType
from typing import ClassVar

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from oddsmith.service.app import make_app
from oddsmith.service.keys import KeyRing
from oddsmith.service.limits import SAFE_HEADERS, Limits
from oddsmith.service.opening import Opened
from oddsmith.service.rates import Rate
from oddsmith.service.response import Refusal

__all__ = ["Wire", "serve", "server_config"]


class Wire(HttpToolsProtocol):
    """A connection whose requests must come whole within `request_s` seconds, with heads of bounded size.

    uvicorn by itself collects headers for as long and as many as they come, and only then asks the application.
    `head_bytes` limits request line and headers, `message_bytes` a whole request with all that its encoding adds,
    trailers too. A usual request comes in one piece and sets no timer. Where there are `most_connections`, a new one
    is turned away and those that are there go on.
    """

    request_s: ClassVar[float] = 10.0
    head_bytes: ClassVar[int] = 32_768
    message_bytes: ClassVar[int] = 8 << 20  # 1 MiB in chunks of one byte are 6 MiB
    most_connections: ClassVar[int] = 800  # a process has some 1,000 open files unless its limit is raised

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """A new connection; its time runs from now, whether or not it sends anything."""
        super().connection_made(transport)
        self._in_head, self._taken = True, 0
        self._timer: TimerHandle | None = self.loop.call_later(self.request_s, self._late)
        if len(self.connections) > self.most_connections:
            self._refuse(Refusal(503, "busy", f"at most {self.most_connections:,} connections are served at a time"))

    def connection_lost(self, exc: Exception | None) -> None:
        """The end of a connection."""
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """More bytes of a request, counted from its first piece on."""
        self._taken += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_head and self._taken > self.head_bytes:
            self._refuse(Refusal(431, "headers_too_large", f"a head must have at most {self.head_bytes:,} bytes"))
        elif self._taken > self.message_bytes:
            self._refuse(Refusal(413, "too_large", f"a request must have at most {self.message_bytes:,} bytes"))
        elif self._timer is None and (self._taken or not self._in_head):
            self._timer = self.loop.call_later(self.request_s, self._late)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; a trailer, which comes after the body, is no header and is dropped."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is there."""
        super().on_headers_complete()
        self._in_head = False

    def on_message_complete(self) -> None:
        """The request is there; whatever comes now is the next one's head."""
        super().on_message_complete()
        self._disarm()
        self._in_head, self._taken = True, 0

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, in our own words."""
        self._refuse(Refusal(400, "malformed", "a request must be valid HTTP/1.1"))

    def _late(self) -> None:
        self._refuse(Refusal(408, "timeout", f"a request must arrive within {self.request_s:g} seconds"))

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, refusal: Refusal) -> None:
        """Send the refusal and close; where the answer to an earlier request is due or half sent, only close."""
        last = self.cycle
        free = last is None or (last.response_complete and self._in_head)  # else it was answered before its body came
        if free or not (self._in_head or self.pipeline or last.response_started):
            phrase = HTTPStatus(refusal.status).phrase
            response = refusal.response((b"connection", b"close"))
            pairs = [(b"content-length", b"%d" % len(response.body)), *response.headers, *SAFE_HEADERS]
            lines = [f"HTTP/1.1 {refusal.status} {phrase}".encode(), *(b": ".join(pair) for pair in pairs), b""]
            self.transport.write(b"\r\n".join([*lines, response.body]))
        self.transport.close()


def server_config(app: Limits, *, host: str, port: int) -> uvicorn.Config:
    """How uvicorn serves us: by `Wire`, without websockets, banner or trust in forwarded addresses.

    What is logged is left to the caller.
    """
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        loop="uvloop",
        http=Wire,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
    )


def serve(opened: Sequence[Opened], door: socket.socket, *, keys: KeyRing | None, rate: Rate | None) -> None:
    """Serve these experiments until SIGINT or SIGTERM; requests under way are answered, snapshots kept."""
    config = server_config(make_app(opened, keys=keys, rate=rate), host="", port=0)
    config.timeout_graceful_shutdown = 10
    _Server(config).run(sockets=[door])


class _Server(uvicorn.Server):
    """Ends in order at a signal, and returns to its caller; uvicorn's own sends itself the signal once more."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True
