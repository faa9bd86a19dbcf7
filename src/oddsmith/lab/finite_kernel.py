"""The compiled loop of `lab.finite` (numba). It simulates one run after the other, so
that the data of the current run stay in the processor's cache."""

import numpy as np
from numba import njit

from oddsmith.core.arrays import Array, Bools, Ints
from oddsmith.experts.kernels.twins import _mix, _reweigh, pick
from oddsmith.experts.kernels.vectormath import exp

__all__ = ["play"]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def play(
    tables: tuple[Array, Array, Ints],
    contexts: Ints,
    chance: tuple[Array, Array, Array, Ints, Ints],
    settings: tuple[float, int],
    played: tuple[Array, Ints, Array, Array],
) -> None:
    """Fill `played` = (regret, arms, rewards, log_weights). The tables are means (X,
    K), advice (X, K, N) and votes (X, N)."""
    means, advice, votes = tables
    uniforms, coins, gammas, order, arrived = chance
    eta, loss = settings
    regret, arms, rewards, all_weights = played
    steps, runs = contexts.shape
    _, n_arms, n_experts = advice.shape
    odds = np.empty(n_arms)
    weight = np.empty(n_experts)
    heavier = np.empty(n_experts)
    everything = np.ones(n_arms, np.bool_)
    for run in range(runs):
        log_weights = all_weights[run]
        learnt = 0  # number of rewards that arrived before this step
        for t in range(steps):
            x = contexts[t, run]
            _odds(log_weights, votes[x], gammas[t], weight, everything, odds)
            arm = pick(odds, uniforms[t, run])
            best = means[x, 0]
            expected = 0.0
            for k in range(n_arms):
                best = max(best, means[x, k])
                expected += odds[k] * means[x, k]
            regret[t, run] = best - expected
            arms[t, run] = arm
            rewards[t, run] = 1.0 if coins[t, run] < means[x, arm] else 0.0
            for place in range(learnt, arrived[t]):
                s = order[place]
                _reweigh(
                    log_weights,
                    advice[contexts[s, run], arms[s, run]],
                    rewards[s, run],
                    eta,
                    loss,
                    heavier,
                )
                log_weights[:] = heavier
            learnt = arrived[t]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _odds(
    log_weights: Array,
    votes: Ints,
    gamma: float,
    weight: Array,
    everything: Bools,
    odds: Array,
) -> None:
    """Compute (1-γ) Σ w [vote = a] / Σ w + γ/K into `odds`."""
    for i in range(weight.size):
        weight[i] = exp(log_weights[i])
    odds[:] = 0.0
    for i in range(weight.size):
        odds[votes[i]] += weight[i]
    _mix(gamma, everything, odds)
