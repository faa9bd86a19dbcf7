"""Arms that come with the call, over HTTP: decided, learnt, kept, restored and
proved."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oddsmith.files.policy import read_policy
from oddsmith.server.audit import verify
from oddsmith.server.audit.log_export import log_batches_of
from oddsmith.server.fold.fold import restore
from oddsmith.server.store import SQLiteReader
from server.served import here
from server.store.samples import WithoutSnapshots, bits


def news(
    folder: Path, service: str = "", policy: str = '[policy]\nkind = "auto"\n'
) -> Path:
    """A policy file without arms."""
    file = folder / "news.toml"
    file.write_text(
        f'name = "news"\nseed = 7\n{policy}[service]\nstore = "news.sqlite"\n{service}'
    )
    return file


def articles(first: int, n: int = 4, age: float = 1.0) -> dict[str, Any]:
    return {
        f"a/{i}": {"topic": ("sports", "tech")[i % 2], "age": age}
        for i in range(first, first + n)
    }


def check_proved(
    reader: SQLiteReader, file: Path, *, live: list[bytes], decisions: int
) -> None:
    """The fold of all events gives the live state, and every decision's draw, odds and
    experts are derived again."""
    policy = read_policy(file).policy
    assert bits(restore(WithoutSnapshots(reader), policy).state) == live
    verdict = verify(reader, policy=policy)
    assert verdict.holds
    checked = {
        level.name: (level.checked, sum(level.untested.values()))
        for level in verdict.levels
    }
    assert checked["draw"] == checked["odds"] == checked["experts"] == (decisions, 0)


def visits(served: Any, n: int, *, seed: int = 1, **more: Any) -> list[dict[str, Any]]:
    """Visitors of a site whose articles come and go; those about tech are liked."""
    rng, answers = random.Random(seed), []
    for turn in range(n):
        asked = {
            "context": {"hour": turn % 24},
            "arms": articles(turn // 10, age=float(turn)),
            "id": f"v{seed}-{turn}",
        }
        answers.append(served.post("decide", asked | more))
        liked = rng.random() < (0.9 if int(answers[-1]["arm"][2:]) % 2 else 0.1)
        served.reward(answers[-1]["id"], int(liked))
    return answers


def test_articles_come_and_go_and_the_store_proves_it(tmp_path: Path) -> None:
    file = news(tmp_path)
    with here(file) as served:
        answers = visits(served, 60)
        served.state()
        # 10 by chance
        assert sum(int(answer["arm"][2:]) % 2 for answer in answers[-20:]) > 14
        record = served.get(f"/v1/decisions/{answers[-1]['id']}?explain=true")
        assert list(record["odds"]) == list(articles(5))
        assert record["arm"] == answers[-1]["arm"]
        assert set(record["experts"][0]["votes"]) <= set(articles(5))
        live = bits(served.state())
    with here(file) as served:
        assert bits(served.state()) == live
        assert (
            served.post(
                "decide", {"context": {}, "arms": ["q"], "id": "v1-59"}, status=409
            )["code"]
            == "conflict"
        )
        again = served.post(
            "decide", {"context": {}, "arms": {answers[-1]["arm"]: None}, "id": "v1-59"}
        )
        assert again == answers[-1] | {"new": False}
    with SQLiteReader(tmp_path / "news.sqlite") as reader:
        check_proved(reader, file, live=live, decisions=60)
        ((log, counted),) = log_batches_of(reader)
        assert log is not None
        assert log.propensities is not None
        assert counted.rows == 60
        assert log.offered[-1] == tuple(articles(5))
        assert log.features[-1] == articles(5, age=59.0)
        np.testing.assert_array_equal(
            log.propensities[-1], list(answers[-1]["odds"].values())
        )


def test_caps_of_groups_hold_for_offers_and_the_store_proves_it(tmp_path: Path) -> None:
    groups = '[[cap_groups]]\nfeature = "topic"\nvalue = "tech"\nat_most = 0.3\n'
    policy = f'floors = 0.01\n[policy]\nkind = "auto"\n{groups}'
    file = news(tmp_path, policy=policy)
    with here(file) as served:
        answers = visits(served, 40)
        shadowed = visits(served, 5, seed=2, incumbent="a/0", arms=articles(0))
        for answer in answers:
            tech = [p for arm, p in answer["odds"].items() if int(arm[2:]) % 2]
            assert sum(tech) <= 0.3 + 1e-12
            assert min(answer["odds"].values()) >= 0.01
        assert {answer["arm"] for answer in shadowed} == {"a/0"}
        tech_only = {"a/1": {"topic": "tech"}, "a/3": {"topic": "tech"}}
        served.post("decide", {"context": {}, "arms": tech_only})
        live = bits(served.state())
    with SQLiteReader(tmp_path / "news.sqlite") as reader:
        policy_again = read_policy(file).policy
        assert bits(restore(WithoutSnapshots(reader), policy_again).state) == live
        verdict = verify(reader, policy=policy_again)
        assert verdict.holds
        followed = {level.name: level.followed for level in verdict.levels}
        assert followed["odds"] >= 41
        assert followed["experts"] >= 41


WRONG = [
    (
        {"context": {"hour": 1}},
        "arms must come with calls of experiment 'news'; got none: send",
    ),
    ({"context": {"hour": 1}, "arms": []}, "arms must"),
    (
        {"context": {"hour": 1}, "arms": ["a", "a"]},
        "names of arms must be distinct; got 'a' twice",
    ),
    ({"context": {"hour": 1}, "arms": {"a": {"x": 1}, "b": 7}}, ""),
    ({"context": {"hour": 1}, "arms": ["a", "b"], "eligible": ["c"]}, "eligible must"),
    ({"context": {"hour": 1}, "arms": [f"a{i}" for i in range(1001)]}, "arms must"),
    (
        {"context": [{"hour": 1}], "arms": ["a", "b"]},
        "context and features must be one dict or row of numbers each",
    ),
    (
        {"context": {"hour": 1}, "arms": ["a", "b"], "incumbent": "c"},
        "incumbent must be among the arms",
    ),
]


@pytest.mark.parametrize(("asked", "sentence"), WRONG)
def test_wrong_offers_are_refused(
    tmp_path: Path, asked: dict[str, Any], sentence: str
) -> None:
    with here(news(tmp_path)) as served:
        assert served.post("decide", asked, status=422)["error"].startswith(sentence)


def test_many_arms_with_features_fit_into_a_body(tmp_path: Path) -> None:
    with here(news(tmp_path)) as served:
        many = {
            f"article {i}": {"topic": "sports", "text": "x" * 100} for i in range(1000)
        }
        answer = served.post("decide", {"context": {}, "arms": many, "id": "many"})
        assert "odds" not in answer  # of so many only on request
        assert (
            len(
                served.post(
                    "decide", {"context": {}, "arms": many, "id": "many", "odds": True}
                )["odds"]
            )
            == 1000
        )


def test_counts_of_arms_without_end_are_bounded_and_never_fall(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("oddsmith.server.statistics.arms._NAMED", 4)
    with here(news(tmp_path)) as served:
        for turn in range(12):
            served.post("decide", {"context": {}, "arms": [f"only {turn}"]})
            text = served.ask("GET", "/metrics").text
            assert (
                f'oddsmith_decided_total{{experiment="news",arm="others"}} {turn + 1}.0'
                in text
            )
        stats = served.get("/v1/stats")
    assert stats["n_arms"] == len(stats["arms"]) <= 4
    assert (
        stats["others"]["decided"]
        + sum(arm["decided"] for arm in stats["arms"].values())
        == 12
    )


def test_counts_by_arm_are_what_the_log_says_also_after_a_restart(
    tmp_path: Path,
) -> None:
    file = news(tmp_path)
    with here(file) as served:
        answers = visits(served, 30)
        served.post("correct", {"id": answers[3]["id"], "reward": 0.125, "key": "k"})
        served.state()
        stats = served.get("/v1/stats")
        for arm, count in stats["arms"].items():
            drawn = [
                served.get(f"/v1/decisions/{one['id']}")
                for one in answers
                if one["arm"] == arm
            ]
            assert (count["decided"], count["rewarded"]) == (len(drawn), len(drawn))
            assert count["mean_reward"] == pytest.approx(
                np.mean([record["reward"] for record in drawn])
            )
        assert sum(count["decided"] for count in stats["arms"].values()) == 30
        assert list(stats["arms"].values()) == sorted(
            stats["arms"].values(), key=lambda one: -one["decided"]
        )
        pages = [
            served.get(f"/v1/stats?skip={skip}&limit=3")["arms"]
            for skip in range(0, stats["n_arms"], 3)
        ]
        assert [arm for page in pages for arm in page] == list(stats["arms"])
        assert served.get("/v1/stats?limit=0", status=422)["error"].startswith(
            "limit must be"
        )
    with here(file) as served:
        again = served.get("/v1/stats")
        assert (again["arms"], again["others"], again["n_arms"]) == (
            stats["arms"],
            stats["others"],
            stats["n_arms"],
        )


def test_a_batch_has_arms_for_all_or_for_each(tmp_path: Path) -> None:
    with here(news(tmp_path)) as served:
        batch = [
            {"context": {"hour": 1}},
            {"context": {"hour": 2}, "arms": ["z", 7]},
            {"context": {}, "arms": []},
        ]
        results = served.post(
            "decide/batch", {"decisions": batch, "arms": articles(0)}
        )["results"]
        assert [list(one["odds"]) for one in results[:2]] == [
            list(articles(0)),
            ["z", "7"],
        ]
        assert results[2]["code"] == "invalid"


def test_modes_on_offers(tmp_path: Path) -> None:
    """Sticky units, shadows, deferred decisions, eligible arms, floors by name."""
    with here(news(tmp_path, "sticky = true\n")) as served:
        first = served.post(
            "decide", {"context": {}, "arms": ["x", "y"], "unit": "ann"}
        )
        again = served.post(
            "decide", {"context": {}, "arms": [first["arm"], "z"], "unit": "ann"}
        )
        assert again == first | {"new": False}
        other = served.post("decide", {"context": {}, "arms": ["z"], "unit": "ann"})
        assert (other["arm"], other["new"]) == ("z", True)
    (tmp_path / "shadow").mkdir()
    with here(news(tmp_path / "shadow", "shadow = true\n")) as served:
        asked = {
            "context": {},
            "arms": ["x", "y"],
            "incumbent": "y",
            "incumbent_odds": {"x": 0.25, "y": 0.75},
        }
        seen = served.post("decide", asked | {"id": "s"})
        assert (seen["arm"], seen["propensity"]) == ("y", 0.75)
        assert seen["would"] in ("x", "y")
        served.reward("s", 1)
    with SQLiteReader(tmp_path / "shadow" / "news.sqlite") as reader:
        assert verify(reader).holds
    (tmp_path / "bound").mkdir()
    bound = 'floors = {x = 0.3}\n[policy]\nkind = "auto"\n'
    with here(news(tmp_path / "bound", policy=bound)) as served:
        odds = served.post(
            "decide", {"context": {}, "arms": ["x", "y", "z"], "id": "b"}
        )["odds"]
        assert odds["x"] >= 0.3
        few = served.post(
            "decide",
            {"context": {}, "arms": ["x", "y", "z"], "eligible": ["z"], "id": "c"},
        )
        assert few["odds"] == {"x": 0.0, "y": 0.0, "z": 1.0}
    with SQLiteReader(tmp_path / "bound" / "news.sqlite") as reader:
        assert verify(
            reader, policy=read_policy(tmp_path / "bound" / "news.toml").policy
        ).holds


def test_a_unit_of_many_turns_costs_no_more_than_one_of_few(tmp_path: Path) -> None:
    """Of a unit's decisions only the one that is answered is read."""
    with here(news(tmp_path, "sticky = true\n")) as served:
        store: Any = served.experiment().store
        read, asked = store.decisions, list[int]()
        answers = [
            served.post("decide", {"context": {}, "arms": [f"only {i}"], "unit": "ann"})
            for i in range(6)
        ]

        def noted(positions: list[int]) -> Any:
            asked.extend(positions)
            return read(positions)

        store.decisions = noted
        again = served.post(
            "decide", {"context": {}, "arms": ["only 4", "only 2"], "unit": "ann"}
        )
        assert again == answers[2] | {"new": False}
        assert again["position"] in asked
        assert {answers[i]["position"] for i in (0, 1, 3, 5)}.isdisjoint(asked)


def test_eligible_arms_that_are_not_offered_are_refused_where_arms_are_fixed(
    tmp_path: Path,
) -> None:
    """And leave no decision without odds in the log."""
    with here(
        news(tmp_path, policy='arms = ["a", "b", "c"]\n[policy]\nkind = "auto"\n')
    ) as served:
        asked = {"context": {"hour": 1}, "arms": ["a", "b"], "eligible": ["c"]}
        assert served.post("decide", asked, status=422)["error"].startswith(
            "at least one arm must be eligible"
        )
        (result,) = served.post("decide/batch", {"decisions": [asked]})["results"]
        assert result["code"] == "invalid"
        assert served.get("/v1/stats")["head"] == 0
        odds = served.post("decide", asked | {"eligible": ["b", "c"]})["odds"]
        assert odds == {"a": 0.0, "b": 1.0, "c": 0.0}


def test_what_is_known_of_fixed_arms_lies_beside_the_decision(tmp_path: Path) -> None:
    file = news(tmp_path)
    file.write_text(f'arms = ["a", "b", "c"]\n{file.read_text()}')
    known = {"c": {"topic": "tech", "age": 2.5}, "a": None}
    with here(file) as served:
        answer = served.post(
            "decide", {"context": {"hour": 9}, "arms": known, "id": "v"}
        )
        assert answer["odds"]["b"] == 0
        served.reward("v", 1)
        live = bits(served.state())
    with here(file) as served:
        assert bits(served.state()) == live
    with SQLiteReader(tmp_path / "news.sqlite") as reader:
        (decision,) = reader.decisions([1])
        assert (decision.arms, decision.features) == (None, known)
        assert verify(reader, policy=read_policy(file).policy).holds
        ((log, _),) = log_batches_of(reader)
        assert log is not None
        assert log.propensities is not None
        assert log.propensities.tolist() == [list(answer["odds"].values())]
