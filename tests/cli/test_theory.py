"""`oddsmith bound | tune | certify`, as a person and as a program would call them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from oddsmith.cli.main import main

BOUND = ["bound", "--loss", "square", "--arms", "5", "--steps", "10000", "--prior", "0.01"]


def test_the_documented_example_in_a_process_of_its_own() -> None:
    command = [sys.executable, "-m", "oddsmith", *BOUND, "--constants", "paper", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found = json.loads(done.stdout)
    assert round(found["bound"], 2) == 5930.24
    assert round(found["gamma"], 6) == 0.278632
    assert found["applies"].startswith("applies when")
    assert set(found["terms"]) == {"learning", "exploration"}


def test_a_reader_that_stops_early_sees_no_traceback() -> None:
    command = [sys.executable, "-m", "oddsmith", *BOUND, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()  # before anything is printed
        error = running.stderr.read()
    assert error == ""
    assert running.returncode == 0


def test_a_table_for_people(capsys: Any) -> None:
    assert main([*BOUND, "0.1"]) == 0
    printed = capsys.readouterr().out
    for word in ("GTS, tight constants, prior 0.01", "prior 0.1", "SquareCB", "Feel-Good", "EXP4", "applies when"):
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
    assert "plot must be a path" in capsys.readouterr().err


def test_own_losses_with_a_range(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    (tmp_path / "deviance.py").write_text("import numpy as np\n\n\ndef f(g, r):\n    return g - r * np.log(g)\n")
    monkeypatch.chdir(tmp_path)
    problem = ["--loss", "deviance:f", "--arms", "3", "--prior", "0.1", "--steps", "1000"]
    assert main(["bound", *problem]) == 2
    assert "oddsmith: loss must" in capsys.readouterr().err
    assert main(["bound", *problem, "--low", "0.05", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["eta"] == pytest.approx(0.836, abs=1e-3)
    assert "[0.05, 1]" in found["applies"]
    assert main(["tune", *problem, "--low", "0.05"]) == 0


def test_a_plot_needs_a_kind_and_keeps_the_settings(tmp_path: Path, capsys: Any) -> None:
    assert main([*BOUND, "--plot", str(tmp_path / "picture")]) == 2
    assert "says its kind" in capsys.readouterr().err
    assert main([*BOUND, "--constants", "paper", "--plot", str(tmp_path / "p.svg")]) == 0
    assert "paper constants" in (tmp_path / "p.svg").read_text()


def test_tune(capsys: Any) -> None:
    problem = ["--loss", "log", "--arms", "10", "--prior", "0.01"]
    assert main(["tune", *problem, "--steps", "100000", "--json"]) == 0
    known = json.loads(capsys.readouterr().out)
    assert (known["eta"], known["schedule"]) == (0.5, None)
    assert main(["tune", *problem, "--json"]) == 0
    endless = json.loads(capsys.readouterr().out)
    assert endless["schedule"]["power"] == pytest.approx(1 / 3)
    assert main(["tune", *problem]) == 0
    assert "step^(-1/3)" in capsys.readouterr().out


def test_certify_own_losses(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    (tmp_path / "my_losses.py").write_text(
        "def good(g, r):\n    return 3 * (g - r) ** 2\n\n\ndef bad(g, r):\n    return abs(g - r)\n\n\nnumber = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["certify", "my_losses:good", "--json"]) == 0
    good = json.loads(capsys.readouterr().out)
    assert good["holds"]
    assert good["critical_eta"] == pytest.approx(2 / 3, abs=1e-6)
    assert main(["certify", "my_losses:bad"]) == 0
    assert "breaks C1 at true mean 0.25, prediction 0" in capsys.readouterr().out
    (tmp_path / "broken.py").write_text("def f(:\n")
    for wrong in ("my_losses:missing", "nowhere:f", "my_losses", "my_losses:number", "broken:f", ".my_losses:good"):
        assert main(["certify", wrong]) == 2
        error = capsys.readouterr().err
        assert error.startswith("oddsmith: loss must be")
        assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*BOUND[:-1], "0"], "prior must be in (0, 1]; got 0.0"),
        ([*BOUND[:6], "0.5", "--prior", "0.1"], "steps must be in [1, inf); got 0.5"),
        ([*BOUND, "--beta", "2", "--constants", "paper"], "beta must not be given for square loss"),
        ([*BOUND, "--gamma", "1.5"], "gamma must be in (0, 1]; got 1.5"),
        (["bound", "--loss", "log", *BOUND[3:], "--constants", "paper"], "beta must be given for log loss"),
    ],
)
def test_wrong_questions_exit_with_2_and_one_line(arguments: list[str], message: str, capsys: Any) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
