"""Choices among items with features: rounds by the rules, cells played once, ratios by hand; Vowpal Wabbit if there."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.choice_standings import UNIFORM, gathered, ratio, report
from benchmarks.choices import FAMILIES, game
from benchmarks.choosers import entries, lines_of

from benchmarks import bakeoff, offers

CHOICES = Path(__file__).parents[3] / "shared" / "data" / "choices"


def written(folder: Path, name: str, about: dict[str, Any], **arrays: Any) -> Path:
    np.savez(folder / f"{name}.npz", **arrays)
    (folder / f"{name}.json").write_text(json.dumps(about))
    return folder / f"{name}.npz"


def rows_set(folder: Path) -> Path:
    x = np.random.default_rng(0).normal(size=(60, 3))
    return written(folder, "easy", {"columns": ["a", "b", "c"]}, X=x, y=(x[:, 0] > 0).astype(float))


def groups_set(folder: Path, *, repeated: bool = False) -> Path:
    """Twenty groups of two or three, of brands that differ within a group, or not in the first one."""
    sizes = [2 + g % 2 for g in range(20)]
    brand = np.concatenate([np.arange(n) for n in sizes])
    brand[1] = 0 if repeated else 1
    group = np.repeat(np.arange(20), sizes)
    x = np.column_stack([*(brand == b for b in range(3)), group]).astype(np.float32)
    columns = ["brand=a", "brand=b", "brand=c", "income"]
    about = {"columns": columns, "same_within_group": ["income"]}
    return written(folder, "brands", about, X=x, y=(brand == 1).astype(np.float32), group=group)


def test_rows_come_as_ten_candidates_with_fresh_names(tmp_path: Path) -> None:
    found = game(rows_set(tmp_path), "rows", shuffle=0, cap=30, standardised=False)
    assert len(found.rounds) == 30
    assert not found.lasting
    assert len({name for now in found.rounds for name in now.names}) == 300
    assert all(len(np.unique(now.own, axis=0)) == 10 and now.shared.shape == (0,) for now in found.rounds)
    assert all((now.rewards == (now.own[:, 0] > 0)).all() for now in found.rounds)
    other = game(rows_set(tmp_path), "rows", shuffle=1, cap=30, standardised=False)
    assert not np.array_equal(found.rounds[0].own, other.rounds[0].own)


def test_groups_come_whole_with_the_choosers_columns_apart(tmp_path: Path) -> None:
    found = game(groups_set(tmp_path), "groups", shuffle=0, cap=100, standardised=False)
    assert found.lasting
    assert sorted(len(now.names) for now in found.rounds) == [2] * 10 + [3] * 10
    assert sorted(now.shared[0] for now in found.rounds) == list(range(20))
    for now in found.rounds:
        assert [now.names[k] for k in range(len(now.names))] == ["brand=" + "abc"[k] for k in now.own.argmax(axis=1)]
        assert [name == "brand=b" for name in now.names] == (now.rewards == 1).tolist()
    assert not game(groups_set(tmp_path, repeated=True), "groups", shuffle=0, cap=9, standardised=False).lasting


def test_routing_takes_the_last_case_that_is_suggested(tmp_path: Path) -> None:
    cases = [{"models": "all", "cost_weight": 0}, {"models": ["c", "a"], "cost_weight": 2}]
    correct, cost = np.array([[1, 1, 0], [0, 1, 1]]), np.array([[0.1, 0.1, 0.3], [0.2, 0.1, 0.6]])
    about = {"models": ["a", "b", "c"], "suggested": {"cases": cases}}
    path = written(tmp_path, "llm", about, X=np.array([[0.0], [1.0]]), correct=correct, cost=cost)
    found = {int(now.shared[0]): now for now in game(path, "routing", shuffle=0, cap=9, standardised=False).rounds}
    assert found[0].names == ("c", "a")
    np.testing.assert_allclose([found[0].rewards, found[1].rewards], [[0.0, 0.8], [0.0, 0.0]])
    score = np.array([[0.1, 0.2], [0.3, 0.4]])
    path = written(tmp_path, "solvers", {"models": ["a", "b"]}, X=np.array([[0.0], [1.0]]), score=score)
    assert {tuple(now.rewards) for now in game(path, "routing", shuffle=0, cap=9, standardised=True).rounds} == {
        (0.1, 0.2),
        (0.3, 0.4),
    }


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> list[dict[str, Any]]:
    results = folder / "results.jsonl"
    words = ["bakeoff", "--family", "rows", "--data", str(folder), "--results", str(results), "--engine", "serial"]
    monkeypatch.setattr(sys, "argv", [*words, "--shuffles", "1", "--cap", "60", *more])
    bakeoff.main()
    return list(bakeoff.read(results).values())


def test_cells_are_played_once_and_charged_for_what_does_not_finish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows_set(tmp_path)
    late = run(tmp_path, monkeypatch, "--only", "auto", "--cell-seconds", "0.0001")
    assert [r["finished"] for r in late] == [False]
    assert late[0]["regret"] == late[0]["uniform"]
    first = run(tmp_path, monkeypatch, "--only", "oddsmith")
    assert len(first) == 3
    assert all(r["finished"] and r["regret"] < r["uniform"] / 2 for r in first)
    assert "oddsmith: auto" in capsys.readouterr().out
    monkeypatch.setattr(bakeoff, "play", None)  # whatever is played again would fail
    assert run(tmp_path, monkeypatch, "--only", "oddsmith") == first


def test_vowpal_wabbit_plays_the_same_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("vowpalwabbit")
    rows_set(tmp_path)
    found = run(tmp_path, monkeypatch, "--only", "squarecb -l 2", "auto", "--out", str(tmp_path / "out"))
    assert len({r["uniform"] for r in found}) == 1
    assert all(r["regret"] < r["uniform"] for r in found)
    assert "best single Vowpal Wabbit" in capsys.readouterr().out
    assert (tmp_path / "out" / "choices_rows.png").exists()
    assert (tmp_path / "out" / "choices_rows.md").exists()


def test_ratios_by_hand() -> None:
    regrets = {"a": {"oddsmith: auto": 10, "vowpalwabbit: x": 20, "vowpalwabbit: y": 40}}
    regrets["b"] = {"oddsmith: auto": 30, "vowpalwabbit: x": 60, "vowpalwabbit: y": 20}
    records = [
        {"family": "rows", "set": s, "library": name.split(": ")[0], "name": name.split(": ")[1], "shuffle": 0}
        | {"regret": regret, "uniform": 80, "steps": 100, "us": 1.0, "finished": True}
        for s, row in regrets.items()
        for name, regret in row.items()
    ]
    field = gathered(records)
    assert field.peers == ["vowpalwabbit: y", "vowpalwabbit: x"]  # 40 · 20 is less than 20 · 60
    assert ratio(field.of("oddsmith: auto"), field.of("vowpalwabbit: y")) == pytest.approx((10 / 40 * 30 / 20) ** 0.5)
    assert ratio(field.of("oddsmith: auto"), field.of(UNIFORM)) == pytest.approx((10 / 80 * 30 / 80) ** 0.5)
    assert "in hindsight: 0.866" in report(records, None)  # √(10/20 · 30/20)
    alone = {**records[0], "shuffle": 1, "regret": 70}  # a shuffle that the others have not played
    assert gathered([*records, alone]).of("oddsmith: auto").tolist() == [0.1, 0.3]


def test_text_for_vowpal_wabbit_and_names_of_entries() -> None:
    now = offers.problem(2).rounds[0]._replace(names=("a b", "c:d"))
    shared, first, second = lines_of(now, lasting=True)
    assert shared.startswith("shared |s 0:")
    assert first.startswith("|a a_b 0:")
    assert second.startswith("|a c_d 0:")
    assert lines_of(now._replace(shared=np.zeros(0)), lasting=False)[0].startswith("|a 0:")
    for family in FAMILIES:
        names = [(entry.library, entry.name) for entry in entries(family)]
        assert len(set(names)) == len(names)


def test_our_loop_among_arms_of_the_call() -> None:
    given = offers.problem(3)
    assert offers.through_policy(given._replace(rounds=given.rounds[:5], uniforms=given.uniforms[:5]), "small")() == 5


@pytest.mark.skipif(not CHOICES.is_dir(), reason="the sets of choices are not here")
def test_the_sets_whose_items_have_lasting_names() -> None:
    lasting = {
        path.stem
        for path in (CHOICES / "groups").glob("*.npz")
        if game(path, "groups", shuffle=0, cap=1, standardised=False).lasting
    }
    assert lasting == {"crackers", "swissmetro", "tuna"}
