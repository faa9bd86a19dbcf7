"""Lemma 1: the total shifted loss does not grow with T, and stays under L/c; its tail is thin."""

from math import log
from typing import Any

import numpy as np

from oddsmith import theory
from oddsmith.arrays import Array
from oddsmith.lab.claims.base import Claim, Outcome, Sizes, at_most, gts, instance, measure, no_more
from oddsmith.lab.run import mean_and_error
from oddsmith.reports.page import Figure
from oddsmith.reports.style import COLOURS, band, legend, panels, svg
from oddsmith.theory.constants import c_square, lemma1
from oddsmith.worlds.tables import TableWorld

__all__ = ["lemma_1"]

_SLOW = "square, the paper's eta 0.174"


def lemma_1(sizes: Sizes) -> Outcome:
    """The total Gibbs gap is flat in T and under its bound; without a bound at eta = 1 of the log loss."""
    problem, steps, runs = instance(), sizes.steps(30_000, 4000), sizes.runs(60)
    surprise = -log(problem.true_prior)
    slow = lemma1(4.0).eta
    entries: dict[str, tuple[str, float, float | None]] = {
        "square, eta 1": ("square", 1.0, surprise / theory.tight_coefficient("square").c),
        _SLOW: ("square", slow, surprise / c_square(slow)),
        "log, eta 1/2": ("log", 0.5, 2 * surprise),
        "log, eta 1 (Thompson sampling's)": ("log", 1.0, None),
    }
    claims, curves = [], {}
    for name, (loss, eta, bound) in entries.items():
        policy = gts(problem.experts, loss, eta=eta, gamma=0.05)
        run = measure(policy, problem.world, steps=steps, runs=runs, trace=("gap",))
        curves[name] = np.cumsum(run.traces["gap"], axis=0), bound
        total = curves[name][0][-1]
        if bound is not None:
            claims.append(at_most(f"total gap after {steps:,} steps: {name}", "Lemma 1", total, bound))
        if eta != slow:
            claims.append(_flat(name, curves[name][0]))
    paper = theory.total_loss_bound(4.0, problem.true_prior).bound
    claims.append(at_most("the same against the paper's own bound", "Lemma 1", curves[_SLOW][0][-1], paper))
    claims += _tail(curves["square, eta 1"][0][-1], surprise)
    claims.append(_two_experts(steps, runs))
    text = (
        "32 experts, gamma 0.05. The gap D is how far a drawn expert's prediction of the drawn arm is from the truth, "
        "squared and averaged. Its sum over time is finite, which is why regret is sublinear."
    )
    return Outcome("Lemma 1: what must be learnt is finite", text, tuple(claims), (_figure(curves),))


def _flat(name: str, total: Array) -> Claim:
    """The share of the total that the second half of the steps adds."""
    mean = total.mean(axis=1)
    added = float((mean[-1] - mean[len(mean) // 2]) / mean[-1])
    return Claim(f"added by the second half of the steps: {name}", "Lemma 1", "≤ 8%", f"{added:.1%}", added <= 0.08)


def _tail(totals: Array, surprise: float) -> list[Claim]:
    """How often the total exceeds (L + ln 1/δ)/c, for some δ: at most δ (Ville)."""
    c = theory.tight_coefficient("square").c
    claims = []
    for delta in (0.5, 0.1, 0.01):
        share = float((totals > (surprise - log(delta)) / c).mean())
        what = f"runs whose total gap exceeds (L + ln 1/{delta:g})/c"
        claims.append(no_more(what, "docs/math 3.4", share, delta))
    return claims


def _two_experts(steps: int, runs: int) -> Claim:
    """Two experts 0.05 apart on a single arm: a hard case, closer to its bound."""
    table = np.array([[[0.5], [0.55]]])
    policy = gts(table, "square", eta=1.0)
    run = measure(policy, TableWorld(table[:, 0]), steps=steps, runs=4 * runs, trace=("gap",))
    bound = log(2) / theory.tight_coefficient("square").c
    return at_most("total gap of two experts 0.05 apart", "Lemma 1", run.traces["gap"].sum(axis=0), bound)


def _figure(curves: dict[str, Any]) -> Figure:
    figure, (panel,) = panels()
    for i, (name, (total, bound)) in enumerate(curves.items()):
        at = np.unique(np.geomspace(1, len(total), 60).round().astype(int)) - 1
        points = np.array([mean_and_error(total[t]) for t in at])
        band(panel, at + 1, points[:, 0], points[:, 1], i, name)
        if bound is not None:
            panel.axhline(bound, color=COLOURS[i], lw=1, ls=":")
            panel.annotate(f"bound: {name}", (1.1 * 12**i, bound), color=COLOURS[i], fontsize=9, va="bottom")
    panel.set(xscale="log", xlabel="steps", ylabel="total Gibbs gap Σ D so far (squared reward)", ylim=(0, None))
    legend(panel)
    return Figure(
        svg(figure), "Every curve becomes flat below its own bound (dotted): learning ends, however long one plays."
    )
