"""What a reader finds on the page: panels, numbers, tables, faults of access."""

from typing import Any
from urllib.parse import urlencode

from browser.site import Site

__all__ = ["axe_faults", "numbers", "open_page", "rows", "seen", "worths"]

_PANELS = (
    "sentence",
    "well",
    "follow",
    "serve",
    "worth",
    "reward",
    "decisions",
    "experts",
    "guarantee",
)


def open_page(page: Any, site: Site, **address: str) -> None:
    """Open it, with an experiment, a range or a decision, and wait until every panel
    has drawn."""
    page.goto(f"{site.url}/dashboard/#{urlencode(address)}")
    for panel in _PANELS:
        page.locator(f"#{panel} [data-slot] > *").first.wait_for(state="attached")
    page.get_by_text("Asking the service").wait_for(state="detached")


def seen(page: Any, where: str) -> str:
    """The text of a place."""
    return str(page.locator(where).first.inner_text())


def numbers(page: Any, where: str) -> list[float]:
    """The exact numbers of a place; each is written next to them, rounded."""
    return [
        float(one.get_attribute("value")) for one in page.locator(f"{where} data").all()
    ]


def rows(page: Any, where: str) -> dict[str, list[Any]]:
    """The rows of a table, by their heads: numbers where a cell has an exact one, else
    its text."""
    code = """tables => {
        const told = cell => {
            const exact = [...cell.querySelectorAll('data')].map(one => Number(one.value));
            return exact.length ? (exact.length === 1 ? exact[0] : exact) : cell.innerText.trim();
        };
        const row = one => [one.querySelector('th').innerText.trim(), [...one.querySelectorAll('td')].map(told)];
        return tables.flatMap(table => [...table.tBodies[0].rows].map(row));
    }"""
    return dict(page.locator(f"{where} table").evaluate_all(code))


def worths(values: list[dict[str, Any]]) -> list[list[float]]:
    """What the page tells of the API's values: value and interval, or the interval
    alone, if the weighted mean is beyond all rewards."""
    told = [one for one in values if one["value"] is not None]
    inside = [not one["is_cut"] for one in told]
    return [
        [one["value"], one["low"], one["high"]] if is_in else [one["low"], one["high"]]
        for one, is_in in zip(told, inside, strict=True)
    ]


def axe_faults(page: Any) -> list[str]:
    """What axe finds, each as its rule and the first place."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html'][:120]}" for one in found]
