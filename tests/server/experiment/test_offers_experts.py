"""Experts on arms that come with calls: in a process of their own, failing for some
offers, joining and retiring."""

from pathlib import Path
from typing import Any

import pytest

from oddsmith.files.policy import read_policy
from oddsmith.server.audit import verify
from oddsmith.server.fold.fold import restore, roster_change
from oddsmith.server.store import SQLiteReader
from server.served import here
from server.store.samples import WithoutSnapshots, bits

FACTORY = """
import numpy as np
import oddsmith as od


def cheap(context, arm, features):
    return 0.5 if features is None else 1 / (1 + features["price"])


def dear(context, arm, features):
    return features["price"] / 9


class Odd(od.Experts):
    names = ("odd",)
    takes_offers = True

    def predict(self, state, context):
        n = len(context.arms)
        return np.full((1, n + (n == 5)), 0.5)


def first(arms):
    return od.FunctionExperts({"cheap": cheap})


def late(arms):
    return od.FunctionExperts({"dear": dear})


def odd(arms):
    return Odd()
"""
TABLES = """
[experts.cheap]
kind = "python"
factory = "MODULE:first"
isolate = true
[experts.odd]
kind = "python"
factory = "MODULE:odd"
[experts.dear]
kind = "python"
factory = "MODULE:late"
joins = true
"""


def shop(folder: Path) -> Path:
    module = f"goods_{folder.name}"
    (folder / f"{module}.py").write_text(FACTORY)
    file = folder / "shop.toml"
    file.write_text(
        (
            'name = "news"\nseed = 3\nguard = true\ntimeout_ms = 60000\n[policy]\n'
            "gamma = 0.1\n"
        )
        + TABLES.replace("MODULE", module)
        + (
            '[service]\nstore = "shop.sqlite"\ntimeout_ms = 60000\nwindow_s = 3600\n'
            'late_reward = "rewrites"\n'
        )
    )
    return file


def goods(turn: int) -> dict[str, Any]:
    """One to six goods, each day others; of some nothing is known."""
    return {
        f"g{turn // 3 + i}": {"price": float(i + turn % 3)} if (turn + i) % 4 else None
        for i in range(turn % 6 + 1)
    }


def test_experts_come_go_and_fail_while_goods_change(tmp_path: Path) -> None:
    file = shop(tmp_path)
    with here(file) as served:
        for turn in range(30):
            answer = served.post(
                "decide", {"context": {}, "arms": goods(turn), "id": f"d{turn}"}
            )
            assert list(answer["odds"]) == list(goods(turn))
            asleep = {"odd"} if len(goods(turn)) == 5 else set()
            # one that is retired says nothing
            if turn >= 20 or (turn >= 10 and None in goods(turn).values()):
                asleep.add("dear")
            assert set(answer.get("asleep", ())) == asleep
            if turn == 9:
                served.post(
                    "experts",
                    {"expert": "dear", "change": "added", "share": 0.4, "key": "in"},
                )
            if turn == 19:
                served.post(
                    "experts", {"expert": "dear", "change": "retired", "key": "out"}
                )
            if turn % 4:
                served.reward(f"d{turn}", turn % 2)
        served.post("correct", {"id": "d1", "reward": 0.25, "key": "k"})
        live = bits(served.state())
        failures = served.get("/v1/stats")["experts"]["odd"]["failures"]
        assert failures == {"shape": 5}
    with here(file) as served:
        assert bits(served.state()) == live
        (opened,) = [served.experiment().setup]
        with SQLiteReader(tmp_path / "shop.sqlite") as reader:
            whole = restore(
                WithoutSnapshots(reader),
                opened.policy,
                change=roster_change(opened.bench),
            )
            assert bits(whole.state) == live
    with SQLiteReader(tmp_path / "shop.sqlite") as reader:
        report = verify(
            reader, policy=read_policy(file).policy, bench=read_policy(file).bench
        )
    assert report.holds
    checked = {level.name: level.checked for level in report.levels}
    assert checked["draw"] == checked["odds"] == 30
    assert checked["experts"] > 20


@pytest.mark.parametrize("kind", ["first", "late"])
def test_features_that_an_expert_cannot_read_put_it_to_sleep(
    tmp_path: Path, kind: str
) -> None:
    """Nothing is known of prices: one has an opinion all the same, the other none;
    where all sleep odds are even."""
    file = shop(tmp_path)
    text = file.read_text()
    if kind == "late":
        file.write_text(
            text.replace(":first", ":late").replace("[experts.cheap]", "[experts.only]")
        )
    with here(file) as served:
        answer = served.post(
            "decide", {"context": {}, "arms": ["a", "b", "c", "d", "e"]}
        )
    assert answer["odds"] == pytest.approx(dict.fromkeys("abcde", 0.2))
    assert answer["asleep"] == (["odd"] if kind == "first" else ["dear", "odd"])
