"""Worlds where no expert is right, and benign ones beside them: where safe policies are tried (theory 7)."""

from collections.abc import Callable

import numpy as np

from oddsmith.arrays import Array
from oddsmith.lab.problems import Problem, table_problem
from oddsmith.worlds.tables import TableWorld, random_table

__all__ = ["AGNOSTIC", "realizable_tables"]


def realizable_tables(worlds: int = 10) -> list[Problem]:
    """Worlds of random tables with a true expert, of different sizes, in which safety is not needed.

    >>> {problem.truth for problem in realizable_tables()}, len(realizable_tables())
    ({0}, 10)
    """
    sizes = [(10, 32, 3), (10, 8, 3), (5, 4, 2), (20, 64, 5), (10, 16, 10)]
    return [table_problem(random_table(*sizes[i % len(sizes)], seed=100 + i)) for i in range(worlds)]


def _one_context(means: list[float], experts: list[list[float]], truth: int | None = None) -> Problem:
    return table_problem(np.array([experts]), TableWorld(np.array([means])), truth=truth)


def _overconfident() -> Problem:
    """The first expert ranks the arms right and is far too sure; the others say next to nothing."""
    table = random_table()
    rank = table[:, 0].argsort(axis=-1).argsort(axis=-1)
    others = 0.5 + 0.02 * (table[:, 1:] - 0.5)
    sure: Array = np.array([0.05, 0.5, 0.95])[rank]
    return table_problem(
        np.concatenate([sure[:, None], others], axis=1), TableWorld(np.array([0.35, 0.5, 0.65])[rank]), truth=None
    )


AGNOSTIC: dict[str, Callable[[], Problem]] = {
    "A1": lambda: _one_context([0.5, 0.6], [[0.6, 0.5], [0.2, 0.9]]),
    "A1, realizable": lambda: _one_context([0.6, 0.5], [[0.6, 0.5], [0.2, 0.9]], truth=0),
    "A2": lambda: table_problem(random_table()),
    "A3": lambda: _one_context([0.5, 0.6], [[0.5, 0.9], [0.5, 0.1]]),
    "A4": lambda: _one_context([0.5, 0.9], [[0.5, 0.9], *[[0.5, 0.1]] * 63], truth=0),
    "A5": _overconfident,
}
"""By name: the best predictor has the worst policy (A1), and where it is right; benign (A2); the best expert is too
sure of itself (A3); one that is right among 63 pessimists (A4); too sure, with the right ranking (A5)."""
