"""One look at fixed splits: the intervals of tea-tasting and gbstats, coverage by
unit."""

import numpy as np
import pytest
from scipy import stats

from oddsmith.core.arrays import Array
from oddsmith.core.errors import InvalidInput
from oddsmith.evaluation.duration import days_needed, smallest_detectable_effect
from oddsmith.evaluation.lift import lift_bounds
from oddsmith.evaluation.one_look import (
    Effect,
    LiftScale,
    mean_difference,
    mean_lift,
    weighted_mean,
)
from oddsmith.evaluation.paired_bets import Bounds
from oddsmith.evaluation.sample_ratio import check_sample_ratio
from oddsmith.evaluation.segments import check_heterogeneity

# of the split below, by tea-tasting 1.14.0 (Mean, RatioOfMeans) and gbstats 0.8.0
# (TwoSidedTTest): difference, its ends, lift, its ends by tea-tasting, and by gbstats
PEERS = {
    "conversion": (
        (0.007881102139083732, -0.0009189869800521316, 0.016681191258219596),
        (0.07177998328503676, -0.008087461402835894, 0.15807824568390627),
        (0.07177998328503685, -0.011219877098250439, 0.15477984366832415),
    ),
    "revenue": (
        (0.5703635935121723, -0.26176617151130666, 1.4024933585356512),
        (0.1255957923133426, -0.054945501749465, 0.3406273289200592),
        (0.12559579231334256, -0.07118612273670563, 0.3223777073633908),
    ),
    "capped revenue": (
        (0.5889225536362943, 0.04884069773499, 1.1290044095375986),
        (0.1466789362979628, 0.011681470404598215, 0.2996902892998279),
        (0.14667893629796286, 0.0030502977137326914, 0.29030757488219305),
    ),
    "orders per session": (
        (0.006544129030661289, -0.0005417494439471362, 0.013630007505269714),
        (0.07942986187700218, -0.006334778414006315, 0.17259696867731034),
        (0.0794298618770022, -0.00993389096591854, 0.16879361471992294),
    ),
}
GBSTATS_SRM = 0.6106702988713357


def split() -> dict[str, Array]:
    """20,000 visitors in two halves; the same numbers went to the peers."""
    rng = np.random.default_rng(20261119)
    n = 20_000
    is_treatment = rng.random(n) < 0.5
    sessions = 1 + (3 * rng.random(n)).astype(int)
    converted = rng.random(n) < 0.11 + 0.008 * is_treatment
    radius = np.sqrt(-2 * np.log(1 - rng.random(n)))
    normal = radius * np.cos(2 * np.pi * rng.random(n))
    revenue = (converted * np.exp(3.0 + 1.2 * normal)).round(2)
    orders = converted * (1 + (2 * rng.random(n)).astype(int))
    return {
        "is_treatment": is_treatment.astype(float),
        "sessions": sessions.astype(float),
        "conversion": converted.astype(float),
        "revenue": revenue,
        "capped revenue": np.minimum(revenue, 200.0),
        "orders per session": orders.astype(float),
    }


@pytest.mark.parametrize("metric", PEERS)
def test_a_fixed_split_has_the_intervals_of_the_peers(metric: str) -> None:
    columns = split()
    is_treatment = columns["is_treatment"]
    sessions = columns["sessions"] if metric == "orders per session" else None
    target = weighted_mean(2 * is_treatment, columns[metric], sessions)
    control = weighted_mean(2 * (1 - is_treatment), columns[metric], sessions)
    difference, tea_tasting, gbstats = PEERS[metric]
    found = mean_difference(target, control)
    assert found[:3] == pytest.approx(difference, rel=1e-9)
    assert mean_lift(target, control)[:3] == pytest.approx(tea_tasting, rel=1e-9)
    linear = mean_lift(target, control, scale="linear")
    assert linear[:3] == pytest.approx(gbstats, rel=1e-9)


def test_the_sample_ratio_is_that_of_gbstats() -> None:
    arm = split()["is_treatment"].astype(np.int64)
    found = check_sample_ratio(arm, np.array([0.5, 0.5]))
    assert found.p_value == pytest.approx(GBSTATS_SRM, rel=1e-9)
    assert not found.is_mismatch
    assert check_sample_ratio(arm, np.array([0.53, 0.47])).is_mismatch


def test_the_sample_ratio_of_odds_that_vary_is_uniform() -> None:
    """400 logs whose odds depend on the context: p below 0.1 in 10 %."""
    rng = np.random.default_rng(1)
    table = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.5, 0.5, 0.0]])
    p_values = []
    for _ in range(400):
        odds = table[rng.integers(3, size=300)]
        uniform = rng.random((300, 1))
        arm = (uniform > odds.cumsum(axis=1)[:, :-1]).sum(axis=1)
        p_values.append(check_sample_ratio(arm, odds).p_value)
    # a right test fails with probability 1e-4
    assert stats.kstest(p_values, "uniform").pvalue > 1e-4


def test_rows_of_returning_units_are_covered_by_unit() -> None:
    """Visitors return 1 to 9 times and keep their rate: by unit the interval covers in
    95 % of 500 logs within two standard errors, by row in less."""
    rng = np.random.default_rng(2)
    covered = {"unit": 0, "row": 0}
    logs = 500
    for _ in range(logs):
        visits = rng.integers(1, 10, size=400)
        unit = np.repeat(np.arange(400), visits)
        rate = rng.beta(0.3, 0.7, size=400)[unit]
        group = (rng.random(400) < 0.5)[unit].astype(float)
        y = (rng.random(len(unit)) < rate).astype(float)
        for name, units in (("unit", unit), ("row", None)):
            target = weighted_mean(2 * group, y, units=units)
            control = weighted_mean(2 * (1 - group), y, units=units)
            found = mean_difference(target, control)
            covered[name] += found.low <= 0 <= found.high
    error = np.sqrt(0.05 * 0.95 / logs)
    assert abs(covered["unit"] / logs - 0.95) < 2 * error
    assert covered["row"] / logs < 0.85


def test_the_log_scale_needs_means_above_zero() -> None:
    y = np.array([0.0, 0.0, 1.0, 2.0])
    nothing = weighted_mean(np.array([1.0, 1, 0, 0]), y)
    something = weighted_mean(np.array([0.0, 0, 1, 1]), y)
    assert np.isnan(mean_lift(nothing, something).low)
    assert np.isnan(mean_lift(something, nothing).value)
    with pytest.raises(InvalidInput, match="lift must be one of log, linear"):
        mean_lift(nothing, something, scale="square")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="needs rows"):
        weighted_mean(np.zeros(4), y)


@pytest.mark.parametrize("scale", ["log", "linear"])
def test_intervals_of_lifts_cover(scale: LiftScale) -> None:
    """Odds that depend on the context: 600 logs, 95 % within three standard errors."""
    rng = np.random.default_rng(3)
    covered = 0
    truth = 0.3 / 0.2 - 1
    for _ in range(600):
        odds = np.where(rng.random(1500) < 0.5, 0.3, 0.7)
        drawn = (rng.random(1500) < odds).astype(float)
        y = (rng.random(1500) < 0.2 + 0.1 * drawn).astype(float)
        target = weighted_mean(drawn / odds, y)
        control = weighted_mean((1 - drawn) / (1 - odds), y)
        found = mean_lift(target, control, scale=scale)
        covered += found.low <= truth <= found.high
    assert abs(covered / 600 - 0.95) < 3 * np.sqrt(0.05 * 0.95 / 600)


def test_the_rectangle_holds_the_lift_of_its_corners() -> None:
    for difference in (Bounds(0.1, 0.3), Bounds(-0.2, 0.1), Bounds(-0.3, -0.1)):
        found = lift_bounds(difference, Bounds(0.5, 2.0))
        corners = [end / mean for end in difference for mean in (0.5, 2.0)]
        assert found == (min(corners), max(corners))


def test_durations_follow_the_root_of_n() -> None:
    """After the predicted days, half-width and standard error reach the effect."""
    rows, half, error, effect = 4000, 0.05, 0.0125, 0.03
    days = days_needed(rows, half, error, effect, 1000)
    shrink = np.sqrt(rows / (rows + 1000 * days))
    reached = smallest_detectable_effect(half * shrink, error * shrink)
    assert reached == pytest.approx(effect, rel=1e-12)
    assert days_needed(rows, 0.01, 0.001, effect, 1000) == 0
    assert days_needed(rows, half, error, 0.0, 1000) == np.inf


def test_q_of_equal_effects_is_uniform() -> None:
    rng = np.random.default_rng(4)
    p_values = []
    for _ in range(500):
        errors = rng.uniform(0.5, 2, size=4)
        values = rng.normal(1.0, errors)
        effects = {
            str(place): Effect(value, 0, 0, error)
            for place, (value, error) in enumerate(zip(values, errors, strict=True))
        }
        p_values.append(check_heterogeneity(effects).p_value)
    assert stats.kstest(p_values, "uniform").pvalue > 1e-4
