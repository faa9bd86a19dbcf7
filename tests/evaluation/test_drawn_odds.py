"""What a log of drawn odds alone cannot carry is refused, also where an arm is common in other contexts."""

import numpy as np
import pytest

import oddsmith as od
from oddsmith.evaluation import compare, estimate, ips, snips
from oddsmith.logs import Log


def log_with_a_corner(seed: int, share: float, steps: int = 1000) -> tuple[Log, np.ndarray, np.ndarray]:
    """In a corner of contexts the logger all but always draws arm 0; elsewhere it draws all six alike.

    Both targets draw arm 1 elsewhere; in the corner the first draws arm 0, the second arm 1, which is better there by
    1/2. So the second is better by `share` / 2, and no log shows it: arm 1 is hardly ever drawn in the corner.
    """
    rng = np.random.default_rng(seed)
    corner = rng.random(steps) < share
    odds = np.where(corner[:, None], [0.995, *[0.001] * 5], np.full(6, 1 / 6))
    arm = (odds.cumsum(axis=1) > rng.random((steps, 1))).argmax(axis=1)
    reward = rng.random(steps) < np.where(corner & (arm == 1), 1.0, 0.5)
    first = np.eye(6)[np.where(corner, 0, 1)]
    drawn = odds[np.arange(steps), arm]
    return Log(arm=arm, reward=reward.astype(float), propensity=drawn), first, np.tile(np.eye(6)[1], (steps, 1))


@pytest.mark.parametrize("share", [0.1, 0.2])
@pytest.mark.parametrize("estimator", [ips, snips])
def test_a_difference_that_misses_weight_on_one_side_is_refused(share: float, estimator: object) -> None:
    make = ips if estimator is ips else snips
    covered = 0
    for seed in range(20):
        log, first, second = log_with_a_corner(seed, share)
        found = compare({"first": make(log, first), "second": make(log, second)}).differences["second"]
        covered += bool(found.refused) or found.low <= share / 2 <= found.high
    assert covered == 20


def test_a_floor_that_the_drawn_odds_contradict_is_refused() -> None:
    log = Log(arm=np.zeros(1000, np.int64), reward=np.zeros(1000), propensity=np.full(1000, 0.98))
    with pytest.raises(od.InvalidInput, match="floor must be at most all logged odds"):
        estimate(ips(log, [0, 1]), interval="bernstein", floor=0.5)
    assert estimate(ips(log, [0, 1]), interval="bernstein", floor=0.02).high > 0.3
