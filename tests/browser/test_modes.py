"""The page in other modes: shadow, an expert that joins, a store that is only looked
at. Run by `make soak`."""

from pathlib import Path
from typing import Any

import pytest

from browser.look import axe_faults, numbers, open_page, rows, seen, worths
from browser.site import Site, served_by, site
from oddsmith.server.http.dashboard import dashboard_app, open_views
from server.served import BENCH, place

pytestmark = pytest.mark.soak


def shadow(served: Site, number: int) -> None:
    """Decisions of an incumbent that draws sports in three of five, and rewards
    tech."""
    odds = {"sports": 0.6, "politics": 0.2, "tech": 0.2}
    for i in range(number):
        arm = ("sports", "politics", "sports", "tech", "sports")[i % 5]
        body = {
            "id": f"visit-{i}",
            "context": [i % 7 / 7, i % 3 / 3],
            "incumbent": arm,
            "incumbent_odds": odds,
        }
        served.post("decide", body)
        served.post("reward", {"id": f"visit-{i}", "reward": float(arm == "tech")})
    served.settle()


def test_shadow_mode_says_what_we_would_have_done_and_whether_to_switch(
    page: Any, tmp_path: Path
) -> None:
    with site(place(tmp_path, service="shadow = true\n")) as served:
        shadow(served, 80)
        open_page(page, served, range="all")
        page.locator("#switch").wait_for()
        assert seen(page, "#switch .lead") == served.get("checks")["switch"]["sentence"]
        told = {one["kind"]: one for one in served.get("values")["values"]}
        wanted = [
            told[kind][end]
            for kind in ("served", "policy")
            for end in ("value", "low", "high")
        ]
        assert numbers(page, "#switch") == wanted
        assert "incumbent" in seen(page, "#sentence .lead")
        assert {"what the incumbent did", "what we would have done"} <= set(
            rows(page, "#worth")
        )
        page.locator("#decisions tbody button").first.click()
        page.locator("#why").get_by_text("The incumbent chose").wait_for()
        assert axe_faults(page) == []
        page.goto("about:blank")


def test_an_expert_that_joins_is_marked_and_judged(page: Any, tmp_path: Path) -> None:
    with site(place(tmp_path, experts=BENCH)) as served:
        served.live(40)
        served.post(
            "experts", {"expert": "late", "change": "added", "share": 0.05, "key": "k"}
        )
        served.live(110, since=40)
        served.settle()
        open_page(page, served, range="all")
        choices = served.get("checks")["choices_sentence"]
        assert "best predictor" in choices
        assert "is reported after" not in choices
        assert choices in seen(page, "#experts")
        weight = served.get("stats")["experts"]["late"]["weight"]
        assert "late joined" in seen(page, "#follow .says")
        assert rows(page, "#experts")["late"][1] == weight
        assert "added" in rows(page, "#experts")["late"][2]
        assert page.locator("#follow .chart").get_by_text("added: late").count() == 1
        served.post("experts", {"expert": "late", "change": "retired", "key": "out"})
        there = len(served.get("posterior")["posterior"]) - 1
        page.get_by_text(f"{there} experts, 1 retired").first.wait_for()
        open_page(page, served, range="all")
        assert f"{there} experts, 1 retired" in seen(page, "#about")
        assert f"among {there} experts, 1 retired." in seen(page, "#follow .says")
        assert f"0 of {there}" in seen(page, "#well")
        page.get_by_role("button", name="log scale").click()
        assert page.locator("#follow .line").count() > 5
        page.goto("about:blank")


def test_a_store_that_is_looked_at_shows_what_its_service_showed(
    page: Any, tmp_path: Path
) -> None:
    with site(place(tmp_path)) as served:
        served.live(40)
        served.settle()
        values, choices = (
            served.get("values")["values"],
            served.get("checks")["choices_sentence"],
        )
    with served_by(
        dashboard_app(open_views([str(tmp_path / "news.sqlite")], None))
    ) as shown:
        open_page(page, shown, range="all")
        page.get_by_text("This store is looked at, not served").wait_for()
        told = [row[1] for row in rows(page, "#worth").values() if len(row) == 3]
        assert told == worths(values)
        assert shown.get("checks")["choices_sentence"] == choices
        page.goto("about:blank")
