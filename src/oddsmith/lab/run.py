"""Run: the results of a simulation with exact regret."""

from dataclasses import dataclass, field

import numpy as np

from oddsmith.core.arrays import Array, Ints, whole
from oddsmith.core.decision import Context, Decision, State
from oddsmith.core.errors import InvalidInput
from oddsmith.core.experts import Experts
from oddsmith.lab.delays import Arrivals
from oddsmith.lab.offers import decision_of, row_of
from oddsmith.lab.worlds.world import World
from oddsmith.logs.table import Log

__all__ = ["Run", "mean_and_error"]


@dataclass(frozen=True, eq=False)
class Run:
    """Results of a simulation: the regret (T, runs) of each step relative to the best
    arm, and the arms, contexts, rewards and traces.

    Regret is exact and never estimated: the expectation over the draw of the arm, max_a
    mean - Σ_a Pr(a) mean(a).
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
        """Regret of each run after all steps (runs,)."""
        total: Array = self.regret.sum(axis=0)
        return total

    def mean(self) -> tuple[float, float]:
        """Return the mean total regret over runs and its standard error (NaN for one
        run)."""
        return mean_and_error(self.total)

    def regret_to(self, experts: Experts) -> Array:
        """Return the regret of each run to the best fixed expert, max_i Σ_t mean(x_t,
        E_i(x_t)) - Σ_t E mean(x_t, a_t), (runs,).

        This is equation 1 of the paper. If one of the experts is right, it equals the
        regret relative to the best arm.
        """
        n_runs = self.regret.shape[1]
        state = experts.init()
        expert_means = np.zeros((n_runs, len(experts.names)))
        best_means = np.zeros(n_runs)
        for t, context in enumerate(self.contexts):
            means = self.world.means(t + 1, context)
            _, ballots = experts.advise(state, context)
            earned = ballots * means[:, None, :]
            expert_means += earned.sum(axis=-1)
            best_means += means.max(axis=-1)
        policy_means = best_means - self.total
        regret: Array = expert_means.max(axis=-1) - policy_means
        return regret

    def log(self, run: int = 0) -> Log:
        """Return the decisions and rewards of one run as a log, after a simulation with
        trace="log". A reward that has not arrived is NaN."""
        if not self.decisions:
            raise InvalidInput(
                "log needs the decisions; simulate with trace=('log',) to keep them"
            )
        whole("run", run, low=0, high=self.regret.shape[1] - 1)
        of_run = _decision_of
        if self.world.makes_offers:
            of_run = decision_of
        rows = [of_run(decision, run) for decision in self.decisions]
        steps = np.arange(len(rows))
        has_arrived = np.isin(steps, self.due.order)
        rewards = np.where(has_arrived, self.rewards[:, run], np.nan)
        return Log.of(rows, rewards, experts=self.experts)


def _decision_of(decision: Decision, run: int) -> Decision:
    """Return the decision of one run if all runs have the same arms."""
    return Decision._make(row_of(column, run) for column in decision)


def mean_and_error(totals: Array) -> tuple[float, float]:
    """Return the mean over runs and its standard error, NaN for a single run.

    >>> mean_and_error(np.array([1.0, 1.0, 1.0]))
    (1.0, 0.0)
    """
    n = totals.size
    mean = float(totals.mean())
    if n < 2:
        return mean, float("nan")
    error = totals.std(ddof=1) / np.sqrt(n)
    return mean, float(error)
