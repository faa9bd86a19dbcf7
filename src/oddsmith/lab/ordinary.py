"""An easy world of the same size as a given problem. Its regret shows the usual cost of
learning, for comparison with a worst-case bound."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.core.policy import Policy
from oddsmith.experts.tables import TableExperts
from oddsmith.lab.simulate import simulate
from oddsmith.lab.worlds.tables import TableWorld, random_table

__all__ = ["Cost", "OrdinaryWorld"]

_CONTEXTS = 10
_RUNS = 8
# Size of the largest world: six policies take about a second with up to 20 arms.
_STEPS = 1000
_EXPERTS = 32
_ARMS = 200
# Up to this number of arms times experts, the time per step is approximately constant.
_CELLS = 20 * _EXPERTS


class Cost(NamedTuple):
    """The mean regret of the runs and its standard error."""

    mean: float
    error: float


@dataclass(frozen=True, eq=False)
class OrdinaryWorld:
    """A world in which the first expert is right and the experts disagree in every
    context, so that every reward distinguishes some experts.

    It has 10 contexts, drawn uniformly. The experts' predictions are independent
    Beta(2, 2) numbers, scaled to `low` … `high`. The right expert has the prior
    `prior`; the others share the rest. Rewards are 0 or 1.

    >>> world = OrdinaryWorld.sized(n_arms=5, steps=300, prior=0.1)
    >>> world.experts.table.shape, world.priors[:2].round(2)
    ((10, 10, 5), array([0.1, 0.1]))
    """

    n_arms: int
    n_experts: int
    steps: int
    prior: float
    seed: int = 0
    low: float = 0.0
    high: float = 1.0
    runs: int = _RUNS

    @classmethod
    def sized(
        cls,
        *,
        n_arms: int,
        steps: float,
        prior: float,
        seed: int = 0,
        low: float = 0.0,
        high: float = 1.0,
    ) -> "OrdinaryWorld":
        """Return the world of this size. If six policies would take longer than about a
        second in it, return a smaller world."""
        arms = min(n_arms, _ARMS)
        experts = max(2, round(min(1 / prior, _EXPERTS)))
        share = min(1.0, _CELLS / (arms * experts))
        longest = int(_STEPS * share)
        length = int(min(steps, longest))
        return cls(arms, experts, length, prior, seed, low, high)

    @cached_property
    def experts(self) -> TableExperts:
        """The experts, with the right one first."""
        table = random_table(_CONTEXTS, self.n_experts, self.n_arms, self.seed)
        width = self.high - self.low
        return TableExperts(self.low + width * table)

    @property
    def priors(self) -> Array:
        """Prior (N,) of the experts."""
        share = (1 - self.prior) / (self.n_experts - 1)
        shares = np.full(self.n_experts, share)
        shares[0] = self.prior
        return shares

    def cost(self, policy: Policy) -> Cost:
        """Return the regret of the policy to the right expert over all steps."""
        world = TableWorld(self.experts.table[:, 0])
        run = simulate(policy, world, steps=self.steps, runs=self.runs, seed=self.seed)
        mean, error = run.mean()
        return Cost(mean, error)

    def __str__(self) -> str:
        return (
            f"{self.steps:,} decisions among {self.n_arms} arms; {self.n_experts} "
            f"experts whose predictions are drawn at random (Beta(2, 2), {_CONTEXTS} "
            f"contexts), one of them right, with prior {self.prior:g}; mean ± standard "
            f"error of {self.runs} runs, seed {self.seed}"
        )
