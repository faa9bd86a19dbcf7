"""Both sides of Theorem 1 and Corollary 2, computed exactly in worlds of two experts
(docs/math 10.1, 10.6)."""

from collections.abc import Sequence
from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np

from oddsmith import theory
from oddsmith.claims.claim import Break, Experiment, Outcome, Rule, Setup
from oddsmith.claims.judgement import most
from oddsmith.claims.two_experts import FLIPPED, Sampling, World, exact, exact_regret
from oddsmith.files.reports.page import Figure
from oddsmith.files.reports.style import COLOURS, MARKERS, legend, panels, svg
from oddsmith.theory.constants import kappa1_averaged, lemma1

__all__ = ["COROLLARY_2", "THEOREM_1"]

_C = 0.463177  # the constant c(1) of square loss, see docs/math 3.3


class Case(NamedTuple):
    """A world V(K, Δ), the prior of the right expert, the exploration rate and the
    number of steps."""

    n_arms: int
    delta: float
    prior: float
    gamma: float
    steps: int

    def __str__(self) -> str:
        problem = f"K {self.n_arms}, Δ {self.delta:g}, p {self.prior:g}"
        return f"{problem}, γ {self.gamma:g}, T {self.steps:,}"


_CASES = (
    Case(2, 0.1, 0.5, 0.1, 1000),
    Case(2, 0.25, 0.5, 0.05, 1000),
    Case(2, 0.1, 1e-3, 0.1, 10_000),
    Case(5, 0.1, 0.01, 0.2, 10_000),
    Case(10, 0.05, 1e-3, 0.2, 30_000),
    Case(2, 0.05, 1e-6, 0.1, 30_000),
    Case(2, 0.4, 1e-6, 0.1, 10_000),
)
PAPER = Rule(
    "Theorem 1: regret is at most kappa_1 (1-γ) √(T Σ lbar) + γT",
    "Theorem 1",
    "exact regret ≤ the right side with the exact Σ lbar and kappa_1 = √(2K/γ)",
    cases=len(_CASES),
)
TIGHT = Rule(
    "Theorem 1 with the averaged kappa_1, and γT (K-1)/K for the cost of exploration",
    "docs/math 3.4",
    "exact regret ≤ this smaller right side",
    cases=len(_CASES),
)
TOTAL = Rule(
    "The total shifted loss of square loss at eta = 1 is at most ln(1/p)/0.463177",
    "docs/math 3.3",
    "exact Σ lbar ≤ the bound",
    cases=len(_CASES),
)


def theorem_1(setup: Setup) -> Outcome:
    """Compare regret with both right-hand sides, computed from the exact total loss, in
    seven worlds."""
    claims = []
    labels = []
    series: dict[str, list[float]] = {
        "regret": [],
        "right-hand side, averaged kappa_1": [],
        "right-hand side, the paper's": [],
    }
    for case in _CASES:
        label = str(case)
        learner = Sampling.of_setup(setup, "square", eta=1.0, gamma=case.gamma)
        world = World(case.delta, case.prior, case.n_arms)
        found = exact(world, learner, case.steps)
        explored = case.gamma * case.steps
        exploited = 1 - case.gamma
        root = sqrt(case.steps * found.loss)
        kappa1 = sqrt(2 * case.n_arms / case.gamma)
        paper = kappa1 * exploited * root + explored
        kappa1 = kappa1_averaged(case.n_arms, case.gamma)
        share = (case.n_arms - 1) / case.n_arms
        learning = kappa1 * exploited * root
        tight = learning + explored * share
        bound = log(1 / case.prior) / _C
        claims += [
            most(PAPER, label, found.regret, paper),
            most(TIGHT, label, found.regret, tight),
            most(TOTAL, label, found.loss, bound),
        ]
        labels.append(label)
        values = (found.regret, tight, paper)
        for column, value in zip(series.values(), values, strict=True):
            column.append(value)
    caption = (
        "Both sides of Theorem 1: the inequality holds, with more slack where there "
        "is less to learn."
    )
    text = (
        "World V(K, Δ): all arms have mean 1/2, except the last with 1/2 + Δ, for "
        "which a second expert predicts 1/2 - Δ. Square loss, eta 1. Regret and the "
        "total shifted loss are exact, by dynamic programming."
    )
    figure = Figure(_dots(labels, series), caption)
    return Outcome("Theorem 1: both sides", text, tuple(claims), (figure,))


def _dots(labels: Sequence[str], series: dict[str, list[float]]) -> str:
    """Draw a line for each label and a mark for each series."""
    height = 0.8 + 0.34 * len(labels)
    figure, (panel,) = panels(height=height)
    places = np.arange(len(labels))
    for i, (name, values) in enumerate(series.items()):
        style: Any = {"color": COLOURS[i], "marker": MARKERS[i], "ls": "none", "ms": 6}
        panel.plot(values, places, label=name, **style)
    panel.set_yticks(places, labels)
    ylim = (len(labels) - 0.5, -0.5)
    panel.set(xscale="log", xlabel="lost rewards", ylim=ylim)
    legend(panel)
    return svg(figure)


_DELTA = 0.45
_GAMMA = 0.05
_STEPS = 200_000
RIGHT_PRIOR = Rule(
    "Corollary 2: under the right prior Bayes regret is at most the bound with √H(p)",
    "Corollary 2",
    "exact Bayes regret ≤ the bound with Σ p_i √ln(1/p_i), which is at most Corollary "
    "2's",
    cases=2,
)
WRONG_PRIOR = Rule(
    "Corollary 2: under a wrong prior Bayes regret is at most the bound with √(H(p*) "
    "+ KL(p*, p))",
    "Corollary 2",
    "exact Bayes regret ≤ the bound with Σ p*_i √ln(1/p_i), which is at most Corollary "
    "2's",
    cases=4,
)
# pairs of prior weights (p*_1, p_1)
_PRIORS = ((0.5, 0.5), (0.9, 0.9), (0.9, 0.1), (1.0, 0.01), (0.5, 0.01), (1.0, 1e-6))


def corollary_2(setup: Setup) -> Outcome:
    """Compare exact Bayes regret, where either expert may be right, with Corollary 2
    before and after Jensen's inequality."""
    eta = lemma1(4.0).eta
    learner = Sampling.of_setup(setup, "square", eta=eta, gamma=_GAMMA)
    problem: Any = {
        "loss": "square",
        "n_arms": 2,
        "steps": _STEPS,
        "gamma": _GAMMA,
        "constants": "paper",
    }
    claims = []
    labels = []
    series: dict[str, list[float]] = {
        "Bayes regret": [],
        "bound before Jensen": [],
        "Corollary 2": [],
    }
    for truth, prior in _PRIORS:
        first_true = exact_regret(World(_DELTA, prior, 2, True), learner, _STEPS)
        second_true = exact_regret(World(_DELTA, prior, 2, False), learner, _STEPS)
        rest = (1 - truth) * second_true
        bayes = truth * first_true + rest
        known = ([truth, 1 - truth], [prior, 1 - prior])
        sharp = theory.bayes_regret_bound(*known, jensen=False, **problem).bound
        printed = theory.bayes_regret_bound(*known, jensen=True, **problem).bound
        rule = WRONG_PRIOR
        if truth == prior:
            rule = RIGHT_PRIOR
        label = f"p* {truth:g}, p {prior:g}"
        claims.append(most(rule, label, bayes, sharp))
        labels.append(label)
        values = (bayes, sharp, printed)
        for column, value in zip(series.values(), values, strict=True):
            column.append(value)
    text = (
        f"World V(2, {_DELTA:g}), {_STEPS:,} steps, γ {_GAMMA:g}, the paper's eta "
        "0.174 and kappas. Expert 1 is right with probability p* and has the prior "
        f"p. A policy that never learns loses {_DELTA * _STEPS:,.0f}."
    )
    caption = (
        "A wrong prior increases regret and bound alike; Jensen's inequality makes "
        "the bound a little larger."
    )
    figure = Figure(_dots(labels, series), caption)
    title = "Corollary 2: the effect of the prior, exactly"
    return Outcome(title, text, tuple(claims), (figure,))


_DROPPED = Break("gamma is dropped", gamma=0.0)
_OPPOSITE = Break("it learns from 1 - r", other=FLIPPED)
THEOREM_1 = Experiment(
    theorem_1,
    (PAPER, TIGHT, TOTAL),
    (
        _DROPPED,
        _OPPOSITE,
        Break("eta is 8 times too small", eta=0.125),
        Break("eta is 2 times too small", eta=0.5),
    ),
)
COROLLARY_2 = Experiment(corollary_2, (RIGHT_PRIOR, WRONG_PRIOR), (_DROPPED, _OPPOSITE))
