"""The gallery: every algorithm in the same worlds, with its regret, time and bound."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

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

__all__ = ["Contender", "contenders", "show"]

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


class Contender(NamedTuple):
    """A policy and the bound that applies to it."""

    policy: Policy
    bound: Bound | None


def contenders(problem: Problem, steps: int) -> dict[str, Contender]:
    """Return every algorithm that can run on this problem, with the bound that applies
    to it."""
    built = problem.build(Path(), steps)
    build = replace(built, schema=None, dim=len(problem.columns))
    bounds = _bounds(problem, steps)
    absent = set()
    if problem.contexts is None:
        absent.add("elimination")
    if not problem.rows_per_arm:
        absent.add("particles")
    found = {}
    tables = _OVER_EXPERTS | _OVER_ARMS | _OVER_FEATURES
    for name, table in tables.items():
        if name in absent:
            continue
        keys = dict(table)
        kind = table.get("kind", "gts")
        if problem.prior is not None and "prior" in settings(kind):
            keys["prior"] = problem.prior
        policy = read_policy_table(Keys(keys), build)
        if name in _OVER_FEATURES:
            policy = problem.adapt(policy)
        found[name] = Contender(policy, bounds.get(name))
    return found


def _bounds(problem: Problem, steps: int) -> dict[str, Bound]:
    """Return the bounds that hold for this problem. Most of them need an expert that is
    right."""
    known: Any = {"n_arms": problem.n_arms, "steps": steps, "prior": problem.true_prior}
    bounds = {"EXP4": theory.exp4_bound(**known)}
    if problem.truth is None:
        return bounds
    bounds["GTS, tuned"] = theory.regret_bound("log", **known)
    bounds["Feel-Good"] = theory.feelgood_bound("log", **known)
    bounds["SquareCB"] = theory.squarecb_bound(**known)
    if problem.prior is None:
        bounds["elimination"] = theory.regressor_elimination_bound(**known)
    return bounds


class _Result(NamedTuple):
    """The regret and the time of an algorithm, with the bound of its regret."""

    name: str
    mean: float
    error: float
    seconds: float
    bound: float | None


def show(
    problem: Problem,
    setup: Setup,
    *,
    about: tuple[str, str],
    steps: tuple[int, int] = (3000, 300),
    runs: int = 24,
) -> Outcome:
    """Simulate every algorithm. Return a title, a text, a table and a figure of regret
    and bounds."""
    n_steps = setup.steps(*steps)
    n_runs = runs
    if setup.quick:
        n_runs = min(runs, 4)
    results = []
    for name, contender in contenders(problem, n_steps).items():
        start = time.perf_counter()
        run = simulate(
            contender.policy, problem.world, steps=n_steps, runs=n_runs, seed=5
        )
        elapsed = time.perf_counter() - start
        seconds = elapsed / (n_steps * n_runs)
        mean, error = mean_and_error(_total(run, problem))
        bound = None
        if contender.bound is not None:
            bound = contender.bound.bound
        results.append(_Result(name, mean, error, seconds, bound))
    results.sort(key=lambda result: result.mean)
    headers = (
        "algorithm",
        f"regret after {n_steps:,} steps",
        "± s.e.",
        "µs per step",
        "bound",
    )
    rows = tuple(_row(result) for result in results)
    table = Table(headers, rows, "Regret, time and bound of each algorithm")
    title, text = about
    figure = _figure(results, problem, n_steps)
    return Outcome(title, text, (), (figure,), (table,))


def _total(run: Run, problem: Problem) -> Array:
    """Return the regret of each run: to the best arm if an expert is right, otherwise
    to the best expert (equation 1)."""
    if problem.truth is not None:
        return run.total
    return run.regret_to(problem.experts)


def _row(result: _Result) -> tuple[str, ...]:
    bound = ""
    if result.bound is not None:
        bound = f"{result.bound:,.0f}"
    return (
        result.name,
        f"{result.mean:,.1f}",
        f"{result.error:.2g}",
        f"{result.seconds * 1e6:.2g}",
        bound,
    )


def _figure(results: list[_Result], problem: Problem, steps: int) -> Figure:
    height = 0.8 + 0.24 * len(results)
    figure, (panel,) = panels(height=height)
    for i, result in enumerate(reversed(results)):
        colour = COLOURS[_family(result.name)]
        length = max(result.mean, 0.1)
        panel.barh(i, length, xerr=2 * result.error, color=colour, height=0.7)
        if result.bound is not None:
            ends = [i - 0.4, i + 0.4]
            panel.plot([result.bound] * 2, ends, color=INK, lw=1.5)
    names = [result.name for result in reversed(results)]
    ticks = range(len(names))
    panel.set(yticks=ticks, yticklabels=names, xscale="log")
    against = "the best expert"
    if problem.truth is not None:
        against = "the best arm"
    panel.set_xlabel(f"regret to {against} after {steps:,} steps")
    families = ("over experts", "without contexts", "linear and logistic")
    for i, family in enumerate(families):
        panel.barh([0], [0], color=COLOURS[i], label=family)
    legend(panel)
    panel.set_axisbelow(True)
    caption = (
        "Shorter is better. Bars end at the mean, with two standard errors; the "
        "vertical mark is the policy's bound."
    )
    return Figure(svg(figure), caption)


def _family(name: str) -> int:
    if name in _OVER_ARMS:
        return 1
    if name in _OVER_FEATURES:
        return 2
    return 0
