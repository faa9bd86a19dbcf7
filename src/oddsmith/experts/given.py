"""GivenExperts: predictions that are computed elsewhere; the context is the (N, K) table itself."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oddsmith.arrays import Array
from oddsmith.contexts import numbers
from oddsmith.decision import Context, State
from oddsmith.experts.base import Experts, as_predictions, check_names

__all__ = ["GivenExperts"]


@dataclass(frozen=True)
class GivenExperts(Experts):
    """Experts whose predictions arrive as the context (…, N, K), for models that live elsewhere.

    >>> GivenExperts(["old", "new"]).predict((), [[0.1, 0.3], [0.2, 0.1]])
    array([[0.1, 0.3],
           [0.2, 0.1]])
    """

    names: Sequence[str]

    own = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", check_names("names", self.names))

    def predict(self, state: State, context: Context) -> Array:
        if (
            isinstance(context, np.ndarray)
            and context.dtype == np.float64
            and context.shape[-2:-1] == (len(self.names),)
        ):
            return context
        predictions = numbers(context, "give a row of numbers for each expert, one per arm")
        return as_predictions(predictions, n_experts=len(self.names), source="the context of GivenExperts")
