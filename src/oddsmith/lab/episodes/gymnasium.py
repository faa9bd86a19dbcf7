"""Gymnasium's tabular environments as episodic worlds, through its own API (the extra
`oddsmith[gymnasium]`)."""

from typing import Any, NamedTuple

import numpy as np

from oddsmith.contexts.rewards import RewardScale
from oddsmith.core.arrays import whole
from oddsmith.core.errors import InvalidInput
from oddsmith.lab.episodes.agent import EpisodeAgent
from oddsmith.lab.episodes.model import EpisodicModel

__all__ = ["Played", "model_of", "play_episode"]


class Played(NamedTuple):
    """What an episode came to: its return in the environment's units, and its steps."""

    earned: float
    steps: int


def play_episode(
    agent: EpisodeAgent,
    env: Any,
    *,
    scale: RewardScale | None = None,
    seed: int | None = None,
) -> Played:
    """One episode of the agent in an environment with numbered states and actions, by
    `reset` and `step`.

    Rewards are mapped to [0, 1] by `scale` where the environment has other units. An
    environment of S states has one more for the agent, the end: an episode that ends
    before the agent's last step goes on there, and earns 0 units. One that is longer is
    cut.
    """
    n_states, n_actions = _sizes(env)
    policy, units = agent.policy, RewardScale(0.0, 1.0) if scale is None else scale
    if (policy.n_states, policy.n_actions) != (n_states + 1, n_actions):
        want = (
            f"the environment's {n_states} states and the end, and its {n_actions} "
            "actions"
        )
        raise InvalidInput(
            f"policy must have {want}; got {policy.n_states} and {policy.n_actions}"
        )
    place, _ = env.reset(seed=seed)
    earned, ended, steps = 0.0, False, 0
    agent.begin()
    for _ in range(policy.horizon):
        decision = agent.decide(n_states if ended else int(place))
        if ended:
            agent.observe(units.reward(0.0))
            continue
        place, reward, terminated, truncated, _ = env.step(int(decision.arm))
        agent.observe(units.reward(float(reward)))
        earned, ended, steps = (
            earned + float(reward),
            bool(terminated or truncated),
            steps + 1,
        )
    return Played(earned, steps)


def model_of(
    env: Any, *, horizon: int, scale: RewardScale | None = None
) -> EpisodicModel:
    """The model of an environment that shows its table, as those of Gymnasium's toy
    texts do (`env.unwrapped.P`).

    P[s][a] is a list of (probability, next state, reward, terminated). A move that ends
    an episode leads to one more state, the last, in which 0 units are earned.
    """
    n_states, n_actions = _sizes(env)
    table = getattr(getattr(env, "unwrapped", env), "P", None)
    if table is None:
        raise InvalidInput(
            "the environment must have a table P of its moves; got one without: "
            "play_episode needs none"
        )
    units, steps = (
        RewardScale(0.0, 1.0) if scale is None else scale,
        whole("horizon", horizon),
    )
    rewards, moves = (
        np.zeros((n_states + 1, n_actions)),
        np.zeros((n_states + 1, n_actions, n_states + 1)),
    )
    rewards[n_states], moves[n_states, :, n_states] = units.reward(0.0), 1.0
    for place in range(n_states):
        for action in range(n_actions):
            for chance, following, reward, ended in table[place][action]:
                rewards[place, action] += chance * units.reward(float(reward))
                moves[place, action, n_states if ended else int(following)] += chance
    return EpisodicModel.stationary(
        np.clip(rewards, 0, 1), moves / moves.sum(axis=-1, keepdims=True), horizon=steps
    )


def _sizes(env: Any) -> tuple[int, int]:
    """The numbers of states and actions of an environment whose spaces are discrete."""
    spaces = [
        getattr(env, name, None) for name in ("observation_space", "action_space")
    ]
    sizes = [getattr(space, "n", None) for space in spaces]
    if None in sizes or any(getattr(space, "start", 0) != 0 for space in spaces):
        got = " and ".join(str(space) for space in spaces)
        raise InvalidInput(
            "the environment must have discrete observations and actions, from 0 on; "
            f"got {got}"
        )
    return int(sizes[0] or 0), int(sizes[1] or 0)
