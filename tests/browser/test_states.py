"""The page where something is in the way: keys, hostile names, a store that fails, a
service that is gone."""

from pathlib import Path
from typing import Any

import pytest

from browser.chromium import Chromium
from browser.look import axe_faults, open_page, seen
from browser.site import site
from oddsmith.server.http.keys import create
from server.offering import bringing
from server.served import place, place_for_anything

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "'\"><script>alert(2)</script>",
    "\u202eevil",
    "{{7*7}}",
    "x" * 256,
)


def test_keys_are_asked_for_and_refusals_say_what_is_missing(
    chromium: Chromium, tmp_path: Path
) -> None:
    ring = tmp_path / "keys.json"
    reader, shop = create(ring, "dashboard", ["read"]), create(ring, "shop", ["decide"])
    with (
        site(place(tmp_path), keys=ring) as served,
        chromium.page(refusals=True) as page,
    ):
        page.goto(f"{served.url}/dashboard/")
        page.get_by_text("This service has keys.").wait_for()
        assert axe_faults(page) == []
        for token, answer in (
            ("od_wrong", "not in force"),
            (shop, "must have the scope read"),
        ):
            page.get_by_role("textbox", name="Key").fill(token)
            page.keyboard.press("Enter")
            page.get_by_text(answer).wait_for()
        page.get_by_role("textbox", name="Key").fill(reader)
        page.keyboard.press("Enter")
        page.get_by_text("No decision yet.").wait_for()
        assert not page.locator("#key").is_visible()
        assert "Bearer $KEY" in seen(page, "#sentence code")
        assert reader not in page.url
        page.reload()  # the tab keeps it
        page.get_by_text("No decision yet.").wait_for()
        page.goto("about:blank")


def test_hostile_names_are_text(page: Any, tmp_path: Path) -> None:
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    with bringing("changing"), site(place_for_anything(tmp_path)) as served:
        for i, name in enumerate(HOSTILE * 4):
            context = {name: [name, {name: 1}]}
            served.post(
                "decide", {"id": f"{name[:200]}{i}", "context": context, "arms": [name]}
            )
            served.post("reward", {"id": f"{name[:200]}{i}", "reward": 1})
        served.settle()
        open_page(page, served, range="all")
        for name in HOSTILE[:2]:
            assert (
                page.locator("#decisions td").get_by_text(name, exact=True).count() >= 4
            )
        assert (
            page.locator("#decisions td").get_by_text("\\u202eevil", exact=True).count()
            >= 4
        )
        page.locator("#decisions tbody button").nth(3).click()
        page.locator("#why[open]").wait_for()
        assert axe_faults(page) == []
        assert (
            page.locator("main img, main script, dialog img, dialog script").count()
            == 0
        )
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        page.goto("about:blank")
    assert dialogs == []


@pytest.mark.soak
def test_a_service_that_is_gone_is_said_and_comes_back(
    chromium: Chromium, tmp_path: Path
) -> None:
    with chromium.page(refusals=True) as page:
        file = place(tmp_path)
        with site(file) as served:
            served.live(5)
            open_page(page, served)
            port = int(served.url.rsplit(":", 1)[1])
        page.get_by_text("The service does not answer. Is it running?").wait_for()
        assert "No answer since" in seen(page, "#notice")
        assert "no news since" in seen(page, "#asof")
        assert axe_faults(page) == []
        with site(file, port=port) as served:
            served.live(1, since=5)
            page.locator('[data-decision="visit-5"]').wait_for()
            page.get_by_text("The service does not answer.").wait_for(state="detached")
            page.goto("about:blank")
