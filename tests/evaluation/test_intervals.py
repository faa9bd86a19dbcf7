"""Intervals cover what they promise, by formula, against other intervals and in worlds
with known values."""

from dataclasses import replace
from math import log
from typing import Any

import numpy as np
import pytest
from benchmarks.coverage import Tally, measure, together
from benchmarks.coverage_worlds import WORLDS
from scipy.stats import binomtest, chi2, norm

import oddsmith as od
from evaluation.settings import LIGHT, terms_of
from oddsmith import evaluation as ev
from oddsmith.evaluation.assessment import in_units
from oddsmith.evaluation.verdict import verdict

Log: Any = od.Log  # which takes lists, too
FAMILIES = {world.family for world in WORLDS}
SMALL = [
    min((w for w in WORLDS if w.family == family), key=lambda w: w.rows)
    for family in sorted(FAMILIES)
]


def test_beta_intervals_of_plain_rewards_are_clopper_and_pearsons() -> None:
    for ones, n in ((0, 120), (1, 120), (37, 400), (399, 400), (400, 400)):
        reward = np.arange(n) < ones
        found = ev.estimate(
            ev.logged(Log(arm=np.zeros(n, int), reward=reward)), level=0.9
        )
        expected = binomtest(ones, n).proportion_ci(0.9, "exact")
        assert (found.low, found.high) == pytest.approx(
            (expected.low, expected.high), abs=1e-9
        )


def test_beta_intervals_of_rare_rewards_with_weights_are_fay_and_feuers() -> None:
    """v/(2y) chi²(2y²/v) with y = Σ w r and v = Σ (w r)²; for the high end, with one
    more row of the largest weight."""
    n, rng = 40_000, np.random.default_rng(4)
    odds = np.tile([[0.8, 0.2]], (n, 1))
    arm = (rng.random(n) < 0.2).astype(int)
    terms = ev.ips(
        Log(arm=arm, reward=rng.random(n) < 0.0004, propensities=odds), [0.2, 0.8]
    )
    y, v, most = terms.values.sum(), (terms.values**2).sum(), 4.0
    assert 5 < (terms.values > 0).sum() < 40
    low = v / (2 * y) * chi2.ppf(0.025, 2 * y**2 / v) / n
    y, v = y + most, v + most**2
    high = v / (2 * y) * chi2.ppf(0.975, 2 * y**2 / v) / n
    found = ev.estimate(terms)
    assert (found.low, found.high) == pytest.approx((low, high), rel=0.01)


def test_beta_intervals_of_many_rows_are_normal() -> None:
    played, contexts = LIGHT._replace(rows=40_000).logs(1, 5)
    for terms in (
        ev.ips(played, LIGHT.target[contexts]),
        ev.snips(played, LIGHT.target[contexts]),
    ):
        normal, beta = (
            ev.estimate(terms, interval=kind) for kind in ("normal", "beta")
        )
        width = normal.high - normal.low
        assert beta.low == pytest.approx(normal.low, abs=0.01 * width)
        assert beta.high == pytest.approx(normal.high, abs=0.01 * width)


def test_answers_cover_in_every_family_of_worlds() -> None:
    """40 logs of one world of each family; benchmarks/coverage.py has 500 of all.

    Nominal 0.95: 23 pairs of estimator and interval, each 3.8 standard errors below
    with probability 0.0001.
    """
    assert len(FAMILIES) == 14
    results = [measure(world, 40, seed=5, slow=0) for world in SMALL]
    for name in ("ips", "snips", "dr", "ips - logged", "dr - dr"):
        for kind in ("beta", "normal", "bernstein", "anytime", "anytime_constant"):
            ones = [one[name, kind] for one in results if (name, kind) in one]
            found = together([Tally(0, 0, 0, 0.0), *ones])
            assert (
                found.covered
                >= 0.95 * found.answered - 3.8 * (0.0475 * found.answered) ** 0.5
            )
    ordinary = [
        found
        for world, found in zip(SMALL, results, strict=True)
        if world.family in ("ordinary", "drift")
    ]
    assert all(found["ips", "beta"].answered == 40 for found in ordinary)


def test_the_bootstrap_is_the_normal_interval_of_tame_terms() -> None:
    played, contexts = LIGHT._replace(rows=21_000).logs(1, 5)
    target = LIGHT.target[contexts]
    for terms in (ev.ips(played, target), ev.snips(played[:3000], target[:3000])):
        normal, boot = (
            ev.estimate(terms, interval=kind) for kind in ("normal", "bootstrap")
        )
        width = normal.high - normal.low
        assert boot.low == pytest.approx(normal.low, abs=0.12 * width)
        assert boot.high == pytest.approx(normal.high, abs=0.12 * width)


def test_the_bootstrap_resamples_ratios_as_ratios() -> None:
    """Against a plain loop over resampled rows, whose quantiles have an error of about
    0.1 standard errors."""
    played, contexts = LIGHT._replace(rows=600).logs(1, 6)
    terms = ev.snips(played, LIGHT.target[contexts])
    assert terms.weights is not None
    assert terms.heaviest is not None
    found = ev.estimate(terms, interval="bootstrap", overrule=ev.RULES)
    assert found == ev.estimate(terms, interval="bootstrap", overrule=ev.RULES)
    assert found != ev.estimate(terms, interval="bootstrap", overrule=ev.RULES, seed=1)
    w, n, sides = np.append(terms.weights, terms.heaviest), 601, []
    # one more row, of the largest weight
    for reward, chance in ((0.0, 0.975), (1.0, 0.025)):
        r, rng, t = np.append(played.reward, reward), np.random.default_rng(0), []
        value = w @ r / w.sum()
        for _ in range(1500):
            i = rng.integers(n, size=n)
            again = w[i] @ r[i] / w[i].sum()
            t.append(
                (again - value)
                / np.sqrt(((w[i] * (r[i] - again)) ** 2).sum() / w[i].sum() ** 2)
            )
        error = np.sqrt(((w * (r - value)) ** 2).sum()) / w.sum()
        sides.append((value - np.quantile(t, chance) * error, error))
    assert found.low == pytest.approx(sides[0][0], abs=0.3 * sides[0][1])
    assert found.high == pytest.approx(sides[1][0], abs=0.3 * sides[1][1])


def test_normal_and_bernstein_by_formula() -> None:
    terms, _ = terms_of(LIGHT)
    n, deviation, mean = len(terms), terms.values.std(ddof=1), terms.values.mean()
    found = ev.estimate(terms, level=0.9, interval="normal")
    # with one more row at the end of the range
    for end, side in ((found.low, -1), (found.high, 1)):
        more = np.append(terms.values, terms.ends[int(side > 0)])
        assert end == pytest.approx(
            more.mean() + side * norm.ppf(0.95) * more.std() / (n + 1) ** 0.5
        )
    bound = deviation * np.sqrt(2 * log(40) / n) + 7 * 10 * log(40) / (3 * (n - 1))
    found = ev.estimate(terms, level=0.9, interval="bernstein", floor=0.1)
    assert found.high - mean == pytest.approx(min(bound, 1 - mean))


def test_differences_are_paired() -> None:
    played, contexts = LIGHT.logs(1, 7)
    one, two = LIGHT.target[contexts], LIGHT.logger[contexts]
    terms = {
        "today": ev.logged(played),
        "new": ev.ips(played, one),
        "same": ev.ips(played, two),
    }
    found = ev.compare(terms, baseline="today", interval="normal")
    assert set(found.differences) == {"new", "same"}
    # the logging policy's own weights are 1, in every row that there could be
    same = found.differences["same"]
    assert (same.value, same.low, same.high) == (0, 0, 0)
    apart = terms["new"].values - terms["today"].values
    width = 2 * norm.ppf(1 - 0.05 / 4) * apart.std(ddof=1) / len(apart) ** 0.5
    assert found.differences["new"].high - found.differences[
        "new"
    ].low == pytest.approx(width, rel=0.06)
    assert found.differences["new"] == ev.estimate(
        terms["new"].minus(terms["today"]), level=0.975, interval="normal"
    )._replace(name="new - today")
    assert found.values["new"] == ev.estimate(terms["new"], interval="normal")._replace(
        name="new"
    )
    for interval in ("beta", "anytime", "anytime_constant", "bootstrap"):
        other = ev.compare(terms, interval=interval).differences["new"]
        truth = LIGHT.value - float((LIGHT.logger * LIGHT.means).sum(axis=1).mean())
        assert other.low < truth < other.high
        assert isinstance(ev.compare(terms, interval=interval), ev.Comparison)


@pytest.mark.parametrize("interval", ["beta", "normal", "bootstrap"])
def test_an_interval_of_a_chosen_setting_holds_that_of_no_shrinkage(
    interval: str,
) -> None:
    """A chosen setting moves with the rows: by its own spread alone, shrunk_dr covered
    the value in 0.88 of logs."""
    played, contexts = LIGHT.logs(1, 9)
    target, model = LIGHT.target[contexts], LIGHT.model[contexts]
    pairs = [(ev.clipped_ips(played, target), ev.ips(played, target))]
    pairs += [
        (make(played, target, model), ev.dr(played, target, model))
        for make in (ev.switch_dr, ev.shrunk_dr)
    ]
    for chosen, whole in pairs:
        found, plain = (
            ev.estimate(chosen, interval=interval),
            ev.estimate(whole, interval=interval),
        )
        assert found.low <= plain.low
        assert found.high >= plain.high
        assert found.value == chosen.values.mean()
        assert found.counted
        assert not found.unbiased
        assert "bias" not in str(found)
        apart = chosen.minus(ev.logged(played))
        assert apart.whole is not None
        np.testing.assert_allclose(apart.whole.values, whole.values - played.reward)
    given = ev.estimate(ev.clipped_ips(played, target, 1.2), interval=interval)
    assert "its bias not counted" in str(given)
    assert ev.ips(played, target).minus(ev.logged(played)).whole is None


def test_the_range_of_a_difference_is_that_of_the_same_row() -> None:
    """Weights 4 and 0.5 of a rare arm, 4 and 1 of the others: a row of one arm has the
    same reward on both sides."""
    played = Log(
        arm=[0, 1] * 100,
        reward=[1, 0] * 100,
        propensities=np.tile([[0.8, 0.2]], (200, 1)),
    )
    one, other = ev.ips(played, [0.2, 0.8]), ev.ips(played, [0.3, 0.7])
    assert one.ends == pytest.approx((0.0, 4.0))
    assert one.minus(other).ends == pytest.approx((-0.125, 0.5))
    assert one.minus(ev.logged(played)).ends == pytest.approx((-0.75, 3.0))


def test_wrong_questions_get_one_sentence() -> None:
    terms, (played, contexts) = terms_of(LIGHT)
    target = LIGHT.target[contexts]
    for call, message in (
        (
            lambda: ev.estimate(terms, interval="exact"),
            "interval must be one of beta, normal, bootstrap",
        ),
        (lambda: ev.estimate(terms, level=1.0), "level must be in"),
        (
            lambda: ev.estimate(terms, interval="bernstein"),
            "needs the range of its terms: give floor",
        ),
        (
            lambda: ev.estimate(terms, interval="bernstein", floor=0.9),
            "floor must be at most all logged odds",
        ),
        (
            lambda: ev.estimate(ev.snips(played, target), interval="anytime"),
            "got snips, which is a ratio",
        ),
        (
            lambda: ev.estimate(ev.clipped_ips(played, target), interval="anytime"),
            "chosen from the same rows",
        ),
        (lambda: ev.compare({"one": terms}), "at least 2 targets"),
        (
            lambda: ev.compare({"one": terms, "two": terms}, baseline="three"),
            "one of one, two; got 'three'",
        ),
        (
            lambda: terms.minus(ev.ips(played[:5], target[:5])),
            "of the same rows; got 800 and 5",
        ),
        (lambda: ev.estimate(ev.ips(played[:1], target[:1])), "at least 2 rows"),
    ):
        with pytest.raises(od.InvalidInput, match=message):
            call()
    chosen = ev.clipped_ips(played, target, 2.0)
    assert chosen.span() == (0.0, 2.0)
    assert isinstance(ev.estimate(chosen, interval="bernstein"), ev.Estimate)
    assert isinstance(terms.bets, ev.Bets)
    assert ev.INTERVALS[0] == "beta"


def random_log(seed: int) -> tuple[Any, Any, Any]:
    """A small log with weights of up to hundreds, a target and a model."""
    rng = np.random.default_rng(seed)
    rows, arms = int(rng.integers(2, 40)), int(rng.integers(2, 5))
    odds = rng.dirichlet(np.full(arms, 0.3), size=rows) + 1e-3
    odds /= odds.sum(axis=1, keepdims=True)
    arm = (rng.random((rows, 1)) > odds.cumsum(axis=1)[:, :-1]).sum(axis=1)
    reward = (rng.random(rows) < rng.choice([0.05, 0.5, 1.0])).astype(float)
    more: dict[str, Any] = {"propensities": odds}
    if seed % 2:
        more = {"propensity": odds[np.arange(rows), arm]}
    target = rng.dirichlet(np.full(arms, 0.3), size=rows)
    played = Log(arm=arm, reward=reward, **more)
    return played, target[:, : played.n_arms], rng.random((rows, arms))


@pytest.mark.parametrize("interval", ev.INTERVALS)
def test_no_value_is_outside_its_interval_or_the_range_of_values(interval: str) -> None:
    """Every estimator and every difference, over random logs, with all rules
    overruled: 5.763 in [0.432, 1] was an answer."""
    cut = 0
    for seed in range(12 if interval == "bootstrap" else 40):
        played, target, model = random_log(seed)
        if played.n_arms < model.shape[1]:
            continue  # an arm was never drawn, which drawn odds do not show
        found = ev.assess(
            played,
            {"one": target, "other": np.roll(target, 1, axis=1)},
            predictions=model,
            beforehand=True,
            interval=interval,
            floor=1e-4,
            overrule=ev.RULES,
        )
        moved = in_units(found, od.RewardScale(-10.0, 30.0))
        for one, least, most in ((found, 0.0, 1.0), (moved, -10.0, 30.0)):
            spans = [(least, most, by) for by in one.answers.values()]
            width = most - least
            spans += [(-width, width, by) for by in one.differences.values()]
            for start, end, by in spans:
                for answer in by.values():
                    if isinstance(answer, str) or answer.refused:
                        continue
                    assert start <= answer.low <= answer.value <= answer.high <= end
                    if answer.cut_from is not None:
                        cut += 1
                        assert answer.cut_from not in (answer.value, 0.0)
                        assert f"cut from {answer.cut_from:.4g}" in str(answer)
    assert cut > 0


def test_a_headline_says_where_its_value_was_cut() -> None:
    odds = [[0.1, 0.9], [0.5, 0.5]] * 50
    lucky = Log(arm=[0, 1] * 50, reward=[1, 0] * 50, propensities=odds)
    always = np.array([1.0, 0.0])
    found = ev.assess(lucky, {"new": always}, overrule=ev.RULES)
    answer = found.answers["new"]["ips"]
    assert isinstance(answer, ev.Estimate)
    assert (answer.value, answer.high, answer.cut_from) == (1.0, 1.0, 5.0)
    assert str(answer).endswith("cut from 5)")
    alone = replace(found, answers={"new": {"ips": answer}}, differences={})
    assert "cut from 5" in str(verdict(alone))
