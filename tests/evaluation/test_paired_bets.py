"""Paired bets: exact means by enumeration, order, replacement, error rates."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oddsmith.evaluation import compare, ips, logged
from oddsmith.evaluation.exact_sums import of_units
from oddsmith.evaluation.paired_bets import (
    RATES,
    PairedRows,
    PairedSums,
    pair_drawn_odds,
    pair_odds,
    row_units,
)
from oddsmith.logs import Log

ARMS = 3


def random_odds(rng: np.random.Generator, rows: int) -> np.ndarray:
    return rng.dirichlet(np.ones(ARMS), size=rows)


def random_rows(seed: int, rows: int) -> PairedRows:
    rng = np.random.default_rng(seed)
    reward = rng.random(rows).round(2)
    reward[rng.random(rows) < 0.2] = np.nan
    odds = random_odds(rng, rows)
    odds[: rows // 4, 0] = 0.0
    odds /= odds.sum(axis=1, keepdims=True)
    return pair_odds(
        rng.integers(1, ARMS, size=rows),
        odds,
        random_odds(rng, rows),
        random_odds(rng, rows),
        reward,
    )


@pytest.mark.parametrize("missing", [0, 1])
@pytest.mark.parametrize("seed", range(20))
def test_each_factor_has_mean_at_most_one(seed: int, missing: int) -> None:
    """By enumeration over arms and rewards 0 and 1, whatever the means are."""
    rng = np.random.default_rng(seed)
    odds = rng.dirichlet(np.full(ARMS, 0.3))
    odds[:missing] = 0.0
    odds /= odds.sum()
    target = rng.dirichlet(np.full(ARMS, 0.5))
    control = rng.dirichlet(np.full(ARMS, 0.5))
    means = rng.integers(0, 2, size=ARMS) * rng.random()
    effect = (target - control) @ means
    expected = np.zeros((2, *PairedSums().units.shape[1:]))
    for arm in range(ARMS):
        for reward in (0.0, 1.0):
            chance = means[arm] if reward else 1 - means[arm]
            row = pair_odds(
                np.array([arm]),
                odds[None],
                target[None],
                control[None],
                np.array([reward]),
            )
            factors = np.exp(of_units(row_units(row)))
            expected += odds[arm] * chance * factors
    assert (expected[0] <= np.exp(RATES[:, None] * effect) + 1e-8).all()
    assert (expected[1] <= np.exp(-RATES[:, None] * effect) + 1e-8).all()


def test_a_row_without_reward_costs_the_mass_that_moves() -> None:
    row = pair_odds(
        np.array([0]),
        np.array([[0.5, 0.5]]),
        np.array([[0.7, 0.3]]),
        np.array([[0.4, 0.6]]),
        np.array([np.nan]),
    )
    gains = of_units(row_units(row))
    assert np.allclose(gains, -0.3 * RATES[:, None], rtol=0, atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 40), st.randoms(use_true_random=False))
def test_order_and_corrections_do_not_matter(
    seed: int, rows: int, random: Random
) -> None:
    """Rows in any order, rewards that arrive late or change: equal to the last bit."""
    final = random_rows(seed, rows)
    first = final._replace(reward=np.full(rows, np.nan))
    once = PairedSums()
    once.add(final)
    order = [np.array([row]) for row in range(rows)]
    random.shuffle(order)
    live = PairedSums()
    for row in order:
        live.add(first.at(row))
    random.shuffle(order)
    for row in order:
        wrong = first.at(row)._replace(reward=np.array([0.25]))
        live.replace(first.at(row), wrong)
        live.replace(wrong, final.at(row))
    assert live == once
    at_once = PairedSums()
    counts = np.repeat([1, -1, 1], rows)
    at_once.add(PairedRows.concatenate([first, first, final]), counts)
    assert at_once == once
    half = PairedSums()
    half.add(final.at(slice(rows // 2)))
    rest = PairedSums()
    rest.add(final.at(slice(rows // 2, None)))
    assert half.merge(rest) == once
    assert live.bounds(0.9) == once.bounds(0.9)


def test_equal_policies_have_difference_zero() -> None:
    """Where target and control agree, neither bound costs anything."""
    rng = np.random.default_rng(3)
    odds = random_odds(rng, 5000)
    sums = PairedSums()
    sums.add(pair_odds(rng.integers(0, 3, 5000), odds, odds, odds, rng.random(5000)))
    low, high = sums.bounds(0.95)
    # rate 1 has 2 of 42.5 parts of the money
    assert np.log(40) / 5000 < -low < np.log(40 * 42.5 / 2) / 5000
    assert high == -low


def test_the_bound_is_the_root_of_the_evidence() -> None:
    """W at the lower bound is 2/α, computed here from the definition."""
    rows = random_rows(4, 400)
    rows = rows.at(~np.isnan(rows.reward))
    sums = PairedSums()
    sums.add(rows)
    low, high = sums.bounds(0.9)
    gains = of_units(sums.units)
    rate_parts = np.array([2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1, 1, 0.5])
    centre_parts = np.array([2.0] * 4 + [1.0] * 9)
    shares = np.outer(rate_parts / 42.5, centre_parts / 17)
    for side, effect in ((0, low), (1, -high)):
        exponents = gains[side] - RATES[:, None] * sums.rows * effect
        evidence = (shares * np.exp(exponents)).sum()
        assert evidence == pytest.approx(2 / 0.1, rel=1e-6)


def test_drawn_odds_with_the_true_floor_are_close_to_all_odds() -> None:
    rng = np.random.default_rng(5)
    n = 4000
    odds = np.full((n, 2), 0.5)
    arm = rng.integers(0, 2, n)
    reward = (rng.random(n) < 0.2).astype(float)
    target = np.tile([0.0, 1.0], (n, 1))
    control = np.tile([1.0, 0.0], (n, 1))
    exact = PairedSums()
    exact.add(pair_odds(arm, odds, target, control, reward))
    drawn = PairedSums()
    drawn.add(pair_drawn_odds(arm, np.full(n, 0.5), target, control, reward, floor=0.5))
    assert drawn == exact
    logger = PairedSums()
    logger.add(pair_drawn_odds(arm, np.full(n, 0.5), target, None, reward, floor=0.5))
    served = PairedSums()
    served.add(pair_odds(arm, odds, target, odds, reward))
    low, high = served.bounds()
    assert logger.bounds().low <= low < high <= logger.bounds().high
    assert logger.bounds().high - logger.bounds().low < 1.3 * (high - low)


def test_no_rows_say_nothing() -> None:
    assert PairedSums().bounds(0.95) == (-1.0, 1.0)


@pytest.mark.parametrize("known", ["all", "drawn"])
def test_anytime_differences_of_a_comparison_are_paired(known: str) -> None:
    """With all odds no floor is needed; drawn odds need one, and are wider."""
    rng = np.random.default_rng(6)
    n = 3000
    odds = np.tile([0.5, 0.3, 0.2], (n, 1))
    arm = (rng.random((n, 1)) > odds.cumsum(axis=1)[:, :-1]).sum(axis=1)
    reward = (rng.random(n) < 0.1 + 0.1 * (arm == 1)).astype(float)
    target = np.tile([0.1, 0.9, 0.0], (n, 1))
    exact = PairedSums()
    exact.add(pair_odds(arm, odds, target, odds, reward))
    expected = exact.bounds(0.95)
    columns: dict[str, Any] = {"propensities": odds}
    if known == "drawn":
        columns = {"propensity": odds[np.arange(n), arm]}
    log = Log(arm=arm, reward=reward, **columns)
    terms = {"today": logged(log), "new": ips(log, target)}
    floor = None if known == "all" else 0.2
    found = compare(terms, interval="anytime", floor=floor).differences["new"]
    if known == "all":
        assert (found.low, found.high) == expected
        return
    assert found.low <= expected.low < expected.high <= found.high
    without = compare(terms, interval="anytime").differences["new"]
    assert without.high - without.low > found.high - found.low
