"""What a reader finds on the page: panels, numbers, tables, faults of access."""

from typing import Any
from urllib.parse import urlencode

from browser.site import Site

__all__ = ["axe_faults", "numbers", "open_page", "rows", "seen"]

_PANELS = ("sentence", "well", "follow", "serve", "worth", "reward", "decisions", "experts", "guarantee")


def open_page(page: Any, site: Site, **address: str) -> None:
    """Open it, with an experiment, a range or a decision, and wait until every panel has drawn."""
    page.goto(f"{site.url}/dashboard/#{urlencode(address)}")
    for panel in _PANELS:
        page.locator(f"#{panel} [data-slot] > *").first.wait_for(state="attached")
    page.get_by_text("Asking the service").wait_for(state="detached")


def seen(page: Any, where: str) -> str:
    """The text of a place."""
    return str(page.locator(where).first.inner_text())


def numbers(page: Any, where: str) -> list[float]:
    """The exact numbers of a place; each is written next to them, rounded."""
    return [float(one.get_attribute("value")) for one in page.locator(f"{where} data").all()]


def rows(page: Any, where: str) -> dict[str, list[Any]]:
    """The rows of a table, by their heads: numbers where a cell has an exact one, else its text."""
    code = """tables => tables.flatMap(table => [...table.tBodies[0].rows].map(row => [...row.cells].map(cell => {
        const exact = cell.querySelectorAll('data');
        if (exact.length === 1) return Number(exact[0].value);
        return exact.length ? [...exact].map(one => Number(one.value)) : cell.innerText.trim();
    })))"""
    found = page.locator(f"{where} table").evaluate_all(code)
    return {str(row[0]): row[1:] for row in found}


def axe_faults(page: Any) -> list[str]:
    """What axe finds, each as its rule and the first place."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html'][:120]}" for one in found]
