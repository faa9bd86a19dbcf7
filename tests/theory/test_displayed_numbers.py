"""Numbers that docs/math displays, computed again."""

import re
from math import atanh, exp, log, sqrt
from pathlib import Path

import pytest

import oddsmith as od
from oddsmith import theory
from oddsmith.claims import chain

MATH = Path(od.__file__).parents[2] / "docs" / "math"


def page(name: str) -> str:
    return (MATH / f"{name}.md").read_text()


@pytest.mark.parametrize(
    ("loss", "eta", "growth"),
    [
        ("log", 0.5, 0.9 / 3 + 0.1 * 3),
        ("square", 1.0, 0.9 * exp(-0.8) + 0.1 * exp(0.8)),
    ],
)
def test_regret_without_exploration(loss: str, eta: float, growth: float) -> None:
    """3.5: above the lower bound at every horizon, and to the limit in the end."""
    prior = 0.01
    limit = 0.4 / (1 - growth) * (1 - prior) / prior
    horizons, regret = chain.exact_regret(
        loss, eta=eta, gamma=0.0, prior=prior, doublings=34
    )
    least = 0.4 * (1 - prior) * (1 - (1 - prior) ** horizons) / prior
    assert (regret >= least - 1e-9).all()
    assert regret[-1] == pytest.approx(limit, rel=1e-3)
    assert least[-1] == pytest.approx(39.6)
    assert f"{limit:.4g} for {loss} loss" in page("bounds")


def test_the_floor_of_gts_has_the_constant_of_its_proof() -> None:
    """9.1: the balance of the two worlds, and every number on the way."""
    text = page("open-questions")
    constant = (0.4 / 128) ** (1 / 3)
    assert f"{constant:.4f}\\, B^{{1/3}}" in text
    assert theory.sampling_floor(steps=2**16, prior=1e-12) <= (
        constant * (12 * log(10)) ** (1 / 3) * 2 ** (32 / 3)
    )
    assert 1 - 1 / 5 - 4 / 24 - exp(-3) >= 1 / 2
    assert exp(4.5) * (5.5 / 10) ** 10 < 0.23
    assert 0.4 * (1 - 1 / 5 - 1 / 6 - 0.23) >= 0.16
    kappa = 2 * atanh(0.5)
    assert f"{kappa:.4f}" in text
    assert constant * kappa ** (-1 / 3) == pytest.approx(0.142, abs=5e-4)
    assert 4 * kappa / 24 <= 0.184
    bracket = 1 - 1 / 5 - 0.184 - exp(-3)
    assert bracket >= 0.566
    assert 2 * 0.566 / sqrt(kappa) >= 1.08
    assert 24 / kappa >= 21.8
    assert 24 / kappa >= 3.3 * max(5.5, 24 / (4 * kappa) + 1)
    # Chernoff: e^(n - m) (m/n)^n for a mean of m
    m = 24 / (4 * kappa) + 1
    n = 24 / kappa
    assert exp(n - m) * (m / n) ** n <= 0.001
    assert 0.25 * (1 - 1 / 5 - 0.184 - 0.001) >= 0.15


def test_the_constants_side_by_side() -> None:
    """3.7: C (K' L)^(1/3) T^(2/3) at the best gamma, from c or kappa_2."""
    rows = dict(
        re.findall(r"^\| (.+?) \| ([0-9.]+) \| \$K", page("bounds"), flags=re.MULTILINE)
    )
    tuned = 3 * 2 ** (-2 / 3)
    e2 = exp(1) - 2
    expected = [
        tuned * (8 * e2 * 4) ** (1 / 3),
        tuned * (8 * e2 * 4 / 3) ** (1 / 3),
        tuned * 0.46 ** (-1 / 3),
        tuned * 0.5 ** (-1 / 3),
    ]
    assert [float(value) for value in rows.values()] == pytest.approx(
        expected, abs=6e-4
    )
    assert 3 * (9 / 32) ** (1 / 3) / tuned == pytest.approx(1.04, abs=1e-3)


def test_the_paper_s_corollary_at_its_best_gamma() -> None:
    """3.6: the command's number."""
    found = theory.regret_bound(
        "square", n_arms=5, steps=10_000, prior=0.01, constants="paper"
    )
    assert f"{found.bound:.2f}" in page("bounds")
    assert f"{found.gamma:.6f}" in page("bounds")


@pytest.mark.parametrize("confirmations", [19, 26])
def test_confirmations_that_break_c2(confirmations: int) -> None:
    """10.7: the ratio passes the paper's kappa_1 at exactly this many."""
    if confirmations == 19:
        kappa2, mean, step = 40.0, 0.04, 0.2
    else:
        width = 2 * log(1.5)
        kappa2, mean, step = 8 * width / 0.1, 0.2 * log(1.5) / width, log(1.5) / 2

    def ratio2(n: int) -> float:
        return 0.04 / mean * (1 + exp(step * n))

    assert ratio2(confirmations - 1) <= kappa2 < ratio2(confirmations)
    assert str(confirmations) in page("exact")


def test_errors_and_sharpenings_are_told_apart() -> None:
    errors, sharpenings = page("errata").split("## Sharpenings")
    assert re.findall(r"^\| (E\d+)", sharpenings, flags=re.MULTILINE) == [
        "E7",
        "E18",
        "E20",
        "E22",
    ]
    assert len(re.findall(r"^\| E\d+", errors, flags=re.MULTILINE)) == 18


def test_sections_that_docstrings_cite_exist() -> None:
    """A docstring's "theory 5.3" is a heading or a numbered paragraph of docs/math."""
    text = "\n".join(one.read_text() for one in MATH.glob("*.md"))
    known = set(re.findall(r"(?:^#+ |\*\*)(\d+\.\d+) ", text, flags=re.MULTILINE))
    source = Path(od.__file__).parent
    for path in source.rglob("*.py"):
        for cited in re.findall(r"theory (\d+\.\d+)", path.read_text()):
            assert cited in known, f"{path.name} cites {cited}"
