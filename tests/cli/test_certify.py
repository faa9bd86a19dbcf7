"""`oddsmith certify`: a line for each condition, and 3 where the loss fails."""

import json
from pathlib import Path
from typing import Any

import pytest

import oddsmith as od
from oddsmith.cli.main import main


def test_certify_own_losses(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    (tmp_path / "my_losses.py").write_text(
        "def good(g, r):\n    return 3 * (g - r) ** 2\n\n\ndef bad(g, r):\n"
        "    return abs(g - r)\n\n\nnumber = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["certify", "my_losses:good", "--json"]) == 0
    good = json.loads(capsys.readouterr().out)
    assert good["holds"]
    assert good["critical_eta"] == pytest.approx(2 / 3, abs=1e-6)
    assert main(["certify", "my_losses:bad"]) == 3
    said = capsys.readouterr().out
    assert said.startswith("my_losses:bad violates C1 for predictions in [0, 1]")
    assert "E lhat >= 0; at true mean 0.25, prediction 0: E lhat = -0.125" in said
    assert main(["certify", "my_losses:bad", "--json"]) == 3
    bad = json.loads(capsys.readouterr().out)
    assert not bad["holds"]
    assert {name: one["holds"] for name, one in bad["conditions"].items()} == {
        "C1": False,
        "C2": None,
        "C3": None,
        "C4": None,
    }
    (tmp_path / "broken.py").write_text("def f(:\n")
    for wrong in (
        "my_losses:missing",
        "nowhere:f",
        "my_losses",
        "my_losses:number",
        "broken:f",
        ".my_losses:good",
    ):
        assert main(["certify", wrong]) == 2
        error = capsys.readouterr().err
        assert error.startswith("oddsmith: loss must be")
        assert error.count("\n") == 1


def test_every_condition_has_a_line_that_says_what_it_is(capsys: Any) -> None:
    assert main(["certify", "square"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("square satisfies C1 to C4")
    for line in (
        (
            "C1  holds   consistency: the true mean has the smallest expected loss, E "
            "lhat >= 0"
        ),
        "C2  holds   informativeness",
        "C3  holds   boundedness",
        "C4  holds   self-boundedness",
    ):
        assert line in said


def test_log_loss_up_to_0_and_1_is_unbounded(capsys: Any) -> None:
    assert main(["certify", "log"]) == 3
    said = capsys.readouterr().out
    assert "log violates C3 for predictions in [0, 1]" in said
    assert "--low 0.01 --high 0.99" in said
    assert "C1  ?       consistency" in said


def test_a_loss_that_cannot_tell_predictions_apart_breaks_c2(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    (tmp_path / "flat.py").write_text(
        "import numpy as np\n\n\ndef f(g, r):\n    return (np.clip(g, 0.3, 0.7) - r) "
        "** 2\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["certify", "flat:f"]) == 3
    assert "some predictions cannot be distinguished" in capsys.readouterr().out


def test_commands_know_every_named_loss(monkeypatch: Any, capsys: Any) -> None:
    third = od.losses.scaled(od.square_loss, 2.0)
    monkeypatch.setitem(od.losses.LOSSES, "third", third)
    assert main(["certify", "third"]) == 0
    assert capsys.readouterr().out.startswith("third satisfies C1 to C4")
    for command in ("bound", "tune"):
        assert main([command, "--loss", "third", "--bounds-only"]) == 0
    capsys.readouterr()
    assert main(["certify", "cubic"]) == 2
    assert (
        "loss must be one of log, square, third, module:function, or a formula of"
        in capsys.readouterr().err
    )


def test_a_formula_is_certified_for_the_rewards_that_were_asked_for(
    capsys: Any,
) -> None:
    assert main(["certify", "(g-r**2)**2"]) == 3
    printed = capsys.readouterr().out
    assert "violates C1 for predictions in [0, 1] and rewards in [0, 1]" in printed
    assert "at true mean 0.5, prediction 0.25, reward" in printed
    assert main(["certify", "(g-r**2)**2", "--rewards", "binary", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["proved"]
    assert found["rewards"] == "binary"


def test_what_is_not_proved_is_not_certified(capsys: Any) -> None:
    assert main(["certify", "(g-r)**2 + 1e-9*g"]) == 3
    printed = capsys.readouterr().out
    assert "is not certified for predictions in [0, 1]" in printed
    assert "A check on a grid of 400 cells found no violation" in printed
    assert "C1  ?       consistency" in printed
