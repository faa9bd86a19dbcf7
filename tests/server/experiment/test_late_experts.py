"""Experts that are late in a service: odds that can be proved, and the setting to
change."""

from itertools import count
from pathlib import Path

import pytest

from oddsmith.files.policy import read_policy
from oddsmith.server.audit import verify
from oddsmith.server.store import SQLiteReader
from server.served import here, wait

CODE = """
import time

import oddsmith as od


def model(context):
    time.sleep(context["seconds"])
    return [0.1, 0.2, 0.7]


def bank(arms):
    return od.FunctionExperts({"model": model}, arms)
"""
FILE = """
name = "news"
arms = ["a", "b", "c"]
seed = 3
policy.gamma = 0.3
[experts.model]
kind = "python"
factory = "late_model:bank"
[service]
"""


_modules = count()


def place(folder: Path, top: str = "timeout_ms = 150\n") -> Path:
    """The policy file; a process loads a module once, from the first folder."""
    module = f"late_model_{next(_modules)}"
    (folder / f"{module}.py").write_text(CODE)
    file = folder / "news.toml"
    file.write_text(FILE.replace("late_model", module) + top)
    return file


def test_a_late_expert_votes_as_before_and_the_log_is_proved(tmp_path: Path) -> None:
    file = place(tmp_path)
    quick = {"context": {"seconds": 0}}
    slow = {"context": {"seconds": 0.4}}
    with here(file) as served:
        served.post("decide", quick)
        bank = served.experiment().follower.now.experts
        pace = bank._leaves[0].pace  # type: ignore[union-attr]
        wait(lambda: len(pace.durations_ms) == 1)  # remembered, also if it was late
        late = served.post("decide", slow | {"id": "late"})
        assert late["asleep"] == ["model"]
        assert late["odds"] == pytest.approx({"a": 0.1, "b": 0.1, "c": 0.8})
        served.reward("late", 1.0)
        for _ in range(110):
            served.post("decide", slow)
        warning = served.get("/v1/checks")["warning"]
        assert "expert 'model' gave no answer in 11" in warning
        assert "set a larger timeout_ms in [service] (it is 150 ms)" in warning
        wait(lambda: pace.stuck == 0)
    with SQLiteReader(tmp_path / "news.sqlite") as reader:
        assert verify(reader).holds


def test_models_do_not_contradict_votes_of_late_experts(tmp_path: Path) -> None:
    """Asked again in time, the expert says something: that decides nothing."""
    file = place(tmp_path)
    with here(file) as served:
        served.post("decide", {"context": {"seconds": 0}})
        served.post("decide", {"context": {"seconds": 0.4}})
        served.state()
    with SQLiteReader(tmp_path / "news.sqlite") as reader:
        report = verify(reader, policy=read_policy(file).policy)
        assert report.holds
        experts = next(level for level in report.levels if level.name == "experts")
        assert (
            "an expert made no prediction then that makes one now" in experts.untested
        )


def test_time_limits_are_measured_unless_given(tmp_path: Path) -> None:
    with here(place(tmp_path, "")) as served:
        bank = served.experiment().follower.now.experts
        assert bank.timeout_ms == "measured"  # type: ignore[union-attr]
