"""The queue of what a client owes: its end, its order, and entries that are refused;
and what a fallback may be."""

import json
from collections import Counter
from typing import Any

import pytest
from scipy.stats import chisquare

import oddsmith as od
from oddsmith.client.fallback import read_fallback
from oddsmith.client.outbox import Outbox, Reported
from oddsmith.client.tries import Patience, Reply, Request

PATIENCE = Patience(5.0, 0, clock=lambda: 0.0)


def entry(id: str, **more: Any) -> bytes:
    return json.dumps(
        {"id": id, "incumbent": "a", "incumbent_odds": {"a": 1.0}} | more
    ).encode()


def drive(
    outbox: Outbox, answer: Any, experiment: str | None = None, **settings: Any
) -> list[Request]:
    """Send what is kept to `answer`, a function of the path and the body; returns the
    requests."""
    steps, sent = outbox.send(experiment, PATIENCE, **settings), list[Request]()
    try:
        attempt = next(steps)
        while True:
            sent.append(attempt.request)
            attempt = steps.send(
                answer(attempt.request.path, json.loads(attempt.request.body or b""))
            )
    except StopIteration:
        return sent


def fine(path: str, body: Any) -> Reply:
    entries = body.get("decisions", body.get("rewards", []))
    results = [{"id": one["id"], "arm": "a", "propensity": 1.0} for one in entries]
    return Reply(
        200,
        json.dumps({"results": results} if entries else {"id": body["id"]}).encode(),
    )


def test_order_is_kept_and_kinds_go_together() -> None:
    outbox = Outbox()
    for number in range(3):
        outbox.add("decision", f"d{number}", entry(f"d{number}"))
    outbox.add("activation", "d0", b'{"id":"d0"}')
    outbox.add("activation", "d1", b'{"id":"d1"}')
    outbox.add("reward", "d0", b'{"id":"d0","reward":1}')
    outbox.add("decision", "d3", entry("d3"))
    assert [request.path for request in drive(outbox, fine, chunks=1)] == [
        "/v1/decide/batch"
    ]
    assert outbox.counts() == Reported(3, 4, 0, 0)
    assert outbox.holds("d0")
    requests = drive(outbox, fine, experiment='n"ews')
    paths = ["/v1/activate", "/v1/activate", "/v1/reward/batch", "/v1/decide/batch"]
    assert [request.path for request in requests] == paths
    assert json.loads(requests[0].body or b"") == {"experiment": 'n"ews', "id": "d0"}
    assert json.loads(requests[2].body or b"") == {
        "experiment": 'n"ews',
        "rewards": [{"id": "d0", "reward": 1}],
    }
    assert not outbox
    assert not outbox.holds("d0")


def test_without_an_answer_all_stay() -> None:
    outbox = Outbox()
    outbox.add("decision", "d", entry("d"))
    for status in (0, 401, 403, 404, 429, 500, 503):
        assert len(drive(outbox, lambda *_, status=status: Reply(status, b"{}"))) == 1
    assert outbox.counts() == Reported(0, 1, 0, 0)
    steps = outbox.send(None, PATIENCE)
    next(steps)
    assert drive(outbox, fine) == []  # another thread sends
    steps.close()  # and is stopped
    assert len(drive(outbox, fine)) == 1
    assert outbox.counts() == Reported(1, 0, 0, 0)


def test_the_oldest_are_dropped_counted_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outbox = Outbox(most=3)
    for number in range(7):
        outbox.add("decision", f"d{number}", entry(f"d{number}"))
    assert outbox.counts() == Reported(0, 3, 0, 4)
    assert [outbox.holds(f"d{number}") for number in (3, 4)] == [False, True]
    assert [record.args for record in caplog.records] == [(1,), (2,), (4,)]
    narrow = Outbox(most_bytes=2 * len(entry("d0")))
    for number in range(4):
        narrow.add("decision", f"d{number}", entry(f"d{number}"))
    assert narrow.counts() == Reported(0, 2, 0, 2)
    drive(narrow, fine)
    narrow.add("decision", "d8", entry("d8"))
    narrow.add("decision", "d9", entry("d9"))
    assert narrow.counts() == Reported(2, 2, 0, 2)


def test_one_that_is_refused_does_not_keep_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def picky(path: str, body: Any) -> Reply:
        ids = [one["id"] for one in body["decisions"]]
        if "bad" in ids:
            return Reply(
                422, b'{"error": "context must be numbers", "code": "invalid"}'
            )
        results = [
            {"error": "no arm 'a'", "code": "invalid"} if id == "worse" else {}
            for id in ids
        ]
        return Reply(
            200,
            json.dumps(
                {"results": [{"arm": "a", "propensity": 1.0} | one for one in results]}
            ).encode(),
        )

    outbox = Outbox()
    for id in ("d0", "bad", "worse", "d1"):
        outbox.add("decision", id, entry(id))
    assert len(drive(outbox, picky)) == 5
    assert outbox.counts() == Reported(2, 0, 2, 0)
    assert "context must be numbers" in caplog.text
    assert "no arm 'a'" in caplog.text


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "c",
        {},
        {"a": 0.5},
        {"a": 2, "b": -1},
        {"a": "much"},
        {1: 1.0},
        7,
        {"c": 1.0},
    ],
)
def test_a_fallback_must_be_an_arm_or_odds_of_arms(wrong: Any) -> None:
    with pytest.raises(od.InvalidInput, match="fallback"):
        read_fallback(wrong, ["a", "b"])


def test_a_fallback_follows_its_odds() -> None:
    """One run in a million fails by chance."""
    odds = {"a": 0.5, "b": 0.3, "c": 0.2, "never": 0.0}
    drawn = Counter(read_fallback(odds, ["a", "b", "c"]).arm for _ in range(3000))
    assert drawn["never"] == 0
    assert chisquare([drawn[arm] for arm in "abc"], [1500, 900, 600]).pvalue > 1e-6
