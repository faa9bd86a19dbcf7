"""Learning rates, a switching truth, a wrong model, rounded rewards: figures of one
instance under other conditions."""

from typing import Any

import numpy as np

from oddsmith import theory
from oddsmith.claims.claim import Experiment, Outcome, Setup, instance, measure
from oddsmith.core.arrays import Array
from oddsmith.files.reports.page import Figure
from oddsmith.files.reports.style import COLOURS, EDGE, MARKERS, legend, panels, svg
from oddsmith.lab.run import mean_and_error
from oddsmith.lab.worlds.drift import SwitchingWorld
from oddsmith.lab.worlds.tables import TableWorld
from oddsmith.lab.worlds.world import Bernoulli, Beta

__all__ = ["LEARNING_RATE", "MISSPECIFIED", "ROUNDING", "SWITCHING", "points"]

_GAMMA = 0.05


def points(panel: Any, x: Any, totals: list[Array], i: int, label: str) -> None:
    """Means with two standard errors."""
    means = np.array([mean_and_error(total) for total in totals])
    style = {"color": COLOURS[i], "marker": MARKERS[i], "ms": 5}
    panel.errorbar(x, means[:, 0], 2 * means[:, 1], label=label, **style)


def learning_rate(setup: Setup) -> Outcome:
    """On a benign instance a larger eta is better, and flattens; the danger of large
    eta is another instance's."""
    problem, steps, runs = instance(), setup.steps(4000, 2000), setup.runs()
    etas = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
    figure, (panel,) = panels()
    for i, loss in enumerate(("square", "log")):
        totals = [
            measure(
                setup.gts(problem.experts, loss, eta=eta, gamma=_GAMMA),
                problem.world,
                steps=steps,
                runs=runs,
            ).total
            for eta in etas
        ]
        points(panel, etas, totals, i, f"{loss} loss")
    panel.set(
        xscale="log",
        xlabel="learning rate eta",
        ylabel=f"regret after {steps:,} steps",
        ylim=(0, None),
    )
    legend(panel)
    text = (
        f"gamma = {_GAMMA}. The instance is benign; the phase transition above shows "
        "where a large eta hurts."
    )
    caption = (
        "Small learning rates are slow; beyond the safe 1/2 (log) and 1 (square) "
        "little is gained."
    )
    return Outcome("Learning rates", text, (), (Figure(svg(figure), caption),))


def switching(setup: Setup) -> Outcome:
    """When the truth switches, fixed share of about switches/T is best, and its bound
    holds."""
    problem, steps, runs = instance(), setup.steps(6000, 3000), setup.runs(60)
    truths, switches = (0, 5, 11, 17), 3
    until = [steps * (i + 1) // len(truths) for i in range(switches)]
    world = SwitchingWorld(
        [TableWorld(problem.table[:, i]) for i in truths], until=until
    )
    best = switches / (steps - 1)
    shares = (0.0, 1e-4, best, 1e-3, 1e-2, 0.1)
    totals = [
        measure(
            setup.gts(problem.experts, gamma=_GAMMA, share=s),
            world,
            steps=steps,
            runs=runs,
        ).total
        for s in shares
    ]
    given: Any = {
        "n_arms": 3,
        "steps": steps,
        "prior": problem.true_prior,
        "gamma": _GAMMA,
    }
    bound = theory.switching_bound("log", switches=switches, **given)
    figure, (panel,) = panels()
    shown_at = [2e-5, *shares[1:]]
    points(panel, shown_at, totals, 0, "GTS, log loss")
    panel.axvline(best, color=EDGE, ls=":", label="switches / T")
    panel.plot(
        best, bound.bound, MARKERS[1], color=COLOURS[1], label="bound, at switches / T"
    )
    panel.set(
        xscale="log",
        yscale="log",
        xlabel="share alpha (leftmost point: none)",
        ylabel=f"regret after {steps:,} steps",
    )
    legend(panel)
    text = f"The true expert changes {switches} times in {steps:,} steps."
    caption = (
        "A share near the number of switches over T keeps old losers alive at little "
        "cost; none at all never recovers."
    )
    return Outcome("A switching truth", text, (), (Figure(svg(figure), caption),))


def misspecified(setup: Setup) -> Outcome:
    """No expert is right: regret stays flat for small errors, then rises steeply, under
    its bound."""
    problem, steps, runs = instance(), setup.steps(6000, 3000), setup.runs()
    errors = (0.0, 0.02, 0.05, 0.1, 0.2)
    signs = np.random.default_rng(11).choice([-1.0, 1.0], problem.table[:, 0].shape)
    totals, bounds = [], []
    for error in errors:
        world = TableWorld(np.clip(problem.table[:, 0] + error * signs, 0, 1))
        policy = setup.gts(problem.experts, "square", eta=1.0, gamma=_GAMMA)
        totals.append(measure(policy, world, steps=steps, runs=runs).total)
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
    points(panel, errors, totals, 0, "GTS, square loss")
    panel.plot(errors, bounds, "--", color=COLOURS[1], label="bound")
    panel.set(
        xlabel="error of the best expert (reward)",
        ylabel=f"regret after {steps:,} steps",
        yscale="log",
    )
    legend(panel)
    text = (
        "Mean rewards are the first expert's predictions plus or minus an error; "
        "regret is against the truly best arms."
    )
    caption = (
        "Small errors cost little here, large ones are followed blindly: watch the "
        "calibration of your experts."
    )
    return Outcome("When no expert is right", text, (), (Figure(svg(figure), caption),))


def rounding(setup: Setup) -> Outcome:
    """Rewards in [0, 1] used as they are teach more than the same rewards rounded to 0
    or 1 by a coin."""
    problem, steps, runs = instance(), setup.steps(3000, 1500), setup.runs(200)
    figure, axes = panels(2, width=4.6)
    for i, loss in enumerate(("square", "log")):
        policy = setup.gts(
            problem.experts, loss, eta=theory.tight_coefficient(loss).eta, gamma=0.02
        )
        found = {
            name: measure(policy, problem.world, steps=steps, runs=runs, noise=noise)
            for name, noise in (
                ("used as they are", Beta(5.0)),
                ("rounded by a coin", Bernoulli()),
            )
        }
        for j, (name, run) in enumerate(found.items()):
            mean, error = mean_and_error(run.total)
            axes[i].bar(
                j,
                mean,
                yerr=2 * error,
                color=COLOURS[j],
                hatch=("", "//")[j],
                capsize=4,
                label=name,
            )
        axes[i].set(
            title=f"{loss} loss",
            xticks=(0, 1),
            xticklabels=list(found),
            ylabel=f"regret after {steps:,} steps",
        )
    text = (
        "Rewards are drawn from Beta distributions. The paper rounds them; nothing in "
        "the theory needs that."
    )
    caption = (
        "Rounding throws information away: the same rewards, used as they are, cost "
        "less regret."
    )
    return Outcome(
        "Rounding rewards or using them", text, (), (Figure(svg(figure), caption),)
    )


LEARNING_RATE, SWITCHING = Experiment(learning_rate), Experiment(switching)
MISSPECIFIED, ROUNDING = Experiment(misspecified), Experiment(rounding)
