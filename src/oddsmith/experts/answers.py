"""RecordedExperts: a bank whose advice was computed elsewhere and is passed as the
context."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from oddsmith.core.arrays import Array, Bools
from oddsmith.core.decision import Context, State
from oddsmith.core.experts import Experts
from oddsmith.core.names import check_names, wider_names

__all__ = ["RecordedAdvice", "RecordedExperts"]


class RecordedAdvice(NamedTuple):
    """The advice of a bank: predictions and ballots, both (…, N, K)."""

    predictions: Array
    ballots: Array


@dataclass(frozen=True)
class RecordedExperts(Experts):
    """A bank that reads `RecordedAdvice` from the context, so that experts can run in
    another place than the weights.

    >>> import numpy as np
    >>> answer = RecordedAdvice(
    ...     np.array([[0.2, 0.9]]), np.array([[1.0, 0.0]])
    ... )  # votes need not be greedy
    >>> RecordedExperts(["odd"]).advise((), answer)[1]
    array([[1., 0.]])"""

    names: Sequence[str]
    arms: Sequence[str] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", check_names("names", self.names))

    def with_arms(self, state: State, arms: Sequence[str]) -> tuple[Experts, State]:
        """Return the bank with these arms; recorded advice about fewer arms stays as it
        is."""
        names = None
        if self.arms is not None:
            names = wider_names(self.arms, arms)
        return replace(self, arms=names), state

    def predict(self, state: State, context: Context) -> Array:
        answer: RecordedAdvice = context
        return answer.predictions

    def advise(
        self, state: State, context: Context, eligible: Bools | None = None
    ) -> tuple[Array, Array]:
        answer: RecordedAdvice = context
        return answer
