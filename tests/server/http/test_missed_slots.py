"""What misses a slot is refused, where the slate is known; and an id is that of a slate
or of a decision."""

from collections.abc import Iterator
from typing import Any

import pytest

from oddsmith.server.compat.personalizer.entrance import Personalizer
from server.compat.personalizer_slots import page
from server.compat.personalizer_table import V22, action
from server.compat.test_personalizer import address, file
from server.http.test_offers import news
from server.served import Here, here

PAGE: dict[str, Any] = {
    "context": {"hour": 9},
    "arms": ["a", "b", "c"],
    "slots": 3,
    "id": "page-7",
}
ALONE: dict[str, Any] = {"context": {"hour": 9}, "arms": ["a", "b"], "id": "visit-7"}
TOP: dict[str, Any] = PAGE | {
    "id": "named",
    "slots": [{"name": "top"}, {"name": "side"}],
}
NO_DECISION = (
    "id must be that of a decision; got 'page-7', which is a slate with slots 1, 2, 3: "
    "send slate, and slot "
)
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"id": "page-7"}, NO_DECISION + "for a reward"),
    (
        {"slate": "page-7", "slot": "top"},
        "slot must be one of slate 'page-7', which has slots 1, 2, 3; got 'top'",
    ),
    (
        {"slate": "page-7", "slot": 9},
        "slot must be one of slate 'page-7', which has slots 1, 2, 3; got '9'",
    ),
    (
        {"slate": "named", "slot": 1},
        "slot must be one of slate 'named', which has 2 slots with other names; got '1'",
    ),
    (
        {"slate": "visit-7", "slot": 1},
        "slate must be one; got 'visit-7', which is a decision: send it as id",
    ),
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    with here(news(tmp_path_factory.mktemp("missed"))) as one:
        for asked in (PAGE, ALONE, TOP):
            one.post("decide", asked)
        yield one


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    with here(file(tmp_path_factory.mktemp("door")), doors=[Personalizer()]) as one:
        assert ranked(one, "/multislot/rank", page(eventId="page")) == (201, "")
        assert ranked(one, "/rank", alone("visit")) == (201, "")
        yield one


def alone(event: str) -> dict[str, Any]:
    return {"actions": [action("a"), action("b")], "eventId": event}


def ranked(served: Here, path: str, body: Any = None) -> tuple[int, str]:
    """The status, and the sentence of a refusal; nothing is written then."""
    before = served.experiment().store.head()
    answer = served.ask(
        "POST", address(V22, path), **({} if body is None else {"json": body})
    )
    if answer.status_code < 400:
        return answer.status_code, ""
    assert served.experiment().store.head() == before
    return answer.status_code, answer.json()["error"]["message"]


@pytest.mark.parametrize(("given", "sentence"), WRONG)
def test_a_reward_that_misses_is_refused_and_not_kept(
    served: Here, given: dict[str, Any], sentence: str
) -> None:
    head = served.experiment().store.head()
    assert served.post("reward", given | {"reward": 1}, status=422)["error"] == sentence
    (result,) = served.post("reward/batch", {"rewards": [given | {"reward": 1}]})[
        "results"
    ]
    assert result == {"error": sentence, "code": "invalid"}
    assert served.experiment().store.head() == head


def test_others_of_a_batch_are_kept_and_unknown_slates_wait(served: Here) -> None:
    good: list[dict[str, Any]] = [
        {"slate": "page-7", "slot": 2},
        {"slate": "named", "slot": "side"},
        {"id": "visit-7"},
    ]
    unknown: list[dict[str, Any]] = [{"slate": "later", "slot": "x"}, {"id": "later"}]
    rewards = [
        {"reward": 1} | one for one in [*good, WRONG[0][0], WRONG[1][0], *unknown]
    ]
    results = served.post("reward/batch", {"rewards": rewards})["results"]
    assert [one.get("parked") for one in results] == [
        False,
        False,
        False,
        None,
        None,
        True,
        True,
    ]


def test_a_slate_is_not_activated_as_a_decision(served: Here) -> None:
    assert served.post("activate", {"id": "page-7"}, status=422)["error"].startswith(
        NO_DECISION
    )
    assert served.post("activate", {"slate": "page-7"})["new"]


def test_an_id_is_that_of_a_slate_or_of_a_decision(served: Here) -> None:
    head = served.experiment().store.head()
    sentence = "id 'page-7' is that of a slate; ask with another id"
    assert (
        served.post("decide", ALONE | {"id": "page-7"}, status=409)["error"] == sentence
    )
    entries = [ALONE | {"id": "page-7"}, ALONE]
    refused, again = served.post("decide/batch", {"decisions": entries})["results"]
    assert refused == {"error": sentence, "code": "conflict"}
    assert again["id"] == "visit-7"
    error = served.post("decide", PAGE | {"id": "visit-7"}, status=409)["error"]
    assert error == "id 'visit-7' is that of a decision; ask for slots with another id"
    assert served.experiment().store.head() == head
    assert not served.post("decide", PAGE)["new"]


def test_one_event_is_ranked_one_way(door: Here) -> None:
    refused = 400, "id 'page' is that of a slate; ask with another id"
    assert ranked(door, "/rank", alone("page")) == refused
    refused = 400, "id 'visit' is that of a decision; ask for slots with another id"
    assert ranked(door, "/multislot/rank", page(eventId="visit")) == refused


def test_rewards_by_the_wrong_route_are_refused_and_early_ones_wait(door: Here) -> None:
    status, sentence = ranked(door, "/events/page/reward", {"value": 1})
    assert (status, sentence[:44]) == (
        400,
        "id must be that of a decision; got 'page', w",
    )
    assert ranked(door, "/events/page/activate")[0] == 400
    # none of them is kept
    wrong = {
        "reward": [{"slotId": "top", "value": 1}, {"slotId": "bottom", "value": 1}]
    }
    sentence = (
        "slot must be one of slate 'page', which has 2 slots with other names; got "
        "'bottom'"
    )
    assert ranked(door, "/multislot/events/page/reward", wrong) == (400, sentence)
    sentence = "slate must be one; got 'visit', which is a decision: send it as id"
    assert ranked(door, "/multislot/events/visit/reward", wrong) == (400, sentence)
    assert ranked(door, "/events/early/reward", {"value": 1}) == (204, "")
    assert ranked(door, "/multislot/events/early/reward", wrong) == (204, "")
