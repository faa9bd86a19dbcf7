"""Rules refuse by weights and logged odds, never by rewards; every refusal names its
rule."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.known_values import SETTINGS
from scipy.stats import binomtest

import oddsmith as od
from evaluation.settings import LIGHT, terms_of
from oddsmith import evaluation as ev

Log: Any = od.Log  # which takes lists, too
REPOSITORY = Path(od.__file__).parents[2]


def test_refusals_do_not_look_at_rewards() -> None:
    """Arm 1 has odds 0.02 and the target's 0.3: whichever of the heavy rows are
    rewarded, the rules say the same."""
    rng = np.random.default_rng(3)
    for rows in (200, 1000):
        odds = np.tile([[0.98, 0.02]], (rows, 1))
        for _ in range(20):
            arm, refused = (rng.random(rows) < 0.02).astype(int), set()
            for reward in (
                np.zeros(rows),
                np.ones(rows),
                arm == 1,
                arm == 0,
                rng.random(rows) < 0.1,
            ):
                log = Log(arm=arm, reward=reward, propensities=odds)
                refused.add(ev.estimate(ev.ips(log, [0.7, 0.3])).refused)
            assert len(refused) == 1
            assert bool(refused.pop()) == (rows == 200)


def test_rare_arms_that_pay_are_covered_where_they_are_answered() -> None:
    """Odds 0.02, target 0.3, 1,000 rows, 300 logs: all answered, and below 0.90 with
    probability 0.0003."""
    rng, covered = np.random.default_rng(8), 0
    odds = np.tile([[0.98, 0.02]], (1000, 1))
    for _ in range(300):
        arm = (rng.random(1000) < 0.02).astype(int)
        reward = rng.random(1000) < np.where(arm == 1, 0.1, 0.02)
        found = ev.estimate(
            ev.ips(Log(arm=arm, reward=reward, propensities=odds), [0.7, 0.3])
        )
        assert not found.refused
        covered += found.low <= 0.044 <= found.high
    assert covered >= 270


def test_heavy_weights_are_refused_by_all_intervals_of_one_look() -> None:
    for setting in SETTINGS[-6:]:
        assert setting.largest > 50
        terms, _ = terms_of(setting, seed=4)
        for interval in ("beta", "normal", "bootstrap"):
            assert {"ess", "share"} <= set(
                ev.estimate(terms, interval=interval).refused
            )
        for interval in ("anytime", "anytime_constant"):
            assert not ev.estimate(terms, interval=interval).refused


def test_every_rule_refuses_and_can_be_overruled_by_name() -> None:
    steady: dict[str, Any] = {"arm": [0, 1] * 200, "reward": [1, 0, 0, 1] * 100}
    even = Log(**steady, propensity=np.full(400, 0.5))
    barred = Log(**steady, propensities=np.tile([[0.5, 0.5, 0.0]], (400, 1)))
    cases = {
        "overlap": ev.ips(barred, [0.4, 0.4, 0.2]),
        "ess": ev.ips(even[:60], [0.5, 0.5]),
        "share": ev.ips(Log(**steady, propensity=[0.01] + [0.5] * 399), [0.5, 0.5]),
        "weight": ev.ips(Log(**steady, propensity=np.full(400, 0.3)), [0.5, 0.5]),
        "digits": ev.ips(
            Log(**steady, propensity=np.tile(np.arange(1, 9) / 100, 50)), [0.5, 0.5]
        ),
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
    for interval in ("beta", "normal", "bootstrap", "anytime", "anytime_constant"):
        assert not ev.estimate(ev.ips(even, [0.5, 0.5]), interval=interval).refused
        assert ev.estimate(cases["weight"], interval=interval).refused == ("weight",)


def test_rewards_that_never_came_say_how_rare_they_may_be() -> None:
    nothing = ev.ips(
        Log(arm=[0, 1] * 200, reward=np.zeros(400), propensity=np.full(400, 0.5)),
        [0.5, 0.5],
    )
    found = ev.estimate(nothing)
    assert (found.low, found.high) == pytest.approx(
        (0, binomtest(0, 400).proportion_ci().high)
    )
    for interval in ("normal", "bootstrap"):
        assert ev.estimate(nothing, interval=interval).low == 0
        assert ev.estimate(nothing, interval=interval).high > 2.9 / 401


def test_a_difference_is_refused_if_one_of_its_sides_is() -> None:
    """Odds are 5 % too small, which one target's weights show (1.05 ± 0) and the
    other's do not (1.05 ± 0.07)."""
    arm = np.repeat([0, 1], [120, 280])
    wrong = Log(
        arm=arm, reward=[1, 0] * 200, propensity=np.where(arm == 0, 0.3, 0.7) / 1.05
    )
    steady, loose = ev.ips(wrong, [0.3, 0.7]), ev.ips(wrong, [0.9, 0.1])
    assert ev.estimate(steady).refused == ("weight",)
    assert not ev.estimate(loose).refused
    for apart in (steady.minus(loose), loose.minus(steady)):
        assert ev.estimate(apart).refused == ("weight",)


def test_overrule_names_rules() -> None:
    with pytest.raises(
        od.InvalidInput,
        match="rules of overlap, ess, share, weight, digits; got 'skew'",
    ):
        ev.estimate(terms_of(LIGHT)[0], overrule="skew")


@pytest.mark.parametrize("interval", ev.INTERVALS)
def test_every_interval_asks_for_overlap(interval: str) -> None:
    """All odds are on arm 0: nothing can be said of arm 1, and an answer that was
    forced is not unbiased."""
    sure = Log(
        arm=np.zeros(400, int),
        reward=[1, 0] * 200,
        propensities=np.tile([[1.0, 0.0]], (400, 1)),
    )
    only = Log(arm=np.zeros(400, int), reward=[1, 0] * 200, propensity=np.ones(400))
    for played in (sure, only):
        model = np.full((400, 2), 0.5)
        for terms in (
            ev.ips(played, [0.0, 1.0]),
            ev.ips(played, [0.9, 0.1]),
            ev.dr(played, [0.0, 1.0], model, beforehand=True),
            ev.clipped_ips(played, [0.0, 1.0], 3.0),
            ev.ips(played, [0.5, 0.5]).minus(ev.logged(played)),
        ):
            found = ev.estimate(terms, interval=interval, floor=0.5)
            assert "overlap" in found.refused
            forced = ev.estimate(terms, interval=interval, floor=0.5, overrule=ev.RULES)
            assert not forced.unbiased
            assert "its bias not counted" in str(forced)


@pytest.mark.parametrize("interval", ["bernstein", "anytime"])
def test_the_floor_is_compared_with_the_logged_odds(interval: str) -> None:
    """No heavy weight was drawn, but the log says that one could be: odds of 0.01 for
    an arm that the target draws."""
    odds = np.tile([[0.49, 0.5, 0.01]], (300, 1))
    played = Log(arm=[0, 1] * 150, reward=[1, 0] * 150, propensities=odds)
    model = np.full((300, 3), 0.5)
    for target in ([0.4, 0.5, 0.1], [0.45, 0.5, 0.05]):
        terms = ev.dr(played, target, model, beforehand=True)
        with pytest.raises(
            od.InvalidInput,
            match=r"at most all logged odds of arms .* got 0.2 and odds of 0.01",
        ):
            ev.estimate(terms, interval=interval, floor=0.2)
        assert not ev.estimate(terms, interval=interval, floor=0.01).refused
    never = ev.dr(played, [0.5, 0.5, 0.0], model, beforehand=True)
    # the target does not draw it
    assert not ev.estimate(never, interval=interval, floor=0.2).refused
    drawn = Log(
        arm=[0] * 270 + [1] * 30,
        reward=[1, 0] * 150,
        propensity=[0.9] * 270 + [0.1] * 30,
    )
    with pytest.raises(od.InvalidInput, match=r"got 0\.2 and odds of 0\.1"):
        ev.estimate(
            ev.dr(drawn, [0.95, 0.05], model[:, :2], beforehand=True),
            interval=interval,
            floor=0.2,
        )


def test_arms_that_no_row_drew_are_missed_by_the_weights() -> None:
    """Only drawn odds are logged. Arm 2 was never drawn: the weights of the others
    average to what it lacks."""
    played = Log(
        arm=[0, 1] * 300, reward=[1, 0, 0, 1] * 150, propensity=[0.5, 0.499] * 300
    )
    for lost in (0.05, 0.1):
        missed = ev.estimate(ev.ips(played, [0.8, 0.2 - lost, lost]))
        assert missed.high > missed.value + lost  # all of it may have been rewarded
    much = ev.estimate(ev.ips(played, [0.5, 0.1, 0.4]))
    assert much.refused == ("weight",)
    assert (
        "for right propensities, unless what the target draws is hardly ever drawn; "
        "allowed"
    ) in much.why
    many = Log(
        arm=np.arange(400) % 500, reward=[1, 0] * 200, propensity=np.full(400, 1 / 500)
    )
    uniform, own = (
        ev.estimate(ev.ips(many, np.full(500, 1 / 500))),
        ev.estimate(ev.logged(many)),
    )
    # all weights are 1: nothing is missed
    assert (uniform.low, uniform.high) == pytest.approx((own.low, own.high))


def test_the_model_alone_is_never_unbiased() -> None:
    played, contexts = LIGHT.logs(1, 3)
    terms = ev.dm(played, LIGHT.target[contexts], LIGHT.model[contexts])
    assert not terms.unbiased
    assert "its bias not counted" in str(ev.estimate(terms))
    found = ev.assess(
        played, {"new": LIGHT.target[contexts]}, predictions=LIGHT.model[contexts]
    )
    assert set(found.differences) == {"ips", "snips", "dr"}


def test_weights_that_were_never_drawn_count() -> None:
    """The target would draw an arm in 1 of 10 rows that the logging policy drew in 1 of 1,000:
    300 rows saw it never."""
    odds = np.tile([[0.999, 0.001]], (300, 1))
    unseen = Log(arm=np.zeros(300, int), reward=[0, 1, 1] * 100, propensities=odds)
    found = ev.diagnose(ev.ips(unseen, [0.9, 0.1]))
    assert isinstance(found, ev.Diagnostics)
    assert found.ess == pytest.approx(300 / (0.81 / 0.999 + 0.01 / 0.001))
    assert "ess" in ev.estimate(ev.ips(unseen, [0.9, 0.1])).refused


def test_a_log_with_rounded_propensities_is_flagged() -> None:
    """One propensity of a thousand rows is rounded to 1e-5: the mean weight is
    about 3."""
    rng = np.random.default_rng(9)
    propensity = np.full(10_000, 0.05)
    propensity[17] = 0.05 / 20_000
    rounded = Log(
        arm=rng.integers(20, size=10_000),
        reward=rng.integers(2, size=10_000),
        propensity=propensity,
    )
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


@pytest.mark.parametrize("interval", ["bernstein", "anytime", "anytime_constant"])
def test_predictions_of_later_rows_are_refused_where_they_must_come_before(
    interval: str,
) -> None:
    """A cross-fitted model has seen later rows. The other estimators still answer, and
    the verdict is by them."""
    played, contexts = LIGHT.logs(1, 3)
    target, model = LIGHT.target[contexts], LIGHT.model[contexts]
    made: dict[Any, tuple[float, ...]] = {
        ev.dm: (),
        ev.dr: (),
        ev.switch_dr: (2.0,),
        ev.shrunk_dr: (2.0,),
    }
    for make, setting in made.items():
        with pytest.raises(
            od.InvalidInput,
            match=rf"^{interval} intervals need predictions that were made before the",
        ):
            ev.estimate(
                make(played, target, model, *setting), interval=interval, floor=0.01
            )
        vouched = make(played, target, model, *setting, beforehand=True)
        assert not ev.estimate(vouched, interval=interval, floor=0.01).refused
    with pytest.raises(
        od.InvalidInput,
        match=r"got dr - logged: use ips, or a model fitted on earlier rows",
    ):
        ev.estimate(
            ev.dr(played, target, model).minus(ev.logged(played)),
            interval=interval,
            floor=0.01,
        )
    found = ev.assess(
        played, {"new": target}, predictions=model, interval=interval, floor=0.01
    )
    assert "use ips, or a model fitted on earlier rows" in str(
        found.answers["new"]["dr"]
    )
    assert isinstance(found.answers["new"]["ips"], ev.Estimate)
    assert set(found.differences) == {"ips"}
    earlier = ev.assess(
        played,
        {"new": target},
        predictions=model,
        interval=interval,
        floor=0.01,
        beforehand=True,
    )
    assert set(earlier.differences) == {"ips", "dr"}


def test_anytime_answers_where_a_logger_that_learnt_makes_rules_select() -> None:
    """Odds that follow early rewards: rules on odds answer the lucky logs, anytime
    intervals all of them.

    Nominal 0.95: more than 6 of 40 missed with probability 0.003.
    """
    rng, covered = np.random.default_rng(0), 0
    for _ in range(40):
        reward, draws = (rng.random(250) < 0.5).astype(float), rng.random(250)
        pays = reward[:200][draws[:200] < 0.5].mean() > 0.6
        p = np.where(np.arange(250) < 200, 0.5, 0.5 if pays else 0.01)
        played = Log(
            arm=(draws < p).astype(int),
            reward=reward,
            propensities=np.stack([1 - p, p], axis=1),
        )
        found = ev.estimate(ev.ips(played, [0, 1]), interval="anytime")
        covered += found.low <= 0.5 <= found.high
    assert covered >= 34


def test_odds_that_were_rounded_are_no_wrong_odds() -> None:
    """0.3333 for a third: every weight is 1.0001, so the standard error is 0 and says
    nothing."""
    arms: dict[str, Any] = {
        "arm": np.arange(600) % 3,
        "reward": np.arange(600) % 5 == 0,
        "arms": ["a", "b", "c"],
    }
    third = np.full(3, 1 / 3)
    for digits in (4, 5, 6):
        rounded = np.full(600, round(1 / 3, digits))
        assert not ev.estimate(ev.ips(Log(**arms, propensity=rounded), third)).refused
    few = ev.estimate(ev.ips(Log(**arms, propensity=np.full(600, 0.33)), third))
    assert few.refused == ("weight",)
    assert "1.01 ± " in few.why
    assert few.why.endswith(
        "or 0.001 for odds that were rounded: write them with more digits"
    )
    # 0.4 and 0.5 % off, four and five times what rounding may do
    for wrong in (0.332, 0.335):
        assert ev.estimate(
            ev.ips(Log(**arms, propensity=np.full(600, wrong)), third)
        ).refused == ("weight",)
