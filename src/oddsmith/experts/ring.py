"""Rings of recent rows, and the counts of rewards at which models are fitted to them
again."""

from typing import Any

import numpy as np

from oddsmith.core.arrays import Ints

__all__ = ["FIRST", "PACE", "latest", "longer", "next_refit"]

# number of rewards before the first fit, and growth factor until each next fit
FIRST = 24
PACE = 1.4


def next_refit(learnt: int, pace: float, window: int) -> int:
    """The count of the refit after the one at `learnt`: `pace` times as many, half a
    window later at most.

    >>> next_refit(24, 1.4, 4096), next_refit(10_000, 1.4, 4096)
    (34, 12048)
    """
    return learnt + min(int((pace - 1) * learnt) + 1, window // 2)


def longer(part: Any, room: int, axis: int = 0) -> Any:
    """The ring with `room` more places; it may only grow before it has come round."""
    widths = [(0, 0)] * part.ndim
    widths[axis] = (0, max(room, 0))
    return np.pad(part, widths)


def latest(learnt: int, n: int, places: int) -> Ints:
    """Where in a ring the last n of `learnt` rows are, oldest first.

    >>> latest(7, 3, 5)
    array([4, 0, 1])
    """
    return np.arange(learnt - n, learnt) % places
