"""Guards: failures become sleep, are counted, and cost no more than the budget."""

import threading
from typing import Any

import numpy as np

import oddsmith as od
from oddsmith.experts import Experts

ARMS = ("a", "b")


def fine(context: Any) -> list[float]:
    return [0.2, 0.8]


def broken(context: Any) -> list[float]:
    raise ZeroDivisionError("boom")


def test_only_the_one_that_fails_sleeps() -> None:
    bank = od.Guarded(od.FunctionExperts({"fine": fine, "broken": broken}, ARMS))
    policy = od.GeneralizedThompsonSampling(bank, gamma=0.1)
    agent = od.Agent(policy, seed=1)
    decision = agent.decide({})
    assert decision.advice is not None
    assert np.isnan(decision.advice).tolist() == [False, True]
    agent.learn(decision, 1)
    assert agent.posterior() == {"fine": 0.5, "broken": 0.5}  # a sleeper is charged the mix, so nobody moves
    assert bank.failures() == {"broken": {"raised": 1}}
    assert bank.reasons() == {"broken": "ZeroDivisionError: boom"}


def test_unwrapped_experts_raise() -> None:
    agent = od.Agent(od.GeneralizedThompsonSampling(od.FunctionExperts({"broken": broken}, ARMS), gamma=0.1), seed=1)
    try:
        agent.decide({})
        raise AssertionError("should have raised")
    except ZeroDivisionError:
        assert agent.state.learnt == 0


def test_wrong_shapes_are_counted() -> None:
    class Wide(Experts):
        names = ("wide",)

        def predict(self, state: Any, context: Any) -> Any:
            return np.full((1, 5), 0.5)

    bank = od.Guarded(od.stack(od.FunctionExperts({"fine": fine}, ARMS), Wide()))
    predictions = bank.predict(bank.init(), {})
    assert np.isnan(predictions).tolist() == [[False, False], [True, True]]
    assert bank.failures() == {"wide": {"shape": 1}}


def test_a_late_expert_is_not_waited_for() -> None:
    release = threading.Event()

    def hanging(context: Any) -> list[float]:
        release.wait(20)
        return [0.5, 0.5]

    bank = od.Guarded(od.FunctionExperts({"fine": fine, "hanging": hanging}, ARMS), budget=0.05)
    for _ in range(8):  # had the guard waited, the answer would have come, and it would be no NaN
        predictions = bank.predict(bank.init(), {})
        assert np.isnan(predictions).all(axis=1).tolist() == [False, True]
    assert bank.failures() == {"hanging": {"late": 8}}
    assert threading.active_count() < 8  # after four that hang, no more are started
    release.set()


def test_everybody_failing_is_uniform_and_still_a_decision() -> None:
    bank = od.Guarded(od.FunctionExperts({"broken": broken}, ARMS))
    agent = od.Agent(od.GeneralizedThompsonSampling(bank, gamma=0.1), seed=1)
    np.testing.assert_allclose(agent.decide({}).propensities, 0.5)
    batch = agent.decide_batch([{}, {}, {}])
    assert batch.propensities.shape == (3, 2)
    agent.learn(batch, [1, 0, 1])
    assert agent.state.learnt == 3
