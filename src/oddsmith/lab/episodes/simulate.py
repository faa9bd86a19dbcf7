"""simulate_episodes: a policy in a world of states and steps, many runs at once, with
exact regret."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oddsmith.core.arrays import Array, whole
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

_MOST = 100_000_000  # run-steps of one simulation


@dataclass(frozen=True, eq=False)
class EpisodeRun:
    """Regret and return (E, runs) of every episode, and the state at the end; the log
    of all steps, if it was kept.

    Regret is exact: V(s_1) of the best policy minus the value of what is played from
    there, never an estimate.
    """

    regret: Array
    returns: Array
    state: State = field(repr=False)
    logs: Any = field(default=None, repr=False)

    @property
    def total(self) -> Array:
        """The regret of each run after all episodes (runs,)."""
        total: Array = self.regret.sum(axis=0)
        return total

    def after(self, episodes: int) -> tuple[float, float]:
        """The mean regret after so many episodes, and its standard error over runs (NaN
        for a single run)."""
        whole("episodes", episodes, high=len(self.regret))
        return mean_and_error(self.regret[:episodes].sum(axis=0))

    def mean(self) -> tuple[float, float]:
        """The mean regret after all episodes, and its standard error."""
        return mean_and_error(self.total)

    def log(self, run: int = 0) -> EpisodeLog:
        """The episodes of one run as a table, if told to keep="log"."""
        if self.logs is None:
            raise InvalidInput(
                'log needs all steps; simulate with keep="log" to keep them'
            )
        whole("run", run, low=0, high=self.regret.shape[1] - 1)
        states, actions, rewards, odds = (part[:, :, run] for part in self.logs)
        return EpisodeLog(
            states.astype(np.int64), actions.astype(np.int64), rewards, odds
        )


def simulate_episodes(
    policy: EpisodicPolicy,
    world: EpisodicWorld,
    *,
    episodes: int,
    runs: int = 1,
    seed: int = 0,
    keep: str = "",
) -> EpisodeRun:
    """`runs` independent runs of so many episodes; draws and worlds have random streams
    of their own.

    `keep="log"` keeps every step, for `EpisodeRun.log`.

    >>> from oddsmith.lab.episodes import GeneralizedPosteriorSampling
    >>> from oddsmith.lab.episodes.world import chain
    >>> policy = GeneralizedPosteriorSampling(
    ...     [chain(), chain(right=0.1)], eta=1.0, gamma=0.0
    ... )
    >>> run = simulate_episodes(policy, EpisodicWorld(chain()), episodes=20, runs=50)
    >>> run.regret.shape, run.regret[0, 0].round(3)
    ((20, 50), np.float64(0.028))
    """
    _check(policy, world, (episodes, runs, seed), keep)
    rngs = np.random.default_rng([seed, 1]), np.random.default_rng([seed, 2])
    model, state, known = world.model, policy.init((runs,)), _Values(world)
    regret, returns = np.empty((episodes, runs)), np.zeros((episodes, runs))
    steps: list[Any] = []
    checks = StepChecks((runs, model.n_actions), odds_check(policy))
    earned = np.zeros((model.horizon, runs))
    visited = np.zeros((model.horizon + 1, runs), dtype=np.int64)
    name = type(world).__name__
    try:
        for k in progress(range(episodes), episodes, "episodes"):
            place = world.first(runs, rngs[1])
            _check_integers(world, place, runs, 0)
            visited[0] = place
            played = known.of(policy, policy.behaviour(state))
            regret[k] = model.plan.values[0, place] - played[np.arange(runs), place]
            for h in range(model.horizon):
                odds = policy.odds(state, place)
                decision = draw(odds, place, rngs[0].random(runs))
                checks.add(decision.propensities)
                reward, following = world.step(h, (place, decision.arm), rngs[1])
                check_shape(f"rewards of {name}", reward, (runs,), h + 1)
                _check_integers(world, following, runs, h + 1)
                earned[h] = reward
                visited[h + 1] = following
                returns[k] += reward
                state = policy.update(state, decision, reward)
                if state is None:
                    check_state(policy, state)
                if keep:
                    steps.append((place, decision.arm, reward, odds.propensities))
                place = following
            check_rewards_in_range(world, earned)
            check_states(world, visited, model.n_states)
    except Exception:
        # a value that is wrong is often the cause
        checks.flush()
        check_rewards_in_range(world, earned)
        check_states(world, visited, model.n_states)
        raise
    checks.flush()
    shape = (episodes, model.horizon)
    columns = [np.stack(column) for column in zip(*steps, strict=True)]
    logs = (
        tuple(column.reshape(shape + column.shape[1:]) for column in columns)
        if keep
        else None
    )
    return EpisodeRun(regret, returns, state, logs)


def _check_integers(world: object, states: Any, runs: int, step: int) -> None:
    """Refuse states that are no array (runs,) of whole numbers."""
    what = f"states of {type(world).__name__}"
    check_shape(what, states, (runs,), step)
    if states.dtype.kind not in "iu":
        raise InvalidInput(
            f"{what} must be whole numbers; got {states.dtype} at step {step}"
        )


class _Values:
    """The value of what is played, from each state; policies that are the same as
    before are not evaluated again."""

    def __init__(self, world: EpisodicWorld) -> None:
        self._model = world.model
        self._policies: Array | None = None
        self._values = np.empty(0)

    def of(self, policy: EpisodicPolicy, played: Behaviour) -> Array:
        """Σ_m mass_m V(π_m) (runs, S)."""
        _check_distributions(policy, "mass", played.mass)
        if played.policies is not self._policies:
            _check_distributions(policy, "policies", played.policies)
        if played.policies is not self._policies:
            self._policies, self._values = (
                played.policies,
                self._model.values(played.policies),
            )
        return np.asarray((played.mass[..., None] * self._values).sum(axis=-2))


def _check_distributions(policy: EpisodicPolicy, what: str, values: Array) -> None:
    fault = odds_fault(values)
    if fault is not None:
        place, text = fault
        raise InvalidInput(
            f"behaviour of {policy_name(policy)} must have {what} that are at least 0 "
            f"and sum to 1; got {text} at {place}"
        )


def _check(
    policy: object, world: object, numbers: tuple[int, int, int], keep: object
) -> None:
    if not isinstance(policy, EpisodicPolicy):
        raise InvalidInput(
            f"policy must be one for episodes; got {type(policy).__name__}"
        )
    if not isinstance(world, EpisodicWorld):
        raise InvalidInput(
            f"world must be an EpisodicWorld; got {type(world).__name__}"
        )
    model = world.model
    mine = (policy.horizon, policy.n_states, policy.n_actions)
    if mine != model.rewards.shape:
        raise InvalidInput(
            "policy must have the world's steps, states and actions, "
            f"{model.rewards.shape}; got {mine}"
        )
    for what, value in zip(("episodes", "runs"), numbers, strict=False):
        whole(what, value)
    if (size := numbers[0] * numbers[1] * model.horizon) > _MOST:
        raise TooLarge(
            f"episodes · runs · steps must be at most {_MOST:,}; got {size:,}"
        )
    check_seed(numbers[2])
    if keep not in ("", "log"):
        raise InvalidInput(f'keep must be "" or "log"; got {keep!r}')
