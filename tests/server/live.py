"""A real server on 127.0.0.1 for tests, and requests written byte by byte."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import uvicorn

from oddsmith.server.http.limits import HttpScope, Limits, Message, Receive, Send
from oddsmith.server.http.response import Headers, Response

WRONG_ARMS = (
    *(
        '"x"',
        "7",
        "true",
        "[]",
        "{}",
        "[[]]",
        "[null]",
        "[1.5]",
        '["x", "x"]',
        '["1", 1]',
        '[""]',
        '{"x": "y"}',
    ),
    *(
        '["\\u0000"]',
        '["\\ud800"]',
        '{"x": [[1]]}',
        '{"x": [1], "y": {"a": 1}}',
        '{"x": [1e400]}',
    ),
    *('{"x": {"a": NaN}}', '{"x": {"a": {"b": 1}}}', '{"x": {"a": [[1]]}, "x": 5}'),
)  # JSON of offers that are none


class Answer(NamedTuple):
    """What came back until the server hung up, or finished; status 0 if nothing did."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        return str(json.loads(self.body)["code"])


class Echo:
    """An application for `Limits`: says how many bytes it was sent; knows what it was
    asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.named = set[bytes]()  # the headers of the last request
        self.headers: Headers = []

    async def __call__(self, scope: HttpScope, body: bytes) -> Response:
        self.asked += 1
        self.named = {name for name, _ in scope["headers"]}
        return Response(200, json.dumps({"bytes": len(body)}).encode(), self.headers)


class Bare:
    """The same application on a server, without limits."""

    def __init__(self, app: Echo) -> None:
        self.app = app

    async def __call__(self, scope: HttpScope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, more = body + message["body"], message["more_body"]
        response = await self.app(scope, body)
        length = (b"content-length", b"%d" % len(response.body))
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [length, *response.headers],
            }
        )
        await send({"type": "http.response.body", "body": response.body})


@contextmanager
def serving(config: uvicorn.Config) -> Iterator[int]:
    """The port of a running server, which is stopped at the end."""
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        until = time.monotonic() + 30
        while not server.started:
            assert thread.is_alive()
            assert time.monotonic() < until
            time.sleep(0.01)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


def talk(
    port: int, *parts: bytes, pause: float = 0.0, patience: float = 20.0
) -> Answer:
    """Send the parts, until the server has had enough, and read its answer."""
    with closing(
        socket.create_connection(("127.0.0.1", port), timeout=patience)
    ) as line:
        for part in parts:
            try:
                line.sendall(part)
            except ConnectionError:  # it hung up; its answer can still be read
                break
            time.sleep(pause)
        return listen(line)


def listen(line: socket.socket) -> Answer:
    """One answer."""
    taken = b""
    while not _whole(taken):
        try:
            more = line.recv(65_536)
        except (TimeoutError, ConnectionError):
            break
        if not more:
            break
        taken += more
    if not taken:
        return Answer(0, {}, b"")
    head, _, body = taken.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = {
        name.lower(): value for name, value in (text.split(": ", 1) for text in lines)
    }
    return Answer(int(status.split(" ")[1]), headers, body)


def _whole(taken: bytes) -> bool:
    head, gap, body = taken.partition(b"\r\n\r\n")
    lengths = [
        int(line[15:])
        for line in head.lower().split(b"\r\n")
        if line.startswith(b"content-length:")
    ]
    return bool(gap) and bool(lengths) and len(body) >= lengths[0]


def ask(
    app: Limits, scope: dict[str, Any], messages: list[Message]
) -> tuple[Answer, int]:
    """The answer of an application without a server, and how many messages it took;
    after the last it waits."""
    taken, sent = 0, list[Message]()

    async def receive() -> Message:
        nonlocal taken
        if taken == len(messages):
            await asyncio.Event().wait()
        taken += 1
        return messages[taken - 1]

    async def send(message: Message) -> None:
        sent.append(message)

    whole = {
        "type": "http",
        "path": "/v1/decide",
        "raw_path": b"/v1/decide",
        "query_string": b"",
        "headers": [],
    }
    asyncio.run(asyncio.wait_for(app(whole | scope, receive, send), 20))
    if not sent:
        return Answer(0, {}, b""), taken
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Answer(
        sent[0]["status"], headers, b"".join(message["body"] for message in sent[1:])
    ), taken
