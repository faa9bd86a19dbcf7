"""Cells that an earlier source of ours has played are played by the last one, and
nothing else is."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.standings import fields

from benchmarks import bakeoff, bakeoff_again, bakeoff_page


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """A set of 150 rows, of which 40 are played, one shuffle."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 150)
    np.savez(
        tmp_path / "easy.npz",
        X=(4 * np.eye(3)[y] + rng.normal(size=(150, 3))).astype(np.float32),
        y=y,
    )
    words = [
        "--data",
        str(tmp_path),
        "--results",
        str(tmp_path / "results.jsonl"),
        "--engine",
        "serial",
    ]
    return [*words, "--shuffles", "2", "--cap", "40", "--only", "oddsmith"]


def test_what_an_earlier_source_has_played_is_played_again(words: list[str]) -> None:
    arguments = bakeoff.parsed(words)
    assert not bakeoff_again.wanted(arguments).cells  # nobody has played anything
    keys = {
        key: cell
        for key, cell in bakeoff.cells(arguments)
        if cell.name in ("LinUCB 1", "LinTS 0.3")
    }
    known = bakeoff.play_all(
        {key: cell for key, cell in keys.items() if cell.shuffle == 0}, arguments
    )
    peer = next(iter(known.values())) | {
        "key": "p",
        "library": "river",
        "name": "LinUCB 1",
    }
    old = [
        record | {"key": f"old {record['name']}", "us": 500.0}
        for record in known.values()
    ]
    arguments.results.write_text(
        "".join(f"{json.dumps(record)}\n" for record in [*old, peer])
    )

    again = bakeoff_again.wanted(arguments)
    # not the second shuffle, no other configuration, no peer
    assert set(again.cells) == set(known)
    assert again.seconds == pytest.approx(2 * 40 * 500e-6)
    bakeoff.play_all(again.cells, again.arguments)
    assert not bakeoff_again.wanted(arguments).cells
    bakeoff_again.forget(arguments.results, set(keys))
    found = bakeoff.read(arguments.results)
    assert set(found) == {*known, "p"}
    for key, record in known.items():
        # the same source comes to the same
        assert found[key]["regret"] == record["regret"]


def test_a_source_that_was_not_played_again_is_not_forgotten(words: list[str]) -> None:
    arguments = bakeoff.parsed(words)
    old = {
        "key": "old",
        "set": "easy",
        "noise": "",
        "shuffle": 0,
        "cap": 40,
        "library": "oddsmith",
        "name": "LinUCB 1",
    }
    arguments.results.write_text(json.dumps(old) + "\n")
    bakeoff_again.forget(
        arguments.results, {key for key, _ in bakeoff.cells(arguments)}
    )
    assert list(bakeoff.read(arguments.results)) == ["old"]


def test_comparisons_are_those_of_the_answers() -> None:
    def record(name: str, one: str, regret: float) -> dict[str, Any]:
        library, _, configuration = name.partition(": ")
        about = {
            "library": library,
            "name": configuration,
            "family": "labels",
            "noise": "",
            "set": one,
            "shuffle": 0,
        }
        return about | {
            "regret": regret,
            "squares": regret,
            "steps": 1000,
            "uniform": 700.0,
            "us": 1.0,
        }

    wrong = {
        "oddsmith: auto": (100, 300),
        "numpy: x": (200, 100),
        "numpy: y": (90, 500),
    }
    found = fields(
        [
            record(name, one, n)
            for name, by in wrong.items()
            for one, n in zip("ab", by, strict=True)
        ]
    )
    single, hindsight = bakeoff_page.compared(bakeoff_page.Standings(found, []))
    assert single.ours == pytest.approx(0.2)
    assert single.theirs == pytest.approx(0.15)
    assert single.peer == f"numpy {np.__version__}: x, the best of 2"
    assert single.verdict == hindsight.verdict == "lost"
    assert hindsight.ours == pytest.approx(np.sqrt(100 / 90 * 300 / 100))
    (short,) = bakeoff_page.compared(bakeoff_page.Standings([], found))
    assert short.what == "regret, labels, 1,000 rows"
