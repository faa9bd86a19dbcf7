"""A browser for tests: Chromium by ODDSMITH_CHROMIUM or from the path; any message on
its console fails the test."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser.built import built, served
from browser.chromium import Chromium, find_chromium

_started: list[Chromium] = []


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Close the browser after the last of these tests: while it is open no other test
    can have a loop of asyncio."""
    if _started and (nextitem is None or "browser" not in nextitem.path.parts):
        _started.pop().close()


@pytest.fixture
def chromium() -> Chromium:
    """The browser, the same one for all tests of a process."""
    pytest.importorskip(
        "playwright",
        reason="Playwright is not installed: requirements/browser.txt has it",
    )
    if find_chromium() is None:
        pytest.skip(
            "there is no Chromium: set ODDSMITH_CHROMIUM, or put chromium on the path"
        )
    if not _started:
        _started.append(Chromium())
    return _started[0]


@pytest.fixture
def page(chromium: Chromium) -> Iterator[Any]:
    """A page of its own, 1280 wide and light; what it says on its console must be
    nothing."""
    with chromium.page() as opened:
        yield opened


@pytest.fixture(scope="session")
def docs_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation as a static site, built once."""
    return built(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="session")
def docs_address(docs_folder: Path) -> Iterator[str]:
    """Where a server of this process has it."""
    with served(docs_folder) as url:
        yield url
