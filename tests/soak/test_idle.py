"""The long version of tests/server/experiment/test_idle.py: 2,000 experiments in a
process with 1,024 files."""

from pathlib import Path

import pytest
from benchmarks.idle import Cost, idle

pytestmark = pytest.mark.soak

_NEVER = (
    "from oddsmith.server.store.sqlite.rest import RestingStore\n"
    "RestingStore.rest = lambda self: False\n"
)


def check(cost: Cost) -> None:
    assert cost.share <= 0.02
    assert cost.threads <= 100
    assert cost.files <= 1024
    assert (cost.unanswered, cost.open_windows, cost.contexts) == (0, 0, 0)


def test_two_thousand_experiments_that_are_idle_for_a_minute(tmp_path: Path) -> None:
    check(idle(tmp_path, 2000, 60.0))


def test_stores_that_never_rest_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="at most 27 stores may be open at a time"):
        idle(tmp_path, 200, 1.0, _NEVER)
