"""ClassificationWorld: a labelled data set as a bandit problem. Arms are classes, and
the right class has reward 1."""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from oddsmith.core.arrays import Array, Ints, finite
from oddsmith.core.decision import Context
from oddsmith.core.errors import InvalidInput
from oddsmith.core.names import check_names
from oddsmith.lab.worlds.world import History, World

__all__ = ["ClassificationWorld"]


@dataclass(frozen=True, eq=False)
class ClassificationWorld(World):
    """Rows of X with classes y in 0 … K-1. Every run repeats all rows, in its own
    shuffled order.

    The context consists of the row's features, (runs, d), which `columns` may name.
    Rewards are deterministic: 1 for the right class, otherwise 0.

    >>> world = ClassificationWorld(np.eye(3), np.array([0, 1, 1]), seed=0)
    >>> context = world.context(1, 1, np.random.default_rng(0))
    >>> context, world.means(1, context)
    (array([[0., 0., 1.]]), array([[0., 1.]]))
    """

    X: Array
    y: Ints
    seed: int = 0
    simulation: int = 0
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        x = finite("X", self.X, ndim=2)
        y = np.asarray(self.y)
        n_rows, n_columns = x.shape
        if y.shape != (n_rows,) or y.dtype.kind not in "iu" or y.min() < 0:
            raise InvalidInput(
                f"y must be a class 0 … K-1 for each of the {n_rows} rows; got "
                f"{y.dtype} of shape {y.shape}"
            )
        if y.max() >= max(n_rows, 2):
            raise InvalidInput(
                f"y must be classes 0 … K-1, at most as many as rows; got {y.max()} in "
                f"{n_rows} rows"
            )
        if self.columns:
            columns = check_names("columns", self.columns, n=n_columns)
            object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "X", x)
        object.__setattr__(self, "y", y.astype(np.int64))

    @property
    def n_arms(self) -> int:
        return int(self.y.max()) + 1

    def context(
        self,
        step: int,
        runs: int,
        rng: np.random.Generator,
        history: History | None = None,
    ) -> Context:
        return self.X[self.index(step, runs)]

    def means(self, step: int, context: Context) -> Array:
        classes = self.y[self.index(step, len(context))]
        is_right = classes[:, None] == np.arange(self.n_arms)
        means: Array = is_right.astype(np.float64)
        return means

    def index(self, step: int, runs: int) -> Ints:
        """Return the number of each run's row at this step."""
        n_rows = len(self.X)
        epoch, place = divmod(step - 1, n_rows)
        seeds = (self.seed, self.simulation, epoch)
        orders = _orders(seeds, runs, n_rows)
        return orders[:, place]

    def for_seed(self, seed: int) -> "ClassificationWorld":
        """Return the same data with different orders for every seed of a simulation."""
        return replace(self, simulation=seed)


@lru_cache(maxsize=2)
def _orders(seeds: tuple[int, int, int], runs: int, n: int) -> Ints:
    """Return the orders of all runs in one epoch (runs, n). A run's order does not
    depend on the number of runs."""
    orders = []
    for run in range(runs):
        rng = np.random.default_rng([*seeds, run])
        orders.append(rng.permutation(n).astype(np.int32))
    return np.stack(orders)
