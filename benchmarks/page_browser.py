"""A browser that has the service's page open, in a process of its own and at the lowest
priority.

python -m benchmarks.page_browser URL    # says when it has drawn; a line on its input ends it: what it has asked for
"""

import json
import os
import select
import shutil
import subprocess
import sys
import time
from types import TracebackType
from typing import Any, NamedTuple

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
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
_DRAWN = """panels => {
    const drawn = panels.every(id => document.querySelector(`#${id} [data-slot] > *`));
    return drawn && !document.body.innerText.includes('Asking the service') && performance.now();
}"""
_PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


class Asked(NamedTuple):
    """A request of the page: when, and its bytes."""

    time: float
    content: bytes


class Browser:
    """The page of a service in Chromium; `paint_ms` and `drawn_ms` count from the
    moment that its address was given."""

    def __init__(self, url: str) -> None:
        command = [sys.executable, "-m", "benchmarks.page_browser", url]
        self._process = subprocess.Popen(
            ["nice", "-n", "19", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.paint_ms, self.drawn_ms = self._said()

    def __enter__(self) -> "Browser":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> list[Asked]:
        """Close it; what it has asked the service for."""
        if self._process.stdin is None or self._process.stdin.closed:
            return []
        self._process.stdin.write("\n")
        self._process.stdin.close()
        asked = [Asked(when, content.encode()) for when, content in self._said()]
        self._process.wait(60)
        return asked

    def _said(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the browser ended")
        return json.loads(line)


def find_chromium() -> str | None:
    """The path of a Chromium, if there is one and Playwright to drive it."""
    try:
        import playwright  # noqa: F401
    except ImportError:
        return None
    return os.environ.get("ODDSMITH_CHROMIUM") or next(
        filter(None, map(shutil.which, _NAMES)), None
    )


def main() -> None:
    """Open the page, wait, and tell."""
    from playwright.sync_api import sync_playwright

    asked: list[tuple[float, str]] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.on("request", lambda request: asked.append((time.time(), _head(request))))
        page.goto(sys.argv[1])
        while not (drawn := page.evaluate(_DRAWN, _PANELS)):
            page.wait_for_timeout(20)
        print(json.dumps([page.evaluate(_PAINTED), drawn]), flush=True)
        while not select.select([sys.stdin], [], [], 0)[0]:
            page.wait_for_timeout(200)
        print(json.dumps(asked), flush=True)
        browser.close()


def _head(request: Any) -> str:
    """A request as it goes over the wire."""
    address, _, path = request.url.partition("//")[2].partition("/")
    names = {
        "host": address,
        "connection": "keep-alive",
        "accept-encoding": "gzip, deflate, br",
        **request.headers,
    }
    lines = [f"{name}: {value}" for name, value in names.items()]
    return "\r\n".join([f"GET /{path} HTTP/1.1", *lines, "", ""])


if __name__ == "__main__":
    main()
