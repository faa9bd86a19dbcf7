"""The compiled twin of `best_arm`'s quadrature (numba): one row of arms after the other, cell by cell."""

from typing import Any

import numpy as np
from numba import njit

from oddsmith.policies.best_arm import BETA, NODES, OPTIMIST, PARTIAL, WEIGHTS
from oddsmith.vectormath import exp

__all__ = ["best"]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def best(kind: int, cuts: Any, below: Any, first: Any, second: Any, rest: Any, odds: Any) -> None:
    """Fill `odds` (rows, K); `rest` is the densities' constants and the atoms, (rows, K) each."""
    constants, atoms = rest
    rows, n_arms = odds.shape
    dense, up_to, others = np.empty((5, n_arms)), np.empty((5, n_arms)), np.empty(n_arms)
    start, risen = np.empty(n_arms), np.empty(n_arms)
    for row in range(rows):
        start[:] = below[row]
        odds[row] = atoms[row]
        for cell in range(cuts.shape[1] - 1):
            left, half = cuts[row, cell], (cuts[row, cell + 1] - cuts[row, cell]) / 2
            if half <= 0:
                continue
            _densities(kind, left, half, first[row], second[row], constants[row], dense)
            for a in range(n_arms):
                jump = kind == OPTIMIST and below[row, a] == 0 and left >= first[row, a]
                risen[a] = start[a] + (0.5 if jump else 0.0)
            for i in range(5):
                up_to[i] = risen
                for j in range(5):
                    for a in range(n_arms):
                        up_to[i, a] += PARTIAL[i, j] * dense[j, a]
            for i in range(5):
                _others(up_to[i], others)
                for a in range(n_arms):
                    start[a] += WEIGHTS[i] * dense[i, a]
                    odds[row, a] += WEIGHTS[i] * dense[i, a] * others[a]
        total = 0.0
        for a in range(n_arms):
            odds[row, a] = max(odds[row, a], 0.0)
            total += odds[row, a]
        odds[row] /= total


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _densities(kind: int, left: float, half: float, first: Any, second: Any, constants: Any, dense: Any) -> None:
    """The arms' densities at the cell's nodes, times half its width (5, K)."""
    for i in range(5):
        x = left + half + half * NODES[i]
        if kind == BETA:
            tail = np.log1p(np.exp(-abs(x)))
            ahead, behind = min(x, 0.0) - tail, min(-x, 0.0) - tail  # ln θ and ln(1 - θ)
            for a in range(dense.shape[1]):
                dense[i, a] = half * exp(constants[a] + first[a] * ahead + second[a] * behind)
        else:
            for a in range(dense.shape[1]):
                z = (x - first[a]) / second[a]
                dense[i, a] = half * exp(constants[a] - 0.5 * z * z)
            if kind == OPTIMIST:
                for a in range(dense.shape[1]):
                    dense[i, a] = dense[i, a] if x >= first[a] else 0.0


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _others(up_to: Any, others: Any) -> None:
    """Π over all other arms (K,), without division."""
    product = 1.0
    for a in range(up_to.size):
        others[a] = product
        product *= up_to[a]
    product = 1.0
    for a in range(up_to.size - 1, -1, -1):
        others[a] *= product
        product *= up_to[a]
