"""Regret against the horizon, for both losses under the paper's and the tight constants (Corollary 1, Theorem 1)."""

from collections.abc import Callable
from functools import partial
from math import log
from typing import Any, NamedTuple

import numpy as np

from oddsmith import theory
from oddsmith.arrays import Array
from oddsmith.lab.claims.base import Claim, Outcome, Sizes, at_most, between, gts, in_order, instance, measure
from oddsmith.lab.problems import Problem
from oddsmith.lab.run import mean_and_error
from oddsmith.policies.gts import GeneralizedThompsonSampling
from oddsmith.policies.recipes import feel_good, thompson_sampling
from oddsmith.reports.page import Figure
from oddsmith.reports.style import COLOURS, MARKERS, legend, panels, svg
from oddsmith.theory.bounds import Bound
from oddsmith.theory.constants import Constants

__all__ = ["horizon"]


class _Entry(NamedTuple):
    """A bound for every horizon (None where the theory has none), and the policy for a horizon and its bound."""

    where: str
    bound: Callable[[int], Bound | None]
    policy: Callable[[int, Bound | None], GeneralizedThompsonSampling]


def _tuned(problem: Problem, loss: str, _: int, bound: Bound | None) -> GeneralizedThompsonSampling:
    assert bound is not None
    return gts(problem.experts, loss, eta=float(bound.eta or 0.0), gamma=float(bound.gamma or 0.0))


def _entries(problem: Problem) -> dict[str, _Entry]:
    given: Any = {"n_arms": problem.n_arms, "prior": problem.true_prior}
    beta, experts = theory.beta(problem.table), problem.experts

    def tuned(where: str, loss: str, constants: Constants = "tight", beta: float | None = None) -> _Entry:
        bound = partial(theory.regret_bound, loss, constants=constants, beta=beta, **given)
        return _Entry(where, lambda t: bound(steps=t), partial(_tuned, problem, loss))

    return {
        "square, paper's constants": tuned("Corollary 1", "square", constants="paper"),
        "square, tight constants": tuned("Theorem 1", "square"),
        "log, paper's constants": tuned("Corollary 1", "log", constants="paper", beta=beta),
        "log, tight constants": tuned("Theorem 1", "log"),
        "Feel-Good": _Entry(
            "Zhang 2022",
            lambda t: theory.feelgood_bound("log", steps=t, **given),
            lambda t, _: feel_good(experts, n_arms=problem.n_arms, steps=t),
        ),
        "Thompson sampling": _Entry("Section 3", lambda _: None, lambda _, __: thompson_sampling(experts)),
    }


def horizon(sizes: Sizes) -> Outcome:
    """Tuned regret grows like T^(2/3), far below its bounds; without exploration it stays flat on a benign instance."""
    problem, runs = instance(), sizes.runs(60)
    horizons = [300, 1000, 3000] + ([] if sizes.quick else [10_000, 30_000])
    entries = _entries(problem)
    totals: dict[str, list[Array]] = {name: [] for name in entries}
    bounds: dict[str, list[float]] = {name: [] for name in entries}
    for steps in horizons:
        for name, entry in entries.items():
            bound = entry.bound(steps)
            totals[name].append(measure(entry.policy(steps, bound), problem.world, steps=steps, runs=runs).total)
            bounds[name].append(bound.bound if bound else np.nan)
    claims = []
    for name, entry in entries.items():
        for t, total, most in zip(horizons, totals[name], bounds[name], strict=True):
            if not np.isnan(most):
                claims.append(at_most(f"regret of {name}, T = {t:,}", entry.where, total, most, steps=t))
    last = {name: mean_and_error(values[-1])[0] for name, values in totals.items()}
    ranked = ["Thompson sampling", "Feel-Good", "log, tight constants", "square, paper's constants"]
    claims.append(in_order("ranking at the longest horizon", "Section 5", ranked, [last[name] for name in ranked]))
    claims.append(_growth(horizons, totals["square, tight constants"]))
    figure = _figure(horizons, totals, bounds)
    text = (
        "32 experts, one of them true, 3 arms, 10 contexts; eta and gamma from each bound, for each horizon. Regret is "
        "dominated by the exploration gamma T that the bound asks for: on a benign instance that is far too much."
    )
    return Outcome("Regret against the horizon", text, tuple(claims), (figure,))


def _growth(horizons: list[int], totals: list[Array]) -> Claim:
    """The local slope on log scales between the last two horizons."""
    (first, e1), (second, e2) = (mean_and_error(total) for total in totals[-2:])
    width = log(horizons[-1] / horizons[-2])
    slope, error = log(second / first) / width, np.hypot(e1 / first, e2 / second) / width
    what = "growth of tuned regret (square, tight): exponent of T over the last horizons, towards 2/3"
    return between(what, "Corollary 1", slope, 0.45, 0.72, error=float(error))


def _figure(horizons: list[int], totals: dict[str, list[Array]], bounds: dict[str, list[float]]) -> Figure:
    figure, axes = panels(2)
    for panel, loss in zip(axes, ("square", "log"), strict=True):
        names = [name for name in totals if name.startswith(loss) or name in ("Feel-Good", "Thompson sampling")]
        for i, name in enumerate(names):
            points = np.array([mean_and_error(total) for total in totals[name]])
            style = {"color": COLOURS[i], "marker": MARKERS[i], "ms": 5}
            panel.errorbar(horizons, points[:, 0], 2 * points[:, 1], label=name, **style)
            if not np.isnan(bounds[name]).any():
                panel.plot(horizons, bounds[name], ls="--", color=COLOURS[i], lw=1.2, label=f"bound: {name}")
        panel.set(xscale="log", yscale="log", xlabel="horizon T (steps)", title=f"{loss} loss")
        legend(panel)
    axes[0].set(ylabel="regret after T steps (lost rewards)")
    ceiling = max(panel.get_ylim()[1] for panel in axes)
    for panel in axes:
        panel.set_ylim(1, 40 * ceiling)
    caption = (
        "Measured regret (solid, two standard errors) lies below its bound (dashed, same colour) at every horizon."
    )
    return Figure(svg(figure), caption)
