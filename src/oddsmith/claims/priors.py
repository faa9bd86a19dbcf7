"""The effect of the prior: regret against ln 1/p, and Bayes regret against H(p*) +
KL(p*, p) (Corollaries 1 and 2)."""

from typing import Any

import numpy as np

from oddsmith import theory
from oddsmith.claims.claim import Experiment, Outcome, Setup, instance, measure
from oddsmith.claims.drawing import means_and_errors
from oddsmith.core.arrays import Array
from oddsmith.files.reports.page import Figure
from oddsmith.files.reports.style import COLOURS, MARKERS, legend, panels, svg
from oddsmith.lab.bayes import bayes_regret
from oddsmith.lab.worlds.tables import random_table

__all__ = ["BAYES", "PRIOR"]

_GAMMA = 0.1


def prior(setup: Setup) -> Outcome:
    """Show that regret and the total gap grow with the logarithm of 1/prior and stay
    below their bounds."""
    problem = instance()
    experts = problem.experts
    steps = setup.steps(4000, 1000)
    runs = setup.runs(60)
    priors = np.array([0.5, 0.1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12])
    coefficient = theory.tight_coefficient("square")
    series: dict[str, list[Array]] = {"gap": [], "regret": [], "plain": []}
    for p in priors:
        belief = _belief(p, problem.table.shape[1])
        policy = setup.gts(
            experts, "square", eta=coefficient.eta, gamma=_GAMMA, prior=belief
        )
        run = measure(policy, problem.world, steps=steps, runs=runs, trace=("gap",))
        series["gap"].append(run.traces["gap"].sum(axis=0))
        series["regret"].append(run.total)
        plain = setup.gts(experts, "log", eta=1.0, gamma=0.0, prior=belief)
        run = measure(plain, problem.world, steps=steps, runs=runs)
        series["plain"].append(run.total)
    text = (
        f"Square loss, eta = 1, gamma = {_GAMMA}, {steps:,} steps. If the prior of "
        "the right expert falls from a half to a millionth, regret grows only with "
        "the logarithm."
    )
    figure = _prior_figure(-np.log(priors), series, coefficient.c, steps)
    return Outcome("Regret against the prior", text, (), (figure,))


def _belief(p: float, n: int) -> Array:
    """Return a prior of p for the right expert and equal shares of the rest for the
    others."""
    share = (1 - p) / (n - 1)
    return np.array([p] + [share] * (n - 1))


def _prior_figure(
    surprise: Array, series: dict[str, list[Array]], c: float, steps: int
) -> Figure:
    figure, (left, right) = panels(2)
    style: Any = {"marker": MARKERS[0], "color": COLOURS[0]}
    means, errors = means_and_errors(series["gap"])
    left.errorbar(surprise, means, 2 * errors, label="measured", **style)
    label = "bound ln(1/p)/c (Lemma 1)"
    left.plot(surprise, surprise / c, "--", color=COLOURS[1], label=label)
    left.set_xlabel("ln 1/p of the true expert (nats)")
    left.set_ylabel("total Gibbs gap Σ D (squared reward)")
    left.set_title("Total error of learning")
    means, errors = means_and_errors(series["regret"])
    label = f"GTS, gamma {_GAMMA}"
    right.errorbar(surprise, means, 2 * errors, label=label, **style)
    style = {"marker": "s", "color": COLOURS[2]}
    means, errors = means_and_errors(series["plain"])
    right.errorbar(surprise, means, 2 * errors, label="Thompson sampling", **style)
    right.set_xlabel("ln 1/p of the true expert (nats)")
    right.set_ylabel(f"regret after {steps:,} steps")
    right.set_title("What it costs")
    right.set_ylim(bottom=0)
    legend(left)
    legend(right)
    caption = "Both grow linearly with ln 1/p."
    return Figure(svg(figure), caption)


_PEAKED = np.array([0.93] + [0.01] * 7)
_EVEN = np.full(8, 1 / 8)
_PAIRS: dict[str, tuple[Array, Array]] = {
    "a peaked truth, known": (_PEAKED, _PEAKED),
    "uniform truth and prior": (_EVEN, _EVEN),
    "peaked truth, uniform prior": (_PEAKED, _EVEN),
    "uniform truth, peaked prior": (_EVEN, _PEAKED),
    "peaked truth, reversed prior": (_PEAKED, _PEAKED[::-1].copy()),
    "fixed truth with prior 1e-6": (np.eye(8)[0], _belief(1e-6, 8)),
}


def bayes(setup: Setup) -> Outcome:
    """Compare Bayes regret with H(p*) + KL(p*, p), the quantity in its bound."""
    steps = setup.steps(3000, 500)
    runs = setup.runs(400)
    if setup.quick:
        runs *= 4
    table = random_table(10, 8, 3)
    figure, (panel,) = panels()
    pairs = enumerate(_PAIRS.items())
    for i, (name, (truth, belief)) in pairs:
        policy = setup.gts(table, gamma=0.02, prior=belief)
        result = bayes_regret(policy, truth, steps=steps, runs=runs, seed=3)
        label = f"{name} ({result.surprise:.2f})"
        style: Any = {"fmt": MARKERS[i], "color": COLOURS[i], "ms": 8}
        panel.errorbar(
            result.surprise, result.mean, 2 * result.error, label=label, **style
        )
    panel.set(xlabel="H(p*) + KL(p*, p), nats", ylim=(0, None))
    panel.set_ylabel(f"Bayes regret after {steps:,} steps")
    legend(panel)
    text = (
        "8 experts. In each run a different one is right, drawn from p*, while the "
        "policy starts with the prior p."
    )
    caption = (
        "The larger the cross entropy of truth and prior, the larger the regret; "
        "pairs with equal cross entropy have about the same regret."
    )
    drawing = Figure(svg(figure), caption)
    return Outcome("Bayes regret and a wrong prior", text, (), (drawing,))


PRIOR = Experiment(prior)
BAYES = Experiment(bayes)
