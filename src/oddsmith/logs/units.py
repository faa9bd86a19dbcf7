"""Rewards of a file in a user's units, as a log has them."""

from collections.abc import Collection

import numpy as np

from oddsmith.arrays import Array
from oddsmith.errors import BrokenLog
from oddsmith.logs.rules import typed
from oddsmith.rewards import RewardScale

__all__ = ["scaled"]


def scaled(rewards: Collection[object], scale: RewardScale) -> Array:
    """(reward - low) / (high - low), NaN where none has come; the first reward outside of the scale is refused.

    >>> scaled([5.0, None, 20], RewardScale(0, 20))
    array([0.25,  nan, 1.  ])
    """
    column = np.asarray(typed("reward", rewards), dtype=np.float64)
    outside = (column < scale.low) | (column > scale.high)
    if outside.any():
        row = int(np.argmax(outside))
        least, most = np.nanmin(column), np.nanmax(column)
        rule = f"must be in [{scale.low:g}, {scale.high:g}], the units of rewards; got {column[row]:g}"
        many = f"{int(outside.sum()):,} of {len(column):,} rows looked at"
        rule += f" ({many} are outside; all go from {least:g} to {most:g})"
        widen = "widen them (low and high of [reward] in the policy file, or --reward LOW HIGH), or cut such rewards"
        raise BrokenLog("reward", row, f"{rule}: {widen}")
    return np.asarray((column - scale.low) / (scale.high - scale.low))
