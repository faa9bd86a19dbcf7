"""epsilon_greedy and uniform: against follow-the-leader written out by hand."""

import numpy as np
import pytest

import oddsmith as od
from oddsmith.lab import simulate
from oddsmith.lab.worlds import TableWorld

TABLE = np.clip(np.random.default_rng(3).beta(2, 2, (5, 6, 3)), 0.05, 0.95)


def test_epsilon_greedy_follows_the_least_loss() -> None:
    policy = od.epsilon_greedy(od.TableExperts(TABLE), epsilon=0.2)
    run = simulate(policy, TableWorld(TABLE[:, 0]), steps=60, runs=4, trace=("odds",))
    losses = np.zeros((4, 6))
    for t in range(60):
        x, arm = run.contexts[t], run.arms[t]
        if t > 0:
            leader = losses.argmin(axis=1)
            vote = TABLE[x, leader].argmax(axis=1)
            expected = np.full((4, 3), 0.2 / 3)
            expected[np.arange(4), vote] += 0.8
            np.testing.assert_allclose(run.traces["odds"][t], expected, atol=1e-9)
        said = TABLE[x, :, arm]
        losses += od.log_loss(said, run.rewards[t][:, None])


def test_before_any_reward_everybody_votes() -> None:
    policy = od.epsilon_greedy(od.TableExperts(TABLE), od.square_loss, epsilon=0.0)
    votes = np.bincount(TABLE[2].argmax(axis=1), minlength=3) / 6
    np.testing.assert_allclose(policy.odds(policy.init(), 2).propensities, votes)


def test_uniform_is_uniform_and_still_learns() -> None:
    policy = od.uniform(od.TableExperts(TABLE))
    run = simulate(policy, TableWorld(TABLE[:, 0]), steps=400, runs=3, trace=("odds",))
    np.testing.assert_allclose(run.traces["odds"], 1 / 3)
    assert (policy.posterior(run.state)[:, 0] > 0.5).all()


def test_epsilon_is_a_probability() -> None:
    with pytest.raises(od.InvalidInput, match=r"epsilon must be in \[0, 1\]"):
        od.epsilon_greedy(od.TableExperts(TABLE), epsilon=1.5)
