"""Time limits that follow what experts need, and votes where none is in time."""

import threading
import time
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from experts.guard.test_late import Hanging, wait_for
from oddsmith.experts.guard.pace import LONGEST_MS, ArmMeans, Pace
from oddsmith.experts.guard.policy import guarded
from oddsmith.policies import EXP4

ARMS = ("a", "b", "c")


def late_calls(timeout_ms: Any) -> int:
    """Of 80 calls by eight threads of a model that takes 20 ms and serves one caller at
    a time."""
    turn = threading.Lock()

    def model(context: Any) -> list[float]:
        with turn:
            time.sleep(0.02)
        return [0.1, 0.3, 0.2]

    bank = od.Guarded(od.FunctionExperts({"model": model}, ARMS), timeout_ms=timeout_ms)
    together = threading.Barrier(8)

    def call() -> None:
        together.wait()
        for _ in range(10):
            bank.predict((), {})

    callers = [threading.Thread(target=call) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    return sum(bank.failures().get("model", {}).values())


def test_a_measured_limit_lets_callers_wait_for_each_other() -> None:
    """Eight times 20 ms are more than 50 ms, and far less than three times what such
    calls took."""
    assert late_calls(50) >= 1
    assert late_calls("measured") < 20


@pytest.mark.parametrize(
    ("durations", "limit"),
    [([30.0] * 15, LONGEST_MS), ([1.0] * 16, 50.0), ([9e9] * 16, LONGEST_MS)],
    ids=["few", "quick", "slow"],
)
def test_measured_limits_have_ends(durations: list[float], limit: float) -> None:
    pace = Pace()
    pace.durations_ms.extend(durations)
    assert pace.limit_ms("measured") == limit


def test_rare_slow_calls_do_not_count() -> None:
    pace = Pace()
    pace.durations_ms.extend([100.0] * 61 + [1e6] * 3)
    assert pace.limit_ms("measured") == 300.0


def test_late_experts_vote_by_their_earlier_predictions() -> None:
    """Exact odds; nothing is learnt about experts that were asleep."""
    hanging = Hanging()
    answers = iter([[0.1, 0.9, 0.3], [0.1, 0.1, 0.4]])  # means 0.1, 0.5, 0.35

    def model(context: Any) -> list[float]:
        if context["hang"]:
            return hanging(context)
        return next(answers)

    policy = guarded(
        od.GeneralizedThompsonSampling(
            od.FunctionExperts({"model": model}, ARMS), gamma=0.3
        ),
        30_000,
    )
    agent = od.Agent(policy, seed=1)
    for best in (1, 2):
        agent.learn(agent.decide({"hang": False}), 1.0)
        assert agent.steps == best
    bank: Any = policy.bank
    pace = bank._leaves[0].pace
    object.__setattr__(bank, "timeout_ms", 1.0)
    late = agent.decide({"hang": True})
    assert late.propensities.tolist() == pytest.approx([0.1, 0.8, 0.1])
    assert late.advice is not None
    assert np.isnan(late.advice).all()
    mask = np.array([True, False, True])
    odds = policy.odds(agent.state, {"hang": True}, eligible=mask)
    assert odds.propensities.tolist() == pytest.approx([0.15, 0.0, 0.85])
    before = agent.state.log_weights.copy()
    agent.learn(late, 0.0)
    np.testing.assert_array_equal(agent.state.log_weights, before)
    hanging.release.set()
    wait_for(lambda: pace.stuck == 0)
    # late answers are remembered, too: two of [0.5, 0.1] do not fit three arms
    assert pace.means.predict(ARMS, n_experts=1).tolist() == [
        pytest.approx([0.1, 0.5, 0.35])
    ]


def test_without_earlier_answers_odds_are_uniform() -> None:
    hanging = Hanging()
    bank = od.FunctionExperts({"model": hanging}, ("a", "b"))
    for policy in (
        od.GeneralizedThompsonSampling(bank, gamma=0.1),
        EXP4(bank, eta=0.1, gamma=0.1),
    ):
        odds = guarded(policy, 1.0)
        assert odds.odds(odds.init(), {}).propensities.tolist() == [0.5, 0.5]
    hanging.release.set()


def test_policies_that_learn_from_votes_get_none_of_the_past() -> None:
    hanging = Hanging()

    def model(context: Any) -> list[float]:
        return hanging(context) if context["hang"] else [0.9, 0.1]

    bank = od.FunctionExperts({"model": model}, ("a", "b"))
    policy = guarded(EXP4(bank, eta=0.1, gamma=0.1), 30_000)
    assert policy.odds(policy.init(), {"hang": False}).propensities[0] > 0.9
    object.__setattr__(policy.bank, "timeout_ms", 1.0)
    odds = policy.odds(policy.init(), {"hang": True})
    assert odds.propensities.tolist() == [0.5, 0.5]
    hanging.release.set()


def test_means_of_arms_that_come_with_calls_are_bounded() -> None:
    means = ArmMeans()
    for start in range(0, 12_000, 1_000):
        names = range(start, start + 1_000)
        means.take(names, np.full((2, 1_000), 0.5))
    known = ~np.isnan(means.predict(range(12_000), n_experts=2))
    assert known.sum(axis=1).tolist() == [10_000, 10_000]
    assert not known[:, :2_000].any()
