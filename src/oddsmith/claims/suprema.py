"""The Δ of world V with the largest regret of a learner, and the constant gamma for
which the largest regret is smallest (docs/math 9.1, 9.4)."""

from collections.abc import Callable
from math import exp, log, sqrt
from typing import NamedTuple

import numpy as np

from oddsmith.claims.two_experts import (
    GapWeighting,
    Learner,
    Sampling,
    World,
    exact_regret,
    spacing,
)
from oddsmith.theory.coefficients import tight_coefficient
from oddsmith.theory.constants import log_inverse

__all__ = [
    "AGREED_GAP",
    "LARGEST",
    "Peak",
    "agreed_regret",
    "best_gamma",
    "peak",
    "simple_gamma",
    "worst",
]

LARGEST = 0.45  # largest Δ: predictions stay inside [0.05, 0.95]
# Δ of world B, in which both experts correctly predict (0.1, ..., 0.1, 0.9)
AGREED_GAP = 0.8
# Tolerance for ln Δ at the maximum. The curve is flat there, and it has waves of up to
# a thousandth because m is an integer.
_TOLERANCE = 2e-3


class Peak(NamedTuple):
    """The Δ at which a search found the largest regret, and this regret, which is a
    lower bound of the supremum."""

    delta: float
    regret: float


def peak(regret: Callable[[float], float], low: float, *, points: int = 8) -> Peak:
    """Return the largest value for Δ from `low` to 0.45: first on a grid, then by
    Brent's method around the best grid point."""
    from scipy.optimize import minimize_scalar

    def loss(x: float) -> float:
        return -regret(exp(x))

    start = min(low, LARGEST / 2)
    deltas = np.geomspace(start, LARGEST, points)
    grid = np.log(deltas).tolist()
    heights = [regret(exp(x)) for x in grid]
    i = int(np.argmax(heights))
    before = max(i - 1, 0)
    after = min(i + 1, points - 1)
    ends = (grid[before], grid[after])
    options = {"xatol": _TOLERANCE}
    found = minimize_scalar(loss, bounds=ends, method="bounded", options=options)
    if -float(found.fun) > heights[i]:
        return Peak(exp(found.x), -float(found.fun))
    return Peak(exp(grid[i]), heights[i])


def worst(
    learner: Learner, *, prior: float, steps: int, n_arms: int = 2, points: int = 8
) -> Peak:
    """Return the Δ at which a learner's regret in world V is largest, and that
    regret."""

    def regret(delta: float) -> float:
        return exact_regret(World(delta, prior, n_arms), learner, steps)

    slowest = _slowest_gap(learner, prior=prior, steps=steps, n_arms=n_arms)
    low = 0.6 * slowest
    return peak(regret, low, points=points)


def _slowest_gap(learner: Learner, *, prior: float, steps: int, n_arms: int) -> float:
    """Return the Δ at which evidence, if it arrived at a constant rate, would offset
    the prior after exactly `steps` steps."""
    doubt = max(log((1 - prior) / prior), 1.0)
    if learner.optimism:
        return doubt / (learner.optimism * steps)
    # log weight that one pull adds, 2 Δ s, divided by Δ²
    rate = 2 * spacing(1e-3, learner) / 1e-3
    if isinstance(learner, GapWeighting):
        slow = learner.sharpness * doubt
        product = 4 * rate * steps * n_arms * doubt
        root = sqrt(slow**2 + product)
        return (slow + root) / (2 * rate * steps)
    gamma = max(learner.gamma, 1e-6)
    return sqrt(n_arms * doubt / (rate * gamma * steps))


def agreed_regret(learner: Learner, *, steps: int, n_arms: int = 2) -> float:
    """Return the regret in world B, where nothing can be learnt and only exploration
    costs reward."""
    belief = np.ones(1)
    pull = learner.pull(belief, World(AGREED_GAP, 0.5, n_arms))
    return float(AGREED_GAP * steps * (1 - pull[0]))


def best_gamma(
    loss: str, eta: float, *, prior: float, steps: int, start: float
) -> tuple[float, Peak]:
    """Return the constant gamma at which the regrets in worlds V and B are equal, with
    two arms. It has the smallest worst-case regret over both worlds.

    More exploration increases the regret in B and decreases it in V, so exactly one
    gamma makes them equal. The search goes downwards from `start`.
    """
    from scipy.optimize import brentq

    def excess(x: float) -> float:
        learner = Sampling(loss, eta, exp(x))
        in_v = worst(learner, prior=prior, steps=steps, points=5).regret
        return in_v - agreed_regret(learner, steps=steps)

    high = log(min(2 * start, 1.0))
    low = log(start / 4)
    while excess(low) < 0:
        high = low
        low -= 2
    gamma = exp(brentq(excess, low, high, xtol=1e-5))
    return gamma, worst(Sampling(loss, eta, gamma), prior=prior, steps=steps)


def simple_gamma(loss: str, *, n_arms: int, steps: int, prior: float) -> float:
    """Return the γ that minimises sqrt(KTL/(cγ)) + γT(K-1)/K, the simple form of the
    bound in 3.4. It is a pure power of T.

    >>> round(simple_gamma("log", n_arms=2, steps=1024, prior=1e-12), 4)
    0.4761
    """
    coefficient = tight_coefficient(loss).c
    learnt = sqrt(n_arms * steps * log_inverse(prior) / coefficient)
    cost = 2 * steps * (n_arms - 1) / n_arms
    return float((learnt / cost) ** (2 / 3))
