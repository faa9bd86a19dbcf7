"""Fifty times kill -9, twenty power cuts: the long versions of
tests/server/store/test_crashes.py."""

from pathlib import Path

import numpy as np
import pytest

from server.store.test_crashes import cut, killed, lost, shim

pytestmark = pytest.mark.soak


def test_fifty_kills_at_random_times(tmp_path: Path) -> None:
    rng, answered = np.random.default_rng(0), set[str]()
    for _ in range(50):
        answered |= killed(
            tmp_path / "events.sqlite", "full", answers=int(rng.integers(1, 400))
        )
        assert lost(tmp_path / "events.sqlite", answered) == 0


def test_twenty_power_cuts_at_random_times(tmp_path: Path) -> None:
    rng, library = np.random.default_rng(0), shim(tmp_path)
    for i in range(20):
        assert (
            cut(tmp_path / str(i), "full", library, answers=int(rng.integers(1, 1500)))
            == 0
        )


@pytest.mark.parametrize("variant", ["normal", "early"])
def test_power_cuts_of_broken_writers(tmp_path: Path, variant: str) -> None:
    library = shim(tmp_path)
    assert (
        sum(cut(tmp_path / str(i), variant, library, answers=1500) for i in range(3))
        > 0
    )
