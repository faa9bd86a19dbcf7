"""World: the base class of simulated worlds. They return the mean rewards, so that
regret is exact and never estimated."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from oddsmith.core.arrays import Array, number
from oddsmith.core.decision import Context, State
from oddsmith.core.errors import InvalidInput
from oddsmith.core.policy import Policy

__all__ = ["Bernoulli", "Beta", "History", "Noise", "World"]


class History(NamedTuple):
    """The policy and its current state, which an adversary may use to choose the
    contexts of a step."""

    policy: Policy
    state: State


class World:
    """A source of contexts for `runs` independent runs, and of the true mean reward of
    every arm in them."""

    # Declare a property for the type checker. At run time each world has its own field.
    if TYPE_CHECKING:

        @property
        @abstractmethod
        def n_arms(self) -> int:
            """Number of arms; the largest number if offers differ in size."""

    makes_offers: bool = False
    """Whether arms are passed in each call. The context of a step is then a list with
    an `Offer` for each run."""

    def context(
        self,
        step: int,
        runs: int,
        rng: np.random.Generator,
        history: History | None = None,
    ) -> Context:
        """Return the contexts of this step, with a leading axis of `runs`."""
        raise InvalidInput(
            f"world must have the method context; {type(self).__name__} has none: add "
            "it"
        )

    def means(self, step: int, context: Context) -> Array:
        """Return the mean reward of every arm (runs, K), in [0, 1], with NaN after the
        last arm of a shorter offer."""
        raise InvalidInput(
            f"world must have the method means; {type(self).__name__} has none: add it"
        )

    def for_seed(self, seed: int) -> "World":
        """Return this world with the random choices (orders of rows, right experts)
        that belong to this seed of a simulation."""
        return self


class Noise(Protocol):
    """Random rewards around their means."""

    def __call__(self, means: Array, rng: np.random.Generator) -> Array:
        """Return rewards in [0, 1] with these means."""
        ...


@dataclass(frozen=True)
class Bernoulli:
    """Rewards of 0 and 1.

    >>> Bernoulli()(np.array([0.0, 1.0]), np.random.default_rng(0))
    array([0., 1.])
    """

    def __call__(self, means: Array, rng: np.random.Generator) -> Array:
        return (rng.random(np.shape(means)) < means).astype(np.float64)


@dataclass(frozen=True)
class Beta:
    """Rewards from Beta(s·mean, s·(1-mean)). They are fractional, and vary less for a
    larger strength s."""

    strength: float = 5.0

    def __post_init__(self) -> None:
        number("strength", self.strength, low=0, high=np.inf, open_low=True)

    def __call__(self, means: Array, rng: np.random.Generator) -> Array:
        inner = np.clip(means, 1e-12, 1 - 1e-12)
        a = self.strength * inner
        b = self.strength * (1 - inner)
        rewards = rng.beta(a, b)
        # Means of 0 and 1 allow no noise, because rewards stay in [0, 1].
        has_room = (means > 0) & (means < 1)
        return np.where(has_room, rewards, means)
