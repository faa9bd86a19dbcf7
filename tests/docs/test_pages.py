"""Every page's Python runs, and nothing that must be said is missing."""

import doctest
import re
import runpy
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from docs.printing import follows, spoken
from docs.test_tutorials import WALKED

REPOSITORY = Path(od.__file__).parents[2]
PAGES = sorted(
    [
        *REPOSITORY.glob("*.md"),
        *(REPOSITORY / "docs").rglob("*.md"),
        *(REPOSITORY / "benchmarks").glob("*.md"),
    ]
)
NOT_WALKED = [
    page
    for page in PAGES
    if page not in {REPOSITORY / "docs" / name for name in WALKED}
]
SESSION = re.compile(r"^```pycon\n(.*?)^```", re.DOTALL | re.MULTILINE)


class Anything:
    """A model for the README's example."""

    def predict(self, rows: Any) -> Any:
        return np.tile([0.2, 0.3, 0.5], (len(rows), 1))


GIVEN = {
    "README.md": dict.fromkeys(("logistic", "forest", "boosting", "newer"), Anything())
    | {"context": np.zeros(4)}
}


@pytest.mark.parametrize(
    "page", NOT_WALKED, ids=lambda p: str(p.relative_to(REPOSITORY))
)
def test_the_python_of_a_page_runs_and_prints_what_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    for said, shown in spoken(page.read_text(), tmp_path, GIVEN.get(page.name)):
        assert shown is None or follows(said, shown), said


def test_teeth_a_page_that_shows_another_number_is_found_out(tmp_path: Path) -> None:
    page = "```python\nprint(1)\n```\n\n```text\n{}\n```\n\n```python\nprint(2)\n```\n"
    (said, shown), (further, nothing) = spoken(page.format(1), tmp_path)
    assert (said, shown, further, nothing) == ("1\n", "1\n", "2\n", None)
    assert follows(said, "1\n")
    assert not follows(said, spoken(page.format(7), tmp_path)[0][1] or "")


@pytest.mark.parametrize(
    "page", [p for p in PAGES if SESSION.search(p.read_text())], ids=lambda p: p.name
)
def test_a_session_on_a_page_prints_what_it_says(page: Path) -> None:
    text = "\n".join(SESSION.findall(page.read_text()))
    session = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    assert session.examples
    assert doctest.DocTestRunner().run(session).failed == 0


def test_every_decision_page_is_listed_and_complete() -> None:
    folder = REPOSITORY / "docs" / "decisions"
    index = (folder / "index.md").read_text()
    pages = [p for p in folder.glob("*.md") if p.name != "index.md"]
    assert len(pages) >= 10
    for page in pages:
        assert page.name in index
        text = page.read_text()
        rest = ("**Rejected.**", "**Consequences.**")
        if "**Cost.**" in text:
            rest = ("**Cost.**", "**What would change our mind.**")
        for heading in ("**Context.**", "**Decision.**", *rest):
            assert heading in text, f"{page.name} has no {heading}"


def test_the_changelog_has_this_version() -> None:
    assert f"## {od.__version__}" in (REPOSITORY / "CHANGELOG.md").read_text()


def test_the_page_on_concepts_names_every_bank() -> None:
    concepts = (REPOSITORY / "docs" / "explanation" / "concepts.md").read_text()
    for name in (
        "GivenExperts",
        "TableExperts",
        "FunctionExperts",
        "ModelExperts",
        "OnnxExperts",
        "LinearExperts",
    ):
        assert name in concepts


def test_every_formula_renders_and_every_slip_has_its_test() -> None:
    formulas = runpy.run_path(str(REPOSITORY / "docs" / "hooks" / "formulas.py"))
    count = 0
    for page in sorted((REPOSITORY / "docs" / "math").glob("*.md")):
        html = formulas["shown"](formulas["hidden"](page.read_text()))
        count += html.count("<math")
        assert "$" not in re.sub(r"`[^`]*`", "", html), page
        assert "<merror" not in html
        written = [unescape(one) for one in re.findall(r"<m[ion][^>]*>([^<]*)<", html)]
        # a command that the converter does not know
        assert not any("\\" in one for one in written), page
    assert count > 100
    slips = re.findall(
        r"^\| (E\d+) \|",
        (REPOSITORY / "docs" / "math" / "errata.md").read_text(),
        re.MULTILINE,
    )
    tests = (REPOSITORY / "tests" / "theory" / "test_errata.py").read_text()
    assert sorted(slips, key=lambda slip: int(slip[1:])) == [
        f"E{i}" for i in range(1, 23)
    ]
    assert all(f"def test_{slip.lower()}_" in tests for slip in slips)
