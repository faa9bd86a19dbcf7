"""Which connections make room for new ones, by itself and on a server."""

import random
import socket
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest

from oddsmith.server.http.connections import Connections, room_for_connections
from oddsmith.server.http.limits import HttpScope, Limits
from oddsmith.server.http.response import Response
from oddsmith.server.http.wire import server_config
from server.live import Answer, Echo, listen, serving, talk
from server.served import wait

HOST = b"Host: 127.0.0.1\r\n"
GET = b"GET / HTTP/1.1\r\n" + HOST
POST = b"POST / HTTP/1.1\r\n" + HOST
KEY = b"Authorization: key\r\n"
HALF_BODY = b"Content-Length: 9\r\n\r\n1234"
# what connections without a finished request have sent
UNFINISHED = {
    "nothing": b"",
    "a part of the head": POST,
    "a part of the body": POST + HALF_BODY,
}


class Line:
    """A connection of a client."""

    def __init__(self, room: Connections, address: str = "192.0.2.1") -> None:
        self.room = room
        self.is_open = room.admit(self, address)

    def drop(self) -> None:
        self.is_open = False

    def ask(self, *, key: bool) -> bool:
        """Send a request and read its answer; whether there was a place for it."""
        has_place = self.room.recognize(self, authenticated=key)
        self.room.note_answer(self)
        return has_place


def test_the_longest_without_a_request_makes_room() -> None:
    room = Connections(most=4, free=lambda _: True)
    first, second, third, fourth = (Line(room) for _ in range(4))
    assert first.ask(key=True)
    assert second.ask(key=False)
    fifth = Line(room)
    assert not third.is_open  # it was there before the fourth, and asked nothing
    Line(room)
    assert not fourth.is_open
    Line(room)
    assert not second.is_open  # its request was before the fifth came
    assert fifth.is_open
    assert first.is_open
    assert (room.n_open, room.replaced) == (4, 3)


def test_some_places_are_for_the_next_clients_with_a_key() -> None:
    room = Connections(most=8, free=lambda _: True)
    lines = [Line(room) for _ in range(8)]
    assert [line.ask(key=True) for line in lines] == [True] * 6 + [False] * 2
    newest = Line(room)
    assert newest.is_open
    assert not newest.ask(key=True)
    room.leave(lines[0])
    assert newest.ask(key=True)
    assert lines[1].ask(key=False)  # its key is not in force any more
    assert Line(room).ask(key=True)


def test_an_address_with_too_many_makes_room_by_itself() -> None:
    room = Connections(most=8, each=2, free=lambda _: False)
    elsewhere = Line(room, "192.0.2.2")
    first, second = Line(room), Line(room)
    third = Line(room)
    assert (elsewhere.is_open, first.is_open, second.is_open) == (True, False, True)
    assert second.ask(key=True)
    assert third.ask(key=True)
    assert not Line(room).is_open
    room.leave(third)
    assert Line(room).is_open


@pytest.mark.parametrize("seed", range(5))
def test_the_rule_holds_in_any_order(seed: int) -> None:
    """Compared with a list of the connections without a key in order."""
    chance = random.Random(seed)
    room = Connections(most=6, free=lambda _: True)
    keyed: list[Line] = []
    others: list[Line] = []
    for _ in range(3_000):
        action = chance.choice(["come", "come", "key", "no key", "leave"])
        lines = keyed + others
        if action == "come" or not lines:
            if len(lines) == 6:
                expected = others.pop(0)
                others.append(Line(room))
                assert not expected.is_open
            else:
                others.append(Line(room))
        else:
            line = chance.choice(lines)
            (keyed if line in keyed else others).remove(line)
            if action == "leave":
                room.leave(line)
                continue
            has_place = line.ask(key=action == "key")
            assert has_place == (action == "no key" or len(keyed) < 5)
            (keyed if action == "key" and has_place else others).append(line)
        assert all(line.is_open for line in keyed + others)
        assert room.n_open == len(keyed) + len(others) <= 6


@pytest.mark.parametrize(
    ("files", "most"),
    [(256, 800), (1_024, 800), (5_000, 904), (20_000, 4_000), (-1, 4_000)],
)
def test_places_follow_the_limit_of_files(
    monkeypatch: pytest.MonkeyPatch, files: int, most: int
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (files, files))
    assert room_for_connections() == most


class Call(NamedTuple):
    """A head, and whether it has a key."""

    path: str
    authenticated: bool


def entrance(scope: HttpScope) -> Call:
    """What the application makes of a head."""
    names = {name for name, _ in scope["headers"]}
    return Call(scope["path"], b"authorization" in names)


class Blind(Connections):
    """Broken: takes every connection for one without a key."""

    def recognize(self, one: Any, *, authenticated: bool) -> bool:
        return True


def calls_during_a_flood(room: Connections, content: bytes) -> list[Answer]:
    """The answers to a client with a key, which sends the rest of its body at the end,
    and to a new one, while connections that send `content` come and come."""
    with (
        serving(
            server_config(
                Limits(_Sized(), enter=entrance), host="127.0.0.1", port=0, room=room
            )
        ) as port,
        ExitStack() as stack,
    ):

        def connect() -> socket.socket:
            address = ("127.0.0.1", port)
            return stack.enter_context(socket.create_connection(address, timeout=20))

        kept = connect()
        kept.sendall(POST + KEY + HALF_BODY)
        wait(lambda: bool(room._authenticated) or isinstance(room, Blind))
        for _ in range(3 * room.most):
            connect().sendall(content)
        new = talk(port, GET + b"\r\n")
        wait(lambda: room.n_open + room.replaced >= 3 * room.most)
        kept.sendall(b"56789")
        return [listen(kept), new]


class _Sized(Echo):
    """Answers calls."""

    async def __call__(self, call: Any, body: bytes) -> Response:
        return Response(200, b"%d" % len(body), [])


@pytest.mark.parametrize("content", UNFINISHED.values(), ids=list(UNFINISHED))
def test_unfinished_requests_keep_nobody_out(content: bytes) -> None:
    kept, new = calls_during_a_flood(Connections(most=4), content)
    assert (kept.status, kept.body) == (200, b"9")
    assert new.status == 200


def test_a_key_keeps_the_connection() -> None:
    kept, new = calls_during_a_flood(Blind(most=4), b"")
    assert kept.status == 0  # it was closed in the middle of its body
    assert new.status == 200


def test_beyond_the_places_for_clients_with_a_key_they_are_refused() -> None:
    room = Connections(most=2)
    app = Limits(_Sized(), enter=entrance)
    with (
        serving(server_config(app, host="127.0.0.1", port=0, room=room)) as port,
        socket.create_connection(("127.0.0.1", port), timeout=20) as kept,
    ):
        kept.sendall(GET + KEY + b"\r\n")
        assert listen(kept).status == 200
        refused = talk(port, GET + KEY + b"\r\n")
        assert (refused.status, refused.code) == (503, "busy")
        assert refused.headers["retry-after"] == "1"
        assert talk(port, GET + b"\r\n").status == 200  # as health is
