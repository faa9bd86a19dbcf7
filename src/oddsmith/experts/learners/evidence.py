"""Evidence: several ridges of one regression, weighed by how well each foresaw the
rewards; packed covariances.

A covariance (D, D) is kept as its lower triangle, row after row (P = D (D+1)/2): half
the memory, and a further feature is a row at the end. A ridge's predictions are those
of Student's t with the noise found so far.
"""

from itertools import chain
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from oddsmith.core import kernels
from oddsmith.core.arrays import Array, number
from oddsmith.core.errors import InvalidInput
from oddsmith.experts.learners.prior import largest_sd, prior_mean
from oddsmith.experts.learners.protocol import Belief

__all__ = [
    "Crossed",
    "Regressions",
    "Ridges",
    "Row",
    "USUAL",
    "check_ridges",
    "dense",
    "learn_both",
    "learn_row",
    "lengthened",
    "mixed",
    "precisions",
    "prior",
    "rescale",
    "shares",
    "start_of",
]

_Models = TypeVar("_Models", "Regressions", "Crossed")

Ridges: TypeAlias = tuple[tuple[float, float], ...]
"""Pairs of prior precisions: of 1 and the linear part, and of waves."""
USUAL: Ridges = ((0.3, 0.3), (1.0, 3.0), (3.0, 30.0))
_FAINT = 0.01  # ridges with less weight are not asked; all of them learn


class Regressions(NamedTuple):
    """Regressions of rewards and of a constant 1, for each ridge and arm.

    `weights` (…, J, K, 2, D), `covariance` (…, J, K, P) packed and in units of the
    noise, `evidence` (…, J, 3), and `sums` (…, 2), Σ r and the number of rewards.
    """

    weights: Array
    covariance: Array
    evidence: Array
    sums: Array


class Crossed(NamedTuple):
    """Regressions on further features: the evidence for them, and the sums, stand with
    those of the first ones.

    `weights` (J, 1, 2, D) and `covariance` (J, 1, P), as in `Regressions`.
    """

    weights: Array
    covariance: Array


class Row(NamedTuple):
    """Features (D) of an arm's row, and its reward.

    Where the arm has a mean of its own, `own` (2) is that of rewards and of a constant
    1, and `total` is how many rewards it weighs.
    """

    phi: Array
    reward: float
    own: Array = np.zeros(2)
    total: float = np.inf


def check_ridges(ridges: Any) -> None:
    """Refuses what is not a tuple of pairs of positive numbers."""
    if (
        not isinstance(ridges, tuple)
        or not ridges
        or not all(isinstance(r, tuple) and len(r) == 2 for r in ridges)
    ):
        raise InvalidInput(
            "ridges must be pairs of numbers, of the linear part and of waves; got "
            f"{ridges!r:.60}"
        )
    for ridge in chain.from_iterable(ridges):
        number("ridge", ridge, low=0, high=np.inf, open_low=True)


def precisions(ridges: Ridges, n_waves: int, size: int) -> Array:
    """The prior precision (J, D) of each feature: 1, waves, and the linear part.

    >>> precisions(((1.0, 3.0),), 2, 4)
    array([[1., 3., 3., 1.]])
    """
    is_wave = (np.arange(size) > 0) & (np.arange(size) <= n_waves)
    return np.array([np.where(is_wave, waves, plain) for plain, waves in ridges])


def shares(evidence: Array) -> Array:
    """The weight of each ridge (…, J); one that is faint has none.

    >>> shares(np.array([[0.0, 2.0, 0.5], [-9.0, 2.0, 0.5]]))
    array([1., 0.])
    """
    found = evidence[..., 0]
    weight: Array = np.exp(found - np.maximum.reduce(found, axis=-1, keepdims=True))
    weight /= np.add.reduce(weight, axis=-1, keepdims=True)
    weight[weight < _FAINT] = 0.0
    weight /= np.add.reduce(weight, axis=-1, keepdims=True)
    return weight


def score(evidence: Array, error: Array, variance: Array) -> None:
    """In place: each ridge (J, 3) gains the density of its error, whose variance is 1 +
    `variance` in noise's units."""
    found, freedom, squares = evidence.T
    wide = 1 + variance
    scaled = error * error / wide
    found -= 0.5 * np.log(squares * wide) + 0.5 * (freedom + 1) * np.log1p(
        scaled / squares
    )
    freedom += 1
    squares += scaled


def start_of(sums: Array) -> Array:
    """The mean (…) of an arm of which nothing is known; `sums` (…, 2) are Σ r and n.

    >>> start_of(np.array([[0.0, 0.0], [8.0, 8.0]]))
    array([0.5, 0.9])
    """
    return prior_mean(sums[..., 0], sums[..., 1])


def mixed(values: Array, variance: Array, models: Regressions) -> Belief:
    """Means and standard deviations (…, K) over ridges: of values (…, J, K, 2) and
    variances (…, K) in noise's units.

    Values are what the regressions say of rewards, and of a constant 1: what they leave
    of it is the start's. The variances are those of the first ridge, which smooths
    least: how smooth the world is must not end the doubt. Where that ridge is the best,
    rewards are nearly certain, and rare ones are no noise: its noise is the largest
    there is.
    """
    evidence, start = models.evidence, start_of(models.sums)[..., None, None]
    weight, noise = (
        shares(evidence)[..., None],
        (evidence[..., 2] / evidence[..., 1])[..., None],
    )
    noise[..., 0, :] = (
        largest_sd(models.sums[..., 0], models.sums[..., 1])[..., None] ** 2
    )
    means = values[..., 0] + start * (1 - values[..., 1])
    mean = np.add.reduce(weight * means, axis=-2)
    spread = weight * (
        noise * variance[..., None, :] + (means - mean[..., None, :]) ** 2
    )
    return Belief(mean, np.sqrt(np.add.reduce(spread, axis=-2)))


def rescale(models: Regressions, factor: Array) -> None:
    """In place: rewards are in another unit, `factor` (…) times as large."""
    models.weights[..., 0, :] *= factor[..., None, None, None]
    models.evidence[..., 2] *= factor[..., None] ** 2
    models.sums[..., 0] *= factor


def prior(precision: Array, shape: tuple[int, ...]) -> Regressions:
    """The regressions before any reward, with these precisions (J, D); `shape` is (…,
    K)."""
    *lead, n_arms = shape
    models = (*lead, len(precision), n_arms)
    evidence = np.broadcast_to([0.0, 2.0, 0.5], (*lead, len(precision), 3)).copy()
    none = Regressions(
        np.zeros((*models, 2, 0)),
        np.zeros((*models, 0)),
        evidence,
        np.zeros((*lead, 2)),
    )
    return lengthened(none, precision)


def lengthened(models: _Models, precision: Array) -> _Models:
    """The regressions with further features, up to D, that were 0 in all rows so far:
    exact."""
    size = precision.shape[-1]
    known, rows = models.covariance.shape[-1], np.arange(size)
    longer = np.zeros((*models.covariance.shape[:-1], size * (size + 1) // 2))
    longer[..., :known] = models.covariance
    ends = rows * (rows + 3) // 2
    is_new = ends >= known
    longer[..., ends[is_new]] = 1 / precision[:, None, is_new]
    weights = np.zeros((*models.weights.shape[:-1], size))
    weights[..., : models.weights.shape[-1]] = models.weights
    return models._replace(weights=weights, covariance=longer)


def dense(packed: Array, size: int) -> Array:
    """The full matrices (…, D, D) of packed ones."""
    full = np.zeros((*packed.shape[:-1], size, size))
    rows, columns = np.tril_indices(size)
    full[..., rows, columns] = packed
    full[..., columns, rows] = packed
    return full


def learn_row(models: Regressions, arm: int, row: Row) -> None:
    """In place: ridges are scored on what they foresaw of the row, then the arm's
    regressions gain it."""
    compiled = kernels.compiled()
    if compiled is not None:
        compiled.learn_row(*models, arm, *row)
        return
    start = float(start_of(models.sums))
    _gain(
        models.weights[:, arm], models.covariance[:, arm], models.evidence, row, start
    )
    _count(models, row.reward)


def learn_both(
    models: Regressions, products: Crossed, row: Row, crossed: Array
) -> None:
    """In place: as `learn_row`, where some of the ridges are those of other features of
    the same row, `crossed`."""
    compiled = kernels.compiled()
    if compiled is not None:
        compiled.learn_both(*models, *products, crossed, *row)
        return
    start = float(start_of(models.sums))
    n_ridges = len(models.covariance)
    _gain(
        models.weights[:, 0],
        models.covariance[:, 0],
        models.evidence[:n_ridges],
        row,
        start,
    )
    _gain(
        products.weights[:, 0],
        products.covariance[:, 0],
        models.evidence[n_ridges:],
        row._replace(phi=crossed),
        start,
    )
    _count(models, row.reward)


def _gain(
    weights: Array, covariance: Array, evidence: Array, row: Row, start: float
) -> None:
    """In place: regressions (J, 2, D) are scored on what they foresaw of the row, and
    gain it."""
    from scipy.linalg.blas import dspmv, dspr

    phi, reward, own, total = row
    heft = 1 / (1 + 1 / total)
    gains = np.array([dspmv(len(phi), 1.0, packed, phi) for packed in covariance])
    gains = gains.reshape(len(covariance), len(phi))
    variance = np.array([max(float(phi @ gain), 0.0) for gain in gains])
    missed = np.array([reward, 1.0]) - (own + weights @ phi)
    shrink = heft / (1 + heft * variance)
    weights += (missed * shrink[:, None])[..., None] * gains[:, None]
    for packed, gain, by in zip(covariance, gains, shrink, strict=True):
        dspr(len(phi), -by, gain, packed, overwrite_ap=True)
    score(evidence, missed[:, 0] - start * missed[:, 1], variance + 1 / total)


def _count(models: Regressions, reward: float) -> None:
    """In place: the best evidence is 0 again, and the sums have one more reward."""
    models.evidence[:, 0] -= np.maximum.reduce(models.evidence[:, 0])
    models.sums[:] += (reward, 1.0)
