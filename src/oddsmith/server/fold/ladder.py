"""Ladder: recent states in memory, with smaller distances near the end of the log."""

import numpy as np

from oddsmith.core.decision import State
from oddsmith.server.fold.fold import FoldState, copy_fold
from oddsmith.server.store.snapshots import retained_positions

__all__ = ["Ladder"]

_STEPS = 1000  # maximum number of steps between two saved states
# maximum size in bytes of all states together; the newest state always stays
_BYTES = 64 * 2**20


class Ladder:
    """Recent states in memory. If an earlier event changes, the computation of the
    state starts from the newest one before the change.

    After contexts are erased, the computation must start from the same state as after a
    restart, so all states in memory are deleted.
    """

    def __init__(self) -> None:
        self._states: list[FoldState] = []
        self._is_off = False
        self._steps = 0

    def keep(self, folded: FoldState, steps: int) -> None:
        """Save a copy of this state if enough steps have passed since the last one.

        `steps` is the number of steps since the last call.
        """
        self._steps += steps
        has_room = not self._states or self._steps >= _STEPS
        is_newer = not self._states or folded.position > self._states[-1].position
        if self._is_off or not has_room or not is_newer:
            return
        self._steps = 0
        states = [*self._states, copy_fold(folded)]
        stay = retained_positions([one.position for one in states])
        self._states = [one for one in states if one.position in stay]
        total = sum(size(one.state) for one in self._states)
        while len(self._states) > 1 and total > _BYTES:
            total -= size(self._states.pop(0).state)

    def before(self, latest: int) -> FoldState | None:
        """Return a copy of the newest state at or before a position, if there is
        one."""
        for folded in reversed(self._states):
            if folded.position <= latest:
                return copy_fold(folded)
        return None

    def forget(self, for_good: bool) -> None:
        """Delete all states. With `for_good`, save no states from now on."""
        self._states = []
        self._is_off = self._is_off or for_good

    def cut(self, position: int) -> None:
        """Delete the states from this position on, because the effect of earlier events
        has changed."""
        self._states = [one for one in self._states if one.position < position]


def size(state: State) -> int:
    """Return the bytes of a state's arrays.

    >>> size((np.zeros(4), (1, np.zeros(2))))
    48
    """
    if isinstance(state, tuple):
        return sum(size(part) for part in state)
    return state.nbytes if isinstance(state, np.ndarray) else 0
