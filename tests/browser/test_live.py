"""The page beside a service at work: news without a reload, replicas, a store in
trouble. Run by `make soak`."""

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from browser.chromium import Chromium
from browser.look import open_page, seen
from browser.site import Site, site
from browser.test_page import check_against_api, facts
from server.experiment.test_faults import make_room
from server.experiment.test_postgres import replica
from server.served import place
from server.store.postgres_server import Server

pytestmark = pytest.mark.soak


def test_a_decision_is_there_within_two_seconds_without_a_reload(
    page: Any, tmp_path: Path
) -> None:
    with site(place(tmp_path)) as served:
        served.live(20)
        served.settle()
        open_page(page, served)
        page.wait_for_timeout(1500)
        page.evaluate("() => { window.kept = true; }")
        waited = []
        for i in range(20, 25):
            served.live(1, since=i)
            begun = time.monotonic()
            page.locator(f'[data-decision="visit-{i}"]').wait_for()
            waited.append(time.monotonic() - begun)
        assert page.evaluate("() => window.kept")
        page.goto("about:blank")
    assert max(waited) < 2.0, waited


HIDE = """hidden => {
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event('visibilitychange'));
}"""


@pytest.mark.parametrize("how", ["paused", "hidden"])
def test_a_page_in_the_background_or_paused_asks_for_nothing(
    page: Any, tmp_path: Path, how: str
) -> None:
    def rest(yes: bool) -> None:
        if how == "hidden":
            page.evaluate(HIDE, yes)
        else:
            page.get_by_role("button", name="Pause").click()

    with site(place(tmp_path)) as served:
        served.live(5)
        open_page(page, served)
        rest(True)
        page.wait_for_timeout(500)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        served.live(2, since=5)
        page.wait_for_timeout(2500)
        assert asked == []
        rest(False)
        page.locator('[data-decision="visit-6"]').wait_for()
        page.goto("about:blank")


def test_experiments_are_chosen_and_the_address_keeps_them(
    page: Any, tmp_path: Path
) -> None:
    (tmp_path / "shop").mkdir()
    with site(place(tmp_path, "news"), place(tmp_path / "shop", "shop")) as served:
        served.live(6, experiment="news")
        served.live(9, since=100, experiment="shop")
        page.goto(served.url)
        page.locator('[data-decision="visit-5"]').wait_for()
        page.get_by_label("Experiment").select_option("shop")
        page.locator('[data-decision="visit-108"]').wait_for()
        assert page.locator('[data-decision="visit-5"]').count() == 0
        page.get_by_role("button", name="7 d").click()
        assert "experiment=shop" in page.url
        assert "range=week" in page.url
        page.reload()
        page.locator('[data-decision="visit-108"]').wait_for()
        assert seen(page, "h1") == "shop"
        assert (
            page.get_by_role("button", name="7 d").get_attribute("aria-pressed")
            == "true"
        )
        page.goto(f"{served.url}/?experiment=shop&range=hour&other=1")
        page.locator('[data-decision="visit-108"]').wait_for()
        assert page.url.endswith("/dashboard/#experiment=shop&range=hour")
        page.get_by_label("Experiment").select_option("news")
        page.locator('[data-decision="visit-5"]').wait_for()
        assert "experiment=news" in page.url
        page.goto("about:blank")


def test_two_replicas_show_the_same_numbers_at_the_same_position(
    chromium: Chromium, server: Server, experiment: str, tmp_path: Path
) -> None:
    files = [replica(tmp_path / name, server, experiment) for name in ("one", "two")]
    with ExitStack() as stack:
        replicas = [stack.enter_context(site(file)) for file in files]
        replicas[0].live(60)
        replicas[1].live(60, since=60)
        shown = [_shown(chromium, served) for served in replicas]
    assert shown[0] == shown[1]


def _shown(chromium: Chromium, served: Site) -> Any:
    served.settle()
    with chromium.page() as page:
        open_page(page, served, range="all")
        check_against_api(page, served)
        found = facts(page)
        page.goto("about:blank")
    return found


def test_a_store_that_cannot_be_written_is_said_and_the_page_recovers(
    chromium: Chromium, tmp_path: Path
) -> None:
    with site(place(tmp_path)) as served, chromium.page(refusals=True) as page:
        served.live(10)
        open_page(page, served)
        store: Any = served.service.experiments["news"].store
        inner = store._open()
        with inner._writing.lock:
            (size,) = inner._writing.connection.execute("pragma page_count").fetchone()
            inner._writing.connection.execute(f"pragma max_page_count = {size}")
        batch = {"decisions": [{"context": [0.3, -0.7]}] * 500}
        assert served.client.post("/v1/decide/batch", json=batch).status_code == 507
        page.locator('[data-tile="behind"] .broken').wait_for()
        assert "full" in seen(page, '[data-tile="behind"] .why')
        assert "oddsmith doctor" in seen(page, "#sentence .advice")
        make_room(inner)
        page.locator('[data-tile="behind"] .well').wait_for()
        page.goto("about:blank")
