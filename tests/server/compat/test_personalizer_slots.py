"""Several slots through Personalizer's API: an event is a slate, with rewards by
slot."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oddsmith.server.compat.personalizer.entrance import Personalizer
from oddsmith.server.store.slates import slot_id
from server.compat.personalizer_slots import page, slot
from server.compat.personalizer_table import V22, action
from server.compat.test_personalizer import address, file
from server.served import Here, here

V = "v1.1-preview.1"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    with here(file(tmp_path_factory.mktemp("slots")), doors=[Personalizer()]) as one:
        yield one


def ranked(served: Here, body: Any, status: int = 201, **more: Any) -> Any:
    answer = served.ask("POST", address(V, "/multislot/rank"), json=body, **more)
    assert answer.status_code == status, answer.text
    return answer.json()


def post(served: Here, path: str, body: Any = None) -> int:
    more = {} if body is None else {"json": body}
    return served.ask(
        "POST", address(V22, f"/multislot/events/{path}"), **more
    ).status_code


def rewards(served: Here, event: str, name: str) -> list[tuple[str, float | None]]:
    lines = served.experiment().store.history([slot_id(event, name)], 2**62)
    return [(line.kind, line.value) for line in lines[1:]]


def test_slots_are_a_slate_with_exact_odds(served: Here) -> None:
    actions = [action(name, place=n) for n, name in enumerate("abcde")]
    slots = [
        slot("top", "a", features=[{"size": {"w": 3}}]),
        slot(2, "b", excludedActions=["c"]),
        slot("é/ ", "e"),
    ]
    answer = ranked(served, page(*slots, actions=actions, eventId="page 1/é"))
    assert answer["eventId"] == "page 1/é"
    assert [one["id"] for one in answer["slots"]] == ["top", "2", "é/ "]
    shown = [one["rewardActionId"] for one in answer["slots"]]
    assert len(set(shown)) == 3
    assert shown[1] != "c"
    lines = served.experiment().store.of_slate("page 1/é")
    assert [(line.id, line.arm) for line in lines] == [
        (slot_id("page 1/é", one["id"]), one["rewardActionId"])
        for one in answer["slots"]
    ]
    decisions = served.experiment().store.decisions([line.position for line in lines])
    assert decisions[0].context == {"hour": 9, "size.w": 3, "slot": 1}
    for place, decision in enumerate(decisions):
        odds = dict(
            zip(decision.arms or (), decision.propensities.tolist(), strict=True)
        )
        assert all(odds[name] == 0 for name in shown[:place])
        assert sum(odds.values()) == pytest.approx(1)
    assert ranked(served, page(*slots, actions=actions, eventId="page 1/é")) == answer
    others = (
        page(*slots, actions=[*actions, action("z")], eventId="page 1/é"),
        page(*slots[:2], eventId="page 1/é"),
    )
    for other in others:
        assert ranked(served, other, 400)["error"]["code"] == "InvalidRankRequest"


def test_an_event_that_comes_again_with_other_exclusions_is_refused(
    served: Here,
) -> None:
    shown = ranked(served, page(slot("top", "a"), slot("side", "b"), eventId="barred"))[
        "slots"
    ][0]["rewardActionId"]
    other = next(name for name in "abc" if name != shown)
    barred = slot("top", other, excludedActions=[shown]), slot("side", shown)
    assert (
        "not eligible now"
        in ranked(served, page(*barred, eventId="barred"), 400)["error"]["message"]
    )


def test_a_retried_rank_is_one_event(served: Here) -> None:
    answers = [
        ranked(served, page(), headers={"x-ms-client-request-id": "page again"})
        for _ in range(2)
    ]
    assert answers[0] == answers[1]
    assert len(served.experiment().store.of_slate("page again")) == 2


def test_rewards_come_by_slot(served: Here) -> None:
    event = ranked(served, page())["eventId"]
    learnt = served.state().learnt
    assert (
        post(served, f"{event}/reward", {"reward": [{"slotId": "top", "value": 1}]})
        == 204
    )
    assert rewards(served, event, "top") == [("reward", 1.0)]
    assert rewards(served, event, "side") == []
    both = {
        "reward": [{"slotId": "side", "value": -0.5}, {"slotId": "top", "value": -1}]
    }
    assert post(served, f"{event}/reward", both) == 204
    assert rewards(served, event, "top") == [("reward", 1.0)]  # the first one counts
    assert rewards(served, event, "side") == [("reward", 0.25)]
    assert served.state().learnt == learnt + 2


def test_one_wrong_reward_keeps_all_out(served: Here) -> None:
    event = ranked(served, page())["eventId"]
    wrong = {"reward": [{"slotId": "top", "value": 1}, {"slotId": "side", "value": 7}]}
    assert post(served, f"{event}/reward", wrong) == 400
    assert rewards(served, event, "top") == []


def test_a_slot_that_an_event_does_not_have_is_refused(served: Here) -> None:
    """A reward for it would wait for ever."""
    event = ranked(served, page())["eventId"]
    both = {"reward": [{"slotId": "top", "value": 1}, {"slotId": "bottom", "value": 1}]}
    assert post(served, f"{event}/reward", both) == 400
    assert rewards(served, event, "top") == []
    assert post(served, "comes later/reward", both) == 204


@pytest.mark.parametrize("event", ["%00", "a" * 257])
def test_an_id_that_no_event_can_have_is_refused(served: Here, event: str) -> None:
    assert (
        post(served, f"{event}/reward", {"reward": [{"slotId": "top", "value": 1}]})
        == 400
    )
    assert post(served, f"{event}/activate") == 400


def test_all_slots_are_activated_at_once(served: Here) -> None:
    event = ranked(served, page(deferActivation=True))["eventId"]
    learnt = served.state().learnt
    both = {"reward": [{"slotId": "side", "value": 0}, {"slotId": "top", "value": 1}]}
    assert post(served, f"{event}/reward", both) == 204
    assert served.state().learnt == learnt
    assert post(served, f"{event}/activate") == post(served, f"{event}/activate") == 204
    assert served.state().learnt == learnt + 2


def test_an_apprentice_shows_the_baselines(tmp_path: Path) -> None:
    with here(
        file(tmp_path, service="shadow = true\n"), doors=[Personalizer()]
    ) as served:
        answer = ranked(served, page(slot("top", "c"), slot("side", "a")))
        assert [one["rewardActionId"] for one in answer["slots"]] == ["c", "a"]
        lines = served.experiment().store.of_slate(answer["eventId"])
        evidence = served.experiment().store.evidence([line.position for line in lines])
        assert all(one.shadow and one.own is not None for one in evidence)


def test_parts_of_sums_by_slot(tmp_path: Path) -> None:
    with here(
        file(tmp_path, service='window_s = 60\nreward_rule = "sum"\n'),
        doors=[Personalizer()],
    ) as served:
        event = ranked(served, page())["eventId"]
        part = {
            "reward": [
                {"slotId": "top", "value": 0.5},
                {"slotId": "side", "value": 0.25},
            ]
        }
        path, again = (
            address(V, f"/multislot/events/{event}/reward"),
            {"x-ms-client-request-id": "part 1"},
        )
        for headers in (again, again, {}):
            assert (
                served.ask("POST", path, json=part, headers=headers).status_code == 204
            )
        assert [value for _, value in rewards(served, event, "top")] == [0.75, 0.75]
