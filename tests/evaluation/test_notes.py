"""What is said under a verdict of what the log lacks, and that nothing is said where it
lacks nothing."""

from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.evaluation import Assessment, Estimate, assess
from oddsmith.evaluation.report import diagnostics_table, log_notes

ODDS = np.array([0.6, 0.25, 0.15])
TARGET = np.array([0.2, 0.2, 0.6])


def assessed(
    known: str, *, empty: int = 0, means: float = 0.1, seed: int = 4, **settings: Any
) -> Assessment:
    """1,000 rows, the first of which have no reward; the log has the odds of all arms,
    of drawn ones, or none."""
    rng = np.random.default_rng(seed)
    arm = (rng.random(1000)[:, None] > ODDS.cumsum()).sum(axis=1)
    reward = (rng.random(1000) < means).astype(np.float64)
    reward[:empty] = np.nan
    odds: Any = {
        "all": {"propensities": np.tile(ODDS, (1000, 1))},
        "drawn": {"propensity": ODDS[arm]},
        "none": {},
    }
    log = made(arm=arm, reward=reward, arms=["a", "b", "c"], **odds[known])
    return assess(
        log, {"new": TARGET}, predictions=np.full((1000, 3), means), **settings
    )


def made(**columns: Any) -> od.Log:
    return od.Log(**columns)


def support(found: Assessment) -> str:
    return diagnostics_table(found).rows[0][3]


def test_support_is_not_claimed_where_it_is_not_known() -> None:
    assert support(assessed("all")) == "0.00%"
    assert support(assessed("drawn")) == "not known"
    assert support(assessed("none")) == "not known"


def test_support_that_is_partly_known() -> None:
    log = made(
        arm=[0, 1] * 300,
        reward=[1, 0] * 300,
        propensity=[1.0, 0.5] * 300,
        arms=["a", "b", "c"],
    )
    assert support(assess(log, {"b": np.array([0.0, 1.0, 0.0])})) == "at least 50.00%"


def test_of_two_arms_the_odds_of_one_say_those_of_the_other() -> None:
    log = made(
        arm=[0, 1] * 300,
        reward=[1, 0, 0, 0, 1, 1] * 100,
        propensity=[0.5] * 600,
        arms=["a", "b"],
    )
    found = assess(log, {"b": np.array([0.3, 0.7])})
    assert log_notes(found) == []
    assert support(found) == "0.00%"


@pytest.mark.parametrize(("means", "end"), [(0.1, "high"), (0.9, "low")])
def test_drawn_odds_are_told_to_widen_the_end_that_they_widen(
    means: float, end: str
) -> None:
    """On the mean of 20 logs, at least ten times as much as the other end; by
    simulation it is fifty times."""
    (note,) = log_notes(assessed("drawn", means=means))
    assert (
        f"the {end} ends of intervals leave room for arms whose odds were not logged"
        in note
    )
    assert log_notes(assessed("all", means=means)) == []
    wider = {"high": 0.0, "low": 0.0}
    for seed in range(20):
        one, other = (
            assessed(known, means=means, seed=seed).answers["new"]["snips"]
            for known in ("drawn", "all")
        )
        assert isinstance(one, Estimate)
        assert isinstance(other, Estimate)
        wider["high"] += one.high - other.high
        wider["low"] += other.low - one.low
    assert wider.pop(end) > 10 * sum(wider.values())


def test_nothing_is_said_of_ends_where_there_is_no_answer() -> None:
    assert log_notes(assessed("none")) == []
    assert log_notes(assessed("drawn", interval="anytime")) == []


def test_many_rows_without_a_reward_are_told_near_the_top() -> None:
    (note,) = log_notes(assessed("all", empty=800))
    assert note == (
        "800 of 1,000 rows have no reward and were left out; if no reward means 0, "
        "write 0."
    )
    assert log_notes(assessed("all", empty=100)) == []
