"""Diagnostics by hand, rules at their borders, and what an estimate says of itself."""

from dataclasses import replace
from functools import partial
from math import log as log_
from math import sqrt
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith import evaluation as ev
from oddsmith.evaluation.diagnostics import Diagnostics, broken_rules, diagnose
from oddsmith.evaluation.intervals import outer_terms

Log: Any = od.Log
# at every border, and allowed
FINE = Diagnostics(1000, 100.0, 0.05, 1e-9, 1.0, 0.1, 999.0)


def terms(weights: Any, *, missing: float = 0.0, **more: Any) -> ev.Terms:
    w = None if weights is None else np.array(weights, dtype=float)
    n = 4 if w is None else len(w)
    return ev.Terms(
        "some", np.linspace(0, 1, n), np.full(n, missing), weights=w, **more
    )


def test_without_weights_every_row_counts_as_one() -> None:
    assert diagnose(terms(None, missing=0.25)) == (
        4,
        4.0,
        0.25,
        0.25,
        0.75,
        0.0,
        1.0,
        "row",
        1.0,
        0.0,
    )


def test_drawn_weights() -> None:
    found = diagnose(terms([0.5, 1.5, 1.0, 3.0], missing=0.125))
    assert found.ess == pytest.approx(36 / 12.5)
    assert (found.n, found.largest_share, found.missing, found.mean_weight) == (
        4,
        0.5,
        0.125,
        1.5,
    )
    assert found.weight_error == pytest.approx(sqrt(12.5 / 4 - 2.25) / 2)
    assert found.inflation > 1
    assert diagnose(terms([0.25, 0.75])).largest_share == 0.75
    light = diagnose(terms([0.2, 0.3]))
    assert light.largest_share == pytest.approx(0.6)
    none = diagnose(terms([0.0, 0.0]))
    assert (none.ess, none.largest_share, none.mean_weight) == (0.0, 1.0, 0.0)


def test_weights_expected_by_the_logged_odds() -> None:
    """T / mean E[w² | x], the heaviest row in T, and a variance of E w² - (1 -
    missing)²."""
    squares = np.array([0.25, 0.5, 0.75, 0.5])
    found = diagnose(
        terms([1.0, 1.0, 0.0, 0.0], missing=0.5, expected_squares=squares, heaviest=3.0)
    )
    assert (found.ess, found.largest_share) == (8.0, 0.75)
    assert found.weight_error == pytest.approx(sqrt(0.5 - 0.25) / 2)
    exact = diagnose(
        terms([1.0, 1.0], expected_squares=np.array([0.9, 0.9]), heaviest=1.0)
    )
    # rounding may leave less than the square of the mean
    assert exact.weight_error == 0
    partly = diagnose(terms([1.0, 3.0], expected_squares=np.array([9.0, 9.0])))
    assert partly.ess == pytest.approx(1.6)
    assert partly.largest_share == 0.75


def test_a_difference_is_as_bad_as_the_worse_side() -> None:
    good, off = (
        terms([1.0] * 4, missing=0.0),
        terms([0.5, 2.5, 0.5, 2.5], missing=0.125),
    )
    for one, other in ((good, off), (off, good)):
        found = diagnose(one.minus(other))
        bad = diagnose(off)
        assert (found.n, found.ess, found.largest_share) == (
            4,
            bad.ess,
            bad.largest_share,
        )
        assert found.missing == 0.125
        # the one that is further off
        assert (found.mean_weight, found.weight_error) == (1.5, bad.weight_error)
        assert found.inflation == max(diagnose(good).inflation, bad.inflation)


@pytest.mark.parametrize("interval", ev.INTERVALS)
def test_rules_at_their_borders(interval: str) -> None:
    once = interval in ("beta", "normal", "bootstrap")
    assert broken_rules(FINE, interval) == {}
    share = "of the target's mass is on arms"
    cases: dict[str, tuple[Diagnostics, str, bool]] = {
        "overlap": (
            FINE._replace(missing=0.015),
            f"1.50% {share} the logging policy could not draw; allowed 0",
            True,
        ),
        "ess": (
            FINE._replace(ess=99.9),
            "1,000 rows are worth 99.9 rows of the target's own; allowed at least 100",
            once,
        ),
        "share": (
            FINE._replace(largest_share=0.075),
            "one row carries 8% of all weight; allowed at most 5%",
            once,
        ),
    }
    for name, (found, sentence, counts) in cases.items():
        assert broken_rules(found, interval) == ({name: sentence} if counts else {})
    grown = broken_rules(FINE._replace(inflation=1000.0), interval)
    high = (
        "the mean weight is above 1 (e-value 1e+03, allowed below 1000), so the "
        "propensities are too small"
    )
    assert grown == ({} if once else {"weight": high})


def test_the_mean_weight_is_near_the_share_that_is_not_missing() -> None:
    # 0.3 off, three errors
    right = FINE._replace(missing=0.5, mean_weight=0.2, weight_error=0.1)
    assert "weight" not in broken_rules(right, "beta")
    for wrong in (
        right._replace(mean_weight=0.15),
        right._replace(weight_error=0.07),
        right._replace(mean_weight=1.0),
        right._replace(mean_weight=1.5),
    ):
        assert "weight" in broken_rules(wrong, "beta")
    sentence = broken_rules(FINE._replace(mean_weight=1.45), "beta")["weight"]
    assert sentence == (
        "the mean weight is 1.45 ± 0.1, which is 1 for right propensities; "
        "allowed within 0.3 and within 4 standard errors"
    )
    light = (
        ", which is 1 for right propensities, unless what the target draws is hardly "
        "ever drawn; allowed"
    )
    # half of the mass is missing
    for mean, low in ((0.1, True), (0.9, False), (1.4, False)):
        assert (
            light in broken_rules(right._replace(mean_weight=mean), "beta")["weight"]
        ) is low


def test_the_sentences_of_bounds_that_hold_for_any_tail() -> None:
    """Half of the mass is missing, so the mean weight is 1/2 where odds are right."""
    half = FINE._replace(missing=0.5, mean_weight=0.4, weight_error=0.02)
    cause = (
        "so the propensities are too large, or rewards are missing for some arms more "
        "often than for others"
    )
    assert "weight" not in broken_rules(half._replace(deflation=999.0), "anytime")
    assert broken_rules(half._replace(deflation=1000.0), "anytime")["weight"] == (
        f"the mean weight is below 0.5 (e-value 1e+03, allowed below 1000), {cause}"
    )
    unknown = half._replace(deflation=None)
    assert broken_rules(unknown, "anytime")["weight"] == (
        f"the mean weight is 0.4 ± 0.02, {cause}; if the logging policy hardly ever drew what "
        "the target draws, give floor, or log the odds of all arms"
    )
    # 100 effective rows and a share of 5 % are enough; 4 errors are allowed
    edge = unknown._replace(ess=100.0, largest_share=0.05)
    assert "weight" in broken_rules(edge, "bernstein")
    for allowed in (
        edge._replace(ess=99.0),
        edge._replace(largest_share=0.06),
        edge._replace(mean_weight=0.25, weight_error=0.0625),
        edge._replace(mean_weight=0.4995, weight_error=0.0),
    ):
        assert "weight" not in broken_rules(allowed, "bernstein")


@pytest.mark.parametrize("interval", ev.INTERVALS)
def test_the_sentences_of_odds_with_few_digits(interval: str) -> None:
    """0.2 is 200 times what is ignored: three digits more; 0.05 is allowed."""
    assert broken_rules(FINE._replace(rounding=0.05), interval) == {}
    assert broken_rules(FINE._replace(rounding=0.2), interval) == {
        "digits": "propensities were rounded, which may move the mean weight by 0.2; "
        "allowed 0.05: log them with all digits, or 3 more"
    }
    assert broken_rules(FINE._replace(rounding=np.inf), interval) == {
        "digits": "propensities were rounded, and some are no more than half of their "
        "last digit: log them with all digits"
    }


def test_rounding_that_is_ignored_and_what_to_do_about_more() -> None:
    for rounding, found in ((0.0009, 0.0), (0.001, 0.001), (0.002, 0.002)):
        given = replace(terms([1.0] * 4), rounding=np.full(4, rounding))
        assert diagnose(given).rounding == found
    more = "write them with more digits"
    near = FINE._replace(missing=0.5, mean_weight=0.53, weight_error=0.0)
    assert more in broken_rules(near, "beta")["weight"]
    # further off, or only by chance: not by rounding
    for other in (
        near._replace(mean_weight=0.6),
        near._replace(weight_error=0.001),
    ):
        assert more not in broken_rules(other, "beta")["weight"]


EVEN = Log(arm=[0, 1] * 200, reward=[1, 0, 0, 1] * 100, propensity=np.full(400, 0.5))


def test_an_estimate_says_what_it_is() -> None:
    plain = ev.estimate(ev.ips(EVEN, [0.5, 0.5]), interval="normal", level=0.9)
    assert str(plain) == f"ips: 0.5 in [{plain.low:.4g}, {plain.high:.4g}] (0.9 normal)"
    biased = ev.estimate(
        ev.clipped_ips(EVEN, [0.5, 0.5], 0.5), interval="normal", overrule=ev.RULES
    )
    assert str(biased).endswith("] (0.95 normal, its bias not counted)")
    lasting = ev.estimate(ev.ips(EVEN, [0.5, 0.5]), interval="anytime")
    assert str(lasting).endswith(f"] (0.95 anytime: {lasting.assumption})")
    assert lasting.assumption == (
        "at every row at once, for the mean value of the rows so far, which may drift"
    )
    few = ev.estimate(ev.ips(EVEN[:10], [0.5, 0.5]))
    reasons = broken_rules(few.diagnostics, "beta")
    assert list(reasons) == ["ess", "share"] == list(few.refused)
    assert few.why == f"{reasons['ess']}; {reasons['share']}"
    assert str(few) == f"ips: refused: {few.why}"


def test_a_value_that_is_not_constant_is_refused_as_such() -> None:
    """200 rewards of 1, then 200 of 0: by the first the value is near 1, by the others
    far below."""
    turned = Log(arm=[0] * 400, reward=[1] * 200 + [0] * 200)
    found = ev.estimate(ev.logged(turned), interval="anytime_constant")
    assert found.refused == ("constant",)
    assert np.isnan([found.value, found.low, found.high]).all()
    assert found.why.startswith(
        "no constant value fits the rows: by some of them it is above 0.9"
    )
    assert found.why.endswith(
        "; use an anytime interval, which is for the mean of a value that drifts"
    )
    steady = ev.estimate(ev.logged(turned), interval="anytime")
    assert steady.value == 0.5
    assert steady.low < 0.5 < steady.high


def test_intervals_are_cut_where_values_end() -> None:
    few = Log(arm=[0, 1, 0], reward=[1, 0, 1], propensity=[0.5, 0.5, 0.5])
    one, other = ev.ips(few, [1.0, 0.0]), ev.ips(few, [0.0, 1.0])
    alone = ev.estimate(one, interval="normal", overrule=ev.RULES)
    assert (alone.low >= 0, alone.high) == (True, 1.0)
    for terms_, end in ((one.minus(other), 1.0), (other.minus(one), -1.0)):
        found = ev.estimate(terms_, interval="normal", overrule=ev.RULES)
        assert end in (found.low, found.high)
        assert -1 <= found.low <= found.high <= 1


def both(*found: ev.Estimate) -> tuple[float, float]:
    return min(one.low for one in found), max(one.high for one in found)


@pytest.mark.parametrize("interval", ["beta", "normal", "bootstrap"])
def test_an_interval_is_as_wide_as_those_of_no_shrinkage_and_of_what_was_not_drawn(
    interval: str,
) -> None:
    """Low ends and high ends of each, the outermost of them; the same again by the same
    seed."""
    ask = partial(ev.estimate, interval=interval, seed=3)
    low, high = (
        replace(terms([1.0] * 128), values=np.tile([at, at + 0.1], 64))
        for at in (0.2, 0.7)
    )
    assert ask(low).high < ask(high).low
    for one, other in ((low, high), (high, low)):
        found = ask(replace(one, whole=other))
        assert (found.low, found.high) == both(ask(low), ask(high))
    bounds = []
    for q in (0.0, 0.5, 1.0):
        drawn = ev.dr(EVEN, [0.75, 0.25], np.full((400, 2), q))
        sides = [
            ask(drawn_side, overrule=ev.RULES)
            for drawn_side in outer_terms(drawn) or ()
        ]
        alone, found = ask(replace(drawn, drawn=None)), ask(drawn)
        assert (found.low, found.high) == (
            min(alone.low, sides[0].low),
            max(alone.high, sides[1].high),
        )
        bounds.append((alone.low < sides[0].low, alone.high > sides[1].high))
    assert {low for low, _ in bounds} == {high for _, high in bounds} == {True, False}


SETTINGS: dict[str, dict[str, Any]] = {
    "seed": {"interval": "bootstrap", "level": 0.9, "seed": 3, "overrule": "ess"},
    "default seed": {"interval": "bootstrap", "overrule": ["ess"]},
    "floor": {"interval": "bernstein", "level": 0.8, "floor": 0.5},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_comparison_of_two_is_their_estimates_and_that_of_their_difference(
    name: str,
) -> None:
    few = EVEN[:60]
    one, other = ev.ips(few, [0.5, 0.5]), ev.ips(few, [0.75, 0.25])
    settings = SETTINGS[name]
    found = ev.compare({"one": one, "other": other}, **settings)

    def ask(terms: ev.Terms) -> ev.Estimate:
        return ev.estimate(terms, **settings)

    assert found.baseline == "one"
    assert found.values == {
        "one": ask(one)._replace(name="one"),
        "other": ask(other)._replace(name="other"),
    }
    (apart,) = found.differences.values()
    assert apart.level == pytest.approx(ask(one).level)
    expected = ask(other.minus(one))
    assert (apart.name, apart.overruled, apart.refused) == (
        "other - one",
        expected.overruled,
        (),
    )
    assert (apart.value, apart.low, apart.high) == pytest.approx(
        (expected.value, expected.low, expected.high)
    )


def test_rules_that_are_overruled_are_named() -> None:
    few = ev.ips(EVEN[:10], [0.5, 0.5])
    partly = ev.estimate(few, overrule=["ess"])
    assert (partly.refused, partly.overruled) == (("share",), ("ess",))
    wholly = ev.estimate(few, overrule=ev.RULES)
    assert (wholly.refused, wholly.overruled, wholly.why) == ((), ("ess", "share"), "")
    assert ev.estimate(ev.ips(EVEN, [0.5, 0.5]), overrule="ess").overruled == ()


def test_bernsteins_ends_by_maurer_and_pontil() -> None:
    """mean ± sqrt(2 V ln(4/α)/T) + 7 (b - a) ln(4/α)/(3 (T - 1)), with [a, b] = [-2, 3]
    for dr at a floor of 1/2."""
    rows = 40_000
    log = Log(
        arm=[0, 1] * (rows // 2),
        reward=[1, 0, 0, 1] * (rows // 4),
        propensity=np.full(rows, 0.5),
    )
    terms = ev.dr(log, [0.5, 0.5], np.full((rows, 2), 0.5), beforehand=True)
    found = ev.estimate(terms, interval="bernstein", level=0.9, floor=0.5)
    chance = log_(4 / 0.1)
    reach = sqrt(2 * 0.25 * rows / (rows - 1) * chance / rows) + 7 * 5 * chance / (
        3 * (rows - 1)
    )
    assert (found.low, found.high) == pytest.approx((0.5 - reach, 0.5 + reach))


def test_what_an_interval_needs() -> None:
    some = ev.ips(EVEN, [0.5, 0.5])
    for level in (0, 1, -0.5, 1.5):
        with pytest.raises(
            od.InvalidInput, match=rf"^level must be in \(0, 1\); got {level}$"
        ):
            ev.estimate(some, level=level)
    with pytest.raises(
        od.InvalidInput,
        match=r"^interval must be one of beta, normal, bootstrap, .*; got 'wald'$",
    ):
        ev.estimate(some, interval="wald")
    with pytest.raises(
        od.InvalidInput,
        match=r"^an interval needs at least 2 rows with rewards; got 1$",
    ):
        ev.estimate(ev.ips(EVEN[:1], [0.5, 0.5]), overrule=ev.RULES)
    assert np.isfinite(
        ev.estimate(ev.ips(EVEN[:2], [0.5, 0.5]), overrule=ev.RULES).value
    )
    for interval in ("bernstein", "anytime", "anytime_constant"):
        needs = rf"^{interval} intervals need terms that are independent; got "
        with pytest.raises(od.InvalidInput, match=needs + r"snips, which is a ratio$"):
            ev.estimate(ev.snips(EVEN, [0.5, 0.5]), interval=interval)
        with pytest.raises(
            od.InvalidInput,
            match=needs
            + r"clipped_ips, which has a setting chosen from the same rows$",
        ):
            ev.estimate(ev.clipped_ips(EVEN, [0.5, 0.5]), interval=interval)


def test_unbiased_is_whatever_misses_no_mass() -> None:
    for missing, unbiased in ((0.0, True), (1e-9, True), (1e-8, False)):
        lost = np.append(np.zeros(127), 128 * missing)  # a mean of exactly this
        found = ev.estimate(
            replace(terms([1.0] * 128), missing=lost),
            interval="normal",
            overrule=ev.RULES,
        )
        assert found.unbiased is unbiased
        chosen = replace(terms([1.0] * 128), missing=lost, whole=terms([1.0] * 128))
        assert (
            ev.estimate(chosen, interval="normal", overrule=ev.RULES).counted
            is unbiased
        )
    assert (
        ev.estimate(terms([1.0] * 128, unbiased=False), interval="normal").unbiased
        is False
    )
