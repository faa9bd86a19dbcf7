"""Propensities with few digits: refused, or answered by intervals that are wide enough;
odds that have few values by design are not."""

from typing import Any

import numpy as np
import pytest
from benchmarks.refusals import rounded_odds

import oddsmith as od
from oddsmith import evaluation as ev
from oddsmith.evaluation.rows import half_step, largest_factor

Log: Any = od.Log


def a_log(
    rows: int, seed: int, digits: int | None, *, least: float, arms: int = 3
) -> tuple[Any, Any]:
    """A log of a policy whose odds are at least `least`, written with so many digits,
    and the mean rewards of its arms."""
    rng = np.random.default_rng(seed)
    odds = rng.dirichlet(np.ones(arms), size=rows) * (1 - arms * least) + least
    arm = (rng.random((rows, 1)) > odds.cumsum(axis=1)[:, :-1]).sum(axis=1)
    means = np.linspace(0.2, 0.7, arms)
    reward = (rng.random(rows) < means[arm]).astype(float)
    own = odds[np.arange(rows), arm]
    if digits is not None:
        own = np.maximum(own.round(digits), 10.0**-digits)
    return Log(arm=arm, reward=reward, propensity=own), means


@pytest.mark.parametrize("interval", ev.INTERVALS)
def test_two_digits_of_small_odds_have_no_answer(interval: str) -> None:
    log, _ = a_log(4000, 0, 2, least=0.006)
    found = ev.estimate(ev.ips(log, [0, 0, 1]), interval=interval, floor=0.005)
    assert "digits" in found.refused
    assert "propensities were rounded" in found.why
    assert found.diagnostics.rounding > 0.05
    full, _ = a_log(4000, 0, None, least=0.006)
    for more in (full, a_log(4000, 0, 7, least=0.006)[0]):
        again = ev.estimate(ev.ips(more, [0, 0, 1]), interval=interval, floor=0.005)
        assert "digits" not in again.refused
        assert again.diagnostics.rounding == 0


def test_two_digits_taken_as_exact_miss_the_value() -> None:
    """What `benchmarks.refusals` prints, for 6 logs: beta intervals of odds with two
    digits."""
    exact = rounded_odds(6, 20_000, 0.7, rule=False)
    assert exact.answered >= 3
    assert exact.covered <= exact.answered / 2
    assert rounded_odds(2, 20_000, 0.7, rule=True).answered == 0


def test_rounding_that_matters_little_makes_intervals_wider_by_as_much() -> None:
    log, _ = a_log(4000, 1, 3, least=0.05)
    target = [0.2, 0.3, 0.5]
    terms = ev.ips(log, target)
    moved = float(terms.rounding.mean()) if terms.rounding is not None else 0.0
    assert 0.001 < moved < 0.05
    other = log.propensity - 0.0005
    by_hand = np.array(target)[log.arm] * (1 / other - 1 / log.propensity)
    assert moved == pytest.approx(by_hand.mean())
    found = ev.estimate(terms)
    assert found.diagnostics.rounding == moved
    nudged = Log(arm=log.arm, reward=log.reward, propensity=log.propensity + 1e-9)
    plain = ev.estimate(ev.ips(nudged, target))
    assert (found.low, found.high) == pytest.approx(
        (plain.low - moved, plain.high + moved), abs=1e-6
    )
    apart = ev.estimate(terms.minus(ev.ips(log, [1.0, 0.0, 0.0])))
    assert apart.diagnostics.rounding > moved


@pytest.mark.parametrize("digits", [1, 2, 3])
def test_rounded_logs_are_refused_or_covered(digits: int) -> None:
    """Odds that are always 0.4 of a digit too large; 60 logs, of which 0.05 may miss:
    more than 9 with probability 0.001."""
    missed = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        said = rng.integers(2, 10, size=1500) / 10.0**digits * 10 ** (digits - 1)
        said = np.round(said + rng.integers(0, 8, size=1500) / 10.0**digits, digits)
        said = np.clip(said, 0.2, 0.9)
        true = said - 0.4 / 10.0**digits
        arm = (rng.random(1500) > true).astype(int)
        reward = (rng.random(1500) < 0.9 - 0.6 * arm).astype(float)
        own = np.where(arm == 0, said, np.round(1 - said, digits))
        log = Log(arm=arm, reward=reward, propensity=own)
        found = ev.estimate(ev.ips(log, [1.0, 0.0]))
        missed += not (found.refused or found.low <= 0.9 <= found.high)
    assert missed <= 9


def epsilon_greedy(rows: int, epsilon: float, arms: int) -> Any:
    rng = np.random.default_rng(0)
    odds = np.full((rows, arms), epsilon / arms)
    odds[np.arange(rows), rng.integers(arms, size=rows)] += 1 - epsilon
    arm = (rng.random((rows, 1)) > odds.cumsum(axis=1)[:, :-1]).sum(axis=1)
    return arm, odds


def test_designed_odds_are_not_rounded() -> None:
    """A half, a quarter, 1/K, epsilon-greedy, splits in tenths and twentieths, and
    shares of a hundredth that add up."""
    rng = np.random.default_rng(3)
    splits = np.array([[0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.25, 0.25]])
    sets: list[tuple[Any, Any]] = [
        (rng.integers(k, size=600), np.full((600, k), 1 / k)) for k in range(2, 12)
    ]
    sets += [epsilon_greedy(600, 0.1, 2), epsilon_greedy(600, 0.2, 4)]
    both = splits[rng.integers(2, size=600)]
    sets.append(((rng.random((600, 1)) > both.cumsum(1)[:, :-1]).sum(1), both))
    for arm, odds in sets:
        own = odds[np.arange(600), arm]
        reward = rng.integers(2, size=600)
        for log in (
            Log(arm=arm, reward=reward, propensity=own),
            Log(arm=arm, reward=reward, propensities=odds),
        ):
            assert half_step(log) == 0
            uniform = np.full(odds.shape[1], 1 / odds.shape[1])
            if log.n_arms == odds.shape[1]:
                assert not ev.estimate(ev.ips(log, uniform)).refused
    whole = rng.multinomial(100, [0.2, 0.3, 0.5], size=600) / 100
    exact = Log(arm=whole.argmax(axis=1), reward=[0.0] * 600, propensities=whole)
    assert half_step(exact) == 0
    assert half_step(Log(arm=[0], reward=[1])) == 0


def test_odds_within_half_a_digit_of_zero_have_no_bound() -> None:
    said = np.repeat([0.005, 0.006, 0.007, 0.008, 0.009, 0.001], 100)
    log = Log(arm=[0] * 600, reward=[0] * 600, propensity=said)
    assert half_step(log) == 0.0005
    tenths = Log(arm=[0] * 9, reward=[0] * 9, propensity=np.arange(1, 10) / 10)
    assert half_step(tenths) == 0.05
    hundredths = np.repeat([0.01, 0.02, 0.03, 0.04, 0.005], 100)
    few = Log(arm=[0] * 500, reward=[0] * 500, propensity=hundredths)
    assert half_step(few) == 0
    spread = np.tile(np.arange(1, 10), 100) / 10
    log = Log(arm=[0] * 900, reward=[0] * 900, propensity=spread)
    found = ev.estimate(ev.ips(log, [1.0]), overrule=("weight", "ess", "share"))
    assert found.refused == ("digits",)


def test_half_a_digit_by_hand() -> None:
    """Six pairs of tenths, four of finer values; two arms whose odds are both logged;
    weights of odds that may be 0 have no bound."""

    def step(values: list[float]) -> float:
        return half_step(
            Log(arm=[0] * len(values), reward=[0] * len(values), propensity=values)
        )

    assert step([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]) == 0
    assert step([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]) == 0.05
    assert step([0.01, 0.02, 0.03, 0.04]) == 0
    assert step([0.01, 0.02, 0.03, 0.04, 0.05]) == 0.005
    assert step([0.001, 0.002, 0.003, 0.004, 0.005]) == 0.0005
    first = np.array([0.51, 0.52, 0.53, 0.54, 0.55])
    pair = Log(arm=[0] * 5, reward=[0] * 5, propensities=np.c_[first, 1 - first])
    assert half_step(pair) == 0.005
    factors = largest_factor(np.array([0.02, 0.005, 0.003, 0.01]), 0.005)
    assert factors.tolist() == [pytest.approx(4 / 3), np.inf, np.inf, 2.0]
