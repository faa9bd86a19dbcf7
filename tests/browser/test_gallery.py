"""The script of the gallery makes every picture, in this browser."""

import subprocess
import sys
from pathlib import Path

import pytest

import oddsmith as od
from browser.chromium import Chromium

REPOSITORY = Path(od.__file__).parents[2]


@pytest.mark.soak
def test_all_pictures_are_made(chromium: Chromium, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "examples.gallery", "--out", str(tmp_path)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=1500,
        cwd=REPOSITORY,
    )
    assert done.returncode == 0, done.stderr
    made = {path.name: path for path in tmp_path.iterdir()}
    assert set(made) == {
        path.name for path in (REPOSITORY / "docs" / "gallery").iterdir()
    }
    assert all(1_000 < path.stat().st_size < 200_000 for path in made.values())
    for name in ("explain.svg", "idea.svg"):  # no clock and no browser: seeds decide
        words = (REPOSITORY / "docs" / "gallery" / name).read_text()
        assert made[name].read_text().count("<text") == words.count("<text")
