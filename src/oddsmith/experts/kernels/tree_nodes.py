"""Compiled twins (numba) of what the nodes of a forest believe and learn."""

from math import exp, lgamma, log, sqrt

import numpy as np
import numpy.typing as npt
from numba import njit

from oddsmith.core.arrays import Array

__all__ = ["believe", "learn", "weigh"]

Indices = npt.NDArray[np.int32]
_LOG_PI = log(np.pi)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _density(drawn: float, total: float) -> float:
    """Twin of `trees.density`."""
    return (
        lgamma(total + 0.5)
        + lgamma(drawn - total + 0.5)
        - lgamma(drawn + 1.0)
        - _LOG_PI
    )


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _weigh_node(
    node: int,
    arm: int,
    left: Indices,
    parts: tuple[Array, Array, Array, Array],
    settings: tuple[float, float, float],
) -> None:
    """Fill one node's evidence and share of stopping for one arm; its children have
    theirs."""
    drawn, total, evidence, stop = parts
    scale, cuts, stops = settings
    own = (
        _density(scale * drawn[node, arm], scale * total[node, arm])
        if drawn[node, arm] > 0.0
        else 0.0
    )
    if left[node] == node:
        evidence[node, arm], stop[node, arm] = own, 1.0
        return
    here = stops + own
    below = cuts + evidence[left[node], arm] + evidence[left[node] + 1, arm]
    top = max(here, below)
    evidence[node, arm] = top + log(exp(here - top) + exp(below - top))
    stop[node, arm] = exp(here - evidence[node, arm])


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def weigh(
    left: Indices,
    parts: tuple[Array, Array, Array, Array],
    settings: tuple[float, float, float],
) -> None:
    """Twin of `trees.weigh`: evidence and shares of a whole tree, from its leaves
    up."""
    for node in range(left.size - 1, -1, -1):
        for arm in range(parts[0].shape[1]):
            _weigh_node(node, arm, left, parts, settings)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def believe(
    cuts: tuple[Indices, Array, Indices],
    parts: tuple[Array, Array, Array, Array],
    facts: tuple[Array, Array],
    x: Array,
    pull: float,
    belief: tuple[Array, Array],
) -> None:
    """Twin of `trees.believe`: fill means and standard deviations (B, K) for rows x (B,
    d)."""
    columns, thresholds, lefts = cuts
    drawn, total, _, stop = parts
    starts, noises = facts
    mean, sd = belief
    n_trees, n_arms = len(columns), mean.shape[1]
    value, rest = np.empty(n_arms), np.empty(n_arms)
    for row in range(len(x)):
        mean[row, :], sd[row, :] = 0.0, 0.0
        for t in range(n_trees):
            value[:], rest[:] = starts[t], 1.0
            node = np.int64(0)
            while True:
                for k in range(n_arms):
                    n, ends = drawn[t, node, k], rest[k] * stop[t, node, k]
                    value[k] = (total[t, node, k] + pull * value[k]) / (n + pull)
                    mean[row, k] += ends * value[k]
                    sd[row, k] += ends / (n + 1.0) * noises[t] ** 2
                    rest[k] -= ends
                if not thresholds[t, node] < np.inf:
                    break
                node = np.int64(lefts[t, node]) + np.int64(
                    x[row, columns[t, node]] > thresholds[t, node]
                )
        for k in range(n_arms):
            mean[row, k] /= n_trees
            sd[row, k] = sqrt(sd[row, k] / n_trees)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def learn(
    cuts: tuple[Indices, Array, Indices],
    parts: tuple[Array, Array, Array, Array],
    facts: tuple[Array, Array],
    row: Array,
    change: tuple[int, float, float],
    settings: tuple[float, float, float],
) -> float:
    """Twin of `trees.learn`: what was foreseen; the nodes on the row's way in each tree
    gain draws and rewards."""
    arm, draws, rewards = change
    pull, cut, stopped = settings
    starts, scales = facts
    path, foreseen = np.empty(64, np.int64), 0.0
    for t in range(len(scales)):
        left = cuts[2][t]
        own = (parts[0][t], parts[1][t], parts[2][t], parts[3][t])
        node, steps, value, rest = np.int64(0), 0, starts[t], 1.0
        while True:
            ends = rest * own[3][node, arm]
            value = (own[1][node, arm] + pull * value) / (own[0][node, arm] + pull)
            foreseen += ends * value
            rest -= ends
            own[0][node, arm] += draws
            own[1][node, arm] += rewards
            path[steps] = node
            steps += 1
            if not cuts[1][t, node] < np.inf:
                break
            node = np.int64(left[node]) + np.int64(
                row[cuts[0][t, node]] > cuts[1][t, node]
            )
        for step in range(steps - 1, -1, -1):
            _weigh_node(path[step], arm, left, own, (scales[t], cut, stopped))
    return foreseen / len(scales)
