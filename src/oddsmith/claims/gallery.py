"""The gallery: every algorithm on the same worlds, with regret, time and bounds side by
side."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from oddsmith import theory
from oddsmith.claims.claim import Outcome, Setup
from oddsmith.core.arrays import Array
from oddsmith.core.policy import Policy
from oddsmith.files.keys import Keys
from oddsmith.files.kinds import read_policy_table, settings
from oddsmith.files.reports.page import Figure, Table
from oddsmith.files.reports.style import COLOURS, INK, legend, panels, svg
from oddsmith.lab.problems import Problem
from oddsmith.lab.run import Run, mean_and_error
from oddsmith.lab.simulate import simulate
from oddsmith.theory.bounds import Bound

__all__ = ["everyone", "show"]

_OVER_EXPERTS: dict[str, dict[str, Any]] = {
    "GTS, tuned": {"kind": "tuned"},
    "GTS, gamma 0.02": {"gamma": 0.02},
    "Thompson sampling": {"kind": "thompson_sampling"},
    "Feel-Good": {"kind": "feel_good"},
    "SquareCB": {"kind": "squarecb"},
    "FastCB": {"kind": "fastcb"},
    "EXP4": {"kind": "exp4"},
    "EXP4.P": {"kind": "exp4p"},
    "Epoch-Greedy": {"kind": "epoch_greedy", "scale": 0.2},
    "epsilon-greedy": {"kind": "epsilon_greedy"},
    "follow the leader": {"kind": "follow_the_leader"},
    "uniform": {"kind": "uniform"},
    "elimination": {"kind": "regressor_elimination"},
}
_OVER_ARMS = {
    "UCB1": {"kind": "ucb1"},
    "KL-UCB": {"kind": "kl_ucb"},
    "Beta Thompson": {"kind": "beta_thompson"},
}
_OVER_FEATURES: dict[str, dict[str, Any]] = {
    "LinUCB": {"kind": "linucb", "alpha": 0.3},
    "linear Thompson": {"kind": "linear_thompson", "width": 0.3, "directions": 256},
    "optimistic Bayes": {
        "kind": "linear_thompson",
        "width": 0.3,
        "directions": 256,
        "optimist": True,
    },
    "logistic Thompson": {"kind": "logistic_thompson", "directions": 256},
    "GLM-UCB": {"kind": "glm_ucb", "alpha": 0.1},
    "adPredictor": {"kind": "probit_thompson", "directions": 256},
    "particles": {"kind": "particles", "n_particles": 128},
}


def everyone(problem: Problem, steps: int) -> dict[str, tuple[Policy, Bound | None]]:
    """Every algorithm that can play here, with the bound that applies to it."""
    build = replace(problem.build(Path(), steps), schema=None, dim=len(problem.columns))
    bounds = _bounds(problem, steps)
    left_out = {
        "elimination": problem.contexts is None,
        "particles": not problem.rows_per_arm,
    }
    policies = {}
    for name, table in (_OVER_EXPERTS | _OVER_ARMS | _OVER_FEATURES).items():
        if not left_out.get(name):
            weighs = problem.prior is not None and "prior" in settings(
                table.get("kind", "gts")
            )
            policies[name] = read_policy_table(
                Keys(table | ({"prior": problem.prior} if weighs else {})), build
            )
    return {
        name: (
            problem.adapt(policy) if name in _OVER_FEATURES else policy,
            bounds.get(name),
        )
        for name, policy in policies.items()
    }


def _bounds(problem: Problem, steps: int) -> dict[str, Bound]:
    """The bounds that hold here: most of them need an expert that is right."""
    known: Any = {"n_arms": problem.n_arms, "steps": steps, "prior": problem.true_prior}
    bounds = {"EXP4": theory.exp4_bound(**known)}
    if problem.truth is None:
        return bounds
    bounds |= {
        "GTS, tuned": theory.regret_bound("log", **known),
        "Feel-Good": theory.feelgood_bound("log", **known),
    }
    if problem.prior is None:
        bounds["elimination"] = theory.regressor_elimination_bound(**known)
    return bounds | {"SquareCB": theory.squarecb_bound(**known)}


def show(
    problem: Problem,
    setup: Setup,
    *,
    about: tuple[str, str],
    steps: tuple[int, int] = (3000, 600),
    runs: int = 24,
) -> Outcome:
    """Every algorithm simulated: a title and a text, a table and a figure; bounds stand
    beside what they bound."""
    n_steps, n_runs = (
        setup.steps(*steps),
        min(setup.runs(runs), 8 if setup.quick else runs),
    )
    found: dict[str, tuple[Any, float, Bound | None]] = {}
    for name, (policy, bound) in everyone(problem, n_steps).items():
        start = time.perf_counter()
        run = simulate(policy, problem.world, steps=n_steps, runs=n_runs, seed=5)
        seconds = time.perf_counter() - start
        found[name] = _total(run, problem), seconds / (n_steps * n_runs), bound
    ranked = sorted(found.items(), key=lambda item: float(item[1][0].mean()))
    rows = [_row(name, *entry) for name, entry in ranked]
    headers = (
        "algorithm",
        f"regret after {n_steps:,} steps",
        "± s.e.",
        "µs per step",
        "bound",
    )
    table = Table(headers, tuple(rows), "Regret, time and bound of each algorithm")
    return Outcome(*about, (), (_figure(ranked, problem, n_steps),), (table,))


def _total(run: Run, problem: Problem) -> Array:
    """Regret of each run: to the best arm where an expert is right, else to the best
    expert (equation 1)."""
    return run.total if problem.truth is not None else run.regret_to(problem.experts)


def _row(name: str, total: Any, seconds: float, bound: Bound | None) -> tuple[str, ...]:
    mean, error = mean_and_error(total)
    return (
        name,
        f"{mean:,.1f}",
        f"{error:.2g}",
        f"{seconds * 1e6:.2g}",
        "" if bound is None else f"{bound.bound:,.0f}",
    )


def _figure(ranked: list[Any], problem: Problem, steps: int) -> Figure:
    figure, (panel,) = panels(height=0.8 + 0.24 * len(ranked))
    for i, (name, (total, _, bound)) in enumerate(reversed(ranked)):
        mean, error = mean_and_error(total)
        panel.barh(
            i, max(mean, 0.1), xerr=2 * error, color=COLOURS[_family(name)], height=0.7
        )
        if bound is not None:
            panel.plot([bound.bound] * 2, [i - 0.4, i + 0.4], color=INK, lw=1.5)
    names = [name for name, _ in reversed(ranked)]
    panel.set(yticks=range(len(names)), yticklabels=names, xscale="log")
    against = "the best arm" if problem.truth is not None else "the best expert"
    panel.set_xlabel(f"regret to {against} after {steps:,} steps")
    for i, family in enumerate(
        ("over experts", "without contexts", "linear and logistic")
    ):
        panel.barh([0], [0], color=COLOURS[i], label=family)
    legend(panel)
    panel.set_axisbelow(True)
    return Figure(
        svg(figure),
        "Shorter is better; bars end at the mean, with two standard errors. An upright "
        "mark is the policy's bound.",
    )


def _family(name: str) -> int:
    return 1 if name in _OVER_ARMS else 2 if name in _OVER_FEATURES else 0
