"""Prose stays plain and short: awkward patterns under a cap, pages under a length."""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import oddsmith as od

REPOSITORY = Path(od.__file__).parents[2]
SOURCES = sorted((REPOSITORY / "src").rglob("*.py"))
PAGES = sorted(
    [
        *(REPOSITORY / "docs").rglob("*.md"),
        REPOSITORY / "README.md",
        REPOSITORY / "CONTRIBUTING.md",
    ]
)
CAP_OF_SOURCES = 160  # only ever lowered
CAP_OF_PAGES = 10
WORDS_OF_PAGES = 80_000  # README and docs
WORDS = {"README.md": 800, "CONTRIBUTING.md": 1500}
WORDS_OF_A_DECISION = 400

PATTERNS = {
    "a clause in place of a noun": r"\b(?:those (?:that|who|of which)|that there (?:is|are)|of which|than those|what (?:there is|comes of|became of|becomes of))\b",
    "for in the sense of because": r", for (?:it|they|he|an?|the|what|there|none|these|those)\b",
    "nobody in particular": r"\b(?:whom|whoever|nobody|somebody|anybody)\b",
    "things that speak": r"\b(?:says|said|tells|told) (?:so|it|that|what|which|how|whether|who)\b",
    "old words": r"\b(?:anew|beforehand|thereof|therein|foresees?|foresaw|foreseen)\b",
    "a in the sense of per": r"\b(?:decisions?|calls?|requests?|rewards?|steps?) an? (?:second|minute|day|call|step|decision)\b",
}
FLAGGED = re.compile("|".join(f"(?:{one})" for one in PATTERNS.values()), re.IGNORECASE)
FENCED = re.compile(r"^( *)```.*?^\1```", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`[^`\n]*`")


def prose_of(path: Path) -> Iterator[str]:
    """Comments and strings with a space of a module; a page without its code."""
    text = path.read_text()
    if path.suffix == ".md":
        yield CODE.sub("code", FENCED.sub("", text))
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_text = token.type == tokenize.STRING and " " in token.string
        if token.type == tokenize.COMMENT or is_text:
            yield token.string


def flagged(paths: list[Path]) -> list[str]:
    """Awkward phrases, each with its file."""
    return [
        f"{path.name}: {found[0]}"
        for path in paths
        for piece in prose_of(path)
        for found in FLAGGED.finditer(piece)
    ]


def words(path: Path) -> int:
    """Words of a page, code and tables included."""
    return len(path.read_text().split())


@pytest.mark.parametrize(
    ("paths", "cap"),
    [(SOURCES, CAP_OF_SOURCES), (PAGES, CAP_OF_PAGES)],
    ids=["src", "docs"],
)
def test_awkward_phrases_do_not_increase(paths: list[Path], cap: int) -> None:
    found = flagged(paths)
    assert len(found) <= cap, "\n".join(found)


def test_the_docs_stay_short() -> None:
    counted = [page for page in PAGES if page.name != "CONTRIBUTING.md"]
    total = sum(words(page) for page in counted)
    assert total <= WORDS_OF_PAGES, f"{total:,} words: merge or shorten pages"


@pytest.mark.parametrize("name", WORDS)
def test_first_pages_stay_short(name: str) -> None:
    assert words(REPOSITORY / name) <= WORDS[name]


def test_decision_records_stay_short() -> None:
    long = [
        page.name
        for page in (REPOSITORY / "docs" / "decisions").glob("0*.md")
        if words(page) > WORDS_OF_A_DECISION
    ]
    assert not long


def test_teeth_each_pattern_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "Those who wait, for they must. Nobody knows. It says so. Read it anew. "
        "Ten calls a second. `those who` are code.\n\n```text\nwhom\n```\n"
    )
    assert len(flagged([page])) == len(PATTERNS)
    module = tmp_path / "module.py"
    module.write_text('nobody = 1  # whom it may concern\n"""What there is."""\n')
    assert len(flagged([module])) == 2
