"""The same numbers as Open Bandit Pipeline, to 1e-10; skipped by name where it or its
logs are absent."""

from pathlib import Path

import numpy as np
import pytest
from benchmarks.obp_parity import ESTIMATORS, LOGS, pairs, read

import oddsmith as od

DATA = Path(od.__file__).parents[3] / "shared" / "data"


def agree(log: od.Log, position: object, n_arms: int) -> None:
    pytest.importorskip(
        "obp", reason="peer obp is not installed (make bench installs it)"
    )
    found = pairs(log, position, n_arms)
    assert set(found) == set(ESTIMATORS)
    for ours, theirs in found.values():
        assert ours == pytest.approx(theirs, abs=1e-10)


@pytest.mark.filterwarnings("ignore")
def test_on_a_random_log() -> None:
    rng = np.random.default_rng(0)
    reward = (rng.random(500) < 0.3).astype(np.float64)
    log = od.Log(
        arm=rng.integers(5, size=500),
        reward=reward,
        propensity=rng.uniform(0.01, 1, 500),
    )
    agree(log, rng.integers(3, size=500), 5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LOGS)
def test_on_the_open_bandit_logs(name: str) -> None:
    if not (DATA / "logged").exists():
        pytest.skip(f"the Open Bandit logs are not in {DATA / 'logged'}")
    agree(*read(DATA, name), LOGS[name])
