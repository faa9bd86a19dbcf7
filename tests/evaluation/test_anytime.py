"""Anytime intervals hold after every row at once: for a mean value that drifts, and for
one that does not."""

from dataclasses import replace
from functools import partial
from math import log
from typing import Any, NamedTuple

import numpy as np
import pytest
from benchmarks.coverage import misses
from benchmarks.known_values import SETTINGS, Setting

import oddsmith as od
from evaluation.settings import HEAVY, LIGHT, terms_of
from oddsmith import evaluation as ev
from oddsmith.evaluation.bets import Limited, log_shortfall, log_wealth, lower_bound
from oddsmith.evaluation.mean_bounds import (
    RATES,
    bets_within,
    limited_bets,
    limited_sums,
    log_evidence,
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


def test_running_sums_of_two_logs_are_those_of_each() -> None:
    both = np.random.default_rng(3).exponential(size=(2, 30))
    for every in (False, True):
        sums = running_sums(both, every=every)
        bounds = running_bound(sums, 0.05)
        for place, x in enumerate(both):
            alone = running_sums(x, every=every)
            assert sums.rows[place].tolist() == alone.rows.tolist()
            np.testing.assert_allclose(sums.gains[place], alone.gains, atol=1e-12)
            own = running_bound(alone, 0.05)
            np.testing.assert_allclose(bounds[place], own, atol=1e-12)


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


def test_bets_of_two_logs_are_those_of_each_at_fewer_looks() -> None:
    x = np.random.default_rng(1).exponential(size=(2, 2500)) * 0.4
    means = np.array([0.3, 0.5])
    every = log_wealth(x, means, looks=2500)
    some = log_wealth(x, means, looks=100)
    assert some.shape == (2, 79)  # after 32, 64, … rows, and at the end
    np.testing.assert_allclose(some[:, :-1], every[:, 31::32], atol=1e-9)
    np.testing.assert_allclose(some[:, -1], every[:, -1], atol=1e-9)
    assert log_wealth(x, means, looks=1250).shape == (2, 313)
    short = log_shortfall(x, np.full(x.shape, 0.6), np.full(x.shape, 9.0))
    for place, own in enumerate(x):
        alone = log_wealth(own, means[place], looks=2500)
        np.testing.assert_allclose(every[place], alone, atol=1e-9)
        known = log_shortfall(own, np.full(2500, 0.6), np.full(2500, 9.0))
        assert short[place] == pytest.approx(float(known))
        bound = lower_bound(x, 0.05)[place]
        assert bound == pytest.approx(float(lower_bound(own, 0.05)), abs=1e-6)


def test_bets_on_a_limited_column_refute_what_it_cannot_have() -> None:
    """y is at most 1/2 and the means add up to 1, so that of x is above 1/2."""
    y = np.array([0.0, 0.5, 0.25])
    limited = Limited(y, 0.5, 1.0)
    for impossible in (0.3, 0.5):
        money = log_wealth(np.ones(3), np.array(impossible), limited=limited)
        assert (money == np.inf).all()
    fractions = np.array([0.9, 0.75, *0.5 ** np.arange(1, 15)])
    factors = 1 + fractions[:, None] * ((0.5 - y) / 0.25 - 1)
    own = np.exp(log_wealth(np.ones(3), np.array(0.75)))
    by_hand = (own + factors.cumprod(axis=1).mean(axis=0)) / 2
    money = log_wealth(np.ones(3), np.array(0.75), limited=limited)
    assert np.exp(money) == pytest.approx(by_hand)
    # rows without any evidence in x: the bound is that of y
    none = np.tile([0.0, 0.1], 300)
    bound = float(lower_bound(np.zeros(600), 0.05, Limited(none, 1.0, 1.0)))
    assert 0.7 < bound < 0.95


def test_differences_anytime_cover() -> None:
    short = HEAVY._replace(rows=100)
    played, contexts = short.logs(500, 8)
    apart = ev.ips(played, short.target[contexts]).minus(ev.logged(played))
    truth = short.value - float((short.logger * short.means).sum(axis=1).mean())
    for kind in ("anytime", "anytime_constant"):
        assert misses(split(apart, 500), np.full(100, truth), kind).mean() <= 0.05


class World(NamedTuple):
    """Rewards of 0 and 1 of four arms, the odds of all arms, and the share of rows
    without a reward."""

    rates: tuple[float, ...]
    logger: tuple[float, ...]
    missing: float = 0.0


EVEN, SKEWED = (0.25,) * 4, (0.05, 0.05, 0.1, 0.8)
WORLDS = {
    f"{rate:g} of {name}, {missing:g} missing": World(
        (rate, 1.5 * rate, rate / 2, rate), logger, missing
    )
    for rate in (0.002, 0.01, 0.1, 0.5)
    for name, logger in (("even", EVEN), ("skewed", SKEWED))
    for missing in (0.0, 0.3)
}
TARGET = np.array([0.7, 0.1, 0.1, 0.1])


def bets_in(world: World, logs: int, rows: int, seed: int) -> ev.Bets:
    """The bets of ips with a floor (logs, rows); rows without a reward are left out."""
    rng = np.random.default_rng(seed)
    made = int(rows * (1 + 2 * world.missing))
    arm = rng.choice(4, size=(logs, made), p=world.logger)
    reward = (rng.random(arm.shape) < np.array(world.rates)[arm]).astype(float)
    gone = rng.random(arm.shape) < world.missing
    first = np.argsort(gone, axis=1, kind="stable")[:, :rows]
    arm, reward = (np.take_along_axis(one, first, axis=1) for one in (arm, reward))
    odds = np.broadcast_to(world.logger, (logs * rows, 4))
    log = Log(arm=arm.ravel(), reward=reward.ravel(), propensities=odds)
    bets = ev.ips(log, TARGET).betting(min(world.logger))
    return bets._replace(
        gain=bets.gain.reshape(logs, rows), loss=bets.loss.reshape(logs, rows)
    )


def check_cover(name: str, kind: str, logs: int, rows: int, allowed: int) -> None:
    world = WORLDS[name]
    bets = bets_in(world, logs, rows, seed=7)
    value = float(TARGET @ world.rates)
    assert misses(bets, np.full(rows, value), kind).sum() <= allowed


@pytest.mark.parametrize("kind", ["anytime", "anytime_constant"])
@pytest.mark.parametrize("name", list(WORLDS)[::3])
def test_anytime_intervals_with_a_floor_cover_at_every_row(
    name: str, kind: str
) -> None:
    """200 logs: 0.05 may miss at any row; more than 21 have probability 0.001."""
    check_cover(name, kind, 200, 150, 21)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["anytime", "anytime_constant"])
@pytest.mark.parametrize("name", WORLDS)
def test_anytime_intervals_with_a_floor_cover_at_every_row_of_long_logs(
    name: str, kind: str
) -> None:
    """1,000 logs: more than 72 misses have probability 0.001."""
    check_cover(name, kind, 1000, 2000, 72)


@pytest.mark.parametrize("kind", ["anytime", "anytime_constant"])
def test_a_floor_makes_anytime_intervals_of_rare_rewards_narrow(kind: str) -> None:
    """1,000 rows, four arms, 1 % rewards: the half-width was 0.08 whatever the
    floor."""
    rng = np.random.default_rng(0)
    reward = (rng.random(1000) < 0.01).astype(float)
    log = Log(
        arm=rng.integers(4, size=1000),
        reward=reward,
        propensities=np.full((1000, 4), 0.25),
    )
    terms = ev.ips(log, [1.0, 0.0, 0.0, 0.0])
    ask = partial(ev.estimate, interval=kind)
    near, far = ask(terms, floor=0.25), ask(terms)
    assert near.high - near.low < 0.06
    assert far.high - far.low > 0.1
    # a smaller floor knows less
    assert near.high < ask(terms, floor=0.1).high
    # of rewards near 1 the other end is near
    rich = Log(arm=log.arm, reward=1 - reward, propensities=log.propensities)
    other = ask(ev.ips(rich, [1.0, 0.0, 0.0, 0.0]), floor=0.25)
    assert (1 - other.high, 1 - other.low) == pytest.approx((near.low, near.high))


def test_limited_bets_by_hand() -> None:
    """Sums of bets on x and on L - y, against a running mean, row by row."""
    rng = np.random.default_rng(2)
    reward = (rng.random(60) < 0.1).astype(float)
    weight = rng.choice([0.0, 4.0], p=[0.75, 0.25], size=60)
    x, y, limit, mean = weight * (1 - reward), weight * reward, 5.0, 0.8
    own, more = bets_within(), limited_bets(limit)
    money = 0.4 * np.exp(own.log_shares)
    others = 0.6 * np.exp(more.log_shares)
    for gain, loss in zip(x, y, strict=True):
        money *= 1 + own.rates * (gain - own.centres)
        money *= np.exp(own.rates * (own.centres - mean))
        others *= 1 + more.rates * (limit - loss - more.centres)
        others *= np.exp(more.rates * (more.centres - (mean + limit - 1)))
    sums = limited_sums(running_sums(x), y, limit, 1.0)
    expected = log(money.sum() + others.sum())
    assert float(log_evidence(sums, np.array(mean))) == pytest.approx(expected)
    centres = np.concatenate([own.centres, more.centres])
    np.testing.assert_array_equal(sums.bets.centres, centres)
    each = limited_sums(running_sums(x, every=True), y, limit, 1.0)
    assert each.gains[-1] == pytest.approx(sums.gains)
    assert (more.rates * (limit - more.centres) <= 0.4 + 1e-12).all()
    assert (more.rates * limit <= 0.8 + 1e-12).all()
    wealth = log_wealth(x, np.array(mean), limited=Limited(y, limit, 1.0))
    fractions = np.array([0.9, 0.75, *0.5 ** np.arange(1, 15)])
    factors = 1 + fractions[:, None] * ((limit - y) / (limit - 1 + mean) - 1)
    alone = log_wealth(x, np.array(mean))
    by_hand = (np.exp(alone) + factors.cumprod(axis=1).mean(axis=0)) / 2
    assert np.exp(wealth) == pytest.approx(by_hand)
    grid = np.linspace(0.005, 1, 200)
    found = float(lower_bound(x, 0.05, Limited(y, limit, 1.0)))
    limited = Limited(y, limit, 1.0)
    refuted = [
        m for m in grid if log_wealth(x, np.array(m), limited=limited).max() >= log(20)
    ]
    assert found == pytest.approx(max(refuted), abs=0.006)


def test_the_limit_of_terms_is_the_floors_or_their_own() -> None:
    log = Log(arm=[0, 1] * 5, reward=[1, 0] * 5, propensity=np.full(10, 0.5))
    one, today = ev.ips(log, [0.5, 0.5]), ev.logged(log)
    assert one.betting().limit == np.inf
    assert one.betting(0.25).limit == 4.0
    assert today.betting(0.25).limit == 1.0
    assert one.minus(today).betting(0.25).limit == 4.0
    assert one.minus(today).betting(0.25).total == 2.0
    with pytest.raises(od.InvalidInput, match="floor must be at most all logged odds"):
        ev.estimate(one, interval="anytime", floor=0.6)


def test_the_range_of_terms_and_of_their_differences() -> None:
    log = Log(arm=[0, 1] * 5, reward=[1, 0] * 5, propensity=np.full(10, 0.5))
    plain = ev.ips(log, [0.5, 0.5])
    modelled = ev.dr(log, [0.5, 0.5], np.full((10, 2), 0.5), beforehand=True)
    assert plain.span(0.25) == (0.0, 4.0)
    assert modelled.span(0.25) == (-4.0, 5.0)
    assert modelled.minus(plain).span(0.25) == (-8.0, 5.0)
    assert plain.minus(modelled).span(0.25) == (-5.0, 8.0)
    for wrong in (0.0, -0.5, 1.5):
        with pytest.raises(od.InvalidInput, match=r"^floor must be"):
            plain.limit(wrong)


def test_without_support_a_floor_changes_nothing() -> None:
    """The upper end must leave room for arms that could not be drawn."""
    odds = [[0.5, 0.5, 0.0]] * 400
    log = Log(arm=[0, 1] * 200, reward=[0] * 400, propensities=odds)
    terms = ev.ips(log, [0.4, 0.2, 0.4])
    ask = partial(ev.estimate, terms, interval="anytime", overrule="overlap")
    assert ask(floor=0.5) == ask()
    assert ask().high > 0.4
