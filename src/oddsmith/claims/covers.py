"""Covers of a continuous class: a finite set of experts that approximates all weight
vectors. The bound includes the approximation error."""

from typing import Any, NamedTuple

import numpy as np

from oddsmith import theory
from oddsmith.claims.claim import Experiment, Outcome, Setup, measure
from oddsmith.claims.drawing import means_and_errors
from oddsmith.core.arrays import Array
from oddsmith.core.gts import GeneralizedThompsonSampling
from oddsmith.experts.covers import ball_cover
from oddsmith.experts.linear import LinearExperts
from oddsmith.files.reports.page import Figure
from oddsmith.files.reports.style import COLOURS, legend, panels, svg
from oddsmith.lab.worlds.linear import LogisticWorld

__all__ = ["COVERS"]

_NORM = 3.0
_ARMS = 3


def covers(setup: Setup) -> Outcome:
    """Check that regret is below the bound for every radius. A finer cover has a
    smaller bound, down to that of the whole class."""
    steps = setup.steps(3000, 500)
    runs = setup.runs(24)
    world = LogisticWorld(np.array([1.1, -1.9]), n_arms=_ARMS)
    points = []
    for radius in (0.5, 0.25, 0.125) if setup.quick else (0.5, 0.25, 0.125, 0.0625):
        cover = ball_cover(2, _NORM, radius=radius)
        bound = theory.cover_bound(
            "logistic", n=cover.n, radius=radius, n_arms=_ARMS, steps=steps
        )
        eta = float(bound.eta or 0.5)
        gamma = float(bound.gamma or 0.0)
        policy = GeneralizedThompsonSampling(
            LinearExperts(cover),
            eta=eta,
            gamma=gamma,
        )
        total = measure(policy, world, steps=steps, runs=runs).total
        points.append(_Point(radius, total, bound.bound, cover.n))
    whole = theory.class_bound("logistic", dim=2, norm=_NORM, n_arms=_ARMS, steps=steps)
    text = (
        "A logistic world in two dimensions; no cover contains the true weight "
        "vector. Each point of a cover is an expert."
    )
    figure = _figure(points, whole.bound, steps)
    return Outcome("Covers of a continuous class", text, (), (figure,))


class _Point(NamedTuple):
    """The regret of each run with one cover, and its bound."""

    radius: float
    total: Array
    bound: float
    n_experts: int


def _figure(points: list[_Point], whole: float, steps: int) -> Figure:
    radii = [point.radius for point in points]
    bounds = [point.bound for point in points]
    totals = [point.total for point in points]
    means, errors = means_and_errors(totals)
    figure, (panel,) = panels()
    style: Any = {"color": COLOURS[0], "marker": "o"}
    label = "measured, gamma from the bound"
    panel.errorbar(radii, means, 2 * errors, label=label, **style)
    style = {"color": COLOURS[1], "marker": "s"}
    panel.plot(radii, bounds, "--", label="bound, discretisation inside", **style)
    panel.axhline(whole, color=COLOURS[2], ls=":", label="bound of the whole class")
    for point in points:
        place = {"xytext": (0, 6), "textcoords": "offset points", "ha": "center"}
        label = f"{point.n_experts:,} experts"
        place_of_label = (point.radius, point.bound)
        panel.annotate(label, place_of_label, fontsize=9, **place)
    panel.margins(x=0.12)
    panel.set(xscale="log", xlabel="radius of the cover")
    ylim = (0, max(bounds) * 1.2)
    panel.set(ylabel=f"regret after {steps:,} steps", ylim=ylim)
    legend(panel)
    caption = (
        "A finer cover reduces the discretisation error by more than its size "
        "costs: the bound falls towards that of the whole class."
    )
    return Figure(svg(figure), caption)


COVERS = Experiment(covers)
