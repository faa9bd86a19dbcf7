"""Anytime intervals hold after every row at once: for a mean value that drifts, and for
one that does not."""

from dataclasses import replace
from math import log
from typing import Any

import numpy as np
import pytest
from benchmarks.coverage import misses
from benchmarks.known_values import SETTINGS, Setting

import oddsmith as od
from evaluation.settings import HEAVY, LIGHT, terms_of
from oddsmith import evaluation as ev
from oddsmith.evaluation.bets import log_wealth, lower_bound
from oddsmith.evaluation.mean_bounds import (
    RATES,
    bets_within,
    log_evidence,
    row_gains,
    running_bound,
    running_sums,
)

Log: Any = od.Log  # which takes lists, too


def split(terms: ev.Terms, logs: int) -> ev.Bets:
    """The bets of each log (logs, T), of the terms of all logs in a row."""
    bets = terms.betting()
    return bets._replace(
        gain=bets.gain.reshape(logs, -1), loss=bets.loss.reshape(logs, -1)
    )


@pytest.mark.parametrize("kind", ["anytime", "anytime_constant"])
@pytest.mark.parametrize("setting", SETTINGS[1::6], ids=lambda s: s.name)
def test_anytime_intervals_cover_at_every_time_at_once(
    setting: Setting, kind: str
) -> None:
    """400 logs of 120 rows; nominal 0.95, and by Ville at least that: more than 34
    misses have probability 0.001."""
    terms, _ = terms_of(setting._replace(rows=120), seed=1, logs=400)
    assert misses(split(terms, 400), np.full(120, setting.value), kind).sum() <= 34


def test_anytime_intervals_of_dr_use_the_floor() -> None:
    short, floor = LIGHT._replace(rows=200), float(LIGHT.logger.min())
    played, contexts = short.logs(1, 2)
    terms = ev.dr(
        played, short.target[contexts], short.model[contexts], beforehand=True
    )
    found = ev.estimate(terms, interval="anytime", floor=floor)
    low, high = terms.span(floor)
    known = bets_within(-low, 1 - low)
    assert found.low == pytest.approx(
        max(
            0,
            float(running_bound(running_sums(terms.values - low, known), 0.025)) + low,
        )
    )
    known = bets_within(high - 1, high)
    assert found.high == pytest.approx(
        high - float(running_bound(running_sums(high - terms.values, known), 0.025))
    )
    with pytest.raises(od.InvalidInput, match="this interval of dr needs the range"):
        ev.estimate(terms, interval="anytime")


def test_each_side_of_an_anytime_interval_has_half_of_alpha() -> None:
    """At the ends of the interval the evidence is 2/alpha = 40: with the whole of alpha
    on a side it would be 20."""
    terms, _ = terms_of(LIGHT, seed=3)
    bets = terms.betting()
    found = ev.estimate(terms, interval="anytime")
    for x, end in ((bets.gain, found.low), (bets.loss, 1 - found.high)):
        assert float(log_evidence(running_sums(x), np.array(end))) == pytest.approx(
            log(40), abs=1e-6
        )
    found = ev.estimate(terms, interval="anytime_constant")
    for x, end in ((bets.gain, found.low), (bets.loss, 1 - found.high)):
        assert float(log_wealth(x, np.array(end)).max()) == pytest.approx(
            log(40), abs=1e-3
        )


def test_rewards_that_drift_are_covered_by_their_running_mean() -> None:
    """200 logs whose value falls from 0.9 to 0.1: at most 0.05 miss, ever; more than 20
    have probability 0.001."""
    rows = 400
    truth = np.linspace(0.9, 0.1, rows)
    rng, n = np.random.default_rng(12), 200 * rows
    reward = (rng.random(n) < np.tile(truth, 200)).astype(float)
    logs = Log(arm=rng.integers(2, size=n), reward=reward, propensity=np.full(n, 0.5))
    assert misses(split(ev.ips(logs, [0.7, 0.3]), 200), truth, "anytime").sum() <= 20
    terms = ev.ips(logs[:rows], [0.7, 0.3])
    found = ev.estimate(terms, interval="anytime")
    assert found.low < 0.5 < found.high
    assert found.high - found.low < 0.35
    assert (
        "at every row at once, for the mean value of the rows so far, which may drift"
        in str(found)
    )
    constant = ev.estimate(terms, interval="anytime_constant")
    assert constant.refused == ("constant",)
    assert np.isnan([constant.value, constant.low, constant.high]).all()
    assert "no constant value fits the rows" in str(constant)
    steady, _ = terms_of(LIGHT)
    assert "if the value is the same in all rows" in str(
        ev.estimate(steady, interval="anytime_constant")
    )


def test_running_bounds_by_hand_and_by_brute_force() -> None:
    x = np.random.default_rng(1).exponential(size=200) * np.linspace(0.8, 0.2, 200)
    bets = bets_within()
    gains = np.zeros(len(bets.rates))
    for one in x:
        gains += (
            np.log(1 + bets.rates * (one - bets.centres)) + bets.rates * bets.centres
        )
    sums = running_sums(x)
    np.testing.assert_allclose(sums.gains, gains, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        running_sums(x, every=True).gains[-1], gains, rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(
        running_sums(x[None]).gains[0], gains, rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(
        row_gains(x, bets).sum(axis=0), gains, rtol=1e-9, atol=1e-12
    )
    grid = np.linspace(0.0, 1.0, 5001)
    evidence = [
        np.log(np.sum(np.exp(bets.log_shares + gains - bets.rates * 200 * v)))
        for v in grid
    ]
    assert float(running_bound(sums, 0.05)) == pytest.approx(
        max(grid[np.array(evidence) >= log(20)]), abs=3e-4
    )
    every = running_bound(running_sums(x, every=True), 0.05)
    assert every.shape == (200,)
    assert float(every[-1]) == pytest.approx(
        float(running_bound(sums, 0.05)), abs=1e-12
    )
    assert float(running_bound(running_sums(np.zeros(9)), 0.05)) == 0


@pytest.mark.parametrize("mean", [0.01, 0.3, 2.0])
def test_no_law_gives_the_running_bets_a_gain_on_average(mean: float) -> None:
    """The mean of a row's factor under laws on {0, x} with this mean, for every rate
    and some centres."""
    for top in (mean, 2 * mean, 50 * mean):
        for centre in (0.0, mean / 2, mean, 5 * mean):
            held = np.minimum(centre, 0.5 / RATES)
            factor = [
                (1 + RATES * (x - held)) * np.exp(RATES * (held - mean))
                for x in (0.0, top)
            ]
            assert (np.array(factor) >= 0).all()
            average = (1 - mean / top) * factor[0] + mean / top * factor[1]
            assert (average <= 1 + 1e-12).all()


def test_the_order_of_rows_does_not_matter_and_bets_are_whole() -> None:
    terms, _ = terms_of(HEAVY, seed=4)
    there = ev.estimate(terms, interval="anytime")
    order = np.random.default_rng(0).permutation(len(terms))
    bets = terms.betting()
    again = replace(
        terms,
        values=terms.values[order],
        bets=bets._replace(gain=bets.gain[order], loss=bets.loss[order]),
    )
    assert ev.estimate(again, interval="anytime")[1:4] == pytest.approx(
        there[1:4], abs=1e-12
    )
    for low, high in ((0.0, 1.0), (0.0, 2.0), (9.0, 10.0)):
        known = bets_within(low, high)
        assert np.exp(known.log_shares).sum() == pytest.approx(1.0)
        assert (known.rates * known.centres <= 0.5).all()
        assert (known.centres <= high).all()


def test_wealth_by_hand_and_bounds_by_brute_force() -> None:
    x = np.random.default_rng(1).exponential(size=300) * 0.4
    fractions = 0.5 ** np.arange(1, 17)
    for m in (0.2, 0.4):
        by_hand = np.log(
            np.mean([np.cumprod(1 - f + f * x / m) for f in fractions], axis=0)
        )
        np.testing.assert_allclose(log_wealth(x, np.array(m)), by_hand, atol=1e-10)
        np.testing.assert_allclose(
            log_wealth(x, np.array(m), looks=1)[-1], by_hand[-1], atol=1e-10
        )
    grid = np.linspace(0.01, 1, 2000)
    refuted = [m for m in grid if log_wealth(x, np.array(m)).max() >= log(20)]
    assert float(lower_bound(x, 0.05)) == pytest.approx(max(refuted), abs=1e-3)
    assert float(lower_bound(np.zeros(5), 0.05)) == 0


def test_differences_anytime_cover() -> None:
    short = HEAVY._replace(rows=100)
    played, contexts = short.logs(500, 8)
    apart = ev.ips(played, short.target[contexts]).minus(ev.logged(played))
    truth = short.value - float((short.logger * short.means).sum(axis=1).mean())
    for kind in ("anytime", "anytime_constant"):
        assert misses(split(apart, 500), np.full(100, truth), kind).mean() <= 0.05
