"""Delayed rewards: the simulation engine compared with an exact chain with a queue, and
the cost of delay for Thompson sampling."""

from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from oddsmith.claims.chain import GAP, INSTANCE, WIN, exploration_odds
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
from oddsmith.claims.drawing import draw_means
from oddsmith.claims.judgement import mean_is, most
from oddsmith.core.arrays import Array
from oddsmith.files.reports.page import Figure
from oddsmith.files.reports.style import COLOURS, legend, panels, svg
from oddsmith.lab.delays import GeometricDelay
from oddsmith.lab.run import mean_and_error
from oddsmith.lab.worlds.tables import TableWorld

__all__ = ["DELAY", "LateRegret", "late_regret"]


class LateRegret(NamedTuple):
    """The expected regret after a number of steps, and the standard deviation of a
    single run."""

    mean: float
    deviation: float


def late_regret(
    loss: str, *, eta: float, gamma: float, prior: float, steps: int, delay: int
) -> LateRegret:
    """Return the regret if every reward is `delay` steps late, by backward recursion.
    Its states are the pending draws and the number of wins minus losses.

    Of a pending draw, only whether it was arm 2 is needed, so there are 2^delay queues.
    Its reward is drawn when it arrives.

    >>> [
    ...     round(
    ...         late_regret(
    ...             "log", eta=1.0, gamma=0.0, prior=0.5, steps=3, delay=d
    ...         ).mean,
    ...         6,
    ...     )
    ...     for d in (0, 1, 3)
    ... ]
    [0.432976, 0.536, 0.6]
    """
    explore, start = exploration_odds(loss, eta=eta, gamma=gamma, prior=prior)
    # A queue of pending rewards is a number of `delay` bits; each step removes the
    # oldest bit.
    queues = np.arange(2**delay)
    mask = 2**delay - 1
    after_first = (2 * queues) & mask
    after_second = (2 * queues + 1) & mask
    # Whether the reward that arrives now is of arm 2. Only such rewards change the
    # posterior.
    learnt_first = (2 * queues) >> delay
    learnt_second = (2 * queues + 1) >> delay
    learns_first = learnt_first.astype(np.bool_)[:, None]
    learns_second = learnt_second.astype(np.bool_)[:, None]

    def step_values(values: Array) -> Array:
        """Return the expected value (queues, states) after one step."""
        after_win = np.roll(values, -1, axis=1)
        after_win[:, -1] = values[:, -1]
        after_loss = np.roll(values, 1, axis=1)
        after_loss[:, 0] = values[:, 0]
        learnt = WIN * after_win + (1 - WIN) * after_loss
        known_first = values[after_first]
        known_second = values[after_second]
        first = np.where(learns_first, learnt[after_first], known_first)
        second = np.where(learns_second, learnt[after_second], known_second)
        expected: Array = first + explore * (second - first)
        return expected

    cost_of_lead = GAP * (1 - explore)
    shape = (len(queues), len(explore))
    cost = np.broadcast_to(cost_of_lead, shape)
    total = np.zeros_like(cost)
    square = np.zeros_like(cost)
    for _ in range(steps):
        later = step_values(total)
        next_step = step_values(square)
        square = cost**2 + 2 * cost * later + next_step
        total = cost + later
    mean = float(total[0, start])
    variance = float(square[0, start]) - mean**2
    return LateRegret(mean, sqrt(max(variance, 0.0)))


SIMULATED = Rule(
    "With delayed rewards, the regret of the simulation engine in the world of "
    "two experts is that of the exact chain",
    "docs/math 5.10",
    "the mean over runs is within normal quantiles of its exact standard error",
    1e-3,
    cases=4,
)
ADDITIVE = Rule(
    "Robustness to delay: a delay of d steps costs at most d rewards, the term "
    "that 5.10 adds to the bound",
    "Section 1, docs/math 5.10",
    "exact regret with delay d, minus the regret without delay, is at most d "
    "(the theory proves this for the bounds only)",
    cases=8,
)
BREAKS = (
    Break("eta is twice too large", eta=2.0),
    Break("gamma is dropped", gamma=0.0),
    Break("delayed rewards are lost", other="lost"),
)
_GAMMA = 0.05


def delay(setup: Setup) -> Outcome:
    """Check that delayed rewards add a term proportional to the delay."""
    text = (
        "Every reward arrives the same number of steps late (star: a random "
        "delay with mean 200). In the world of two experts the chain is exact: "
        "its state includes the draws whose rewards are pending."
    )
    claims = (*_chain_claims(setup), *_cost_claims(setup))
    return Outcome("Delayed rewards", text, claims, (_figure(setup),))


_LEARNERS = {"Thompson sampling": (1.0, 0.0), "log, eta 1/2, gamma 0.05": (0.5, _GAMMA)}


def _chain_claims(setup: Setup) -> list[Claim]:
    claims = []
    steps = 256
    runs = 4000
    prior = 0.1
    world = TableWorld(INSTANCE[:, 0])
    for name, (eta, gamma) in _LEARNERS.items():
        belief = [prior, 1 - prior]
        policy = setup.gts(INSTANCE, eta=eta, gamma=gamma, prior=belief)
        for late in (1, 4):
            exact = late_regret(
                "log", eta=eta, gamma=gamma, prior=prior, steps=steps, delay=late
            )
            own_delay = late
            if setup.wrong.other == "lost":
                own_delay = steps
            run = measure(policy, world, steps=steps, runs=runs, delay=own_delay)
            error = exact.deviation / np.sqrt(runs)
            case = f"{name}, delay {late}"
            claims.append(mean_is(SIMULATED, case, run.total, exact.mean, error=error))
    return claims


def _cost_claims(setup: Setup) -> list[Claim]:
    claims = []
    steps = setup.steps(1024, 256)
    for name, (eta, gamma) in _LEARNERS.items():
        own_eta = eta
        if setup.wrong.other == "lost":
            own_eta = 0.0
        for prior in (0.1, 0.01):
            known: Any = {"gamma": gamma, "prior": prior, "steps": steps}
            prompt = late_regret("log", eta=eta, delay=0, **known).mean
            for late in (1, 4):
                regret = late_regret("log", eta=own_eta, delay=late, **known).mean
                case = f"{name}, prior {prior:g}, delay {late}"
                extra = regret - prompt
                claims.append(most(ADDITIVE, case, extra, float(late)))
    return claims


def _figure(setup: Setup) -> Figure:
    problem = instance()
    steps = setup.steps(6000, 3000)
    runs = setup.runs()
    delays = (0, 10, 50, 200, 1000)
    policies = {
        f"GTS, log loss, gamma {_GAMMA}": setup.gts(problem.experts, gamma=_GAMMA),
        "Thompson sampling": setup.gts(problem.experts, eta=1.0),
    }
    figure, (panel,) = panels()
    for i, (name, policy) in enumerate(policies.items()):
        totals = []
        for late in delays:
            run = measure(policy, problem.world, steps=steps, runs=runs, delay=late)
            totals.append(run.total)
        draw_means(panel, delays, totals, i, name)
    means = []
    policy = setup.gts(problem.experts, gamma=_GAMMA)
    random_delay = GeometricDelay(200.0)
    # All runs with one seed share their delays, so the error is estimated from several
    # seeds.
    for seed in range(setup.runs(20) // 2):
        run = measure(
            policy, problem.world, steps=steps, runs=10, seed=seed, delay=random_delay
        )
        means.append(run.total.mean())
    mean, error = mean_and_error(np.array(means))
    style: Any = {"fmt": "*", "ms": 12, "color": COLOURS[2]}
    panel.errorbar(200, mean, 2 * error, label="random delays, mean 200", **style)
    panel.set_xlabel("delay of every reward (steps)")
    panel.set_ylabel(f"regret after {steps:,} steps")
    panel.set_ylim(0, None)
    legend(panel)
    caption = (
        "Regret grows linearly with the delay, because late rewards count as "
        "much as others."
    )
    return Figure(svg(figure), caption)


DELAY = Experiment(delay, (SIMULATED, ADDITIVE), BREAKS)
