"""Clipped: predictions kept away from the ends, votes untouched."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oddsmith.arrays import Array, Bools, Real, number
from oddsmith.decision import Context, Decision, State
from oddsmith.errors import InvalidInput
from oddsmith.experts.base import Experts, check_bank

__all__ = ["Clipped", "check_clip"]


def check_clip(low: float, high: float) -> None:
    """Refuses a clip that is not 0 <= low < high <= 1."""
    number("low", low, low=0, high=1)
    number("high", high, low=0, high=1)
    if not low < high:
        raise InvalidInput(f"low must be below high; got low={low!r}, high={high!r}")


@dataclass(frozen=True)
class Clipped(Experts):
    """`experts` with predictions clipped to [low, high]; votes are taken before clipping, which would make ties.

    Under log loss a prediction of 0 or 1 that turns out wrong ends an expert for good; clipped, it can come back.

    >>> from oddsmith.experts.given import GivenExperts
    >>> predictions, ballots = Clipped(GivenExperts(["bold"])).advise((), [[0.999, 1.0]])
    >>> predictions, ballots
    (array([[0.99, 0.99]]), array([[0., 1.]]))
    """

    experts: Experts
    low: float = 0.01
    high: float = 0.99

    def __post_init__(self) -> None:
        check_bank("experts", self.experts)
        check_clip(self.low, self.high)

    def split(self) -> tuple[Experts, ...]:
        """One bank for each part of the bank inside, so that a guard can tell them apart."""
        parts = self.experts.split() if hasattr(self.experts, "split") and not self.experts.moves else ()
        return tuple(Clipped(part, self.low, self.high) for part in parts)

    @property
    def names(self) -> Sequence[str]:
        return self.experts.names

    @property
    def arms(self) -> Sequence[str] | None:
        return self.experts.arms

    @property
    def moves(self) -> bool:
        return self.experts.moves

    def init(self, shape: tuple[int, ...] = ()) -> State:
        return self.experts.init(shape)

    def predict(self, state: State, context: Context) -> Array:
        return np.clip(self.experts.predict(state, context), self.low, self.high)

    def advise(self, state: State, context: Context, eligible: Bools | None = None) -> tuple[Array, Array]:
        predictions, ballots = self.experts.advise(state, context, eligible)
        return np.clip(predictions, self.low, self.high), ballots

    def update(self, state: State, decision: Decision, reward: Real) -> State:
        return self.experts.update(state, decision, reward)
