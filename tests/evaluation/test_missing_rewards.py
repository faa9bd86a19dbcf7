"""Rewards that are missing for some arms more often than for others, and odds that are
too large or too small: weights whose mean is not 1 have no answer, healthy ones do."""

from functools import partial
from math import exp, log
from typing import Any

import numpy as np
import pytest
from benchmarks.refusals import lost_rewards

import oddsmith as od
from oddsmith import evaluation as ev
from oddsmith.evaluation.diagnostics import diagnose

Log: Any = od.Log
FLOOR = 0.2
LOGGER = np.array([[0.2, 0.5, 0.3], [0.3, 0.2, 0.5]])
MEANS = np.array([[0.8, 0.4, 0.2], [0.3, 0.6, 0.7]])
TARGET = np.array([0.1, 0.1, 0.8])
VALUE = float((MEANS * TARGET).sum(axis=1).mean())
FIXED = ("bernstein", "anytime", "anytime_constant")


def a_log(
    rows: int, seed: int, *, lost: float = 0.0, factor: float = 1.0, drawn: bool = False
) -> tuple[Any, Any]:
    """A log with a share `lost` of the rewards of arm 2, whose logged odds of arm 2 are
    `factor` times the true ones; and its contexts."""
    rng = np.random.default_rng(seed)
    context = rng.integers(2, size=rows)
    odds = LOGGER[context]
    arm = (rng.random((rows, 1)) > odds.cumsum(axis=1)[:, :-1]).sum(axis=1)
    reward = (rng.random(rows) < MEANS[context, arm]).astype(float)
    reward[(arm == 2) & (rng.random(rows) < lost)] = np.nan
    said = odds.copy()
    said[:, 2] *= factor
    said[:, :2] *= ((1 - said[:, 2]) / odds[:, :2].sum(axis=1))[:, None]
    if drawn:
        own = said[np.arange(rows), arm]
        return Log(arm=arm, reward=reward, propensity=own), context
    return Log(arm=arm, reward=reward, propensities=said), context


def terms_of(log: Any, context: Any) -> dict[str, ev.Terms]:
    """The terms of every estimator that has the fixed intervals, and differences."""
    model = np.clip(MEANS[context] + 0.1, 0, 1)
    made = {
        "ips": ev.ips(log, TARGET),
        "clipped_ips": ev.clipped_ips(log, TARGET, 4.0),
        "dr": ev.dr(log, TARGET, model, beforehand=True),
        "switch_dr": ev.switch_dr(log, TARGET, model, 4.0, beforehand=True),
        "shrunk_dr": ev.shrunk_dr(log, TARGET, model, 100.0, beforehand=True),
    }
    made["ips - logged"] = made["ips"].minus(ev.logged(log))
    return made


BROKEN = {
    "lost": {"lost": 0.4},
    "too large": {"factor": 1.4},
    "too small": {"factor": 0.6},
}


@pytest.mark.parametrize("drawn", [False, True], ids=["all odds", "drawn odds"])
@pytest.mark.parametrize("what", BROKEN)
def test_weights_that_are_not_1_on_average_have_no_answer(
    what: str, drawn: bool
) -> None:
    log, context = a_log(1500, 0, drawn=drawn, **BROKEN[what])
    for terms in terms_of(log, context).values():
        for interval in FIXED:
            found = ev.estimate(terms, interval=interval, floor=0.1)
            assert found.refused == ("weight",)
            assert ("mean weight is below" in found.why) is (what != "too small")
            cause = "rewards are missing for some arms more often than for others"
            assert (cause in found.why) is (what != "too small")
        for interval in ("beta", "normal", "bootstrap"):
            assert "weight" in ev.estimate(terms, interval=interval).refused


def test_without_any_bound_a_low_mean_weight_is_refused_by_its_error() -> None:
    log, context = a_log(1500, 0, lost=0.4, drawn=True)
    found = ev.estimate(terms_of(log, context)["ips"], interval="anytime")
    assert found.diagnostics.deflation is None
    assert found.refused == ("weight",)
    assert "give floor, or log the odds of all arms" in found.why
    ask = partial(ev.estimate, interval="anytime")
    healthy, own = a_log(1500, 0, drawn=True)
    terms = terms_of(healthy, own)
    assert not ask(terms["ips"]).refused
    # a few rows, or one heavy one, prove nothing
    few = ev.ips(log[:130], TARGET)
    assert diagnose(few).ess < 100
    assert not ask(few).refused
    assert diagnose(terms["ips - logged"]).deflation is None


@pytest.mark.parametrize("drawn", [False, True], ids=["all odds", "drawn odds"])
def test_intervals_without_the_rule_miss_where_rewards_are_lost(drawn: bool) -> None:
    """What `benchmarks.refusals` prints, for 20 logs."""
    count = partial(lost_rewards, 20, 4000, "bernstein", lost=0.4, drawn=drawn)
    without = count(rule=False)
    assert without.answered == 20
    assert without.covered <= 2
    assert count(rule=True).answered == 0


@pytest.mark.parametrize("rows", [100, 300])
def test_short_logs_with_lost_rewards_are_refused_or_covered(rows: int) -> None:
    """Of 60 logs, 0.05 may miss; more than 9 have probability 0.001."""
    missed = dict.fromkeys(FIXED, 0)
    for seed in range(60):
        log, _ = a_log(rows, seed, lost=0.4)
        for interval in FIXED:
            found = ev.estimate(ev.ips(log, TARGET), interval=interval, floor=FLOOR)
            missed[interval] += not (found.refused or found.low <= VALUE <= found.high)
    assert max(missed.values()) <= 9


def test_slates_with_lost_rewards_have_no_answer() -> None:
    """Two slots, each with its own arms; rewards of arm 1 in the second are lost."""
    rng = np.random.default_rng(0)
    slates = 1500
    arm = rng.integers(2, size=2 * slates)
    slot = np.tile([1, 2], slates)
    reward = rng.integers(2, size=2 * slates).astype(float)
    rows: dict[str, Any] = {
        "arm": arm,
        "propensities": np.full((2 * slates, 2), 0.5),
        "slate": [str(row // 2) for row in range(2 * slates)],
        "slot": slot,
    }
    target = [0.1, 0.9]
    ask = partial(ev.estimate, interval="anytime", floor=0.5)
    assert not ask(ev.ips(Log(reward=reward, **rows), target)).refused
    reward[(arm == 1) & (slot == 2) & (rng.random(len(arm)) < 0.6)] = np.nan
    assert ask(ev.ips(Log(reward=reward, **rows), target)).refused == ("weight",)


def test_healthy_logs_are_answered() -> None:
    """80 logs with many looks: each is refused with probability 0.002 at most, so that
    more than 2 are with probability 0.001; rewards that are lost whatever the arm, and
    thirds with three digits, are healthy."""
    refused = 0
    for seed in range(40):
        for drawn in (False, True):
            log, context = a_log(400, seed, drawn=drawn)
            kept = log[np.random.default_rng(seed).random(400) < 0.6]
            for terms in (ev.ips(kept, TARGET), terms_of(log, context)["dr"]):
                found = ev.estimate(terms, interval="anytime", floor=FLOOR)
                refused += "weight" in found.refused
    assert refused <= 2
    thirds = np.full(100_000, 0.333)
    arm = np.arange(100_000) % 3
    even = Log(arm=arm, reward=arm == 0, propensity=thirds)
    found = ev.estimate(ev.ips(even, np.full(3, 1 / 3)), interval="anytime")
    assert not found.refused


def test_the_evidence_of_low_weights_by_hand() -> None:
    """Two rows with weights 0 and 1.5, of at most 4 and 1.5; 1/8 of the second's target
    is missing."""
    terms = ev.Terms(
        "some",
        np.zeros(2),
        np.array([0.0, 0.125]),
        weights=np.array([0.0, 1.5]),
        ceiling=np.array([4.0, 1.5]),
    )
    rates = 2.0 ** np.arange(2, -11, -1)
    first = 1 + np.minimum(rates, 0.9 / 3.001) * 0.999
    second = 1 + np.minimum(rates, 0.9 / 0.626) * (0.874 - 1.5)
    assert diagnose(terms).deflation == pytest.approx((first * second).mean())
    bare = ev.Terms("some", np.zeros(40), np.zeros(40), weights=np.zeros(40))
    assert diagnose(bare).deflation is None
    known = diagnose(bare, 0.5).deflation
    assert known is not None
    lost = 40 * np.log1p(np.minimum(rates, 0.9 / 1.001) * 0.999)
    assert log(known) == pytest.approx(log(np.exp(lost).mean()))
    assert diagnose(bare, 0.5).inflation == pytest.approx(
        np.mean((1 - 0.5 ** np.arange(1.0, 17)) ** 40)
    )
    never = ev.Terms("some", np.zeros(9999), np.zeros(9999), weights=np.zeros(9999))
    assert diagnose(never, 0.9).deflation == pytest.approx(exp(700))
