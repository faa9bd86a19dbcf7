"""The site's plan: every page is in it, first pages of sections name all others, and
hooks do what they say."""

import re
import runpy
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import yaml

import oddsmith as od
from oddsmith.files.reports.theme import MONO, THEMES, TYPE

REPOSITORY = Path(od.__file__).parents[2]
DOCS = REPOSITORY / "docs"
PLAN = yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text().replace("!ENV", ""))
SECTIONS = sorted(page.parent.name for page in DOCS.glob("*/index.md"))


def planned(part: Any) -> list[str]:
    """The pages of a part of the plan."""
    if isinstance(part, str):
        return [part]
    return [
        page
        for one in (part if isinstance(part, list) else part.values())
        for page in planned(one)
    ]


def hook(name: str) -> dict[str, Any]:
    """What a hook of the site defines."""
    return runpy.run_path(str(DOCS / "hooks" / f"{name}.py"))


def test_every_page_is_in_the_plan_once_and_decisions_are_folded_away() -> None:
    pages = planned(PLAN["nav"])
    assert len(pages) == len(set(pages))
    own = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    folded = {page for page in own if re.match(r"decisions/\d", page)}
    assert own - folded == {page for page in pages if (DOCS / page).exists()}
    brought = set(
        re.findall(r'": "(\S+\.md)",', (DOCS / "hooks" / "outside.py").read_text())
    )
    assert set(pages) - own == brought
    assert PLAN["not_in_nav"].split() == ["/decisions/0*.md"]


@pytest.mark.parametrize("section", SECTIONS)
def test_the_first_page_of_a_section_names_all_others(section: str) -> None:
    index = (DOCS / section / "index.md").read_text()
    for page in (DOCS / section).glob("*.md"):
        assert page.name == "index.md" or f"]({page.name})" in index, page.name


def test_the_front_page_has_install_line_code_picture_and_four_doors() -> None:
    front = (DOCS / "index.md").read_text()
    assert "\npip install oddsmith\n" in front
    assert re.search(r"^!\[[^\]]+\]\(\S+\.(?:svg|png)\)", front, re.MULTILINE)
    doors = re.findall(
        r"^\* \*\*\[I (?:have|run) [^\]]+\]\((\S+)\)", front, re.MULTILINE
    )
    assert len(doors) == 4
    assert sum(line.startswith(">>> ") for line in front.splitlines()) == 5


def test_the_look_is_that_of_reports() -> None:
    css = (DOCS / "look.css").read_text()
    for place, scheme in enumerate(("default", "slate")):
        block = re.search(
            rf'\[data-md-color-scheme="{scheme}"\] \{{\n(.*?)\n\}}', css, re.DOTALL
        )
        assert block is not None
        colours = dict(re.findall(r"--(\w+): (#\w{6});", block[1]))
        assert colours == {name: THEMES[name][place] for name in colours}
        assert len(colours) == 11
    assert f"--md-text-font-family: {TYPE};" in css
    assert f"--md-code-font-family: {MONO};" in css
    assert (DOCS / "figures" / "icon.svg").read_bytes() == (
        REPOSITORY / "src" / "oddsmith" / "server" / "dashboard" / "icon.svg"
    ).read_bytes()


def test_nothing_is_fetched_from_elsewhere() -> None:
    assert PLAN["theme"]["font"] is False
    # the theme would ask its host for the number of stars
    assert "repo_url" not in PLAN
    assert not re.search(r"url\(|@import", (DOCS / "look.css").read_text())


def test_long_formulas_have_places_to_break_and_lose_nothing() -> None:
    formulas = hook("formulas")
    short, long = (
        formulas["shown"](formulas["hidden"](f"${text}$"))
        for text in ("a = b", r"f(x, y) \le " * 5 + "z")
    )
    assert (short.count("<math"), long.count("<math")) == (1, 6)
    whole = formulas["convert"](r"f(x, y) \le " * 5 + "z")
    words = [re.sub(r"<[^>]*>|\s", "", unescape(text)) for text in (long, whole)]
    assert words[0] == words[1]
    block = formulas["shown"](formulas["hidden"]("$$a = b$$"))
    assert block.startswith('<span class="formula"><math')


def test_search_ranks() -> None:
    ranks = hook("ranks")
    boost = ranks["boost"]
    assert (
        boost("howto/contexts.md")
        > boost("reference/service.md")
        > boost("api/agent.md")
    )
    assert boost("api/agent.md") > boost("decisions/010-dependencies.md")
    assert boost("howto/add-an-arm.md") > boost("howto/add-a-loss.md")
    assert all((DOCS / page).exists() for page in ranks["WORDS"])
    for key in ranks["BOOSTS"]:
        assert any(page.startswith(key) for page in planned(PLAN["nav"])), key


def test_docstrings_become_markdown() -> None:
    pytest.importorskip(
        "griffe", reason="griffe is not installed: requirements/docs.txt has it"
    )
    as_markdown = hook("docstrings")["as_markdown"]
    text = "With p*, P[s][a] and `p*`.\n\n    w* ← w\n\n>>> 1 + 1\n2\n\nEnd."
    assert as_markdown(text) == (
        "With p\\*, P[s]\\[a] and `p*`.\n\n    w* ← w\n\n```pycon\n>>> 1 + 1\n2\n"
        "```\n\nEnd."
    )


def test_links_between_docs_and_the_rest_lead_to_the_site() -> None:
    pytest.importorskip(
        "mkdocs", reason="mkdocs is not installed: requirements/docs.txt has it"
    )
    rewritten = hook("outside")["rewritten"]
    assert (
        rewritten("[a](docs/howto/logs.md#x)", "changelog.md") == "[a](howto/logs.md#x)"
    )
    assert (
        rewritten("[a](../../CHANGELOG.md) `[a](b)`", "howto/logs.md")
        == "[a](../changelog.md) `[a](b)`"
    )
    assert (
        rewritten("![a](figures/ope.png)", "benchmarks/results.md")
        == "![a](figures/ope.png)"
    )
    assert rewritten("[a](../examples/news.py)", "index.md").endswith(
        "/blob/main/examples/news.py)"
    )
    assert (
        rewritten("[a](https://example.org/b.md) [c](#d)", "index.md")
        == "[a](https://example.org/b.md) [c](#d)"
    )
