"""What estimators say beside their terms, by hand: extremes, squares, heaviest row,
flags; and what they refuse."""

from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith import evaluation as ev

Log: Any = od.Log
ARM, REWARD = [0, 1, 1, 0], [1, 0, 0.5, np.nan]
ODDS = [[0.5, 0.5], [0.8, 0.2], [0.9, 0.1], [0.5, 0.5]]
WHOLE = Log(arm=ARM, reward=REWARD, propensities=ODDS)
DRAWN = Log(arm=ARM, reward=REWARD, propensity=[0.5, 0.2, 0.1, 0.5])
TARGET = np.array([[0.2, 0.8], [0.4, 0.6], [0.0, 1.0], [0.5, 0.5]])
MODEL = np.array([[0.5, 0.1], [0.2, 0.4], [0.3, 0.7], [0.9, 0.9]])
WEIGHTS = [0.4, 3.0, 10.0]
# π / p of all arms of the three rows with a reward
RATIOS = np.array([[0.4, 1.6], [0.5, 3.0], [0.0, 10.0]])
BASE = [0.18, 0.32, 0.7]  # what the model expects of the target

MADE: dict[str, Any] = {
    "ips": lambda log: ev.ips(log, TARGET),
    "snips": lambda log: ev.snips(log, TARGET),
    "clipped_ips": lambda log: ev.clipped_ips(log, TARGET, 2.0),
    "dm": lambda log: ev.dm(log, TARGET, MODEL),
    "dr": lambda log: ev.dr(log, TARGET, MODEL),
    "switch_dr": lambda log: ev.switch_dr(log, TARGET, MODEL, 2.0),
    "shrunk_dr": lambda log: ev.shrunk_dr(log, TARGET, MODEL, 4.0),
}
SNIPS = 5.4 / 13.4
# (shrunk weight, base, prediction) of weight w with prediction q in a row with base b
SHAPES: dict[str, Any] = {
    "ips": lambda w, b, q: (w, 0.0, 0.0),
    "snips": lambda w, b, q: (w / (13.4 / 3), SNIPS, SNIPS),
    "clipped_ips": lambda w, b, q: (min(w, 2.0), 0.0, 0.0),
    "dr": lambda w, b, q: (w, b, q),
    "switch_dr": lambda w, b, q: (w if w <= 2 else 0.0, b, q),
    "shrunk_dr": lambda w, b, q: (4 * w / (w * w + 4), b, q),
}
MODELLED = ("dm", "dr", "switch_dr", "shrunk_dr")
REACHES = {"clipped_ips": 2.0, "switch_dr": 2.0, "shrunk_dr": 1.0, "dm": 0.0}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("log", [WHOLE, DRAWN], ids=["all odds", "drawn odds"])
def test_what_stands_beside_the_terms(name: str, log: Any) -> None:
    terms = MADE[name](log)
    assert terms.name == name
    assert len(terms) == 3
    assert terms.modelled is (name in MODELLED)
    assert terms.ratio is (name == "snips")
    assert terms.unbiased is (name in ("ips", "snips", "dr"))
    assert terms.tuned is False
    assert terms.setting == {
        "clipped_ips": 2.0,
        "switch_dr": 2.0,
        "shrunk_dr": 4.0,
    }.get(name)
    assert terms.reach == REACHES.get(name, np.inf)
    assert (terms.whole, terms.beforehand) == (None, name not in MODELLED)
    np.testing.assert_array_equal(terms.missing, 0)
    if name == "dm":
        assert (
            terms.weights,
            terms.expected_squares,
            terms.heaviest,
            terms.least,
            terms.drawn,
        ) == (None,) * 5
        return
    np.testing.assert_allclose(terms.weights, WEIGHTS)
    assert terms.least == 0.1
    if log is DRAWN:
        assert (terms.expected_squares, terms.heaviest) == (None, None)
        # what is shrunk is for its own mean
        known: Any = (TARGET[:3], WEIGHTS, REWARD[:3]) if terms.unbiased else ()
        for found, expected in zip(terms.drawn or (), known, strict=True):
            np.testing.assert_allclose(found, expected)
        return
    assert terms.drawn is None
    np.testing.assert_allclose(terms.expected_squares, [0.08 + 1.28, 0.2 + 1.8, 10.0])
    # odds of 1 together
    assert terms.heaviest == pytest.approx(10 * 0.1 + 3 * 0.2 + 1.6 * 0.5 + 0.5 * 0.2)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("log", [WHOLE, DRAWN], ids=["all odds", "drawn odds"])
def test_the_terms_that_rows_could_have_had(name: str, log: Any) -> None:
    """base + w (r - q) with r = 1 and r = 0: of every arm where all odds are logged,
    else of the drawn one."""
    extremes = MADE[name](log).extremes()
    for row in range(3):
        for arm in range(2) if log is WHOLE else [ARM[row]]:
            place = (row, arm) if log is WHOLE else row
            weight, base, q = SHAPES[name](RATIOS[row, arm], BASE[row], MODEL[row, arm])
            assert extremes.rewarded[place] == pytest.approx(base + weight * (1 - q))
            assert extremes.unrewarded[place] == pytest.approx(base - weight * q)
            assert extremes.odds[place] == (ODDS[row][arm] if log is WHOLE else 1.0)
    assert (
        extremes.rewarded.shape
        == extremes.odds.shape
        == ((3, 2) if log is WHOLE else (3,))
    )
    assert extremes.rewarded.dtype == extremes.unrewarded.dtype == np.float64


def test_three_arms_have_three_extremes() -> None:
    log = Log(arm=[0, 2], reward=[1, 0], propensities=[[0.5, 0.25, 0.25]] * 2)
    made: Any = ev.ips(log, [0.25, 0.25, 0.5]).extremes
    np.testing.assert_allclose(made().rewarded, [[0.5, 1.0, 2.0]] * 2)


def test_the_values_of_snips() -> None:
    values = ev.snips(WHOLE, TARGET).values
    rewards, mean = np.array([1, 0, 0.5]), 13.4 / 3
    np.testing.assert_allclose(
        values, SNIPS + np.array(WEIGHTS) * (rewards - SNIPS) / mean
    )
    assert values.mean() == pytest.approx(SNIPS)
    # a mean weight of 1 is not none
    light = Log(arm=[0, 0, 1], reward=[1, 0, 1], propensity=[1.0, 1.0, 1.0])
    assert ev.snips(light, [1 / 3, 2 / 3]).values.mean() == pytest.approx(3 / 4)
    with pytest.raises(
        od.InvalidInput,
        match=r"^snips needs a row whose arm the target would draw; got none: all ",
    ):
        ev.snips(Log(arm=[0, 0], reward=[1, 0], propensity=[0.5, 0.5]), [0.0, 1.0])


def test_what_ips_and_the_logger_bet_on() -> None:
    bets: Any = ev.ips(WHOLE, TARGET).bets
    np.testing.assert_allclose(bets.gain, [0.4, 0.0, 5.0])
    np.testing.assert_allclose(bets.loss, [0.0, 3.0, 5.0])
    assert (bets.gain_shift, bets.loss_shift) == (0.0, 1.0)
    terms = ev.logged(WHOLE)
    np.testing.assert_array_equal(terms.values, [1, 0, 0.5])
    bets = terms.bets
    np.testing.assert_allclose(bets.gain, [1, 0, 0.5])
    np.testing.assert_allclose(bets.loss, [0, 1, 0.5])
    assert (bets.gain_shift, bets.loss_shift) == (0.0, 1.0)
    assert (terms.name, terms.reach, terms.weights, terms.extremes, terms.unbiased) == (
        "logged",
        1.0,
        None,
        None,
        True,
    )
    np.testing.assert_array_equal(terms.missing, [0, 0, 0])
    drawn: Any = terms.drawn
    assert drawn.target is None
    np.testing.assert_array_equal(
        [drawn.weights, drawn.reward], [[1, 1, 1], [1, 0, 0.5]]
    )
    with pytest.raises(
        od.InvalidInput, match=r"^log must have rewards; got none in 2 rows$"
    ):
        ev.logged(Log(arm=[0, 1], reward=[np.nan, np.nan]))


def test_mass_where_the_logger_had_none_is_told() -> None:
    barred = Log(arm=[0, 0], reward=[1, 0], propensities=[[1.0, 0.0], [0.5, 0.5]])
    for terms in (ev.ips(barred, [0.25, 0.75]), ev.dm(barred, [0.25, 0.75], MODEL[:2])):
        np.testing.assert_allclose(terms.missing, [0.75, 0.0])
    sure: Any = ev.ips(
        Log(arm=[0, 0], reward=[1, 0], propensity=[1.0, 0.5]), [0.25, 0.75]
    )
    np.testing.assert_allclose(sure.missing, [0.75, 0.0])
    np.testing.assert_allclose(sure.drawn.target, [[0.25, 0.0], [0.25, 0.75]])


@pytest.mark.parametrize("name", MODELLED)
def test_predictions_are_beforehand_if_it_is_said(name: str) -> None:
    estimator: Any = getattr(ev, name)
    assert [
        estimator(WHOLE, TARGET, MODEL, beforehand=said).beforehand
        for said in (False, True)
    ] == [False, True]


@pytest.mark.parametrize("name", ["clipped_ips", "switch_dr", "shrunk_dr"])
@pytest.mark.parametrize("log", [WHOLE, DRAWN], ids=["all odds", "drawn odds"])
def test_a_chosen_setting_keeps_the_terms_with_nothing_shrunk(
    name: str, log: Any
) -> None:
    """They are those of ips, or of dr, but for the name; what is shrunk says nothing of
    undrawn arms itself."""
    chosen: Any = (
        ev.clipped_ips(log, TARGET)
        if name == "clipped_ips"
        else getattr(ev, name)(log, TARGET, MODEL)
    )
    plain: Any = (
        ev.ips(log, TARGET) if name == "clipped_ips" else ev.dr(log, TARGET, MODEL)
    )
    whole = chosen.whole
    assert (whole.name, whole.modelled, whole.unbiased, whole.tuned) == (
        name,
        plain.modelled,
        True,
        False,
    )
    assert (whole.setting, whole.reach, whole.least, whole.whole) == (
        None,
        np.inf,
        plain.least,
        None,
    )
    assert (whole.ends, whole.heaviest) == (plain.ends, plain.heaviest)
    for found, expected in zip(
        (*whole.extremes(), whole.values),
        (*plain.extremes(), plain.values),
        strict=True,
    ):
        np.testing.assert_array_equal(found, expected)
    for found, expected in (
        (whole.weights, plain.weights),
        (whole.expected_squares, plain.expected_squares),
    ):
        np.testing.assert_array_equal(found, expected)
    for found, expected in zip(whole.drawn or (), plain.drawn or (), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert chosen.drawn is None


@pytest.mark.parametrize("name", ["clipped_ips", "switch_dr", "shrunk_dr"])
def test_settings_given_chosen_and_refused(name: str) -> None:
    rng = np.random.default_rng(0)
    odds = rng.dirichlet(np.full(3, 0.4), 300) * 0.97 + 0.01
    arm = np.array([rng.choice(3, p=row / row.sum()) for row in odds])
    log = Log(
        arm=arm,
        reward=rng.random(300),
        propensities=odds / odds.sum(axis=1, keepdims=True),
    )
    model: tuple[Any, ...] = () if name == "clipped_ips" else (rng.random((300, 3)),)
    estimator: Any = getattr(ev, name)
    target = [0.1, 0.2, 0.7]
    tuned = estimator(log, target, *model)
    assert tuned.tuned is True
    assert (tuned.reach, tuned.unbiased) == (np.inf, False)
    assert tuned.setting > 0
    same = estimator(log, target, *model, tuned.setting)
    np.testing.assert_array_equal(same.values, tuned.values)
    assert (same.tuned, same.setting) == (False, tuned.setting)
    whole = estimator(log, target, *model, np.inf)
    assert (whole.unbiased, whole.setting, whole.reach) == (True, np.inf, np.inf)
    assert estimator(log, target, *model, 0).setting == 0
    symbol = {"clipped_ips": "threshold", "switch_dr": "tau", "shrunk_dr": "strength"}[
        name
    ]
    for wrong in (-0.5, np.nan):
        with pytest.raises(
            od.InvalidInput, match=rf"^{symbol} must be in \[0, inf\); got {wrong}$"
        ):
            estimator(log, target, *model, wrong)


@pytest.mark.parametrize("name", MODELLED)
def test_predictions_are_mean_rewards_of_all_arms_in_all_rows(name: str) -> None:
    estimator: Any = getattr(ev, name)
    for wrong in (MODEL[:3], MODEL[:, :1]):
        shape = rf"\({wrong.shape[0]}, {wrong.shape[1]}\)"
        with pytest.raises(
            od.InvalidInput,
            match=rf"^predictions must be mean rewards of all arms, .*; got {shape}$",
        ):
            estimator(WHOLE, TARGET, wrong)
    with pytest.raises(
        od.InvalidInput, match=r"^predictions must have 2 axes; got shape \(4,\)$"
    ):
        estimator(WHOLE, TARGET, MODEL[:, 0])
    for low, high in ((-0.25, 0.9), (0.1, 1.25), (-0.25, 1.25)):
        wrong = MODEL.copy()
        wrong[0, 1], wrong[3] = low, high
        with pytest.raises(
            od.InvalidInput,
            match=(
                rf"^predictions must be in \[0, 1\] like .*; got {low:g} to {high:g}$"
            ),
        ):
            estimator(WHOLE, TARGET, wrong)
    assert len(estimator(WHOLE, TARGET, np.array([[0.0, 1.0]] * 4))) == 3
