"""The probability of being best under one shared belief: fixed quasi-random directions
stand for all draws."""

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
    """The share of n fixed directions z in which each arm of mean + S z is the largest
    (…, K), S S = covariance.

    A deterministic function of its arguments: approximate Thompson sampling whose odds
    are exact, for what is drawn from is what is returned. Ties share.

    >>> shared_best(np.zeros(2), np.eye(2), None, n=1024, seed=0).round(2)
    array([0.5, 0.5])
    """
    n_arms = means.shape[-1]
    factor, values = _root(covariance)
    drawn = means[..., None, :] + directions(n_arms, n, seed) @ factor
    if optimist:
        drawn = np.maximum(drawn, means[..., None, :])
    if eligible is not None:
        drawn = np.where(eligible[..., None, :], drawn, -np.inf)
    top = drawn.max(axis=-1, keepdims=True)
    spread = np.sqrt(values[..., -1]) + np.abs(means).max(axis=-1)
    # arms that differ by rounding alone are the same
    wins = drawn >= top - 1e-9 * spread[..., None, None]
    shares: Array = (wins / wins.sum(axis=-1, keepdims=True)).mean(axis=-2)
    return shares


def best_rows(
    rows: Array, weights: Array, least: Array | None, eligible: Bools | None
) -> Array:
    """The share of weight vectors (n, d) under which each arm's row (…, K, d) scores
    highest (…, K); ties share.

    A score is at least that under the weights `least`, if given. What a row gives does
    not depend on its place.
    """
    scores = row_products(rows, np.ascontiguousarray(weights.T))
    if least is not None:
        scores = np.maximum(scores, row_products(rows, least[:, None]))
    shares: Array = greedy(np.swapaxes(scores, -1, -2), eligible).mean(axis=-2)
    return shares


def symmetric_root(covariance: Array) -> Array:
    """The symmetric S (…, d, d) with S S = covariance."""
    return _root(covariance)[0]


def _root(covariance: Array) -> tuple[Array, Array]:
    """S with S S = covariance, and the eigenvalues (…, d)."""
    values, vectors = np.linalg.eigh(covariance)
    # below is rounding, whose root would be seen
    values = np.where(values > 1e-13 * values[..., -1:], values, 0.0)
    return (vectors * np.sqrt(values)[..., None, :]) @ np.swapaxes(
        vectors, -1, -2
    ), values


@lru_cache(maxsize=64)
def directions(dim: int, n: int, seed: int) -> Array:
    """n standard normal vectors from a scrambled Sobol sequence (n, dim), the same in
    every process.

    >>> bool(abs(directions(3, 1024, 0).mean()) < 1e-3)
    True
    """
    from scipy.special import ndtri
    from scipy.stats import qmc

    points = qmc.Sobol(dim, scramble=True, rng=np.random.default_rng(seed)).random(n)
    normal: Array = ndtri(np.clip(points, 1e-12, 1 - 1e-12))
    normal.setflags(write=False)
    return normal


def check_directions(n: object, seed: object) -> None:
    """Refuse a number of directions that is not a power of two, and what is no seed."""
    whole("seed", seed, low=0)
    if (
        isinstance(n, bool)
        or not isinstance(n, int | np.integer)
        or n < 2
        or n & (n - 1)
    ):
        raise InvalidInput(
            f"directions must be a power of two of at least 2; got {n!r}"
        )
