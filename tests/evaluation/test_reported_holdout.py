"""A holdout that the caller draws and reports: groups, and no odds of the control."""

import numpy as np
import pytest

from oddsmith.evaluation import score_metrics, unit_log
from oddsmith.logs.table import Log


@pytest.mark.parametrize("seed", range(3))
def test_a_reported_holdout_answers_as_one_of_the_service(seed: int) -> None:
    """10 % of 3,000 pages get the control, at 10 %; the bandit's arm has 21.4 %."""
    rng = np.random.default_rng(seed)
    is_control = rng.random(3_000) < 0.1
    reward = rng.random(3_000) < np.where(is_control, 0.1, 0.214)
    log = Log(
        arm=(~is_control).astype(np.int64),
        reward=reward.astype(np.float64),
        propensities=np.where(is_control[:, None], [1.0, 0.0], [0.01, 0.99]),
        group=["control" if one else "policy" for one in is_control],
        holdout=np.full(3_000, 0.1),
    )
    (found,) = score_metrics(unit_log(log), {"policy": [1.0, 0.0]}, [0.0, 1.0])
    assert found.outcome == "better"
    assert found.difference.low < 0.114 < found.difference.high
