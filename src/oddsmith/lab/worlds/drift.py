"""SwitchingWorld: a sequence of worlds, each for a number of steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.core.decision import Context
from oddsmith.core.errors import InvalidInput
from oddsmith.lab.worlds.world import History, World

__all__ = ["SwitchingWorld"]


@dataclass(frozen=True, eq=False)
class SwitchingWorld(World):
    """Uses `worlds[i]` until step `until[i]` (included), and the last world for all
    later steps.

    >>> from oddsmith.lab.worlds.tables import TableWorld
    >>> first = TableWorld(np.array([[0.1, 0.9]]))
    >>> second = TableWorld(np.array([[0.9, 0.1]]))
    >>> world = SwitchingWorld([first, second], until=[100])
    >>> world.means(100, np.array([0])), world.means(101, np.array([0]))
    (array([[0.1, 0.9]]), array([[0.9, 0.1]]))
    """

    worlds: Sequence[World]
    until: Sequence[int]

    def __post_init__(self) -> None:
        for part in (self.worlds, self.until):
            if not isinstance(part, list | tuple):
                raise InvalidInput(
                    f"worlds and until must be lists; got {self.worlds!r:.40} and "
                    f"{self.until!r:.40}"
                )
        if not all(_is_whole(step) for step in self.until):
            raise InvalidInput(
                f"until must be whole numbers of steps; got {list(self.until)!r:.60}"
            )
        if not self.worlds or len(self.until) != len(self.worlds) - 1:
            raise InvalidInput(
                f"until must have one step fewer than worlds; got {len(self.until)} "
                f"for {len(self.worlds)}"
            )
        if any(late <= early for early, late in pairwise([0, *self.until])):
            raise InvalidInput(f"until must increase from 1 on; got {list(self.until)}")
        n_arms = [world.n_arms for world in self.worlds]
        if len(set(n_arms)) != 1:
            raise InvalidInput(
                f"worlds must have the same number of arms; got {n_arms}"
            )

    @property
    def n_arms(self) -> int:
        return self.worlds[0].n_arms

    def context(
        self,
        step: int,
        runs: int,
        rng: np.random.Generator,
        history: History | None = None,
    ) -> Context:
        return self._at(step).context(step, runs, rng, history)

    def means(self, step: int, context: Context) -> Array:
        return self._at(step).means(step, context)

    def for_seed(self, seed: int) -> "SwitchingWorld":
        """Return the same worlds, each for this seed of a simulation."""
        worlds = [world.for_seed(seed) for world in self.worlds]
        return SwitchingWorld(worlds, self.until)

    def _at(self, step: int) -> World:
        return self.worlds[sum(step > last for last in self.until)]


def _is_whole(step: object) -> bool:
    return isinstance(step, int | np.integer) and not isinstance(step, bool)
