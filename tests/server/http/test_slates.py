"""Several slots over HTTP: decided by one state, written together, learnt apart,
restored and proved."""

import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from oddsmith.evaluation.draws.order_free_bets import standing_bets
from oddsmith.files.policy import read_policy
from oddsmith.server.audit import verify
from oddsmith.server.audit.log_export import log_batches_of
from oddsmith.server.http.rates import Rate
from oddsmith.server.store import SQLiteReader
from oddsmith.server.store.slates import slot_id
from server.http.test_offers import articles, check_proved, news
from server.served import Hands, Here, here, wait
from server.store.samples import bits

_modules = count()


def slotted(folder: Path, more: str = "") -> Path:
    """A policy file of experts that read the slot, and arms that it fixes."""
    module = f"slotted_{next(_modules)}"
    says = "(ord(arm) * 5 + {shift} + 3 * context['slot']) % 11 / 11"
    code = [
        f"def expert_{i}(context, arm):\n    return {says.format(shift=4 * i)}\n\n\n"
        for i in range(4)
    ]
    bank = "{'one': expert_0, 'two': expert_1, 'three': expert_2, 'four': expert_3}"
    tail = f"def bank(arms):\n    return od.FunctionExperts({bank}, arms)\n"
    (folder / f"{module}.py").write_text(
        "import oddsmith as od\n\n\n" + "".join(code) + tail
    )
    experts = f'[experts.own]\nkind = "python"\nfactory = "{module}:bank"\n'
    return news(
        folder,
        policy=f'{more}policy.gamma = 0.3\narms = ["a", "b", "c", "d"]\n{experts}',
    )


POLICIES: dict[str, Callable[[Path], Path]] = {
    "auto": news,
    "auto, fixed arms": partial(
        news, policy='arms = ["a", "b", "c", "d"]\n[policy]\nkind = "auto"\n'
    ),
    "gts": slotted,
    "gts with floors": partial(slotted, more="floors = 0.05\n"),
    "gts with a group": partial(
        slotted, more='cap_groups = [{arms = ["a", "b"], at_most = 0.4}]\n'
    ),
}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Here]:
    with here(news(tmp_path)) as one:
        yield one


def pages(served: Here, n: int, **more: Any) -> list[dict[str, Any]]:
    """Pages of three articles; readers like those about tech, and each only one."""
    rng, answers = random.Random(2), []
    for turn in range(n):
        asked = {
            "context": {"hour": turn % 24},
            "arms": articles(turn // 10, 5),
            "slots": 3,
            "id": f"p{turn}",
        }
        answers.append(served.post("decide", asked | more))
        for slot in answers[-1]["slots"]:
            served.reward(
                slot["id"],
                int(
                    rng.random()
                    < (0.8 if int(slot["arm"][2:]) % 2 else 0.1) / slot["slot"]
                ),
            )
    return answers


def told(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer to a repeat."""
    slots = [slot | {"new": False} for slot in answer["slots"]]
    return answer | {"slots": slots, "new": False}


def test_a_slate_is_decided_learnt_restored_and_proved(tmp_path: Path) -> None:
    file = news(tmp_path)
    with here(file) as served:
        answers = pages(served, 12)
        live = bits(served.state())
        for answer in answers:
            assert (answer["experiment"], answer["new"]) == ("news", True)
            assert [(slot["slot"], slot["name"]) for slot in answer["slots"]] == [
                (1, "1"),
                (2, "2"),
                (3, "3"),
            ]
            assert [slot["id"] for slot in answer["slots"]] == [
                slot_id(answer["slate"], name) for name in "123"
            ]
            assert len({slot["arm"] for slot in answer["slots"]}) == 3
            assert len({slot["seen"] for slot in answer["slots"]}) == 1
            positions = [slot["position"] for slot in answer["slots"]]
            assert positions == list(range(positions[0], positions[0] + 3))
            gone: list[str] = []
            for slot in answer["slots"]:
                assert slot["propensity"] == slot["odds"][slot["arm"]] > 0
                assert sum(slot["odds"].values()) == pytest.approx(1)
                assert all(slot["odds"][arm] == 0 for arm in gone)
                gone.append(slot["arm"])
        stats = served.get("/v1/stats")
        assert sum(one["decided"] for one in stats["arms"].values()) == 36
        assert (
            'oddsmith_decided_total{experiment="news",arm="others"} 36.0'
            in served.ask("GET", "/metrics").text
        )
        assert served.get("/v1/checks")["served_as_logged"]["n"] == 36
    with here(file) as served:
        assert bits(served.state()) == live
    with SQLiteReader(tmp_path / "news.sqlite") as reader:
        check_proved(reader, file, live=live, decisions=36)
        ((log, _),) = log_batches_of(reader)
        assert log is not None
        assert list(log.slate)[:4] == ["p0", "p0", "p0", "p1"]
        assert log.slot is not None
        assert log.slot.tolist()[:4] == [1, 2, 3, 1]
        assert [context["slot"] for context in log.context[:4]] == [1, 2, 3, 1]


@pytest.mark.parametrize("kind", POLICIES)
def test_odds_are_what_a_plain_call_with_those_left_would_have(
    tmp_path: Path, kind: str
) -> None:
    """For every kind of policy: of a decision among what is left, in the context of the
    slot."""
    names = ["a", "b", "c", "d"]
    brings: dict[str, Any] = {"arms": names} if kind == "auto" else {}
    with here(POLICIES[kind](tmp_path)) as served:
        for turn in range(12):
            for slot in served.post(
                "decide", {"context": {"hour": turn}, "slots": 3} | brings
            )["slots"]:
                served.reward(slot["id"], int(slot["arm"] in "ac"))
        served.state()
        slate = served.post(
            "decide", {"context": {"hour": 5}, "slots": 4, "id": "last"} | brings
        )
        gone: list[str] = []
        for slot in slate["slots"]:
            left = [name for name in names if name not in gone]
            asked = {
                "context": {"hour": 5, "slot": slot["slot"]},
                "eligible": left,
            } | brings
            assert served.post("decide", asked)["odds"] == pytest.approx(
                slot["odds"], abs=1e-12
            )
            record = served.get(f"/v1/decisions/{slot['id']}?explain=true")
            assert (record["slate"], record["slot"]) == ("last", slot["slot"])
            assert record["context"] == asked["context"]
            assert record["eligible"] == (None if not gone else left)
            assert record["experts"]
            gone.append(slot["arm"])
        listed = served.get("/v1/decisions?limit=8")["decisions"]
        assert [(one["slate"], one["slot"]) for one in listed[4:]] == [
            ("last", n) for n in (4, 3, 2, 1)
        ]
        assert {(one["slate"], one["slot"]) for one in listed[:4]} == {(None, None)}
    with SQLiteReader(tmp_path / "news.sqlite") as reader:
        assert verify(reader, policy=read_policy(tmp_path / "news.toml").policy).holds


def test_arms_follow_the_logged_odds(tmp_path: Path) -> None:
    """Bets against slots that were drawn otherwise than logged: of 180 honest draws
    they win little."""
    with here(slotted(tmp_path)) as served:
        for turn in range(60):
            served.post("decide", {"context": {}, "slots": 3, "id": f"p{turn}"})
        served.state()
        check = served.get("/v1/checks")["served_as_logged"]
        # broken with probability 1e-4, if all is well
        assert (check["n"], check["word"] == "broken") == (180, False)
    with SQLiteReader(tmp_path / "news.sqlite") as reader:
        ((log, _),) = log_batches_of(reader)
        assert log is not None
        assert standing_bets(log).p_value == pytest.approx(check["p_value"])


def test_slots_have_names_features_and_arms_of_their_own(served: Here) -> None:
    slots = [
        {"name": "top", "features": {"size": 2}, "eligible": ["a", "b"]},
        {"name": "side", "eligible": ["b", "c"]},
    ]
    asked = {
        "context": {"hour": 9},
        "arms": ["a", "b", "c", "d"],
        "slots": slots,
        "eligible": ["a", "b", "c"],
    }
    answer = served.post("decide", asked)
    top, side = answer["slots"]
    assert (top["name"], side["name"]) == ("top", "side")
    assert [top["odds"][arm] for arm in "cd"] == [0, 0]
    assert [side["odds"][arm] for arm in ("a", "d", top["arm"])] == [0, 0, 0]
    assert served.get(f"/v1/decisions/{top['id']}")["context"] == {
        "hour": 9,
        "slot": 1,
        "size": 2,
    }
    assert (
        served.post("decide", asked | {"id": answer["slate"]})["slots"][0]["position"]
        == top["position"]
    )
    without = served.post("decide", asked | {"odds": False})
    assert "odds" not in without["slots"][0]
    rows = {
        "context": [0.5, None],
        "arms": {"a": [1.0], "b": [2.0]},
        "slots": [{"name": "x", "features": [3, None]}],
    }
    id = served.post("decide", rows)["slots"][0]["id"]
    assert served.get(f"/v1/decisions/{id}")["context"] == [0.5, None, 1, 3, None]


def test_a_deferred_slate_counts_once_it_is_activated(tmp_path: Path) -> None:
    hands = Hands()
    with here(news(tmp_path, "window_s = 60\n"), clock=hands.clock()) as served:
        asked = {"context": {}, "arms": ["a", "b", "c"], "slots": 2, "deferred": True}
        one = served.post("decide", asked | {"id": "one"})
        served.post("decide", asked | {"id": "two"})
        shown = served.post("activate", {"slate": "one"})
        assert shown == {"id": "one", "position": 6, "new": True, "parked": False}
        assert served.post("activate", {"slate": "one"}) == shown | {"new": False}
        served.reward(one["slots"][0]["id"], 1)
        hands.pass_by(100)
        wait(lambda: served.get("/v1/stats")["events"].get("default") == 1)
        served.state()
        learnt = [
            served.get(f"/v1/decisions/{slot_id(slate, n)}")
            for slate in ("one", "two")
            for n in "12"
        ]
        assert [record["reward"] for record in learnt] == [1, 0, None, None]
        assert all(record["deferred"] for record in learnt)
        # one slot of a slate, by itself
        served.post("activate", {"id": slot_id("two", "2")})
        assert served.post("activate", {"slate": "three"}, status=404)[
            "error"
        ].startswith("there is no slate 'three'")
        assert (
            served.post("activate", {}, status=422)["error"]
            == "id or slate must be given; got none"
        )
        both = served.post("activate", {"slate": "one", "id": "x"}, status=422)
        assert both["error"] == "id or slate must be given; got both"


def test_an_incumbent_fills_slots_in_shadow_mode(tmp_path: Path) -> None:
    with here(news(tmp_path, "shadow = true\n")) as served:
        slots = [
            {"name": "top", "incumbent": "b"},
            {"name": "side", "incumbent": "a", "incumbent_odds": {"a": 1.0}},
        ]
        asked = {"context": {}, "arms": ["a", "b", "c"], "slots": slots, "id": "s"}
        top, side = served.post("decide", asked)["slots"]
        assert [(slot["arm"], slot["propensity"]) for slot in (top, side)] == [
            ("b", 1.0),
            ("a", 1.0),
        ]
        assert side["would"] in ("a", "c")
        served.reward(side["id"], 1)
        record = served.get(f"/v1/decisions/{side['id']}")
        assert (record["shadow"], record["eligible"]) == (True, ["a", "c"])
        twice = [{"name": "top", "incumbent": "b"}, {"name": "side", "incumbent": "b"}]
        error = served.post("decide", asked | {"slots": twice, "id": "t"}, status=422)[
            "error"
        ]
        assert error == "slot 'side': incumbent must be an eligible arm; got 'b'"
        error = served.post("decide", asked | {"slots": 2, "id": "t"}, status=422)[
            "error"
        ]
        assert error.startswith("slot '1': incumbent must be given")
        served.state()
    with SQLiteReader(tmp_path / "news.sqlite") as reader:
        assert verify(reader, policy=read_policy(tmp_path / "news.toml").policy).holds


def test_contexts_of_slots_are_erased(tmp_path: Path) -> None:
    hands = Hands()
    with here(news(tmp_path, "erase_after_days = 1\n"), clock=hands.clock()) as served:
        answers = pages(served, 3)
        served.state()
        served.portal.call(served.experiment().follower.save)
        assert served.inner().erase(hands.wall + 1) == 9
        record = served.get(f"/v1/decisions/{answers[0]['slots'][1]['id']}")
        assert (record["context"], record["slot"]) == ("erased", 2)
        assert served.post(
            "decide", {"context": {}, "arms": articles(0, 5), "slots": 3, "id": "p0"}
        ) == told(answers[0])
        late = served.post(
            "decide",
            {
                "context": {},
                "arms": ["a", "b"],
                "slots": 2,
                "deferred": True,
                "id": "late",
            },
        )
        served.inner().erase(hands.wall + 1)
        error = served.post("activate", {"slate": late["slate"]}, status=422)["error"]
        assert error == (
            "slate must be one that experts can learn from; contexts of 2 slots are "
            "erased"
        )


def test_a_slot_is_rewarded_by_slate_and_name(served: Here) -> None:
    asked = {
        "context": {},
        "arms": ["a", "b", "c"],
        "slots": [{"name": "top"}, {"name": "2"}],
        "id": "s",
    }
    top, second = served.post("decide", asked)["slots"]
    assert (
        served.post("reward", {"slate": "s", "slot": "top", "reward": 1})["id"]
        == top["id"]
    )
    batch = [{"slate": "s", "slot": 2, "reward": 0}, {"id": top["id"], "reward": 1}]
    results = served.post("reward/batch", {"rewards": batch})["results"]
    assert [(one["id"], one["new"]) for one in results] == [
        (second["id"], True),
        (top["id"], False),
    ]
    early = served.post("reward", {"slate": "later", "slot": "top", "reward": 1})
    assert early["parked"]
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "none"),
        ({"slate": "s"}, "slate"),
        ({"slot": "top"}, "slot"),
        ({"id": "x", "slate": "s", "slot": "top"}, "id and slate and slot"),
    ]
    for given, got in wrong:
        error = served.post("reward", {"reward": 1} | given, status=422)["error"]
        assert error.startswith(
            f"id must be given, or slate and slot in its place; got {got}. Fields: "
            "experiment, "
        )
        error = served.post(
            "reward/batch", {"rewards": [{"reward": 1} | given]}, status=422
        )["error"]
        assert error.startswith(
            f"rewards[0]: id must be given, or slate and slot in its place; got {got}. "
            "Fields: id, "
        )


def test_ids_and_names_of_any_characters(served: Here) -> None:
    for slate in ("ev 1/é", "x" * 256, "7", "a\nb", "🙂%2F"):
        slots = [{"name": slate}, {"name": "y" * 256}]
        answer = served.post(
            "decide",
            {"context": {}, "arms": ["a", "b", "c"], "slots": slots, "id": slate},
        )
        assert (answer["slate"], [slot["name"] for slot in answer["slots"]]) == (
            slate,
            [slate, "y" * 256],
        )
        served.reward(slot_id(slate, "y" * 256), 1)
        assert served.get(f"/v1/decisions/{slot_id(slate, slate)}")["slate"] == slate
        served.post("activate", {"slate": slate})


def test_a_slate_counts_as_many_calls_as_it_has_slots(tmp_path: Path) -> None:
    with here(news(tmp_path), rate=Rate(0.001, 7)) as served:
        ask = partial(
            served.post, "decide", {"context": {}, "arms": ["a", "b", "c"], "slots": 3}
        )
        assert len(ask()["slots"]) == len(ask()["slots"]) == 3
        assert len(ask()["slots"]) == 3  # one may go beyond the burst
        ask(status=429)
