"""Clipped: clip predictions away from 0 and 1, with votes from the unclipped ones."""

from dataclasses import dataclass

import numpy as np

from oddsmith.core.arrays import Array, Bools, check_range
from oddsmith.core.decision import Context, State
from oddsmith.core.errors import ExpertFailed
from oddsmith.core.experts import Experts, check_bank
from oddsmith.experts.prediction_clip import CLIP
from oddsmith.experts.wrapper import Wrapper

__all__ = ["Clipped"]


@dataclass(frozen=True)
class Clipped(Wrapper):
    """Clip the predictions of `experts` to [low, high]. Votes are computed before
    clipping, which would create ties.

    Under log loss, a wrong prediction of 0 or 1 sets the expert's weight to 0 for good.
    Clipped, it costs ln(1 / low), by default 9.2, and the expert can recover.

    >>> from oddsmith.experts.external import GivenExperts
    >>> predictions, ballots = Clipped(GivenExperts(["bold"])).advise(
    ...     (), [[0.999, 1.0]]
    ... )
    >>> predictions, ballots
    (array([[0.999 , 0.9999]]), array([[0., 1.]]))
    """

    experts: Experts
    low: float = CLIP[0]
    high: float = CLIP[1]

    def __post_init__(self) -> None:
        check_bank("experts", self.experts)
        check_range(self.low, self.high)

    def predict(self, state: State, context: Context) -> Array:
        return self._clipped(self.experts.predict(state, context))

    def advise(
        self, state: State, context: Context, eligible: Bools | None = None
    ) -> tuple[Array, Array]:
        predictions, ballots = self.experts.advise(state, context, eligible)
        return self._clipped(predictions), ballots

    def prediction_bounds(self, state: State) -> Array:
        own = np.array([[self.low, self.high]])
        inner = self.experts.prediction_bounds(state)
        if inner is None:
            return np.repeat(own, len(self.names), axis=0)
        return np.clip(inner, self.low, self.high)

    def _clipped(self, predictions: Array) -> Array:
        if predictions.size:
            lowest = np.minimum.reduce(predictions, axis=None)
            highest = np.maximum.reduce(predictions, axis=None)
            # Fast path: most calls have nothing to clip.
            if self.low <= lowest <= highest <= self.high:
                return predictions
        # Reject infinite predictions, because clipping would hide the error.
        if np.isinf(predictions).any():
            raise ExpertFailed(
                "Clipped experts must return finite numbers; got an infinite one",
                kind="values",
            )
        return np.clip(predictions, self.low, self.high)
