"""A Chromium that is on this machine, driven by Playwright, and pages whose console is
listened to."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

__all__ = ["Chromium", "browser_version", "find_chromium"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# the browser says this of every status that is an error, also of one we expect
_EXPECTED = "Failed to load resource"


@cache
def find_chromium() -> str | None:
    """The path of a Chromium, if there is one."""
    return os.environ.get("ODDSMITH_CHROMIUM") or next(
        filter(None, map(shutil.which, _NAMES)), None
    )


def browser_version() -> str:
    """What it calls itself."""
    found = find_chromium()
    if found is None:
        return "none"
    said = subprocess.run(
        [found, "--version"], capture_output=True, text=True, timeout=60, check=False
    )
    return said.stdout.strip() or "a Chromium that does not say its version"


class Chromium:
    """A running browser."""

    def __init__(self) -> None:
        from playwright.sync_api import sync_playwright

        self._playwright = sync_playwright().start()
        self._browser = self._playwright.chromium.launch(
            executable_path=find_chromium(), args=["--no-sandbox"]
        )

    def close(self) -> None:
        self._browser.close()
        self._playwright.stop()

    @contextmanager
    def page(
        self, *, width: int = 1280, theme: str = "light", refusals: bool = False
    ) -> Iterator[Any]:
        """A page in a window of its own; at its end nothing may have been said on its
        console.

        With `refusals`, answers that are errors are part of the test, and what the
        browser says of them is no fault.
        """
        window = {"width": width, "height": 900}
        context = self._browser.new_context(
            viewport=window, color_scheme=theme, timezone_id="Europe/Berlin"
        )
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page, said = context.new_page(), list[str]()
        page.on(
            "console", lambda message: said.append(f"{message.type}: {message.text}")
        )
        page.on("pageerror", lambda error: said.append(str(error)))
        try:
            yield page
        finally:
            context.close()
        faults = [one for one in said if not (refusals and _EXPECTED in one)]
        assert not faults, faults
