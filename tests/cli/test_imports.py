"""`oddsmith import personalizer`: what it says, what it exits with, and that evaluate
and fit go on from there."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logs.personalizer_logs import event, world, write
from oddsmith.cli.main import main

TWO = {"a": {"x": 1}, "b": {"x": 2}}


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_from_a_log_to_values_and_a_state(tmp_path: Path, capsys: Any) -> None:
    """Sports are clicked by 0.8 of those who come in the morning: even odds are worth
    0.4, and more can be had."""
    events = [one for one, _ in world(300)]
    write(tmp_path / "a.json", *events[:200], "{")
    write(tmp_path / "b.json", *events[200:])
    assert (
        main(
            [
                "import",
                "personalizer",
                "a.json",
                "b.json",
                "--to",
                "log.parquet",
                "--reward",
                "0",
                "1",
            ]
        )
        == 0
    )
    said = capsys.readouterr().out
    assert said.startswith(
        "300 of 301 lines are events, 300 with a reward; the others are listed below.\n"
    )
    assert "\n1 line broken\na.json, line 201: must be a JSON object" in said
    Path("news.toml").write_text('[policy]\nkind = "auto"\nsize = "small"\n')
    assert (
        main(["fit", "log.parquet", "--policy", "news.toml", "--out", "state.npz"]) == 0
    )
    capsys.readouterr()
    assert (
        main(
            [
                "evaluate",
                "log.parquet",
                "--target",
                "uniform",
                "--model",
                "none",
                "--json",
            ]
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    value = found["targets"]["uniform"]["snips"]
    assert value["low"] < 0.4 < value["high"]


def test_units(tmp_path: Path, capsys: Any) -> None:
    costs = [1.0, 0.0, -1.0]
    write(
        tmp_path / "log.json",
        *(event(str(i), TWO, [0.5, 0.5], reward=-cost) for i, cost in enumerate(costs)),
    )
    Path("news.toml").write_text(
        '[policy]\nkind = "auto"\n[reward]\nlow = -1\nhigh = 1\n'
    )
    assert main(["import", "personalizer", "log.json", "--to", "log.parquet"]) == 0
    default = capsys.readouterr().out
    assert default.startswith(
        "3 of 3 lines are events, 3 with a reward; all lines were read.\n"
        "Rewards from -1 to 1 are"
    )
    for units in (["--reward", "-1", "1"], ["--policy", "news.toml"]):
        assert (
            main(["import", "personalizer", "log.json", "--to", "log.parquet", *units])
            == 0
        )
        assert capsys.readouterr().out == default
    wrong = ["--policy", "news.toml", "--reward", "0", "1"]
    assert (
        main(["import", "personalizer", "log.json", "--to", "log.parquet", *wrong]) == 2
    )
    assert "reward must be as in news.toml, -1 to 1" in capsys.readouterr().err


def test_a_report_names_every_line(tmp_path: Path, capsys: Any) -> None:
    write(tmp_path / "log.json", *["{"] * 30, "", event("1", TWO, [0.5, 0.5]))
    asked = [
        "import",
        "personalizer",
        "log.json",
        "--to",
        "log.parquet",
        "--report",
        "report.jsonl",
    ]
    assert main(asked) == 0
    assert "line 20: " in (said := capsys.readouterr().out)
    assert "line 21: " not in said
    assert "and 10 more: --report FILE lists them all" in said
    lines = [json.loads(line) for line in Path("report.jsonl").read_text().splitlines()]
    assert [line["line"] for line in lines] == list(range(1, 32))
    assert main([*asked, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (
        found["lines"],
        found["read"],
        found["unread"]["broken"],
        found["unread"]["empty"],
    ) == (32, 1, 30, 1)


def test_nothing_to_read(tmp_path: Path, capsys: Any) -> None:
    write(tmp_path / "log.json", "{", "")
    assert main(["import", "personalizer", "log.json", "--to", "log.parquet"]) == 3
    assert capsys.readouterr().out.startswith(
        "None of 2 lines could be read as an event: nothing was written.\n"
    )
    assert not Path("log.parquet").exists()


def test_into_a_store_and_once_more(tmp_path: Path, capsys: Any) -> None:
    write(tmp_path / "log.json", *(one for one, _ in world(20)), "")
    Path("news.toml").write_text('[policy]\nkind = "auto"\nsize = "small"\n')
    asked = [
        "import",
        "personalizer",
        "log.json",
        "--to",
        "news.sqlite",
        "--policy",
        "news.toml",
    ]
    assert main(asked) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        "20 of 21 lines are events, 20 with a reward; the others are listed below.\n\n"
        "1 line empty\n"
    )
    assert said.endswith("\nstore: news.sqlite\n")
    assert main(asked) == 0
    assert "\n20 of 20 events were in the store before.\n" in capsys.readouterr().out
    assert main(["verify", "news.sqlite", "--models", "news.toml", "--strict"]) == 0


def test_a_policy_file_that_is_not_there_is_made(tmp_path: Path, capsys: Any) -> None:
    write(
        tmp_path / "log.json",
        *(event(str(i), TWO, [0.5, 0.5], reward=i - 1.0) for i in range(3)),
    )
    assert (
        main(
            [
                "import",
                "personalizer",
                "log.json",
                "--to",
                "log.parquet",
                "--policy",
                "news.toml",
            ]
        )
        == 0
    )
    said = capsys.readouterr().out
    assert said.startswith(
        "news.toml was not there, and is made: arms come with the call, rewards go "
        "from -1 to 1.\n3 "
    )
    made = Path("news.toml").read_text()
    assert (
        main(
            [
                "import",
                "personalizer",
                "log.json",
                "--to",
                "news.sqlite",
                "--policy",
                "news.toml",
            ]
        )
        == 0
    )
    assert capsys.readouterr().out.startswith("3 of 3 lines are events")
    assert Path("news.toml").read_text() == made
    assert (
        main(
            [
                "import",
                "personalizer",
                "log.json",
                "--to",
                "log.parquet",
                "--policy",
                "gone/news.toml",
            ]
        )
        == 2
    )
    assert "must be in a folder that exists; got 'gone'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["log.json", "--to", "log.csv"],
            "for a store, give its policy with --policy FILE",
        ),
        (
            ["log.json", "--to", "other.sqlite", "--policy", "news.toml"],
            "to must be that of news.toml, ",
        ),
        (
            [
                "log.json",
                "--to",
                "postgresql://me:secret@db/x",
                "--policy",
                "news.toml",
            ],
            "got 'postgresql://me:…@db/x'",
        ),
        (
            ["none.json", "--to", "log.parquet"],
            "none.json must be a file; there is none",
        ),
        (
            ["none.json", "--to", "news.sqlite", "--policy", "news.toml"],
            "none.json must be a file; there is none",
        ),
        (["log.json", "--to", "no/log.parquet"], "its folder does not exist"),
        (
            ["log.json", "--to", "log.parquet", "--reward", "1", "0"],
            "low must be below high",
        ),
    ],
)
def test_wrong_questions(
    tmp_path: Path, capsys: Any, arguments: list[str], sentence: str
) -> None:
    write(tmp_path / "log.json", event("1", TWO, np.full(2, 0.5).tolist()))
    Path("news.toml").write_text('[policy]\nkind = "auto"\n')
    assert main(["import", "personalizer", *arguments]) == 2
    assert sentence in capsys.readouterr().err
    assert not Path("news.sqlite").exists()
