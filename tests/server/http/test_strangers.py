"""Who has no key, or does not behave, gets a refusal and holds nothing up."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from uvicorn.protocols.http.flow_control import FlowControl

from oddsmith.server.http.connections import Connections
from oddsmith.server.http.keys import create
from oddsmith.server.http.limits import HttpScope, Limits
from oddsmith.server.http.response import Refusal, Response
from oddsmith.server.http.wire import Wire, server_config
from oddsmith.server.monitor.store_looks import StoreLooks
from server.live import Answer, Echo, listen, serving, talk
from server.served import here, place

HOST = b"Host: 127.0.0.1\r\n"
POST = b"POST /v1/decide HTTP/1.1\r\n" + HOST
GET = b"GET /openapi.json HTTP/1.1\r\n" + HOST + b"\r\n"
BIG = 1 << 24  # more than the buffers of both machines hold


class Strict(Wire):
    """Drops who does not read, soon."""

    write_s = 0.3


class Lenient(Wire):
    """Broken: waits for ever, and takes whatever comes."""

    write_s = 1e6
    depth = 1 << 30


class Keyed:
    """A call with a key."""

    authenticated = True


class Empty(Echo):
    """Answers with nothing."""

    async def __call__(self, call: Any, body: bytes) -> Response:
        return Response(200, b"", [])


class Loud(Echo):
    """Answers with much."""

    async def __call__(self, scope: HttpScope, body: bytes) -> Response:
        self.asked += 1
        return Response(200, b"x" * BIG, [])


@contextmanager
def served(
    app: Echo | Limits, wire: type[Wire] = Strict, **more: Any
) -> Iterator[tuple[int, Connections]]:
    """The port of a server, and its connections."""
    room = Connections(**more)
    limits = app if isinstance(app, Limits) else Limits(app)
    with serving(
        server_config(limits, host="127.0.0.1", port=0, room=room, wire=wire)
    ) as port:
        yield port, room


def connected(port: int, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(
        ("127.0.0.1", port), timeout=20, source_address=(source, 0)
    )


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def answers(line: socket.socket) -> list[Answer]:
    """All answers until the other side closes, or says no more for a second."""
    line.settimeout(1.0)
    taken = b""
    try:
        while more := line.recv(1 << 20):
            taken += more
    except TimeoutError:
        pass
    found = []
    while taken:
        head, _, taken = taken.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        headers = {
            name.lower(): value
            for name, value in (text.split(": ", 1) for text in lines)
        }
        size = int(headers["content-length"])
        found.append(Answer(int(status.split(" ")[1]), headers, taken[:size]))
        taken = taken[size:]
    return found


def test_who_does_not_read_is_dropped(caplog: Any) -> None:
    strict, lenient = Loud(), Loud()
    with (
        served(strict) as (port, room),
        served(lenient, Lenient) as (other, held),
        ExitStack() as stack,
    ):
        for where in (port, other):
            for request in (
                GET * 400,
                GET.replace(HOST, HOST + b"Connection: close\r\n"),
                GET,
            ):
                line = stack.enter_context(connected(where))
                line.sendall(request)
        until(
            lambda: (
                held.n_open == 3
                and lenient.asked > 2
                and strict.asked > 2
                and room.n_open == 0
            )
        )
        # the first answer is not read, and the second one waits for that
        assert strict.asked <= 3 + 2
        assert held.n_open == 3  # teeth
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_pipelining_has_a_depth() -> None:
    app = Echo()
    with served(app) as (port, _), connected(port) as line:
        line.sendall(GET * (1 + Wire.depth))
        assert [one.status for one in answers(line)] == [200] * (1 + Wire.depth)
        line.sendall(GET * 400)
        got = answers(line)
        assert [one.status for one in got] == [200] * (1 + Wire.depth)
        assert ["connection" in one.headers for one in got] == [False] * Wire.depth + [
            True
        ]
        assert line.recv(1) == b""
    assert app.asked == 2 * (1 + Wire.depth)
    with served(many := Echo(), Lenient) as (port, _), connected(port) as line:
        line.sendall(GET * 400)
        assert len(answers(line)) == many.asked == 400  # teeth


@pytest.mark.parametrize("bounded", [True, False])
def test_what_waits_to_be_parsed_is_bounded(monkeypatch: Any, bounded: bool) -> None:
    """One request and a bit in each piece: answers keep up, and more is sent than is
    parsed meanwhile."""
    longest, most = 0, 1 << 18  # what one read of a socket gives

    class Watched(Strict):
        def data_received(self, data: bytes) -> None:
            nonlocal longest
            super().data_received(data)
            longest = max(longest, len(self._rest))

    if not bounded:
        monkeypatch.setattr(
            "oddsmith.server.http.wire.Flow",
            lambda transport, _: FlowControl(transport),
        )
    request = (
        b"GET /healthz HTTP/1.1\r\n" + HOST + b"X-Long: " + b"x" * 9000 + b"\r\n\r\n"
    )
    with served(Echo(), Watched) as (port, _), connected(port) as line:
        line.settimeout(5)
        reader = Thread(target=lambda: answers(line))
        reader.start()
        with suppress(OSError):
            for _ in range(20 if bounded else 1000):
                line.sendall(request * 100)
                if longest > most:
                    break
        reader.join()
    assert longest > 0
    assert (longest <= most) is bounded  # the second is broken


def test_an_address_has_a_limit_of_its_own() -> None:
    """Here every caller is authenticated: nobody makes room."""
    app = Limits(Empty(), enter=lambda _: Keyed())
    with (
        served(app, each=2, free=lambda _: False) as (port, room),
        ExitStack() as stack,
    ):
        first, second = (
            stack.enter_context(connected(port, "127.0.0.2")) for _ in range(2)
        )
        for line in (first, second):
            line.sendall(GET)
            assert listen(line).status == 200
        with connected(port, "127.0.0.2") as third:
            refused = listen(third)
        assert (refused.status, json.loads(refused.body)["code"]) == (503, "busy")
        assert "--connections-each" in json.loads(refused.body)["error"]
        assert talk(port, GET).status == 200  # who comes from elsewhere
        first.close()
        until(lambda: room.n_open == 1)
        with connected(port, "127.0.0.2") as again:
            again.sendall(GET)
            assert listen(again).status == 200
    with served(app, each=2) as (port, _), ExitStack() as stack:
        for _ in range(5):  # programs of this machine, or its proxy
            line = stack.enter_context(connected(port))
            line.sendall(GET)
            assert listen(line).status == 200


def test_who_is_refused_by_the_head_alone_may_go_on_after_a_short_body() -> None:
    """A body that is still on its way is dropped; one that may be long, or does not
    end, ends the connection."""

    def enter(scope: HttpScope) -> HttpScope | Response:
        known = any(name == b"authorization" for name, _ in scope["headers"])
        return scope if known else Refusal(401, "unauthorized", "no").response()

    app = Echo()
    with serving(
        server_config(Limits(app, enter=enter), host="127.0.0.1", port=0)
    ) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
            for _ in range(3):
                line.sendall(POST + b"Content-Length: 10\r\n\r\n")
                assert listen(line).status == 401
                line.sendall(b"0123456789")
            line.sendall(
                POST + b"Authorization: x\r\nContent-Length: 10\r\n\r\n0123456789"
            )
            assert listen(line).body == b'{"bytes": 10}'
        for long in (
            b"Content-Length: 2000000\r\n\r\n",
            b"Transfer-Encoding: chunked\r\n\r\n",
        ):
            answer = talk(port, POST + long)
            assert (answer.status, answer.headers["connection"]) == (401, "close")
    assert app.asked == 1


@pytest.mark.parametrize(
    ("piece", "most"), [(Wire.piece_bytes, Wire.piece_bytes // 6), (1 << 30, None)]
)
def test_who_is_refused_by_the_head_has_no_more_parsed_of_the_body(
    piece: int, most: int | None
) -> None:
    parts = []

    class Counting(Strict):
        piece_bytes = piece

        def on_body(self, body: bytes) -> None:
            parts.append(len(body))
            super().on_body(body)

    def enter(_: HttpScope) -> Response:
        return Refusal(401, "unauthorized", "no").response()

    limits = Limits(Echo(), enter=enter)
    with serving(
        server_config(limits, host="127.0.0.1", port=0, wire=Counting)
    ) as port:
        assert (
            talk(
                port,
                POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n[\r\n" * 10_000,
            ).status
            == 401
        )
    # the second is broken
    assert len(parts) <= most if most else len(parts) > Wire.piece_bytes // 6


def test_for_strangers_stores_are_looked_at_seldom(
    tmp_path: Path, monkeypatch: Any
) -> None:
    looks = 0

    async def trouble(*_: Any) -> str:
        nonlocal looks
        looks += 1
        return ""

    key = create(tmp_path / "keys.json", "one", ["read"])
    with here(place(tmp_path), keys=tmp_path / "keys.json") as running:
        monkeypatch.setattr(StoreLooks, "trouble", trouble)
        monkeypatch.setattr(running.service, "_next_check", 0.0)
        monkeypatch.setattr("oddsmith.server.http.service.monotonic", lambda: 7.0)
        for _ in range(20):
            assert running.get("/readyz") == {"ok": True, "experiments": {}}
        assert looks == 1
        monkeypatch.setattr("oddsmith.server.http.service.monotonic", lambda: 8.0)
        running.get("/readyz")
        assert looks == 2
        for _ in range(3):
            running.ask("GET", "/readyz", headers={"Authorization": f"Bearer {key}"})
        assert looks == 5  # who has a key is told what is so now
