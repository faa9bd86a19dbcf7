"""Estimators against hand-made numbers, known values and each other; refusals in one
sentence."""

from typing import Any

import numpy as np
import pytest
from benchmarks.known_values import SETTINGS, Setting
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression

import oddsmith as od
from oddsmith import evaluation as ev
from oddsmith.evaluation.reward_models import fill_missing

Log: Any = od.Log  # which takes lists, too
LOG = Log(
    arm=[0, 1, 1, 0],
    reward=[1, 0, 1, np.nan],
    propensities=[[0.5, 0.5], [0.8, 0.2], [0.9, 0.1], [0.5, 0.5]],
)
TARGET = np.array([[0.2, 0.8], [0.4, 0.6], [0.0, 1.0], [0.5, 0.5]])
MODEL = np.array([[0.5, 0.1], [0.2, 0.4], [0.3, 0.7], [0.9, 0.9]])


def test_every_estimator_by_hand() -> None:
    """Weights are 0.4, 3, 10; the fourth row has no reward."""
    np.testing.assert_allclose(ev.ips(LOG, TARGET).values, [0.4, 0, 10])
    assert ev.snips(LOG, TARGET).values.mean() == pytest.approx(10.4 / 13.4)
    np.testing.assert_allclose(ev.clipped_ips(LOG, TARGET, 2).values, [0.4, 0, 2])
    base = np.array([0.18, 0.32, 0.7])
    np.testing.assert_allclose(ev.dm(LOG, TARGET, MODEL).values, base)
    assert not ev.dm(LOG, TARGET, MODEL).unbiased
    np.testing.assert_allclose(
        ev.dr(LOG, TARGET, MODEL).values, base + np.array([0.2, -1.2, 3])
    )
    np.testing.assert_allclose(
        ev.switch_dr(LOG, TARGET, MODEL, 3).values, base + np.array([0.2, -1.2, 0])
    )
    shrunk = np.array([0.4, 3, 10]) * 4 / (np.array([0.16, 9, 100]) + 4)
    np.testing.assert_allclose(
        ev.shrunk_dr(LOG, TARGET, MODEL, 4).values, base + shrunk * [0.5, -0.4, 0.3]
    )
    np.testing.assert_allclose(ev.logged(LOG).values, [1, 0, 1])
    squares: Any = ev.ips(LOG, TARGET).expected_squares
    np.testing.assert_allclose(squares, [0.04 / 0.5 + 0.64 / 0.5, 0.2 + 1.8, 10])


def test_the_ends_of_the_scales_are_other_estimators() -> None:
    exact = ev.dr(LOG, TARGET, MODEL).values
    for found in (
        ev.switch_dr(LOG, TARGET, MODEL, np.inf),
        ev.shrunk_dr(LOG, TARGET, MODEL, np.inf),
    ):
        np.testing.assert_allclose(found.values, exact)
        assert found.unbiased
    for found in (
        ev.switch_dr(LOG, TARGET, MODEL, 0),
        ev.shrunk_dr(LOG, TARGET, MODEL, 0),
    ):
        np.testing.assert_allclose(found.values, ev.dm(LOG, TARGET, MODEL).values)
    np.testing.assert_allclose(
        ev.dr(LOG, TARGET, np.zeros((4, 2))).values, ev.ips(LOG, TARGET).values
    )
    np.testing.assert_allclose(
        ev.clipped_ips(LOG, TARGET, np.inf).values, ev.ips(LOG, TARGET).values
    )


def test_snips_has_the_spread_of_the_delta_method() -> None:
    w, r = np.array([0.4, 3, 10]), np.array([1, 0, 1.0])
    ratio = (w * r).sum() / w.sum()
    gradient = np.array([1 / w.mean(), -ratio / w.mean()])
    expected = gradient @ np.cov(np.stack([w * r, w]), ddof=0) @ gradient
    assert ev.snips(LOG, TARGET).values.var() == pytest.approx(expected)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s.name)
def test_unbiased_estimators_are_within_four_standard_errors(setting: Setting) -> None:
    """40 logs each, by the exact standard error; 54 tests, so a false alarm has
    probability 0.004 (normal tails)."""
    log, contexts = setting.logs(40, seed=3)
    target, model = setting.target[contexts], setting.model[contexts]
    for terms in (ev.ips(log, target), ev.dr(log, target, model)):
        error = setting.deviation(modelled=terms.name == "dr") / len(terms) ** 0.5
        assert abs(terms.values.mean() - setting.value) < 4 * error
    assert (
        abs(ev.snips(log, target).values.mean() - setting.value)
        < 6 * ev.snips(log, target).values.std() / len(log) ** 0.5
    )


def test_at_least_five_settings_have_weights_above_50() -> None:
    assert len(SETTINGS) == 20
    assert sum(s.largest > 50 for s in SETTINGS) >= 5


def mean_squared(values: Any, value: float, logs: int) -> float:
    return float(((values.reshape(logs, -1).mean(axis=1) - value) ** 2).mean())


def test_dr_beats_ips_where_the_model_is_good_and_dm_where_it_is_not() -> None:
    """A model with errors of 0.15 takes variance away from IPS; a constant bias of 0.2
    is fatal to DM alone."""
    setting = SETTINGS[10]
    log, contexts = setting.logs(200, seed=4)
    target = setting.target[contexts]
    bent = np.clip(setting.model + 0.2, 0, 1)[contexts]
    plain = mean_squared(ev.ips(log, target).values, setting.value, 200)
    robust = mean_squared(
        ev.dr(log, target, setting.model[contexts]).values, setting.value, 200
    )
    direct = mean_squared(ev.dm(log, target, bent).values, setting.value, 200)
    repaired = mean_squared(ev.dr(log, target, bent).values, setting.value, 200)
    assert robust < 0.6 * plain
    assert repaired < 0.2 * direct


def test_dr_is_as_good_as_theory_says() -> None:
    """With the exact model, the variance of a term is E[w² Var r] + Var q(π)."""
    setting = SETTINGS[10]._replace(model=SETTINGS[10].means)
    noise = (
        (setting.target**2 / setting.logger * setting.means * (1 - setting.means))
        .sum(axis=1)
        .mean()
    )
    between = (setting.target * setting.means).sum(axis=1).var()
    assert setting.deviation(modelled=True) ** 2 == pytest.approx(noise + between)
    log, contexts = setting.logs(200, seed=5)
    found = ev.dr(log, setting.target[contexts], setting.means[contexts]).values.var()
    assert found == pytest.approx(noise + between, rel=0.03)


@pytest.mark.parametrize("name", ["clipped_ips", "switch_dr", "shrunk_dr"])
def test_chosen_settings_do_better_than_none_under_heavy_weights(name: str) -> None:
    """Mean squared errors over 40 logs: never above those of no shrinkage on the same
    logs, and far below in sum."""
    chosen, whole = [], []
    for setting in SETTINGS[-6:]:
        log, contexts = setting.logs(40, seed=6)
        target, model = setting.target[contexts], setting.model[contexts]
        more = () if name == "clipped_ips" else (model,)
        exact = (
            ev.ips(log, target) if name == "clipped_ips" else ev.dr(log, target, model)
        )
        means = []
        for i in range(40):
            rows = slice(i * setting.rows, (i + 1) * setting.rows)
            terms = getattr(ev, name)(log[rows], target[rows], *(m[rows] for m in more))
            assert terms.tuned
            assert not terms.unbiased
            means.append(terms.values.mean())
        chosen.append(float(((np.array(means) - setting.value) ** 2).mean()))
        whole.append(mean_squared(exact.values, setting.value, 40))
    assert all(a <= b * (1 + 1e-9) for a, b in zip(chosen, whole, strict=True))
    assert sum(chosen) < 0.8 * sum(whole)


def test_cross_fitting_never_shows_a_row_its_own_reward() -> None:
    """Changing one reward changes no prediction of its own row, and some of other
    folds."""
    rng = np.random.default_rng(0)
    x, arm, reward = rng.normal(size=(60, 2)), rng.integers(3, size=60), rng.random(60)
    changed = reward.copy()
    changed[7] = 1 - changed[7]
    every: list[dict[str, Any]] = [{}, {"per_arm": True}, {"blocks": True}]
    for options in every:
        first, second = (
            ev.cross_fit(
                Log(arm=arm, reward=r, context=x), LinearRegression(), **options
            )
            for r in (reward, changed)
        )
        np.testing.assert_array_equal(first[7], second[7])
        assert (first != second).any()
        assert first.shape == (60, 3)
    again = ev.cross_fit(
        Log(arm=arm, reward=reward, context=x), LinearRegression(), seed=1
    )
    assert (
        again
        != ev.cross_fit(Log(arm=arm, reward=reward, context=x), LinearRegression())
    ).any()


def test_cross_fitting_takes_dicts_classifiers_and_rows_without_reward() -> None:
    contexts = [{"city": "Rome" if i % 2 else "Oslo", "age": i} for i in range(80)]
    reward = np.array([float(i % 2) for i in range(80)])
    reward[3] = np.nan
    log = Log(arm=[i // 40 for i in range(80)], reward=reward, context=contexts)
    found = ev.cross_fit(log, LogisticRegression(max_iter=1000))
    assert found[::2].max() < 0.2
    assert found[1::2].min() > 0.8
    assert ev.cross_fit(
        Log(arm=[0, 1] * 5, reward=[1, 0] * 5), LinearRegression(), n_arms=3
    ).shape == (10, 3)


TREES = HistGradientBoostingRegressor(max_iter=4, learning_rate=0.5, min_samples_leaf=4)


@pytest.mark.parametrize("model", [LinearRegression(), LogisticRegression(), TREES])
def test_reward_models_take_missing_numbers(model: Any) -> None:
    """The reward is 1 where the age is missing: the model can see it, whether it takes
    NaN by itself or not."""
    age = np.arange(120.0) % 50
    age[::3] = np.nan
    reward = np.isnan(age).astype(float)
    frames: list[Any] = [
        age[:, None],
        [{"age": None if one != one else one, "city": "Oslo"} for one in age.tolist()],
    ]
    for context in frames:
        for per_arm in (False, True):
            found = ev.cross_fit(
                Log(arm=[0, 1] * 60, reward=reward, context=context),
                model,
                per_arm=per_arm,
            )
            assert found[::3].min() > 0.7
            assert found[1::3].max() < 0.3
    nothing = Log(arm=[0, 1] * 60, reward=reward, context=np.full((120, 2), np.nan))
    assert np.isfinite(ev.cross_fit(nothing, model)).all()
    assert fill_missing(np.array([[1.0, np.nan], [3.0, 4.0]])).tolist() == [
        [1, 4, 1],
        [3, 4, 0],
    ]
    whole = np.ones((3, 2))
    assert fill_missing(whole) is whole


class Stubborn(LinearRegression):  # type: ignore[misc]
    """A model that refuses to be fitted, over two lines."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        raise ValueError("no rows like these,\nplease")


NOT_A_LOG: Any = [1]
WITHOUT = Log(arm=[0, 1], reward=[1, 0])
WRONG: dict[str, tuple[Any, str]] = {
    "no propensities": (
        lambda: ev.ips(WITHOUT, [0.5, 0.5]),
        r"use dm \(a reward model\), or log propensities",
    ),
    "no rewards": (
        lambda: ev.ips(LOG[3:], TARGET[3:]),
        "log must have rewards; got none in 1 rows",
    ),
    "not a log": (lambda: ev.ips(NOT_A_LOG, TARGET), "log must be a Log; got list"),
    "odds": (
        lambda: ev.ips(LOG, [0.5, 0.6]),
        "target, row 0: must be odds that sum to 1",
    ),
    "arms": (lambda: ev.ips(LOG, [0.5, 0.25, 0.25]), "odds of the log's 2 arms; got 3"),
    "rows": (lambda: ev.ips(LOG, TARGET[:2]), r"each of the 4 rows; got \(2, 2\)"),
    "predictions": (
        lambda: ev.dr(LOG, TARGET, MODEL * 3),
        r"predictions must be in \[0, 1\]",
    ),
    "shape": (
        lambda: ev.dm(LOG, TARGET, MODEL[:, :1]),
        r"shape \(4, 2\); got \(4, 1\)",
    ),
    "threshold": (lambda: ev.clipped_ips(LOG, TARGET, -1), "threshold must be in"),
    "no match": (lambda: ev.snips(LOG[:1], [[0.0, 1.0]]), "all weights are 0"),
    "folds": (
        lambda: ev.cross_fit(LOG, LinearRegression(), folds=1),
        "folds must be a whole number of at least 2; got 1",
    ),
    "few rows": (
        lambda: ev.cross_fit(LOG, LinearRegression(), folds=2),
        "needs at least 4 rows with rewards, .* got 3",
    ),
    "model": (
        lambda: ev.cross_fit(Log(arm=[0, 1] * 9, reward=[1, 0] * 9), Stubborn()),
        (
            "the reward model must fit .* rows of the log; ValueError: no rows like "
            "these, please"
        ),
    ),
    "classes": (
        lambda: ev.cross_fit(
            Log(arm=[0] * 10, reward=[0.5] * 10), LogisticRegression()
        ),
        "a classifier needs rewards that are 0 or 1",
    ),
    "an arm": (lambda: ev.arm_target(LOG, 2), "whole number from 0 to 1; got 2"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_gets_one_sentence(name: str) -> None:
    call, message = WRONG[name]
    with pytest.raises(od.InvalidInput, match=message):
        call()


def test_dm_needs_no_propensities() -> None:
    assert ev.dm(
        WITHOUT, [0.5, 0.5], [[0.2, 0.4], [0.6, 0.8]]
    ).values.mean() == pytest.approx(0.5)
    assert ev.uniform_target(WITHOUT).tolist() == [[0.5, 0.5], [0.5, 0.5]]
