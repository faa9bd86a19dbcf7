"""Probability that each arm is the best under a shared posterior, from fixed
quasi-random directions."""

from functools import lru_cache

import numpy as np

from oddsmith.core.arrays import Array, Bools, row_products, whole
from oddsmith.core.errors import InvalidInput
from oddsmith.core.weights import greedy

__all__ = [
    "best_rows",
    "check_directions",
    "directions",
    "shared_best",
    "symmetric_root",
]


def shared_best(
    means: Array,
    covariance: Array,
    eligible: Bools | None,
    *,
    n: int,
    seed: int,
    optimist: bool = False,
) -> Array:
    """Return for each arm (…, K) the share of n fixed directions z in which its
    component of mean + S z is the largest, where S S = covariance.

    The result is a deterministic function of the arguments: approximate Thompson
    sampling with exact propensities, because arms are drawn from the returned values.
    Tied arms share the probability.

    >>> shared_best(np.zeros(2), np.eye(2), None, n=1024, seed=0).round(2)
    array([0.5, 0.5])"""
    n_arms = means.shape[-1]
    by_draw = means[..., None, :]
    root, values = _root(covariance)
    drawn = by_draw + directions(n_arms, n, seed) @ root
    if optimist:
        drawn = np.maximum(drawn, by_draw)
    if eligible is not None:
        drawn = np.where(eligible[..., None, :], drawn, -np.inf)
    top = drawn.max(axis=-1, keepdims=True)
    spread = np.sqrt(values[..., -1]) + np.abs(means).max(axis=-1)
    # Count arms as tied if they differ only by rounding.
    wins = drawn >= top - 1e-9 * spread[..., None, None]
    shares = wins / wins.sum(axis=-1, keepdims=True)
    mean: Array = shares.mean(axis=-2)
    return mean


def best_rows(
    rows: Array, weights: Array, least: Array | None, eligible: Bools | None
) -> Array:
    """Return the share of weight vectors (n, d) under which each arm's row (…, K, d)
    scores highest (…, K). Tied arms share it.

    If the weight vector `least` is given, an arm's score is at least its score under
    `least`. The result of a row does not depend on its position.
    """
    scores = row_products(rows, np.ascontiguousarray(weights.T))
    if least is not None:
        scores = np.maximum(scores, row_products(rows, least[:, None]))
    shares: Array = greedy(np.swapaxes(scores, -1, -2), eligible).mean(axis=-2)
    return shares


def symmetric_root(covariance: Array) -> Array:
    """Return the symmetric S (…, d, d) with S S = covariance."""
    root, _ = _root(covariance)
    return root


def _root(covariance: Array) -> tuple[Array, Array]:
    """Return S with S S = covariance, and the eigenvalues (…, d)."""
    values, vectors = np.linalg.eigh(covariance)
    # Eigenvalues below this are rounding errors, and their roots would be too large.
    least = 1e-13 * values[..., -1:]
    values = np.where(values > least, values, 0.0)
    scaled = vectors * np.sqrt(values)[..., None, :]
    return scaled @ np.swapaxes(vectors, -1, -2), values


@lru_cache(maxsize=64)
def directions(dim: int, n: int, seed: int) -> Array:
    """Return n standard normal vectors (n, dim) from a scrambled Sobol sequence, the
    same in every process.

    >>> bool(abs(directions(3, 1024, 0).mean()) < 1e-3)
    True
    """
    from scipy.special import ndtri
    from scipy.stats import qmc

    rng = np.random.default_rng(seed)
    points = qmc.Sobol(dim, scramble=True, rng=rng).random(n)
    points = np.clip(points, 1e-12, 1 - 1e-12)
    normal: Array = ndtri(points)
    normal.setflags(write=False)
    return normal


def check_directions(n: object, seed: object) -> None:
    """Raise unless the number of directions is a power of two and the seed is valid."""
    whole("seed", seed, low=0)
    number = 0
    if isinstance(n, int | np.integer) and not isinstance(n, bool):
        number = int(n)
    if number < 2 or number & (number - 1):
        raise InvalidInput(
            f"directions must be a power of two of at least 2; got {n!r}"
        )
