"""Gymnasium's tabular environments as episodic worlds, through its own API (the extra
`oddsmith[gymnasium]`)."""

from typing import Any, NamedTuple

import numpy as np

from oddsmith.contexts.rewards import RewardScale
from oddsmith.core.arrays import whole
from oddsmith.core.errors import InvalidInput
from oddsmith.lab.episodes.agent import EpisodeAgent
from oddsmith.lab.episodes.model import EpisodicModel

__all__ = ["EpisodeOutcome", "model_of", "play_episode"]


class EpisodeOutcome(NamedTuple):
    """The return of an episode in the environment's units, and its number of steps."""

    total_reward: float
    steps: int


def play_episode(
    agent: EpisodeAgent,
    env: Any,
    *,
    scale: RewardScale | None = None,
    seed: int | None = None,
) -> EpisodeOutcome:
    """Play one episode in an environment with numbered states and actions, using its
    `reset` and `step`.

    If the environment has other units, `scale` maps rewards to [0, 1]. For the agent,
    an environment of S states has one more, the end. An episode that ends before the
    agent's last step continues in this additional state, in which rewards are 0 units.
    A longer episode is cut.
    """
    sizes = _sizes(env)
    policy = agent.policy
    units = scale
    if units is None:
        units = RewardScale(0.0, 1.0)
    end = sizes.states
    wanted = (sizes.states + 1, sizes.actions)
    if (policy.n_states, policy.n_actions) != wanted:
        raise InvalidInput(
            f"policy must have {sizes.states + 1} states (those of the environment "
            f"and the end) and its {sizes.actions} actions; got {policy.n_states} and "
            f"{policy.n_actions}"
        )
    place, _ = env.reset(seed=seed)
    place = int(place)
    total_reward = 0.0
    steps = 0
    agent.begin()
    for _ in range(policy.horizon):
        decision = agent.decide(place)
        if place == end:
            agent.observe(units.reward(0.0))
            continue
        place, reward, terminated, truncated, _ = env.step(int(decision.arm))
        agent.observe(units.reward(float(reward)))
        place = end if terminated or truncated else int(place)
        total_reward += float(reward)
        steps += 1
    return EpisodeOutcome(total_reward, steps)


def model_of(
    env: Any, *, horizon: int, scale: RewardScale | None = None
) -> EpisodicModel:
    """Return the model of an environment with a table of its transitions in
    `env.unwrapped.P`, such as Gymnasium's "toy text" environments.

    P[s][a] is a list of (probability, next state, reward, terminated). A transition
    that ends an episode leads to an additional last state, in which 0 units are earned.
    """
    sizes = _sizes(env)
    table = getattr(getattr(env, "unwrapped", env), "P", None)
    if table is None:
        raise InvalidInput(
            "the environment must have a table P of its transitions; got one "
            "without: play_episode needs no table"
        )
    whole("horizon", horizon)
    units = scale
    if units is None:
        units = RewardScale(0.0, 1.0)
    end = sizes.states
    rewards = np.zeros((sizes.states + 1, sizes.actions))
    states = sizes.states + 1
    moves = np.zeros((states, sizes.actions, states))
    rewards[end] = units.reward(0.0)
    moves[end, :, end] = 1.0
    for state in range(sizes.states):
        for action in range(sizes.actions):
            for probability, following, reward, is_end in table[state][action]:
                mean = units.reward(float(reward))
                rewards[state, action] += probability * mean
                place = end if is_end else int(following)
                moves[state, action, place] += probability
    means = np.clip(rewards, 0, 1)
    transitions = moves / moves.sum(axis=-1, keepdims=True)
    return EpisodicModel.stationary(means, transitions, horizon=horizon)


class _Sizes(NamedTuple):
    """The numbers of states and actions of an environment."""

    states: int
    actions: int


def _sizes(env: Any) -> _Sizes:
    """Return the sizes of an environment with discrete spaces."""
    spaces = [
        getattr(env, name, None) for name in ("observation_space", "action_space")
    ]
    counts = [getattr(space, "n", None) for space in spaces]
    starts = [getattr(space, "start", 0) for space in spaces]
    if None in counts or any(start != 0 for start in starts):
        got = " and ".join(str(space) for space in spaces)
        raise InvalidInput(
            "the environment must have discrete observations and actions, from 0 on; "
            f"got {got}"
        )
    n_states, n_actions = (int(count or 0) for count in counts)
    return _Sizes(n_states, n_actions)
