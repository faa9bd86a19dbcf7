"""Several slots through a client: what is sent, and what a service answers to it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import oddsmith as od
from oddsmith.client import ServedDecision, ServedSlate, StoredEvent
from oddsmith.client.calls import Calls
from oddsmith.client.tries import Patience, Reply
from server.http.test_offers import news
from server.served import Here, here

CALLS = Calls(None, Patience(5, 0))


def answered(served: Here, steps: Any) -> Any:
    """What a call comes to, each of its requests answered by this service."""
    attempt = next(steps)
    while True:
        method, path, body, _ = attempt.request
        answer = served.ask(method, path, content=body)
        try:
            attempt = steps.send(Reply(answer.status_code, answer.content, None))
        except StopIteration as end:
            return end.value


def sent(steps: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(next(steps).request.body)
    return body


def test_slots_are_sent_as_plain_json() -> None:
    slots = [
        od.Slot(
            "top", pd.Series({"size": np.float32(2), "wide": None}), eligible=("a", "b")
        ),
        {"name": "side"},
    ]
    body = sent(
        CALLS.decide_slate(
            {"hour": 9},
            arms=["a", "b", "c"],
            slots=slots,
            unit="ann",
            deferred=True,
            id="p",
        )
    )
    first = {
        "name": "top",
        "features": {"size": 2.0, "wide": None},
        "eligible": ["a", "b"],
    }
    assert body.pop("slots") == [first, {"name": "side"}]
    assert body == {
        "unit": "ann",
        "context": {"hour": 9},
        "arms": ["a", "b", "c"],
        "deferred": True,
        "id": "p",
    }
    plain = sent(CALLS.decide_slate(None))
    assert len(plain.pop("id")) > 20
    assert plain == {"context": None, "slots": 3}
    with pytest.raises(
        od.InvalidInput, match="slots must be a whole number, or a list of Slot"
    ):
        CALLS.decide_slate({}, slots=["top"])


def test_a_slate_is_decided_again_activated_and_rewarded(tmp_path: Path) -> None:
    with here(news(tmp_path)) as served:
        ask: dict[str, Any] = {
            "arms": {"a": {"age": 1}, "b": {"age": 2}, "c": None},
            "slots": 2,
            "id": "page",
            "deferred": True,
        }
        page = answered(served, CALLS.decide_slate({"hour": 9}, **ask))
        assert isinstance(page, ServedSlate)
        assert (page.slate, page.experiment, page.new) == ("page", "news", True)
        assert all(isinstance(slot, ServedDecision) for slot in page.slots)
        assert [(slot.slot, slot.name) for slot in page.slots] == [(1, "1"), (2, "2")]
        assert page.slots[1].odds is not None
        assert page.slots[1].odds[page.slots[0].arm] == 0
        again = answered(served, CALLS.decide_slate({"hour": 9}, **ask))
        assert again == page._replace(
            new=False, slots=[slot._replace(new=False) for slot in page.slots]
        )
        assert answered(served, CALLS.activate_slate("page")) == StoredEvent(
            "page", 4, True
        )
        assert answered(served, CALLS.reward(page.slots[1].id, 1)).new
        with pytest.raises(
            od.Conflict, match="slate 'page' was decided before, with other slots"
        ):
            answered(served, CALLS.decide_slate({"hour": 9}, **ask | {"slots": 1}))
        with pytest.raises(
            od.InvalidInput,
            match="slots must not outnumber the arms that may be shown, 3; got 4",
        ):
            answered(
                served, CALLS.decide_slate({"hour": 9}, arms=["a", "b", "c"], slots=4)
            )


def test_a_slot_is_rewarded_by_slate_and_name(tmp_path: Path) -> None:
    with here(news(tmp_path)) as served:
        page = answered(
            served,
            CALLS.decide_slate(
                {}, arms=["a", "b", "c"], slots=[od.Slot("top"), od.Slot("2")], id="p"
            ),
        )
        top, second = (slot.id for slot in page.slots)
        assert answered(
            served, CALLS.reward(slate="p", slot="top", reward=1)
        ) == StoredEvent(top, 3, True)
        rewards: list[dict[str, Any]] = [
            {"slate": "p", "slot": 2, "reward": 0},
            {"slate": "p", "slot": "x", "reward": 0},
        ]
        kept, refused = answered(served, CALLS.reward_batch(rewards))
        assert kept == StoredEvent(second, 4, True)
        assert isinstance(refused, od.InvalidInput)
        with pytest.raises(
            od.InvalidInput,
            match="got 'p', which is a slate with 2 slots with other names",
        ):
            answered(served, CALLS.reward("p", 1))
        with pytest.raises(
            od.InvalidInput,
            match="id must be given, or slate and slot in its place; got slate",
        ):
            answered(served, CALLS.reward(slate="p", reward=1))
        with pytest.raises(od.InvalidInput, match="reward or metrics must be given"):
            answered(served, CALLS.reward(slate="p", slot="top"))
