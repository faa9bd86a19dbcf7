"""Run: what happened in a simulation, with exact regret."""

from dataclasses import dataclass, field

import numpy as np

from oddsmith.core.arrays import Array, Ints, whole
from oddsmith.core.decision import Context, Decision, State
from oddsmith.core.errors import InvalidInput
from oddsmith.core.experts import Experts
from oddsmith.lab.delays import Arrivals
from oddsmith.lab.offers import decision_of
from oddsmith.lab.worlds.world import World
from oddsmith.logs.table import Log

__all__ = ["Run", "mean_and_error"]


@dataclass(frozen=True, eq=False)
class Run:
    """What happened: regret (T, runs) of each step against the best arm, arms,
    contexts, rewards, and the traces.

    Regret is expected over the draw of the arm and exact: max_a mean - Σ_a Pr(a)
    mean(a), never an estimate.
    """

    regret: Array
    arms: Ints
    rewards: Array
    contexts: list[Context] = field(repr=False)
    traces: dict[str, Array] = field(repr=False)
    state: State = field(repr=False)
    world: World = field(repr=False)
    due: Arrivals = field(repr=False)
    decisions: list[Decision] = field(default_factory=list, repr=False)
    experts: tuple[str, ...] | None = field(default=None, repr=False)

    @property
    def total(self) -> Array:
        """The regret of each run after all steps (runs,)."""
        total: Array = self.regret.sum(axis=0)
        return total

    def mean(self) -> tuple[float, float]:
        """The mean total regret over runs, and its standard error (NaN for a single
        run)."""
        return mean_and_error(self.total)

    def regret_to(self, experts: Experts) -> Array:
        """max_i Σ_t mean(x_t, E_i(x_t)) - Σ_t E mean(x_t, a_t) of each run (runs,):
        regret to the best fixed expert.

        Equation 1 of the paper; with a true expert among them it is the regret against
        the best arm.
        """
        best, state = (
            np.zeros((self.regret.shape[1], len(experts.names))),
            experts.init(),
        )
        lost = np.zeros(self.regret.shape[1])
        for t, context in enumerate(self.contexts):
            means = self.world.means(t + 1, context)
            best += (experts.advise(state, context)[1] * means[:, None, :]).sum(axis=-1)
            lost += means.max(axis=-1)
        earned = lost - self.total
        regret: Array = best.max(axis=-1) - earned
        return regret

    def log(self, run: int = 0) -> Log:
        """The decisions and rewards of one run as a table (NaN: still on its way), if
        told to trace="log"."""
        if not self.decisions:
            raise InvalidInput(
                "log needs the decisions; simulate with trace=('log',) to keep them"
            )
        whole("run", run, low=0, high=self.regret.shape[1] - 1)
        row_of = decision_of if self.world.makes_offers else _row
        rows = [row_of(decision, run) for decision in self.decisions]
        arrived = np.isin(np.arange(len(rows)), self.due.order)
        return Log.of(
            rows, np.where(arrived, self.rewards[:, run], np.nan), experts=self.experts
        )


def _row(decision: Decision, run: int) -> Decision:
    return Decision._make(None if c is None else c[run] for c in decision)


def mean_and_error(totals: Array) -> tuple[float, float]:
    """The mean over runs and its standard error; NaN for a single run.

    >>> mean_and_error(np.array([1.0, 1.0, 1.0]))
    (1.0, 0.0)
    """
    n = totals.size
    return float(totals.mean()), float(
        totals.std(ddof=1) / np.sqrt(n)
    ) if n > 1 else float("nan")
