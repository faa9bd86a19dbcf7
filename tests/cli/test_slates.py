"""`oddsmith evaluate` on slates: values by slot and over slots, whole slates on
request, refusals in a sentence."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from evaluation.slate_worlds import SLOTS, apart, drawn_orders, slate_log
from oddsmith import evaluation as ev
from oddsmith.cli.main import main

ARMS = tuple("abcdef")


@pytest.fixture
def log(tmp_path: Path, monkeypatch: Any) -> od.Log:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    orders = drawn_orders(rng, 800)
    clicks = rng.random((800, SLOTS)) < np.array([apart(order) for order in orders])
    found, _ = slate_log(orders, clicks.astype(float))
    named: Any = od.Log
    log: od.Log = named(**found.columns(), arms=ARMS)
    od.write_log(log, "log.parquet")
    return log


def asked(capsys: Any, *arguments: str, code: int = 0) -> Any:
    assert main(["evaluate", "log.parquet", *arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_values_are_by_slot_and_over_all_slots(log: od.Log, capsys: Any) -> None:
    found = asked(capsys, "--target", "uniform", "--model", "none")
    odds = ev.uniform_target(log)
    over_all = ev.estimate(ev.ips(log, odds))
    assert found["targets"]["uniform"]["ips"]["value"] == pytest.approx(
        over_all.value, abs=1e-12
    )
    assert found["targets"]["uniform"]["ips"]["low"] == pytest.approx(
        over_all.low, abs=1e-12
    )
    assert found["diagnostics"]["uniform"]["n"] == 800
    assert list(found["slots"]) == ["1", "2", "3"]
    for slot in (1, 2, 3):
        rows = np.flatnonzero(np.asarray(log.slot) == slot)
        own = ev.estimate(ev.ips(log[rows], odds[rows]))
        told = found["slots"][str(slot)]["targets"]["uniform"]["ips"]
        assert [told[name] for name in ("value", "low", "high")] == pytest.approx(
            [own.value, own.low, own.high]
        )
    means = [
        found["slots"][slot]["targets"]["uniform"]["ips"]["value"]
        for slot in ("1", "2", "3")
    ]
    assert np.mean(means) == pytest.approx(over_all.value, abs=1e-12)


def test_the_text_says_which_value_it_is(
    log: od.Log, capsys: Any, tmp_path: Path
) -> None:
    assert (
        main(["evaluate", "log.parquet", "--target", "uniform", "--out", "report"]) == 0
    )
    told = capsys.readouterr().out
    page = (tmp_path / "report" / "index.html").read_text()
    for sentence in (
        "means over the slots of 800 slates of 3 slots",
        "draws from what the logging policy left there",
    ):
        assert sentence in told
        assert sentence in page
    assert "effective slates" in told
    assert "By slot" in page


def test_whole_slates_are_answered_where_the_log_carries_them(
    log: od.Log, capsys: Any
) -> None:
    found = asked(capsys, "--target", "uniform", "--whole-slates")
    own = ev.estimate(ev.whole_slates(log, ev.uniform_target(log)))
    assert found["whole_slates"]["uniform"]["value"] == pytest.approx(own.value)
    assert not own.refused
    found = asked(capsys, "--target", "first", "--whole-slates")
    assert found["targets"]["first"]["ips"]["refused"] == []
    assert found["whole_slates"]["first"]["refused"] == ["ess", "share"]
    assert any(
        "Whole slates of first: no answer, for weights of slots multiply" in note
        for note in found["notes"]
    )


def test_an_arm_that_was_taken_is_asked_for_by_slot(log: od.Log, capsys: Any) -> None:
    assert main(["evaluate", "log.parquet", "--target", "arm:e"]) != 0
    taken = int((~np.asarray(log.eligible)[:, 4]).sum())
    sentence = f"{taken:,} of 2,400 rows did not (a slot before may have taken it)"
    assert sentence in capsys.readouterr().err
    assert (
        main(["evaluate", "log.parquet", "--target", "arm:e", "--where-offered"]) != 0
    )
    assert (
        "must be of one slot, for in later ones it may be taken"
        in capsys.readouterr().err
    )
    found = asked(capsys, "--target", "arm:e", "--where-offered", "--slot", "2")
    rows = np.flatnonzero((np.asarray(log.slot) == 2) & np.asarray(log.eligible)[:, 4])
    own = ev.estimate(ev.snips(log[rows], ev.arm_target(log[rows], "e")))
    assert found["targets"]["arm:e"]["snips"]["value"] == pytest.approx(own.value)
    assert "slots" not in found


def test_slots_that_are_not_there_are_named(log: od.Log, capsys: Any) -> None:
    assert main(["evaluate", "log.parquet", "--target", "uniform", "--slot", "4"]) != 0
    assert "slot must be one of the log's, 1, 2, 3; got 4" in capsys.readouterr().err
    od.write_log(log.without("slate", "slot"), "plain.parquet")
    for option, sentence in (
        ("--slot=1", "which has none; got 1"),
        ("--whole-slates", "need a log with the columns"),
    ):
        assert main(["evaluate", "plain.parquet", "--target", "uniform", option]) != 0
        assert sentence in capsys.readouterr().err


def test_a_slate_that_lacks_a_slot_or_a_reward_is_no_whole_one(log: od.Log) -> None:
    odds = ev.uniform_target(log)
    with pytest.raises(
        od.InvalidInput, match="slate 's0' has slot 3, and 2 slots in all"
    ):
        ev.whole_slates(log[[0, 2, 3, 4, 5]], odds[[0, 2, 3, 4, 5]])
    reward = log.reward.copy()
    reward[1] = np.nan
    waiting: Any = od.Log
    found = ev.whole_slates(waiting(**log.columns() | {"reward": reward}), odds)
    np.testing.assert_array_equal(found.values, ev.whole_slates(log, odds).values[1:])
