"""Every example runs, and shows what it promises."""

import re
import subprocess
import sys
from pathlib import Path

import oddsmith as od

EXAMPLES = Path(od.__file__).parents[2] / "examples"


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_digits(tmp_path: Path) -> None:
    printed = run("digits.py", "--out", str(tmp_path), "--runs", "10")
    table = printed[printed.index("who answers") :]
    shares = {
        line.rsplit("  ", 3)[0].strip(): line
        for line in table.splitlines()
        if "%" in line
    }
    assert next(iter(shares)).startswith(
        "neighbours, 150 digits, alone (best in hindsight)"
    )
    ranks = [
        next(i for i, who in enumerate(shares) if who.startswith(name))
        for name in ("oddsmith", "forest", "uniform")
    ]
    assert ranks == sorted(ranks)
    page = (tmp_path / "index.html").read_text()
    assert page.count("<figure>") == 2
    (sentence,) = [
        line for line in printed.splitlines() if line.startswith("Told only whether")
    ]
    own = next(line for who, line in shares.items() if who.startswith("oddsmith"))
    # one number, one source
    assert re.findall(r"[\d.]+%", sentence) == [re.findall(r"[\d.]+%", own)[0]]
    assert sentence.endswith("(95 % interval over 10 runs).")
    assert f'<p class="lead">{sentence}</p>' in page
    intro = page.partition("<body>")[2].partition("<h2")[0]
    assert re.findall(r"[\d.]+%", intro) == re.findall(r"[\d.]+%", sentence)
    assert (
        printed.index(sentence)
        < printed.index("0 is the best model")
        < printed.index("who answers")
    )
    uniform = next(
        line for line in printed.splitlines() if line.startswith("uniform play ")
    )
    assert "> 1" in uniform  # beyond the axis, which ends with those who learn
    decisions = [
        od.Decision.from_json(line)
        for line in (tmp_path / "decisions.jsonl").read_text().splitlines()
    ]
    assert len(decisions) == 1647
    assert all(decision.propensity > 0 for decision in decisions)


def test_news(tmp_path: Path) -> None:
    """The draws of a day depend on when rewards arrive; in a process, 30 of 30 days
    ended with the best article."""
    printed = run("news.py", "--out", str(tmp_path))
    (sentence,) = [
        line
        for line in printed.splitlines()
        if line.startswith("storm-warning, unknown until visit 130")
    ]
    found = re.search(
        r"to (\d+) of the last 100 visitors; they clicked (\d+) times, the first 100 "
        r"(\d+)",
        sentence,
    )
    assert found is not None
    shown, late, early = map(int, found.groups())
    assert shown > 50
    assert late > early
    rows = {
        line.split()[0]: line.split()[2:]
        for line in printed.splitlines()
        if "%" in line
    }
    assert rows["storm-warning"][0] == "-"
    counts = [[0 if n == "-" else int(n) for n in row] for row in rows.values()]
    # every visitor was shown one article
    assert [sum(part) for part in zip(*counts, strict=True)] == [80] * 5
    page = (tmp_path / "news.html").read_text()
    assert f'<p class="lead">{sentence}</p>' in page
    assert page.count("<figure>") == 1
    assert (
        printed.index(sentence)
        < printed.index("clicked by")
        < printed.index("whom it trusts")
    )


def test_every_example_has_a_test() -> None:
    here = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert all(
        example.name in here for example in EXAMPLES.iterdir() if example.is_file()
    )
