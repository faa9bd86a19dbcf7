"""Running moments of the rows that learners have seen, and rows standardised by them."""

from typing import NamedTuple, Self

import numpy as np

from oddsmith.arrays import Array
from oddsmith.experts.learners.base import LearnerInput

__all__ = ["RunningMoments", "standardised", "with_moments"]

_FAR = 5.0  # standard deviations beyond which a number is cut: one wild value must not rule a regression


class RunningMoments(NamedTuple):
    """How many rows were learnt (…), running means and sums of squares (…, d)."""

    seen: Array
    mean: Array
    squares: Array

    @classmethod
    def none(cls, dim: int, shape: tuple[int, ...] = ()) -> Self:
        """Those of no row at all."""
        return cls(np.zeros(shape), np.zeros((*shape, dim)), np.zeros((*shape, dim)))


def with_moments(moments: RunningMoments, x: Array) -> RunningMoments:
    """The moments with one more row (Welford); missing numbers change nothing."""
    seen, missing = moments.seen + 1, np.isnan(x)
    shift = np.where(missing, 0.0, x - moments.mean)
    mean = moments.mean + shift / seen[..., None]
    return RunningMoments(seen, mean, moments.squares + shift * np.where(missing, 0.0, x - mean))


def standardised(moments: RunningMoments, x: Array) -> LearnerInput:
    """(x - mean) / sd, cut at five, over the root of how many columns vary: squares that sum to about 1."""
    sd = np.sqrt(moments.squares / np.maximum(moments.seen, 1.0)[..., None])
    live = sd > 0
    scale = np.sqrt(np.maximum(live.sum(axis=-1, keepdims=True), 1))
    z = (x - moments.mean) / np.where(live, sd, 1.0)
    return LearnerInput(x, np.clip(np.where(np.isnan(z), 0.0, z), -_FAR, _FAR) / scale)
