"""`oddsmith evaluate` on logs in which most decisions stand alone and some were made
together."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from evaluation.slate_worlds import SLOTS, drawn_orders, slate_log
from oddsmith import evaluation as ev
from oddsmith.cli.main import main

ALONE, PAGES = 400, 5


@pytest.fixture
def log(tmp_path: Path, monkeypatch: Any) -> od.Log:
    """400 decisions of six arms that stand alone, then five slates of three."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    pages, _ = slate_log(drawn_orders(rng, PAGES), np.ones((PAGES, SLOTS)))
    n = ALONE + len(pages)
    odds, eligible = np.full((n, 6), 1 / 6), np.ones((n, 6), np.bool_)
    odds[ALONE:], eligible[ALONE:] = (
        np.asarray(pages.propensities),
        np.asarray(pages.eligible),
    )
    made: Any = od.Log
    log: od.Log = made(
        arm=np.append(rng.integers(6, size=ALONE), pages.arm),
        reward=(rng.random(n) < 0.4).astype(float),
        propensities=odds,
        eligible=eligible,
        slate=[None] * ALONE + list(pages.slate if pages.slate is not None else ()),
        slot=np.append(np.zeros(ALONE, np.int64), np.asarray(pages.slot)),
        arms=tuple("abcdef"),
    )
    od.write_log(log, "log.parquet")
    return log


def asked(capsys: Any, *arguments: str, code: int = 0) -> Any:
    assert (
        main(["evaluate", "log.parquet", *arguments, "--model", "none", "--json"])
        == code
    )
    return json.loads(capsys.readouterr().out)


def refused(capsys: Any, *arguments: str) -> str:
    assert main(["evaluate", "log.parquet", *arguments]) != 0
    told: str = capsys.readouterr().err
    return told


def test_an_arm_is_asked_for_among_decisions_that_stand_alone(
    log: od.Log, capsys: Any
) -> None:
    sentence = refused(capsys, "--target", "arm:e")
    assert (
        f"the {ALONE} decisions that stand alone and offered it (--slot 0), or to one "
        "slot"
    ) in sentence
    assert "--slot 0: decisions that stand alone" in refused(
        capsys, "--target", "arm:e", "--where-offered"
    )
    found = asked(capsys, "--target", "arm:e", "--slot", "0", "--overrule", "ess")
    own = log[np.arange(ALONE)]
    by_hand = ev.estimate(ev.ips(own, ev.arm_target(own, "e")), overrule=["ess"])
    told = found["targets"]["arm:e"]["ips"]
    assert (told["value"], told["low"], told["high"]) == pytest.approx(
        (by_hand.value, by_hand.low, by_hand.high)
    )
    assert (found["rows"], "slots" in found) == (ALONE, False)
    assert "slot must be one of the log's, 0 (alone), 1, 2, 3; got 4" in refused(
        capsys, "--target", "uniform", "--slot=4"
    )


def test_an_arm_that_some_of_them_lacked(log: od.Log, capsys: Any) -> None:
    eligible, odds = np.array(log.eligible), np.array(log.propensities)
    lacks = np.arange(len(log)) < 100
    others = np.random.default_rng(1).choice([0, 1, 2, 3, 5], len(log))
    arm = np.where(lacks & (log.arm == 4), others, log.arm)
    eligible[lacks, 4], odds[lacks, 4] = False, 0.0
    made: Any = od.Log
    columns = log.columns() | {
        "arm": arm,
        "eligible": eligible,
        "propensities": odds / odds.sum(axis=1, keepdims=True),
    }
    columns.pop("propensity", None)
    od.write_log(made(**columns, arms=log.arms), "log.parquet")
    had = ALONE - int(lacks.sum())
    assert (
        f"the {had} decisions that stand alone and offered it (--slot 0 "
        "--where-offered)"
    ) in refused(capsys, "--target", "arm:e")
    sentence = refused(capsys, "--target", "arm:e", "--slot=0")
    assert (
        f"{lacks.sum()} of {ALONE} rows did not: restrict the log to the other {had} "
        "rows"
    ) in sentence
    found = asked(
        capsys, "--target", "arm:e", "--slot=0", "--where-offered", "--overrule", "ess"
    )
    assert found["rows"] == had


def test_where_most_stand_alone_they_are_called_decisions(
    log: od.Log, capsys: Any, tmp_path: Path
) -> None:
    assert (
        main(["evaluate", "log.parquet", "--target", "uniform", "--out", "report"]) == 0
    )
    told = capsys.readouterr().out
    sentence = (
        "Values are means over 400 decisions that stand alone and the slots of 5 "
        "slates of 3 slots, each decision and each slate counted once."
    )
    assert sentence in told
    assert sentence in (tmp_path / "report" / "index.html").read_text()
    assert "effective decisions" in told
    assert "405 slates" not in told
    assert "0 (alone)" in told
    few = log[np.arange(ALONE - 40, len(log))]
    assert ev.estimate(ev.ips(few, ev.uniform_target(few))).why.startswith(
        "45 decisions are worth"
    )
    fewer = log[np.arange(ALONE - 5, len(log))]  # as many alone as together
    assert ev.estimate(ev.ips(fewer, ev.uniform_target(fewer))).why.startswith(
        "10 slates are worth"
    )
