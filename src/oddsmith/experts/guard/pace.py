"""Pace of an expert: durations of its calls, late calls in a row, and mean prediction
per arm."""

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from oddsmith.core.arrays import Array

__all__ = ["ArmMeans", "LONGEST_MS", "Pace", "TimeLimit"]

TimeLimit: TypeAlias = float | Literal["measured"] | None
"""Time limit of a call in milliseconds; "measured" derives it from recent calls; None
means no limit."""

LONGEST_MS = 2_000.0
"""The largest measured limit, which also applies to the first calls."""
_SHORTEST_MS = 50.0
_ENOUGH = 16  # number of durations needed for a time limit
_RECENT = 64  # number of recent durations in memory
_SLACK = 3.0  # time limit as a multiple of the 95 % quantile of recent durations
_MEMORY = 1_000  # number of recent predictions that the mean averages over
_MOST = 10_000  # maximum number of arms whose means are in memory


class ArmMeans:
    """Mean predictions of a bank's experts per arm, over recent calls.

    >>> means = ArmMeans()
    >>> means.take(["a", "b"], np.array([[0.2, 0.5]]))
    >>> means.take(["a"], np.array([[0.4]]))
    >>> means.predict(["b", "new", "a"], n_experts=1)
    array([[0.5, nan, 0.3]])
    """

    def __init__(self) -> None:
        self._by_arm: dict[Hashable, tuple[int, Array]] = {}

    def take(self, arms: Sequence[Hashable], predictions: Array) -> None:
        """Add the predictions (N, K) of one call. Arms with NaN are left out."""
        for arm, column in zip(arms, predictions.T, strict=True):
            if np.isnan(column).any():
                continue
            n, mean = self._by_arm.pop(arm, (0, np.zeros(len(column))))
            n = min(n + 1, _MEMORY)
            self._by_arm[arm] = n, mean + (column - mean) / n
        while len(self._by_arm) > _MOST:
            # Drop the arm that was not offered for the longest time.
            del self._by_arm[next(iter(self._by_arm))]

    def predict(self, arms: Sequence[Hashable], *, n_experts: int) -> Array:
        """Return the means (N, K) for these arms, NaN for unknown arms."""
        unknown = (0, np.full(n_experts, np.nan))
        columns = list[Array]()
        for arm in arms:
            _, mean = self._by_arm.get(arm, unknown)
            columns.append(mean)
        return np.stack(columns, axis=-1)


@dataclass(eq=False)
class Pace:
    """Durations of an expert's calls, its late calls, and its mean predictions.

    >>> pace = Pace()
    >>> pace.limit_ms("measured"), pace.limit_ms(20.0)
    (2000.0, 20.0)
    >>> pace.durations_ms.extend([40.0] * 32)
    >>> pace.limit_ms("measured")
    120.0
    """

    late: int = 0  # late calls in a row
    stuck: int = 0  # late calls that are still running
    durations_ms: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))
    means: ArmMeans = field(default_factory=ArmMeans)

    def limit_ms(self, timeout_ms: float | Literal["measured"]) -> float:
        """Return the limit of the next call.

        A measured limit is three times the 95 % quantile of recent durations, including
        the wait for a processor, between 50 ms and two seconds.
        """
        if timeout_ms != "measured":
            return float(timeout_ms)
        recent = sorted(self.durations_ms)
        if len(recent) < _ENOUGH:
            return LONGEST_MS
        usual = recent[int(0.95 * (len(recent) - 1))]
        return min(max(_SLACK * usual, _SHORTEST_MS), LONGEST_MS)
