"""Regret as a function of the horizon, for both losses with the paper's and the tight
constants (Corollary 1, Theorem 1)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from oddsmith import theory
from oddsmith.claims.claim import Experiment, Outcome, Setup, instance, measure
from oddsmith.claims.drawing import draw_means
from oddsmith.core.arrays import Array
from oddsmith.core.gts import GeneralizedThompsonSampling
from oddsmith.files.reports.page import Figure
from oddsmith.files.reports.style import COLOURS, legend, panels, svg
from oddsmith.lab.problems import Problem
from oddsmith.policies.recipes import feel_good, thompson_sampling
from oddsmith.theory.bounds import Bound
from oddsmith.theory.constants import Constants

__all__ = ["HORIZON"]


class _Entry(NamedTuple):
    """A bound as a function of the horizon (None if the theory has none), and the
    policy as a function of the horizon and its bound."""

    bound: Callable[[int], Bound | None]
    policy: Callable[[int, Bound | None], GeneralizedThompsonSampling]


def _entries(problem: Problem) -> dict[str, _Entry]:
    given: Any = {"n_arms": problem.n_arms, "prior": problem.true_prior}
    beta = theory.beta(problem.table)
    experts = problem.experts

    def tuned(
        loss: str, constants: Constants = "tight", beta: float | None = None
    ) -> _Entry:
        def policy_of(_: int, bound: Bound | None) -> GeneralizedThompsonSampling:
            assert bound is not None
            eta = float(bound.eta or 0.0)
            gamma = float(bound.gamma or 0.0)
            return Setup(quick=False).gts(experts, loss, eta=eta, gamma=gamma)

        def bound_of(steps: int) -> Bound:
            return theory.regret_bound(
                loss, constants=constants, beta=beta, steps=steps, **given
            )

        return _Entry(bound_of, policy_of)

    return {
        "square, paper's constants": tuned("square", constants="paper"),
        "square, tight constants": tuned("square"),
        "log, paper's constants": tuned("log", constants="paper", beta=beta),
        "log, tight constants": tuned("log"),
        "Feel-Good": _Entry(
            lambda steps: theory.feelgood_bound("log", steps=steps, **given),
            lambda steps, _: feel_good(experts, n_arms=problem.n_arms, steps=steps),
        ),
        "Thompson sampling": _Entry(
            lambda _: None, lambda _, __: thompson_sampling(experts)
        ),
    }


def horizon(setup: Setup) -> Outcome:
    """Show that tuned regret grows like T^(2/3), far below its bounds, and that without
    exploration it stays flat on a benign problem."""
    problem = instance()
    runs = setup.runs(60)
    horizons = [300, 1000, 3000]
    if not setup.quick:
        horizons += [10_000, 30_000]
    entries = _entries(problem)
    totals: dict[str, list[Array]] = {name: [] for name in entries}
    bounds: dict[str, list[float]] = {name: [] for name in entries}
    for steps in horizons:
        for name, entry in entries.items():
            bound = entry.bound(steps)
            policy = entry.policy(steps, bound)
            run = measure(policy, problem.world, steps=steps, runs=runs)
            totals[name].append(run.total)
            bounds[name].append(bound.bound if bound else np.nan)
    figure = _figure(horizons, totals, bounds)
    text = (
        "32 experts, one of them right, 3 arms, 10 contexts; eta and gamma come from "
        "each bound, for each horizon. Most of the regret is the exploration gamma T "
        "that the bound prescribes, which is far too much on a benign problem."
    )
    return Outcome("Regret against the horizon", text, (), (figure,))


def _figure(
    horizons: list[int], totals: dict[str, list[Array]], bounds: dict[str, list[float]]
) -> Figure:
    figure, axes = panels(2)
    for panel, loss in zip(axes, ("square", "log"), strict=True):
        names = [name for name in totals if name.startswith(loss)]
        names += ["Feel-Good", "Thompson sampling"]
        for i, name in enumerate(names):
            draw_means(panel, horizons, totals[name], i, name)
            if not np.isnan(bounds[name]).any():
                style: Any = {"ls": "--", "color": COLOURS[i], "lw": 1.2}
                panel.plot(horizons, bounds[name], label=f"bound: {name}", **style)
        panel.set(xscale="log", yscale="log", title=f"{loss} loss")
        panel.set_xlabel("horizon T (steps)")
        legend(panel)
    axes[0].set(ylabel="regret after T steps (lost rewards)")
    tops = [panel.get_ylim()[1] for panel in axes]
    ceiling = max(tops)
    for panel in axes:
        panel.set_ylim(1, 40 * ceiling)
    caption = (
        "Measured regret (solid, two standard errors) lies below its bound (dashed, "
        "same colour) at every horizon."
    )
    return Figure(svg(figure), caption)


HORIZON = Experiment(horizon)
