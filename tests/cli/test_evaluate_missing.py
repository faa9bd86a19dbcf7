"""A report with figures, where they cannot be drawn: refused before the work."""

import sys
from pathlib import Path

import pytest

from oddsmith.cli.main import main


def test_what_cannot_be_drawn_is_said_before_the_log_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log is not there, so that reading it would be another refusal."""
    asked = ["evaluate", str(tmp_path / "log.jsonl"), "--target", "uniform"]
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main([*asked, "--out", str(tmp_path / "report")]) == 2
    assert (
        "reports with figures need the extra oddsmith[lab]" in capsys.readouterr().err
    )
    assert main(asked) == 2
    assert "log.jsonl" in capsys.readouterr().err
