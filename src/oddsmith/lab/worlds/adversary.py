"""AdaptiveAdversary: a world that selects the context in which the policy, in its
current state, has the largest expected regret."""

from dataclasses import dataclass

import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.core.decision import Context
from oddsmith.core.errors import InvalidInput
from oddsmith.lab.worlds.tables import TableWorld
from oddsmith.lab.worlds.world import History, World

__all__ = ["AdaptiveAdversary"]


@dataclass(frozen=True, eq=False)
class AdaptiveAdversary(World):
    """For every run, selects the context of `world` with the largest expected regret
    under the policy's current propensities."""

    world: TableWorld

    def __post_init__(self) -> None:
        if not isinstance(self.world, TableWorld):
            raise InvalidInput(
                "world must be a TableWorld, whose contexts can all be tried; got "
                f"{type(self.world).__name__}"
            )

    @property
    def n_arms(self) -> int:
        return self.world.n_arms

    def context(
        self,
        step: int,
        runs: int,
        rng: np.random.Generator,
        history: History | None = None,
    ) -> Context:
        if history is None:
            return self.world.context(step, runs, rng)
        means = self.world.table
        n_contexts = len(means)
        # Ask the policy about every context in every run: shape (contexts, runs).
        contexts = np.broadcast_to(np.arange(n_contexts)[:, None], (n_contexts, runs))
        odds = history.policy.odds(history.state, contexts, step=step)
        expected = (odds.propensities * means[:, None, :]).sum(axis=-1)
        regrets = means.max(axis=-1)[:, None] - expected
        return np.argmax(regrets, axis=0)

    def means(self, step: int, context: Context) -> Array:
        return self.world.means(step, context)
