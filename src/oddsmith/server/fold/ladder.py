"""Ladder: states of a fold that are kept in memory on the way, dense where they are
young."""

import numpy as np

from oddsmith.core.decision import State
from oddsmith.server.fold.fold import FoldState, copy_fold
from oddsmith.server.store.snapshots import retained_positions

__all__ = ["Ladder"]

_STEPS = 1000  # between two states that are kept
_BYTES = 64 * 2**20  # of all of them together; the newest always stays


class Ladder:
    """A fold that must begin anew begins at the newest state here that is early enough:
    near, and not on disk.

    Where contexts are erased it must begin where it would after a restart: then states
    from before are forgotten.
    """

    def __init__(self) -> None:
        self._kept: list[FoldState] = []
        self._empty = False
        self._steps = 0

    def keep(self, folded: FoldState, steps: int) -> None:
        """Keep a copy of the state that was reached by so many steps since the last
        call, if it is time for one."""
        self._steps += steps
        if self._empty:
            return
        if self._kept and (
            self._steps < _STEPS or folded.position <= self._kept[-1].position
        ):
            return
        self._steps = 0
        self._kept.append(copy_fold(folded))
        stay = retained_positions([kept.position for kept in self._kept])
        self._kept = [kept for kept in self._kept if kept.position in stay]
        while (
            len(self._kept) > 1
            and sum(size(kept.state) for kept in self._kept) > _BYTES
        ):
            del self._kept[0]

    def before(self, latest: int) -> FoldState | None:
        """A copy of the newest state at or before a position, to be written into; None
        if there is none."""
        found = next(
            (kept for kept in reversed(self._kept) if kept.position <= latest), None
        )
        return None if found is None else copy_fold(found)

    def forget(self, for_good: bool) -> None:
        """Forget all states; and `for_good`, keep none from now on."""
        self._kept, self._empty = [], self._empty or for_good

    def cut(self, position: int) -> None:
        """Forget the states from this position on: what they learnt was rewritten."""
        self._kept = [kept for kept in self._kept if kept.position < position]


def size(state: State) -> int:
    """The bytes of a state's arrays.

    >>> size((np.zeros(4), (1, np.zeros(2))))
    48
    """
    if isinstance(state, tuple):
        return sum(size(part) for part in state)
    return state.nbytes if isinstance(state, np.ndarray) else 0
