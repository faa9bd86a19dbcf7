"""Ring buffers of recent rows, and the schedule of refits."""

from typing import Any

import numpy as np

from oddsmith.core.arrays import Ints

__all__ = ["FIRST", "PACE", "latest", "longer", "next_refit"]

# Number of rewards before the first fit, and growth factor until each next fit.
FIRST = 24
PACE = 1.4


def next_refit(learnt: int, pace: float, window: int) -> int:
    """Return the number of rewards at which the next refit happens, after one at
    `learnt` rewards: `pace` · `learnt`, but at most `learnt` + `window`/2.

    >>> next_refit(24, 1.4, 4096), next_refit(10_000, 1.4, 4096)
    (34, 12048)
    """
    return learnt + min(int((pace - 1) * learnt) + 1, window // 2)


def longer(part: Any, room: int, axis: int = 0) -> Any:
    """Return the ring buffer with `room` more entries. Call this only before the buffer
    wraps around."""
    widths = [(0, 0)] * part.ndim
    widths[axis] = (0, max(room, 0))
    return np.pad(part, widths)


def latest(learnt: int, n: int, places: int) -> Ints:
    """Return the positions of the last n of `learnt` rows in a ring buffer, oldest
    first.

    >>> latest(7, 3, 5)
    array([4, 0, 1])
    """
    return np.arange(learnt - n, learnt) % places
