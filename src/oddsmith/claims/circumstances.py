"""Experiments that change one condition of a fixed problem: the learning rate, switches
of the true expert, a wrong model, rounded rewards."""

from typing import Any

import numpy as np

from oddsmith import theory
from oddsmith.claims.claim import Experiment, Outcome, Setup, instance, measure
from oddsmith.claims.drawing import draw_means
from oddsmith.files.reports.page import Figure
from oddsmith.files.reports.style import COLOURS, EDGE, MARKERS, legend, panels, svg
from oddsmith.lab.run import mean_and_error
from oddsmith.lab.worlds.drift import SwitchingWorld
from oddsmith.lab.worlds.tables import TableWorld
from oddsmith.lab.worlds.world import Bernoulli, Beta, Noise

__all__ = ["LEARNING_RATE", "MISSPECIFIED", "ROUNDING", "SWITCHING"]

_GAMMA = 0.05


def learning_rate(setup: Setup) -> Outcome:
    """Plot regret against eta on a benign problem. A larger eta is better there, and
    the gain levels off. The experiment `phase` shows the risk of a large eta."""
    problem = instance()
    steps = setup.steps(4000, 1000)
    runs = setup.runs()
    etas = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
    figure, (panel,) = panels()
    for i, loss in enumerate(("square", "log")):
        totals = []
        for eta in etas:
            policy = setup.gts(problem.experts, loss, eta=eta, gamma=_GAMMA)
            run = measure(policy, problem.world, steps=steps, runs=runs)
            totals.append(run.total)
        draw_means(panel, etas, totals, i, f"{loss} loss")
    panel.set(xscale="log", xlabel="learning rate eta", ylim=(0, None))
    panel.set_ylabel(f"regret after {steps:,} steps")
    legend(panel)
    text = (
        f"gamma = {_GAMMA}. This problem is benign; the phase transition above "
        "shows where a large eta hurts."
    )
    caption = (
        "Small learning rates learn slowly; beyond the safe 1/2 (log loss) and 1 "
        "(square loss) little is gained."
    )
    return Outcome("Learning rates", text, (), (Figure(svg(figure), caption),))


def switching(setup: Setup) -> Outcome:
    """Plot regret against the rate of fixed share when the true expert switches. The
    best rate is about switches/T, and the bound holds."""
    problem = instance()
    steps = setup.steps(6000, 1000)
    runs = setup.runs(60)
    truths = (0, 5, 11, 17)
    switches = len(truths) - 1
    n = len(truths)
    ends = [steps * (i + 1) // n for i in range(switches)]
    worlds = [TableWorld(problem.table[:, truth]) for truth in truths]
    world = SwitchingWorld(worlds, until=ends)
    best = switches / (steps - 1)
    shares = (0.0, 1e-4, best, 1e-3, 1e-2, 0.1)
    totals = []
    for share in shares:
        policy = setup.gts(problem.experts, gamma=_GAMMA, share=share)
        run = measure(policy, world, steps=steps, runs=runs)
        totals.append(run.total)
    found = theory.switching_bound(
        "log",
        switches=switches,
        n_arms=3,
        steps=steps,
        prior=problem.true_prior,
        gamma=_GAMMA,
    )
    bound = found.bound
    figure, (panel,) = panels()
    # A logarithmic axis cannot show 0, so the first share is plotted at 2e-5.
    priors = [2e-5, *shares[1:]]
    draw_means(panel, priors, totals, 0, "GTS, log loss")
    panel.axvline(best, color=EDGE, ls=":", label="switches / T")
    label = "bound, at switches / T"
    panel.plot(best, bound, MARKERS[1], color=COLOURS[1], label=label)
    panel.set(xscale="log", yscale="log")
    panel.set_xlabel("share alpha (leftmost point: none)")
    panel.set_ylabel(f"regret after {steps:,} steps")
    legend(panel)
    text = f"The true expert changes {switches} times in {steps:,} steps."
    caption = (
        "With a share near switches / T, experts that lost keep a small weight "
        "at little cost. Without fixed share the policy never recovers."
    )
    return Outcome("A switching truth", text, (), (Figure(svg(figure), caption),))


def misspecified(setup: Setup) -> Outcome:
    """Plot regret against the error of the best expert when no expert is right. It
    stays flat for small errors, then rises steeply, below its bound."""
    problem = instance()
    steps = setup.steps(6000, 1000)
    runs = setup.runs()
    errors = (0.0, 0.02, 0.05, 0.1, 0.2)
    truth = problem.table[:, 0]
    rng = np.random.default_rng(11)
    signs = rng.choice([-1.0, 1.0], truth.shape)
    policy = setup.gts(problem.experts, "square", eta=1.0, gamma=_GAMMA)
    totals = []
    bounds = []
    for error in errors:
        shifted = np.clip(truth + error * signs, 0, 1)
        world = TableWorld(shifted)
        run = measure(policy, world, steps=steps, runs=runs)
        totals.append(run.total)
        bound = theory.misspecified_bound(
            "square",
            n_arms=3,
            steps=steps,
            prior=problem.true_prior,
            error=error**2,
            gamma=_GAMMA,
        )
        bounds.append(bound.bound)
    figure, (panel,) = panels()
    draw_means(panel, errors, totals, 0, "GTS, square loss")
    panel.plot(errors, bounds, "--", color=COLOURS[1], label="bound")
    panel.set(xlabel="error of the best expert (reward)", yscale="log")
    panel.set_ylabel(f"regret after {steps:,} steps")
    legend(panel)
    text = (
        "Mean rewards are the first expert's predictions plus or minus an error; "
        "regret is relative to the best arm of each context."
    )
    caption = (
        "Small errors cost little here, but large ones make the policy follow a "
        "wrong expert: check the calibration of your experts."
    )
    return Outcome("When no expert is right", text, (), (Figure(svg(figure), caption),))


def rounding(setup: Setup) -> Outcome:
    """Compare real-valued rewards in [0, 1] with the same rewards rounded randomly to 0
    or 1. Real-valued rewards give less regret."""
    problem = instance()
    steps = setup.steps(3000, 500)
    runs = setup.runs(200)
    noises: dict[str, Noise] = {
        "not rounded": Beta(5.0),
        "rounded by a coin": Bernoulli(),
    }
    figure, axes = panels(2, width=4.6)
    for panel, loss in zip(axes, ("square", "log"), strict=True):
        eta = theory.tight_coefficient(loss).eta
        policy = setup.gts(problem.experts, loss, eta=eta, gamma=0.02)
        for i, (name, noise) in enumerate(noises.items()):
            run = measure(policy, problem.world, steps=steps, runs=runs, noise=noise)
            mean, error = mean_and_error(run.total)
            hatch = ("", "//")[i]
            style: Any = {"color": COLOURS[i], "hatch": hatch}
            panel.bar(i, mean, yerr=2 * error, capsize=4, label=name, **style)
        names = list(noises)
        panel.set(title=f"{loss} loss", xticks=(0, 1), xticklabels=names)
        panel.set_ylabel(f"regret after {steps:,} steps")
    text = (
        "Rewards are drawn from Beta distributions. The paper rounds them "
        "randomly to 0 or 1; the theory does not need it."
    )
    caption = (
        "Rounding throws information away: the same rewards without rounding "
        "give less regret."
    )
    drawing = Figure(svg(figure), caption)
    return Outcome("Rounded and real-valued rewards", text, (), (drawing,))


LEARNING_RATE = Experiment(learning_rate)
SWITCHING = Experiment(switching)
MISSPECIFIED = Experiment(misspecified)
ROUNDING = Experiment(rounding)
