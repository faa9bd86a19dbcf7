"""Every link within the repository leads to a file, and its anchor to a heading of that
file."""

import re
import unicodedata
from functools import cache
from pathlib import Path

import pytest

import oddsmith as od

REPOSITORY = Path(od.__file__).parents[2]
PAGES = sorted(
    [
        *REPOSITORY.glob("*.md"),
        *(REPOSITORY / "docs").rglob("*.md"),
        *(REPOSITORY / "benchmarks").glob("*.md"),
    ]
)
FENCED = re.compile(r"^( *)```.*?^\1```", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`[^`\n]*`")
LINKS = (
    re.compile(r"\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)"),  # [text](target "title")
    re.compile(r"^\[[^\]]+\]:\s+(\S+)", re.MULTILINE),  # [name]: target
    re.compile(r"<(?:a|img|source)\b[^>]*?\b(?:href|src|srcset)=\"([^\"\s]+)"),
)


def text_of(page: Path) -> str:
    """A page without its code: brackets in code are no links, and # is no heading."""
    return CODE.sub("code", FENCED.sub("", page.read_text()))


def slug(heading: str) -> str:
    """The anchor that the site gives to a heading: letters, digits and dashes, in lower
    case."""
    words = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    plain = unicodedata.normalize("NFKD", words).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


@cache
def anchors(page: Path) -> set[str]:
    """What a link to this page may name after #: headings (repeated ones with _1), ids,
    names of the API."""
    found: dict[str, int] = {}
    text, names = FENCED.sub("", page.read_text()), set()
    for heading in re.findall(r"^#+ +(.+?)(?: +#+)?$", text, re.MULTILINE):
        own = re.search(r"\{[^}]*#([\w.-]+)[^}]*\}$", heading)
        base = own[1] if own else slug(heading.replace("`", ""))
        names.add(f"{base}_{found[base]}" if base in found else base)
        found[base] = found.get(base, 0) + 1
    names |= set(re.findall(r"\b(?:id|name)=\"([^\"]+)\"", text))
    return names | set(re.findall(r"^::: (\S+)$", text, re.MULTILINE))


def faults(page: Path) -> list[str]:
    """Links of a page that lead nowhere."""
    text, wrong = text_of(page), []
    for target in (found for links in LINKS for found in links.findall(text)):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        there = page.parent / path if path else page
        if not there.exists() or (path.startswith("/")):
            wrong.append(f"{target}: no such file")
        elif anchor and (
            there.suffix != ".md" or anchor not in anchors(there.resolve())
        ):
            wrong.append(f"{target}: no such heading")
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    assert faults(page) == []


def test_teeth_wrong_files_and_anchors_are_found_out(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A *title*, with `code()`\n\n[1](#a-title-with-code) [2](#nothing) "
        "[3](other.md) [4](page.md#a-title)\n\n"
        '<a href="none.html">5</a> `[6](code.md)` [7](https://example.org/x#y)\n\n'
        "[8]: gone.md\n\n"
        "```md\n[9](fenced.md)\n```\n"
    )
    assert [fault.partition(":")[0] for fault in faults(page)] == [
        "#nothing",
        "other.md",
        "page.md#a-title",
        "gone.md",
        "none.html",
    ]
