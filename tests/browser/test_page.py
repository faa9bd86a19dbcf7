"""The page of a service: empty, filled, restarted, live, with offers, and what it says
is what the API says."""

import json
from pathlib import Path
from typing import Any

import pytest

from browser.chromium import Chromium
from browser.look import numbers, open_page, rows, seen, worths
from browser.site import site
from server.monitor.test_figures import check_series, check_values, exported
from server.offering import bringing
from server.served import place


def test_an_empty_service_says_what_to_do_and_then_goes_on_by_itself(
    page: Any, tmp_path: Path
) -> None:
    with site(place(tmp_path)) as served:
        page.goto(served.url)  # which leads to the page
        page.get_by_text("No decision yet.").wait_for()
        command = seen(page, "#sentence code")
        page.get_by_role("button", name="Copy").click()
        page.get_by_role("button", name="Copied").wait_for()
        assert page.evaluate("() => navigator.clipboard.readText()") == command
        address, body = command.split(" -d ")
        assert address == f"curl -s {served.url}/v1/decide"
        served.post("decide", json.loads(body.strip("'")) | {"context": [0.3, -0.7]})
        page.get_by_text("It decides and has learnt nothing yet").wait_for()
        assert "visit-1" in rows(page, "#decisions")
        reward = json.loads(seen(page, "#sentence code").split(" -d ")[1].strip("'"))
        served.post("reward", reward)
        page.get_by_text("It is learning").wait_for()
        page.goto("about:blank")


def facts(page: Any) -> dict[str, Any]:
    """All numbers of the page that are sums over the log, also of what is folded
    away."""
    page.locator("#worth details").evaluate_all(
        "all => all.forEach((one) => { one.open = true; })"
    )
    tiles = {
        name: numbers(page, f'[data-tile="{name}"]')
        for name in ("rewarded", "behind", "served")
    }
    tables = {
        name: rows(page, f"#{name}") for name in ("worth", "experts", "decisions")
    }
    return {
        **tiles,
        **tables,
        "arms": rows(page, "#serve .arms"),
        "mean": numbers(page, "#reward .says"),
    }


def check_folded(page: Any, arms: list[dict[str, Any]]) -> None:
    """Of more than five arms, those with wide intervals or none stand behind the
    others, and stay open once opened."""
    wide = (
        sum(one["value"] is None or one["high"] - one["low"] > 0.5 for one in arms)
        if len(arms) > 5
        else 0
    )
    assert page.locator("#worth details").count() == (wide > 0)
    if wide:
        assert (
            seen(page, "#worth summary")
            == f"{wide} arm{'s' if wide > 1 else ''} of which little is known"
        )
        assert page.locator("#worth details[open] tbody tr").count() == wide


def check_against_api(page: Any, served: Any) -> None:
    """Every number that is told is the API's."""
    checks, values, stats = (
        served.get("checks"),
        served.get("values"),
        served.get("stats"),
    )
    series, listed = (
        served.get("series", range="all"),
        served.get("decisions")["decisions"],
    )
    assert f"as of position {stats['position']:,}" in seen(page, "#asof")
    found = facts(page)
    assert found["rewarded"] == [checks["rewarded"]["share"]]
    assert found["served"] == [checks["served_as_logged"]["e_value"]]
    assert found["behind"] == [0.0]
    assert sorted(row[1] for row in found["worth"].values() if len(row) == 3) == sorted(
        worths(values["values"])
    )
    check_folded(page, [one for one in values["values"] if one["kind"] == "arm"])
    assert {name: row[1] for name, row in found["experts"].items()} == {
        name: one["weight"] for name, one in stats["experts"].items()
    }
    counts = served.get("stats", limit=1000)["arms"].items()
    arms = {
        name if len(name) <= 60 else f"{name[:59]}…": one["decided"]
        for name, one in counts
        if one["decided"]
    }
    others = found["arms"].pop("others", ["", 0.0])[1]
    # of more than twenty arms, draws before an arm had a name are others'
    for name, row in found["arms"].items():
        assert (
            row[1] == arms[name]
            if len(arms) <= 20
            else row[1] == "new" or 0 < row[1] <= arms[name]
        )
    assert len(found["arms"]) >= min(len(arms), 5)
    assert (
        sum(row[1] for row in found["arms"].values() if row[1] != "new") + others
        == stats["events"]["decision"]
    )
    assert found["mean"] == pytest.approx(
        [sum(series["reward_sum"]) / sum(series["rewards"])], rel=1e-12
    )
    table = page.locator("#decisions tbody tr")
    assert table.count() == len(listed)
    for i in (0, 1, 7, len(listed) - 1):
        one = listed[i]
        cells = table.nth(i).locator("td, th").all_inner_texts()
        assert (cells[1], cells[2]) == (one["id"], one["arm"])
        shown = [
            float(x.get_attribute("value")) for x in table.nth(i).locator("data").all()
        ]
        assert shown == [one["propensity"]] + (
            [] if one["reward"] is None else [one["reward"]]
        )


@pytest.mark.parametrize(
    "kind", ["fixed", pytest.param("changing", marks=pytest.mark.soak)]
)
def test_every_number_is_the_apis_and_none_falls_back_at_a_restart(
    page: Any, tmp_path: Path, kind: Any
) -> None:
    with bringing(kind):
        file = place(tmp_path)
        with site(file) as served:
            served.live(120)
            served.settle()
            open_page(page, served, range="all")
            check_against_api(page, served)
            # and the API's are those of export and evaluate
            check_values(served.get("values"), exported(tmp_path))
            check_series(served.get("series", range="all"), exported(tmp_path))
            before = facts(page)
            page.goto("about:blank")
        with site(file) as served:
            open_page(page, served, range="all")
            assert facts(page) == before
            check_against_api(page, served)
            page.goto("about:blank")


def test_a_decision_is_explained_with_the_numbers_of_the_api(
    chromium: Chromium, tmp_path: Path
) -> None:
    file = place(tmp_path, service="sticky = true\n")
    with site(file) as served, chromium.page(refusals=True) as page:  # a unit is no id
        ids: list[str] = []
        for i in range(30):
            ids.append(
                served.post("decide", {"context": [i / 30, 0.2], "unit": f"user-{i}"})[
                    "id"
                ]
            )
            served.post("reward", {"id": ids[i], "reward": i % 2})
        served.settle()
        open_page(page, served)
        # by unit
        page.get_by_role("searchbox", name="Why did this visitor see that?").fill(
            "user-7"
        )
        page.keyboard.press("Enter")
        page.locator("#why[open]").wait_for()
        record = served.get(f"decisions/{ids[7]}", explain=True)
        assert f"decision={ids[7]}" in page.url
        odds = page.locator("#why table").nth(0)
        assert [
            float(one.get_attribute("value")) for one in odds.locator("data").all()
        ] == sorted(record["odds"].values(), reverse=True)
        weights = (
            page.locator("#why table").nth(1).locator("td:nth-child(2) data").all()
        )
        assert [float(one.get_attribute("value")) for one in weights] == [
            one["weight"] for one in record["experts"]
        ]
        page.keyboard.press("Escape")
        page.locator("#why").wait_for(state="hidden")
        # which the end of the drawer's closing writes
        page.wait_for_url(lambda url: "decision" not in url)
        page.goto(f"{served.url}/dashboard/#decision={ids[9]}")
        page.reload()
        page.locator("#why[open]").get_by_text(ids[9]).first.wait_for()
        page.goto("about:blank")
