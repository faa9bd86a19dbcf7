"""TableWorld: a finite number of contexts with a table of all mean rewards."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oddsmith.core.arrays import Array, finite, simplex
from oddsmith.core.decision import Context
from oddsmith.core.errors import InvalidInput
from oddsmith.lab.worlds.world import History, World

__all__ = ["DrawnTruth", "TableWorld", "random_table"]

# Separate random stream, so that the right expert does not depend on the simulation's
# draws.
_TRUTHS = 20130


def random_table(
    contexts: int = 10, experts: int = 32, arms: int = 3, seed: int = 7
) -> Array:
    """Return predictions (X, N, K) from Beta(2, 2), clipped to [0.05, 0.95]. The
    problem is benign if the first expert is right.

    >>> random_table(2, 4, 3).shape
    (2, 4, 3)
    """
    rng = np.random.default_rng(seed)
    return np.clip(rng.beta(2, 2, (contexts, experts, arms)), 0.05, 0.95)


@dataclass(frozen=True, eq=False)
class TableWorld(World):
    """Mean rewards `table` (X, K). Contexts are numbers 0 … X-1, drawn independently or
    taken from a fixed `sequence`.

    `odds` are the contexts' probabilities (uniform if None). A sequence is repeated
    after its end.

    >>> world = TableWorld(np.array([[0.2, 0.8], [0.6, 0.4]]), sequence=(0, 1, 1))
    >>> [
    ...     int(world.context(step, 1, np.random.default_rng(0))[0])
    ...     for step in (1, 2, 3, 4)
    ... ]
    [0, 1, 1, 0]
    """

    table: Array
    odds: Any = None
    sequence: Any = None

    def __post_init__(self) -> None:
        table = finite("table", self.table)
        if table.ndim != 2 or not _are_means(table):
            raise InvalidInput(
                "table must be mean rewards in [0, 1] of shape (contexts, arms); got "
                f"shape {table.shape}"
            )
        object.__setattr__(self, "table", table)
        if self.odds is not None:
            odds = simplex("odds", self.odds, n=len(table), over="contexts")
            object.__setattr__(self, "odds", odds)
        if self.sequence is not None:
            sequence = _check_sequence(self.sequence, len(table))
            object.__setattr__(self, "sequence", sequence)

    @property
    def n_arms(self) -> int:
        return int(self.table.shape[1])

    def context(
        self,
        step: int,
        runs: int,
        rng: np.random.Generator,
        history: History | None = None,
    ) -> Context:
        if self.sequence is not None:
            return np.full(runs, self.sequence[(step - 1) % len(self.sequence)])
        if self.odds is None:
            return rng.integers(0, len(self.table), runs)
        return rng.choice(len(self.table), size=runs, p=self.odds)

    def means(self, step: int, context: Context) -> Array:
        return self.table[context]


@dataclass(frozen=True, eq=False)
class DrawnTruth(World):
    """A world for Bayes regret: in every run another expert of `table` (X, N, K) is
    right, drawn from `prior`.

    Contexts 0 … X-1 are uniform. `truths(runs)` returns the right expert of each run,
    which the seed determines.

    >>> world = DrawnTruth(np.array([[[0.2, 0.8], [0.6, 0.4]]]), prior=[0.0, 1.0])
    >>> world.means(1, np.array([0, 0]))
    array([[0.6, 0.4],
           [0.6, 0.4]])
    """

    table: Array
    prior: Any
    seed: int = 0
    simulation: int = 0

    def __post_init__(self) -> None:
        table = finite("table", self.table)
        if table.ndim != 3 or not _are_means(table):
            raise InvalidInput(
                "table must be mean rewards in [0, 1], (contexts, experts, arms); got "
                f"{table.shape}"
            )
        prior = simplex("prior", self.prior, n=table.shape[1], over="experts")
        object.__setattr__(self, "table", table)
        object.__setattr__(self, "prior", prior)

    @property
    def n_arms(self) -> int:
        return int(self.table.shape[2])

    def truths(self, runs: int) -> Any:
        """Return the number of the right expert in each run."""
        rng = np.random.default_rng([self.seed, self.simulation, _TRUTHS])
        n_experts = self.table.shape[1]
        return rng.choice(n_experts, size=runs, p=self.prior)

    def for_seed(self, seed: int) -> "DrawnTruth":
        """Return the same world with other right experts for every seed of a
        simulation."""
        return replace(self, simulation=seed)

    def context(
        self,
        step: int,
        runs: int,
        rng: np.random.Generator,
        history: History | None = None,
    ) -> Context:
        return rng.integers(0, len(self.table), runs)

    def means(self, step: int, context: Context) -> Array:
        truths = self.truths(len(context))
        means: Array = self.table[context, truths]
        return means


def _are_means(table: Array) -> bool:
    """Return whether the table has at least one entry, and all entries are in [0,
    1]."""
    return table.size > 0 and bool(((table >= 0) & (table <= 1)).all())


def _check_sequence(value: Any, n_contexts: int) -> Any:
    """Return the sequence as an array of contexts 0 … X-1."""
    try:
        sequence = np.asarray(value)
    except ValueError as error:
        raise InvalidInput(f"sequence must be one list of contexts; {error}") from error
    is_list = sequence.ndim == 1 and sequence.size > 0
    is_wrong = not is_list or sequence.dtype.kind not in "iu"
    if is_wrong or sequence.min() < 0 or sequence.max() >= n_contexts:
        raise InvalidInput(
            f"sequence must be contexts 0 … {n_contexts - 1}; got {value!r:.60}"
        )
    return sequence
