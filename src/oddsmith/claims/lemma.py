"""Lemma 1: the total shifted loss does not grow with T, and stays under L/c; its tail
is thin."""

from math import log
from typing import Any

import numpy as np

from oddsmith import theory
from oddsmith.claims.claim import (
    Break,
    Claim,
    Experiment,
    Outcome,
    Rule,
    Setup,
    instance,
    measure,
)
from oddsmith.claims.judgement import mean_most, rare
from oddsmith.core.arrays import Array
from oddsmith.files.reports.page import Figure
from oddsmith.files.reports.style import COLOURS, band, legend, panels, svg
from oddsmith.lab.run import mean_and_error
from oddsmith.lab.worlds.adversary import AdaptiveAdversary
from oddsmith.lab.worlds.tables import TableWorld
from oddsmith.theory.constants import c_square, lemma1

__all__ = ["LEMMA_1"]

TOTAL = Rule(
    "Lemma 1: the expected total shifted loss is at most ln(1/p)/c, at every T and "
    "whatever the contexts",
    "Lemma 1",
    "rejected if Student's lower limit of the mean total over runs is above the bound",
    1e-3,
    cases=6,
)
TAIL = Rule(
    "The total exceeds (ln(1/p) + ln(1/δ))/c with probability δ at most",
    "docs/math 3.4",
    "rejected if so many runs beyond it have a binomial probability below the level",
    1e-3,
    cases=3,
)
BREAKS = (
    Break("eta is 100 times too small", eta=0.01),
    Break("eta is 2 times too small", eta=0.5),
    Break("the loss sees predictions that are off by 0.2", shift=0.2),
)


def lemma_1(setup: Setup) -> Outcome:
    """The total Gibbs gap stays under its bound, whoever chooses the contexts; its tail
    is thin."""
    problem, steps, runs = instance(), setup.steps(30_000, 4000), setup.runs(60)
    surprise, slow = -log(problem.true_prior), lemma1(4.0).eta
    entries: dict[str, tuple[str, float, float | None]] = {
        "square, eta 1": (
            "square",
            1.0,
            surprise / theory.tight_coefficient("square").c,
        ),
        "square, the paper's eta 0.174": ("square", slow, surprise / c_square(slow)),
        "log, eta 1/2": ("log", 0.5, 2 * surprise),
        "log, eta 1 (Thompson sampling's)": ("log", 1.0, None),
    }
    claims, curves = [], {}
    for name, (loss, eta, bound) in entries.items():
        policy = setup.gts(problem.experts, loss, eta=eta, gamma=0.05)
        run = measure(policy, problem.world, steps=steps, runs=runs, trace=("gap",))
        curves[name] = np.cumsum(run.traces["gap"], axis=0), bound
        if bound is not None:
            claims.append(
                mean_most(
                    TOTAL,
                    f"32 experts, {name}, {steps:,} steps",
                    curves[name][0][-1],
                    bound,
                )
            )
    claims += [_two_experts(setup), *_adversary(setup), *_tail(setup)]
    text = (
        "32 experts, gamma 0.05. The gap D is how far a drawn expert's prediction of "
        "the drawn arm is from the truth, squared and averaged. Its sum over time is "
        "finite, which is why regret is sublinear. The lemma asks nothing of contexts: "
        "in two cases an adversary who sees the state shows the one on which the odds "
        "lose most."
    )
    return Outcome(
        "Lemma 1: what must be learnt is finite",
        text,
        tuple(claims),
        (_figure(curves),),
    )


def _pair(setup: Setup, apart: float, runs: int) -> Array:
    """Total gaps of two experts on a single arm, so close that their bound is nearly
    reached."""
    table = np.array([[[0.5], [0.5 + apart]]])
    policy = setup.gts(table, "square", eta=1.0)
    run = measure(
        policy,
        TableWorld(table[:, 0]),
        steps=setup.steps(4000, 2000),
        runs=runs,
        trace=("gap",),
    )
    total: Array = run.traces["gap"].sum(axis=0)
    return total


def _two_experts(setup: Setup) -> Claim:
    bound = log(2) / theory.tight_coefficient("square").c
    return mean_most(
        TOTAL, "two experts 0.1 apart, square, eta 1", _pair(setup, 0.1, 400), bound
    )


def _tail(setup: Setup) -> list[Claim]:
    """How often the total exceeds (L + ln 1/δ)/c, for some δ: at most δ (Ville)."""
    c, totals = theory.tight_coefficient("square").c, _pair(setup, 0.2, 400)
    return [
        rare(
            TAIL,
            f"δ = {delta:g}, two experts 0.2 apart",
            totals > (log(2) - log(delta)) / c,
            delta,
        )
        for delta in (0.5, 0.1, 0.01)
    ]


def _adversary(setup: Setup) -> list[Claim]:
    problem, steps = instance(contexts=40), setup.steps(3000, 1000)
    world, claims = AdaptiveAdversary(TableWorld(problem.table[:, 0])), []
    for gamma in (0.0, 0.2):
        policy = setup.gts(problem.experts, gamma=gamma)
        run = measure(policy, world, steps=steps, runs=setup.runs(48), trace=("gap",))
        case = f"an adaptive adversary, log, eta 1/2, gamma {gamma:g}"
        claims.append(
            mean_most(
                TOTAL, case, run.traces["gap"].sum(axis=0), -2 * log(problem.true_prior)
            )
        )
    return claims


def _figure(curves: dict[str, Any]) -> Figure:
    figure, (panel,) = panels()
    for i, (name, (total, bound)) in enumerate(curves.items()):
        at = np.unique(np.geomspace(1, len(total), 60).round().astype(int)) - 1
        points = np.array([mean_and_error(total[t]) for t in at])
        band(panel, at + 1, points[:, 0], points[:, 1], i, name)
        if bound is not None:
            panel.axhline(bound, color=COLOURS[i], lw=1, ls=":")
            panel.annotate(
                f"bound: {name}",
                (1.1 * 12**i, bound),
                color=COLOURS[i],
                fontsize=9,
                va="bottom",
            )
    panel.set(
        xscale="log",
        xlabel="steps",
        ylabel="total Gibbs gap Σ D so far (squared reward)",
        ylim=(0, None),
    )
    legend(panel)
    return Figure(
        svg(figure),
        "Every curve becomes flat below its own bound (dotted): learning ends, however "
        "long one plays.",
    )


LEMMA_1 = Experiment(lemma_1, (TOTAL, TAIL), BREAKS)
