"""Simulate a policy in a world with states and steps, many runs at once, with exact
regret."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, Ints, whole
from oddsmith.core.checks import check_state, odds_fault, policy_name
from oddsmith.core.decision import State
from oddsmith.core.draw import draw
from oddsmith.core.errors import InvalidInput, TooLarge
from oddsmith.lab.checks import (
    StepChecks,
    check_rewards_in_range,
    check_shape,
    check_states,
    odds_check,
)
from oddsmith.lab.episodes.log import EpisodeLog
from oddsmith.lab.episodes.policy import Behaviour, EpisodicPolicy
from oddsmith.lab.episodes.world import EpisodicWorld
from oddsmith.lab.run import mean_and_error
from oddsmith.lab.simulate import check_seed
from oddsmith.logs.progress import progress

__all__ = ["EpisodeRun", "simulate_episodes"]

_MOST = 100_000_000  # maximum run-steps per simulation


@dataclass(frozen=True, eq=False)
class EpisodeRun:
    """Regret and return (E, runs) of every episode and the final state; also all steps,
    after a simulation with keep="log".

    Regret is exact and never estimated: V(s_1) of the optimal policy minus the value of
    the policies that are followed.
    """

    regret: Array
    returns: Array
    state: State = field(repr=False)
    steps: "EpisodeSteps | None" = field(default=None, repr=False)

    @property
    def total(self) -> Array:
        """Regret of each run after all episodes (runs,)."""
        total: Array = self.regret.sum(axis=0)
        return total

    def after(self, episodes: int) -> tuple[float, float]:
        """Return the mean regret after this number of episodes, and its standard error
        over runs (NaN for a single run)."""
        whole("episodes", episodes, high=len(self.regret))
        return mean_and_error(self.regret[:episodes].sum(axis=0))

    def mean(self) -> tuple[float, float]:
        """Return the mean regret after all episodes, and its standard error."""
        return mean_and_error(self.total)

    def log(self, run: int = 0) -> EpisodeLog:
        """Return the episodes of one run as a table, after a simulation with
        keep="log"."""
        if self.steps is None:
            raise InvalidInput(
                'log needs all steps; simulate with keep="log" to keep them'
            )
        whole("run", run, low=0, high=self.regret.shape[1] - 1)
        of_run = [column[:, :, run] for column in self.steps]
        states, actions, rewards, propensities = of_run
        return EpisodeLog(states, actions, rewards, propensities)


class EpisodeSteps(NamedTuple):
    """States, actions and rewards (E, H, runs), and propensities (E, H, runs, K)."""

    states: Ints
    actions: Ints
    rewards: Array
    propensities: Array


def simulate_episodes(
    policy: EpisodicPolicy,
    world: EpisodicWorld,
    *,
    episodes: int,
    runs: int = 1,
    seed: int = 0,
    keep: str = "",
) -> EpisodeRun:
    """Simulate `runs` independent runs of `episodes` episodes. Policies and worlds have
    separate random streams.

    With `keep="log"` the result contains every step, for `EpisodeRun.log`.

    >>> from oddsmith.lab.episodes import GeneralizedPosteriorSampling
    >>> from oddsmith.lab.episodes.world import chain
    >>> policy = GeneralizedPosteriorSampling(
    ...     [chain(), chain(right=0.1)], eta=1.0, gamma=0.0
    ... )
    >>> run = simulate_episodes(policy, EpisodicWorld(chain()), episodes=20, runs=50)
    >>> run.regret.shape, run.regret[0, 0].round(3)
    ((20, 50), np.float64(0.028))
    """
    _check_models(policy, world)
    _check_size(episodes, runs, world.model.horizon)
    check_seed(seed)
    if keep not in ("", "log"):
        raise InvalidInput(f'keep must be "" or "log"; got {keep!r}')
    model = world.model
    draws_rng = np.random.default_rng([seed, 1])
    world_rng = np.random.default_rng([seed, 2])
    state = policy.init((runs,))
    values_of = _Values(world)
    regret = np.empty((episodes, runs))
    returns = np.zeros((episodes, runs))
    shape = (episodes, model.horizon, runs)
    steps = _empty_steps(shape, model.n_actions, keep)
    checks = StepChecks((runs, model.n_actions), odds_check(policy))
    # Data of one episode, which are checked at its end.
    rewards = np.zeros((model.horizon, runs))
    states = np.zeros((model.horizon + 1, runs), dtype=np.int64)
    name = type(world).__name__
    try:
        for k in progress(range(episodes), episodes, "episodes"):
            place = world.first(runs, world_rng)
            _check_integers(world, place, runs, 0)
            states[0] = place
            values = values_of(policy, policy.behaviour(state))
            reached = values[np.arange(runs), place]
            regret[k] = model.plan.values[0, place] - reached
            for h in range(model.horizon):
                odds = policy.odds(state, place)
                decision = draw(odds, place, draws_rng.random(runs))
                checks.add(decision.propensities)
                move = (place, decision.arm)
                reward, following = world.step(h, move, world_rng)
                check_shape(f"rewards of {name}", reward, (runs,), h + 1)
                _check_integers(world, following, runs, h + 1)
                rewards[h] = reward
                states[h + 1] = following
                returns[k] += reward
                state = policy.update(state, decision, reward)
                if state is None:
                    check_state(policy, state)
                if steps is not None:
                    steps.states[k, h] = place
                    steps.actions[k, h] = decision.arm
                    steps.rewards[k, h] = reward
                    steps.propensities[k, h] = odds.propensities
                place = following
            check_rewards_in_range(world, rewards)
            check_states(world, states, model.n_states)
    except Exception:
        # Report an invalid value first, because it often causes the exception.
        checks.flush()
        check_rewards_in_range(world, rewards)
        check_states(world, states, model.n_states)
        raise
    checks.flush()
    return EpisodeRun(regret, returns, state, steps)


def _empty_steps(
    shape: tuple[int, int, int], n_actions: int, keep: str
) -> EpisodeSteps | None:
    """Return empty arrays for all steps, or None if steps are not kept."""
    if keep != "log":
        return None
    states = np.empty(shape, dtype=np.int64)
    actions = np.empty(shape, dtype=np.int64)
    rewards = np.empty(shape)
    propensities = np.empty((*shape, n_actions))
    return EpisodeSteps(states, actions, rewards, propensities)


def _check_integers(world: object, states: Any, runs: int, step: int) -> None:
    """Raise an error if states are not an array (runs,) of whole numbers."""
    what = f"states of {type(world).__name__}"
    check_shape(what, states, (runs,), step)
    if states.dtype.kind not in "iu":
        raise InvalidInput(
            f"{what} must be whole numbers; got {states.dtype} at step {step}"
        )


class _Values:
    """Computes the value of behaviour from each state. Policies that did not change are
    not evaluated again."""

    def __init__(self, world: EpisodicWorld) -> None:
        self._model = world.model
        self._policies: Array | None = None
        self._values = np.empty(0)

    def __call__(self, policy: EpisodicPolicy, behaviour: Behaviour) -> Array:
        """Return Σ_m mass_m V(π_m), (runs, S)."""
        _check_distributions(policy, "mass", behaviour.mass)
        if behaviour.policies is not self._policies:
            _check_distributions(policy, "policies", behaviour.policies)
            self._policies = behaviour.policies
            self._values = self._model.values(behaviour.policies)
        weighted = behaviour.mass[..., None] * self._values
        return np.asarray(weighted.sum(axis=-2))


def _check_distributions(policy: EpisodicPolicy, what: str, values: Array) -> None:
    fault = odds_fault(values)
    if fault is not None:
        place, text = fault
        raise InvalidInput(
            f"behaviour of {policy_name(policy)} must have {what} that are at least 0 "
            f"and sum to 1; got {text} at {place}"
        )


def _check_models(policy: object, world: object) -> None:
    """Raise an error if a policy and a world differ in steps, states or actions."""
    if not isinstance(policy, EpisodicPolicy):
        raise InvalidInput(
            f"policy must be a policy for episodes; got {type(policy).__name__}"
        )
    if not isinstance(world, EpisodicWorld):
        raise InvalidInput(
            f"world must be an EpisodicWorld; got {type(world).__name__}"
        )
    shape = (policy.horizon, policy.n_states, policy.n_actions)
    if shape != world.model.rewards.shape:
        raise InvalidInput(
            "policy must have the world's steps, states and actions, "
            f"{world.model.rewards.shape}; got {shape}"
        )


def _check_size(episodes: int, runs: int, horizon: int) -> None:
    whole("episodes", episodes)
    whole("runs", runs)
    size = episodes * runs * horizon
    if size > _MOST:
        raise TooLarge(
            f"episodes · runs · steps must be at most {_MOST:,}; got {size:,}"
        )
