"""Lemma 1: the total shifted loss does not grow with T and stays below L/c, also with
high probability."""

from math import log
from typing import NamedTuple

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
from oddsmith.claims.drawing import draw_growth
from oddsmith.claims.judgement import mean_most, rare
from oddsmith.core.arrays import Array
from oddsmith.files.reports.page import Figure
from oddsmith.files.reports.style import COLOURS, legend, panels, svg
from oddsmith.lab.worlds.adversary import AdaptiveAdversary
from oddsmith.lab.worlds.tables import TableWorld
from oddsmith.theory.constants import c_square, lemma1

__all__ = ["LEMMA_1"]

TOTAL = Rule(
    "Lemma 1: the expected total shifted loss is at most ln(1/p)/c, for every T and "
    "any contexts",
    "Lemma 1",
    "rejected if Student's lower limit of the mean total over runs is above the bound",
    1e-3,
    cases=6,
)
TAIL = Rule(
    "The total exceeds (ln(1/p) + ln(1/δ))/c with probability at most δ",
    "docs/math 3.4",
    "rejected if the binomial probability of so many runs above it is below the level",
    1e-3,
    cases=3,
)
BREAKS = (
    Break("eta is 100 times too small", eta=0.01),
    Break("eta is 2 times too small", eta=0.5),
    Break("the loss sees predictions that are off by 0.2", shift=0.2),
)


def lemma_1(setup: Setup) -> Outcome:
    """Check that the total Gibbs gap stays below its bound for any contexts, and that
    few runs exceed it."""
    problem = instance()
    steps = setup.steps(30_000, 4000)
    runs = setup.runs(60)
    surprise = -log(problem.true_prior)
    slow = lemma1(4.0).eta
    c = theory.tight_coefficient("square").c
    entries = {
        "square, eta 1": _Entry("square", 1.0, surprise / c),
        "square, the paper's eta 0.174": _Entry(
            "square", slow, surprise / c_square(slow)
        ),
        "log, eta 1/2": _Entry("log", 0.5, 2 * surprise),
        "log, eta 1 (Thompson sampling's)": _Entry("log", 1.0, None),
    }
    claims = []
    figure, (panel,) = panels()
    for i, (name, entry) in enumerate(entries.items()):
        policy = setup.gts(problem.experts, entry.loss, eta=entry.eta, gamma=0.05)
        run = measure(policy, problem.world, steps=steps, runs=runs, trace=("gap",))
        total = np.cumsum(run.traces["gap"], axis=0)
        draw_growth(panel, total, i, name, points=60)
        if entry.bound is None:
            continue
        case = f"32 experts, {name}, {steps:,} steps"
        claims.append(mean_most(TOTAL, case, total[-1], entry.bound))
        colour = COLOURS[i]
        panel.axhline(entry.bound, color=colour, lw=1, ls=":")
        place = (1.1 * 12**i, entry.bound)
        panel.annotate(f"bound: {name}", place, color=colour, fontsize=9, va="bottom")
    panel.set(xscale="log", xlabel="steps", ylim=(0, None))
    panel.set_ylabel("total Gibbs gap Σ D (squared reward)")
    legend(panel)
    claims += [_two_experts(setup), *_adversary(setup), *_tail(setup)]
    text = (
        "32 experts, gamma 0.05. The gap D is the mean squared difference between a "
        "drawn expert's prediction for the drawn arm and the true mean. Its sum over "
        "time is finite, which is why regret is sublinear. The lemma holds for any "
        "contexts: in two cases an adversary who sees the state shows the context on "
        "which the propensities lose the most reward."
    )
    caption = (
        "Every curve becomes flat below its own bound (dotted): the total error of "
        "learning is finite for any number of steps."
    )
    title = "Lemma 1: the total error of learning is finite"
    drawing = Figure(svg(figure), caption)
    return Outcome(title, text, tuple(claims), (drawing,))


class _Entry(NamedTuple):
    """A loss, its eta, and the bound of the total gap, if it has one."""

    loss: str
    eta: float
    bound: float | None


def _pair(setup: Setup, apart: float, runs: int) -> Array:
    """Return the total gaps of two experts on a single arm, whose predictions are so
    close that the bound is nearly reached."""
    predictions = [[0.5], [0.5 + apart]]
    table = np.array([predictions])
    policy = setup.gts(table, "square", eta=1.0)
    world = TableWorld(table[:, 0])
    steps = setup.steps(4000, 2000)
    run = measure(policy, world, steps=steps, runs=runs, trace=("gap",))
    total: Array = run.traces["gap"].sum(axis=0)
    return total


def _two_experts(setup: Setup) -> Claim:
    bound = log(2) / theory.tight_coefficient("square").c
    total = _pair(setup, 0.1, 400)
    return mean_most(TOTAL, "two experts 0.1 apart, square, eta 1", total, bound)


def _tail(setup: Setup) -> list[Claim]:
    """Check for several δ that the total exceeds (L + ln 1/δ)/c in at most a fraction δ
    of the runs (Ville's inequality)."""
    c = theory.tight_coefficient("square").c
    totals = _pair(setup, 0.2, 400)
    claims = []
    for delta in (0.5, 0.1, 0.01):
        bound = (log(2) - log(delta)) / c
        case = f"δ = {delta:g}, two experts 0.2 apart"
        claims.append(rare(TAIL, case, totals > bound, delta))
    return claims


def _adversary(setup: Setup) -> list[Claim]:
    problem = instance(contexts=40)
    world = AdaptiveAdversary(TableWorld(problem.table[:, 0]))
    steps = setup.steps(3000, 1000)
    runs = setup.runs(48)
    bound = -2 * log(problem.true_prior)
    claims = []
    for gamma in (0.0, 0.2):
        policy = setup.gts(problem.experts, gamma=gamma)
        run = measure(policy, world, steps=steps, runs=runs, trace=("gap",))
        total = run.traces["gap"].sum(axis=0)
        case = f"an adaptive adversary, log, eta 1/2, gamma {gamma:g}"
        claims.append(mean_most(TOTAL, case, total, bound))
    return claims


LEMMA_1 = Experiment(lemma_1, (TOTAL, TAIL), BREAKS)
