"""What pages show, against what `oddsmith export` writes of the same log; before and
after restarts, on replicas."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oddsmith.evaluation import estimate, ips
from oddsmith.evaluation.assessment import assess
from oddsmith.evaluation.targets import arm_target, uniform_target
from oddsmith.logs import Log, read_log
from oddsmith.server.audit import export
from oddsmith.server.store import SQLiteReader
from server.served import BENCH, Hands, Here, here, place, wait

WINDOW = "window_s = 60\ndefault_reward = 0.0\n"


def live(served: Here, hands: Hands, n: int, seed: int = 0, **more: Any) -> None:
    """Decisions every few seconds, rewards, some late, some corrected, some decisions
    deferred and never shown."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        hands.pass_by(float(rng.exponential(20.0)))
        deferred = rng.random() < 0.2
        name = f"{seed}-{i}"
        served.decide(name, deferred=deferred, **more)
        if deferred and rng.random() < 0.7:
            served.post("activate", {"id": name})
        if rng.random() < 0.4:
            served.reward(name, float(rng.random() < 0.3))
        if i > 20 and rng.random() < 0.1:
            served.ask(
                "POST", "/v1/reward", json={"id": f"{seed}-{i - 20}", "reward": 1.0}
            )
        if i > 5 and rng.random() < 0.1:
            served.ask(
                "POST",
                "/v1/correct",
                json={"id": f"{seed}-{i - 5}", "reward": 0.5, "key": f"k{i}"},
            )
    served.state()


def exported(folder: Path) -> Log:
    path = folder / "log.parquet"
    with SQLiteReader(folder / "news.sqlite") as reader:
        export(reader, path)
    return read_log(path)


def check_series(answer: Any, log: Log) -> None:
    """Columns of a series against sums over the exported log."""
    times = log.time.astype("datetime64[us]").astype(np.int64) / 1e6
    width, known = answer["width_s"], ~np.isnan(log.reward)
    buckets = np.floor(times / width).astype(int)
    first = round(answer["t"][0] / width)
    assert answer["t"] == [(first + i) * width for i in range(len(answer["t"]))]
    assert buckets.max() == first + len(answer["t"]) - 1
    inside = buckets >= first
    wanted: Any = defaultdict(lambda: np.zeros(len(answer["t"])))
    names: Any = log.arms
    table: Any = log.propensities
    for row in np.flatnonzero(inside):
        at = buckets[row] - first
        offered = names if log.offered is None else log.offered[row]
        drawn, odds = offered[log.arm[row]], table[row]
        wanted["decisions"][at] += 1
        wanted[drawn, "drawn"][at] += 1
        for arm, p in zip(offered, odds, strict=False):
            wanted[arm, "odds_sum"][at] += p
        if known[row]:
            reward, p = log.reward[row], odds[log.arm[row]]
            wanted["rewards"][at] += 1
            wanted["reward_sum"][at] += reward
            wanted[drawn, "rewarded"][at] += 1
            wanted[drawn, "reward_sum"][at] += reward
            wanted[drawn, "weighted_sum"][at] += reward / p
            wanted[drawn, "weighted_squares"][at] += (reward / p) ** 2
    for column in ("decisions", "rewards", "reward_sum"):
        assert answer[column] == pytest.approx(wanted[column].tolist(), abs=1e-9)
    others, none = answer["others"] or {}, np.zeros(len(answer["t"]))
    for column in (
        "drawn",
        "odds_sum",
        "rewarded",
        "reward_sum",
        "weighted_sum",
        "weighted_squares",
    ):
        if log.offered is None:
            for arm in log.arms or ():
                assert answer["arms"][arm][column] == pytest.approx(
                    wanted[arm, column].tolist(), abs=1e-9
                )
        every = np.sum(
            [
                *(one[column] for one in answer["arms"].values()),
                others.get(column, none),
            ],
            axis=0,
        )
        both = sum(values for key, values in wanted.items() if key[1] == column)
        assert every.tolist() == pytest.approx(both.tolist(), abs=1e-9)


@pytest.mark.usefixtures("any_arms")
def test_series_are_what_the_exported_log_says_and_outlive_a_restart(
    tmp_path: Path,
) -> None:
    hands, file = Hands(), place(tmp_path)
    with here(file, clock=hands.clock()) as served:
        live(served, hands, 90)
        for what in ("hour", "day", "week", "all"):
            check_series(served.get(f"/v1/series?range={what}"), exported(tmp_path))
        before = [served.get(f"/v1/series?range={what}") for what in ("hour", "all")]
        history = served.get("/v1/posterior/history")
    with here(file, clock=hands.clock()) as served:
        assert [
            served.get(f"/v1/series?range={what}") for what in ("hour", "all")
        ] == before
        assert served.get("/v1/posterior/history") == history
        live(served, hands, 30, seed=1)
        check_series(served.get("/v1/series"), exported(tmp_path))
        assert served.get("/v1/series")["position"] > before[0]["position"]


def check_values(answer: Any, log: Log) -> None:
    """Values against `evaluate` on the exported log."""
    assert (answer["level"], answer["interval"]) == (0.95, "anytime")
    found = {one["name"]: one for one in answer["values"]}
    targets = {"uniform": uniform_target(log)}
    if log.offered is None:
        targets |= {arm: arm_target(log, arm) for arm in log.arms or ()}
    assessed = assess(log, targets, interval="anytime")
    wanted = {"served": assessed.logged} | {
        name: by["ips"] for name, by in assessed.answers.items()
    }
    for name, one in wanted.items():
        assert not isinstance(one, str)
        assert (found[name]["n"], found[name]["refused"]) == (
            one.diagnostics.n,
            one.why or None,
        )
        if not one.refused:
            numbers = [found[name][key] for key in ("value", "low", "high", "ess")]
            assert numbers == pytest.approx(
                [one.value, one.low, one.high, one.diagnostics.ess], abs=1e-9
            )
            assert found[name]["kind"] == ("arm" if name in (log.arms or ()) else name)


@pytest.mark.usefixtures("any_arms")
def test_values_are_those_of_evaluate_on_the_exported_log(tmp_path: Path) -> None:
    hands, file = Hands(), place(tmp_path)
    with here(file, clock=hands.clock()) as served:
        empty = served.get("/v1/values")
        assert "needs at least 2 rows with rewards; got 0" in empty["sentence"]
        assert empty["values"][0] == {
            "name": "served",
            "kind": "served",
            "n": 0,
            "ess": 0.0,
            "value": None,
            "low": None,
            "high": None,
            "refused": "an interval needs at least 2 rows with rewards; got 0",
            "is_cut": False,
        }
        live(served, hands, 60)
        before = served.get("/v1/values")
        check_values(before, exported(tmp_path))
    with here(file, clock=hands.clock()) as served:
        assert served.get("/v1/values") == before
        live(served, hands, 20, seed=1)
        check_values(served.get("/v1/values"), exported(tmp_path))


def test_in_shadow_mode_the_policy_has_a_value_beside_what_was_served(
    tmp_path: Path,
) -> None:
    hands = Hands()
    with here(
        place(tmp_path, service="shadow = true\n"), clock=hands.clock()
    ) as served:
        arms = list(served.experiment().arms or ())
        odds = dict(zip(arms, (0.6, 0.2, 0.2), strict=True))
        for i in range(150):
            arm = arms[0] if i % 5 < 3 else arms[1 + i % 2]
            served.decide(f"d{i}", incumbent=arm, incumbent_odds=odds)
            served.reward(f"d{i}", float(arm == arms[1]))
        served.state()
        answer = served.get("/v1/values")
        by_kind = {one["kind"]: one for one in answer["values"]}
        log: Any = exported(tmp_path)
        with SQLiteReader(tmp_path / "news.sqlite") as reader:
            lines = {
                line.id: line.position
                for line in reader.lines(0, reader.head())
                if line.kind == "decision"
            }
            evidence: Any = reader.evidence([lines[id] for id in log.decision_id])
        found = estimate(
            ips(log, np.array([one.own.odds for one in evidence])), interval="anytime"
        )
        told = by_kind["policy"]
        assert [told[key] for key in ("value", "low", "high")] == pytest.approx(
            found[1:4], abs=1e-9
        )
        assert "the policy in its place would have earned" in answer["sentence"]
        check_values(answer, log)


def test_defaults_are_told_until_a_reward_comes(tmp_path: Path) -> None:
    hands = Hands()
    with here(place(tmp_path, service=WINDOW), clock=hands.clock()) as served:
        empty = served.get("/v1/series?range=hour")
        assert (empty["t"], empty["decisions"], empty["others"]) == ([], [], None)
        served.decide("a")
        served.decide("b")
        hands.pass_by(61.0)
        served.decide("c")
        served.portal.call(served.experiment().follower.catch_up)
        wait(lambda: sum(served.get("/v1/series?range=hour")["defaults"]) == 2)
        served.reward("a", 0.0)  # as the default was
        served.state()
        answer = served.get("/v1/series?range=hour")
        assert answer["defaults"] == [1, 0, 0, 0, 0, 0, 0]
        assert answer["rewards"] == [2, 0, 0, 0, 0, 0, 0]
        assert answer["decisions"] == [2, 0, 0, 0, 0, 0, 1]
        assert served.ask("GET", "/v1/series?range=month").status_code == 422


def test_history_has_the_weights_on_the_way_up_to_now_and_marks(tmp_path: Path) -> None:
    hands = Hands()
    with here(place(tmp_path, experts=BENCH), clock=hands.clock()) as served:
        empty = served.get("/v1/posterior/history")
        assert (empty["positions"], empty["t"], empty["experts"], empty["marks"]) == (
            [],
            [],
            {},
            [],
        )
        live(served, hands, 20)
        change = {"expert": "late", "change": "added", "share": 0.3, "key": "k"}
        joined = served.post("experts", change)["position"]
        live(served, hands, 20, seed=1)
        answer, now = served.get("/v1/posterior/history"), served.get("/v1/posterior")
        assert answer["positions"][-1] == answer["position"] == now["position"]
        assert {
            name: weights[-1] for name, weights in answer["experts"].items()
        } == now["posterior"]
        for at, position in enumerate(answer["positions"]):
            weights = {name: column[at] for name, column in answer["experts"].items()}
            assert (weights["late"] is None) == (position < joined)
            assert sum(weight or 0.0 for weight in weights.values()) == pytest.approx(
                1.0
            )
        marks = [mark for mark in answer["marks"] if mark["kind"] != "correction"]
        assert marks == [
            {
                "position": joined,
                "t": marks[0]["t"],
                "kind": "expert added",
                "name": "late",
                "share": 0.3,
            }
        ]
        assert answer["others"] is None
        corrections = [
            mark["name"] for mark in answer["marks"] if mark["kind"] == "correction"
        ]
        assert corrections
        assert sorted(answer["t"]) == answer["t"]
