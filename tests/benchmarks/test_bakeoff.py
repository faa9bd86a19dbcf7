"""The bake-off's machinery on a small set: resumed, charged for what does not finish, and its z-test by hand."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.contenders import Contender, ours, peers
from benchmarks.standings import against_own, significant
from scipy.stats import norm
from sklearn.datasets import load_iris

from benchmarks import bakeoff


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = load_iris()
    np.savez(tmp_path / "iris.npz", X=found.data.astype(np.float32), y=found.target)
    return tmp_path


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> list[dict[str, Any]]:
    results = folder / "results.jsonl"
    words = ["bakeoff", "--data", str(folder), "--results", str(results), "--engine", "serial", "--only", "oddsmith"]
    monkeypatch.setattr(sys, "argv", [*words, "--shuffles", "2", "--cap", "80", *more])
    bakeoff.main()
    return list(bakeoff.read(results).values())


def test_cells_are_played_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run(folder, monkeypatch, "--out", str(folder / "out"))
    assert len(first) == 2 * len(list(ours()))
    assert all(r["finished"] and 0 < r["error"] < 0.5 and r["steps"] == 80 for r in first)
    assert "oddsmith: auto" in capsys.readouterr().out
    assert (folder / "out" / "bakeoff.png").exists()
    with (folder / "results.jsonl").open("a") as file:
        file.write('{"key": "cut o')  # a crash in the middle of a line
    monkeypatch.setattr(bakeoff, "play", None)  # whatever is played again would fail
    assert run(folder, monkeypatch) == first


def test_what_takes_too_long_is_charged_uniform_play(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run(folder, monkeypatch, "--cell-seconds", "0.001")
    assert all(not r["finished"] and r["error"] == pytest.approx(2 / 3) for r in found)
    assert all(r["finished"] for r in run(folder, monkeypatch))  # with more time they are tried again


def test_the_z_test_by_hand() -> None:
    errors, sizes = np.array([[0.10, 0.14], [0.30, 0.31]]), np.array([1000, 1000])
    z = (0.14 - 0.10) / np.sqrt((0.1 * 0.9 + 0.14 * 0.86) / 999)
    assert norm.sf(z) < 0.05  # a win on the first set; on the second nothing is significant
    np.testing.assert_array_equal(significant(errors, sizes), [[0, 1], [-1, 0]])


def test_names_are_distinct_and_records_are_json() -> None:
    every: list[Contender] = [*ours(), *peers()]
    assert len({(c.library, c.name) for c in every}) == len(every)
    assert json.loads(json.dumps(bakeoff.Cell("a.npz", 0, 5, "oddsmith", "learners", 1.0)._asdict()))["shuffle"] == 0


def test_auto_meets_its_experts_on_shared_shuffles_only() -> None:
    played = {"auto": (0.4, 0.9), "alone: a": (0.2, None), "alone: b": (0.5, 0.1)}
    records = [
        {"library": "oddsmith", "name": name, "set": "s", "shuffle": shuffle, "error": error}
        for name, errors in played.items()
        for shuffle, error in enumerate(errors)
        if error is not None
    ]
    assert against_own(records) == pytest.approx({"s": 2.0})
