"""Calibration: wealth by hand, the martingale by enumeration, false alarms and power by
simulation."""

import json
from itertools import product
from math import log, prod
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.evaluation.calibration import CalibrationState

STAKES = (-0.9, -0.3, -0.1, -0.03, 0.03, 0.1, 0.3, 0.9)


def said(advice: Any) -> od.Decision:
    """A decision with this advice (…, N) on the drawn arm."""
    values = np.asarray(advice, dtype=np.float64)
    return od.Decision(
        1,
        None,
        None,
        np.zeros(values.shape[:-1], np.int64),
        np.ones((*values.shape[:-1], 1)),
        values,
    )


def e_values(state: CalibrationState) -> Any:
    return np.exp(state.log_wealth).mean(axis=(-2, -1))


def logit(p: Any) -> Any:
    return np.log(p / (1 - p))


def simulated(
    predictions: Any, means: Any, seed: int
) -> od.evaluation.CalibrationReport:
    """The report on one expert whose predictions (T,) meet rewards of these means
    (T,)."""
    rewards = np.random.default_rng(seed).random(len(means)) < means
    log = od.Log(
        arm=np.zeros(len(means), np.int64),
        reward=rewards.astype(np.float64),
        advice=predictions[:, None],
    )
    return od.evaluation.check_calibration(log, ["only"])


def test_wealth_by_hand() -> None:
    """Three steps of the log loss, whose own direction is ln((1 - f) / f) over its
    largest size so far."""
    predictions, rewards = (0.6, 0.2, 0.9), (1.0, 0.25, 0.0)
    own, sizes = [], []
    for f in predictions:
        sizes.append(abs(log((1 - f) / f)))
        own.append(log((1 - f) / f) / max(sizes))
    directions = [(1.0,) * 3, tuple(2 * f - 1 for f in predictions), tuple(own)]
    bets = [
        prod(
            1 + stake * d * (r - f)
            for d, r, f in zip(direction, rewards, predictions, strict=True)
        )
        for direction in directions
        for stake in STAKES
    ]
    monitor = od.evaluation.CalibrationMonitor(["only"])
    state, peak = monitor.init(), 1.0
    for f, r in zip(predictions, rewards, strict=True):
        state = monitor.update(state, said([f]), r)
        peak = max(peak, float(e_values(state)[0]))
    report = monitor.report(state)
    assert isinstance(report, od.evaluation.CalibrationReport)
    np.testing.assert_allclose(report.e_values, [sum(bets) / 24], rtol=1e-13)
    np.testing.assert_allclose(report.number, 1 / peak, rtol=1e-13)
    losses = [
        -r * log(f) - (1 - r) * log(1 - f)
        for f, r in zip(predictions, rewards, strict=True)
    ]
    np.testing.assert_allclose(report.losses, [sum(losses) / 3])


@pytest.mark.parametrize("loss", [od.log_loss, od.square_loss])
def test_wealth_is_a_martingale_on_every_path(loss: Any) -> None:
    """Over all 64 paths of six rewards, with predictions that depend on the path, the
    mean wealth is exactly 1."""
    paths = np.array(list(product((0.0, 1.0), repeat=6)))
    monitor = od.evaluation.CalibrationMonitor(["awake", "at times"], loss)
    state, chance = monitor.init((64,)), np.ones(64)
    for t in range(6):
        past = paths[:, :t].sum(axis=1)
        f = (0.1 + 0.3 * past + 0.17 * t) % 0.9 + 0.05
        state = monitor.update(
            state,
            said(np.stack([f, np.where(past > 1, np.nan, f)], axis=1)),
            paths[:, t],
        )
        chance = chance * np.where(paths[:, t] == 1, f, 1 - f)
        # so many paths begin alike
        mean = (chance[:, None] * e_values(state)).sum(axis=0) / 2 ** (5 - t)
        np.testing.assert_allclose(mean, 1, rtol=0, atol=1e-12)
    assert chance.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("loss", [od.log_loss, od.square_loss])
def test_false_alarms_are_at_most_alpha_with_a_look_at_every_step(loss: Any) -> None:
    rng, runs, steps = np.random.default_rng(11), 1000, 500
    f = rng.beta(1, 1, (steps, runs, 1))
    rewards = (rng.random((steps, runs)) < f[..., 0]).astype(np.float64)
    for alpha in (0.05, 0.2):
        monitor = od.evaluation.CalibrationMonitor(["calibrated"], loss, alpha)
        state = monitor.fold(monitor.init((runs,)), said(f), rewards)
        alarms = (state.log_peak >= -log(alpha)).mean()
        assert alarms <= alpha + 3 * np.sqrt(alpha * (1 - alpha) / runs)
        assert alarms > 0  # the test has teeth


def test_power_against_bias_and_wrong_confidence() -> None:
    rng = np.random.default_rng(2)
    means = rng.uniform(0.1, 0.9, 1500)
    wrong = {
        "rosy": np.clip(means + 0.1, 0, 1),
        "gloomy": means - 0.1,
        "over-confident": 1 / (1 + np.exp(-2.5 * logit(means))),
        "under-confident": 1 / (1 + np.exp(-0.4 * logit(means))),
    }
    for name, predictions in wrong.items():
        report = simulated(predictions, means, seed=4)
        assert report.refuted[0], name
        assert report.number <= 0.05, name
        assert not report.consistent
    honest = simulated(means, means, seed=4)
    assert honest.consistent
    assert honest.number > 0.05


def test_folding_is_updating_one_by_one() -> None:
    rng = np.random.default_rng(1)
    monitor = od.evaluation.CalibrationMonitor(["a", "b", "c"])
    advice, rewards = rng.uniform(0, 1, (300, 3)), rng.random(300)
    advice[rng.random((300, 3)) < 0.2] = np.nan
    advice[::50, 0] = 0.0
    state = monitor.init()
    for row, reward in zip(advice, rewards, strict=True):
        state = monitor.update(state, said(row), float(reward))
    folded = monitor.fold(monitor.init(), said(advice), rewards)
    for name in CalibrationState._fields:
        np.testing.assert_allclose(
            getattr(folded, name), getattr(state, name), rtol=1e-11, atol=1e-11
        )
    assert monitor.fold(state, said(np.ones((0, 3))), []) is state


def test_a_sleeper_keeps_its_wealth() -> None:
    monitor = od.evaluation.CalibrationMonitor(["sleeper", "other"])
    state = monitor.update(monitor.init(), said([0.2, 0.4]), 1.0)
    after = monitor.update(state, said([np.nan, 0.4]), 1.0)
    for name in ("log_wealth", "log_peak", "scale", "losses", "scored"):
        before, now = getattr(state, name), getattr(after, name)
        np.testing.assert_array_equal(now[0], before[0])
        assert name == "scale" or not np.array_equal(now[1], before[1])
    never = monitor.report(monitor.update(monitor.init(), said([np.nan, 0.4]), 1.0))
    assert np.isnan(never.losses[0])
    assert never.best == "other"


def test_a_million_steps_do_not_overflow() -> None:
    steps = 1_000_000
    log = od.Log(
        arm=np.zeros(steps, np.int64),
        reward=np.ones(steps),
        advice=np.full((steps, 1), 0.01),
    )
    report = od.evaluation.check_calibration(log)
    assert np.isfinite(report.e_values).all()
    assert report.e_values[0] > 1e308
    assert report.number == 0
    assert "refuted (p < 0.000001)" in report.sentence


def test_sure_predictions_are_bet_against_too() -> None:
    """A prediction of 0 has an infinite log loss on a reward of 1; the wealth stays a
    number and grows."""
    monitor = od.evaluation.CalibrationMonitor(["never", "always"])
    state = monitor.init()
    for _ in range(20):
        state = monitor.update(state, said([0.0, 1.0]), 1.0)
    report = monitor.report(state)
    np.testing.assert_array_equal(report.refuted, [True, False])
    np.testing.assert_array_equal(report.losses, [np.inf, 0.0])
    assert report.e_values[1] == 1


def test_the_report_says_it_in_a_sentence() -> None:
    rng = np.random.default_rng(6)
    means = rng.uniform(0.2, 0.8, 800)
    advice = np.stack([means, np.clip(means + 0.15, 0, 1), np.full(800, 0.9)], axis=1)
    rewards = (rng.random(800) < means).astype(np.float64)
    rewards[::10] = np.nan  # these have not come
    log = od.Log(arm=np.zeros(800, np.int64), reward=rewards, advice=advice)
    report = od.evaluation.check_calibration(log, ["true", "rosy", "mad"])
    page = {
        "best": report.best,
        "consistent": report.consistent,
        "number": report.number,
        "said": report.sentence,
    }
    assert json.loads(json.dumps(page, allow_nan=False)) == page
    assert report.best == "true"
    assert report.consistent
    assert report.refuted.tolist() == [False, True, True]
    assert report.sentence.startswith(
        "1 of 3 experts withstands the test at level 0.05 after 720 rewards; the best, "
    )
    assert od.evaluation.check_calibration(log).names == (
        "expert 0",
        "expert 1",
        "expert 2",
    )
    wrong = od.evaluation.check_calibration(
        od.Log(arm=log.arm, reward=rewards, advice=advice[:, 1:]), ["rosy", "mad"]
    )
    assert not wrong.consistent
    assert wrong.sentence.startswith("0 of 2 experts withstand")
    empty = od.evaluation.CalibrationMonitor(["a"]).report(
        od.evaluation.CalibrationMonitor(["a"]).init()
    )
    assert (empty.best, empty.consistent, empty.number) == (None, True, 1.0)


def test_it_reads_an_agents_decisions() -> None:
    agent = od.Agent(
        od.GeneralizedThompsonSampling(od.GivenExperts(["a", "b"]), gamma=0.1),
        seed=1,
        arms=["x", "y"],
    )
    monitor, rng = (
        od.evaluation.CalibrationMonitor(["a", "b"]),
        np.random.default_rng(0),
    )
    state, decisions, rewards = monitor.init(), [], []
    for _ in range(50):
        decisions.append(agent.decide(rng.uniform(0.1, 0.9, (2, 2))))
        rewards.append(float(rng.random() < 0.5))
        state = monitor.update(state, decisions[-1], rewards[-1])
    whole = od.evaluation.check_calibration(od.Log.of(decisions, rewards), ["a", "b"])
    np.testing.assert_allclose(
        whole.e_values, monitor.report(state).e_values, rtol=1e-12
    )


def test_wrong_input_is_refused_in_a_sentence() -> None:
    monitor: Any = od.evaluation.CalibrationMonitor(["a", "b"])
    state, fine = monitor.init(), said([0.2, 0.4])
    zero, one = np.zeros(1, np.int64), np.ones(1)
    log = od.Log(arm=zero, reward=one, advice=np.array([[0.2, 0.4]]))
    wrong: dict[str, Any] = {
        "names must be distinct": lambda: od.evaluation.CalibrationMonitor(["a", "a"]),
        "loss must be a function": lambda: od.evaluation.CalibrationMonitor(
            ["a"],
            loss=3,  # type: ignore[arg-type]
        ),
        r"alpha must be in \(0, 1\); got 0": lambda: od.evaluation.CalibrationMonitor(
            ["a"], alpha=0
        ),
        "decision must be the result of decide; got int": lambda: monitor.update(
            state, 3, 1.0
        ),
        r"reward must be in \[0, 1\]": lambda: monitor.update(state, fine, 1.5),
        r"of the 2 experts, shape \(2,\); got None": lambda: monitor.update(
            state, fine._replace(advice=None), 1.0
        ),
        r"shape \(2,\); got \(3,\)": lambda: monitor.update(
            state, said([0.1, 0.2, 0.3]), 1.0
        ),
        r"advice must be in \[0, 1\] .*; got 1.2 of expert 'b'": lambda: monitor.update(
            state, said([0.1, 1.2]), 1.0
        ),
        "no batch axes": lambda: monitor.report(monitor.init((3,))),
        ("log must be a Log; got list"): lambda: od.evaluation.check_calibration([]),  # type: ignore[arg-type]
        "column advice: must be given": lambda: od.evaluation.check_calibration(
            od.Log(arm=zero, reward=one)
        ),
        "names must be 2 names; got 1": lambda: od.evaluation.check_calibration(
            log, ["a"]
        ),
        "loss must be elementwise": lambda: od.evaluation.check_calibration(
            log, loss=lambda f, r: np.zeros(3)
        ),
        "loss must be above -inf; got nan for 0.2 of expert 'expert 0'": lambda: (
            od.evaluation.check_calibration(log, loss=lambda f, r: f * np.nan)
        ),
    }
    for message, attempt in wrong.items():
        with pytest.raises(od.InvalidInput, match=message):
            attempt()
