"""`oddsmith evaluate --state`: a policy that has learnt beside one that has not, in one
command."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from cli.campaign import place
from oddsmith.cli.main import main
from oddsmith.evaluation import estimate, ips, policy_target

BOTH = [
    "evaluate",
    "late.parquet",
    "--target",
    "news.toml",
    "--target",
    "other.toml",
    "--model",
    "none",
]


@pytest.fixture
def late(tmp_path: Path, monkeypatch: Any) -> od.Log:
    """The last rows of the campaign; state.npz has learnt the first ones, other.toml is
    news.toml again."""
    monkeypatch.chdir(tmp_path)
    log = place(tmp_path)
    od.write_log(log[:1000], "early.parquet")
    od.write_log(log[1000:], "late.parquet")
    Path("other.toml").write_text(Path("news.toml").read_text())
    assert (
        main(["fit", "early.parquet", "--policy", "news.toml", "--out", "state.npz"])
        == 0
    )
    return log[1000:]


def test_a_state_of_one_of_two_policy_files(late: od.Log, capsys: Any) -> None:
    capsys.readouterr()
    assert main([*BOTH, "--state", "news.toml=state.npz", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    policy = od.read_policy("news.toml").policy
    state = od.fit_log(policy, "early.parquet").state
    odds = {
        "news.toml": policy_target(late, policy, state),
        "other.toml": policy_target(late, policy),
    }
    assert np.abs(odds["news.toml"] - odds["other.toml"]).max() > 0.1
    for name, own in odds.items():
        assert found["targets"][name]["ips"]["value"] == pytest.approx(
            estimate(ips(late, own)).value, abs=1e-9
        )
    notes = " ".join(found["notes"])
    assert "must not have learnt from this log" in notes
    assert "other.toml has learnt nothing" in notes
    assert "news.toml has learnt nothing" not in notes


def test_whose_state_it_is_must_be_said_once(late: od.Log, capsys: Any) -> None:
    assert main([*BOTH, "--state", "state.npz"]) == 2
    assert (
        "got 2 of them: name it, as in --state news.toml=state.npz"
        in capsys.readouterr().err
    )
    assert (
        main(
            [*BOTH, "--state", "news.toml=state.npz", "--state", "news.toml=state.npz"]
        )
        == 2
    )
    assert "one for each policy file; got two for news.toml" in capsys.readouterr().err
