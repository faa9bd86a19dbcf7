"""`oddsmith bound --compare`, as a person and as a program would call it."""

import json
from typing import Any

import pytest

from oddsmith import theory
from oddsmith.cli.main import main


def test_a_table_for_people(capsys: Any) -> None:
    assert (
        main(
            [
                "bound",
                "--compare",
                "--arms",
                "2",
                "--steps",
                "65536",
                "--prior",
                "1e-12",
            ]
        )
        == 0
    )
    text = capsys.readouterr().out
    assert text.startswith(
        "SquareCB loses at most 1,346 of 65,536 rewards, GTS 10,974 with "
        "tuned gamma, and for every gamma GTS loses at least 717 in its worst world.\n\n"
        "One expert is right; contexts may be an adversary's:\n  SquareCB "
    )
    lines = {
        line.split("  ")[1]: line for line in text.splitlines() if line.startswith("  ")
    }
    assert "says nothing" in lines["GTS, gamma 0"]
    assert "4,037.0   2 sqrt((K + 1/4) T L)" in lines["Feel-Good Thompson sampling"]
    assert lines["any algorithm"].split()[2:4] == ["no", "constant"]
    assert lines["FastCB, small costs"].endswith("literature")
    assert "Not given" not in text


def test_what_was_assumed_and_who_is_best(capsys: Any) -> None:
    assert main(["bound", "--compare"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(
        "SquareCB loses at most 303 of 10,000 rewards, GTS 853 without exploration.\n"
    )
    assert (
        "assumed: 5 arms, 10,000 decisions, 10 experts that are equally likely." in text
    )
    assert main(["bound", "--compare", "--steps", "10", "--prior", "1e-3"]) == 0
    assert capsys.readouterr().out.startswith(
        "GTS with tuned gamma loses at most 8.0 of 10 rewards, the smallest"
    )
    assert (
        main(
            ["bound", "--compare", "--arms", "1000", "--steps", "10", "--prior", "1e-9"]
        )
        == 0
    )
    assert "the smallest bound of all" in capsys.readouterr().out


def test_json_for_programs(capsys: Any) -> None:
    asked = [
        "--arms",
        "3",
        "--steps",
        "1e5",
        "--prior",
        "0.01",
        "--entropy",
        "2",
        "--json",
    ]
    assert main(["bound", "--compare", *asked]) == 0
    rows = json.loads(capsys.readouterr().out)
    wanted = theory.compare(n_arms=3, steps=1e5, prior=0.01, entropy=2)
    assert rows == [
        {**row._asdict(), "says_nothing": row.says_nothing(1e5)} for row in wanted
    ]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["--compare", "--loss", "square"], "leave out --loss"),
        (["--compare", "--gamma", "0.1"], "leave out --loss"),
        (
            ["--compare", "--prior", "0.1", "0.2"],
            "prior must be one number with compare",
        ),
        (
            ["--compare", "--prior", "0.5", "--entropy", "0.1"],
            "entropy must be at least 0.6931",
        ),
        (["--compare", "--horizon", "3"], "leave out --horizon"),
        (["--entropy", "1"], "must be given together with compare"),
    ],
)
def test_wrong_questions(asked: list[str], message: str, capsys: Any) -> None:
    assert main(["bound", *asked]) == 2
    assert message in capsys.readouterr().err
