"""Intervals cover what they promise, at every time where they say so; refusals name their rule."""

from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.coverage import covered, misses, split
from benchmarks.known_values import SETTINGS, Setting
from scipy.stats import norm

import oddsmith as od
from oddsmith import evaluation as ev
from oddsmith.evaluation.betting import log_wealth, lower_bound

Log: Any = od.Log  # which takes lists, too
REPOSITORY = Path(od.__file__).parents[2]
LIGHT, HEAVY = SETTINGS[1], SETTINGS[-2]


def terms_of(setting: Setting, seed: int = 0, logs: int = 1) -> tuple[ev.Terms, Any]:
    played, contexts = setting.logs(logs, seed)
    return ev.ips(played, setting.target[contexts]), (played, contexts)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s.name)
def test_anytime_intervals_cover_at_every_time_at_once(setting: Setting) -> None:
    """1,000 logs of 150 rows; nominal 0.95, and by Ville at least that: 0.93 fails by chance below 0.003."""
    short = setting._replace(rows=150)
    terms, _ = terms_of(short, seed=1, logs=1000)
    assert misses(terms, setting.value, 1000, float(setting.logger.min())).mean() <= 0.07


def test_anytime_intervals_of_dr_use_the_floor() -> None:
    short = LIGHT._replace(rows=200)
    played, contexts = short.logs(500, 2)
    terms = ev.dr(played, short.target[contexts], short.model[contexts])
    assert misses(terms, short.value, 500, float(short.logger.min())).mean() <= 0.05
    with pytest.raises(od.InvalidInput, match="this interval of dr needs the range"):
        ev.estimate(terms, interval="anytime")


@pytest.mark.parametrize("interval", ["normal", "bernstein"])
def test_intervals_cover(interval: str) -> None:
    """1,000 logs, nominal 0.95; with true coverage 0.95 a share below 0.93 has probability 0.003."""
    terms, _ = terms_of(LIGHT, seed=3, logs=1000)
    refused, kept, _ = covered(split(terms, 1000), interval, LIGHT.value, float(LIGHT.logger.min()))
    assert refused == 0
    assert kept >= 0.93


def test_normal_intervals_fail_under_heavy_weights_and_are_refused() -> None:
    for setting in SETTINGS[-6:]:
        assert setting.largest > 50
        terms, _ = terms_of(setting, seed=4, logs=60)
        refused, _, overruled = covered(split(terms, 60), "normal", setting.value, float(setting.logger.min()))
        assert refused == 1
        assert overruled < 0.93


def test_the_bootstrap_is_the_normal_interval_of_tame_terms() -> None:
    played, contexts = LIGHT._replace(rows=21_000).logs(1, 5)
    for terms in (ev.ips(played, LIGHT.target[contexts]), ev.snips(played, LIGHT.target[contexts])):
        normal, boot = (ev.estimate(terms, interval=kind) for kind in ("normal", "bootstrap"))
        width = normal.high - normal.low
        assert boot.low == pytest.approx(normal.low, abs=0.12 * width)
        assert boot.high == pytest.approx(normal.high, abs=0.12 * width)


def test_the_bootstrap_resamples_ratios_as_ratios() -> None:
    """Against a plain loop over resampled rows, whose quantiles have an error of about 0.1 standard errors."""
    played, contexts = LIGHT._replace(rows=150).logs(1, 6)
    terms = ev.snips(played, LIGHT.target[contexts])
    assert terms.weights is not None
    w, rng, n = terms.weights, np.random.default_rng(0), len(terms)
    value, t = float(w @ played.reward / w.sum()), []
    for _ in range(2000):
        i = rng.integers(n, size=n)
        again = w[i] @ played.reward[i] / w[i].sum()
        t.append((again - value) / np.sqrt(((w[i] * (played.reward[i] - again)) ** 2).sum() / w[i].sum() ** 2))
    error = terms.values.std() / n**0.5
    found = ev.estimate(terms, interval="bootstrap", overrule=ev.RULES)
    assert found == ev.estimate(terms, interval="bootstrap", overrule=ev.RULES)
    assert found != ev.estimate(terms, interval="bootstrap", overrule=ev.RULES, seed=1)
    assert found.low == pytest.approx(value - np.quantile(t, 0.975) * error, abs=0.3 * error)
    assert found.high == pytest.approx(value - np.quantile(t, 0.025) * error, abs=0.3 * error)


def test_normal_and_bernstein_by_formula() -> None:
    terms, _ = terms_of(LIGHT)
    n, deviation, mean = len(terms), terms.values.std(ddof=1), terms.values.mean()
    found = ev.estimate(terms, level=0.9)
    assert found.high - mean == pytest.approx(norm.ppf(0.95) * deviation / n**0.5)
    bound = deviation * np.sqrt(2 * log(40) / n) + 7 * 5 * log(40) / (3 * (n - 1))
    found = ev.estimate(terms, level=0.9, interval="bernstein", floor=0.2)
    assert found.high - mean == pytest.approx(min(bound, 1 - mean))


def test_wealth_by_hand_and_bounds_by_brute_force() -> None:
    x = np.random.default_rng(1).exponential(size=300) * 0.4
    fractions = 0.5 ** np.arange(1, 17)
    for m in (0.2, 0.4):
        by_hand = np.log(np.mean([np.cumprod(1 - f + f * x / m) for f in fractions], axis=0))
        np.testing.assert_allclose(log_wealth(x, np.array(m)), by_hand, atol=1e-10)
        np.testing.assert_allclose(log_wealth(x, np.array(m), looks=1)[-1], by_hand[-1], atol=1e-10)
    grid = np.linspace(0.01, 1, 2000)
    refuted = [m for m in grid if log_wealth(x, np.array(m)).max() >= log(20)]
    assert float(lower_bound(x, 0.05)) == pytest.approx(max(refuted), abs=1e-3)
    assert float(lower_bound(np.zeros(5), 0.05)) == 0


def test_differences_are_paired() -> None:
    played, contexts = LIGHT.logs(1, 7)
    one, two = LIGHT.target[contexts], LIGHT.logger[contexts]
    terms = {"today": ev.logged(played), "new": ev.ips(played, one), "same": ev.ips(played, two)}
    found = ev.compare(terms, baseline="today")
    assert set(found.differences) == {"new", "same"}
    assert "do not vary" in found.differences["same"].why  # the logger's own weights are 1
    apart = terms["new"].values - terms["today"].values
    width = 2 * norm.ppf(1 - 0.05 / 4) * apart.std(ddof=1) / len(apart) ** 0.5
    assert found.differences["new"].high - found.differences["new"].low == pytest.approx(width)
    assert found.values["new"] == ev.estimate(terms["new"])._replace(name="new")
    for interval in ("anytime", "bootstrap"):
        other = ev.compare(terms, interval=interval).differences["new"]
        truth = LIGHT.value - float((LIGHT.logger * LIGHT.means).sum(axis=1).mean())
        assert other.low < truth < other.high
        assert isinstance(ev.compare(terms, interval=interval), ev.Comparison)


def test_differences_anytime_cover() -> None:
    short = HEAVY._replace(rows=100)
    played, contexts = short.logs(500, 8)
    apart = ev.ips(played, short.target[contexts]).minus(ev.logged(played))
    truth = short.value - float((short.logger * short.means).sum(axis=1).mean())
    assert misses(apart, truth, 500, 0.5).mean() <= 0.05


def test_every_rule_refuses_and_can_be_overruled_by_name() -> None:
    steady: dict[str, Any] = {"arm": [0, 1] * 200, "reward": [1, 0, 0, 1] * 100}
    even = Log(**steady, propensity=np.full(400, 0.5))
    barred = Log(**steady, propensities=np.tile([[0.5, 0.5, 0.0]], (400, 1)))
    cases = {
        "overlap": ev.ips(barred, [0.4, 0.4, 0.2]),
        "ess": ev.ips(even[:60], [0.5, 0.5]),
        "share": ev.ips(Log(**steady, propensity=[0.01] + [0.5] * 399), [0.5, 0.5]),
        "weight": ev.ips(Log(**steady, propensity=np.full(400, 0.3)), [0.5, 0.5]),
        "skew": ev.ips(Log(arm=[0, 1] * 200, reward=[1, 1] + [0] * 398, propensity=np.full(400, 0.5)), [0.5, 0.5]),
    }
    assert set(cases) == set(ev.RULES)
    for name, terms in cases.items():
        found = ev.estimate(terms)
        assert name in found.refused
        assert np.isnan([found.value, found.low, found.high]).all()
        assert "refused" in str(found)
        again = ev.estimate(terms, overrule=found.refused)
        assert again.overruled == found.refused
        assert np.isfinite(again.value)
    assert not ev.estimate(ev.ips(even, [0.5, 0.5])).refused
    assert ev.estimate(cases["overlap"], interval="anytime").refused == ()  # both bets allow for it
    assert ev.estimate(cases["weight"], interval="anytime").refused == ("weight",)
    nothing = Log(arm=[0, 1] * 200, reward=np.zeros(400), propensity=np.full(400, 0.5))
    assert ev.estimate(ev.ips(nothing, [0.5, 0.5])).refused == ("skew",)  # no spread says nothing about the spread
    with pytest.raises(od.InvalidInput, match="overrule must name rules of overlap"):
        ev.estimate(cases["ess"], overrule="effective")


def test_weights_that_were_never_drawn_count() -> None:
    """The target would draw an arm in 1 of 10 rows that the logger drew in 1 of 1,000: 300 rows saw it never."""
    odds = np.tile([[0.999, 0.001]], (300, 1))
    unseen = Log(arm=np.zeros(300, int), reward=[0, 1, 1] * 100, propensities=odds)
    found = ev.diagnose(ev.ips(unseen, [0.9, 0.1]))
    assert isinstance(found, ev.Diagnostics)
    assert found.ess == pytest.approx(300 / (0.81 / 0.999 + 0.01 / 0.001))
    assert "ess" in ev.estimate(ev.ips(unseen, [0.9, 0.1])).refused


def test_a_log_with_rounded_propensities_is_flagged() -> None:
    """One propensity of a thousand rows is rounded to 1e-5: the mean weight is about 3."""
    rng = np.random.default_rng(9)
    propensity = np.full(10_000, 0.05)
    propensity[17] = 0.05 / 20_000
    rounded = Log(arm=rng.integers(20, size=10_000), reward=rng.integers(2, size=10_000), propensity=propensity)
    found = ev.estimate(ev.ips(rounded, np.full(20, 0.05)))
    assert found.diagnostics.mean_weight == pytest.approx(3, abs=0.01)
    assert {"ess", "share", "weight"} <= set(found.refused)


def test_open_bandits_women_are_flagged() -> None:
    data = REPOSITORY.parent / "shared" / "data"
    if not (data / "logged" / "obd_bts_women.parquet").exists():
        pytest.skip(f"obd_bts_women.parquet is not in {data / 'logged'}")
    from benchmarks.obp_parity import read

    played, _ = read(data, "bts_women")
    found = ev.estimate(ev.ips(played, ev.uniform_target(played, 46)))
    assert found.diagnostics.mean_weight == pytest.approx(3.134, abs=1e-3)
    assert {"ess", "share", "weight"} <= set(found.refused)
    men, _ = read(data, "bts_men")
    assert "weight" not in ev.estimate(ev.ips(men, ev.uniform_target(men, 34))).refused


def test_wrong_questions_get_one_sentence() -> None:
    terms, (played, contexts) = terms_of(LIGHT)
    target = LIGHT.target[contexts]
    for call, message in (
        (lambda: ev.estimate(terms, interval="exact"), "interval must be one of normal, bootstrap"),
        (lambda: ev.estimate(terms, level=1.0), "level must be in"),
        (lambda: ev.estimate(terms, interval="bernstein"), "needs the range of its terms: give floor"),
        (lambda: ev.estimate(terms, interval="bernstein", floor=0.9), "floor must be below all propensities"),
        (lambda: ev.estimate(ev.snips(played, target), interval="anytime"), "got snips, which is a ratio"),
        (lambda: ev.estimate(ev.clipped_ips(played, target), interval="anytime"), "chosen from the same rows"),
        (lambda: ev.compare({"one": terms}), "at least 2 targets"),
        (lambda: ev.compare({"one": terms, "two": terms}, baseline="three"), "one of one, two; got 'three'"),
        (lambda: terms.minus(ev.ips(played[:5], target[:5])), "of the same rows; got 800 and 5"),
        (lambda: ev.estimate(ev.ips(played[:1], target[:1])), "at least 2 rows"),
    ):
        with pytest.raises(od.InvalidInput, match=message):
            call()
    chosen = ev.clipped_ips(played, target, 2.0)
    assert chosen.span() == (0.0, 2.0)
    assert isinstance(ev.estimate(chosen, interval="bernstein"), ev.Estimate)
    assert isinstance(terms.bets, ev.Bets)
    assert ev.INTERVALS[0] == "normal"
