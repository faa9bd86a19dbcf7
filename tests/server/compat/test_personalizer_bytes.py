"""Requests as the other clients of Personalizer send them, byte by byte: in JavaScript,
old and new, and from PHP."""

import json
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

import pytest

from server.compat.personalizer_table import action, rank
from server.compat.test_personalizer import file
from server.on_port import Port, on_a_port


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Port]:
    with on_a_port(file(tmp_path_factory.mktemp("bytes"))) as one:
        yield one


@pytest.fixture
def line(served: Port) -> Iterator[HTTPConnection]:
    """One connection for all requests of a test: an answer must end where the next one
    begins."""
    with closing(HTTPConnection("127.0.0.1", served.port, timeout=20)) as one:
        yield one


def send(
    line: HTTPConnection,
    path: str,
    body: bytes = b"",
    kind: str | None = None,
    **headers: str,
) -> Any:
    """Status, headers and body of the answer to a POST."""
    line.putrequest("POST", path, skip_accept_encoding=True)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    for name, value in (
        sent | ({} if kind is None else {"Content-Type": kind})
    ).items():
        line.putheader(name, value)
    line.putheader("Content-Length", str(len(body)))
    line.endheaders(body)
    answer = line.getresponse()
    return (
        answer.status,
        {name.lower(): value for name, value in answer.getheaders()},
        answer.read(),
    )


def test_old_javascript(line: HTTPConnection) -> None:
    kind = "application/json; charset=utf-8"
    body = json.dumps(rank(eventId="js 1/é", deferActivation=True)).encode()
    status, headers, answer = send(
        line, "/personalizer/v1.0/rank", body, kind, Accept="*/*"
    )
    assert (status, headers["content-type"]) == (201, "application/json")
    assert json.loads(answer)["eventId"] == "js 1/é"
    for path, sent in (
        ("activate", b""),
        ("reward", b'{"value":1}'),
        ("reward", b'{"value":0}'),
    ):
        status, headers, answer = send(
            line, f"/personalizer/v1.0/events/js%201%2F%C3%A9/{path}", sent, kind
        )
        assert (status, answer) == (204, b"")
        assert (
            not {"content-type", "content-length", "transfer-encoding"} & headers.keys()
        )


def test_new_javascript(line: HTTPConnection) -> None:
    kind, head = (
        "application/json; charset=UTF-8",
        {"x_ms_client_request_id": "51f7ddd9-2a3b-4a5e-9a2a-2d8a6ad9d3a5"},
    )
    asked = rank(action("a"), action("b"))
    answers = [
        send(
            line,
            f"/personalizer/v1.1-preview.{version}/rank",
            json.dumps(asked).encode(),
            kind,
            **head,
        )
        for version in (1, 2, 3)
    ]
    assert {status for status, *_ in answers} == {201}
    # a rank that is sent again is one event
    assert len({answer for *_, answer in answers}) == 1
    assert json.loads(answers[0][2])["eventId"] == head["x_ms_client_request_id"]
    status, headers, answer = send(
        line, "/personalizer/v1.1-preview.2/rank", b'{"actions":[]}', kind
    )
    assert (status, headers["x-ms-error-code"]) == (400, "InvalidRankRequest")
    assert (
        json.loads(answer)["error"]["message"]
        == "actions must be a list of at least 1 entry; got []"
    )


def test_php(line: HTTPConnection) -> None:
    """A double slash, ids that are numbers, and whole numbers as rewards."""
    asked: dict[str, Any] = {
        "contextFeatures": [{"time": "morning"}],
        "actions": [action(n, words=n * 100) for n in (17, 4, 99)],
    }
    asked |= {"excludedActions": [4], "deferActivation": False, "eventId": 123}
    status, _, answer = send(
        line, "//personalizer/v1.0/rank", json.dumps(asked).encode(), "application/json"
    )
    told = json.loads(answer)
    assert (status, told["eventId"], told["ranking"][1]) == (
        201,
        "123",
        {"id": "4", "probability": 0.0},
    )
    assert told["rewardActionId"] in ("17", "99")
    status, *_ = send(
        line,
        "//personalizer/v1.0/events/123/reward",
        b'{"value":1}',
        "application/json",
    )
    assert status == 204


def test_content_types_are_not_looked_at(line: HTTPConnection) -> None:
    for kind in (
        None,
        "text/plain",
        "application/json-patch+json",
        "application/*+json",
    ):
        assert (
            send(line, "/personalizer/v1.0/rank", json.dumps(rank()).encode(), kind)[0]
            == 201
        )


def test_a_body_as_large_as_an_offer(line: HTTPConnection) -> None:
    actions = [
        action(n, **{f"feature {k}": "x" * 400 for k in range(40)}) for n in range(50)
    ]
    body = json.dumps(rank(*actions)).encode()
    assert 800_000 < len(body) < 1 << 20
    assert send(line, "/personalizer/v1.0/rank", body, "application/json")[0] == 201
    status, _, answer = send(
        line, "/personalizer/v1.0/rank", body + b" " * (1 << 20), "application/json"
    )
    assert (status, json.loads(answer)["error"]["code"]) == (400, "PayloadSizeExceeded")


def test_a_key_twice_is_refused(line: HTTPConnection) -> None:
    line.putrequest("POST", "/personalizer/v1.0/rank")
    for _ in range(2):
        line.putheader("Ocp-Apim-Subscription-Key", "x")
    line.putheader("Content-Length", "0")
    line.endheaders()
    answer = line.getresponse()
    assert answer.status == 400
    assert (
        json.loads(answer.read())["error"]["message"]
        == "the header ocp-apim-subscription-key must be sent once"
    )
