"""Delays of rewards, as fixed or random numbers of steps."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from oddsmith.core.arrays import Ints, number, whole
from oddsmith.core.errors import InvalidInput

__all__ = ["Arrivals", "Delay", "GeometricDelay", "arrivals"]


class Delay(Protocol):
    """A function that returns the delay of each step's reward."""

    def __call__(self, steps: int, rng: np.random.Generator) -> Ints:
        """Return delays in steps (T,). A reward with delay 0 arrives before the next
        decision."""
        ...


@dataclass(frozen=True)
class GeometricDelay:
    """Random delays 0, 1, 2, … with this mean (geometric distribution): at every step a
    pending reward arrives with the same probability.

    `simulate` draws one delay per step, which all runs of a seed share.

    >>> GeometricDelay(0)(3, np.random.default_rng(0))
    array([0, 0, 0])
    """

    mean: float

    def __post_init__(self) -> None:
        number("mean", self.mean, low=0, high=1e12)

    def __call__(self, steps: int, rng: np.random.Generator) -> Ints:
        return rng.geometric(1 / (1 + self.mean), steps) - 1


class Arrivals(NamedTuple):
    """`order` contains decisions from 0 to T-1 in the order in which their rewards
    arrive, and `arrived` the number of rewards that have arrived by each step."""

    order: Ints
    arrived: Ints


def arrivals(delay: int | Delay, steps: int, rng: np.random.Generator) -> Arrivals:
    """Return the order in which rewards arrive. Rewards that arrive in the same step
    are ordered by decision.

    >>> arrivals(1, 3, np.random.default_rng(0))
    Arrivals(order=array([0, 1]), arrived=array([0, 1, 2]))
    """
    if callable(delay):
        late = np.asarray(delay(steps, rng))
    else:
        number = whole("delay", delay, low=0, high=2**40)
        late = np.full(steps, number)
    is_whole = late.dtype.kind in "iu"
    if late.shape != (steps,) or not is_whole or late.min() < 0:
        raise InvalidInput(
            f"delay must give {steps} whole numbers of at least 0; got {late!r:.60}"
        )
    at = np.arange(steps) + late
    in_time = at < steps
    n_in_time = int(in_time.sum())
    order: Ints = np.argsort(at, kind="stable")[:n_in_time]
    counts = np.bincount(at[in_time], minlength=steps)
    arrived: Ints = np.cumsum(counts)
    return Arrivals(order, arrived)
