"""The agnostic case: the best predictor may have the worst policy, and a hedge is safe there at a stated price."""

import numpy as np

from oddsmith import theory
from oddsmith.experts.tables import TableExperts
from oddsmith.lab.agnostic import AGNOSTIC
from oddsmith.lab.claims.base import Break, Experiment, Outcome, Rule, Setup, measure
from oddsmith.lab.claims.judging import mean_least, mean_most
from oddsmith.lab.run import Run, mean_and_error
from oddsmith.policies.hedged import Hedged
from oddsmith.reports.page import Figure
from oddsmith.reports.style import band, legend, panels, svg

__all__ = ["HEDGE"]

LEFT = Rule(
    "Where the best predictor has the worst policy, GTS loses in proportion to T, whatever eta and gamma",
    "Section 5, open question; docs/math 7.2",
    "rejected if Student's upper limit of the mean regret is below the proved lower bound",
    1e-3,
    cases=3,
)
SAFE = Rule(
    "Hedged GTS has regret of order sqrt(T) to every expert's policy and to GTS, whatever is true",
    "docs/math 7.4",
    "rejected if Student's lower limit of the mean regret is above the bound with all its constants",
    1e-3,
    cases=2,
)
SWAPPED = Break("GTS is played for Hedged, and Hedged for GTS", other="swapped")
_RATES = ((0.5, 0.0), (1.0, 0.0), (1.0, 0.1))


def hedge(setup: Setup) -> Outcome:
    """GTS alone and Hedged in the worlds A1 and A5, against the lower bound of the one and the upper of the other."""
    steps, runs = setup.steps(10_000, 3000), setup.runs(60)
    swapped, claims, curves = setup.broken.other == "swapped", [], {}
    first = AGNOSTIC["A1"]()
    table, means = first.table[0], first.world.means(1, np.zeros(1, np.int64))[0]
    for eta, gamma in _RATES:
        policy = setup.gts(first.table, "square", eta=eta, gamma=gamma)
        run = measure(Hedged(policy) if swapped else policy, first.world, steps=steps, runs=runs)
        leaves = theory.departure(setup.loss("square"), eta, means=means, predictions=table)
        case = f"A1, square, eta {eta:g}, gamma {gamma:g}, {steps:,} steps"
        claims.append(mean_least(LEFT, case, run.total, leaves.regret(steps, gamma)))
        curves[f"A1: GTS, eta {eta:g}, gamma {gamma:g}"] = run
    for name in ("A1", "A5"):
        problem = AGNOSTIC[name]()
        assert isinstance(problem.experts, TableExperts)
        alone = setup.gts(problem.experts)
        run = measure(alone if swapped else Hedged(alone), problem.world, steps=steps, runs=runs)
        n, n_arms = len(problem.experts.names), problem.n_arms
        bound = theory.hedged_bound(n_arms=n_arms, steps=steps, prior=1 / n).bound
        claims.append(mean_most(SAFE, f"{name}, {n} experts, {steps:,} steps", run.total, bound))
        curves[f"{name}: Hedged"] = run
    text = (
        "World A1: two arms of mean 0.5 and 0.6. One expert predicts better on both and prefers the first, the other "
        "predicts worse and prefers the second. World A5: an expert with the right ranking is too sure of itself among "
        "31 that say next to nothing. No expert is right in either."
    )
    return Outcome("The agnostic case: nobody is right", text, tuple(claims), (_figure(curves),))


def _figure(curves: dict[str, Run]) -> Figure:
    figure, (panel,) = panels()
    for i, (name, run) in enumerate(curves.items()):
        at = np.unique(np.geomspace(1, len(run.regret), 50).round().astype(int)) - 1
        points = np.array([mean_and_error(row) for row in np.cumsum(run.regret, axis=0)[at]])
        band(panel, at + 1, points[:, 0], points[:, 1], i, name)
    panel.set(xscale="log", yscale="log", xlabel="steps", ylabel="regret so far (lost rewards)")
    legend(panel)
    caption = "GTS follows the best predictor for ever: a straight line of slope 1. Hedged bends to slope 1/2."
    return Figure(svg(figure), caption)


HEDGE = Experiment(hedge, (LEFT, SAFE), (SWAPPED,))
