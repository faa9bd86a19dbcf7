"""Compiled kernels (numba) for predictions and updates of the nodes of a forest."""

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
    """Compiled version of `trees.density`."""
    hits = lgamma(total + 0.5)
    misses = lgamma(drawn - total + 0.5)
    return hits + misses - lgamma(drawn + 1.0) - _LOG_PI


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _weigh_node(
    node: int,
    arm: int,
    left: Indices,
    parts: tuple[Array, Array, Array, Array],
    settings: tuple[float, float, float],
) -> None:
    """Fill one node's evidence and stopping probability for one arm, from the values of
    its children."""
    drawn, total, evidence, stop = parts
    scale, cuts, stops = settings
    own = 0.0
    if drawn[node, arm] > 0.0:
        own = _density(scale * drawn[node, arm], scale * total[node, arm])
    child = left[node]
    if child == node:
        evidence[node, arm] = own
        stop[node, arm] = 1.0
        return
    here = stops + own
    below = cuts + evidence[child, arm] + evidence[child + 1, arm]
    top = max(here, below)
    both = top + log(exp(here - top) + exp(below - top))
    evidence[node, arm] = both
    stop[node, arm] = exp(here - both)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def weigh(
    left: Indices,
    parts: tuple[Array, Array, Array, Array],
    settings: tuple[float, float, float],
) -> None:
    """Compiled version of `trees.weigh`: evidence and shares of a whole tree, from its
    leaves to its root."""
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
    """Compiled version of `trees.believe`. Fills means and standard deviations (B, K)
    for rows x (B, d)."""
    columns, thresholds, lefts = cuts
    drawn, total, _, stop = parts
    starts, noises = facts
    mean, sd = belief
    n_trees = len(columns)
    n_arms = mean.shape[1]
    value = np.empty(n_arms)
    rest = np.empty(n_arms)
    for row in range(len(x)):
        mean[row, :] = 0.0
        sd[row, :] = 0.0
        for t in range(n_trees):
            value[:] = starts[t]
            rest[:] = 1.0
            node = np.int64(0)
            while True:
                for k in range(n_arms):
                    n = drawn[t, node, k]
                    ends = rest[k] * stop[t, node, k]
                    value[k] = (total[t, node, k] + pull * value[k]) / (n + pull)
                    mean[row, k] += ends * value[k]
                    sd[row, k] += ends / (n + 1.0) * noises[t] ** 2
                    rest[k] -= ends
                threshold = thresholds[t, node]
                if not threshold < np.inf:
                    break
                goes_right = x[row, columns[t, node]] > threshold
                node = np.int64(lefts[t, node]) + np.int64(goes_right)
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
    """Compiled version of `trees.learn`. Return the prediction, then add draws and
    rewards to the nodes on the row's path in each tree."""
    arm, draws, rewards = change
    pull, cut, stopped = settings
    starts, scales = facts
    columns, thresholds, lefts = cuts
    drawn, total, evidence, stop = parts
    path = np.empty(64, np.int64)
    prediction = 0.0
    for t in range(len(scales)):
        own = (drawn[t], total[t], evidence[t], stop[t])
        node = np.int64(0)
        steps = 0
        value = starts[t]
        rest = 1.0
        while True:
            ends = rest * stop[t, node, arm]
            weight = drawn[t, node, arm] + pull
            value = (total[t, node, arm] + pull * value) / weight
            prediction += ends * value
            rest -= ends
            drawn[t, node, arm] += draws
            total[t, node, arm] += rewards
            path[steps] = node
            steps += 1
            threshold = thresholds[t, node]
            if not threshold < np.inf:
                break
            goes_right = row[columns[t, node]] > threshold
            node = np.int64(lefts[t, node]) + np.int64(goes_right)
        for step in range(steps - 1, -1, -1):
            _weigh_node(path[step], arm, lefts[t], own, (scales[t], cut, stopped))
    return prediction / len(scales)
