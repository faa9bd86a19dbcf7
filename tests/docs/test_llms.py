"""llms.txt: every page of the plan with what it is for, from what the pages say."""

import runpy
from pathlib import Path
from typing import Any

import pytest

import oddsmith as od
from docs.test_site import DOCS, PLAN, planned

LLMS = runpy.run_path(str(DOCS / "hooks" / "llms.py"))


def test_what_a_page_says_first() -> None:
    page = (
        "# Title\n\n```py\nx\n```\n\n![alt](x.svg)\n\n| a |\n\n"
        "**Bold** and [a link](b.md). Next.\n\nThird."
    )
    assert LLMS["summary"](page) == "Bold and a link. Next."
    assert LLMS["summary"]("# Title\n") == ""
    assert LLMS["summary"](f"One. {'Long ' * 60}.") == "One."


def test_what_a_section_says_of_its_pages() -> None:
    index = (
        "| page | for |\n|---|---|\n| [A](a.md) | what *a* is [for](x.md) |\n\n"
        "* [B](b.md): b's use\n"
    )
    assert LLMS["described"](index) == {"a.md": "what *a* is for", "b.md": "b's use"}


def test_the_list() -> None:
    texts = {
        "index.md": "# N\n\nWhat it is.",
        "s/index.md": "# S\n\n* [A](a.md): for a\n",
        "s/a.md": "# A\n\nIt is.",
    }
    told = LLMS["outline"](
        "N",
        "lead",
        [("Start", [("Start", "index.md")]), ("S", [("A", "s/a.md")])],
        texts,
    )
    assert told.startswith(
        "# N\n\n> lead\n\n## Start\n\n- [Start](index.md): What it is.\n"
    )
    assert "## S\n\n- [A](s/a.md): It is.\n" in told
    with_index = LLMS["outline"](
        "N", "lead", [("S", [("S", "s/index.md"), ("A", "s/a.md")])], texts
    )
    assert "- [S](s/index.md)\n- [A](s/a.md): for a\n" in with_index


def test_every_page_of_the_plan_has_something_to_say() -> None:
    for page in planned(PLAN["nav"]):
        if (path := Path(DOCS / page)).exists():
            folder = DOCS / page.rpartition("/")[0] / "index.md"
            known = LLMS["described"](folder.read_text()) if folder.exists() else {}
            assert known.get(path.name) or LLMS["summary"](path.read_text()), page


@pytest.mark.parametrize(
    "name",
    ["oddsmith.Agent", "oddsmith.policies.auto.auto", "oddsmith.evaluation.INTERVALS"],
)
def test_names_of_the_api_are_told_with_their_docstrings(name: str) -> None:
    told = LLMS["expanded"](f"# API\n\n::: {name}\n")
    last: str = name.rpartition(".")[2]
    assert told.startswith(f"# API\n\n### {last}\n\n```python\n{name}")
    thing: Any = getattr(od, last, None)
    assert thing is None or thing.__doc__.splitlines()[0] in told
