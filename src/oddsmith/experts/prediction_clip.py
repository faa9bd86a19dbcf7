"""The range to which predictions are clipped, and detection of predictions at its
ends."""

from typing import NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, Bools
from oddsmith.core.decision import State
from oddsmith.core.experts import Experts

__all__ = ["CLIP", "ClipCount", "clip_counts", "predictions_at_bound"]

CLIP = (1e-4, 1 - 1e-4)
"""Default range of predictions, unless a bank sets another `clip`.

A prediction of 0 for a reward of 1 costs ln 10,000 = 9.2 in log loss. With eta = 0.5
the expert's weight falls to a hundredth, and it returns with the next 9.2 by which its
log loss is smaller than that of the others. Without a clip the weight would be 0 for
good.
"""


class ClipCount(NamedTuple):
    """Number of an expert's predictions at the ends of its range.

    >>> str(ClipCount("net", (1e-4, 0.9999), 3, 4)).partition(":")[0]
    "3 of 4 predictions of 'net' are at an end of its clip [0.0001, 0.9999]"
    """

    expert: str
    clip: tuple[float, float]
    clipped: int
    n: int

    def __str__(self) -> str:
        low, high = self.clip
        verb = "are"
        if self.clipped == 1:
            verb = "is"
        predictions = f"{self.clipped:,} of {self.n:,} predictions of {self.expert!r}"
        return (
            f"{predictions} {verb} at an end of its clip [{low:g}, {high:g}]: "
            "set a wider clip if such mean rewards are real; calibrate the model if "
            "it predicts 0 or 1."
        )


def predictions_at_bound(bounds: Array, predictions: Array) -> Bools:
    """Return which predictions (…, N, K) are at a bound (N, 2) of their expert.

    >>> predictions_at_bound(np.array([[0.1, 0.9]]), np.array([[0.1, 0.5, np.nan]]))
    array([[ True, False, False]])
    """
    ends = bounds.astype(predictions.dtype)
    low = ends[:, :1]
    high = ends[:, 1:]
    return np.asarray((predictions == low) | (predictions == high))


def clip_counts(experts: Experts, state: State, predictions: Array) -> list[ClipCount]:
    """Return, for each expert with predictions (…, N, K) at an end of its range, how
    many there are."""
    bounds = experts.prediction_bounds(state)
    if bounds is None or predictions.shape[-2] != len(bounds):
        return []
    rows = predictions.swapaxes(-1, -2).reshape(-1, len(bounds))
    n_at_bound = predictions_at_bound(bounds, rows.T).sum(axis=1)
    n_known = (~np.isnan(rows)).sum(axis=0)
    counts = []
    for place in np.argsort(-n_at_bound, kind="stable").tolist():
        if n_at_bound[place]:
            low, high = bounds[place].tolist()
            n = int(n_known[place])
            name = experts.names[place]
            clipped = int(n_at_bound[place])
            counts.append(ClipCount(name, (low, high), clipped, n))
    return counts
