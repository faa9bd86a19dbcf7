"""The page for everybody: both themes, wide and narrow, by keyboard alone, and as a
screen reader hears it."""

from pathlib import Path
from typing import Any

import pytest

from browser.chromium import Chromium
from browser.look import axe_faults, open_page
from browser.site import site
from server.served import place

PARTS = (
    "1 h",
    "pause",
    "theme",
    "find-id",
    "Explain",
    "log scale",
    "as a table",
    "by share",
    "Table of decisions",
)
HEARD = Path(__file__).parent / "heard.txt"


@pytest.mark.parametrize(
    ("theme", "width"),
    [("light", 1280), pytest.param("dark", 400, marks=pytest.mark.soak)],
)
def test_no_faults_of_access_in_both_themes_wide_and_narrow(
    chromium: Chromium, tmp_path: Path, theme: str, width: int
) -> None:
    with (
        site(place(tmp_path)) as served,
        chromium.page(theme=theme, width=width) as page,
    ):
        served.live(60)
        served.settle()
        open_page(page, served)
        for summary in page.get_by_text("as a table").all():
            summary.click()
        assert axe_faults(page) == []
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        page.locator("#decisions tbody button").first.click()
        page.locator("#why[open]").wait_for()
        assert axe_faults(page) == []
        page.goto("about:blank")


@pytest.mark.soak
def test_the_switch_of_themes_is_kept(page: Any, tmp_path: Path) -> None:
    with site(place(tmp_path)) as served:
        open_page(page, served)
        page.get_by_label("Theme").select_option("dark")
        assert axe_faults(page) == []
        page.reload()
        assert page.locator("html").get_attribute("data-theme") == "dark"
        page.goto("about:blank")


def focus(page: Any) -> str:
    """What has the focus, in words."""
    code = (
        "() => { const e = document.activeElement; return e.getAttribute('aria-label') "
        "|| e.id || e.innerText; }"
    )
    return str(page.evaluate(code))


def test_everything_is_reached_by_keyboard(page: Any, tmp_path: Path) -> None:
    with site(place(tmp_path)) as served:
        served.live(60)
        served.settle()
        open_page(page, served)
        page.keyboard.press("Tab")
        assert focus(page) == "Skip to what it says"
        visited = []
        for _ in range(60):
            page.keyboard.press("Tab")
            visited.append(focus(page))
        assert set(PARTS) <= set(visited)
        assert sum("over time" in one for one in visited) == 1
        page.locator("#serve .reader").focus()
        page.keyboard.press("End")
        page.keyboard.press("ArrowLeft")
        assert "drawn" in page.locator("#serve .reader").get_attribute("aria-valuetext")
        page.keyboard.press("Enter")
        page.get_by_text("Before ", exact=False).filter(
            has_text="Choose an id"
        ).wait_for()
        page.locator("#decisions tbody button").first.focus()
        chosen = focus(page)
        page.keyboard.press("Enter")
        page.locator("#why[open]").wait_for()
        assert focus(page) == "why-close"
        page.keyboard.press("Escape")
        assert focus(page) == chosen
        page.goto("about:blank")


def test_what_a_screen_reader_hears_of_an_empty_service(
    page: Any, tmp_path: Path
) -> None:
    with site(place(tmp_path)) as served:
        open_page(page, served)
        page.get_by_role("button", name="Pause").click()
        heard = (
            page.locator("body").aria_snapshot().replace(served.url, "http://service")
        )
        page.goto("about:blank")
    said = (
        "\n".join(line for line in heard.splitlines() if "as of position" not in line)
        + "\n"
    )
    assert said == HEARD.read_text()
