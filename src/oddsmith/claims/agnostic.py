"""Worlds in which no expert is right, and benign worlds for comparison. They test
policies with guarantees (docs/math 7)."""

from collections.abc import Callable

import numpy as np

from oddsmith import theory
from oddsmith.claims.claim import Break, Experiment, Outcome, Rule, Setup, measure
from oddsmith.claims.drawing import draw_growth
from oddsmith.claims.judgement import mean_least, mean_most
from oddsmith.core.arrays import Array
from oddsmith.core.policy import Policy
from oddsmith.experts.tables import TableExperts
from oddsmith.files.reports.page import Figure
from oddsmith.files.reports.style import legend, panels, svg
from oddsmith.lab.problems import Problem, table_problem
from oddsmith.lab.run import Run
from oddsmith.lab.worlds.tables import TableWorld, random_table
from oddsmith.policies.hedge import Hedged

__all__ = ["AGNOSTIC", "HEDGE"]


def _one_context(
    means: list[float], experts: list[list[float]], truth: int | None = None
) -> Problem:
    world = TableWorld(np.array([means]))
    return table_problem(np.array([experts]), world, truth=truth)


def _overconfident() -> Problem:
    """Return a problem whose first expert ranks the arms correctly but is far too
    confident; the other experts predict almost the same for all arms."""
    table = random_table()
    order = table[:, 0].argsort(axis=-1)
    rank = order.argsort(axis=-1)
    apart = table[:, 1:] - 0.5
    others = 0.5 + 0.02 * apart
    sure: Array = np.array([0.05, 0.5, 0.95])[rank]
    experts = np.concatenate([sure[:, None], others], axis=1)
    values = np.array([0.35, 0.5, 0.65])
    world = TableWorld(values[rank])
    return table_problem(experts, world, truth=None)


AGNOSTIC: dict[str, Callable[[], Problem]] = {
    "A1": lambda: _one_context([0.5, 0.6], [[0.6, 0.5], [0.2, 0.9]]),
    "A1, realizable": lambda: _one_context(
        [0.6, 0.5], [[0.6, 0.5], [0.2, 0.9]], truth=0
    ),
    "A2": lambda: table_problem(random_table()),
    "A3": lambda: _one_context([0.5, 0.6], [[0.5, 0.9], [0.5, 0.1]]),
    "A4": lambda: _one_context([0.5, 0.9], [[0.5, 0.9], *[[0.5, 0.1]] * 63], truth=0),
    "A5": _overconfident,
}
"""Worlds by name. A1: the best predictor has the worst policy; a variant in which it is
right; A2: benign; A3: the best expert is overconfident; A4: one right expert among 63
pessimists; A5: overconfident with the right ranking."""


LEFT = Rule(
    "Where the best predictor has the worst policy, the regret of GTS is "
    "proportional to T for every eta and gamma",
    "Section 5, open question; docs/math 7.2",
    "rejected if Student's upper limit of the mean regret is below the proved lower "
    "bound",
    1e-3,
    cases=3,
)
SAFE = Rule(
    "The regret of Hedged GTS to every expert's policy, and to GTS, is of order "
    "sqrt(T) in every world",
    "docs/math 7.4",
    "rejected if Student's lower limit of the mean regret is above the bound with all "
    "its constants",
    1e-3,
    cases=2,
)
SWAPPED = Break("GTS and Hedged GTS are exchanged", other="swapped")
_RATES = ((0.5, 0.0), (1.0, 0.0), (1.0, 0.1))


def hedge(setup: Setup) -> Outcome:
    """Compare GTS with its lower bound and Hedged GTS with its upper bound, in worlds
    A1 and A5 of docs/math 7."""
    steps = setup.steps(10_000, 3000)
    runs = setup.runs(60)
    is_swapped = setup.wrong.other == "swapped"
    claims = []
    curves = {}
    first = AGNOSTIC["A1"]()
    table = first.table[0]
    first_context = np.zeros(1, np.int64)
    means = first.world.means(1, first_context)[0]
    loss = setup.loss("square")
    for eta, gamma in _RATES:
        gts = setup.gts(first.table, "square", eta=eta, gamma=gamma)
        policy: Policy = gts
        if is_swapped:
            policy = Hedged(gts)
        run = measure(policy, first.world, steps=steps, runs=runs)
        departure = theory.departure(loss, eta, means=means, predictions=table)
        bound = departure.regret(steps, gamma)
        setting = f"eta {eta:g}, gamma {gamma:g}"
        case = f"A1, square, {setting}, {steps:,} steps"
        claims.append(mean_least(LEFT, case, run.total, bound))
        curves[f"A1: GTS, {setting}"] = run
    for name in ("A1", "A5"):
        problem = AGNOSTIC[name]()
        assert isinstance(problem.experts, TableExperts)
        gts = setup.gts(problem.experts)
        policy = gts
        if not is_swapped:
            policy = Hedged(gts)
        run = measure(policy, problem.world, steps=steps, runs=runs)
        n = len(problem.experts.names)
        found = theory.hedged_bound(n_arms=problem.n_arms, steps=steps, prior=1 / n)
        bound = found.bound
        case = f"{name}, {n} experts, {steps:,} steps"
        claims.append(mean_most(SAFE, case, run.total, bound))
        curves[f"{name}: Hedged"] = run
    text = (
        "World A1: two arms of mean 0.5 and 0.6. One expert predicts both means "
        "better and prefers the first arm; the other predicts worse and prefers "
        "the second. World A5: one expert with the right ranking is "
        "overconfident, among 31 experts whose predictions hardly differ between "
        "arms. No expert is right in either world."
    )
    title = "The agnostic case: no expert is right"
    return Outcome(title, text, tuple(claims), (_figure(curves),))


def _figure(curves: dict[str, Run]) -> Figure:
    figure, (panel,) = panels()
    for i, (name, run) in enumerate(curves.items()):
        growth = np.cumsum(run.regret, axis=0)
        draw_growth(panel, growth, i, name)
    panel.set(xscale="log", yscale="log", xlabel="steps")
    panel.set_ylabel("total regret (lost rewards)")
    legend(panel)
    caption = (
        "GTS follows the best predictor for ever, which gives a straight line of "
        "slope 1. The line of Hedged GTS bends to slope 1/2."
    )
    return Figure(svg(figure), caption)


HEDGE = Experiment(hedge, (LEFT, SAFE), (SWAPPED,))
