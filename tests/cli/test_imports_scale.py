"""`oddsmith import personalizer`: rewards outside of the scale are a wrong scale, and
stop it; slots are counted."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

import oddsmith as od
from logs.personalizer_logs import event, write
from logs.personalizer_slots import slot_world
from oddsmith.cli.main import main

TWO = {"a": {"x": 1}, "b": {"x": 2}}
PLAIN = '[policy]\nkind = "auto"\nsize = "small"\n'


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _import(*arguments: str) -> int:
    return main(
        ["import", "personalizer", "log.json", "--report", "report.jsonl", *arguments]
    )


def _log(*rewards: float) -> None:
    write(
        Path("log.json"),
        "{",
        *(event(str(i), TWO, [0.5, 0.5], reward=one) for i, one in enumerate(rewards)),
    )


def _cured(said: str) -> str:
    """The lines for the policy file that a refusal names."""
    return said[said.index("[reward]\n") :].split("\n\n")[0]


@pytest.mark.parametrize("place", ["log.parquet", "news.sqlite"])
def test_a_wrong_scale_leaves_nothing_behind_and_its_cure_works(
    capsys: Any, place: str
) -> None:
    _log(*[1.0] * 120, -1.0, 0.0, -0.5)
    Path("news.toml").write_text(PLAIN)
    before = set(Path().iterdir())
    assert _import("--to", place, "--policy", "news.toml") == 2
    said = capsys.readouterr().err
    assert said.startswith(
        "oddsmith: log.json, line 122: the reward must be in [0, 1]; got -1 (and so in "
        "1 line more)"
    )
    assert "Nothing was written" in said
    assert "new one" not in said
    assert set(Path().iterdir()) == before
    Path("news.toml").write_text(f"{PLAIN}\n{_cured(said)}")
    assert _cured(said) == "[reward]\nlow = -1\nhigh = 1\n"
    assert _import("--to", place, "--policy", "news.toml") == 0
    assert "123 of 124 lines are events, 123 with a reward" in capsys.readouterr().out


def test_a_store_that_was_begun_stays_as_it_is_and_a_new_one_is_asked_for(
    capsys: Any,
) -> None:
    _log(1.0, 0.0)
    Path("news.toml").write_text(PLAIN)
    assert _import("--to", "news.sqlite", "--policy", "news.toml") == 0
    _log(1.0, 0.0, 1.0, -1.0)
    assert _import("--to", "news.sqlite", "--policy", "news.toml") == 2
    said = capsys.readouterr().err
    assert (
        "The store already exists and cannot change its units: other units need a "
        "new store, named in [service]"
    ) in said
    assert main(["verify", "news.sqlite", "--json"]) == 0
    assert main(["export", "news.sqlite", "--out", "back.parquet"]) == 0
    assert len(od.read_log("back.parquet")) == 2
    Path("news.toml").write_text(
        f'{PLAIN}\n{_cured(said)}\n[service]\nstore = "new.sqlite"\n'
    )
    assert _import("--to", "new.sqlite", "--policy", "news.toml") == 0


@pytest.mark.parametrize(
    ("rewards", "cure"),
    [([2.5, -1.0, 1234567.5], "-1 1234567.5"), ([0.0, -3.0], "-3 1")],
)
def test_without_a_policy_the_option_is_the_cure(
    capsys: Any, rewards: list[float], cure: str
) -> None:
    _log(*rewards)
    assert _import("--to", "log.parquet") == 2
    said = capsys.readouterr().err
    assert f"Nothing was written. --reward {cure} accepts all of them." in said
    assert not Path("log.parquet").exists()
    assert _import("--to", "log.parquet", *shlex.split(f"--reward {cure}")) == 0


def test_a_file_that_was_made_is_named(capsys: Any) -> None:
    _log(5.0)
    assert _import("--to", "log.parquet", "--policy", "news.toml") == 2
    said = capsys.readouterr().err
    assert "news.toml was not there, and is made" in said
    assert _cured(said) == "[reward]\nlow = -1\nhigh = 5\n"


def test_lines_that_are_not_learnt_from_have_no_say(capsys: Any) -> None:
    skipped = event("1", TWO, [0.5, 0.5], reward=7.0, _skipLearn=True)
    broken = event("2", TWO, [0.5, 0.2], reward=7.0)
    write(Path("log.json"), skipped, broken, event("3", TWO, [0.5, 0.5]))
    assert _import("--to", "log.parquet") == 0
    assert capsys.readouterr().out.startswith("1 of 3 lines are events")


def test_events_and_their_decisions_are_told_apart(capsys: Any) -> None:
    Path("news.toml").write_text(PLAIN)
    slates = [one for one, _ in slot_world(4)]
    slates[0]["_outcomes"][0]["_label_cost"] = None
    write(Path("log.json"), *slates, event("1", TWO, [0.5, 0.5]), "{")
    asked = ["--to", "news.sqlite", "--policy", "news.toml"]
    assert _import(*asked) == 0
    told = (
        "5 of 6 lines are events; the others are listed below.\n"
        "They contain 13 decisions, 12 with a reward: an event with several slots "
        "is one decision per slot.\n"
    )
    assert capsys.readouterr().out.startswith(told)
    assert _import(*asked) == 0
    assert capsys.readouterr().out.startswith(
        f"{told}5 of 5 events were in the store before.\n"
    )
    assert _import(*asked, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["read"], found["known"], found["decisions"], found["rewarded"]) == (
        5,
        5,
        13,
        12,
    )
