"""The contract of every policy, in one list."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od

BANK = od.GivenExperts(("a", "b", "c"))
POLICIES: dict[str, Callable[[], od.Policy]] = {
    "gts, log loss": lambda: od.GeneralizedThompsonSampling(BANK, gamma=0.1),
    "gts, square loss": lambda: od.GeneralizedThompsonSampling(BANK, od.square_loss, eta=1.0, gamma=0.1),
    "feel-good": lambda: od.GeneralizedThompsonSampling(BANK, eta=0.25, gamma=0.01, optimism=0.3),
    "fixed share": lambda: od.GeneralizedThompsonSampling(BANK, gamma=0.1, share=0.05),
    "discount": lambda: od.GeneralizedThompsonSampling(BANK, gamma=0.1, discount=0.9),
    "window": lambda: od.Windowed(od.GeneralizedThompsonSampling(BANK, gamma=0.1), window=10),
    "schedule": lambda: od.GeneralizedThompsonSampling(BANK, gamma=od.PowerSchedule(0.5)),
    "bounded": lambda: od.Bounded(od.thompson_sampling(BANK), floors=0.05),
}
RNG = np.random.default_rng(0)


@pytest.mark.parametrize("name", POLICIES)
class TestContract:
    def test_odds_are_a_deterministic_distribution(self, name: str, any_kernels: str) -> None:
        policy = POLICIES[name]()
        for k in (1, 2, 5):
            context = RNG.uniform(0.1, 0.9, (3, k))
            eligible = np.arange(k) != 1
            first = policy.odds(policy.init(), context, eligible=eligible, step=3)
            again = policy.odds(policy.init(), context, eligible=eligible, step=3)
            np.testing.assert_array_equal(first.propensities, again.propensities)
            assert abs(first.propensities.sum() - 1) < 1e-12
            assert (first.propensities[~eligible] == 0).all()

    def test_update_leaves_the_old_state_alone(self, name: str, any_kernels: str) -> None:
        policy = POLICIES[name]()
        state = policy.init()
        before = state.log_weights.copy()
        after = policy.update(state, od.decide(policy, state, RNG.uniform(0.1, 0.9, (3, 2)), 0.4, step=1), 1.0)
        assert policy.moves is False
        np.testing.assert_array_equal(state.log_weights, before)
        assert not np.array_equal(after.log_weights, before)

    def test_fold_is_update_one_by_one(self, name: str, any_kernels: str) -> None:
        policy = POLICIES[name]()
        state, decisions, rewards = policy.init(), [], RNG.random(25)
        for t, reward in enumerate(rewards):
            decisions.append(od.decide(policy, state, RNG.uniform(0.1, 0.9, (3, 4)), float(RNG.random()), step=t + 1))
            state = policy.update(state, decisions[-1], float(reward))
        folded = od.fold(policy, policy.init(), decisions, rewards)
        np.testing.assert_allclose(folded.log_weights, state.log_weights, atol=1e-12)
        assert folded.learnt == state.learnt == 25

    def test_a_saved_agent_goes_on(self, name: str, tmp_path: Path, any_kernels: str) -> None:
        agent = od.Agent(POLICIES[name](), seed=5)
        contexts: Any = RNG.uniform(0.1, 0.9, (60, 3, 4))
        for context in contexts[:30]:
            agent.learn(agent.decide(context), 1)
        agent.save(tmp_path / "agent.npz")
        again = od.Agent.load(tmp_path / "agent.npz", POLICIES[name]())
        for context in contexts[30:]:
            ours, theirs = agent.decide(context), again.decide(context)
            assert ours.to_json() == theirs.to_json()
            agent.learn(ours, 0)
            again.learn(theirs, 0)

    def test_batch_axes(self, name: str, any_kernels: str) -> None:
        policy = POLICIES[name]()
        contexts = RNG.uniform(0.1, 0.9, (7, 3, 4))
        state = policy.init((7,))
        decision = od.decide(policy, state, contexts, RNG.random(7), step=1)
        after = policy.update(state, decision, RNG.random(7))
        assert decision.propensities.shape == (7, 4)
        assert after.log_weights.shape == (7, 3)
