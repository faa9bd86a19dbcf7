"""B2 and S3: bytes that no honest client sends, against the real service: 4xx or a
clean close, no 5xx, no hang."""

import json
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from server.live import WRONG_ARMS
from server.served import CONTEXT, Elsewhere, place, process

HURRY = (
    # seconds that a request may take to arrive
    "from oddsmith.server.http.wire import Wire\nWire.request_s = 1.0\n"
)
CARELESS = (
    HURRY
    + """
from oddsmith.server.http import app, limits
none = dict.fromkeys(("body", "headers", "header_bytes", "target"), 1 << 40)
app.Limits = lambda inner, begin, end, enter, **_: limits.Limits(inner, begin, end, enter, **none)
"""
)
VALID = json.dumps({"context": CONTEXT, "id": "x"}).encode()
PATHS = (
    "/v1/decide",
    "/v1/decide/batch",
    "/v1/reward",
    "/v1/reward/batch",
    "/v1/correct",
    "/v1/activate",
    "/v1/experts",
)
REFUSED = range(400, 500)
ANY = range(200, 500)
MEGABYTE = 1 << 20


class Attack(NamedTuple):
    """Bytes to send, the statuses that are right, and whether a close without an answer
    is right, too."""

    content: bytes
    right: Any = REFUSED
    silence: bool = False


def request(
    body: bytes, path: str = "/v1/decide", headers: str = "", length: int | None = None
) -> bytes:
    length = len(body) if length is None else length
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: "
        f"{length}\r\n\r\n"
    ).encode() + body


def decide(context: str, right: Any = REFUSED) -> Attack:
    return Attack(request(f'{{"context": {context}}}'.encode()), right)


def cut_short(rng: Any) -> Attack:
    return Attack(
        request(VALID[: rng.integers(0, len(VALID))], PATHS[rng.integers(len(PATHS))])
    )


def deep(rng: Any) -> Attack:
    opening = (b"[", b'{"a":')[rng.integers(2)]
    return Attack(
        request(
            b'{"context": ' + opening * int(rng.choice([40, 2_000, 10_000, 30_000]))
        )
    )


def deepest(rng: Any) -> Attack:
    body = b'{"decisions": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    return Attack(request(body, "/v1/decide/batch"))


def numbers(rng: Any) -> Attack:
    text = [
        "1e400",
        "-1e400",
        "1e101",
        "-1e308",
        "NaN",
        "Infinity",
        "-Infinity",
        "nan",
        "0x10",
        "01",
        "1.",
        ".5",
        "+1",
    ]
    return decide(f"[0.1, {text[rng.integers(len(text))]}]")


def large_whole_number(rng: Any) -> Attack:
    return decide(
        "-" * int(rng.integers(2))
        + "9" * int(rng.choice([120, 309, 400, 5_000, 60_000]))
    )


def reward_numbers(rng: Any) -> Attack:
    text = [
        "1e400",
        "NaN",
        "1e308",
        "-1",
        "1.0000001",
        '"1"',
        "null",
        "[1]",
        "true",
        "9" * 400,
    ]
    return Attack(
        request(
            f'{{"id": "x", "reward": {text[rng.integers(len(text))]}}}'.encode(),
            "/v1/reward",
        )
    )


def same_key_twice(rng: Any) -> Attack:
    # the last counts
    return Attack(
        request(b'{"context": [9, 9], "context": [0.1, 0.2], "id": "a", "id": "b"}'),
        ANY,
    )


def surrogates(rng: Any) -> Attack:
    text = ['"\\ud800"', '{"a": "\\udc00x"}', '{"\\ud83d": 1}', '"\\ud800\\ud800"'][
        rng.integers(4)
    ]
    return decide(text)


def not_utf8(rng: Any) -> Attack:
    return Attack(
        request(b'{"context": "' + bytes(rng.integers(128, 256, 9).tolist()) + b'"}')
    )


def control_characters(rng: Any) -> Attack:
    return Attack(
        request(b'{"context": 1, "id": "' + bytes([int(rng.integers(0, 32))]) + b'"}')
    )


def unknown_fields(rng: Any) -> Attack:
    return Attack(
        request(
            b'{"context": 1, "__class__": "x", "'
            + b"k" * int(rng.integers(1, 900))
            + b'": 1}'
        )
    )


def mutated(rng: Any) -> Attack:
    body = bytearray(VALID)
    for place_ in rng.integers(0, len(body), rng.integers(1, 6)):
        body[place_] = rng.integers(0, 256)
    return Attack(request(bytes(body)), ANY)


def noise(rng: Any) -> Attack:
    return Attack(
        request(rng.bytes(int(rng.integers(1, 3000))), PATHS[rng.integers(len(PATHS))])
    )


def not_http(rng: Any) -> Attack:
    return Attack(rng.bytes(int(rng.integers(1, 300))), silence=True)


def huge(rng: Any) -> Attack:
    path = ("/v1/decide", "/v1/reward/batch")[rng.integers(2)]
    return Attack(
        request(b'{"context": "' + b"a" * 10 * MEGABYTE + b'"}', path), (413,)
    )


def promised(rng: Any) -> Attack:
    lengths = ("66000", "99999999999999999999", "-1", "0x10", "1 1", "", "1e3", "+5")
    length = lengths[rng.integers(len(lengths))]
    return Attack(
        (
            "POST /v1/decide HTTP/1.1\r\nHost: localhost\r\n"
            f"Content-Length: {length}\r\n\r\n"
        ).encode(),
        silence=True,
    )


def chunked(rng: Any) -> Attack:
    head = (
        b"POST /v1/decide HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
        b"\r\n"
    )
    chunk = b"8000\r\n" + b"a" * 0x8000 + b"\r\n"
    times = int(rng.choice([3, 40]))  # bodies with arms in them may be longer
    return Attack(
        head + chunk * times + b"0\r\n\r\n", (400, 413) if times == 3 else (413,)
    )


def chunked_wrongly(rng: Any) -> Attack:
    head = (
        b"POST /v1/decide HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
        b"\r\n"
    )
    return Attack(
        head
        + (b"zz\r\n{}\r\n", b"-1\r\n\r\n", b"ffffffffffffffffff\r\n{")[rng.integers(3)],
        silence=True,
    )


def chunked_with_a_length(rng: Any) -> Attack:
    return Attack(
        request(VALID, headers="Transfer-Encoding: chunked\r\n"), silence=True
    )


def headers(rng: Any) -> Attack:
    kind, many = rng.integers(4), int(rng.choice([100, 3_000]))
    if kind == 0:
        return Attack(
            request(VALID, headers="".join(f"X-{i}: y\r\n" for i in range(many)))
        )
    if kind == 1:
        return Attack(
            request(VALID, headers=f"X: {'y' * 20_000 * (many // 100)}\r\n"),
            silence=True,
        )
    if kind == 2:
        return Attack(request(VALID, headers="Host: localhost\r\n"), silence=True)
    return Attack(
        b"POST /v1/decide HTTP/1.1\r\n" + rng.bytes(40) + b"\r\n\r\n", silence=True
    )


def paths(rng: Any) -> Attack:
    wrong = [
        "/" * 3000,
        "/v1/decide/" + "a" * 5000,
        "/v1/../../etc/passwd",
        "/v1/decide%00",
        "//v1/decide",
        "/v1/decide?" + "q" * 9000,
    ]
    return Attack(request(VALID, wrong[rng.integers(len(wrong))]))


def methods(rng: Any) -> Attack:
    word = (
        b"GET",
        b"PUT",
        b"TRACE",
        b"DELETE",
        b"OPTIONS",
        b"CONNECT",
        b"BREW",
        b"get",
    )[rng.integers(8)]
    return Attack(request(VALID).replace(b"POST", word, 1), silence=True)


def offers(rng: Any) -> Attack:
    long = json.dumps(["a" * int(rng.integers(257, 60_000))])
    many = json.dumps([f"a{i}" for i in range(int(rng.integers(1_001, 5_000)))])
    body = (
        f'{{"context": [0.1, 0.2], "arms": '
        f"{(*WRONG_ARMS, long, many)[rng.integers(len(WRONG_ARMS) + 2)]}}}"
    )
    if rng.integers(2):
        return Attack(request(body.encode()))
    return Attack(
        request(f'{{"decisions": [{body}]}}'.encode(), "/v1/decide/batch"), ANY
    )


ATTACKS: tuple[Callable[[Any], Attack], ...] = (
    *(
        cut_short,
        deep,
        deepest,
        numbers,
        large_whole_number,
        reward_numbers,
        same_key_twice,
        surrogates,
        not_utf8,
    ),
    *(
        control_characters,
        unknown_fields,
        mutated,
        noise,
        not_http,
        promised,
        chunked,
        chunked_wrongly,
    ),
    *(chunked_with_a_length, headers, paths, methods, offers, offers),
)


def send(port: int, attack: Attack) -> int | None:
    """The status of the answer; None for a connection closed without one; a hang
    raises."""
    said = b""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
        try:
            line.sendall(attack.content)
            if attack.silence:
                line.shutdown(socket.SHUT_WR)  # there is no more of it to wait for
            while b"\r\n" not in said and (part := line.recv(4096)):
                said += part
        except TimeoutError as error:
            raise AssertionError(f"no answer to {attack.content[:300]!r}") from error
        except OSError:  # it has closed while we were still talking: what did it say?
            said += drained(line)
    found = re.match(rb"HTTP/1\.1 (\d+)", said)
    return int(found[1]) if found else None


def drained(line: socket.socket) -> bytes:
    try:
        return line.recv(4096)
    except OSError:
        return b""


def wrong_answers(served: Elsewhere, times: int, seed: int = 0) -> list[str]:
    """What was answered wrongly, out of so many attacks."""
    rng, wrong = np.random.default_rng(seed), []
    for i in range(times):
        make = huge if i % 97 == 50 else ATTACKS[i % len(ATTACKS)]
        attack = make(rng)
        status = send(served.port, attack)
        # who sends 10 MB may not hear why it is cut off
        gone = status is None and (attack.silence or make is huge)
        if not gone and status not in attack.right:
            wrong.append(f"{make.__name__}: {status} for {attack.content[:300]!r}")
    return wrong


def check(folder: Path, times: int) -> None:
    with process(place(folder), before=HURRY) as served:
        # and everything is loaded
        assert wrong_answers(served, 2 * len(ATTACKS), seed=1) == []
        before = served.memory()
        assert wrong_answers(served, times) == []
        assert served.memory() - before < 20 * MEGABYTE
        assert (
            served.client.post("/v1/decide", json={"context": CONTEXT}).status_code
            == 200
        )
        assert not re.findall(
            r'oddsmith_answers_total\{route="/(?!readyz).*status="5\d\d"\}',
            served.client.get("/metrics").text,
        )
        assert "Traceback" not in served.log.read_text()


@pytest.mark.usefixtures("any_arms")
def test_wild_bytes(tmp_path: Path) -> None:
    check(tmp_path, 300)


def test_a_service_without_limits_would_be_found_out(tmp_path: Path) -> None:
    with process(place(tmp_path), before=CARELESS) as served:
        wrong = wrong_answers(served, 60)
    assert any(line.startswith(("chunked:", "huge:")) for line in wrong)


@pytest.fixture(scope="module")
def strict(tmp_path_factory: Any) -> Any:
    with process(place(tmp_path_factory.mktemp("strict")), before=HURRY) as served:
        yield served


def padded(length: int) -> bytes:
    """A decision that is valid JSON of so many bytes."""
    body = b'{"context": "%s"}'
    return body % (b"a" * (length - len(body) + 2))


@pytest.mark.parametrize("form", ["length", "chunks"])
@pytest.mark.parametrize(
    ("path", "limit"), [("/v1/decide", 65_536), ("/v1/decide/batch", MEGABYTE)]
)
def test_a_body_may_have_so_many_bytes_and_no_more(
    strict: Elsewhere, form: str, path: str, limit: int
) -> None:
    for length, statuses in ((limit, {200, 422}), (limit + 1, {413})):
        body = padded(length)
        if path.endswith("batch"):
            body = b'{"decisions": [%s]}' % padded(length - len(b'{"decisions": []}'))
        assert len(body) == length
        pieces = (body[i : i + 4096] for i in range(0, length, 4096))
        answer = strict.client.post(path, content=body if form == "length" else pieces)
        assert answer.status_code in statuses


def test_a_batch_may_have_so_many_entries_and_no_more(strict: Elsewhere) -> None:
    for entries, status in ((1000, 200), (1001, 422), (0, 422)):
        decisions = [{"context": 1}] * entries
        assert (
            strict.client.post(
                "/v1/decide/batch", json={"decisions": decisions}
            ).status_code
            == status
        )
        rewards = [{"id": f"r{i}", "reward": 1} for i in range(entries)]
        assert (
            strict.client.post(
                "/v1/reward/batch", json={"rewards": rewards}
            ).status_code
            == status
        )


@pytest.mark.parametrize(
    "content",
    [b"", b"POST /v1/decide HTTP/1.1\r\nHost: loc", request(VALID, length=99)],
)
def test_who_is_slow_is_hung_up_on(strict: Elsewhere, content: bytes) -> None:
    """Slow-loris: connections that say little, or nothing, and wait."""
    lines = [
        socket.create_connection(("127.0.0.1", strict.port), timeout=20)
        for _ in range(20)
    ]
    for line in lines:
        line.sendall(content)
    # others are served meanwhile
    assert (
        strict.client.post("/v1/decide", json={"context": CONTEXT}).status_code == 200
    )
    for line in lines:
        with line:
            assert re.match(rb"HTTP/1\.1 408", line.recv(4096))
            while line.recv(4096):
                pass
