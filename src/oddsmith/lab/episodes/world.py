"""EpisodicWorld: simulates episodes of a model. Also chains, RiverSwim, random models
and your own tables."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from oddsmith.core.arrays import Array, Ints, number, simplex, whole
from oddsmith.core.errors import InvalidInput
from oddsmith.lab.episodes.model import EpisodicModel
from oddsmith.lab.worlds.world import Bernoulli, Noise

__all__ = ["EpisodicWorld", "chain", "random_model", "riverswim"]

# Action numbers in chain and riverswim.
_LEFT = 0
_RIGHT = 1


@dataclass(frozen=True, eq=False)
class EpisodicWorld:
    """Simulates episodes of a model. `start` is the initial state, or the S
    probabilities of initial states.

    Rewards are 0 and 1 with the model's means, unless another `noise` is given.

    >>> world = EpisodicWorld(chain(3, horizon=3))
    >>> rng = np.random.default_rng(0)
    >>> state = world.first(2, rng)
    >>> world.step(0, (state, np.array([0, 0])), rng)
    (array([0., 0.]), array([0, 0]))
    """

    model: EpisodicModel
    start: Any = 0
    noise: Noise | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.model, EpisodicModel):
            raise InvalidInput(
                f"model must be an EpisodicModel; got {type(self.model).__name__}"
            )
        n_states = self.model.n_states
        if np.ndim(self.start) == 0:
            whole("start", self.start, low=0, high=n_states - 1)
        else:
            start = simplex("start", self.start, n=n_states, over="states")
            object.__setattr__(self, "start", start)

    def first(self, runs: int, rng: np.random.Generator) -> Ints:
        """Return the initial states of `runs` episodes (runs,)."""
        if np.ndim(self.start) == 0:
            return np.full(runs, int(self.start), dtype=np.int64)
        states = rng.choice(self.model.n_states, size=runs, p=self.start)
        return states.astype(np.int64)

    def step(
        self, step: int, taken: tuple[Ints, Ints], rng: np.random.Generator
    ) -> tuple[Array, Ints]:
        """Return rewards and next states (runs,) for the states and actions `taken` at
        a step, counted from 0."""
        states, actions = taken
        noise = Bernoulli() if self.noise is None else self.noise
        rewards = noise(self.model.rewards[step, states, actions], rng)
        moves = self.model.transitions[step, states, actions]
        cumulative = moves.cumsum(axis=-1)
        # Scale by the total, which may differ from 1 by rounding.
        thresholds = rng.random(len(states))[:, None] * cumulative[:, -1:]
        following = (cumulative > thresholds).argmax(axis=-1)
        return rewards, following.astype(np.int64)


def chain(
    n_states: int = 3,
    *,
    horizon: int = 3,
    success: float = 0.8,
    left: float = 0.2,
    right: float = 0.9,
) -> EpisodicModel:
    """Return a chain: left always moves down and earns `left` at the low end; right
    moves up with probability `success`.

    At the high end, right stays there with the same probability and earns `right`;
    otherwise it moves down by one.

    >>> chain().plan.values[0, 0].round(3)
    np.float64(0.656)
    """
    whole("n_states", n_states, low=2)
    number("success", success, low=0, high=1)
    rewards = np.zeros((n_states, 2))
    rewards[0, _LEFT] = number("left", left, low=0, high=1)
    rewards[-1, _RIGHT] = number("right", right, low=0, high=1)
    moves = _moves_left(n_states)
    for s in range(n_states - 1):
        moves[s, _RIGHT, s + 1] += success
        moves[s, _RIGHT, s] += 1 - success
    moves[-1, _RIGHT, -1] = success
    moves[-1, _RIGHT, -2] = 1 - success
    return EpisodicModel.stationary(rewards, moves, horizon=horizon)


def riverswim(
    n_states: int = 6, *, horizon: int = 20, up: float = 0.35, small: float = 0.005
) -> EpisodicModel:
    """Return RiverSwim: left is easy and earns little at the low end; right swims
    upstream and earns 1 at the far end.

    Between the ends, right moves up with probability `up` and down with 0.05. At the
    low end it moves up with 0.6 · up / 0.35; at the high end it stays with 0.6.

    >>> riverswim().plan.values[0, 0].round(4)
    np.float64(3.3973)
    """
    whole("n_states", n_states, low=3)
    number("up", up, low=0, high=0.55)
    rewards = np.zeros((n_states, 2))
    rewards[0, _LEFT] = number("small", small, low=0, high=1)
    rewards[-1, _RIGHT] = 1.0
    moves = _moves_left(n_states)
    leaving = 0.6 * up / 0.35
    moves[0, _RIGHT, :2] = [1 - leaving, leaving]
    for s in range(1, n_states - 1):
        moves[s, _RIGHT, s - 1 : s + 2] = [0.05, 0.95 - up, up]
    moves[-1, _RIGHT, -2:] = [0.4, 0.6]
    return EpisodicModel.stationary(rewards, moves, horizon=horizon)


def _moves_left(n_states: int) -> Array:
    """Return transitions (S, 2, S) in which left always moves down; those of right are
    still 0."""
    moves = np.zeros((n_states, 2, n_states))
    for s in range(n_states):
        moves[s, _LEFT, max(s - 1, 0)] = 1.0
    return moves


def random_model(
    n_states: int = 4, n_actions: int = 2, *, horizon: int = 3, seed: int = 0
) -> EpisodicModel:
    """Return a model with rewards from Beta(2, 2), clipped to [0.05, 0.95], and
    transitions uniform on the simplex.

    >>> random_model(3, 2, horizon=4, seed=1).transitions.shape
    (4, 3, 2, 3)
    """
    whole("horizon", horizon)
    whole("n_states", n_states)
    whole("n_actions", n_actions)
    whole("seed", seed, low=0)
    shape = (horizon, n_states, n_actions)
    rng = np.random.default_rng(seed)
    rewards = np.clip(rng.beta(2, 2, shape), 0.05, 0.95)
    transitions = rng.dirichlet(np.ones(n_states), shape)
    return EpisodicModel(rewards, transitions)
