"""Answered: experts that have been asked already; the context is their answer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from oddsmith.core.arrays import Array, Bools
from oddsmith.core.decision import Context, State
from oddsmith.core.experts import Experts
from oddsmith.core.names import check_names, wider_names

__all__ = ["Answered", "RecordedAdvice"]


class RecordedAdvice(NamedTuple):
    """The advice of a bank: predictions and ballots, both (…, N, K)."""

    predictions: Array
    ballots: Array


@dataclass(frozen=True)
class Answered(Experts):
    """The names of a bank whose `RecordedAdvice` arrives as the context: to ask in one
    place and weigh in another.

    >>> import numpy as np
    >>> answer = RecordedAdvice(
    ...     np.array([[0.2, 0.9]]), np.array([[1.0, 0.0]])
    ... )  # votes need not be greedy
    >>> Answered(["odd"]).advise((), answer)[1]
    array([[1., 0.]])
    """

    names: Sequence[str]
    arms: Sequence[str] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", check_names("names", self.names))

    def with_arms(self, state: State, arms: Sequence[str]) -> tuple[Experts, State]:
        """The bank with these arms: what was recorded of fewer of them stays as it
        is."""
        return replace(
            self, arms=None if self.arms is None else wider_names(self.arms, arms)
        ), state

    def predict(self, state: State, context: Context) -> Array:
        answer: RecordedAdvice = context
        return answer.predictions

    def advise(
        self, state: State, context: Context, eligible: Bools | None = None
    ) -> tuple[Array, Array]:
        answer: RecordedAdvice = context
        return answer
