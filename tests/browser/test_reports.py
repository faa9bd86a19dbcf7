"""Reports in a browser: both themes, paper, a phone, no network, and what a checker of
accessibility says."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.claims.reproduce import reproduce
from oddsmith.evaluation import assess, uniform_target
from oddsmith.evaluation.report import write_report
from oddsmith.files.reports.style import COLOURS, panels, save
from oddsmith.files.reports.theme import THEMES
from oddsmith.lab.study import read_study

STUDY = """
steps = 60
runs = 3
[worlds.w]
kind = "random"
experts = 4
[policies.own]
[policies."<img src=x onerror=alert(1)> of a name that is longer than a telephone is wide"]
kind = "uniform"
"""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A report of each command, small."""
    folder = tmp_path_factory.mktemp("reports")
    rng, odds = np.random.default_rng(3), np.tile([0.5, 0.3, 0.2], (400, 1))
    arm = rng.choice(3, 400, p=odds[0])
    log = od.Log(
        arm=arm,
        reward=(rng.random(400) < 0.2 + 0.2 * arm).astype(np.float64),
        propensities=odds,
        arms=["a", "b", "c"],
    )
    write_report(
        assess(log, {"uniform": uniform_target(log)}),
        folder / "evaluate.html",
        "Evaluation",
    )
    (folder / "study.toml").write_text(STUDY)
    read_study(folder / "study.toml").run(folder / "simulate", engine="serial")
    reproduce(
        folder / "reproduce", ["thompson", "conditions"], quick=True, engine="serial"
    )
    pages = {name: folder / name / "index.html" for name in ("simulate", "reproduce")}
    return {"evaluate": folder / "evaluate.html"} | pages


@contextmanager
def shown(chromium: Any, path: Path, **window: Any) -> Iterator[Any]:
    """A page with a file; that it fetches anything, or says anything on the console, is
    an error."""
    with chromium.page(**window) as page:
        fetched: list[str] = []
        page.on("request", lambda request: fetched.append(request.url))
        page.goto(path.as_uri())
        yield page
        assert fetched == [path.as_uri()]


BEYOND = """all => all.filter(text => {
    const inner = text.getBoundingClientRect(), outer = text.ownerSVGElement.getBoundingClientRect();
    return inner.left < outer.left - 1 || inner.right > outer.right + 1 || inner.top < outer.top - 1
        || inner.bottom > outer.bottom + 1;
}).map(text => text.textContent)"""
NAMES = ("evaluate", "simulate", "reproduce")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_in_the_way_of_anybody(
    name: str, theme: str, reports: dict[str, Path], chromium: Any
) -> None:
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright",
        reason="requirements/browser.txt has axe",
    )
    with shown(chromium, reports[name], theme=theme) as page:
        for summary in page.locator("summary").all():
            summary.click()
        found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("name", NAMES)
def test_a_phone_shows_all_of_it(
    name: str, reports: dict[str, Path], chromium: Any
) -> None:
    with shown(chromium, reports[name], width=400) as page:
        assert page.evaluate("document.documentElement.scrollWidth") == 400
        assert page.locator("svg text").evaluate_all(BEYOND) == []
        scale = (
            "all => all.map(e => e.getBoundingClientRect().width / "
            "e.viewBox.baseVal.width)"
        )
        assert min(page.locator("svg").evaluate_all(scale)) * 10 > 8  # px of a label


def colour(page: Any, selector: str, part: str) -> str:
    """As the browser shows it."""
    found: str = page.locator(selector).first.evaluate(
        f"e => getComputedStyle(e).{part}"
    )
    return "#" + "".join(
        f"{int(n):02x}" for n in found.removeprefix("rgb(").removesuffix(")").split(",")
    )


@pytest.mark.parametrize(("theme", "place"), [("light", 0), ("dark", 1)])
@pytest.mark.parametrize("name", NAMES)
def test_figures_follow_the_theme_and_paper_is_light(
    name: str, theme: str, place: int, reports: dict[str, Path], chromium: Any
) -> None:
    with shown(chromium, reports[name], theme=theme) as page:
        for known, selector, part in (
            ("c1", f'figure [stroke="{COLOURS[0]}"]', "stroke"),
            ("ink", "svg text", "fill"),
            ("sheet", "main > section", "backgroundColor"),
        ):
            assert colour(page, selector, part) == THEMES[known][place]
        page.emulate_media(media="print", color_scheme=theme)
        assert colour(page, "svg text", "fill") == THEMES["ink"][0]


@pytest.mark.parametrize("name", NAMES)
def test_details_are_folded_on_a_screen_and_open_on_paper(
    name: str, reports: dict[str, Path], chromium: Any
) -> None:
    with shown(chromium, reports[name]) as page:
        words = page.locator("details p").first
        seen = "e => e.checkVisibility({contentVisibilityAuto: true})"
        assert not words.evaluate(seen)
        page.emulate_media(media="print")
        assert words.evaluate(seen)
        assert not any(nav.is_visible() for nav in page.locator("nav").all())


def test_a_figure_of_its_own_follows_the_theme(chromium: Any, tmp_path: Path) -> None:
    figures, (panel,) = panels()
    panel.axhspan(0, 1, color=COLOURS[0])
    save(figures, tmp_path / "figure.svg")
    (tmp_path / "page.html").write_text('<img src="figure.svg" alt="a figure">')
    shots = []
    for theme in ("light", "dark"):
        with chromium.page(theme=theme) as page:
            page.goto((tmp_path / "page.html").as_uri())
            shots.append(page.locator("img").screenshot())
    assert shots[0] != shots[1]
