"""The bake-off's machinery on small sets: played once, charged for what is late; regret
and standings by hand."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.bakeoff import Cell
from benchmarks.contenders import lines_of
from benchmarks.entries import Entry, entries
from benchmarks.games import FAMILIES, Game, Round
from benchmarks.standings import (
    AUTO,
    against_own,
    answers,
    fields,
    hindsight,
    much_worse,
)
from scipy.stats import norm

from benchmarks import (
    bakeoff,
    bakeoff_page,
    learners,
    offers,
    standing_report,
    standing_tables,
)


class Fixed:
    """Plays arms in turn."""

    def __init__(self, arms: list[int]) -> None:
        self.arms, self.rewards, self.uniforms = arms, [0.0][:0], [0.0][:0]

    def act(self, now: Round, uniform: float) -> int:
        self.uniforms.append(uniform)
        return self.arms[len(self.rewards)]

    def learn(self, reward: float) -> None:
        self.rewards.append(reward)


def test_regret_is_counted_by_means_and_learnt_from_rewards() -> None:
    none = np.zeros((2, 0))
    rounds = [
        Round(np.zeros(1), none, ("a", "b"), np.array(rewards), np.array(means))
        for rewards, means in (
            ([1.0, 0.0], [0.3, 0.1]),
            ([0.0, 0.0], [0.2, 0.6]),
            ([0.0, 1.0], [0.5, 0.5]),
        )
    ]
    player = Fixed([1, 0, 1])
    found = bakeoff.played(Game(rounds, True, 3), Entry("", "", lambda _: player), 10.0)
    assert player.rewards == [0.0, 0.0, 1.0]
    assert player.uniforms == np.random.default_rng([3, 2019]).random(3).tolist()
    assert found["regret"] == pytest.approx(0.2 + 0.4)
    assert found["squares"] == pytest.approx(0.04 + 0.16)
    assert found["uniform"] == pytest.approx(0.1 + 0.2)
    assert (found["steps"], found["arms"], found["finished"]) == (3, 2.0, True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 150)
    np.savez(
        tmp_path / "easy.npz",
        X=(4 * np.eye(3)[y] + rng.normal(size=(150, 3))).astype(np.float32),
        y=y,
    )
    return tmp_path


def run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *more: str
) -> list[dict[str, Any]]:
    results = folder / "results.jsonl"
    words = [
        "bakeoff",
        "--data",
        str(folder),
        "--results",
        str(results),
        "--engine",
        "serial",
        "--shuffles",
        "1",
    ]
    monkeypatch.setattr(sys, "argv", [*words, "--cap", "80", *more])
    bakeoff.main()
    return list(bakeoff.read(results).values())


def test_cells_are_played_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run(folder, monkeypatch, "--only", "oddsmith", "--out", str(folder / "out"))
    assert {r["name"] for r in first} == {
        e.name for e in entries("labels") if e.library == "oddsmith"
    }
    assert all(
        r["finished"] and 0 < r["regret"] < r["uniform"] and r["steps"] == 80
        for r in first
    )
    assert "oddsmith: auto" in capsys.readouterr().out
    assert (folder / "out" / "labels.md").exists()
    with (folder / "results.jsonl").open("a") as file:
        file.write('{"key": "cut o')  # a crash in the middle of a line
    monkeypatch.setattr(bakeoff, "play", None)  # whatever is played again would fail
    assert run(folder, monkeypatch, "--only", "oddsmith") == first


def test_what_takes_too_long_is_charged_uniform_play(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = run(folder, monkeypatch, "--only", "auto", "--cell-seconds", "0.001")
    assert all(
        not r["finished"] and r["regret"] == r["uniform"] == pytest.approx(80 * 2 / 3)
        for r in late
    )
    # with more time they are tried again
    assert all(r["finished"] for r in run(folder, monkeypatch, "--only", "auto"))


def test_both_noises_are_cells_of_clicks(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = run(
        folder, monkeypatch, "--family", "clicks", "--only", "oddsmith LinUCB 1"
    )
    assert {r["noise"]: pytest.approx(r["uniform"]) for r in found} == {
        "0.3/0.05": 80 / 6,
        "0.10/0.02": 80 * 0.16 / 3,
    }
    assert all(
        (r["regret"] / {"0.3/0.05": 0.25, "0.10/0.02": 0.08}[r["noise"]]) % 1 < 1e-6
        for r in found
    )


def test_worlds_and_choices_are_played_by_ours_and_by_peers(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("vowpalwabbit")
    words = (
        "--sets",
        "categories-1",
        "--only",
        "auto, small",
        "LinUCB 1",
        "squarecb -l 2",
    )
    for found in (
        run(
            folder,
            monkeypatch,
            "--family",
            "worlds",
            *words,
            "--results",
            str(folder / "worlds.jsonl"),
        ),
        bakeoff.read(folder / "worlds.jsonl").values(),
    ):
        assert all(r["finished"] for r in found)
    assert len(list(bakeoff.read(folder / "worlds.jsonl"))) >= 4
    (folder / "easy.json").write_text("{}")
    np.savez(
        folder / "easy.npz",
        X=np.random.default_rng(0).normal(size=(60, 3)),
        y=np.arange(60) % 2,
    )
    found = run(
        folder, monkeypatch, "--family", "rows", "--only", "auto", "squarecb -l 2"
    )
    assert len({r["uniform"] for r in found}) == 1


def test_a_key_depends_on_all_that_decides_a_result() -> None:
    cell = Cell("a.npz", "clicks", "0.3/0.05", 0, 5, "oddsmith", "auto", 1.0)
    others = [
        cell._replace(family="labels"),
        cell._replace(noise=""),
        cell._replace(shuffle=1),
        cell._replace(cap=6),
        cell._replace(name="auto, small"),
    ]
    keys = {c.key("data", "1") for c in [cell, *others]} | {
        cell.key("other", "1"),
        cell.key("data", "2"),
    }
    assert len(keys) == 8
    assert cell.key("data", "1") == cell._replace(seconds=9.0, path="b.npz").key(
        "data", "1"
    )
    auto, linear = (
        next(e for e in entries("labels") if e.name == name)
        for name in ("auto", "LinUCB 1")
    )
    assert bakeoff.build(auto) != bakeoff.build(linear)


def test_words_about_code_change_no_key() -> None:
    plain, told = (
        "def f(a):\n    return a",
        'def f(a):\n    """A word."""\n    return a  # why',
    )
    assert bakeoff.code(plain) == bakeoff.code(told) != bakeoff.code(plain + " + 1")


def test_names_are_distinct_in_every_family() -> None:
    for family in FAMILIES:
        names = [(entry.library, entry.name) for entry in entries(family, slow=True)]
        assert len(set(names)) == len(names)


def records(
    regrets: dict[str, dict[str, list[float | None]]],
    family: str = "labels",
    n: int = 1000,
) -> list[Any]:
    """Records of regrets by configuration, set and shuffle."""
    return [
        {
            "family": family,
            "noise": "",
            "set": s,
            "library": name.split(": ")[0],
            "name": name.split(": ", 1)[1],
        }
        | {
            "shuffle": i,
            "regret": r,
            "squares": r,
            "uniform": n / 2,
            "steps": n,
            "us": 1.0,
            "finished": True,
        }
        for name, by_set in regrets.items()
        for s, by_shuffle in by_set.items()
        for i, r in enumerate(by_shuffle)
        if r is not None
    ]


def test_the_z_test_by_hand() -> None:
    (field,) = fields(
        records({AUTO: {"a": [100], "b": [300]}, "p: x": {"a": [140], "b": [310]}})
    )
    z = (0.14 - 0.10) / np.sqrt((0.1 * 0.9 + 0.14 * 0.86) / 999)
    # a win on the first set; on the second nothing is significant
    assert norm.sf(z) < 0.05
    assert field.pair(AUTO, "p: x").wins().tolist() == [1, 0]
    assert field.pair("p: x", AUTO).wins().tolist() == [-1, 0]
    assert field.pair("p: x", AUTO).wins(1.10).tolist() == [-1, 0]
    assert field.pair("p: x", AUTO).wins(1.35).tolist() == [0, 1]


def test_standings_by_hand() -> None:
    runs: Any = {
        AUTO: {"a": [100], "b": [300]},
        "p: x": {"a": [200], "b": [100]},
        "vowpalwabbit: y": {"a": [400]},
    }
    runs["vowpalwabbit: y"]["b"] = [300]
    (field,) = fields(records(runs))
    assert field.peers == ["p: x", "vowpalwabbit: y"]
    assert hindsight(field)[1] == ["p: x", "p: x"]
    found = answers(field)
    assert found is not None
    assert found.ratio == pytest.approx(400 / 300)
    assert found.vowpal_ratio == pytest.approx(400 / 700)
    assert found.in_hindsight == pytest.approx((0.5 * 3) ** 0.5)
    assert (found.net, found.least_net) == (0, 0)
    assert much_worse(field, "p: x") == (["b"], 2)
    assert much_worse(fields(records(runs, n=999))[0], "p: x") == ([], 0)


def test_choices_are_averaged_geometrically() -> None:
    runs: Any = {
        AUTO: {"a": [10], "b": [30]},
        "p: x": {"a": [20], "b": [60]},
        "p: y": {"a": [40], "b": [20]},
    }
    (field,) = fields(records(runs, "rows", 100))
    assert field.peers == ["p: y", "p: x"]  # 40 · 20 is less than 20 · 60
    assert field.ratio(AUTO, "p: y") == pytest.approx((10 / 40 * 30 / 20) ** 0.5)
    (world,) = fields(records(runs, "worlds", 100))
    assert world.values(AUTO).tolist() == pytest.approx([0.2, 0.6])


def test_only_shuffles_that_both_played_are_compared() -> None:
    runs: Any = {
        AUTO: {"a": [100, 900]},
        "p: x": {"a": [200, None]},
        "p: z": {"a": [None, 1]},
    }
    (field,) = fields(records(runs))
    assert field.pair(AUTO, "p: x").mine.tolist() == [0.1]
    assert field.pair(AUTO, "p: z").mine.tolist() == [0.9]
    # where they share none, all of them
    assert field.pair("p: x", "p: z").mine.tolist() == [0.2]
    runs["p: w"] = {"b": [1]}
    # a set of its own for one of them: none has played all
    assert fields(records(runs))[0].complete == []


def test_auto_meets_its_experts_on_shared_shuffles_only() -> None:
    played: Any = {
        AUTO: [400, 900],
        "oddsmith: alone: a": [200, None],
        "oddsmith: alone: b": [500, 100],
    }
    (field,) = fields(records({name: {"s": values} for name, values in played.items()}))
    assert against_own(field) == pytest.approx({"s": 2.0})


def test_tables_say_what_was_found(tmp_path: Path) -> None:
    runs: Any = {
        AUTO: {"a": [100], "b": [300]},
        "p: x": {"a": [200], "b": [100]},
        "vowpalwabbit: y": {"a": [400]},
    }
    runs["oddsmith: alone: forest"] = {"a": [80], "b": [310]}
    found = records(
        runs | {"vowpalwabbit: y": {"a": [400], "b": [300]}, "p: half": {"a": [1]}}
    )
    found[-1]["finished"] = False
    text = standing_report.report(found, tmp_path)
    assert (
        "auto's regret is 1.333 times that of the best single peer, p: x (aim: 0.86)"
        in text
    )
    assert "1 of 2 (b)" in text
    assert "mean 1.109, worst 1.250 (a)" in text
    assert "Excluded because they have not played all datasets: p: half." in text
    assert "have the regret of uniform choice: p: half on a." in text
    assert "| oddsmith: alone: forest | 0.1950 | 1.026 |" in text
    assert (
        "| b | 1,000 | 0.3000 | 0.3100 | 0.1000 | 3.000 | 3.000 | p: x |"
        in (tmp_path / "labels.md").read_text()
    )
    assert (tmp_path / "labels.svg").exists()
    page = (tmp_path / "labels.html").read_text()
    sentence = (
        '<p class="lead">labels: auto&#x27;s regret is 1.333 times that of the best '
        "single peer, p: x (aim"
    )
    places = [
        page.index(part)
        for part in (sentence, "<figure>", "League: labels", "<details>", ">3.000<")
    ]
    assert places == sorted(places)
    assert (
        "| labels | 2 × 1 | p: x | **1.333** (aim: 0.86) | 0.571 (aim: 0.64) | 1.225 |"
        in bakeoff_page.overview(fields(found))
    )
    (world,) = fields(
        records(runs | {"vowpalwabbit: y": {"a": [400], "b": [300]}}, "worlds")
    )
    assert (
        "auto 0.600; the best of our own policies in each world 0.610"
        in standing_tables.captured(world)
    )


def test_text_for_vowpal_wabbit() -> None:
    now = offers.problem(2).rounds[0]._replace(names=("a b", "c:d"))
    shared, first, second = lines_of(now, lasting=True)
    assert shared.startswith("shared |s 0:")
    assert first.startswith("|a a_b 0:")
    assert second.startswith("|a c_d 0:")
    assert lines_of(now._replace(shared=np.zeros(0)), lasting=False)[0].startswith(
        "|a 0:"
    )


def test_timed_loops_tell_each_step() -> None:
    given = offers.problem(3)
    assert (
        offers.through_policy(
            given._replace(rounds=given.rounds[:5], uniforms=given.uniforms[:5]),
            "small",
        )()
        == 5
    )
    spent = learners.loop(
        learners.auto("small", 3), learners.classes(3, 2, 10), chunk=12
    )()
    assert isinstance(spent, list)
    assert len(spent) == 12


def test_records_are_json() -> None:
    assert (
        json.loads(
            json.dumps(
                Cell("a.npz", "labels", "", 0, 5, "oddsmith", "auto", 1.0)._asdict()
            )
        )["cap"]
        == 5
    )
