"""Offers in logs where they are odd: rows that wait, one arm, arms in another order in
each piece, numbers as names."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import Ridge

import oddsmith as od
from oddsmith.evaluation import cross_fit, dm, ips, snips, uniform_target
from oddsmith.logs import Log, fit_log, read_log, read_long, write_log


def log_of(**columns: Any) -> Log:
    return Log(**columns)


def test_rows_that_wait_may_have_the_most_arms() -> None:
    odds = [[0.5, 0.5]] * 20 + [[0.2, 0.3, 0.5]]
    rewards = [1, 0] * 10 + [np.nan]
    log = log_of(
        arm=[0, 1] * 10 + [0],
        reward=rewards,
        offered=[["b", "a"]] * 20 + [["a", "b", "c"]],
        propensities=odds,
    )
    for estimator in (ips, snips):
        assert (
            estimator(log, uniform_target(log)).values.tolist()
            == estimator(log[:20], uniform_target(log[:20])).values.tolist()
        )
    assert ips(log, uniform_target(log)).values.mean() == pytest.approx(0.5)


@pytest.mark.parametrize("rows", [1, 2, 1000])
@pytest.mark.filterwarnings("ignore::oddsmith.core.errors.NoExploration")
def test_a_policy_without_names_is_not_fitted_by_place(rows: int) -> None:
    log = log_of(
        arm=[0] * 4,
        reward=[1, 1, 0, 0],
        offered=[["a", "b"]] * 2 + [["b", "a"]] * 2,
        propensity=[0.5] * 4,
    )
    with pytest.raises(
        od.InvalidInput, match=r"same arms in every row|differ from row to row"
    ):
        fit_log(od.policies.UCB1(2), log, reader=od.logs.LogReader(rows=rows))
    assert (
        fit_log(
            od.policies.UCB1(2), log[:2], reader=od.logs.LogReader(rows=rows)
        ).learnt
        == 2
    )


def test_whole_numbers_are_names_of_offered_arms() -> None:
    agent = od.Agent(od.auto(), seed=1)
    assert agent.decide({}, arms=[1, 2, 3], eligible=[1]).arm == "1"
    assert agent.decide({}, arms=[3, 0], eligible=[0]).arm == "0"
    assert agent.decide({}, arms=[10, 11], eligible=["11"]).arm == "11"
    assert agent.decide_batch(
        [{}, {}], arms=[[0, 1], [1, 0]], eligible=[[0], [0]]
    ).arm.tolist() == ["0", "0"]
    with pytest.raises(od.InvalidInput, match="must be among the arms"):
        agent.decide({}, arms=["a", "b"], eligible=[0])


@pytest.mark.parametrize("name", ["log.parquet", "log.jsonl"])
def test_odds_with_rounding_are_read_back(name: str, tmp_path: Path) -> None:
    log = log_of(
        arm=[0], reward=[1], offered=[["a"]], propensities=[[1.0000000000000002]]
    )
    assert log.propensity is not None
    assert log.propensity.tolist() == [1.0]
    write_log(log, tmp_path / name)
    assert read_log(tmp_path / name).arm.tolist() == [0]


def test_one_arm_alone_does_not_make_a_log_deterministic() -> None:
    log = log_of(
        arm=[0, 1],
        reward=[1, 0],
        eligible=[[True, False], [True, True]],
        propensity=[1.0, 0.5],
    )
    assert (log.kind, log[:1].kind) == ("drawn", "drawn")


def test_a_column_of_no_features_is_none() -> None:
    log = log_of(
        arm=[0, 1] * 10,
        reward=[1, 0] * 10,
        offered=[["a", "b"]] * 20,
        features=[None] * 20,
        propensities=[[0.5, 0.5]] * 20,
        context=[{"x": float(i)} for i in range(20)],
    )
    assert np.isfinite(
        dm(log, uniform_target(log), cross_fit(log, Ridge())).values
    ).all()


def test_features_of_nan_are_not_known() -> None:
    table = pa.table(
        {
            "decision_id": ["1", "1", "2", "2"],
            "arm": ["a", "b", "a", "b"],
            "drawn": [True, False, False, True],
            "reward": [1.0, 1.0, 0.0, 0.0],
            "propensity": [0.5, 0.5, 0.5, 0.5],
            "z": [1.0, float("nan"), float("nan"), 2.0],
        }
    )
    assert read_long(table).known_features == "drawn"
