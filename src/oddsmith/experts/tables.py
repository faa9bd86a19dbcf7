"""TableExperts: a table of predictions for finitely many contexts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from oddsmith.core.arrays import Array, Ints
from oddsmith.core.contexts import as_array, short_repr
from oddsmith.core.decision import Context, State
from oddsmith.core.errors import InvalidInput
from oddsmith.core.experts import Experts, refuse_offer
from oddsmith.core.names import expert_names

__all__ = ["TableExperts"]


@dataclass(frozen=True, eq=False)
class TableExperts(Experts):
    """Experts whose predictions are read from `table` (X, N, K). A context is a row
    number from 0 to X-1; an array of them (…) is a batch.

    >>> TableExperts(np.array([[[0.2, 0.8]], [[0.6, 0.4]]])).predict((), 1)
    array([[0.6, 0.4]])
    """

    table: Array
    names: Sequence[str] = ()

    def __post_init__(self) -> None:
        try:
            table = np.asarray(self.table)
        except ValueError as error:
            raise InvalidInput(
                f"table must be an array of shape (contexts, experts, arms); {error}"
            ) from error
        if table.ndim != 3 or 0 in table.shape or table.dtype.kind not in "fiub":
            raise InvalidInput(
                f"table must be an array of shape (contexts, experts, arms); got "
                f"{table.dtype} {table.shape}"
            )
        names = expert_names(self.names, table.shape[1])
        # Arms are outermost in memory, so that the column of an arm is contiguous.
        arms_first = np.swapaxes(table.astype(np.float64), 1, 2)
        arms_first = np.ascontiguousarray(arms_first)
        object.__setattr__(self, "table", np.swapaxes(arms_first, 1, 2))
        object.__setattr__(self, "names", names)

    @cached_property
    def favourites(self) -> Ints | None:
        """Return the arm that each expert votes for in each context (X, N), or None if
        an expert has ties or missing predictions."""
        arms_first = np.swapaxes(self.table, 1, 2)
        top = arms_first.max(axis=1, keepdims=True)
        if np.isnan(top).any() or np.count_nonzero(arms_first == top) > top.size:
            return None
        favourites: Ints = arms_first.argmax(axis=1).astype(np.int64)
        return favourites

    def predict(self, state: State, context: Context) -> Array:
        refuse_offer(self, context, "use FunctionExperts, which receive the arm's name")
        index = as_array(context)
        n = len(self.table)
        is_index = index.dtype.kind in "iu" and index.size > 0
        if not is_index or index.min() < 0 or index.max() >= n:
            raise InvalidInput(
                f"context must be an index in 0 … {n - 1}; got {short_repr(context)}"
            )
        arms_first = np.swapaxes(self.table, 1, 2)
        return np.swapaxes(arms_first[index], -1, -2)
