"""CalibratedMixture and auto(models=…): against a loop in plain Python, enumeration,
batch logistic regression, and what a mixture of policies must do."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import oddsmith as od
from oddsmith.core.draw import draw
from oddsmith.policies.calibrated_mixture import CalibratedMixture

NAMES = ("a", "b", "c")
BANK = od.GivenExperts(NAMES)


def logistic(z: float) -> float:
    return 1 / (1 + math.exp(-z))


def logit(f: float) -> float:
    inside = min(max(f, 1e-6), 1 - 1e-6)
    return math.log(inside / (1 - inside))


class Reference:
    """The formulas of the docstrings, one number at a time; rewards of 0 and 1."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.a = [0.0] * n
        self.b = [0.3] * n
        self.h = [[0.05, 0.0, 1.0] for _ in range(n)]
        self.evidence = [0.0] * n
        self.losses = [0.0] * (n + 1)
        self.values = [0.0] * (n + 1)
        self.spread = 1.0

    def weights(self) -> list[float]:
        prior = [0.2 / self.n] * self.n + [0.8]
        rate = 0.5 * math.sqrt(math.log(self.n + 1) / self.spread)
        found = [
            p * math.exp(rate * v - 0.5 * loss)
            for p, v, loss in zip(prior, self.values, self.losses, strict=True)
        ]
        return [w / sum(found) for w in found]

    def calibrated(self, i: int, f: float, mean: float) -> float:
        z = logit(f)
        trust = logistic(self.evidence[i])
        adjusted = logistic(self.a[i] + self.b[i] * (z - mean))
        return trust * logistic(z) + (1 - trust) * adjusted

    def advise(self, f: Any) -> tuple[list[float], list[list[float]], list[float]]:
        """The average's predictions, the ballots of all members, the mean logits."""
        n_arms = f.shape[1]
        means = [sum(logit(x) for x in row) / n_arms for row in f]
        parts = [math.exp(-loss / 4) for loss in self.losses[:-1]]
        q = [
            sum(
                part * self.calibrated(i, f[i, k], means[i])
                for i, part in enumerate(parts)
            )
            / sum(parts)
            for k in range(n_arms)
        ]
        ballots = []
        for row in [*f.tolist(), q]:
            best = [float(x == max(row)) for x in row]
            ballots.append([x / sum(best) for x in best])
        return q, ballots, means

    def odds(self, f: Any, gamma: float) -> list[float]:
        _, ballots, _ = self.advise(f)
        w = self.weights()
        n_arms = f.shape[1]
        return [
            (1 - gamma) * sum(w[i] * ballots[i][k] for i in range(self.n + 1))
            + gamma / n_arms
            for k in range(n_arms)
        ]

    def update(self, f: Any, arm: int, p: float, r: float) -> None:
        q, ballots, means = self.advise(f)
        w = self.weights()
        values = [
            sum(x * y for x, y in zip(ballot, q, strict=True))
            + ballot[arm] * min(1 / p, 20) * (r - q[arm])
            for ballot in ballots
        ]
        mean = sum(x * y for x, y in zip(w, values, strict=True))
        self.spread += sum(x * (v - mean) ** 2 for x, v in zip(w, values, strict=True))
        predicted = [self.calibrated(i, f[i, arm], means[i]) for i in range(self.n)]
        for i, c in enumerate([*predicted, q[arm]]):
            self.losses[i] -= r * math.log(c) + (1 - r) * math.log(1 - c)
            self.values[i] += values[i] - mean
        least = min(self.losses)
        self.losses = [min(x - least, 24.0) for x in self.losses]
        most = max(self.values)
        worst = -12 / (0.5 * math.sqrt(math.log(self.n + 1) / self.spread))
        self.values = [max(x - most, worst) for x in self.values]
        for i in range(self.n):
            self.calibrate(i, logit(f[i, arm]), means[i], r)

    def calibrate(self, i: int, z: float, mean: float, r: float) -> None:
        d = z - mean
        u = self.a[i] + self.b[i] * d
        c = logistic(u)
        gain = r * (z - u) - math.log((1 + math.exp(z)) / (1 + math.exp(u)))
        self.evidence[i] = min(max(self.evidence[i] + gain, -20.0), 20.0)
        old = self.h[i]
        row = (1.0, d, d * d)
        prior = (0.05, 0.0, 1.0)
        self.h[i] = [
            (1 - 1e-4) * x + 1e-4 * x0 + c * (1 - c) * y
            for x, x0, y in zip(old, prior, row, strict=True)
        ]
        (aa, ab, bb) = self.h[i]
        step = (r - c) / (aa * bb - ab * ab)
        self.a[i] += step * (bb - ab * d)
        self.b[i] = max(self.b[i] + step * (aa * d - ab), 0.02)


def test_weights_and_odds_are_those_of_the_formulas() -> None:
    rng = np.random.default_rng(0)
    policy = CalibratedMixture(BANK, gamma=0.05)
    reference = Reference(3)
    state = policy.init()
    for step in range(1, 400):
        f = rng.uniform(0.02, 0.98, (3, 4))
        odds = policy.odds(state, f)
        np.testing.assert_allclose(
            odds.propensities, reference.odds(f, 0.05), rtol=1e-8
        )
        decision = draw(odds, f, rng.random(), step=step)
        arm = int(decision.arm)
        reward = float(rng.random() < f[1, arm] ** 3)
        reference.update(f, arm, float(decision.propensity), reward)
        state = policy.update(state, decision, reward)
    np.testing.assert_allclose(policy.members(state), reference.weights(), rtol=1e-6)
    np.testing.assert_allclose(state.calibration.slope, reference.b, rtol=1e-6)


def test_the_calibration_is_near_that_of_a_batch_logistic_regression() -> None:
    """Predictions with logits 3 z - 2 of rewards with logits z: a slope near 1/3."""
    rng = np.random.default_rng(1)
    policy = CalibratedMixture(od.GivenExperts(["steep"]), gamma=1.0)
    state = policy.init()
    rows = []
    for step in range(1, 6_000):
        z = rng.normal(size=4)
        f = 1 / (1 + np.exp(-(3 * z - 2)))[None]
        decision = od.decide(policy, state, f, rng.random(), step=step)
        arm = int(decision.arm)
        reward = float(rng.random() < logistic(z[arm] - 1))
        logits = np.log(f / (1 - f))[0]
        rows.append((logits[arm] - logits.mean(), reward))
        state = policy.update(state, decision, reward)
    d, r = np.array(rows).T

    def loss(parameters: Any) -> float:
        u = parameters[0] + parameters[1] * d
        return float(np.sum(np.logaddexp(0, u) - r * u))

    batch = minimize(loss, np.zeros(2)).x
    # the online steps forget a little and begin at the prior: two standard errors
    assert abs(float(state.calibration.slope[0]) - batch[1]) < 0.03
    assert abs(float(state.calibration.intercept[0]) - batch[0]) < 0.08


def test_estimated_values_are_unbiased_by_enumeration() -> None:
    """Σ_a p(a) v_i(a) is the reward of the arms that member i votes for."""
    rng = np.random.default_rng(2)
    policy = CalibratedMixture(BANK, gamma=0.3)
    state = policy.init()._replace(unit=np.array(1.0))
    for _ in range(30):
        f = rng.uniform(0.1, 0.9, (3, 4))
        rewards = rng.random(4)
        odds = policy.odds(state, f)
        share = policy.members(state)
        totals = np.zeros(4)
        ends = np.cumsum(odds.propensities)
        for arm, p in enumerate(odds.propensities):
            decision = draw(odds, f, ends[arm] - p / 2, step=1)
            assert decision.arm == arm
            after = policy.update(state, decision, float(rewards[arm]))
            totals += p * (after.totals - state.totals)
        _, ballots = policy.advice(state, f)
        earned = ballots @ rewards
        np.testing.assert_allclose(totals, earned - share @ earned, atol=1e-12)
        decision = od.decide(policy, state, f, rng.random(), step=1)
        state = policy.update(state, decision, 1.0)


@pytest.mark.parametrize("unit", [2.0**-30, 2.0**-7])
def test_a_unit_of_rewards_changes_no_bit(unit: float) -> None:
    odds = []
    for factor in (1.0, unit):
        rng = np.random.default_rng(3)
        policy = CalibratedMixture(BANK, gamma=0.05)
        state = policy.init()._replace(unit=np.array(factor))
        for step in range(1, 60):
            f = rng.uniform(0.1, 0.9, (3, 4))
            decision = od.decide(policy, state, f * factor, rng.random(), step=step)
            reward = float(rng.random() < f[0, int(decision.arm)])
            state = policy.update(state, decision, reward * factor)
        odds.append(policy.odds(state, f * factor).propensities)
    np.testing.assert_array_equal(odds[0], odds[1])


def test_tiny_rewards_are_learnt_although_their_size_was_not_known() -> None:
    rng = np.random.default_rng(6)
    policy = CalibratedMixture(BANK)
    state = policy.init()
    f = np.array([[2e-6, 1e-6], [1e-6, 2e-6], [1.5e-6, 1.5e-6]])
    for step in range(1, 600):
        decision = od.decide(policy, state, f, rng.random(), step=step)
        rate = (0.2, 0.6)[int(decision.arm)]
        state = policy.update(state, decision, 3e-6 * float(rng.random() < rate))
    # every member differs from the mixture by at most 21 in each of few steps
    assert 1 < state.spread < 1e4
    assert policy.odds(state, f).propensities[1] > 0.9


def test_an_expert_that_chooses_well_leads_whatever_it_predicts() -> None:
    """`chooser` prefers the right arm and predicts 0.98 for it where it is 0.1;
    `predictor` predicts the mean reward and cannot tell arms apart."""
    rng = np.random.default_rng(4)
    bank = od.GivenExperts(["chooser", "predictor"])
    policy = CalibratedMixture(bank)
    state = policy.init()
    n_right = 0
    for step in range(1, 3_000):
        best = int(rng.integers(3))
        f = np.full((2, 3), 0.05)
        f[0] = np.where(np.arange(3) == best, 0.98, 0.6)
        f[1, int(rng.integers(3))] += 0.01
        decision = od.decide(policy, state, f, rng.random(), step=step)
        is_right = int(decision.arm) == best
        n_right += is_right and step > 1_000
        reward = float(rng.random() < (0.10 if is_right else 0.025))
        state = policy.update(state, decision, reward)
    assert n_right > 0.95 * 2_000
    assert policy.members(state)[1] < 0.01
    notes = policy.notes(state)
    assert notes[0].startswith("chooser: calibrated with slope")
    assert "of reward per 1,000 decisions" in notes[1]


def test_an_expert_without_predictions_neither_gains_nor_loses() -> None:
    policy = CalibratedMixture(BANK, gamma=0.1)
    state = policy.init()
    f = np.array([[0.2, 0.6], [0.7, 0.1], [np.nan, np.nan]])
    for step in range(1, 50):
        decision = od.decide(policy, state, f, 0.3 + 0.4 * (step % 2), step=step)
        state = policy.update(state, decision, float(step % 3 == 0))
    assert np.isfinite(policy.posterior(state)).all()
    assert state.calibration.slope[2] == 0.3
    assert state.totals[2] == 0
    # nobody predicts anything
    nothing = policy.odds(state, np.full((3, 2), np.nan))
    np.testing.assert_array_equal(nothing.propensities, [0.5, 0.5])
    decision = draw(nothing, None, 0.1, step=50)
    assert np.isfinite(policy.posterior(policy.update(state, decision, 1.0))).all()


def test_a_revised_reward_counts_as_if_it_had_come_first() -> None:
    """To itself it changes nothing; to another it goes most of the way, with today's
    calibration."""
    rng = np.random.default_rng(9)
    policy = CalibratedMixture(BANK, gamma=0.1)
    state = policy.init()
    for step in range(1, 100):
        f = rng.uniform(0.1, 0.9, (3, 2))
        decision = od.decide(policy, state, f, rng.random(), step=step)
        reward = float(rng.random() < f[0, int(decision.arm)])
        state = policy.update(state, decision, reward)
    f = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.4]])
    decision = od.decide(policy, state, f, 0.2, step=100)
    before = policy.update(state, decision, 0.0)
    same = policy.revise(before, decision, 0.0, 0.0)
    np.testing.assert_allclose(same.losses, before.losses, atol=1e-12)
    np.testing.assert_allclose(same.values, before.values, atol=1e-12)
    np.testing.assert_allclose(same.calibration.slope, before.calibration.slope)
    first = policy.members(policy.update(state, decision, 1.0))
    revised = policy.members(policy.revise(before, decision, 0.0, 1.0))
    away = np.abs(policy.members(before) - first).max()
    assert np.abs(revised - first).max() < 0.1 * away


def test_bounds_hold_for_every_vote_of_the_mixture() -> None:
    rng = np.random.default_rng(5)
    policy = od.Bounded(CalibratedMixture(BANK, gamma=0.1), floors=0.05, caps=0.6)
    state = policy.init()
    for step in range(1, 200):
        f = rng.uniform(0.1, 0.9, (3, 4))
        decision = od.decide(policy, state, f, rng.random(), step=step)
        assert decision.propensities.max() <= 0.6 + 1e-12
        assert decision.propensities.min() >= 0.05 - 1e-12
        state = policy.update(state, decision, float(rng.random() < f[0, decision.arm]))


class Right:
    """A model that knows the rate of a click: 0.3 for the arm of the first number."""

    def predict(self, X: Any) -> Any:
        rates = np.full((len(X), 3), 0.1)
        rates[np.arange(len(X)), np.asarray(X)[:, 0].astype(int)] = 0.3
        return rates


class Broken(Right):
    """A model that fails."""

    def predict(self, X: Any) -> Any:
        raise RuntimeError("no connection")


def play(policy: Any, steps: int, seed: int = 0) -> tuple[Any, float]:
    """An agent after some clicks, and how often it chose the right one of the last
    half."""
    rng = np.random.default_rng(seed)
    agent = od.Agent(policy, seed=seed)
    right = 0
    for step in range(steps):
        x = [float(rng.integers(3)), float(rng.normal())]
        decision = agent.decide(x)
        is_right = decision.arm == "uvw"[int(x[0])]
        right += is_right and step >= steps // 2
        agent.learn(decision, float(rng.random() < (0.3 if is_right else 0.1)))
    return agent, right / (steps - steps // 2)


def test_auto_follows_the_model_that_is_right_and_says_so() -> None:
    models = {"trees": Right(), "constant": constant_model(0.2)}
    policy = od.auto(["u", "v", "w"], models=models)
    agent, share = play(policy, 600)
    assert share > 0.9
    assert set(agent.posterior()) == {
        "trees",
        "constant",
        "auto: linear + curves",
        "auto: trees",
        "auto: blend",
    }
    assert agent.posterior()["trees"] > 0.5
    assert "trees: calibrated" in str(agent.explain([0.0, 0.0]))


def constant_model(rate: float) -> Any:
    class Constant(Right):
        def predict(self, X: Any) -> Any:
            return np.full((len(X), 3), rate)

    return Constant()


def test_a_model_that_fails_under_guard_has_no_prediction() -> None:
    models = od.ModelExperts({"right": Right(), "broken": Broken()}, ["u", "v", "w"])
    policy = od.auto(models=models)
    guarded = policy.with_bank(od.Guarded(policy.experts))
    agent, share = play(guarded, 600)
    assert share > 0.85
    assert "broken" in agent.posterior()


def test_a_file_with_experts_gives_models_to_auto(tmp_path: Path) -> None:
    np.savez(tmp_path / "m.npz", weights=np.zeros((2, 2, 3)))
    (tmp_path / "p.toml").write_text(
        'arms = ["u", "v"]\n[policy]\nkind = "auto"\n'
        '[experts.mine]\nkind = "linear"\nfile = "m.npz"\n'
    )
    policy = od.read_policy(tmp_path / "p.toml").policy
    assert isinstance(policy, CalibratedMixture)
    assert policy.experts.names[:2] == ("mine 0", "mine 1")
    assert policy.gamma == 0.005


def test_models_rate_arms_that_come_with_the_call() -> None:
    class Price:
        def predict(self, X: Any) -> Any:
            return np.asarray(X, dtype=float)[:, -1]

    policy = od.auto(models={"price": Price()})
    agent = od.Agent(policy, seed=1)
    for _ in range(30):
        arms = {"a": [0.2], "b": [0.7], "c": [0.4]}
        decision = agent.decide([1.0], arms=arms)
        agent.learn(decision, float(decision.arm == "b"))
    assert agent.explain([1.0], arms=arms).propensities.argmax() == 1


def test_a_saved_agent_goes_on_to_the_last_bit(tmp_path: Path) -> None:
    bank = od.LinearExperts(
        np.random.default_rng(7).normal(size=(3, 2, 2)), arms=("u", "v")
    )
    policy = od.auto(models=bank)
    agent = od.Agent(policy, seed=3)
    rng = np.random.default_rng(8)
    for _ in range(40):
        agent.learn(agent.decide(rng.normal(size=2)), float(rng.random() < 0.3))
    agent.save(tmp_path / "agent")
    again = od.Agent.load(tmp_path / "agent", policy)
    for _ in range(10):
        x = rng.normal(size=2)
        one = agent.decide(x)
        two = again.decide(x)
        np.testing.assert_array_equal(one.propensities, two.propensities)
        agent.learn(one, 1.0)
        again.learn(two, 1.0)
