"""Served as logged with drawn odds only: arms that the log does not state, and
floors."""

from itertools import product
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith import evaluation as ev

Log: Any = od.Log  # which takes lists, too


@pytest.mark.parametrize("floor", [0.0, 0.1])
@pytest.mark.parametrize("numbers", [(0, 1, 2), (1, 2, 3), (2, 9, 5)])
def test_money_is_at_most_one_on_average_where_numbers_of_arms_have_gaps(
    numbers: Any, floor: float
) -> None:
    """All 3^5 logs of three arms that the log does not state: gaps in their numbers are
    no arms."""
    odds = np.array(
        [
            [0.2, 0.5, 0.3],
            [0.1, 0.1, 0.8],
            [0.6, 0.3, 0.1],
            [0.3, 0.3, 0.4],
            [0.2, 0.7, 0.1],
        ]
    )
    total = 0.0
    for arm in product(range(3), repeat=5):
        own = odds[np.arange(5), list(arm)]
        log = Log(arm=np.array(numbers)[list(arm)], reward=np.zeros(5), propensity=own)
        total += float(own.prod()) * ev.served_as_logged(log, floor=floor).e_value
    assert total <= 1 + 1e-9


def test_arms_numbered_from_one_are_honest_until_one_is_left_out() -> None:
    """Honest logs: 5 or more of 20 would have probability 0.003 at exactly 0.05. Arm 2
    is cut in the second half."""
    honest = cut = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        arm, p = rng.integers(1, 4, 1000), np.full(1000, 1 / 3)
        honest += ev.served_as_logged(
            Log(arm=arm, reward=np.zeros(1000), propensity=p), floor=0.1
        ).caught
        arm[500:] = np.where(arm[500:] == 2, rng.choice([1, 3], 500), arm[500:])
        found = ev.served_as_logged(
            Log(arm=arm, reward=np.zeros(1000), propensity=p), floor=0.25
        )
        cut += found.caught and "arm 2 were not served" in found.sentence
    assert honest <= 4
    assert cut == 20


def test_odds_that_are_rounded_to_the_floor_are_honest() -> None:
    # above 1/3, and so is nothing but rounding above the floor
    p = np.full(300, np.float64(np.float32(1 / 3)))
    log = Log(
        arm=np.arange(300) % 3, reward=np.zeros(300), propensity=p, arms=["a", "b", "c"]
    )
    assert not ev.served_as_logged(log, floor=1 / 3).caught


def test_floors_are_checked() -> None:
    log = Log(arm=[0, 1], reward=[0, 0], propensity=[0.5, 0.1], arms=["a", "b", "c"])
    with pytest.raises(
        od.InvalidInput,
        match=r"floor must be at most the least logged odds, 0.1, and 1 / arms, 0.33",
    ):
        ev.served_as_logged(log, floor=0.2)


@pytest.mark.parametrize("columns", [{}, {"arms": ["a", "b", "c"]}])
def test_floors_that_a_row_contradicts_are_refused(columns: Any) -> None:
    """Odds of 1 leave nothing for two more arms, unless these are logged as not
    eligible; 0.8 leaves 0.1 each."""
    arm, p = [0, 1, 2, 0, 1], np.array([1 / 3, 1 / 3, 1 / 3, 1, 1 / 3])
    with pytest.raises(
        od.InvalidInput,
        match=(
            r"row 3, 1, leave less than the floor, 0.1, for each of 2 other arms; log"
        ),
    ):
        ev.served_as_logged(
            Log(arm=arm, reward=np.zeros(5), propensity=p, **columns), floor=0.1
        )
    eligible = [[True] * 3] * 3 + [[True, False, False], [True] * 3]
    log = Log(arm=arm, reward=np.zeros(5), propensity=p, eligible=eligible, **columns)
    assert not ev.served_as_logged(log, floor=0.1).caught
    p[3] = np.float32(0.8)
    assert not ev.served_as_logged(
        Log(arm=arm, reward=np.zeros(5), propensity=p, **columns), floor=0.1
    ).caught


def test_an_assessment_tests_with_the_floor_unless_a_row_contradicts_it() -> None:
    rng = np.random.default_rng(0)
    arm = np.where(
        np.arange(1000) < 500,
        rng.integers(3, size=1000),
        2 * rng.integers(2, size=1000),
    )
    log = Log(arm=arm, reward=rng.random(1000) < 0.5, propensity=np.full(1000, 1 / 3))
    settings: Any = {"targets": {"even": [1 / 3] * 3}, "overrule": ev.RULES}
    assert ev.assess(log, floor=0.25, **settings).served == ev.served_as_logged(
        log, floor=0.25
    )
    assert (
        ev.assess(log, **settings).served
        == ev.served_as_logged(log)
        != ev.served_as_logged(log, floor=0.25)
    )
    assert ev.assess(log, floor=0.5, **settings).served == ev.served_as_logged(log)
