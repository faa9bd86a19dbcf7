"""`oddsmith bound | tune`, as a person and as a program would call them."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import oddsmith as od
from oddsmith.cli.main import main
from oddsmith.lab import simulate
from oddsmith.lab.worlds.tables import TableWorld, random_table

PROBLEM = ["--loss", "square", "--arms", "5", "--steps", "10000", "--prior", "0.01"]
BOUND = ["bound", "--bounds-only", *PROBLEM]


def test_the_documented_example_in_a_process_of_its_own() -> None:
    command = [
        sys.executable,
        "-m",
        "oddsmith",
        *BOUND,
        "--constants",
        "paper",
        "--json",
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=120
    )
    found = json.loads(done.stdout)
    assert round(found["bound"], 2) == 5930.24
    assert round(found["gamma"], 6) == 0.278632
    assert found["applies"].startswith("applies when")
    assert set(found["terms"]) == {"learning", "exploration"}


def test_a_reader_that_stops_early_sees_no_traceback() -> None:
    command = [sys.executable, "-m", "oddsmith", *BOUND, "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()  # before anything is printed
        error = running.stderr.read()
    assert error == ""
    assert running.returncode == 0


def test_a_table_for_people(capsys: Any) -> None:
    assert main([*BOUND, "0.1"]) == 0
    printed = capsys.readouterr().out
    for word in (
        "GTS, tight constants, prior 0.01",
        "prior 0.1",
        "SquareCB",
        "Feel-Good",
        "EXP4",
        "applies when",
    ):
        assert word in printed


def test_several_priors_as_json(capsys: Any) -> None:
    assert main([*BOUND, "0.1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["prior"] for row in found] == [0.01, 0.1]
    assert found[0]["bound"] > found[1]["bound"]


def test_a_plot(tmp_path: Path, capsys: Any) -> None:
    assert main([*BOUND, "--plot", str(tmp_path / "bounds.png")]) == 0
    assert (tmp_path / "bounds.png").read_bytes().startswith(b"\x89PNG")
    assert main([*BOUND, "--plot", str(tmp_path / "nowhere" / "bounds.png")]) == 2
    assert "plot must be a writable path" in capsys.readouterr().err


def test_own_losses_with_a_range(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    (tmp_path / "deviance.py").write_text(
        "import numpy as np\n\n\ndef f(g, r):\n    return g - r * np.log(g)\n"
    )
    monkeypatch.chdir(tmp_path)
    problem = ["--loss", "deviance:f", "--arms", "3", "--prior", "0.1", "--steps", "20"]
    assert main(["bound", *problem]) == 2
    assert "oddsmith: loss must" in capsys.readouterr().err
    assert main(["bound", *problem, "--low", "0.05", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["eta"] == pytest.approx(0.836, abs=1e-3)
    assert "[0.05, 1]" in found["applies"]
    assert found["simulated"]["steps"] == 20
    assert main(["tune", *problem, "--low", "0.05", "--bounds-only"]) == 0


def test_a_plot_needs_a_kind_and_keeps_the_settings(
    tmp_path: Path, capsys: Any
) -> None:
    assert main([*BOUND, "--plot", str(tmp_path / "picture")]) == 2
    assert "with a suffix" in capsys.readouterr().err
    assert (
        main([*BOUND, "--constants", "paper", "--plot", str(tmp_path / "p.svg")]) == 0
    )
    assert "paper constants" in (tmp_path / "p.svg").read_text()


def test_tune(capsys: Any) -> None:
    problem = ["--loss", "log", "--arms", "10", "--prior", "0.01", "--bounds-only"]
    assert main(["tune", *problem, "--steps", "100000", "--json"]) == 0
    known = json.loads(capsys.readouterr().out)
    assert (known["eta"], known["schedule"]) == (0.5, None)
    assert main(["tune", *problem, "--json"]) == 0
    endless = json.loads(capsys.readouterr().out)
    assert endless["schedule"]["power"] == pytest.approx(1 / 3)
    assert main(["tune", *problem]) == 0
    assert "step^(-1/3)" in capsys.readouterr().out


def test_the_worst_case_stands_beside_what_a_simulation_costs(capsys: Any) -> None:
    asked = ["bound", "--arms", "3", "--steps", "300", "--experts", "8", "--json"]
    assert main(asked) == 0
    first = capsys.readouterr().out
    assert main(asked) == 0
    assert capsys.readouterr().out == first  # seeded
    found = json.loads(first)
    played = found["simulated"]
    assert (played["steps"], played["n_arms"], played["n_experts"], played["seed"]) == (
        300,
        3,
        8,
        0,
    )
    costs = {row["policy"]: row["regret"] for row in played["rows"]}
    bounds = {row["policy"]: row["bound"] for row in played["rows"]}
    assert bounds["GTS, tight constants, prior 0.125"] == found["bound"]
    assert set(costs) > {
        "GTS, gamma 0.02",
        "GTS, gamma 0",
        "SquareCB",
        "Feel-Good",
        "EXP4",
        "Hedged",
    }
    policy = od.GeneralizedThompsonSampling(
        od.TableExperts(random_table(10, 8, 3, seed=0)), gamma=0.02
    )
    run = simulate(
        policy,
        TableWorld(random_table(10, 8, 3, seed=0)[:, 0]),
        steps=300,
        runs=played["runs"],
    )
    assert costs["GTS, gamma 0.02"] == pytest.approx(run.total.mean())


def test_the_first_line_can_be_read_aloud_and_the_rest_says_why(capsys: Any) -> None:
    assert main(["bound", "--arms", "3", "--steps", "100", "--gamma", "0.5"]) == 0
    said = capsys.readouterr().out
    head = (
        r"In the worst case learning costs at most [\d.]+ of 100 rewards \(GTS, gamma "
        r"0.5\); in a simulated world "
    )
    assert re.match(head + r"it cost [\d.]+, and [\d.]+ with gamma 0.02\.\n\n", said)
    for words in (
        "Simulated: 100 decisions among 3 arms; 10 experts",
        "Why the two differ.",
        "Why GTS is the default",
    ):
        assert words in said
    assert said.endswith(
        "Not given, so assumed: log loss, 10 experts that are equally likely.\n"
    )
    assert main(["tune", "--arms", "3", "--steps", "50"]) == 0
    answer = (
        r"For the worst case use eta 0.5 and gamma [\d.]+; in a simulated world that "
        r"cost [\d.]+ rewards, and "
    )
    assert re.match(answer, capsys.readouterr().out)
    assert main(["bound", "--bounds-only", "--steps", "20", "--gamma", "0.02"]) == 0
    assert capsys.readouterr().out.startswith(
        "In the worst case there is no useful bound over 20 decisions"
    )


@pytest.mark.parametrize(
    "asked",
    [["--arms", "1"], ["--prior", "1"], ["--prior", "1e-310"], ["--gamma", "0"]],
)
def test_edges_are_simulated_too(asked: list[str], capsys: Any) -> None:
    assert main(["bound", "--steps", "5", "--json", *asked]) == 0
    found = json.loads(capsys.readouterr().out)
    assert all(0 <= row["regret"] <= 5 for row in found["simulated"]["rows"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*BOUND[:-1], "0"], "prior must be in (0, 1]; got 0.0"),
        ([*BOUND, "--steps", "0.5"], "steps must be in [1, inf); got 0.5"),
        ([*BOUND, "--experts", "5"], "prior must not be given with experts"),
        (
            ["bound", "--experts", "0"],
            "experts must be a whole number of at least 1; got 0",
        ),
        (["bound", "--seed", "-1"], "seed must be a whole number"),
        (
            [*BOUND, "--beta", "2", "--constants", "paper"],
            "beta must not be given for square loss",
        ),
        ([*BOUND, "--gamma", "1.5"], "gamma must be in (0, 1]; got 1.5"),
        (
            [*BOUND, "--loss", "log", "--constants", "paper"],
            "beta must be given for log loss",
        ),
    ],
)
def test_wrong_questions_exit_with_2_and_one_line(
    arguments: list[str], message: str, capsys: Any
) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
