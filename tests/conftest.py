"""Fixtures shared by all tests: both kinds of kernels, hypothesis settings that repeat,
a PostgreSQL server."""

import os
import signal
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from server.store.postgres_server import Server

# Tests run in one process for each core, where more threads of linear algebra only
# spin; numpy reads this when loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Walks are traced through compiled code (test_contributing.py); from Python 3.12 on
# numba must be told when loaded.
os.environ.setdefault("NUMBA_ENABLE_SYS_MONITORING", "1")

_numbers = count()

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("repeatable")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say which browser the tests in one have used."""
    from browser.chromium import browser_version

    passed = terminalreporter.stats.get("passed", []) + terminalreporter.stats.get(
        "failed", []
    )
    if any(report.nodeid.startswith("tests/browser/") for report in passed):
        terminalreporter.write_line(f"tests/browser: {browser_version()}")


@pytest.fixture(params=["numpy", "numba"])
def any_kernels(request: Any) -> Iterator[str]:
    """Run the test on numpy alone, and with the compiled twins."""
    from oddsmith.core import kernels

    usual = kernels.choice()
    kernels.use(request.param)
    yield request.param
    kernels.use(usual)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C raises, also where the tests were started in the background."""
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, usual)


@pytest.fixture(scope="session")
def server() -> "Iterator[Server]":
    """The PostgreSQL server of this process, started when a test asks for it."""
    from server.store.postgres_server import Server

    started = Server()
    yield started
    started.remove()


@pytest.fixture
def experiment() -> str:
    """A name that no other test has."""
    return f"e{next(_numbers)}"
