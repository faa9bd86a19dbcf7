"""Every example runs, and shows what it promises."""

import subprocess
import sys
from pathlib import Path

import oddsmith as od

EXAMPLES = Path(od.__file__).parents[2] / "examples"


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_digits(tmp_path: Path) -> None:
    printed = run("digits.py", "--out", str(tmp_path))
    assert "the agent was right" in printed
    assert (tmp_path / "digits.png").read_bytes().startswith(b"\x89PNG")
    decisions = [od.Decision.from_json(line) for line in (tmp_path / "decisions.jsonl").read_text().splitlines()]
    assert len(decisions) == 1647
    assert all(decision.propensity > 0 for decision in decisions)


def test_every_example_has_a_test() -> None:
    here = Path(__file__).read_text()
    assert all(example.name in here for example in EXAMPLES.glob("*.py"))
