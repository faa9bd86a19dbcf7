"""The contract of every bank of experts, in one list."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

import oddsmith as od
from oddsmith.core.decision import Decision
from oddsmith.experts import Experts
from oddsmith.experts.learners import Forest, LearningExperts, Ridge
from oddsmith.experts.learners.features import Curves


class Fixed:
    """A model that gives each arm a share of the first feature."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def predict(self, rows: Any) -> Any:
        first = np.abs(np.asarray(rows, dtype=float)[:, :1])
        return np.clip(self.scale * first * np.array([[0.2, 0.5, 0.3]]), 0, 1)


class Averages(Experts):
    """A small learner: the mean reward of each arm so far, written in place."""

    names = ("average",)
    learns = True

    def init(self, shape: tuple[int, ...] = ()) -> Any:
        return (np.full((*shape, 3), 0.5), np.ones((*shape, 3)))

    def predict(self, state: Any, context: Any) -> Any:
        lead = np.asarray(context).shape[:-1]
        return np.broadcast_to(state[0][..., None, :], (*lead, 1, 3)).copy()

    def update(self, state: Any, decision: Decision, reward: Any) -> Any:
        means, counts = state
        if not 0 <= reward <= 1:
            raise ValueError("reward out of range")
        counts[decision.arm] += 1
        means[decision.arm] += (reward - means[decision.arm]) / counts[decision.arm]
        return state


def share_of_first(context: Any, arm: str) -> float:
    return float(abs(context[0]) % 1 / (1 + "abc".index(arm)))


def constant(context: Any) -> list[float]:
    return [0.2, 0.4, 0.6]


WEIGHTS = np.random.default_rng(0).normal(size=(5, 3, 4))
SCHEMA = od.Schema(numbers=("w", "x", "y", "z"))
BANKS: dict[str, Callable[[], Experts]] = {
    "functions": lambda: od.FunctionExperts(
        {"share": share_of_first, "constant": constant}, ("a", "b", "c")
    ),
    "models": lambda: od.ModelExperts(
        {"low": Fixed(0.5), "high": Fixed(1.0)},
        ("a", "b", "c"),
        clip=(0.01, 0.99),
        version="1",
    ),
    "linear per arm": lambda: od.LinearExperts(WEIGHTS),
    "probit per arm": lambda: od.LinearExperts(WEIGHTS, link="probit"),
    "clipped": lambda: od.experts.Clipped(od.LinearExperts(3 * WEIGHTS), 0.1, 0.9),
    "encoded": lambda: od.experts.Encoded(od.LinearExperts(WEIGHTS), SCHEMA),
    "encoded learner": lambda: od.experts.Encoded(Averages(), SCHEMA),
    "guarded": lambda: od.Guarded(
        od.FunctionExperts(
            {"share": share_of_first, "constant": constant}, ("a", "b", "c")
        )
    ),
    "guarded with a timeout": lambda: od.Guarded(
        od.ModelExperts(
            {"low": Fixed(0.5)}, ("a", "b", "c"), clip=(0.01, 0.99), version="1"
        ),
        timeout_ms=5000,
    ),
    "stack": lambda: od.stack(
        od.LinearExperts(WEIGHTS),
        od.ModelExperts(
            {"low": Fixed(0.5)}, ("a", "b", "c"), clip=(0.01, 0.99), version="1"
        ),
    ),
    "learner": Averages,
    "learners": lambda: LearningExperts(
        ("a", "b", "c"), (Ridge(), Ridge(Curves(8)), Forest(4)), blend=True
    ),
    "refitted": lambda: od.RefittedExperts(
        ("a", "b", "c"), {"tree": DecisionTreeRegressor(max_depth=3)}, first=8
    ),
    "stack with a learner": lambda: od.stack(od.LinearExperts(WEIGHTS), Averages()),
}
CONTEXTS = np.random.default_rng(1).normal(size=(6, 4))


def learnt(bank: Experts) -> Any:
    """A state after a dozen rewards."""
    state = bank.init()
    for t in range(12):
        decision = Decision(
            t + 1,
            CONTEXTS[t % 6],
            None,
            t % 3,
            np.full(3, 1 / 3),
            np.full(len(bank.names), 0.5),
        )
        state = bank.update(state, decision, (t % 4) / 3)
    return state


@pytest.mark.parametrize("name", BANKS)
class TestContract:
    def test_shapes_and_names(self, name: str, any_kernels: str) -> None:
        bank = BANKS[name]()
        assert len(set(bank.names)) == len(bank.names)
        for state in (bank.init(), learnt(bank)):
            assert bank.predict(state, CONTEXTS[0]).shape == (len(bank.names), 3)
        assert bank.arms is None or len(bank.arms) == 3

    def test_a_batch_is_its_rows(self, name: str, any_kernels: str) -> None:
        bank = BANKS[name]()
        for state in (bank.init(), learnt(bank)):
            together, ballots = bank.advise(state, CONTEXTS)
            assert together.shape == (6, len(bank.names), 3)
            for row, context in enumerate(CONTEXTS):
                alone, votes = bank.advise(state, context)
                np.testing.assert_allclose(together[row], alone, atol=1e-14)
                np.testing.assert_allclose(ballots[row], votes, atol=1e-14)

    def test_ballots_are_distributions_over_eligible_arms(
        self, name: str, any_kernels: str
    ) -> None:
        bank = BANKS[name]()
        eligible = np.array([True, False, True])
        for state in (bank.init(), learnt(bank)):
            predictions, ballots = bank.advise(state, CONTEXTS, eligible)
            awake = ~np.isnan(predictions).all(axis=-1)
            np.testing.assert_allclose(ballots.sum(axis=-1), awake)
            assert (ballots[..., 1] == 0).all()
        assert awake.all()

    def test_fused_is_advise_and_mix(self, name: str, any_kernels: str) -> None:
        from oddsmith.core.weights import mix

        bank = BANKS[name]()
        log_weights = -np.random.default_rng(2).random(len(bank.names))
        for state in (bank.init(), learnt(bank)):
            for eligible in (None, np.array([True, False, True])):
                predictions, ballots = bank.advise(state, CONTEXTS[0], eligible)
                fused = bank.advise_and_mix(
                    state, CONTEXTS[0], log_weights, 0.1, eligible
                )
                assert fused is None or any_kernels == "numba"
                if fused is not None:
                    np.testing.assert_allclose(fused[0], predictions, atol=1e-14)
                    np.testing.assert_allclose(
                        fused[1], mix(log_weights, ballots, 0.1, eligible), atol=1e-12
                    )
                    assert fused[2] == np.isnan(predictions).any()

    def test_through_an_agent_and_back(
        self, name: str, any_kernels: str, tmp_path: Any
    ) -> None:
        policy = od.GeneralizedThompsonSampling(BANKS[name](), gamma=0.1)
        agent = od.Agent(policy, seed=3)
        for t in range(20):
            agent.learn(agent.decide(CONTEXTS[t % 6]), float(t % 2))
        agent.save(tmp_path / "agent.npz")
        again = od.Agent.load(
            tmp_path / "agent.npz",
            od.GeneralizedThompsonSampling(BANKS[name](), gamma=0.1),
        )
        for t in range(20):
            one, two = agent.decide(CONTEXTS[t % 6]), again.decide(CONTEXTS[t % 6])
            assert (one.arm, one.propensity, one.step) == (
                two.arm,
                two.propensity,
                two.step,
            )


def test_a_stack_whose_second_learner_raises_has_not_taught_the_first() -> None:
    class Touchy(Averages):
        names = ("touchy",)

        def update(self, state: Any, decision: Decision, reward: Any) -> Any:
            raise RuntimeError("no")

    bank = od.stack(Averages(), Touchy())
    state = bank.init()
    decision = Decision(1, None, None, 2, np.full(3, 1 / 3), np.array([0.5, 0.5]))
    with pytest.raises(RuntimeError):
        bank.update(state, decision, 1.0)
    np.testing.assert_array_equal(state[0][0], [0.5, 0.5, 0.5])


def test_a_learner_learns_inside_gts() -> None:
    policy = od.GeneralizedThompsonSampling(Averages(), gamma=0.3)
    agent = od.Agent(policy, seed=1)
    for _ in range(300):
        decision = agent.decide(CONTEXTS[0])
        agent.learn(decision, float(decision.arm == 2))
    assert agent.best(CONTEXTS[0]) == 2
    with pytest.raises(od.errors.OrderMatters, match="experts that learn"):
        policy.merge(agent.state)
