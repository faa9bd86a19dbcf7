"""Every example runs, and shows what it promises."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
from examples import models

import oddsmith as od

EXAMPLES = Path(od.__file__).parents[2] / "examples"


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_models(tmp_path: Path) -> None:
    """The answer comes first, and its numbers are those of the table."""
    sizes = ("--runs", "2", "--visitors", "120")
    printed = run("models.py", "--out", str(tmp_path), *sizes)
    answer = printed.splitlines()[2]
    table = printed[printed.index("method  ") :].partition("\n\n")[0]
    width = table.index("clicks")
    rows = table.splitlines()[1:]
    clicks = {row[:width].strip(): float(row[width:].split()[0]) for row in rows}
    assert list(clicks) == sorted(clicks, key=lambda name: -clicks[name])
    methods = (models.AGENT, models.AB_TEST, models.BEST)
    stated = re.findall(r"\d+", answer.partition(": ")[2].replace("1,000", ""))
    assert stated == [f"{clicks[name]:.0f}" for name in methods]
    assert printed.index(answer) < printed.index("0 is a random model")
    assert printed.index("0 is a random model") < printed.index("method  ")
    page = (tmp_path / "index.html").read_text()
    assert f'<p class="lead">{answer}</p>' in page
    assert page.count("<figure>") == 3
    lines = (tmp_path / "decisions.jsonl").read_text().splitlines()
    decisions = [od.Decision.from_json(line) for line in lines]
    assert len(decisions) == 120
    assert all(decision.propensity > 0 for decision in decisions)


def result_of(**clicks: float) -> models.Result:
    """A result in which these methods earn so much, and all others 0.1."""
    means = dict.fromkeys([*models.METHODS], 0.1)
    means |= {getattr(models, name): mean for name, mean in clicks.items()}
    del means[models.BEST]
    noise = np.random.default_rng(1).normal(0, 1e-4, (30, 5))
    earned = {name: mean + noise * i for i, (name, mean) in enumerate(means.items())}
    return models.Result(earned, {"one": noise + 0.05, "two": noise + 0.08}, 10, 20)


def test_a_rival_that_leads_is_named_with_its_reason() -> None:
    behind = result_of(AGENT=0.11, EPSILON=0.12)
    assert "10 % more clicks than an A/B test" in models.verdict(behind)
    assert "110 of 1,000 visitors clicked, instead of 100 and 80" in models.verdict(
        behind
    )
    assert models.nearest(behind).startswith(
        f"The best method was {models.EPSILON}; compared with it, oddsmith earned -8.3 %"
    )
    assert models.nearest(behind).endswith(models.METHODS[models.EPSILON])
    assert models.ahead(behind).count(f"{models.EPSILON} earned more: 120") == 3
    leading = result_of(AGENT=0.13, EPSILON=0.12)
    assert models.nearest(leading).startswith(
        f"The best alternative was {models.EPSILON}"
    )
    assert models.ahead(leading) == ""
    assert "20 % fewer clicks than an A/B test" in models.verdict(result_of(AGENT=0.08))


def test_an_ab_test_ships_its_winner_and_then_tests_the_new_model() -> None:
    """Models that are always or never clicked: nothing is left to chance."""
    rates = np.array([0.0, 1.0, 0.0, 0.0, 1.0])
    earned = np.repeat(np.tile(rates, (60, 1))[..., None], 3, axis=-1)
    clicks = models.ab_test(earned, 40, seed=1)[:, 0]
    np.testing.assert_array_equal(clicks[:10], [0, 1, 0, 0, 0, 1, 0, 0, 0, 1])
    np.testing.assert_array_equal(clicks[10:], 1)
    earned[40:, 1] = 0.0
    clicks = models.ab_test(earned, 40, seed=1)[:, 0]
    np.testing.assert_array_equal(clicks[40:50], [0, 1] * 5)
    np.testing.assert_array_equal(clicks[50:], 1)


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
