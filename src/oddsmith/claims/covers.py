"""Covers of a continuous class: finitely many experts stand for all weight vectors,
with the error in the bound."""

from typing import Any

import numpy as np

from oddsmith import theory
from oddsmith.claims.claim import Experiment, Outcome, Setup, measure
from oddsmith.core.arrays import Array
from oddsmith.core.gts import GeneralizedThompsonSampling
from oddsmith.experts.covers import ball_cover
from oddsmith.experts.linear import LinearExperts
from oddsmith.files.reports.page import Figure
from oddsmith.files.reports.style import COLOURS, legend, panels, svg
from oddsmith.lab.run import mean_and_error
from oddsmith.lab.worlds.linear import LogisticWorld

__all__ = ["COVERS"]

_NORM, _ARMS = 3.0, 3


def covers(setup: Setup) -> Outcome:
    """Regret is under the bound for every radius; finer covers have better bounds, down
    to that of the whole class."""
    steps, runs = setup.steps(3000, 1500), setup.runs(24)
    world = LogisticWorld(np.array([1.1, -1.9]), n_arms=_ARMS)
    radii = (0.5, 0.25, 0.125) if setup.quick else (0.5, 0.25, 0.125, 0.0625)
    totals, bounds, sizes_of = [], [], []
    for radius in radii:
        cover = ball_cover(2, _NORM, radius=radius)
        bound = theory.cover_bound(
            "logistic", n=cover.n, radius=radius, n_arms=_ARMS, steps=steps
        )
        experts = LinearExperts(cover)
        policy = GeneralizedThompsonSampling(
            experts, eta=float(bound.eta or 0.5), gamma=float(bound.gamma or 0.0)
        )
        totals.append(measure(policy, world, steps=steps, runs=runs).total)
        bounds.append(bound.bound)
        sizes_of.append(cover.n)
    whole = theory.class_bound("logistic", dim=2, norm=_NORM, n_arms=_ARMS, steps=steps)
    text = (
        "A logistic world in two dimensions; the true weight vector is in no cover. "
        "Each point of a cover is an expert."
    )
    figure = _figure(radii, totals, bounds, sizes_of, (whole.bound, steps))
    return Outcome("Covers of a continuous class", text, (), (figure,))


def _figure(
    radii: Any,
    totals: list[Array],
    bounds: list[float],
    n_experts: list[int],
    rest: Any,
) -> Figure:
    whole, steps = rest
    figure, (panel,) = panels()
    means = np.array([mean_and_error(total) for total in totals])
    style = {"color": COLOURS[0], "marker": "o"}
    panel.errorbar(
        radii,
        means[:, 0],
        2 * means[:, 1],
        label="measured, gamma from the bound",
        **style,
    )
    panel.plot(
        radii,
        bounds,
        "--",
        color=COLOURS[1],
        marker="s",
        label="bound, discretisation inside",
    )
    panel.axhline(whole, color=COLOURS[2], ls=":", label="bound of the whole class")
    for radius, n, most in zip(radii, n_experts, bounds, strict=True):
        panel.annotate(
            f"{n:,} experts",
            (radius, most),
            xytext=(0, 6),
            textcoords="offset points",
            fontsize=9,
            ha="center",
        )
    panel.margins(x=0.12)
    panel.set(
        xscale="log",
        xlabel="radius of the cover",
        ylabel=f"regret after {steps:,} steps",
        ylim=(0, max(bounds) * 1.2),
    )
    legend(panel)
    caption = (
        "Finer covers save more discretisation than their size costs: the bound comes "
        "down to that of the class."
    )
    return Figure(svg(figure), caption)


COVERS = Experiment(covers)
