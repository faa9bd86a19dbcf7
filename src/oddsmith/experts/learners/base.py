"""The Learner protocol: one belief about the problem that learns from every reward, at work inside a bank."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from oddsmith.arrays import Array, Ints
from oddsmith.decision import State

__all__ = ["Belief", "Learner", "LearnerInput", "Revisable", "Turned", "side_by_side"]


class LearnerInput(NamedTuple):
    """A context as learners see it: numbers as they came (NaN: missing), and standardised (missing: 0), both (…, d).

    The squares of the standardised ones sum to about 1, whatever d.
    """

    x: Array
    z: Array


class Turned(NamedTuple):
    """A reward that was learnt as `before`, and is another one now."""

    before: float
    reward: float

    @property
    def change(self) -> float:
        """By how much it is larger."""
        return self.reward - self.before


class Belief(NamedTuple):
    """Mean reward of every arm and the standard deviation of that belief, both (…, K)."""

    mean: Array
    sd: Array


def side_by_side(beliefs: Sequence[Belief], blend: int) -> Belief:
    """The beliefs of several learners (…, N, K) and, if `blend` is not 0, the average of the first so many."""
    every = list(beliefs)
    if blend:
        every.append(Belief(*(sum(parts) / blend for parts in zip(*every[:blend], strict=True))))
    return Belief(*(np.stack(parts, axis=-2) for parts in zip(*every, strict=True)))


class Learner(Protocol):
    """No state of its own: `start` makes it, a tuple of arrays with leading batch axes; `learn` may write in place."""

    @property
    def name(self) -> str:
        """Words for what it believes, and for what is unusual about its settings: two of a kind differ by name."""
        ...

    def start(self, shape: tuple[int, ...], n_arms: int, dim: int) -> State:
        """The state before any reward, for contexts of `dim` numbers."""
        ...

    def believe(self, state: State, seen: LearnerInput) -> Belief:
        """The belief about every arm; leading axes of the context broadcast against those of the state."""
        ...

    def learn(self, state: State, seen: LearnerInput, arms: Ints, rewards: Array) -> State:
        """The state after one reward in each place of the batch; it must not raise."""
        ...

    def widen(self, state: State, n_arms: int) -> State:
        """The state with further arms, which start from the prior."""
        ...


@runtime_checkable
class Revisable(Protocol):
    """A learner that can change what it has learnt; others learn a reward that turned into another once more."""

    def revise(self, state: State, seen: LearnerInput, arm: int, turned: Turned) -> State:
        """The state after the reward of this arm, in this context, turned into another; no batch axes."""
        ...
