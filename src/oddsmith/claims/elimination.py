"""What Regressor Elimination computes beside GTS: ballots read, counted, not timed."""

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
    "GTS reads far fewer ballots than Regressor Elimination, which balances a "
    "distribution over experts (the paper: computationally much cheaper)",
    "Section 5",
    "per decision, Elimination reads at least 10 times as many ballots as GTS, which "
    "reads N K; ballots are counted, time is not measured",
    cases=4,
)
ONCE = Break(
    "the balance is computed once and never again, on a single context", other="once"
)
_STEPS = 400


def elimination(setup: Setup) -> Outcome:
    """Ballots read per decision by both, for samples of 10 to 320 contexts."""
    sizes = (10, 40, 160) if setup.quick else (10, 40, 160, 320)
    read = {contexts: _read(setup, contexts) for contexts in sizes}
    claims: list[Claim] = []
    for contexts, (ours, theirs) in read.items():
        claims.append(
            least(
                CHEAPER,
                f"{contexts} contexts, 32 experts, 3 arms: ratio",
                theirs / ours,
                10.0,
            )
        )
    figure, (panel,) = panels()
    for i, name in enumerate(("GTS", "Regressor Elimination")):
        values = [pair[i] for pair in read.values()]
        panel.plot(sizes, values, color=COLOURS[i], marker=MARKERS[i], label=name)
    panel.set(
        xscale="log",
        yscale="log",
        xlabel="contexts in the sample",
        ylabel="ballots read per decision",
    )
    legend(panel)
    text = (
        f"One run of {_STEPS} decisions. Both read the N K ballots of a decision. "
        "Elimination also solves for a balanced distribution over the experts that "
        "are left, whenever some leave: it reads the ballots of all of them on a "
        "sample of contexts, again and again. Counts do not depend on the machine."
    )
    caption = "GTS reads as much whatever the sample; the balance grows with it."
    return Outcome(
        "GTS beside Regressor Elimination: work",
        text,
        tuple(claims),
        (Figure(svg(figure), caption),),
    )


def _read(setup: Setup, contexts: int) -> tuple[float, float]:
    """Ballots that GTS and Elimination read per decision."""
    problem, rng = instance(contexts=contexts), np.random.default_rng(2)
    policy: Any = RegressorElimination(problem.experts, np.arange(contexts))
    state, states = policy.init(), []
    for step in range(1, _STEPS + 1):
        context = int(rng.integers(contexts))
        decision = decide(policy, state, context, float(rng.random()), step=step)
        states.append(state)
        reward = float(rng.random() < problem.table[context, 0, decision.arm])
        state = policy.update(state, decision, reward)
    n_experts, n_arms = problem.table.shape[1:]
    if setup.broken.other == "once":
        passes = balance_and_passes(policy.proposals[:1], np.ones(1))[1]
        return float(n_experts * n_arms), n_experts * n_arms * (1 + passes / _STEPS)
    balances = (
        contexts
        * n_experts
        * n_arms
        * balance_and_passes(policy.proposals, policy.context_odds)[1]
    )
    for before, after in pairwise([*states, state]):
        if (alive := after.alive).sum() < before.alive.sum():
            passes = balance_and_passes(
                policy.proposals, policy.context_odds, alive, before.balance
            )[1]
            balances += contexts * int(alive.sum()) * n_arms * passes
    return float(n_experts * n_arms), n_experts * n_arms + balances / _STEPS


ELIMINATION = Experiment(elimination, (CHEAPER,), (ONCE,))
