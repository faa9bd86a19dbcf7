"""Computational cost of Regressor Elimination compared with GTS, measured as the number
of expert predictions that they read, not as time."""

from itertools import pairwise
from typing import Any

import numpy as np

from oddsmith.claims.claim import (
    Break,
    Claim,
    Experiment,
    Outcome,
    Rule,
    Setup,
    instance,
)
from oddsmith.claims.judgement import least
from oddsmith.core.policy import decide
from oddsmith.files.reports.page import Figure
from oddsmith.files.reports.style import COLOURS, MARKERS, legend, panels, svg
from oddsmith.policies.regressor_elimination import (
    RegressorElimination,
    balance_and_passes,
)

__all__ = ["ELIMINATION"]

CHEAPER = Rule(
    "GTS reads far fewer expert predictions than Regressor Elimination, which "
    "balances a distribution over experts (the paper: computationally much "
    "cheaper)",
    "Section 5",
    "per decision, Elimination reads at least 10 times as many expert "
    "predictions as GTS, which reads N K; predictions are counted, time is not "
    "measured",
    cases=4,
)
ONCE = Break(
    "the distribution is balanced only once, on a single context", other="once"
)
_STEPS = 400


def elimination(setup: Setup) -> Outcome:
    """Count the expert predictions that both algorithms read per decision, for samples
    of 10 to 320 contexts."""
    sizes: tuple[int, ...] = (10, 40, 160, 320)
    if setup.quick:
        sizes = (10, 40, 160)
    ballots: dict[str, list[float]] = {"GTS": [], "Regressor Elimination": []}
    claims: list[Claim] = []
    for contexts in sizes:
        ours, theirs = _ballots(setup, contexts)
        case = f"{contexts} contexts, 32 experts, 3 arms: ratio"
        claims.append(least(CHEAPER, case, theirs / ours, 10.0))
        ballots["GTS"].append(ours)
        ballots["Regressor Elimination"].append(theirs)
    figure, (panel,) = panels()
    for i, (name, values) in enumerate(ballots.items()):
        style = {"color": COLOURS[i], "marker": MARKERS[i]}
        panel.plot(sizes, values, label=name, **style)
    panel.set(xscale="log", yscale="log", xlabel="contexts in the sample")
    panel.set_ylabel("expert predictions read per decision")
    legend(panel)
    text = (
        f"One run of {_STEPS} decisions. Both algorithms read the N K predictions "
        "of a decision. Whenever Elimination removes experts, it also solves for "
        "a balanced distribution over the remaining ones, and reads their "
        "predictions on a sample of contexts several times. The counts do not "
        "depend on the machine."
    )
    caption = (
        "The work of GTS does not depend on the sample; the work of balancing grows "
        "with it."
    )
    title = "Work of GTS and of Regressor Elimination"
    drawing = Figure(svg(figure), caption)
    return Outcome(title, text, tuple(claims), (drawing,))


def _ballots(setup: Setup, contexts: int) -> tuple[float, float]:
    """Return the expert predictions that GTS and Elimination read per decision."""
    problem = instance(contexts=contexts)
    rng = np.random.default_rng(2)
    policy: Any = RegressorElimination(problem.experts, np.arange(contexts))
    states = [policy.init()]
    for step in range(1, _STEPS + 1):
        context = int(rng.integers(contexts))
        state = states[-1]
        uniform = float(rng.random())
        decision = decide(policy, state, context, uniform, step=step)
        mean = problem.table[context, 0, decision.arm]
        reward = float(rng.random() < mean)
        states.append(policy.update(state, decision, reward))
    n_experts, n_arms = problem.table.shape[1:]
    own = n_experts * n_arms
    if setup.wrong.other == "once":
        proposals = policy.proposals[:1]
        _, passes = balance_and_passes(proposals, np.ones(1))
        total = own * (1 + passes / _STEPS)
        return float(own), total
    proposals = policy.proposals
    odds = policy.context_odds
    _, passes = balance_and_passes(proposals, odds)
    balances = contexts * own * passes
    for before, after in pairwise(states):
        alive = int(after.alive.sum())
        if alive < before.alive.sum():
            _, passes = balance_and_passes(proposals, odds, after.alive, before.balance)
            balances += contexts * alive * n_arms * passes
    return float(own), own + balances / _STEPS


ELIMINATION = Experiment(elimination, (CHEAPER,), (ONCE,))
