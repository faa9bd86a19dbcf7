"""Warm starts: cautious votes after a log, beside formulas and worlds with a known
truth."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.experts.functions import FunctionExperts
from oddsmith.experts.learners.features import Curves
from oddsmith.experts.learners.protocol import LearnerInput
from oddsmith.experts.learners.warm_start import (
    Ballot,
    LoggingPolicy,
    WarmStart,
    first_warm_start,
)
from oddsmith.logs.table import Log

ARMS = ["a", "b"]
DEVICES = ("phone", "desktop")
TRUTH = np.array([[0.10, 0.04], [0.04, 0.10]])  # device by arm


def log_of(rows: int, sure: float, *, seed: int, arms: Any = ARMS) -> Log:
    """Clicks of a logging policy that shows the right arm with probability `sure`."""
    rng = np.random.default_rng(seed)
    device = rng.integers(2, size=rows)
    propensities = np.where(np.eye(2)[device] > 0, sure, 1 - sure)
    arm = np.where(rng.random(rows) < sure, device, 1 - device)
    clicks = rng.random(rows) < TRUTH[device, arm]
    return Log(
        arm=arm,
        reward=clicks.astype(float),
        propensities=propensities,
        context=[{"device": DEVICES[place]} for place in device],
        arms=arms,
    )


def value_of(policy: Any, state: Any) -> float:
    """The true mean reward of a state."""
    values = [
        policy.odds(state, {"device": name}).propensities @ TRUTH[place]
        for place, name in enumerate(DEVICES)
    ]
    return float(np.mean(values))


def test_the_logging_policy_is_a_ridge_regression_of_its_propensities() -> None:
    rng = np.random.default_rng(1)
    z = rng.normal(size=(60, 3)) / np.sqrt(3)
    targets = rng.dirichlet(np.ones(4), size=60)
    policy = LoggingPolicy()
    for row, target in zip(z, targets, strict=True):
        policy = policy.learn(LearnerInput(row, row), target)
    phi = Curves(64)(z, 3)
    weights = np.linalg.solve(phi.T @ phi + np.eye(phi.shape[1]), phi.T @ targets)
    np.testing.assert_allclose(policy.weights, weights, atol=1e-9)
    scores = policy.scores(LearnerInput(z, z), 5)
    np.testing.assert_allclose(scores[:, :4], phi @ weights, atol=1e-9)
    assert not scores[:, 4].any()  # an arm that joined


def test_further_columns_count_as_0_so_far() -> None:
    rng = np.random.default_rng(2)
    z = rng.normal(size=(40, 3))
    z[:20, 2] = 0.0
    targets = rng.dirichlet(np.ones(2), size=40)
    policy = LoggingPolicy()
    for place, (row, target) in enumerate(zip(z, targets, strict=True)):
        seen = row[:2] if place < 20 else row
        policy = policy.learn(LearnerInput(seen, seen), target)
    phi = Curves(64)(z, 2)
    weights = np.linalg.solve(phi.T @ phi + np.eye(phi.shape[1]), phi.T @ targets)
    np.testing.assert_allclose(policy.weights, weights, atol=1e-9)


def test_gains_are_doubly_robust_estimates() -> None:
    """Rows of equal odds and small rewards, where nothing is bounded."""
    rng = np.random.default_rng(3)
    warm = first_warm_start()
    gains = np.zeros(2)
    variances = np.zeros(2)
    squares: list[float] = []
    for row in range(1, 41):
        votes = np.eye(3)[rng.integers(3, size=3)]
        means = rng.uniform(0.4, 0.6, size=3)
        p = rng.dirichlet(np.full(3, 20.0))
        drawn, reward = int(rng.integers(3)), float(rng.uniform(0.3, 0.7))
        warm = warm.score(Ballot(votes, means, p), drawn, reward)
        estimate = means.copy()
        estimate[drawn] += (reward - means[drawn]) / p[drawn]
        squares.append((reward - means[drawn]) ** 2)
        apart = votes[:2] - votes[2]
        gains = gains * (1 - 1 / row)
        variances = variances * (1 - 1 / row) ** 2
        variances += (apart**2 / p).sum(axis=1) * np.mean(squares)
        limit = 2 * np.sqrt(variances)
        gains += np.clip(apart @ estimate, -limit, limit)
    np.testing.assert_allclose(warm.gains, gains)
    np.testing.assert_allclose(warm.variances, variances)
    z = gains / np.sqrt(variances)
    shares = np.exp([1.7 * z[0] - 2, 1.7 * z[1] - 2, 0.0])
    np.testing.assert_allclose(warm.shares(), shares / shares.sum())


def test_after_a_good_log_it_is_as_good() -> None:
    """The example of a context-dependent logging policy that is right in 98 %."""
    policy = od.auto(ARMS)
    fit = od.fit_log(policy, log_of(3_000, 0.98, seed=3))
    assert value_of(policy, fit.state) > 0.095
    # the same learners without the log's policy: worse than uniform, 0.070
    plain = fit.state._replace(
        experts=fit.state.experts._replace(warm_start=WarmStart())
    )
    assert value_of(policy, plain) < 0.08


def test_after_a_bad_log_it_leaves_the_logging_policy() -> None:
    policy = od.auto(ARMS)
    log = log_of(3_000, 0.1, seed=2)
    fit = od.fit_log(policy, log)
    logged = float(np.mean(TRUTH @ [[0.1, 0.9], [0.9, 0.1]]) / 2)
    assert value_of(policy, fit.state) > 0.09 > logged
    assert fit.comparison is not None
    assert fit.comparison.verdict == "better"
    assert fit.comparison.ready


@pytest.fixture(scope="module", name="agent")
def agent_after_a_log() -> od.Agent:
    policy = od.auto(ARMS, size="small")
    return od.Agent(policy, seed=3, start=log_of(400, 0.9, seed=3))


def play(agent: od.Agent, n: int) -> list[Any]:
    """Decisions with clicks of their own."""
    rng = np.random.default_rng(4)
    decisions = []
    for _ in range(n):
        decision = agent.decide({"device": DEVICES[int(rng.integers(2))]})
        agent.learn(decision, float(rng.random() < 0.1))
        decisions.append(decision)
    return decisions


def test_a_saved_start_goes_on_to_the_last_bit(agent: od.Agent, tmp_path: Path) -> None:
    agent.save(tmp_path / "a.npz")
    again = od.Agent.load(tmp_path / "a.npz", od.auto(ARMS, size="small"))
    assert again.state.experts.warm_start.has_policy
    assert play(agent, 30) == play(again, 30)


def test_propensities_are_the_frequencies_of_draws(agent: od.Agent) -> None:
    rng = np.random.default_rng(5)
    n = 4_000
    context = {"device": "phone"}
    odds = agent.policy.odds(agent.state, context).propensities
    assert odds.sum() == pytest.approx(1, abs=1e-12)
    arms = [
        od.decide(agent.policy, agent.state, context, float(draw)).number
        for draw in rng.random(n)
    ]
    share = np.bincount(arms, minlength=2) / n
    # six standard deviations: false once in 10^8 runs
    assert np.all(np.abs(share - odds) < 6 * np.sqrt(0.25 / n))


def test_caution_ends() -> None:
    policy = od.auto(ARMS, size="small")
    state = od.fit_log(policy, log_of(30, 0.9, seed=6)).state
    rng = np.random.default_rng(7)
    for _ in range(320):
        context = {"device": DEVICES[int(rng.integers(2))]}
        decision = od.decide(policy, state, context, float(rng.random()))
        state = policy.update(state, decision, float(rng.random() < 0.1))
    assert state.experts.warm_start == WarmStart()


def test_arms_that_join_and_rewards_that_change(agent: od.Agent) -> None:
    policy, state = agent.policy.with_arms(agent.state, [*ARMS, "c"])
    decision = od.decide(policy, state, {"device": "phone"}, 0.3)
    assert decision.propensities[2] > 0
    before = state.experts.warm_start.gains
    state = policy.update(state, decision, 0.0)
    middle = state.experts.warm_start.gains
    state = policy.revise(state, decision, 0.0, 1.0)
    after = state.experts.warm_start.gains
    assert before.shape == middle.shape == after.shape == (2,)


def test_arms_of_the_call() -> None:
    """The logging policy is learnt from the features of the arms."""
    rng = np.random.default_rng(8)
    topics = ("phone", "desktop")
    offered, features, contexts, arms, rewards, propensities = [], [], [], [], [], []
    for _ in range(500):
        device = int(rng.integers(2))
        names = tuple(f"arm {place}" for place in rng.permutation(6)[:2])
        is_swapped = bool(rng.integers(2))
        order = (1, 0) if is_swapped else (0, 1)
        features.append(
            {
                name: {"topic": topics[place]}
                for name, place in zip(names, order, strict=True)
            }
        )
        right = order.index(device)
        odds = np.full(2, 0.03)
        odds[right] = 0.97
        arm = int(rng.random() < odds[1])
        offered.append(names)
        contexts.append({"device": DEVICES[device]})
        arms.append(arm)
        propensities.append(odds)
        rewards.append(float(rng.random() < (0.5 if arm == right else 0.2)))
    log = Log(
        arm=np.array(arms),
        reward=np.array(rewards),
        propensities=np.array(propensities),
        context=contexts,
        offered=offered,
        features=features,
    )
    policy = od.auto(size="small")
    state = od.fit_log(policy, log).state
    new = {"new 1": {"topic": "phone"}, "new 2": {"topic": "desktop"}}
    offer = od.Offer({"device": "desktop"}, tuple(new), new)
    assert policy.odds(state, offer).propensities[1] > 0.9


def test_models_that_choose_badly_do_not_outvote_a_good_log() -> None:
    """Beside models, the learners that vote with the logging policy begin in front."""
    models = od.FunctionExperts(
        {
            "one arm": lambda context: np.array([0.07, 0.06]),
            "also": lambda context: np.array([0.2, 0.1]),
        },
        arms=ARMS,
    )
    policy = od.auto(models=models, size="small")
    fit = od.fit_log(policy, log_of(1_000, 0.98, seed=9))
    logged = float(np.mean(TRUTH @ [[0.98, 0.02], [0.02, 0.98]] * np.eye(2)) * 2)
    assert value_of(policy, fit.state) > 0.97 * logged


def test_a_model_that_is_right_leads_after_a_log_that_shows_it() -> None:
    models = od.FunctionExperts(
        {
            "right": lambda context: TRUTH[DEVICES.index(context["device"])],
            "wrong": lambda context: TRUTH[1 - DEVICES.index(context["device"])],
        },
        arms=ARMS,
    )
    policy = od.auto(models=models, size="small")
    fit = od.fit_log(policy, log_of(2_000, 0.5, seed=10))
    assert value_of(policy, fit.state) > 0.095


def test_only_fixed_experts_are_reported_to_predict_again() -> None:
    log = log_of(40, 0.9, seed=4)
    truth = FunctionExperts(
        {"truth": lambda context: TRUTH[DEVICES.index(context["device"])]}, ARMS
    )
    assert od.fit_log(od.auto(ARMS), log).computed == 0
    fit = od.fit_log(od.auto(ARMS, models=truth), log)
    assert fit.computed == 40
    assert "predicted now" in str(fit)


@pytest.mark.parametrize(
    "models", [None, FunctionExperts({"half": lambda context: [0.5, 0.5]}, ARMS)]
)
def test_explanations_show_the_shares_of_the_three_votes(models: Any) -> None:
    policy = od.auto(ARMS, models=models)
    state = od.fit_log(policy, log_of(200, 0.9, seed=5)).state
    context = {"device": "phone"}
    experts = state.experts if models is None else state.experts[1]
    optimistic, cautious, logging = experts.warm_start.shares()
    note = policy.explain(state, context).notes[-1]
    shares = f"{optimistic:.0%}|{cautious:.0%}|{logging:.0%}".split("|")
    places = [note.index(share) for share in shares]
    assert places == sorted(places)
    assert not policy.explain(policy.init(), context).notes
