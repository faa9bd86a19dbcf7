"""Shrunk importance weights, and how much to shrink them where it is not given: the least estimated squared error."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from oddsmith.arrays import Array
from oddsmith.evaluation.rows import Rows

__all__ = ["Shrinkage", "chosen", "clipped", "optimistic", "switched"]

_CANDIDATES = 32


class Shrinkage(NamedTuple):
    """A way to shrink weights: `shrink(setting, w)`, the largest shrunk weight, and candidates made from weights."""

    symbol: str
    shrink: Callable[[float, Array], Array]
    reach: Callable[[float], float]
    scale: Callable[[Array], Array]


clipped = Shrinkage("threshold", np.minimum, lambda m: m, lambda w: w)
switched = Shrinkage("tau", lambda tau, w: np.where(w <= tau, w, 0.0), lambda tau: tau, lambda w: w)
optimistic = Shrinkage(
    "strength",
    lambda s, w: w / (1.0 + w**2 / s) if s > 0 else np.zeros_like(w),
    lambda s: float(np.sqrt(s)) / 2,
    lambda w: w**2,
)


def chosen(shrinkage: Shrinkage, rows: Rows, base: Array, residual: Array) -> float:
    """The setting with the least estimated mean squared error of base + ŵ residual.

        Var(terms) / T + min(B, |mean d| + sd(d)/√T)²,   d = (w - ŵ) residual

    The second part bounds the bias: d is what shrinking takes away, estimated with one standard error on top; B is its
    largest size, the mean of w - ŵ (as |residual| ≤ 1), by the logged odds of all arms where they are there. Candidates
    are 32 quantiles of the weights (squared, for optimistic shrinkage) and ∞, which is no shrinkage.
    """
    weights, ratios = rows.weights, rows.ratios
    positive, shares = weights[weights > 0], 1 - np.geomspace(1e-4, 1, _CANDIDATES)
    quantiles = np.unique(np.quantile(positive, shares)) if positive.size else positive
    candidates, errors = np.append(shrinkage.scale(quantiles), np.inf), []
    for setting in candidates:
        shrunk = shrinkage.shrink(setting, weights)
        lost = (weights - shrunk) * residual
        estimated = abs(lost.mean()) + lost.std() / np.sqrt(len(lost))
        bias = min(_largest_bias(shrinkage, setting, rows.target, ratios, weights - shrunk), float(estimated))
        errors.append((base + shrunk * residual).var() / len(lost) + bias**2)
    return float(candidates[int(np.argmin(errors))])


def _largest_bias(shrinkage: Shrinkage, setting: float, target: Array, ratios: Array | None, lost: Array) -> float:
    """The mean of w - ŵ: over the draws, or exactly where the odds of all arms are logged."""
    if ratios is None:
        return float(lost.mean())
    kept = np.divide(shrinkage.shrink(setting, ratios), ratios, out=np.zeros_like(ratios), where=ratios > 0)
    return float((target * (1 - kept)).sum(axis=1).mean())
