"""Senders: the name of the key goes with every event into the store, and `anyone` where
there are no keys."""

from pathlib import Path
from typing import Any

import pytest

from oddsmith.server.experiment.experiment import EVERYTHING
from oddsmith.server.http.keys import create, rotate
from server.served import CONTEXT, Hands, Here, here, place, wait

BENCH = """
[experts.lines]
kind = "linear"
file = "lines.npz"
[experts.bench]
kind = "linear"
file = "late.npz"
joins = true
"""
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("decide", {"context": CONTEXT, "id": "a"}),
    ("decide", {"context": CONTEXT, "id": "b", "deferred": True}),
    (
        "decide/batch",
        {
            "decisions": [
                {"context": CONTEXT, "id": "c"},
                {"context": CONTEXT, "id": "d"},
            ]
        },
    ),
    ("reward", {"id": "a", "reward": 1}),
    ("reward/batch", {"rewards": [{"id": "c", "reward": 0}, {"id": "d", "reward": 1}]}),
    ("activate", {"id": "b"}),
    ("correct", {"id": "a", "reward": 0, "key": "k"}),
    ("experts", {"expert": "late", "change": "added", "share": 0.1, "key": "k"}),
]


def senders(served: Here, name: str = "news") -> list[str | None]:
    """The sender of each event in the store."""
    return [line.sender for line in served.experiment(name).store.lines(0, EVERYTHING)]


def call(served: Here, path: str, body: dict[str, Any], token: str) -> Any:
    answer = served.ask(
        "POST", f"/v1/{path}", json=body, headers={"Authorization": f"Bearer {token}"}
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.usefixtures("arms")
@pytest.mark.parametrize("sticky", [False, True])
def test_without_keys_the_sender_is_anyone(tmp_path: Path, sticky: bool) -> None:
    file = place(tmp_path, experts=BENCH, service="sticky = true\n" if sticky else "")
    with here(file) as served:
        if sticky:
            served.post("decide", {"context": CONTEXT, "unit": "u"})
            served.post(
                "decide/batch",
                {"decisions": [{"context": CONTEXT, "unit": one} for one in "uvw"]},
            )
            assert senders(served) == ["anyone"] * 3
        else:
            for path, body in CALLS:
                served.post(path, body)
            assert senders(served) == ["anyone"] * 10


@pytest.mark.usefixtures("arms")
def test_every_event_names_the_key_that_sent_it(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    first = create(keys, "ops", ["admin"])
    tokens = [first, create(keys, "shop", ["decide", "reward"])]
    tokens.append(rotate(keys, "ops"))  # another token, the same name
    with here(place(tmp_path, experts=BENCH), keys=keys) as served:
        for path, body in CALLS:
            call(served, path, body, tokens[0])
        assert senders(served) == ["ops"] * 10
        call(served, "decide", {"context": CONTEXT, "id": "e"}, tokens[1])
        call(served, "reward", {"id": "e", "reward": 1}, tokens[2])
        # the first sender stays
        assert (
            call(served, "reward", {"id": "e", "reward": 1}, tokens[1])["new"] is False
        )
        assert senders(served)[10:] == ["shop", "ops"]
        header = {"Authorization": f"Bearer {tokens[0]}"}
        record = served.ask("GET", "/v1/decisions/e", headers=header).json()
        assert [event["sender"] for event in record["events"]] == ["shop", "ops"]
        assert served.state() is not None


@pytest.mark.usefixtures("arms")
def test_what_the_service_writes_by_itself_has_no_sender(tmp_path: Path) -> None:
    hands = Hands()
    with here(place(tmp_path, service="window_s = 5\n"), clock=hands.clock()) as served:
        served.decide("a")
        hands.pass_by(10)
        wait(lambda: len(senders(served)) == 2)
        assert senders(served) == ["anyone", None]
