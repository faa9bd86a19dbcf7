"""Azure's own client for Python, as it is, over a real port: what it sends is answered
as it expects."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oddsmith.server.http.keys import create
from server.compat.test_personalizer import file
from server.on_port import Port, on_a_port
from server.served import Elsewhere, process, wait

sdk = pytest.importorskip(
    "azure.cognitiveservices.personalizer",
    reason="requirements/sdks.txt is not installed",
)
models = pytest.importorskip("azure.cognitiveservices.personalizer.models")
authentication = pytest.importorskip("msrest.authentication")
exceptions = pytest.importorskip("msrest.exceptions")


def client(port: int, path: str = "", key: str = "none") -> Any:
    credentials = authentication.CognitiveServicesCredentials(key)
    return sdk.PersonalizerClient(f"http://127.0.0.1:{port}{path}", credentials)


def request(*ids: str, **more: Any) -> Any:
    actions = [
        models.RankableAction(id=id, features=[{"place": n}])
        for n, id in enumerate(ids)
    ]
    return models.RankRequest(actions=actions, context_features=[{"hour": 9}], **more)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Port]:
    with on_a_port(file(tmp_path_factory.mktemp("sdk"))) as one:
        yield one


def record(served: Port | Elsewhere, id: str) -> Any:
    path = "".join(f"%{byte:02X}" for byte in id.encode())
    answer = served.client.get(f"/v1/decisions/{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(
    "id", ["ev 1/é", "e:1", "x" * 256, "漢" * 256, "%2F", "a..b", "a+b&c?d#e", "12"]
)
@pytest.mark.parametrize("path", ["", "/", "/news", "/shim/news/"])
def test_ids_from_rank_to_reward(served: Port, id: str, path: str) -> None:
    ours = client(served.port, path)
    event = f"{path.strip('/')}{id}"[-256:]
    answer = ours.rank(request(id, "b", "c", event_id=event))
    assert (answer.event_id, {one.id for one in answer.ranking}) == (
        event,
        {id, "b", "c"},
    )
    assert answer.reward_action_id == answer.ranking[0].id
    assert ours.events.reward(event, 1.0) is None
    assert ours.events.activate(event) is None
    kept = record(served, event)
    assert (kept["arm"], kept["reward"]) == (answer.reward_action_id, 1.0)
    assert {one.id: one.probability for one in answer.ranking} == kept["odds"]


def test_an_event_id_is_made(served: Port) -> None:
    ours = client(served.port)
    first, second = ours.rank(request("a", "b")), ours.rank(request("a", "b"))
    assert first.event_id != second.event_id
    assert record(served, first.event_id)["arm"] == first.reward_action_id


def test_a_retried_rank_is_one_event(served: Port) -> None:
    ours, headers = client(served.port), {"x-ms-client-request-id": "once"}
    answers = [
        ours.rank(request("a", "b", "c"), custom_headers=headers) for _ in range(3)
    ]
    assert {one.event_id for one in answers} == {"once"}
    assert (
        len(
            {
                tuple((each.id, each.probability) for each in one.ranking)
                for one in answers
            }
        )
        == 1
    )


def test_excluded_actions_stay_at_their_places(served: Port) -> None:
    answer = client(served.port).rank(
        request("a", "b", "c", "d", excluded_actions=["a", "c"])
    )
    assert [(one.id, one.probability) for one in answer.ranking][0::2] == [
        ("a", 0.0),
        ("c", 0.0),
    ]
    assert answer.reward_action_id == answer.ranking[1].id in ("b", "d")
    assert sum(one.probability for one in answer.ranking) == pytest.approx(1)


def test_refusals_reach_the_program(served: Port) -> None:
    ours = client(served.port)
    for wrong, why in (
        (request(*map(str, range(60))), "actions must be a list of at most 50 entries"),
        (request("a", event_id=""), "eventId must have 1 to 256 characters"),
        (request("a", "a"), "ids of actions must be distinct"),
        (
            request("a", excluded_actions=["a"]),
            "excludedActions must leave at least one action",
        ),
    ):
        with pytest.raises(models.ErrorResponseException) as refused:
            ours.rank(wrong)
        assert str(refused.value).startswith(f"(InvalidRankRequest) {why}")
        assert refused.value.response.status_code == 400
    with pytest.raises(
        models.ErrorResponseException,
        match=r"\(ResourceNotFound\) there is no experiment 'shop'",
    ):
        client(served.port, "/shop").rank(request("a"))
    event = ours.rank(request("a", "b")).event_id
    with pytest.raises(exceptions.HttpOperationError) as refused:
        ours.events.reward(event, -2.0)
    assert refused.value.response.status_code == 400
    assert refused.value.response.json()["error"]["code"] == "InvalidRewardRequest"
    ours.events.reward(event, 0.5)
    ours.events.reward(event, -0.5)  # the first one counts
    assert record(served, event)["reward"] == 0.5
    ours.events.reward("never ranked", 1)


def test_another_rank_with_the_same_event_id(served: Port) -> None:
    ours = client(served.port)
    first = ours.rank(request("a", "b", event_id="same"))
    assert ours.rank(request("a", "b", event_id="same")).ranking == first.ranking
    with pytest.raises(
        models.ErrorResponseException,
        match=r"was ranked before with other actions|not among those",
    ):
        ours.rank(request("a", "c", "d", event_id="same"))


def test_keys(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    token, reads = (
        create(keys, "shop", ["decide", "reward"]),
        create(keys, "reads", ["read"]),
    )
    with on_a_port(file(tmp_path), keys) as served:
        assert client(served.port, key=token).rank(request("a")).reward_action_id == "a"
        with pytest.raises(
            models.ErrorResponseException,
            match=r"\(401\) Ocp-Apim-Subscription-Key must be a key",
        ):
            client(served.port, key="od_wrong").rank(request("a"))
        with pytest.raises(
            models.ErrorResponseException,
            match=r"\(InvalidApiAccess\) the key must have the scope",
        ):
            client(served.port, key=reads).rank(request("a"))


def test_a_deferred_event_survives_a_kill(tmp_path: Path) -> None:
    path = file(tmp_path)
    with process(path, more=["--personalizer"]) as served:
        events = [
            client(served.port).rank(request("a", "b", defer_activation=True)).event_id
            for _ in range(3)
        ]
        client(served.port).events.reward(events[1], 1.0)  # before it is activated
        os.kill(served.pid, signal.SIGKILL)
    with process(path, more=["--personalizer"]) as served:
        ours = client(served.port)
        ours.events.activate(events[0])
        ours.events.reward(events[0], 1.0)
        ours.events.activate(events[1])
        ours.events.reward(events[2], 1.0)  # never activated: never learnt
        wait(lambda: served.client.get("/v1/posterior").json()["learnt"] == 2)
        assert [record(served, id)["reward"] for id in events[:2]] == [1.0, 1.0]
        assert served.client.get("/v1/stats").json()["events"]["decision"] == 3
