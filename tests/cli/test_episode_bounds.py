"""`oddsmith bound --horizon`, as a person and as a program would call it."""

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
                "--horizon",
                "20",
                "--episodes",
                "500",
                "--arms",
                "2",
                "--experts",
                "8",
            ]
        )
        == 0
    )
    text = capsys.readouterr().out
    assert text.startswith(
        "In the worst case learning costs at most 1,290 of 10,000 rewards, in 500 "
        "episodes of 20"
    )
    assert "Feel-Good" in text
    assert "3,704.6" in text


def test_json_for_programs(capsys: Any) -> None:
    asked = [
        "--horizon",
        "3",
        "--episodes",
        "1e5",
        "--prior",
        "0.1",
        "--policies",
        "2",
        "--gamma",
        "0.05",
        "--json",
    ]
    assert main(["bound", *asked]) == 0
    found = {row["algorithm"]: row for row in json.loads(capsys.readouterr().out)}
    problem: dict[str, Any] = {
        "horizon": 3,
        "n_actions": 2,
        "episodes": 1e5,
        "prior": 0.1,
        "policies": 2,
    }
    assert (
        found["posterior sampling, gamma 0.05"]["bound"]
        == theory.episode_bound(**problem, gamma=0.05).bound
    )
    assert found["Feel-Good"]["bound"] == theory.episode_feelgood_bound(**problem).bound
    # of one prior the entropy is not known
    assert "PSRL, right model drawn from the prior" not in found


def test_nothing_promised_is_said(capsys: Any) -> None:
    assert (
        main(
            [
                "bound",
                "--horizon",
                "20",
                "--episodes",
                "10",
                "--states",
                "6",
                "--prior",
                "0.1",
            ]
        )
        == 0
    )
    assert capsys.readouterr().out.startswith(
        "In the worst case there is no useful bound over 10 episodes of 20 steps"
    )


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["--horizon", "3", "--steps", "100"], "give --episodes"),
        (["--horizon", "3", "--loss", "square"], "leave out --loss"),
        (["--horizon", "3", "--prior", "0.1"], "policies or n_states must be given"),
        (["--horizon", "3", "--prior", "0.1", "0.2"], "prior must be one number"),
        (["--episodes", "100"], "must be given together with horizon"),
        (["--horizon", "0"], "horizon must be a whole number of at least 1"),
    ],
)
def test_wrong_questions(asked: list[str], message: str, capsys: Any) -> None:
    assert main(["bound", *asked]) == 2
    assert message in capsys.readouterr().err
