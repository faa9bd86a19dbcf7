"""Delays of rewards: fixed or random numbers of steps."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from oddsmith.core.arrays import Ints, number, whole
from oddsmith.core.errors import InvalidInput

__all__ = ["Arrivals", "Delay", "GeometricDelay", "arrivals"]


class Delay(Protocol):
    """The delay of the reward of each step."""

    def __call__(self, steps: int, rng: np.random.Generator) -> Ints:
        """Return delays in steps (T,); 0 for a reward that arrives before the next
        decision."""
        ...


@dataclass(frozen=True)
class GeometricDelay:
    """Random delays 0, 1, 2, … with this mean: at every step a waiting reward arrives
    with the same probability.

    `simulate` draws them once for each step, for all runs of a seed together.

    >>> GeometricDelay(0)(3, np.random.default_rng(0))
    array([0, 0, 0])
    """

    mean: float

    def __post_init__(self) -> None:
        number("mean", self.mean, low=0, high=1e12)

    def __call__(self, steps: int, rng: np.random.Generator) -> Ints:
        return rng.geometric(1 / (1 + self.mean), steps) - 1


class Arrivals(NamedTuple):
    """Decisions 0 … T-1 in the order in which their rewards arrive, and how many have
    arrived after each step."""

    order: Ints
    arrived: Ints


def arrivals(delay: int | Delay, steps: int, rng: np.random.Generator) -> Arrivals:
    """When each reward is learnt; rewards of the same step are learnt in the order of
    their decisions.

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
