"""Rows in which one arm had all odds: named in the refusal that they cause, and left
out without bias."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith import evaluation as ev
from oddsmith.cli.main import main
from oddsmith.evaluation.rows import certain_rows
from oddsmith.evaluation.verdict import verdict

Made: Any = od.Log


def log_with_fallbacks(fallbacks: int, n: int = 205, **more: Any) -> od.Log:
    """Two arms with even odds, then rows in which the first had all of them."""
    rng = np.random.default_rng(0)
    odds = np.full((n, 2), 0.5)
    odds[n - fallbacks :] = 1.0, 0.0
    arm = np.where(odds[:, 0] == 1, 0, rng.integers(2, size=n))
    log: od.Log = Made(
        arm=arm, reward=rng.random(n) < 0.4, propensities=odds, arms=("a", "b"), **more
    )
    return log


def told(log: od.Log) -> str:
    return str(verdict(ev.assess(log, {"uniform": ev.uniform_target(log)})))


def test_the_refusal_says_which_rows_cause_it() -> None:
    assert told(log_with_fallbacks(1)) == (
        "No answer for uniform: 0.24% of the target's mass is on arms the logging policy could "
        "not draw; allowed 0 (rule overlap), all of it in 1 of 205 rows, in which one "
        "arm had all odds though others were eligible: nothing was drawn there, as "
        "where an incumbent or a client's fallback decides. Next: leave such rows out "
        "(where_drawn, --where-drawn), or ask for another target."
    )
    assert "all of it in 7 of 205 rows" in told(log_with_fallbacks(7))
    # nothing would be left
    assert "let the logging policy draw every arm" in told(log_with_fallbacks(205))


def test_a_logger_that_leaves_arms_out_elsewhere_is_told_so() -> None:
    odds = np.tile([0.5, 0.5, 0.0], (200, 1))
    odds[0] = 1.0, 0.0, 0.0
    log = Made(arm=[0, 1] * 100, reward=[1, 0] * 100, propensities=odds)
    assert (
        "let the logging policy draw every arm the target draws (gamma or floors above 0)"
        in told(log)
    )


def test_which_rows_these_are() -> None:
    """By all odds or by the drawn arm's; where one arm alone was eligible there was
    nothing to draw."""
    odds = [[1, 0, 0], [0, 1, 0], [0.5, 0.5, 0]]
    eligible = [[1, 1, 0], [0, 1, 0], [1, 1, 1]]
    about: Any = {"arm": [0, 1, 1], "reward": [1, 0, 1], "eligible": eligible}
    assert certain_rows(Made(**about, propensities=odds)).tolist() == [
        True,
        False,
        False,
    ]
    assert certain_rows(Made(**about, propensity=[1, 1, 0.5])).tolist() == [
        True,
        False,
        False,
    ]
    with pytest.raises(
        od.InvalidInput, match="known by the logged odds; got a log without them"
    ):
        ev.where_drawn(Made(**about))


def test_leaving_them_out_has_no_bias_where_odds_follow_what_was_drawn() -> None:
    """Three rows, all paths: each row's odds depend on the arms before, and so does
    whether it is left out."""
    rates, target = np.array([0.3, 0.8]), np.array([0.2, 0.8])
    off, kept_rows = 0.0, 0.0
    for path in product((0, 1), repeat=3):
        odds = np.array(
            [
                [0.5, 0.5],
                [1.0, 0.0] if path[0] else [0.3, 0.7],
                [0.0, 1.0] if path[1] else [0.6, 0.4],
            ]
        )
        chance = np.prod(odds[np.arange(3), path])
        if chance > 0:
            log = ev.where_drawn(
                Made(arm=path, reward=rates[list(path)], propensities=odds)
            )
            off += (
                chance * (np.asarray(ev.ips(log, target).values) - target @ rates).sum()
            )
            kept_rows += chance * len(log)
    assert off == pytest.approx(0, abs=1e-12)
    assert 1 < kept_rows < 3


def test_of_slates_one_slot_must_be_asked_for() -> None:
    slates: Any = {
        "slate": [None] * 201 + ["s", "s", "t", "t"],
        "slot": [0] * 201 + [1, 2, 1, 2],
    }
    log = log_with_fallbacks(2, **slates)
    assert "(--slot N --where-drawn)" in told(log)
    with pytest.raises(od.InvalidInput, match="must be of one slot to be left out"):
        ev.where_drawn(log)
    second = log[np.asarray(log.slot) == 2]
    assert len(ev.where_drawn(second)) == 1
    # a slate with one of its rows is a row
    before = log[np.append(204, np.arange(201))]
    assert len(ev.where_drawn(before)) == 201
    mixed = log_with_fallbacks(3)[np.roll(np.arange(205), 3)]
    # all of them stand alone
    alone = Made(**mixed.columns(), arms=mixed.arms, **slates)
    assert len(ev.where_drawn(alone)) == 202


def test_the_command_leaves_them_out_and_says_so(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    log = log_with_fallbacks(5)
    od.write_log(log, "log.parquet")
    assert main(["evaluate", "log.parquet", "--target", "uniform", "--model=none"]) != 0
    assert "all of it in 5 of 205 rows" in "".join(capsys.readouterr())
    assert (
        main(
            [
                "evaluate",
                "log.parquet",
                "--target",
                "uniform",
                "--model=none",
                "--where-drawn",
                "--json",
            ]
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    kept = log[np.arange(200)]
    own = ev.estimate(ev.ips(kept, ev.uniform_target(kept)))
    assert found["targets"]["uniform"]["ips"]["value"] == pytest.approx(own.value)
    sentence = (
        "All results use 200 of 205 rows, without rows in which one arm had "
        "propensity 1 although other arms were"
    )
    assert any(note.startswith(sentence) for note in found["notes"])
    od.write_log(log[np.arange(200, 205)], "log.parquet")
    assert (
        main(["evaluate", "log.parquet", "--target", "uniform", "--where-drawn"]) != 0
    )
    assert (
        "where-drawn must leave some rows; in all 5 rows one arm had propensity 1"
        in capsys.readouterr().err
    )
