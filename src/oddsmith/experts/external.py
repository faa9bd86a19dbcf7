"""GivenExperts: predictions that are computed elsewhere and passed as the context, an
(N, K) table."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oddsmith.contexts.numbers import numbers
from oddsmith.core.arrays import Array
from oddsmith.core.decision import Context, State
from oddsmith.core.errors import InvalidInput
from oddsmith.core.experts import Experts, as_predictions
from oddsmith.core.names import check_names
from oddsmith.core.offer import AnyOffer

__all__ = ["GivenExperts"]


@dataclass(frozen=True)
class GivenExperts(Experts):
    """Experts whose predictions are passed as the context (…, N, K), for models that
    run elsewhere.

    If arms are passed in the call, there is one column per arm, in the offer's order.

    >>> GivenExperts(["old", "new"]).predict((), [[0.1, 0.3], [0.2, 0.1]])
    array([[0.1, 0.3],
           [0.2, 0.1]])
    """

    names: Sequence[str]

    takes_offers = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", check_names("names", self.names))

    def predict(self, state: State, context: Context) -> Array:
        if isinstance(context, AnyOffer):
            return self._predict_offer(context)
        n_experts = len(self.names)
        is_array = isinstance(context, np.ndarray) and context.dtype == np.float64
        if is_array and context.shape[-2:-1] == (n_experts,):
            predictions: Array = context
            return predictions
        rows = numbers(context, "pass a row of numbers for each expert, one per arm")
        return as_predictions(
            rows, n_experts=n_experts, source="the context of GivenExperts"
        )

    def _predict_offer(self, offer: AnyOffer) -> Array:
        """Return the predictions in an offer; raise if it has another number of
        arms."""
        predictions = self.predict((), offer.context)
        *lead, _, n_columns = predictions.shape
        n_arms = len(offer.arms)
        if tuple(lead) != offer.lead or n_columns != n_arms:
            wanted = f"{len(self.names)} x {n_arms}, a column for each arm offered"
            raise InvalidInput(
                f"context must be predictions, {wanted}; got shape {predictions.shape}"
            )
        return predictions
