"""Lower bounds on a running mean that hold at every row at once, however the mean drifts and however heavy the tail.

Let x_t ≥ 0 have the mean v_t given the past, and let c_t ≥ 0 be known before x_t. For a rate λ with λ c_t < 1,

    (1 + λ (x_t - c_t)) exp(λ c_t - λ v_t)

is never negative and has mean (1 + λ (v_t - c_t)) exp(-λ (v_t - c_t)) ≤ 1 given the past. Its product over rows depends
on the unknown means by their sum alone, so with V = (v_1 + … + v_t)/t and the sums G_λ = Σ ln(1 + λ (x - c)) + λ c,

    W_t = mean over λ of exp(G_λ - λ t V)

is below 1/α at every row at once with probability at least 1 - α (Ville). It decreases in V, so the running means that
are not refuted are those above one number. Nothing but the sums is kept of a row. (After Waudby-Smith et al. 2022, who
bound the logarithm from below by a sub-gamma law.) Rates are powers of 2; c_t is the mean so far, at most 1/(2λ).
"""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from oddsmith.arrays import Array

__all__ = ["RATES", "Sums", "log_evidence", "running_bound", "running_sums"]

RATES: Array = 2.0 ** np.arange(6, -15, -1.0)
_STEPS = 60  # of Newton's method, which comes from below: what it leaves makes the bound smaller


class Sums(NamedTuple):
    """All that the bound needs of the rows so far: their number (…), Σ x (…), and G_λ (…, rates)."""

    rows: Array
    total: Array
    gains: Array


def running_sums(x: Array, *, every: bool = False) -> Sums:
    """The sums of x ≥ 0 (…, T) after all rows; with `every`, after each row: (…, T), (…, T), (…, T, rates)."""
    rows, total = np.arange(1.0, x.shape[-1] + 1), np.cumsum(x, axis=-1)
    before = (total - x) / np.maximum(rows - 1.0, 1.0)
    gains = []
    for rate in RATES:
        centre = np.minimum(before, 0.5 / rate)
        gain = np.log1p(rate * (x - centre)) + rate * centre
        gains.append(np.cumsum(gain, axis=-1) if every else gain.sum(axis=-1))
    if every:
        return Sums(np.broadcast_to(rows, x.shape), total, np.stack(gains, axis=-1))
    return Sums(np.full(x.shape[:-1], rows[-1]), total[..., -1], np.stack(gains, axis=-1))


def log_evidence(sums: Sums, mean: Array) -> Array:
    """ln W (…) against a running mean (…)."""
    terms = sums.gains - RATES * (sums.rows * mean)[..., None]
    return np.asarray(logsumexp(terms, axis=-1) - np.log(len(RATES)))


def running_bound(sums: Sums, alpha: float) -> Array:
    """The largest running mean (…) that is refuted at level alpha; 0 if none is.

    >>> x = np.random.default_rng(0).random(4000) * np.linspace(2, 0, 4000)
    >>> bool(0.4 < running_bound(running_sums(x), 0.025) < x.mean())
    True
    """
    needed, rows = -np.log(alpha), sums.rows[..., None]
    mean = ((sums.gains - np.log(len(RATES)) - needed) / (RATES * rows)).max(axis=-1)  # one rate alone refutes it
    for _ in range(_STEPS):
        terms = sums.gains - RATES * rows * mean[..., None]
        weights = np.exp(terms - terms.max(axis=-1, keepdims=True))
        slope = (weights * RATES).sum(axis=-1) / weights.sum(axis=-1) * sums.rows
        step = (log_evidence(sums, mean) - needed) / slope
        mean = mean + np.maximum(step, 0.0)
        if (step <= 1e-12 * np.maximum(1.0, np.abs(mean))).all():
            break
    bound: Array = np.maximum(mean, 0.0)
    return bound
