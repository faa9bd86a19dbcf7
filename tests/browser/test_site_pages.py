"""Pages of the site in a browser: wide and narrow, both themes, by keyboard, and
nothing fetched from elsewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from browser.built import REPOSITORY, pages_of, served
from browser.chromium import Chromium
from browser.look import axe_faults

pytestmark = pytest.mark.soak
MAIN = (
    "",
    "tutorial/",
    "tutorial/first-agent/",
    "howto/contexts/",
    "reference/service/",
    "api/policies/",
    "math/bounds/",
)
BEYOND = """() => {
    const boxed = one => {
        for (let box = one.parentElement; box && box !== document.body; box = box.parentElement)
            if (getComputedStyle(box).overflowX !== 'visible') return true;
        return false;
    };
    const beyond = one => one.getBoundingClientRect().right > innerWidth + 1 && !boxed(one);
    return [...document.querySelectorAll('.md-content *')].filter(beyond).map(one => one.textContent.slice(0, 60));
}"""


@pytest.mark.parametrize("width", [400, 1280])
def test_no_page_is_wider_than_the_screen(
    chromium: Chromium, docs_folder: Path, docs_address: str, width: int
) -> None:
    """Nor does anything stand beyond it that no box of its own scrolls; nothing comes
    from another host."""
    fetched: set[str] = set()
    wide = {}
    pages = (
        [path for path in pages_of(docs_folder) if not path.startswith("decisions/0")]
        if width == 400
        else MAIN
    )
    with chromium.page(width=width) as page:
        page.on("request", lambda request: fetched.add(request.url))
        for path in pages:
            page.goto(docs_address + path)
            beyond = page.evaluate(BEYOND)
            if (
                beyond
                or page.evaluate("() => document.documentElement.scrollWidth") > width
            ):
                wide[path] = beyond[:3]
    assert wide == {}
    assert len(fetched) > len(pages)
    assert [url for url in fetched if not url.startswith(docs_address)] == []


def test_a_wide_formula_scrolls_in_its_own_box(
    chromium: Chromium, docs_address: str
) -> None:
    with chromium.page(width=400) as page:
        page.goto(f"{docs_address}math/bounds/")
        sizes = page.locator(".formula").evaluate_all(
            "all => all.map(one => [one.scrollWidth, one.clientWidth])"
        )
        assert any(inner > outer for inner, outer in sizes)
        assert all(outer <= 400 for _, outer in sizes)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everybody_can_read_it(
    chromium: Chromium, docs_address: str, theme: str
) -> None:
    pytest.importorskip(
        "axe_playwright_python", reason="requirements/browser.txt has axe"
    )
    faults = {}
    with chromium.page(theme=theme) as page:
        for path in MAIN if theme == "light" else MAIN[::3]:
            page.goto(docs_address + path)
            # the theme's
            own = (
                fault
                for fault in axe_faults(page)
                if not fault.startswith("landmark-unique")
            )
            faults[path] = list(own)
    assert {path: found for path, found in faults.items() if found} == {}


def test_search_by_keyboard(page: Any, docs_address: str) -> None:
    page.goto(docs_address)
    page.keyboard.press("Tab")
    assert "md-skip" in page.evaluate("() => document.activeElement.className")
    page.keyboard.press("/")
    page.keyboard.type("missing values")
    page.locator(".md-search-result__link").first.wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{docs_address}howto/contexts/**")
    assert page.locator("h1").inner_text().startswith("Pass contexts")


def test_doors_of_the_first_page_open(page: Any, docs_address: str) -> None:
    page.goto(docs_address)
    doors = page.locator(".doors strong a")
    targets = doors.evaluate_all("all => all.map(one => one.href)")
    assert len(targets) == 4
    for target in targets:
        answer = page.goto(target)
        assert answer.status == 200
    # asked for without a page: Chromium looks for an icon beside a plain text
    assert page.request.get(f"{docs_address}llms.txt").status == 200


def test_pages_for_programs(docs_folder: Path) -> None:
    paths = re.findall(r"\]\((\S+\.md)\)", (docs_folder / "llms.txt").read_text())
    assert len(paths) > 40
    for path in paths:
        assert (docs_folder / path).read_text().strip(), path
    whole = (docs_folder / "llms-full.txt").read_text()
    # a docstring
    assert "Algorithm 1: follow an expert drawn from the posterior" in whole
    assert "formulablockx" not in whole


def test_versions(chromium: Chromium, tmp_path: Path) -> None:
    """A release is published as the page on the site says, in a clone; its header has
    the list of versions."""
    pytest.importorskip(
        "mike", reason="mike is not installed: requirements/docs.txt has it"
    )
    clone, branch = tmp_path / "clone", tmp_path / "branch"
    who = {
        f"GIT_{role}_{part}": "docs@localhost"
        for role in ("AUTHOR", "COMMITTER")
        for part in ("NAME", "EMAIL")
    }
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    settings = os.environ | who | {"PATH": paths, "NO_MKDOCS_2_WARNING": "1"}

    def run(*command: str, folder: Path = clone) -> None:
        done = subprocess.run(
            command,
            cwd=folder,
            env=settings,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr

    run("git", "clone", "--quiet", str(REPOSITORY), str(clone), folder=tmp_path)
    run("mike", "deploy", "--update-aliases", "0.2", "latest")
    run("mike", "set-default", "latest")
    run("git", "worktree", "add", str(branch), "gh-pages")
    with served(branch) as address, chromium.page() as page:
        page.goto(address)
        page.wait_for_url(f"{address}latest/")
        page.locator(".md-version__current").wait_for()
        assert page.locator(".md-version__current").inner_text().startswith("0.2")
