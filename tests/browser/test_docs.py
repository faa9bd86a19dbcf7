"""The API for people in a browser: every route is told, and every form makes its
call."""

import json
from pathlib import Path
from typing import Any

import pytest

from browser.chromium import Chromium
from browser.look import axe_faults
from browser.site import site
from oddsmith.server.http.keys import create
from oddsmith.server.http.routes import ROUTES
from server.served import CONTEXT, EXPERTS, place


def try_it(page: Any, name: str) -> Any:
    """The open form of a route."""
    page.locator(f"#{name} summary", has_text="Try it").click()
    return page.locator(f"#{name} form.try")


def said(page: Any, name: str, status: str) -> Any:
    """What a call was answered, once it was, with this status."""
    page.locator(f"#{name} [role=status]", has_text=status).wait_for()
    return page.locator(f"#{name} .answer").inner_text()


def test_every_route_has_its_section(page: Any, tmp_path: Path) -> None:
    with site(place(tmp_path)) as served:
        page.goto(f"{served.url}/docs")
        heads = page.locator("main > section:not(#routes) h2").all_inner_texts()
        assert heads == [f"{route.method} {route.path}" for route in ROUTES]
        assert page.locator("form.try").count() == len(ROUTES)
        example = page.locator("#decide h3:has-text('Example') + pre").inner_text()
        assert example.startswith(f"curl {served.url}/v1/decide")
        page.locator("a", has_text="GET /v1/changes").click()
        assert page.url.endswith("/docs#changes")
        assert page.locator("a.brand").get_attribute("href") == "/dashboard/"


def test_calls_are_made_from_forms(chromium: Chromium, tmp_path: Path) -> None:
    with site(place(tmp_path)) as served, chromium.page(refusals=True) as page:
        page.goto(f"{served.url}/docs")
        form = try_it(page, "decide")
        form.locator("textarea").fill(
            json.dumps({"context": CONTEXT, "id": "a/b <i>?"})
        )
        form.locator("button").click()
        arm = json.loads(said(page, "decide", "200 answered"))["arm"]
        form = try_it(page, "decision")
        form.locator("[name=id]").fill("a/b <i>?")
        form.locator("[name=explain]").select_option("true")
        form.locator("button").press("Enter")
        record = json.loads(said(page, "decision", "200 answered"))
        assert (record["id"], record["arm"], len(record["experts"])) == (
            "a/b <i>?",
            arm,
            4,
        )
        form.locator("[name=id]").fill("nobody")
        form.locator("[name=id]").press("Enter")
        assert json.loads(said(page, "decision", "404 refused"))["code"] == "not_found"
        form = try_it(page, "decisions")
        form.locator("[name=limit]").fill("1")
        form.locator("[name=reward]").select_option("")
        form.locator("button").click()
        assert [
            one["id"]
            for one in json.loads(said(page, "decisions", "200 answered"))["decisions"]
        ] == ["a/b <i>?"]
        try_it(page, "metrics").locator("button").click()
        assert "oddsmith_answers_total" in said(page, "metrics", "200 answered")
        form = try_it(page, "reward")
        form.locator("textarea").fill("{")
        form.locator("button").click()
        assert json.loads(said(page, "reward", "400 refused"))["code"] == "malformed"


def test_the_key_is_that_of_the_page(chromium: Chromium, tmp_path: Path) -> None:
    token = create(tmp_path / "keys.json", "reader", ["read"])
    with (
        site(place(tmp_path), keys=tmp_path / "keys.json") as served,
        chromium.page(refusals=True) as page,
    ):
        page.goto(f"{served.url}/docs")
        try_it(page, "posterior").locator("button").click()
        said(page, "posterior", "401 refused")
        page.locator("#key-text").fill(token)
        page.locator("#posterior form.try button").click()
        assert json.loads(said(page, "posterior", "200 answered"))[
            "posterior"
        ].keys() == set(EXPERTS)
        assert token not in page.url
        try_it(page, "correct").locator("button").click()
        assert json.loads(said(page, "correct", "403 refused"))["code"] == "forbidden"
        page.reload()
        assert page.locator("#key-text").input_value() == token
        assert page.evaluate("() => sessionStorage.getItem('oddsmith-key')") == token


def test_it_fits_a_narrow_screen(chromium: Chromium, tmp_path: Path) -> None:
    with site(place(tmp_path)) as served, chromium.page(width=400) as page:
        page.goto(f"{served.url}/docs")
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 400


@pytest.mark.soak
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everybody_can_read_it(chromium: Chromium, tmp_path: Path, theme: str) -> None:
    pytest.importorskip(
        "axe_playwright_python", reason="requirements/browser.txt has axe"
    )
    with site(place(tmp_path)) as served, chromium.page(width=400, theme=theme) as page:
        page.goto(f"{served.url}/docs")
        for part in page.locator("details").all():
            part.evaluate("one => { one.open = true; }")
        assert axe_faults(page) == []
