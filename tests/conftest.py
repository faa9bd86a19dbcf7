"""Fixtures shared by all tests: both kinds of kernels, and hypothesis settings that repeat."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from oddsmith import kernels

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("repeatable")


@pytest.fixture(params=["numpy", "numba"])
def any_kernels(request: Any) -> Iterator[str]:
    """Run the test on numpy alone, and with the compiled twins."""
    kernels.use(request.param)
    yield request.param
    kernels.use("auto")
