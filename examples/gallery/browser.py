"""Pictures of pages, by a Chromium of this machine; Playwright drives it
(requirements/browser.txt)."""

import datetime
import io
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    "no-sandbox",
    "disable-gpu",
    "disable-quic",
    "no-first-run",
    "disable-background-networking",
)
_MORE = (
    "disable-component-update",
    "disable-sync",
    "force-color-profile=srgb",
    "font-render-hinting=none",
)


@contextmanager
def opened(
    address: str, *, theme: str = "light", now: float | None = None
) -> Iterator[Any]:
    """A page 1280 wide, in Berlin, as it looks at a time."""
    from playwright.sync_api import sync_playwright

    found = os.environ.get("ODDSMITH_CHROMIUM") or next(
        filter(None, map(shutil.which, _NAMES)), None
    )
    if found is None:
        raise SystemExit(
            "there is no Chromium: set ODDSMITH_CHROMIUM to one, or put chromium on "
            "the path"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found, args=[f"--{flag}" for flag in (*_FLAGS, *_MORE)]
        )
        size: Any = {"width": 1280, "height": 1600}
        page = browser.new_context(
            viewport=size, color_scheme=theme, timezone_id="Europe/Berlin"
        ).new_page()
        if now is not None:
            page.clock.install(time=datetime.datetime.fromtimestamp(now, datetime.UTC))
        page.goto(address)
        yield page
        browser.close()


def above(page: Any, end: str, sides: str = "body") -> bytes:
    """A picture of the page from its top down to an element, and as wide as another
    one, with a margin."""
    page.set_viewport_size(
        {
            "width": 1280,
            "height": int(page.evaluate("document.documentElement.scrollHeight")),
        }
    )
    last, wide = (
        page.locator(end).first.bounding_box(),
        page.locator(sides).first.bounding_box(),
    )
    left = max(0, wide["x"] - 24)
    width = min(1280 - left, wide["x"] + wide["width"] + 24 - left)
    content: bytes = page.screenshot(
        clip={"x": left, "y": 0, "width": width, "height": last["y"]}
    )
    return content


def keep(content: bytes, path: Path) -> None:
    """Write a picture with at most 256 colours: what pages have, in a third of the
    bytes."""
    from PIL import Image

    picture = (
        Image.open(io.BytesIO(content))
        .convert("RGB")
        .quantize(256, dither=Image.Dither.NONE)
    )
    picture.save(path, optimize=True)
