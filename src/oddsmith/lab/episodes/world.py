"""EpisodicWorld: a model of states and steps that is the truth; chains, RiverSwim,
random ones, tables of your own."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from oddsmith.core.arrays import Array, Ints, number, simplex, whole
from oddsmith.core.errors import InvalidInput
from oddsmith.lab.episodes.model import EpisodicModel
from oddsmith.lab.worlds.world import Bernoulli, Noise

__all__ = ["EpisodicWorld", "chain", "random_model", "riverswim"]


@dataclass(frozen=True, eq=False)
class EpisodicWorld:
    """Episodes of a model that is the truth; `start` is a state, or the S probabilities
    of the first one.

    Rewards are 0 and 1 around their means, unless there is another `noise`.

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
        n = self.model.n_states
        if np.ndim(self.start) == 0:
            whole("start", self.start, low=0, high=n - 1)
        else:
            object.__setattr__(
                self, "start", simplex("start", self.start, n=n, over="states")
            )

    def first(self, runs: int, rng: np.random.Generator) -> Ints:
        """The first states of `runs` episodes (runs,)."""
        if np.ndim(self.start) == 0:
            return np.full(runs, int(self.start), dtype=np.int64)
        return rng.choice(self.model.n_states, size=runs, p=self.start).astype(np.int64)

    def step(
        self, step: int, taken: tuple[Ints, Ints], rng: np.random.Generator
    ) -> tuple[Array, Ints]:
        """Rewards and next states (runs,) of the states and actions `taken` at a step,
        counted from 0."""
        places, actions = taken
        scatter = Bernoulli() if self.noise is None else self.noise
        rewards = scatter(self.model.rewards[step, places, actions], rng)
        cumulative = self.model.transitions[step, places, actions].cumsum(axis=-1)
        beyond = cumulative > rng.random(len(places))[:, None] * cumulative[:, -1:]
        return rewards, beyond.argmax(axis=-1).astype(np.int64)


def chain(
    n_states: int = 3,
    *,
    horizon: int = 3,
    success: float = 0.8,
    left: float = 0.2,
    right: float = 0.9,
) -> EpisodicModel:
    """A chain: left goes down for sure and earns `left` at its low end; right goes up,
    if it succeeds.

    At the high end right stays with the same probability, and earns `right`; else it
    falls by one.

    >>> chain().plan.values[0, 0].round(3)
    np.float64(0.656)
    """
    whole("n_states", n_states, low=2)
    number("success", success, low=0, high=1)
    rewards, moves = np.zeros((n_states, 2)), np.zeros((n_states, 2, n_states))
    rewards[0, 0], rewards[-1, 1] = (
        number("left", left, low=0, high=1),
        number("right", right, low=0, high=1),
    )
    for s in range(n_states):
        last = s == n_states - 1
        moves[s, 0, max(s - 1, 0)] = 1.0
        moves[s, 1, s if last else s + 1] += success
        moves[s, 1, s - 1 if last else s] += 1 - success
    return EpisodicModel.stationary(rewards, moves, horizon=horizon)


def riverswim(
    n_states: int = 6, *, horizon: int = 20, up: float = 0.35, small: float = 0.005
) -> EpisodicModel:
    """RiverSwim: left is easy and pays little at its low end; right swims against the
    stream and pays 1 at the far end.

    Inside, right goes up with probability `up` and is washed down with 0.05; at the low
    end it goes up with 0.6 · up / 0.35, at the high end it stays with 0.6.

    >>> riverswim().plan.values[0, 0].round(4)
    np.float64(3.3973)
    """
    whole("n_states", n_states, low=3)
    number("up", up, low=0, high=0.55)
    rewards, moves = np.zeros((n_states, 2)), np.zeros((n_states, 2, n_states))
    rewards[0, 0], rewards[-1, 1] = number("small", small, low=0, high=1), 1.0
    for s in range(n_states):
        moves[s, 0, max(s - 1, 0)] = 1.0
    leaving = 0.6 * up / 0.35
    moves[0, 1, :2] = 1 - leaving, leaving
    for s in range(1, n_states - 1):
        moves[s, 1, s - 1 : s + 2] = 0.05, 0.95 - up, up
    moves[-1, 1, -2:] = 0.4, 0.6
    return EpisodicModel.stationary(rewards, moves, horizon=horizon)


def random_model(
    n_states: int = 4, n_actions: int = 2, *, horizon: int = 3, seed: int = 0
) -> EpisodicModel:
    """A model with rewards from Beta(2, 2) clipped to [0.05, 0.95], and transitions
    uniform on the simplex.

    >>> random_model(3, 2, horizon=4, seed=1).transitions.shape
    (4, 3, 2, 3)
    """
    shape = (
        whole("horizon", horizon),
        whole("n_states", n_states),
        whole("n_actions", n_actions),
    )
    rng = np.random.default_rng(whole("seed", seed, low=0))
    return EpisodicModel(
        np.clip(rng.beta(2, 2, shape), 0.05, 0.95),
        rng.dirichlet(np.ones(n_states), shape),
    )
