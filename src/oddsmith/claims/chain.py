"""Exact regret, from powers of a transition matrix, in a world of two experts in which
gamma = 0 fails and gamma > 0 does not.

Expert 1 predicts (0.5, 0.9) and is right; expert 2 predicts (0.5, 0.1). Only rewards of
arm 2 distinguish them, and only expert 1 votes for arm 2. The state m is the number of
wins minus the number of losses of arm 2. The weights satisfy w_2/w_1 = (1-p)/p · exp(-m
s), where s = η ln 9 for log loss and 0.8 η for square loss. The regret of t steps is
linear in the t-th power of the transition matrix, so 2^k steps need k squarings and no
simulation.
"""

from math import log

import numpy as np

from oddsmith.core.arrays import Array

__all__ = [
    "GAP",
    "INSTANCE",
    "WIN",
    "exact_error",
    "exact_regret",
    "exact_regret_at",
    "exploration_odds",
    "spacing",
]

INSTANCE = np.array([[[0.5, 0.9], [0.5, 0.1]]])
WIN = 0.9
GAP = 0.4
# All states outside this range together have a probability, or contribute a regret,
# below 1e-50.
_LOW = -60
_HIGH = 280


def spacing(loss: str, eta: float) -> float:
    """Return by how much one win of arm 2 changes ln w_1/w_2.

    >>> round(spacing("log", 1.0), 4), spacing("square", 1.0)
    (2.1972, 0.8)
    """
    return eta * (log(9.0) if loss == "log" else 0.8)


def exact_regret(
    loss: str, *, eta: float, gamma: float, prior: float, doublings: int
) -> tuple[Array, Array]:
    """Return the horizons 1, 2, 4, … 2^doublings and the exact expected regret at each.

    >>> horizons, regret = exact_regret(
    ...     "log", eta=0.5, gamma=0.0, prior=0.1, doublings=30
    ... )
    >>> round(float(regret[-1]), 6)
    9.0
    """
    power, start = _chain(loss, eta=eta, gamma=gamma, prior=prior)
    regret = [power[start, -1]]
    for _ in range(doublings):
        power = power @ power
        regret.append(power[start, -1])
    doubled = np.arange(doublings + 1, dtype=np.float64)
    horizons: Array = np.exp2(doubled)
    return horizons, np.array(regret)


def exact_regret_at(
    loss: str, *, eta: float, gamma: float, prior: float, steps: int
) -> float:
    """Return the exact expected regret after any number of steps, as a product of the
    matrix powers in its binary form.

    >>> round(exact_regret_at("log", eta=0.5, gamma=0.0, prior=0.1, steps=1000), 6)
    8.907803
    """
    power, start = _chain(loss, eta=eta, gamma=gamma, prior=prior)
    here = np.eye(len(power))[start]
    while steps:
        if steps % 2:
            here = here @ power
        power = power @ power
        steps //= 2
    return float(here[-1])


def _chain(loss: str, *, eta: float, gamma: float, prior: float) -> tuple[Array, int]:
    """Return the transition matrix of one step, whose last column collects regret, and
    the index of the initial state."""
    explore, start = exploration_odds(loss, eta=eta, gamma=gamma, prior=prior)
    size = len(explore)
    n = size + 1
    power = np.zeros((n, n))
    for i, odds in enumerate(explore):
        above = min(i + 1, size - 1)
        below = max(i - 1, 0)
        power[i, above] += odds * WIN
        power[i, below] += odds * (1 - WIN)
        power[i, i] += 1 - odds
    power[:size, size] = GAP * (1 - explore)
    power[size, size] = 1.0
    return power, start


def exact_error(
    loss: str, *, eta: float, gamma: float, prior: float, steps: int, runs: int
) -> float:
    """Return the standard error of the mean regret over `runs` runs, from the exact
    variance of one run (backward recursion).

    >>> round(exact_error("log", eta=0.5, gamma=0.0, prior=0.1, steps=64, runs=100), 4)
    0.5876
    """
    explore, start = exploration_odds(loss, eta=eta, gamma=gamma, prior=prior)
    cost = GAP * (1 - explore)
    # Expected remaining regret and its second moment in each state.
    first = np.zeros_like(cost)
    second = np.zeros_like(cost)
    for _ in range(steps):
        later = _step_values(first, explore)
        next_step = _step_values(second, explore)
        second = cost**2 + 2 * cost * later + next_step
        first = cost + later
    square = first[start] ** 2
    variance = max(second[start] - square, 0.0)
    return float(np.sqrt(variance / runs))


def exploration_odds(
    loss: str, *, eta: float, gamma: float, prior: float
) -> tuple[Array, int]:
    """Return the probability of arm 2 in every state, and the index of the state in
    which wins equal losses."""
    wins = np.arange(_LOW, _HIGH + 1)
    doubt = (1 - prior) / prior
    with np.errstate(over="ignore"):
        evidence = wins * spacing(loss, eta)
        leader = 1 / (1 + doubt * np.exp(-evidence))
    explore: Array = (1 - gamma) * leader + gamma / 2
    return explore, -_LOW


def _step_values(values: Array, explore: Array) -> Array:
    """Return the expected value after one step from each state. The outermost states do
    not move."""
    after_win = np.append(values[1:], values[-1])
    after_loss = np.append(values[0], values[:-1])
    after_pull = WIN * after_win + (1 - WIN) * after_loss
    return values + explore * (after_pull - values)
