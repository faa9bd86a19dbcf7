"""What becomes of Personalizer's events: repeats, sums, deferral, late rewards;
features; and what is busy."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oddsmith.contexts.flat import flat
from oddsmith.core.errors import InvalidInput, StoreFailed
from oddsmith.server.compat.personalizer.entrance import Personalizer
from oddsmith.server.compat.personalizer.rank import flat_features
from oddsmith.server.experiment.start import open_experiments
from oddsmith.server.http.app import make_app
from oddsmith.server.http.keys import create
from oddsmith.server.http.log_lines import AccessLine
from oddsmith.server.http.rates import Rate
from server.compat.personalizer_table import action, rank
from server.compat.test_personalizer import file
from server.served import Hands, Here, asked, here, wait

RANK = "/personalizer/v1.0/rank"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    with here(file(tmp_path_factory.mktemp("events")), doors=[Personalizer()]) as one:
        yield one


def ranked(served: Here, status: int = 201, **more: Any) -> Any:
    answer = served.ask(
        "POST",
        RANK,
        json=rank(action("a", x=1), action("b", x=2), action("c", x=3)) | more,
    )
    assert answer.status_code == status, answer.text
    return answer.json()


def reward(served: Here, id: str, value: float, **more: Any) -> int:
    path = f"/personalizer/v1.0/events/{id}/reward"
    return served.ask("POST", path, json={"value": value}, **more).status_code


def lines(served: Here, id: str) -> list[tuple[str, float | None]]:
    return [
        (line.kind, line.value)
        for line in served.experiment().store.history([id], 2**62)
    ]


def test_the_same_event_again_gets_the_first_answer(served: Here) -> None:
    first = ranked(served, eventId="again", excludedActions=["b"])
    for n in range(10):  # what is learnt meanwhile does not matter
        reward(served, ranked(served, eventId=f"other {n}")["eventId"], 1.0)
    served.state()
    assert ranked(served, eventId="again", excludedActions=["b"]) == first
    assert first["ranking"][1] == {"id": "b", "probability": 0.0}
    more = [action(name) for name in "abcd"]
    for changed in (
        {"actions": more},
        {"actions": more[:1]},
        {"excludedActions": [first["rewardActionId"]]},
    ):
        error = ranked(
            served, 400, **{"eventId": "again", "excludedActions": ["b"]} | changed
        )["error"]
        assert error["code"] == "InvalidRankRequest"
        assert "again" in error["message"]


def test_an_apprentices_event_again(tmp_path: Path) -> None:
    """All odds but one are 0: actions that are not there now are other actions all the
    same."""
    with here(
        file(tmp_path, service="shadow = true\n"), doors=[Personalizer()]
    ) as served:
        first = ranked(served, eventId="again")
        assert ranked(served, eventId="again") == first
        ranked(served, 400, eventId="again", actions=[action("a"), action("b")])


def test_actions_of_a_file_that_has_arms(tmp_path: Path) -> None:
    text = (
        file(tmp_path)
        .read_text()
        .replace("seed = 5", 'seed = 5\narms = ["a", "b", "c"]')
    )
    (tmp_path / "news.toml").write_text(text)
    with here(tmp_path / "news.toml", doors=[Personalizer()]) as served:
        few = [action("c"), action("a")]
        first = ranked(served, eventId="few", actions=few)
        assert {one["id"] for one in first["ranking"]} == {"a", "c"}
        assert sum(one["probability"] for one in first["ranking"]) == pytest.approx(1)
        assert ranked(served, eventId="few", actions=few) == first
        ranked(served, 400, eventId="few", actions=[action("b")])
        assert "'z'" in ranked(served, 400, actions=[action("z")])["error"]["message"]


def test_calls_are_in_the_access_log_and_counted(tmp_path: Path) -> None:
    noted: list[AccessLine] = []
    app = make_app(
        open_experiments([file(tmp_path)]),
        doors=[Personalizer()],
        access_log=noted.append,
    )
    with asked(app) as served:
        event = ranked(served)["eventId"]
        ranked(served, 400, actions=[])
        assert reward(served, event, 1.0) == 204
        told = [
            (one.method, one.route, one.status, one.experiment, one.decision)
            for one in noted[-3:]
        ]
        assert told == [
            ("POST", "/personalizer/rank", 201, "news", event),
            ("POST", "/personalizer/rank", 400, None, None),
            ("POST", "/personalizer/events/{event}/reward", 204, "news", None),
        ]
        counted = served.ask("GET", "/metrics").text
        assert (
            'oddsmith_answers_total{route="/personalizer/rank",status="201"} 1.0'
            in counted
        )


def test_the_event_seeds_the_draw(tmp_path: Path) -> None:
    with (
        here(file(tmp_path), doors=[Personalizer()]) as twin,
        here(file(tmp_path, "shop"), doors=[Personalizer()]) as other,
    ):
        ids = [f"seeded {n}" for n in range(20)]
        drawn = [
            [ranked(one, eventId=id)["rewardActionId"] for id in ids]
            for one in (twin, other)
        ]
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) > 1


def test_the_first_reward_counts(served: Here) -> None:
    id = ranked(served)["eventId"]
    assert [reward(served, id, value) for value in (0.5, 0.5, -1, 1)] == [204] * 4
    assert lines(served, id) == [("decision", None), ("reward", 0.75)]


def test_a_reward_may_come_first(served: Here) -> None:
    assert reward(served, "early", 1.0) == 204
    ranked(served, eventId="early")
    wait(lambda: served.get("/v1/decisions/early")["reward"] == 1.0)


def test_parts_of_a_sum(tmp_path: Path) -> None:
    hands = Hands()
    path = file(tmp_path, service='window_s = 60\nreward_rule = "sum"\n')
    with here(path, doors=[Personalizer()], clock=hands.clock()) as served:
        id = ranked(served)["eventId"]
        again = {"x-ms-client-request-id": "part 1"}
        # counts once
        parts = [reward(served, id, 0.25, headers=again) for _ in range(3)]
        parts += [reward(served, id, -0.5) for _ in range(2)]  # each for itself
        assert parts == [204] * 5
        # another value for the same part
        assert reward(served, id, 0.5, headers=again) == 400
        assert [kind for kind, _ in lines(served, id)].count("reward") == 3
        hands.pass_by(61)
        wait(lambda: ("default", 0.0) in lines(served, id))
        # 0.25 - 0.5 - 0.5
        wait(lambda: served.get(f"/v1/decisions/{id}")["reward"] == -0.75)
        assert (
            served.ask("GET", "/personalizer/v1.0/configurations/service").json()[
                "rewardAggregation"
            ]
            == "sum"
        )


def test_deferred_events_count_once_they_are_activated(served: Here) -> None:
    deferred, shown = (
        ranked(served, deferActivation=True)["eventId"],
        ranked(served)["eventId"],
    )
    learnt = served.state().learnt
    assert reward(served, deferred, 1.0) == reward(served, shown, 1.0) == 204
    assert served.state().learnt == learnt + 1
    for _ in range(2):
        assert (
            served.ask(
                "POST", f"/personalizer/v1.0/events/{deferred}/activate"
            ).status_code
            == 204
        )
    assert served.state().learnt == learnt + 2


def test_late_rewards_stand_over_defaults(tmp_path: Path) -> None:
    hands = Hands()
    with here(
        file(tmp_path, service="window_s = 60\n"),
        doors=[Personalizer()],
        clock=hands.clock(),
    ) as served:
        id = ranked(served)["eventId"]
        hands.pass_by(61)
        wait(lambda: ("default", 0.0) in lines(served, id))
        assert reward(served, id, 1.0) == 204
        wait(lambda: served.get(f"/v1/decisions/{id}")["reward"] == 1.0)


def test_features_as_they_are_kept(served: Here) -> None:
    context = [
        {"user": {"age": 31, "spent": [2.5, 0]}, "_hidden": 1},
        {"hour": 9, "gone": None, "is": True},
    ]
    actions = [
        action("a", x={"deep": {"er": 1}}, y=None, _z="w"),
        action("b", x=[1, 2]),
    ]
    id = ranked(served, contextFeatures=context, actions=actions)["eventId"]
    found = served.experiment().find(id)
    assert found is not None
    assert found[1].context == {
        "user.age": 31,
        "user.spent.0": 2.5,
        "user.spent.1": 0,
        "hour": 9,
        "gone": None,
        "is": True,
    }
    assert found[1].features == {
        "a": {"x.deep.er": 1, "y": None},
        "b": {"x.0": 1, "x.1": 2},
    }


names = st.sampled_from(["a", "b", "_c", "d\n_e", "a.b", "\n"])
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.text(max_size=2)
    | st.lists(st.integers(0, 2), max_size=2),
    lambda inner: st.dictionaries(names, inner, max_size=3),
    max_leaves=4,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dictionaries(names, values, max_size=4), max_size=3))
def test_features_are_flat_as_those_of_their_history(
    objects: list[dict[str, Any]],
) -> None:
    assert msgspec.json.encode(flat_features(objects, "x")) == msgspec.json.encode(
        flat(objects)
    )


@pytest.mark.parametrize(
    "wrong",
    [[{"": 1}], [{"a": {"": 1}}], [{"a": ["b"]}], [{"a": [{"b": 1}]}], [{"a": [True]}]],
)
def test_features_that_are_none(wrong: list[dict[str, Any]]) -> None:
    with pytest.raises(InvalidInput, match=r"^here"):
        flat_features(wrong, "here")


def test_what_is_busy_is_a_429(served: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise StoreFailed("the store is too slow")

    monkeypatch.setattr(served.experiment().writer, "append", fail)
    answer = served.ask("POST", RANK, json=rank())
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    assert answer.json()["error"] == {
        "code": "OperationNotAllowed",
        "message": "the store is too slow",
    }


def test_what_fails_is_a_500(served: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served.experiment(), "clock", None)
    answer = served.ask("POST", RANK, json=rank())
    assert (answer.status_code, answer.json()["error"]["code"]) == (
        500,
        "InternalServerError",
    )


def test_keys_scopes_and_rates(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    files = file(tmp_path), file(tmp_path, "shop")
    token, shop = (
        create(keys, "one", ["decide"], ["news"]),
        create(keys, "shop", ["decide", "reward"], ["shop"]),
    )
    with here(*files, keys=keys, doors=[Personalizer()], rate=Rate(1e-6, 3)) as served:

        def sent_to(path: str, **headers: str) -> tuple[int, str]:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            answer = served.ask("POST", path, json=rank(), headers=sent)
            return (
                answer.status_code,
                "" if answer.status_code == 201 else answer.json()["error"]["code"],
            )

        news = f"/news{RANK}"
        assert (
            sent_to(news)
            == sent_to(news, ocp_apim_subscription_key="od_x")
            == (401, "401")
        )
        assert sent_to(news, authorization=f"Basic {token}") == (401, "401")
        assert (
            sent_to(news, ocp_apim_subscription_key=token)
            == sent_to(news, authorization=f"Bearer {token}")
            == (201, "")
        )
        assert sent_to(news, ocp_apim_subscription_key=shop) == (
            403,
            "InvalidApiAccess",
        )
        assert sent_to(f"/nothing{RANK}", ocp_apim_subscription_key=shop) == (
            403,
            "InvalidApiAccess",
        )
        # which is for one experiment alone
        assert sent_to(RANK, ocp_apim_subscription_key=token) == (201, "")
        assert sent_to(news, ocp_apim_subscription_key=token) == (
            429,
            "TooManyRequests",
        )
        assert "x-ms-error-code" not in served.ask("POST", "/v1/decide").headers
