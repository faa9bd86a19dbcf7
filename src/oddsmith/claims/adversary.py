"""Contexts chosen by an adversary who sees the policy's state: the bounds promise to
hold, and do."""

from typing import Any

import numpy as np

from oddsmith import theory
from oddsmith.claims.claim import Experiment, Outcome, Setup, instance, measure
from oddsmith.files.reports.page import Figure, Table
from oddsmith.files.reports.style import band, legend, panels, svg
from oddsmith.lab.run import mean_and_error
from oddsmith.lab.worlds.adversary import AdaptiveAdversary
from oddsmith.lab.worlds.tables import TableWorld
from oddsmith.policies.recipes import feel_good

__all__ = ["ADVERSARY"]


def adversary(setup: Setup) -> Outcome:
    """Regret and bounds where each context is the one of largest current regret, run by
    run."""
    problem, steps, runs = (
        instance(contexts=40),
        setup.steps(3000, 1500),
        setup.runs(48),
    )
    world = AdaptiveAdversary(TableWorld(problem.table[:, 0]))
    given: Any = {"n_arms": 3, "steps": steps, "prior": problem.true_prior}
    tuned, still = (
        theory.regret_bound("log", **given),
        theory.regret_bound("log", gamma=0.0, **given),
    )
    gamma, good = float(tuned.gamma or 0.0), theory.feelgood_bound("log", **given)
    entries = {
        "Thompson sampling": (setup.gts(problem.experts, eta=1.0), None),
        "log, eta 1/2, gamma 0": (setup.gts(problem.experts, eta=0.5), still.bound),
        "Feel-Good": (feel_good(problem.experts, n_arms=3, steps=steps), good.bound),
        f"log, eta 1/2, tuned gamma {gamma:.3f}": (
            setup.gts(problem.experts, eta=0.5, gamma=gamma),
            tuned.bound,
        ),
    }
    rows = []
    figure, (panel,) = panels()
    for i, (name, (policy, bound)) in enumerate(entries.items()):
        run = measure(policy, world, steps=steps, runs=runs)
        mean, error = mean_and_error(run.total)
        rows.append(
            (
                name,
                f"{mean:,.1f}",
                f"{error:.2g}",
                "" if bound is None else f"{bound:,.0f}",
            )
        )
        at = np.unique(np.geomspace(1, steps, 50).round().astype(int)) - 1
        curve = np.array(
            [mean_and_error(row) for row in np.cumsum(run.regret, axis=0)[at]]
        )
        band(panel, at + 1, curve[:, 0], curve[:, 1], i, name)
    panel.set(
        xscale="log",
        yscale="log",
        xlabel="steps",
        ylabel="regret so far (lost rewards)",
    )
    legend(panel)
    text = (
        f"40 contexts; at each of {steps:,} steps, and in each run for itself, the "
        "adversary shows the context on which the current odds lose most."
    )
    caption = (
        "Even so, regret stays far below the bounds; most of the tuned policy's regret "
        "is its own exploration."
    )
    table = Table(
        ("policy", "regret", "± s.e.", "bound"),
        tuple(rows),
        f"Regret after {steps:,} steps, and bounds",
    )
    return Outcome(
        "An adaptive adversary", text, (), (Figure(svg(figure), caption),), (table,)
    )


ADVERSARY = Experiment(adversary)
