"""What is too large, too long or too slow is refused; the same requests pass where
there are no limits."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest
import uvicorn

from oddsmith.server.http.limits import SAFE_HEADERS, Limits, Message
from oddsmith.server.http.response import Refusal
from oddsmith.server.http.routes import ROUTES
from oddsmith.server.http.wire import Wire, server_config
from server.live import Answer, Bare, Echo, ask, listen, serving, talk

HOST = b"Host: 127.0.0.1\r\n"
POST = b"POST /v1/decide HTTP/1.1\r\n" + HOST
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
CHUNK = b"1000\r\n" + b"x" * 4096 + b"\r\n"
MUCH = 10_000_000


class Hasty(Wire):
    """Short of patience."""

    request_s = 0.3


class Place(NamedTuple):
    port: int
    app: Echo


@pytest.fixture(scope="module")
def limited() -> Iterator[Place]:
    app = Echo()
    limits = Limits(app, body_bytes={route.path: route.body_bytes for route in ROUTES})
    with serving(server_config(limits, host="127.0.0.1", port=0)) as port:
        yield Place(port, app)


@contextmanager
def wired(wire: type[Wire]) -> Iterator[int]:
    with serving(
        server_config(Limits(Echo()), host="127.0.0.1", port=0, wire=wire)
    ) as port:
        yield port


@pytest.fixture(scope="module")
def hasty() -> Iterator[int]:
    with wired(Hasty) as port:
        yield port


@pytest.fixture(scope="module")
def bare() -> Iterator[Place]:
    """The same application and server without any of it."""
    app = Echo()
    config = uvicorn.Config(
        Bare(app),
        port=0,
        loop="uvloop",
        http="httptools",
        ws="none",
        log_config=None,
        access_log=False,
    )
    with serving(config) as port:
        yield Place(port, app)


def with_length(size: int) -> list[bytes]:
    return [
        POST + b"Content-Length: %d\r\n\r\n" % size,
        *[b"x" * 50_000] * (size // 50_000),
    ]


def headed(lines: int, size: int = 10) -> bytes:
    return b"".join(b"X-%d: %s\r\n" % (i, b"y" * size) for i in range(lines))


GET = b"GET /healthz HTTP/1.1\r\n" + HOST
TOO_MUCH: dict[str, tuple[list[bytes], int, str]] = {
    "10 MB with their length": (with_length(MUCH), 413, "too_large"),
    "10 MB in chunks": (
        [CHUNKED, *[CHUNK] * (MUCH // 4096), b"0\r\n\r\n"],
        413,
        "too_large",
    ),
    "100 headers": ([GET + headed(100) + b"\r\n"], 431, "headers_too_large"),
    "a header of 20 kB": (
        [GET + headed(1, 20_000) + b"\r\n"],
        431,
        "headers_too_large",
    ),
    "headers without end": (
        [GET, *[headed(100, 100)] * 100, b"\r\n"],
        431,
        "headers_too_large",
    ),
    "a long path": (
        [b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\n" + HOST + b"\r\n"],
        414,
        "path_too_long",
    ),
    "a long query": (
        [b"GET /?" + b"a" * 5000 + b" HTTP/1.1\r\n" + HOST + b"\r\n"],
        414,
        "path_too_long",
    ),
    "trailers without end": (
        [CHUNKED + b"0\r\n", *[b"X-T: " + b"y" * 100_000 + b"\r\n"] * 100, b"\r\n"],
        413,
        "too_large",
    ),
    "two hosts": ([GET + b"Host: localhost\r\n\r\n"], 400, "malformed"),
}


@pytest.mark.parametrize("case", TOO_MUCH)
def test_what_is_too_much_is_refused(case: str, limited: Place, bare: Place) -> None:
    parts, status, code = TOO_MUCH[case]
    before = limited.app.asked
    answer = talk(limited.port, *parts)
    assert (answer.status, answer.code) == (status, code)
    assert answer.headers["connection"] == "close"
    assert limited.app.asked == before
    # teeth: without limits all of it is taken
    assert talk(bare.port, *parts).status == 200


def test_a_path_without_end_is_refused_as_path_or_as_head(
    limited: Place, bare: Place
) -> None:
    """Whether the head is whole when its limit is passed depends on how the bytes
    arrive; both answers are true."""
    parts = [b"GET /", *[b"a" * 8000] * 5, b" HTTP/1.1\r\n" + HOST + b"\r\n"]
    before = limited.app.asked
    answer = talk(limited.port, *parts)
    assert (answer.status, answer.code) in {
        (414, "path_too_long"),
        (431, "headers_too_large"),
    }
    assert limited.app.asked == before
    assert talk(bare.port, *parts).status == 200


@pytest.mark.parametrize(
    "broken",
    [
        POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        POST + b"Content-Length: five\r\n\r\nhello",
        POST + b"Content-Length: -5\r\n\r\nhello",
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        CHUNKED + b"zz\r\n",
        b"\x16\x03\x01 no HTTP at all\r\n\r\n",
        b"GET /caf\xe9 HTTP/1.1\r\n" + HOST + b"\r\n",
    ],
)
def test_what_is_broken_is_a_400_with_one_sentence(
    broken: bytes, limited: Place
) -> None:
    before = limited.app.asked
    answer = talk(limited.port, broken)
    assert (answer.status, answer.code) == (400, "malformed")
    assert limited.app.asked == before


def test_a_length_alone_is_enough_to_refuse(limited: Place) -> None:
    """Nothing of the body is sent, and none is asked for."""
    head = POST + b"Expect: 100-continue\r\nContent-Length: 65537\r\n\r\n"
    assert talk(limited.port, head).status == 413
    endless = {"headers": [(b"content-length", b"9" * 400)]}
    assert ask(Limits(Echo()), endless, [])[0].status == 413


def test_a_body_that_is_a_little_too_long_is_sent_before_it_is_refused(
    limited: Place,
) -> None:
    """A client that sends on into a closed connection sees a broken one, and no
    reason."""
    with socket.create_connection(("127.0.0.1", limited.port), timeout=20) as line:
        line.sendall(POST + b"Content-Length: 260000\r\n\r\n")
        for _ in range(26):
            # long enough for an answer that does not wait to close the connection
            time.sleep(0.002)
            line.sendall(b"x" * 10_000)
        assert listen(line).status == 413


def test_a_slow_body_is_given_up(hasty: int, bare: Place) -> None:
    slow = [POST + b"Content-Length: 100\r\n\r\n", *[b"x"] * 8]
    answer = talk(hasty, *slow, pause=0.1)
    assert (answer.status, answer.code, answer.headers["connection"]) == (
        408,
        "timeout",
        "close",
    )
    # teeth: it waits on
    assert talk(bare.port, *slow, pause=0.1, patience=0.5).status == 0


@pytest.mark.parametrize(
    "slow",
    [[b""], [GET, *[b"X: y\r\n"] * 8], [b"\r\n"] * 8],
    ids=["none", "begun", "empty"],
)
def test_a_slow_head_is_given_up(slow: list[bytes], hasty: int, bare: Place) -> None:
    answer = talk(hasty, *slow, pause=0.1)
    assert (answer.status, answer.code) == (408, "timeout")
    assert talk(bare.port, *slow, pause=0.1, patience=0.5).status == 0


def test_a_slow_head_after_a_good_request_is_given_up(hasty: int) -> None:
    with socket.create_connection(("127.0.0.1", hasty), timeout=20) as line:
        for part, status in ((GET + b"\r\n", 200), (GET, 408)):
            line.sendall(part)
            assert listen(line).status == status
        assert line.recv(1) == b""


def test_what_fits_passes_whole(limited: Place) -> None:
    fits = [
        (
            talk(
                limited.port,
                POST + b"Content-Length: 65536\r\n\r\n",
                *[b"x" * 8192] * 8,
            ),
            65_536,
        ),
        (talk(limited.port, CHUNKED, *[CHUNK] * 16, b"0\r\n\r\n"), 65_536),
        (talk(limited.port, CHUNKED, *[b"1\r\nx\r\n" * 1000] * 5, b"0\r\n\r\n"), 5000),
        (talk(limited.port, GET + headed(60) + b"\r\n"), 0),
    ]
    for answer, size in fits:
        assert (answer.status, answer.body) == (200, b'{"bytes": %d}' % size)
    for path in ("/v1/decide/batch", "/v1/reward/batch"):
        head = CHUNKED.replace(b"/v1/decide", path.encode())
        whole = talk(limited.port, head, *[CHUNK] * 256, b"0\r\n\r\n")
        assert whole.body == b'{"bytes": 1048576}'
        assert talk(limited.port, head, *[CHUNK] * 257, b"0\r\n\r\n").status == 413


def test_an_answer_that_is_due_is_never_mixed_with_a_refusal(
    limited: Place, bare: Place
) -> None:
    """Two requests in one piece, the second broken, late or endless: whatever is said,
    the first answer comes first."""
    for second in (
        b"no HTTP\r\n\r\n",
        b"GET /caf\xe9 HTTP/1.1\r\n\r\n",
        GET + headed(400, 100),
    ):
        with socket.create_connection(("127.0.0.1", limited.port), timeout=20) as line:
            line.sendall(GET + b"\r\n" + second)
            assert listen(line).status in (0, 200)
    # teeth: the second's, taken for the first's
    assert talk(bare.port, GET + b"\r\nno HTTP\r\n\r\n").status == 400


def test_a_trailer_is_no_header(limited: Place, bare: Place) -> None:
    """What comes after the body was not there when the head was checked."""
    late = CHUNKED + b"1\r\nx\r\n0\r\nAuthorization: Bearer x\r\n\r\n"
    for place in (limited, bare):
        assert talk(place.port, late).status == 200
    assert limited.app.named == {b"host", b"transfer-encoding"}
    assert b"authorization" in bare.app.named  # teeth


def test_there_is_nothing_to_upgrade_to(limited: Place) -> None:
    for protocol in (b"websocket", b"h2c"):
        head = GET + b"Connection: Upgrade\r\nUpgrade: " + protocol + b"\r\n\r\n"
        assert talk(limited.port, head, b"x" * 100).status == 200
    assert (
        talk(
            limited.port, b"CONNECT news.example:443 HTTP/1.1\r\n" + HOST + b"\r\n"
        ).status
        == 400
    )


def test_a_connection_serves_many_requests_in_turn(limited: Place) -> None:
    with socket.create_connection(("127.0.0.1", limited.port), timeout=20) as line:
        for size in (1, 60_000, 0, 30_000) * 50:  # more than a message may have in all
            line.sendall(POST + b"Content-Length: %d\r\n\r\n" % size + b"x" * size)
            assert listen(line).body == b'{"bytes": %d}' % size


def test_headers_for_browsers_and_those_a_route_has_set() -> None:
    app = Echo()
    app.headers = [(b"cache-control", b"max-age=60")]
    end: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]
    answer, _ = ask(Limits(app), {}, end)
    safe = {name.decode(): value.decode() for name, value in SAFE_HEADERS}
    assert safe["x-content-type-options"] == "nosniff"
    assert (
        safe["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    )
    assert answer.headers == {
        "content-length": answer.headers["content-length"],
        **safe,
        "cache-control": "max-age=60",
    }
    refused, taken = ask(
        Limits(app), {"headers": [(b"content-length", b"7000000")]}, end
    )
    assert refused.headers.items() >= safe.items()
    assert taken == 0


def test_never_more_than_the_limit_is_taken() -> None:
    part: Message = {"type": "http.request", "body": b"x" * 1000, "more_body": True}
    answer, taken = ask(Limits(Echo(), body=10_000), {}, [part] * 1000)
    assert (answer.status, taken) == (413, 11)


def test_a_caller_who_leaves_gets_no_answer_and_the_application_is_not_asked() -> None:
    app = Echo()
    part: Message = {"type": "http.request", "body": b"x", "more_body": True}
    answer, _ = ask(Limits(app), {}, [part, {"type": "http.disconnect"}])
    assert (answer, app.asked) == (Answer(0, {}, b""), 0)


HERE = "127.0.0.1:8000"
OWN = f"http://{HERE}"
SITE = "sec-fetch-site"
LINK = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
FRAME = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}


@pytest.mark.parametrize(
    ("headers", "post", "get"),
    [
        # programs
        ({"host": HERE}, 200, 200),
        ({"host": "localhost"}, 200, 200),
        ({"host": "[::1]:8000"}, 200, 200),
        ({}, 403, 403),
        # names that were made to lead here
        ({"host": "news.example"}, 403, 403),
        ({"host": "127.0.0.1.news.example"}, 403, 403),
        ({"host": "news.example", "origin": "http://news.example"}, 403, 403),
        ({"host": "news.example", SITE: "same-origin"}, 403, 403),
        # the service's own pages, and addresses that were typed in
        ({"host": HERE, "origin": OWN}, 200, 200),
        ({"host": HERE, "origin": OWN, SITE: "same-origin"}, 200, 200),
        ({"host": HERE, SITE: "same-origin"}, 200, 200),
        ({"host": HERE, SITE: "none"}, 200, 200),
        ({"host": "LOCALHOST:8000", "origin": "http://localhost:8000"}, 200, 200),
        # pages of other sites, ports and names of this machine
        ({"host": HERE, "origin": "https://news.example"}, 403, 403),
        ({"host": HERE, "origin": "null"}, 403, 403),
        ({"host": HERE, "origin": "http://["}, 403, 403),
        ({"host": HERE, "origin": ""}, 403, 403),
        ({"host": HERE, "origin": "http://127.0.0.1:3000"}, 403, 403),
        ({"host": HERE, "origin": "http://127.0.0.1"}, 403, 403),
        ({"host": HERE, "origin": "http://localhost:8000"}, 403, 403),
        ({"host": "news.example@127.0.0.1", "origin": OWN}, 403, 403),
        ({"host": HERE, SITE: "same-site"}, 403, 403),
        ({"host": HERE, SITE: "cross-site"}, 403, 403),
        ({"host": HERE, SITE: "of the future"}, 403, 403),
        ({"host": HERE, "origin": OWN, SITE: "cross-site"}, 403, 403),
        ({"host": HERE, "origin": "http://a.example", SITE: "same-origin"}, 403, 403),
        # a link may be followed; a form of another site may not be sent
        ({"host": HERE, SITE: "cross-site"} | LINK, 403, 200),
        ({"host": HERE, SITE: "same-site"} | LINK, 403, 200),
        ({"host": HERE, SITE: "cross-site"} | FRAME, 403, 403),
    ],
)
def test_without_keys_only_this_machine_is_served(
    headers: dict[str, str], post: int, get: int
) -> None:
    end: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]
    sent = [(name.encode(), value.encode()) for name, value in headers.items()]
    for method, status in {"POST": post, "PUT": post, "GET": get, "HEAD": get}.items():
        scope = {"headers": sent, "method": method}
        assert ask(Limits(Echo(), local=True), scope, end)[0].status == status
        assert ask(Limits(Echo()), scope, end)[0].status == 200


def test_a_refusal_says_what_its_status_needs() -> None:
    assert (b"www-authenticate", b"Bearer") in Refusal(
        401, "unauthorized", "no"
    ).response().headers
    assert (b"retry-after", b"1") in Refusal(503, "busy", "later").response().headers
