"""The scorecard: metrics, controls, holdouts by unit, caps and refusals."""

from typing import Any

import numpy as np
import pytest

from oddsmith.contexts.metrics import REWARD, Metric
from oddsmith.core.arrays import Array
from oddsmith.core.errors import InvalidInput
from oddsmith.evaluation.holdouts import (
    compared_rows,
    excluded_rows_note,
    policy_odds,
    unit_log,
)
from oddsmith.evaluation.paired_bets import Bounds
from oddsmith.evaluation.scorecard import (
    MetricResult,
    metric_amounts,
    score_metrics,
)
from oddsmith.evaluation.targets import control_target
from oddsmith.logs import Log

REVENUE = Metric("revenue", cap=50.0, display_unit="EUR")


def shop_log(rows: int = 6000, *, seed: int = 0, gain: float = 0.1) -> Log:
    """Old and new with odds 1/2 each; a sale brings an amount with a long tail."""
    rng = np.random.default_rng(seed)
    arm = rng.integers(2, size=rows)
    sale = (rng.random(rows) < 0.1 + gain * arm).astype(float)
    revenue = sale * rng.exponential(20.0, size=rows)
    refunds = sale * (rng.random(rows) < 0.1)
    return Log(
        arm=arm,
        reward=sale,
        propensities=np.full((rows, 2), 0.5),
        arms=["old", "new"],
        metric=np.column_stack([revenue, sale, refunds]),
        metrics=["revenue", "orders", "refunds"],
    )


def score(log: Log, *metrics: Metric, **settings: object) -> list[MetricResult]:
    return list(
        score_metrics(
            log,
            {"new": [0, 1]},
            [1, 0],
            metrics,
            **settings,  # type: ignore[arg-type]
        )
    )


def test_one_look_is_welch_on_capped_amounts() -> None:
    from scipy import stats

    log = shop_log()
    assert log.metric is not None
    capped = np.minimum(log.metric[:, 0], 50.0)
    welch = stats.ttest_ind(capped[log.arm == 1], capped[log.arm == 0], equal_var=False)
    expected = welch.confidence_interval(0.95)
    (found,) = score(log, REVENUE, interval="one_look")
    assert found.difference[1:3] == pytest.approx(expected, rel=1e-9)
    assert found.target_value == pytest.approx(capped[log.arm == 1].mean())
    assert found.clipped_share == (log.metric[:, 0] > 50).mean()
    assert abs(found.uncapped_difference) > abs(found.difference.value)
    assert found.rows == len(log)


def test_anytime_intervals_contain_the_one_look_interval() -> None:
    log = shop_log()
    metrics = [Metric(REWARD, role="primary", high=1.0), REVENUE]
    anytime = score(log, *metrics)
    one_look = score(log, *metrics, interval="one_look")
    for wide, narrow in zip(anytime, one_look, strict=True):
        assert wide.difference.low < narrow.difference.low
        assert narrow.difference.high < wide.difference.high
        assert wide.lift.low < narrow.lift.low < narrow.lift.high < wide.lift.high
        assert (wide.lift.low > 0) == (wide.difference.low > 0)
        assert wide.outcome == "better"


def test_intervals_hold_together() -> None:
    """Two metrics at 95 % are each at 97.5 %."""
    log = shop_log()
    (alone,) = score(log, REVENUE, level=0.975)
    together = score(log, REVENUE, Metric("orders", high=1.0))
    assert together[0].difference[:3] == alone.difference[:3]
    assert together[0].level == 0.975


def test_doubling_high_changes_nothing_where_a_cap_is_declared() -> None:
    log = shop_log()
    capped = Metric(REWARD, role="primary", high=100.0, cap=50.0)
    scaled = Log(**log.columns() | {"reward": log.reward / 2}, metrics=log.metrics)
    doubled = Metric(REWARD, role="primary", high=200.0, cap=50.0)
    for interval in ("anytime", "one_look"):
        (one,) = score(log, capped, interval=interval)
        (other,) = score(scaled, doubled, interval=interval)
        assert repr(one._replace(metric=doubled)) == repr(other)


def test_direction_and_limit_of_a_guardrail() -> None:
    limit = Metric("refunds", role="guardrail", better="lower", high=1.0, limit=0.1)
    log = shop_log()
    (found,) = score(log, limit, interval="one_look")
    assert found.harm == Bounds(found.lift.low, found.lift.high)
    assert found.outcome in ("worse", "inconclusive")
    assert not found.is_within_limit
    absolute = Metric(
        "refunds",
        role="guardrail",
        better="lower",
        high=1.0,
        limit=0.5,
        is_absolute=True,
    )
    (found,) = score(log, absolute, interval="one_look")
    assert found.is_within_limit
    assert not found.is_beyond_limit
    (sales,) = score(
        log,
        Metric("orders", role="guardrail", high=1.0, limit=0.0),
        interval="one_look",
    )
    assert sales.harm.high == -sales.lift.low
    assert sales.is_within_limit


def test_ratio_metrics_have_one_look_intervals() -> None:
    ratio = Metric("order_value", ratio=("revenue", "orders"))
    log = shop_log()
    (found,) = score(log, ratio, level=0.999)
    assert found.interval == "one_look"
    assert log.metric is not None
    new = log.metric[log.arm == 1]
    assert found.target_value == pytest.approx(new[:, 0].sum() / new[:, 1].sum())
    assert found.difference.low < 0 < found.difference.high


def test_missing_amounts_take_the_default_or_leave_their_rows_out() -> None:
    log = shop_log(200)
    assert log.metric is not None
    gaps = log.metric.copy()
    gaps[::2, 0] = np.nan
    log = Log(**log.columns() | {"metric": gaps}, metrics=log.metrics, arms=log.arms)
    (found,) = score(log, REVENUE, interval="one_look")
    assert found.rows == 100
    filled = metric_amounts(log, Metric("revenue", default=3.0))
    assert (filled[::2] == 3.0).all()
    with pytest.raises(InvalidInput, match="metric cost is not a column of the log"):
        metric_amounts(log, Metric("cost"))


def test_metrics_without_an_upper_end_need_a_cap() -> None:
    (found,) = score(shop_log(), Metric("revenue"))
    assert found.outcome == "refused"
    assert "declare a cap" in found.refused
    assert np.isfinite(found.target_value)


def test_negative_amounts() -> None:
    """A metric in [-5, 5] moves with its unit: intervals are shifted by nothing."""
    log = shop_log()
    assert log.metric is not None
    moved = Log(
        **log.columns() | {"metric": log.metric - 5.0},
        metrics=log.metrics,
        arms=log.arms,
    )
    (one,) = score(log, Metric("revenue", high=10.0))
    (other,) = score(moved, Metric("revenue", low=-5.0, high=5.0))
    assert other.difference == pytest.approx(one.difference, nan_ok=True)
    assert other.control_value == pytest.approx(one.control_value - 5)


def holdout_log(rows: int, *, gamma: float, rates: tuple[float, ...], seed: int) -> Log:
    """A bandit with a holdout of 10 % by decision; arm 0 is the control."""
    rng = np.random.default_rng(seed)
    arms = len(rates)
    sums = np.zeros(arms)
    counts = np.zeros(arms)
    control = np.eye(arms)[0]
    drawn = np.zeros(rows, np.int64)
    reward = np.zeros(rows)
    odds = np.zeros((rows, arms))
    for row in range(rows):
        scores = rng.beta(1 + sums, 1 + counts - sums, size=(64, arms)).argmax(axis=1)
        greedy = np.bincount(scores, minlength=arms) / 64
        policy = (1 - gamma) * greedy + gamma / arms
        odds[row] = 0.9 * policy + 0.1 * control
        drawn[row] = rng.choice(arms, p=odds[row])
        reward[row] = rng.random() < rates[drawn[row]]
        sums[drawn[row]] += reward[row]
        counts[drawn[row]] += 1
    return Log(
        arm=drawn,
        reward=reward,
        propensities=odds,
        control=np.tile(control, (rows, 1)),
        holdout=np.full(rows, 0.1),
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_gain_of_114_percent_is_shown_within_3000_pages(seed: int) -> None:
    """10 % against 21.4 %, gamma 0.005 and a holdout of 10 %."""
    log = holdout_log(3000, gamma=0.005, rates=(0.1, 0.214, 0.1), seed=seed)
    assert log.control is not None
    (found,) = score_metrics(log, {"policy": policy_odds(log)}, log.control)
    assert found.outcome == "better"
    assert found.lift.low > 0
    assert found.difference.low < 0.114 < found.difference.high


def visitor_log(visitors: int, *, gain: float, seed: int) -> Log:
    """A holdout of 30 % by unit; visitors return and keep their rate."""
    rng = np.random.default_rng(seed)
    visits = rng.integers(1, 8, size=visitors)
    unit = np.repeat(np.arange(visitors), visits)
    is_control = (rng.random(visitors) < 0.3)[unit]
    rate = rng.beta(0.5, 1.5, size=visitors)[unit]
    reward = (rng.random(len(unit)) < rate + gain * ~is_control).astype(float)
    odds = np.where(is_control[:, None], [1.0, 0.0], [0.0, 1.0])
    return Log(
        arm=(~is_control).astype(np.int64),
        reward=reward,
        propensities=odds,
        group=np.where(is_control, "control", "policy").astype(object),
        holdout=np.full(len(unit), 0.3),
        unit=[f"v{number}" for number in unit],
    )


def score_by_unit(log: Log, **settings: object) -> MetricResult:
    total = Metric(REWARD, role="primary", cap=7.0)
    (found,) = score_metrics(
        unit_log(log),
        {"policy": [1, 0]},
        [0, 1],
        [total],
        **settings,  # type: ignore[arg-type]
    )
    return found


def test_a_holdout_by_unit_covers_in_95_percent() -> None:
    """400 logs of returning visitors: within two standard errors."""
    truth = 0.1 * 4  # of four visits on average
    logs = 400
    covered = 0
    for seed in range(logs):
        log = visitor_log(400, gain=0.1, seed=seed)
        found = score_by_unit(log, interval="one_look")
        covered += found.difference.low <= truth <= found.difference.high
    error = np.sqrt(0.05 * 0.95 / logs)
    assert abs(covered / logs - 0.95) < 2 * error


def test_a_holdout_by_unit_has_anytime_intervals() -> None:
    found = score_by_unit(visitor_log(3000, gain=0.1, seed=1))
    assert found.outcome == "better"
    assert found.rows == 3000
    assert found.difference.low < 0.4 < found.difference.high


def test_intervals_of_decisions_are_by_unit_where_units_return() -> None:
    """Each row twice under one unit: the interval of the rows once."""
    log = shop_log(2000)
    twice = log[np.repeat(np.arange(2000), 2)]
    columns = twice.columns() | {"unit": np.repeat(np.arange(2000), 2).astype(str)}
    by_unit = Log(**columns, metrics=log.metrics, arms=log.arms)
    (once,) = score(log, REVENUE, interval="one_look")
    (found,) = score(by_unit, REVENUE, interval="one_look")
    assert found.difference == pytest.approx(once.difference)


def test_arms_that_could_not_be_drawn_widen_the_difference() -> None:
    """In a quarter of rows an incumbent chose for certain: values are refused, the
    difference is bounded, and it covers."""
    rng = np.random.default_rng(6)
    rows = 8000
    odds: Array = np.full((rows, 2), 0.5)
    odds[::4] = [1.0, 0.0]
    arm = (rng.random(rows) < odds[:, 1]).astype(np.int64)
    reward = (rng.random(rows) < 0.1 + 0.3 * arm).astype(float)
    log = Log(arm=arm, reward=reward, propensities=odds)
    (found,) = score_metrics(log, {"new": [0, 1]}, [1, 0])
    assert "could not draw" in found.refused
    assert np.isnan(found.target_value)
    assert found.difference.low < 0.3 < found.difference.high
    assert found.outcome == "better"
    assert found.difference.high > 0.3 + 0.1
    (look,) = score_metrics(log, {"new": [0, 1]}, [1, 0], interval="one_look")
    assert look.outcome == "refused"


def test_drawn_odds_need_a_floor() -> None:
    rng = np.random.default_rng(7)
    arm = rng.integers(3, size=4000)
    reward = (rng.random(4000) < 0.1 + 0.1 * (arm == 1)).astype(float)
    drawn = np.where(arm == 0, 0.33, 0.335)
    log = Log(arm=arm, reward=reward, propensity=drawn)
    (found,) = score_metrics(log, {"new": [0, 1, 0]}, [1, 0, 0])
    assert "floor" in found.refused
    (found,) = score_metrics(log, {"new": [0, 1, 0]}, [1, 0, 0], floor=0.33)
    assert found.outcome == "better"
    (found,) = score_metrics(log, {"new": [0, 1, 0]}, [1, 0, 0], floor=0.4)
    assert "at most the smallest propensity of the log, 0.33" in found.refused


def test_a_metric_that_cannot_be_scored_refuses_alone() -> None:
    """No orders: their ratio has no value, and other metrics have theirs."""
    log = shop_log(400)
    columns = log.columns() | {"metric": log.metric * [1, 0, 1]}  # type: ignore[operator]
    none = Log(**columns, metrics=log.metrics, arms=log.arms)
    ratio = Metric("order_value", ratio=("revenue", "orders"))
    found = score(none, ratio, REVENUE, interval="one_look")
    assert "positive denominator" in found[0].refused
    assert found[1].outcome != "refused"


def test_the_largest_amounts_have_intervals() -> None:
    log = shop_log(400)
    columns = log.columns() | {"metric": log.metric * 1e98}  # type: ignore[operator]
    large = Log(**columns, metrics=log.metrics, arms=log.arms)
    (found,) = score(large, Metric("revenue", cap=5e99), interval="one_look")
    (small,) = score(log, REVENUE, interval="one_look")
    assert found.difference.low == pytest.approx(1e98 * small.difference.low)
    assert found.lift.high == pytest.approx(small.lift.high)


@pytest.mark.parametrize("interval", ["anytime", "one_look"])
def test_rows_after_the_end_are_left_out(interval: Any) -> None:
    """In the last 500 of 3,000 rows all get the control: results are those of the first
    2,500 rows."""
    before = holdout_log(2500, gamma=0.1, rates=(0.1, 0.2), seed=4)
    rows = np.arange(3000)
    after = rows >= 2500
    columns = before[np.minimum(rows, 2499)].columns()
    control = np.tile([1.0, 0.0], (3000, 1))
    odds = np.where(after[:, None], control, columns["propensities"])
    log = Log(
        arm=np.where(after, 0, columns["arm"]),
        reward=columns["reward"],
        propensities=odds,
        control=control,
        holdout=np.where(after, 1.0, 0.1),
    )
    assert "500 of 3,000 rows are left out" in excluded_rows_note(
        log, compared_rows(log)
    )
    (found,) = score_metrics(
        log, {"policy": policy_odds(log)}, control, interval=interval
    )
    (expected,) = score_metrics(
        before, {"policy": policy_odds(before)}, [1, 0], interval=interval
    )
    assert repr(found) == repr(expected._replace(excluded_rows=500))


def test_rows_without_a_control_are_left_out() -> None:
    """Of a policy and its control; two arms are compared in all rows."""
    log = holdout_log(1000, gamma=0.3, rates=(0.1, 0.2), seed=4)
    rows = np.arange(1000)
    share = np.where(rows < 400, np.nan, 0.1)
    some = Log(**log.columns() | {"holdout": share})
    control = control_target(some)
    (found,) = score_metrics(some, {"policy": policy_odds(some)}, control)
    late = log[400:]
    (expected,) = score_metrics(late, {"policy": policy_odds(late)}, [1, 0])
    assert repr(found) == repr(expected._replace(excluded_rows=400))
    (arms,) = score_metrics(some, {"new": [0, 1]}, [1, 0])
    assert (arms.rows, arms.excluded_rows) == (1000, 0)


def test_units_after_the_end_are_left_out() -> None:
    log = visitor_log(50, gain=0.1, seed=4)
    late = visitor_log(30, gain=0.1, seed=5).columns()
    late |= {"holdout": np.ones(len(late["arm"])), "unit": ["late"] * len(late["arm"])}
    both = Log.concatenated([log, Log(**late)])
    assert both.holdout is not None
    note = f"{len(late['arm'])} of {len(both)} rows are left out"
    assert note in excluded_rows_note(both, compared_rows(both))
    assert excluded_rows_note(log, compared_rows(log)) == ""
    np.testing.assert_array_equal(unit_log(both).metric, unit_log(log).metric)


def test_wrong_questions_are_refused() -> None:
    log = shop_log(100)
    with pytest.raises(InvalidInput, match="interval must be one of anytime, one_look"):
        score(log, REVENUE, interval="normal")
    with pytest.raises(InvalidInput, match="needs a target and a metric"):
        score(log)
    with pytest.raises(InvalidInput, match="need the columns group and holdout"):
        unit_log(log)
    with pytest.raises(InvalidInput, match="need the columns propensities"):
        policy_odds(log)
