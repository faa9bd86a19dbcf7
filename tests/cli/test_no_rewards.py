"""`oddsmith evaluate | replay | fit` where there is no reward, or one."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from cli.campaign import ARMS, place
from oddsmith.cli.main import main


@pytest.fixture
def log(tmp_path: Path, monkeypatch: Any) -> od.Log:
    monkeypatch.chdir(tmp_path)
    return place(tmp_path)


def asked(capsys: Any, *arguments: str) -> Any:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_state_without_a_reward_has_learnt_nothing_either(
    log: od.Log, capsys: Any
) -> None:
    od.Agent(od.read_policy("news.toml").policy, seed=1, arms=ARMS).save("fresh.npz")
    question = ["evaluate", "log.parquet", "--target", "news.toml", "--model", "none"]
    without = asked(capsys, *question)["notes"]
    assert "has learnt nothing" in without[0]
    assert asked(capsys, *question, "--state", "fresh.npz")["notes"] == without


def test_a_log_without_rewards_is_told_so_by_every_command(
    log: od.Log, capsys: Any
) -> None:
    waiting = od.Log(
        arm=log.arm,
        reward=log.reward * np.nan,
        propensities=log.propensities,
        context=log.context,
        arms=ARMS,
    )
    od.write_log(waiting[:600], "waiting.parquet")
    for command, words in {
        "evaluate --target news.toml": "log must have rewards; got none in 600 rows",
        ("evaluate --target news.toml --model linear"): (
            "log must have rewards; got none in 600 rows"
        ),
        "replay --policy news.toml": "log must have rewards; got none in 600 rows",
        "fit --policy news.toml --out state.npz": (
            "log must have rewards to learn from; got none in 600 rows: no state was "
            "written"
        ),
    }.items():
        name, *options = command.split()
        assert main([name, "waiting.parquet", *options]) == 2
        said = capsys.readouterr()
        assert (said.out, said.err) == ("", f"oddsmith: {words}\n")
    assert not Path("state.npz").exists()


def test_one_reward_is_no_plural(log: od.Log, capsys: Any) -> None:
    od.write_log(log[:1], "one.parquet")
    assert (
        main(["fit", "one.parquet", "--policy", "news.toml", "--out", "state.npz"]) == 0
    )
    printed = capsys.readouterr().out
    assert printed.startswith("After 1 reward ")
    assert "\n1 reward learnt, 0 still waiting." in printed
