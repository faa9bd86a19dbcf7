"""Refitted experts against direct fits to the same rows, their own past, other agents,
and models that fail."""

import copy
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import oddsmith as od
from oddsmith.core.decision import Decision
from oddsmith.experts.fit_cache import Refits, settings, unfitted
from oddsmith.experts.refit import RefittedState
from oddsmith.experts.ring import latest, longer, next_refit
from oddsmith.files.state import leaves_of

ARMS = ("a", "b", "c")
LINEAR, TREES = LinearRegression(), ExtraTreesRegressor(4, random_state=5)


class Touchy:
    """A mean of the rewards that raises, or answers strangely, where it is told to."""

    def __init__(self, fits: int = 0, answer: Any = None) -> None:
        self.fits, self.answer = fits, answer

    def fit(self, rows: Any, rewards: Any) -> None:
        if len(rewards) == self.fits:
            raise RuntimeError("no luck")
        self.mean = rewards.mean()
        # what a model does to its arrays is its own affair
        rows[:], rewards[:] = -1, -1

    def predict(self, rows: Any) -> Any:
        return (
            np.full(len(rows), self.mean) if self.answer is None else self.answer(rows)
        )


def world(n: int, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)), rng.integers(0, 3, n), rng.random(n)


def learnt(bank: Any, x: Any, arms: Any, rewards: Any, state: Any = None) -> Any:
    state = bank.init() if state is None else state
    for row, arm, reward in zip(x, arms, rewards, strict=True):
        state = bank.update(
            state, Decision(1, row, None, int(arm), np.full(3, 1 / 3)), float(reward)
        )
    return state


def directly(model: Any, x: Any, arms: Any, rewards: Any, asked: Any) -> Any:
    """What a fresh fit to these rows says of every arm, (len(asked), 3)."""
    model = copy.deepcopy(model).fit(np.hstack([x, np.eye(3)[arms]]), rewards)
    return np.stack(
        [
            model.predict(np.hstack([asked, np.tile(np.eye(3)[k], (len(asked), 1))]))
            for k in range(3)
        ],
        1,
    )


def test_asleep_then_what_a_direct_fit_says_on_the_window() -> None:
    """After every reward: the fit at the last of the counts 6, 9, 13, then every 5, to
    the last 10 rows."""
    x, arms, rewards = world(60)
    bank = od.RefittedExperts(
        ARMS, {"linear": LINEAR, "trees": TREES}, window=10, first=6, clip=(0.0, 1.0)
    )
    counts = [6, 9, *range(13, 61, 5)]
    assert [next_refit(n, 1.4, 10) for n in counts] == [*counts[1:], 63]
    state, asked = bank.init(), world(4, seed=1)[0]
    assert np.isnan(bank.predict(state, asked)).all()
    for t in range(60):
        state = learnt(bank, x[t : t + 1], arms[t : t + 1], rewards[t : t + 1], state)
        said = bank.predict(state, asked)
        assert state.learnt == t + 1
        assert state.fitted == max((n for n in counts if n <= t + 1), default=0)
        assert len(state.rows) <= 15
        if t < 5:
            assert np.isnan(said).all()
            assert said.shape == (4, 2, 3)
            continue
        rows = slice(max(state.fitted - 10, 0), state.fitted)
        for i, model in enumerate((LINEAR, TREES)):
            expected = directly(model, x[rows], arms[rows], rewards[rows], asked)
            np.testing.assert_allclose(
                said[:, i], np.clip(expected, 0, 1), rtol=0, atol=1e-12
            )
            np.testing.assert_array_equal(
                bank.advise(state, asked)[1][:, i].argmax(1), expected.argmax(1)
            )


def test_clipped_predictions_do_not_tie_votes() -> None:
    bank = od.RefittedExperts(ARMS, {"linear": LINEAR}, first=12)
    arms = np.arange(12) % 3
    state = learnt(
        bank,
        np.arange(12)[:, None] // 3,
        arms,
        np.clip(np.arange(12) // 3 * 0.3 + arms * 0.02, 0, 1),
    )
    predictions, ballots = bank.advise(state, [9.0])
    np.testing.assert_array_equal(predictions, [[0.9999, 0.9999, 0.9999]])
    np.testing.assert_array_equal(ballots, [[0, 0, 1]])


def test_missing_numbers() -> None:
    """NaN for models that take it; the mean of the rows fitted to for others; 0 for all
    where there is none.

    Beside the numbers, a column for each says where it is missing.
    """
    x, arms, rewards = world(30)
    x[::4, 0], x[:, 1] = np.nan, np.nan
    boosting = HistGradientBoostingRegressor(
        max_iter=3, min_samples_leaf=2, random_state=0
    )
    bank = od.RefittedExperts(
        ARMS, {"linear": LINEAR, "boosting": boosting}, first=30, clip=(0.0, 1.0)
    )
    state, asked = (
        learnt(bank, x, arms, rewards),
        np.array([[np.nan, 0.3], [0.7, np.nan]]),
    )
    means = np.array([np.nanmean(x[:, 0]), 0.0])
    filled, full = (
        np.hstack([np.where(np.isnan(rows), means, rows), np.isnan(rows)])
        for rows in (x, asked)
    )
    said = bank.predict(state, asked)
    np.testing.assert_allclose(
        said[:, 0],
        np.clip(directly(LINEAR, filled, arms, rewards, full), 0, 1),
        atol=1e-12,
    )
    x, asked = (np.hstack([rows, np.isnan(rows)]) for rows in (x, asked))
    x[:, 1], asked[1, 1] = 0, 0
    np.testing.assert_allclose(
        said[:, 1], directly(boosting, x, arms, rewards, asked), atol=1e-12
    )


def test_every_random_state_gets_the_seed_and_the_given_model_is_left_alone() -> None:
    model = make_pipeline(PolynomialFeatures(2), SGDRegressor())
    bank = od.RefittedExperts(ARMS, {"sgd": model, "trees": TREES}, seed=3, first=20)
    assert bank.models["sgd"].get_params()["sgdregressor__random_state"] == 3
    assert bank.models["trees"].random_state == 5
    assert model.get_params()["sgdregressor__random_state"] is None
    rows = world(20)
    one, two = (
        b.predict(learnt(b, *rows), rows[0]) for b in (bank, copy.deepcopy(bank))
    )
    np.testing.assert_array_equal(one, two)
    assert not hasattr(TREES, "estimators_")
    with pytest.raises(AttributeError):
        _ = model[-1].coef_


def test_a_loaded_agent_says_exactly_what_the_saved_one_said_and_goes_on_alike(
    tmp_path: Any,
) -> None:
    def policy(trees: int = 4) -> Any:
        models = {"line": LinearRegression(), "trees": ExtraTreesRegressor(trees)}
        bank = od.stack(
            od.LearningExperts(ARMS),
            od.RefittedExperts(ARMS, models, window=16, first=5),
        )
        return od.GeneralizedThompsonSampling(bank, gamma=0.1)

    x, _, rewards = world(70)
    agent = od.Agent(policy(), seed=2)
    for t in range(70):
        # asleep, just fitted, before and after the ring has come round
        if t in (3, 5, 9, 37, 48):
            agent.save(tmp_path / "agent.npz")
            again = od.Agent.load(tmp_path / "agent.npz", policy())
            assert isinstance(again.state.experts[1], RefittedState)
            for context in x[:5]:
                one, two = (
                    a.policy.odds(a.state, context).advice for a in (agent, again)
                )
                np.testing.assert_array_equal(one, two)
            agent = again
        agent.learn(agent.decide(x[t]), rewards[t])
    straight = od.Agent(policy(), seed=2)
    for t in range(70):
        straight.learn(straight.decide(x[t]), rewards[t])
    np.testing.assert_array_equal(agent.state.log_weights, straight.state.log_weights)
    np.testing.assert_array_equal(
        agent.state.experts[1].rows, straight.state.experts[1].rows
    )
    with pytest.raises(od.BadFile, match="version was"):
        od.Agent.load(tmp_path / "agent.npz", policy(trees=5))


def test_agents_of_one_policy_do_not_disturb_each_other() -> None:
    """Six agents (more than fits are kept) take turns on one bank; each says what it
    would say alone."""
    bank = od.RefittedExperts(
        ARMS, {"trees": ExtraTreesRegressor(2)}, window=8, first=4
    )
    states = [bank.init() for _ in range(6)]
    worlds = [world(20, seed) for seed in range(6)]
    for t in range(20):
        for i, (x, arms, rewards) in enumerate(worlds):
            states[i] = learnt(
                bank, x[t : t + 1], arms[t : t + 1], rewards[t : t + 1], states[i]
            )
    for state, rows in zip(states, worlds, strict=True):
        alone = copy.deepcopy(bank)
        np.testing.assert_array_equal(
            bank.predict(state, rows[0]), alone.predict(learnt(alone, *rows), rows[0])
        )
        assert len(bank._refits[0]._fits) <= 4


def test_a_fit_is_made_once_and_a_copied_bank_makes_its_own() -> None:
    made = []

    class Counted(Touchy):
        def fit(self, rows: Any, rewards: Any) -> None:
            made.append(len(rewards))
            super().fit(rows, rewards)

    bank = od.RefittedExperts(ARMS, {"counted": Counted(), "other": Touchy()}, first=4)
    state = learnt(bank, *world(7))
    for part in (bank, *bank.split(), od.Guarded(bank)):
        part.predict(state, np.zeros(2))
    assert made == [4, 6]
    np.testing.assert_allclose(
        bank.predict(state, np.zeros(2)), np.full((2, 3), world(7)[2][:6].mean())
    )
    plain = od.RefittedExperts(ARMS, {"linear": LINEAR}, first=4)
    state = learnt(plain, *world(7))
    refits = copy.deepcopy(plain._refits[0])
    assert isinstance(refits, Refits)
    assert not refits._fits
    np.testing.assert_array_equal(
        copy.deepcopy(plain).predict(state, np.ones(2)),
        plain.predict(state, np.ones(2)),
    )


def check_same(one: Any, two: Any) -> None:
    for (name, mine), (_, other) in zip(leaves_of(one), leaves_of(two), strict=True):
        np.testing.assert_array_equal(mine, other, err_msg=name)


FAILURES: dict[str, tuple[Any, str]] = {
    "fit": (Touchy(fits=4), "fit of model 'bad' raised RuntimeError: no luck"),
    "predict": (
        Touchy(answer=lambda rows: 1 / 0),
        "predict of model 'bad' raised ZeroDivisionError",
    ),
    "shape": (
        Touchy(answer=lambda rows: np.zeros((len(rows), 2))),
        r"one number per row, 3 of them; got \(3, 2\)",
    ),
    "nan": (
        Touchy(answer=lambda rows: np.full(len(rows), np.nan)),
        "'bad' must return finite numbers; got nan",
    ),
    "text": (
        Touchy(answer=lambda rows: ["?"] * len(rows)),
        "predict of model 'bad' raised ValueError",
    ),
}


@pytest.mark.parametrize("kind", FAILURES)
def test_models_that_fail_are_named_and_can_be_guarded(kind: str) -> None:
    """The state is the same as if all had gone well; under a guard only the failing
    model sleeps."""
    model, message = FAILURES[kind]
    bank = od.RefittedExperts(ARMS, {"good": Touchy(), "bad": model}, first=4)
    fine = od.RefittedExperts(ARMS, {"good": Touchy(), "bad": Touchy()}, first=4)
    rows = world(5)
    state, expected = learnt(bank, *rows), learnt(fine, *rows)
    check_same(state, expected)
    with pytest.raises(od.errors.ExpertFailed, match=message):
        bank.predict(state, np.zeros(2))
    guarded = od.Guarded(bank)
    said = guarded.predict(state, np.zeros(2))
    np.testing.assert_allclose(said, [[rows[2][:4].mean()] * 3, [np.nan] * 3])
    assert list(guarded.failures()) == ["bad"]
    later = learnt(guarded, *world(4, seed=1), state)
    # the next fit went well
    assert np.isnan(guarded.predict(later, np.zeros(2))[1]).all() == (kind != "fit")


def test_what_is_refused_leaves_the_state_as_it_was() -> None:
    bank = od.RefittedExperts(ARMS, {"linear": LINEAR}, first=4)
    state = learnt(bank, *world(5))
    before = copy.deepcopy(state)
    good = Decision(1, np.zeros(2), None, 1, np.full(3, 1 / 3))
    for decision, reward in (
        (good, 1.5),
        (good, float("nan")),
        (good._replace(arm=3), 0.5),
        (good._replace(arm=np.array([1])), 0.5),
        (good._replace(context=np.zeros(0)), 0.5),
        (good._replace(context={"age": [3]}), 0.5),
        (good._replace(context=np.zeros((2, 2))), 0.5),
    ):
        with pytest.raises(od.InvalidInput):
            bank.update(state, decision, reward)
    check_same(state, before)
    with pytest.raises(od.InvalidInput, match="without batch axes"):
        bank.init((5,))


def test_wrong_settings() -> None:
    for models, message in (
        (
            {"m": LogisticRegression()},
            "must be a regressor with fit and predict; got LogisticRegression",
        ),
        ({"m": LinearRegression}, "got the class LinearRegression"),
        ({"m": object()}, "must be a regressor"),
        ([LINEAR], "must be a dict"),
        ({}, "at least 1"),
    ):
        with pytest.raises(od.InvalidInput, match=message):
            od.RefittedExperts(ARMS, models)  # type: ignore[arg-type]
    wrong: Any = (
        {"window": 1},
        {"first": 0},
        {"window": 8, "first": 9},
        {"pace": 0.9},
        {"seed": -1},
        {"clip": (1, 0)},
    )
    for setting in wrong:
        with pytest.raises(od.InvalidInput):
            od.RefittedExperts(ARMS, {"linear": LINEAR}, **setting)


def test_names_for_what_a_saved_agent_remembers() -> None:
    bank = od.RefittedExperts(ARMS, {"trees": TREES})
    assert bank.version is not None
    assert "n_estimators=4" in bank.version
    assert "random_state=5" in bank.version
    assert od.RefittedExperts(ARMS, {"own": Touchy()}).version is None
    assert (
        settings([np.float64(0.5), np.array([1, 2]), Touchy()])
        == "[0.5, [1, 2], Touchy]"
    )
    assert unfitted("m", SGDRegressor(), 8).random_state == 8


def test_rings_and_numbers() -> None:
    np.testing.assert_array_equal(longer(np.ones((2, 1)), 2), [[1], [1], [0], [0]])
    np.testing.assert_array_equal(longer(np.ones(2), -1), [1, 1])
    ring = np.zeros(5)
    for t in range(13):
        ring[t % 5] = t
    np.testing.assert_array_equal(ring[latest(13, 4, 5)], [9, 10, 11, 12])


def test_gts_follows_the_regressor_where_it_predicts_better() -> None:
    """Rewards are an exclusive or of the context's signs and the arm: nothing for
    lines, easy for neighbours."""
    rng = np.random.default_rng(4)
    refitted = od.RefittedExperts(
        ("a", "b"), {"neighbours": KNeighborsRegressor(11)}, window=512
    )
    bank = od.stack(od.LearningExperts(("a", "b")), refitted)
    agent = od.Agent(od.GeneralizedThompsonSampling(bank, gamma=0.1), seed=1)
    right = []
    for _ in range(700):
        x = rng.normal(size=2)
        best = int((x[0] > 0) != (x[1] > 0))
        decision = agent.decide(x)
        agent.learn(
            decision, float(rng.random() < (0.9 if decision.number == best else 0.1))
        )
        right.append(decision.number == best)
    assert agent.posterior()["neighbours"] > 0.99
    assert np.mean(right[-200:]) > 0.8  # at most 0.95 with this gamma; a coin gives 0.5
