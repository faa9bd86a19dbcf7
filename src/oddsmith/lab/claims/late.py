"""The exact chain of the two-expert instance where rewards are late: the draws that wait are part of the state."""

from math import sqrt
from typing import NamedTuple

import numpy as np

from oddsmith.arrays import Array
from oddsmith.lab.claims.chain import GAP, WIN, exploring

__all__ = ["Late", "late_regret"]


class Late(NamedTuple):
    """The expected regret after so many steps, and the standard deviation of one run's."""

    mean: float
    deviation: float


def late_regret(loss: str, *, eta: float, gamma: float, prior: float, steps: int, delay: int) -> Late:
    """Regret with every reward `delay` steps late, by backward recursion over (waiting draws, wins less losses).

    Of a waiting draw only matters whether it was arm 2, so there are 2^delay queues; its coin is thrown when it
    arrives.

    >>> [round(late_regret("log", eta=1.0, gamma=0.0, prior=0.5, steps=3, delay=d).mean, 6) for d in (0, 1, 3)]
    [0.432976, 0.536, 0.6]
    """
    explore, start = exploring(loss, eta=eta, gamma=gamma, prior=prior)
    queues = np.arange(2**delay)
    drawn = [(2 * queues + bit) & (2**delay - 1) for bit in (0, 1)]  # the queue after arm 1, and after arm 2
    counts = [((2 * queues + bit) >> delay).astype(np.bool_)[:, None] for bit in (0, 1)]  # whether a win or loss comes

    def ahead(values: Array) -> Array:
        """The expected value (queues, states) after one step."""
        won, lost = np.roll(values, -1, axis=1), np.roll(values, 1, axis=1)
        won[:, -1], lost[:, 0] = values[:, -1], values[:, 0]
        learnt = WIN * won + (1 - WIN) * lost
        first, second = (np.where(here, learnt[to], values[to]) for here, to in zip(counts, drawn, strict=True))
        expected: Array = first + explore * (second - first)
        return expected

    cost = np.broadcast_to(GAP * (1 - explore), (len(queues), len(explore)))
    total, square = np.zeros_like(cost), np.zeros_like(cost)
    for _ in range(steps):
        square = cost**2 + 2 * cost * ahead(total) + ahead(square)
        total = cost + ahead(total)
    mean = float(total[0, start])
    return Late(mean, sqrt(max(float(square[0, start]) - mean**2, 0.0)))
