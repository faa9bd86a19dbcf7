"""Gymnasium's tabular environments, by its API: played by an agent, and read as
models."""

from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.lab.episodes import (
    EpisodeAgent,
    GeneralizedPosteriorSampling,
    TabularPosteriorSampling,
)
from oddsmith.lab.episodes.gymnasium import model_of, play_episode

gymnasium = pytest.importorskip(
    "gymnasium", reason="Gymnasium is not installed (requirements/gymnasium.txt)"
)
CLIFF = od.RewardScale(-100.0, 0.0)


def lake(**settings: Any) -> Any:
    return gymnasium.make("FrozenLake-v1", map_name="4x4", **settings)


def test_the_model_of_a_frozen_lake_is_what_its_steps_do() -> None:
    """10,000 random steps: each of the frequencies within 5 standard errors of the
    table (one more state: the end)."""
    env, model = lake(is_slippery=True), model_of(lake(is_slippery=True), horizon=30)
    assert (model.n_states, model.n_actions, model.horizon) == (17, 4, 30)
    rng, counts = np.random.default_rng(1), np.zeros((17, 4, 17))
    place, _ = env.reset(seed=1)
    for _ in range(10_000):
        action = int(rng.integers(4))
        following, _reward, terminated, truncated, _ = env.step(action)
        if not truncated or terminated:
            counts[place, action, 16 if terminated else following] += 1
        place = env.reset()[0] if terminated or truncated else following
    total = counts.sum(axis=-1, keepdims=True)
    seen, p = total[..., 0] >= 30, model.transitions[0]
    errors = 5 * np.sqrt(p * (1 - p) / np.maximum(total, 1)) + 1e-12
    assert seen.sum() >= 20
    assert (np.abs(counts / np.maximum(total, 1) - p) <= errors)[seen].all()


def test_a_cliff_is_walked_along_its_edge() -> None:
    """Thirteen steps of -1 are the best that can be done; the end earns 0 units, not
    the worst there is."""
    model = model_of(gymnasium.make("CliffWalking-v1"), horizon=20, scale=CLIFF)
    earned = (model.plan.values[0, 36] * 100) - 20 * 100
    assert earned == pytest.approx(-13, abs=1e-9)


def test_an_agent_learns_the_lake_that_it_is_on() -> None:
    models = {
        "dry": model_of(lake(is_slippery=False), horizon=20),
        "wet": model_of(lake(is_slippery=True), horizon=20),
    }
    agent, env = (
        EpisodeAgent(GeneralizedPosteriorSampling(models, eta=1.0, gamma=0.05), seed=5),
        lake(is_slippery=False),
    )
    played = [play_episode(agent, env, seed=episode) for episode in range(30)]
    assert agent.posterior()["dry"] > 0.999
    assert np.mean([one.total_reward for one in played[10:]]) > 0.8
    assert max(one.steps for one in played) <= 20
    assert len(agent.log()) == 30


def test_an_agent_without_models_plays_and_is_refused_with_wrong_sizes() -> None:
    agent = EpisodeAgent(TabularPosteriorSampling(17, 4, horizon=15, draws=2), seed=1)
    assert play_episode(agent, lake(is_slippery=False), seed=3).total_reward in (
        0.0,
        1.0,
    )
    with pytest.raises(
        od.InvalidInput, match="16 states and the end, and its 4 actions; got 16 and 4"
    ):
        play_episode(
            EpisodeAgent(TabularPosteriorSampling(16, 4, horizon=5), seed=1), lake()
        )
    with pytest.raises(od.InvalidInput, match="must have discrete observations"):
        model_of(gymnasium.make("CartPole-v1"), horizon=5)
