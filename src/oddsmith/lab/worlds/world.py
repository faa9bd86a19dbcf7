"""World: the source of contexts and mean rewards, so that regret is exact and never
estimated."""

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
    """Contexts for `runs` independent runs, and the true mean reward of every arm in
    them."""

    # declare a property for the type checker; at run time each world has its own field
    if TYPE_CHECKING:

        @property
        @abstractmethod
        def n_arms(self) -> int:
            """The number of arms; the largest number, where offers differ in size."""

    makes_offers: bool = False
    """Whether arms come with the call: the context of a step is a list with an `Offer`
    for each run."""

    def context(
        self,
        step: int,
        runs: int,
        rng: np.random.Generator,
        history: History | None = None,
    ) -> Context:
        """The contexts of this step, with a leading axis of `runs`."""
        raise InvalidInput(
            f"world must have context; {type(self).__name__} has none: write it"
        )

    def means(self, step: int, context: Context) -> Array:
        """The mean reward of every arm (runs, K), in [0, 1]; NaN behind the last arm of
        a shorter offer."""
        raise InvalidInput(
            f"world must have means; {type(self).__name__} has none: write it"
        )

    def for_seed(self, seed: int) -> "World":
        """This world with its own random choices (orders of rows, truths) belonging to
        this seed of a simulation."""
        return self


class Noise(Protocol):
    """The scatter of a reward around its mean."""

    def __call__(self, means: Array, rng: np.random.Generator) -> Array:
        """Rewards in [0, 1] with these means."""
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
    """Rewards from Beta(s·mean, s·(1-mean)): fractional, the less scattered the larger
    the strength s."""

    strength: float = 5.0

    def __post_init__(self) -> None:
        number("strength", self.strength, low=0, high=np.inf, open_low=True)

    def __call__(self, means: Array, rng: np.random.Generator) -> Array:
        inner = np.clip(means, 1e-12, 1 - 1e-12)
        a = self.strength * inner
        b = self.strength * (1 - inner)
        rewards = rng.beta(a, b)
        # means of 0 and 1 allow no noise, because rewards stay in [0, 1]
        has_room = (means > 0) & (means < 1)
        return np.where(has_room, rewards, means)
