"""Late rewards: the engine against the exact chain with a queue, and what one step of
delay costs Thompson sampling."""

from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from oddsmith.claims.chain import GAP, INSTANCE, WIN, exploring
from oddsmith.claims.circumstances import points
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
from oddsmith.claims.judgement import mean_is, most
from oddsmith.core.arrays import Array
from oddsmith.files.reports.page import Figure
from oddsmith.files.reports.style import COLOURS, legend, panels, svg
from oddsmith.lab.delays import GeometricDelay
from oddsmith.lab.run import mean_and_error
from oddsmith.lab.worlds.tables import TableWorld

__all__ = ["DELAY", "Late", "late_regret"]


class Late(NamedTuple):
    """The expected regret after so many steps, and the standard deviation of one
    run's."""

    mean: float
    deviation: float


def late_regret(
    loss: str, *, eta: float, gamma: float, prior: float, steps: int, delay: int
) -> Late:
    """Regret with every reward `delay` steps late, by backward recursion over (waiting
    draws, wins less losses).

    Of a waiting draw only matters whether it was arm 2, so there are 2^delay queues;
    its coin is thrown when it arrives.

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
    explore, start = exploring(loss, eta=eta, gamma=gamma, prior=prior)
    queues = np.arange(2**delay)
    # the queue after arm 1, and after arm 2
    drawn = [(2 * queues + bit) & (2**delay - 1) for bit in (0, 1)]
    # whether a win or loss comes
    counts = [((2 * queues + bit) >> delay).astype(np.bool_)[:, None] for bit in (0, 1)]

    def ahead(values: Array) -> Array:
        """The expected value (queues, states) after one step."""
        won, lost = np.roll(values, -1, axis=1), np.roll(values, 1, axis=1)
        won[:, -1], lost[:, 0] = values[:, -1], values[:, 0]
        learnt = WIN * won + (1 - WIN) * lost
        first, second = (
            np.where(here, learnt[to], values[to])
            for here, to in zip(counts, drawn, strict=True)
        )
        expected: Array = first + explore * (second - first)
        return expected

    cost = np.broadcast_to(GAP * (1 - explore), (len(queues), len(explore)))
    total, square = np.zeros_like(cost), np.zeros_like(cost)
    for _ in range(steps):
        square = cost**2 + 2 * cost * ahead(total) + ahead(square)
        total = cost + ahead(total)
    mean = float(total[0, start])
    return Late(mean, sqrt(max(float(square[0, start]) - mean**2, 0.0)))


SIMULATED = Rule(
    "With late rewards the engine's regret on the two-expert instance is that of the "
    "exact chain",
    "docs/math 5.10",
    "the mean over runs is within normal quantiles of its exact standard error",
    1e-3,
    cases=4,
)
ADDITIVE = Rule(
    "Robust to delay: a delay of d costs d rewards at most, the term that 5.10 adds to "
    "the bound",
    "Section 1, docs/math 5.10",
    "exact regret with delay d, less that without, is at most d (proved of bounds, not "
    "of regret)",
    cases=8,
)
BREAKS = (
    Break("eta is twice too large", eta=2.0),
    Break("gamma is dropped", gamma=0.0),
    Break("late rewards are lost", other="lost"),
)
_GAMMA = 0.05


def delay(setup: Setup) -> Outcome:
    """Late rewards cost an additive term, proportional to the delay."""
    text = (
        "Every reward arrives the same number of steps late (the star: a random number "
        "with mean 200). On the instance of two experts the chain is exact: the draws "
        "whose rewards are on their way are part of its state."
    )
    return Outcome(
        "Delayed rewards",
        text,
        (*_simulated(setup), *_additive(setup)),
        (_figure(setup),),
    )


_PLAYED = {"Thompson sampling": (1.0, 0.0), "log, eta 1/2, gamma 0.05": (0.5, _GAMMA)}


def _simulated(setup: Setup) -> list[Claim]:
    claims, steps, runs, prior, lost = [], 256, 4000, 0.1, setup.broken.other == "lost"
    for name, (eta, gamma) in _PLAYED.items():
        policy = setup.gts(INSTANCE, eta=eta, gamma=gamma, prior=[prior, 1 - prior])
        for late in (1, 4):
            exact = late_regret(
                "log", eta=eta, gamma=gamma, prior=prior, steps=steps, delay=late
            )
            world, came = TableWorld(INSTANCE[:, 0]), steps if lost else late
            total = measure(policy, world, steps=steps, runs=runs, delay=came).total
            error = exact.deviation / np.sqrt(runs)
            claims.append(
                mean_is(
                    SIMULATED,
                    f"{name}, rewards {late} late",
                    total,
                    exact.mean,
                    error=error,
                )
            )
    return claims


def _additive(setup: Setup) -> list[Claim]:
    claims, steps = [], setup.steps(1024, 256)
    for name, (eta, gamma) in _PLAYED.items():
        for prior in (0.1, 0.01):
            known: Any = {"gamma": gamma, "prior": prior, "steps": steps}
            prompt = late_regret("log", eta=eta, delay=0, **known).mean
            for late in (1, 4):
                rate = 0.0 if setup.broken.other == "lost" else eta
                more = late_regret("log", eta=rate, delay=late, **known).mean - prompt
                claims.append(
                    most(
                        ADDITIVE,
                        f"{name}, prior {prior:g}, rewards {late} late",
                        more,
                        float(late),
                    )
                )
    return claims


def _figure(setup: Setup) -> Figure:
    problem, steps, runs = instance(), setup.steps(6000, 3000), setup.runs()
    delays, policy, plain = (
        (0, 10, 50, 200, 1000),
        setup.gts(problem.experts, gamma=_GAMMA),
        setup.gts(problem.experts, eta=1.0),
    )
    late, sampled = (
        [
            measure(one, problem.world, steps=steps, runs=runs, delay=d).total
            for d in delays
        ]
        for one in (policy, plain)
    )
    random = np.array(
        [  # runs share their delays, so the error is that of several seeds
            measure(
                policy,
                problem.world,
                steps=steps,
                runs=10,
                seed=seed,
                delay=GeometricDelay(200.0),
            ).total.mean()
            for seed in range(setup.runs(20) // 2)
        ]
    )
    figure, (panel,) = panels()
    points(panel, delays, late, 0, f"GTS, log loss, gamma {_GAMMA}")
    points(panel, delays, sampled, 1, "Thompson sampling")
    style: Any = {
        "fmt": "*",
        "ms": 12,
        "color": COLOURS[2],
        "label": "random delays, mean 200",
    }
    panel.errorbar(200, random.mean(), 2 * mean_and_error(random)[1], **style)
    panel.set(
        xlabel="delay of every reward (steps)",
        ylabel=f"regret after {steps:,} steps",
        ylim=(0, None),
    )
    legend(panel)
    return Figure(
        svg(figure),
        "Regret grows in a straight line with the delay: late rewards count like any "
        "others.",
    )


DELAY = Experiment(delay, (SIMULATED, ADDITIVE), BREAKS)
