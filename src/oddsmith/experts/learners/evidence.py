"""Evidence: several ridge penalties for one regression, weighted by how well each
predicted the rewards, with packed covariances.

A covariance (D, D) is stored as its lower triangle, row by row (P = D (D+1)/2), which
needs half the memory; an additional feature is a row at the end. The predictive
distribution of a ridge is Student's t with the noise estimated so far."""

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
    "mix_ridges",
    "precisions",
    "prior",
    "rescale",
    "shares",
    "start_of",
    "with_features",
]

_Models = TypeVar("_Models", "Regressions", "Crossed")

Ridges: TypeAlias = tuple[tuple[float, float], ...]
"""Pairs of prior precisions: of the constant and the linear part, and of Fourier
features (waves)."""
USUAL: Ridges = ((0.3, 0.3), (1.0, 3.0), (3.0, 30.0))
_FAINT = 0.01  # ignore the predictions of ridges with less weight; all of them learn


class Regressions(NamedTuple):
    """Regressions of rewards and of a constant 1, for each ridge and arm.

    The arrays are `weights` (…, J, K, 2, D); `covariance` (…, J, K, P), which is packed
    and in units of the noise; `evidence` (…, J, 3), the record of each ridge's
    predictions; and `sums` (…, 2), which are Σ r and the number of rewards.
    """

    weights: Array
    covariance: Array
    evidence: Array
    sums: Array


class Crossed(NamedTuple):
    """Regressions on further features. Their evidence and sums are stored with those of
    the first regressions.

    `weights` (J, 1, 2, D) and `covariance` (J, 1, P), as in `Regressions`.
    """

    weights: Array
    covariance: Array


class Row(NamedTuple):
    """Features (D) of an arm's row, and its reward.

    If arms have their own means, `own` (2) contains the arm's mean of rewards and of a
    constant 1, and `total` is the weight of these means in numbers of rewards.
    """

    phi: Array
    reward: float
    own: Array = np.zeros(2)
    total: float = np.inf


def check_ridges(ridges: Any) -> None:
    """Raise for anything other than a tuple of pairs of positive numbers."""
    is_filled = isinstance(ridges, tuple) and bool(ridges)
    if not (is_filled and all(isinstance(r, tuple) and len(r) == 2 for r in ridges)):
        raise InvalidInput(
            "ridges must be pairs of numbers, for the linear part and for waves; got "
            f"{ridges!r:.60}"
        )
    for ridge in chain.from_iterable(ridges):
        number("ridge", ridge, low=0, high=np.inf, open_low=True)


def precisions(ridges: Ridges, n_waves: int, size: int) -> Array:
    """Return the prior precision (J, D) of each feature: the constant, the waves, and
    the linear part.

    >>> precisions(((1.0, 3.0),), 2, 4)
    array([[1., 3., 3., 1.]])
    """
    places = np.arange(size)
    is_wave = (places > 0) & (places <= n_waves)
    return np.array([np.where(is_wave, waves, plain) for plain, waves in ridges])


def shares(evidence: Array) -> Array:
    """Return the weight of each ridge (…, J). Tiny weights are set to 0.

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
    """Add the log density of its error to each ridge (J, 3), in place; the variance of
    the error is 1 + `variance` in units of the noise.

    The density is Student's t with `freedom` degrees of freedom and scale² =
    squares · (1 + variance) / freedom, without its normalising constant.
    """
    found, freedom, squares = evidence.T
    wide = 1 + variance
    scaled = error * error / wide
    tail = 0.5 * (freedom + 1) * np.log1p(scaled / squares)
    found -= 0.5 * np.log(squares * wide) + tail
    freedom += 1
    squares += scaled


def start_of(sums: Array) -> Array:
    """Return the prior mean (…) of an arm without rewards. `sums` (…, 2) are the sum
    and the number of all rewards.

    >>> start_of(np.array([[0.0, 0.0], [8.0, 8.0]]))
    array([0.5, 0.9])
    """
    return prior_mean(sums[..., 0], sums[..., 1])


def mix_ridges(values: Array, variance: Array, models: Regressions) -> Belief:
    """Return means and standard deviations (…, K), mixed over ridges, from values (…,
    J, K, 2) and variances (…, K) in units of the noise.

    The values are predictions of the reward and of a constant 1. If a ridge predicts
    less than 1 for the constant, the start value makes up the difference. The variances
    are those of the first ridge, which has the smallest penalty, because larger
    penalties can leave almost no uncertainty. If the first ridge fits best, rewards are
    nearly deterministic, and a rare reward is not noise. The noise is then set to its
    largest possible value.

        mean_j = value_j + start (1 - one_j)
        sd² = Σ_j weight_j (noise_j · variance + (mean_j - mean)²)
    """
    evidence = models.evidence
    start = start_of(models.sums)[..., None, None]
    weight = shares(evidence)[..., None]
    noise = (evidence[..., 2] / evidence[..., 1])[..., None]
    largest = largest_sd(models.sums[..., 0], models.sums[..., 1])
    noise[..., 0, :] = largest[..., None] ** 2
    means = values[..., 0] + start * (1 - values[..., 1])
    mean = np.add.reduce(weight * means, axis=-2)
    apart = means - mean[..., None, :]
    spread = weight * (noise * variance[..., None, :] + apart**2)
    return Belief(mean, np.sqrt(np.add.reduce(spread, axis=-2)))


def rescale(models: Regressions, factor: Array) -> None:
    """Change the unit of rewards in place; rewards become `factor` (…) times as
    large."""
    by_ridge = factor[..., None]
    models.weights[..., 0, :] *= by_ridge[..., None, None]
    models.evidence[..., 2] *= by_ridge**2
    models.sums[..., 0] *= factor


def prior(precision: Array, shape: tuple[int, ...]) -> Regressions:
    """Return the regressions before any reward, with these precisions (J, D); `shape`
    is (…, K)."""
    *lead, n_arms = shape
    n_ridges = len(precision)
    models = (*lead, n_ridges, n_arms)
    evidence = np.empty((*lead, n_ridges, 3))
    evidence[:] = (0.0, 2.0, 0.5)
    weights = np.zeros((*models, 2, 0))
    covariance = np.zeros((*models, 0))
    none = Regressions(weights, covariance, evidence, np.zeros((*lead, 2)))
    return with_features(none, precision)


def with_features(models: _Models, precision: Array) -> _Models:
    """Return the regressions with further features, D in all. The result is exact if
    these features were 0 in all earlier rows."""
    size = precision.shape[-1]
    n_before = models.covariance.shape[-1]
    rows = np.arange(size)
    n_packed = size * (size + 1) // 2
    covariance = np.zeros((*models.covariance.shape[:-1], n_packed))
    covariance[..., :n_before] = models.covariance
    diagonal = rows * (rows + 3) // 2
    is_new = diagonal >= n_before
    covariance[..., diagonal[is_new]] = 1 / precision[:, None, is_new]
    weights = np.zeros((*models.weights.shape[:-1], size))
    weights[..., : models.weights.shape[-1]] = models.weights
    return models._replace(weights=weights, covariance=covariance)


def dense(packed: Array, size: int) -> Array:
    """Return the full matrices (…, D, D) of packed ones."""
    full = np.zeros((*packed.shape[:-1], size, size))
    rows, columns = np.tril_indices(size)
    full[..., rows, columns] = packed
    full[..., columns, rows] = packed
    return full


def learn_row(models: Regressions, arm: int, row: Row) -> None:
    """Score the ridges on their predictions of the row, then add the row to the arm's
    regressions, in place."""
    compiled = kernels.compiled()
    if compiled is not None:
        compiled.learn_row(*models, arm, *row)
        return
    start = float(start_of(models.sums))
    weights = models.weights[:, arm]
    _gain(weights, models.covariance[:, arm], models.evidence, row, start)
    _count(models, row.reward)


def learn_both(
    models: Regressions, products: Crossed, row: Row, crossed: Array
) -> None:
    """Do the same as `learn_row`, in place, for two groups of regressions: `models` use
    the features of the row, and `products` use `crossed`."""
    compiled = kernels.compiled()
    if compiled is not None:
        compiled.learn_both(*models, *products, crossed, *row)
        return
    start = float(start_of(models.sums))
    n_ridges = len(models.covariance)
    plain_evidence = models.evidence[:n_ridges]
    crossed_evidence = models.evidence[n_ridges:]
    crossed_row = row._replace(phi=crossed)
    _gain(models.weights[:, 0], models.covariance[:, 0], plain_evidence, row, start)
    _gain(
        products.weights[:, 0],
        products.covariance[:, 0],
        crossed_evidence,
        crossed_row,
        start,
    )
    _count(models, row.reward)


def _gain(
    weights: Array, covariance: Array, evidence: Array, row: Row, start: float
) -> None:
    """Score regressions (J, 2, D) on their predictions of the row, and add the row, in
    place.

    With gain = C φ and heft = n/(n + 1) of the arm's own mean (Sherman and Morrison): C
    -= s gain gainᵀ and θ += s error gain, where s = heft / (1 + heft φᵀ C φ).
    """
    from scipy.linalg.blas import dspmv, dspr

    phi, reward, own, total = row
    heft = 1 / (1 + 1 / total)
    gains = np.array([dspmv(len(phi), 1.0, packed, phi) for packed in covariance])
    gains = gains.reshape(len(covariance), len(phi))
    variance = np.array([max(float(phi @ gain), 0.0) for gain in gains])
    errors = np.array([reward, 1.0]) - (own + weights @ phi)
    shrink = heft / (1 + heft * variance)
    steps = errors * shrink[:, None]
    weights += steps[..., None] * gains[:, None]
    for packed, gain, by in zip(covariance, gains, shrink, strict=True):
        dspr(len(phi), -by, gain, packed, overwrite_ap=True)
    shifted_errors = errors[:, 0] - start * errors[:, 1]
    score(evidence, shifted_errors, variance + 1 / total)


def _count(models: Regressions, reward: float) -> None:
    """Shift the best evidence to 0 and add the reward to the sums, in place."""
    found = models.evidence[:, 0]
    found -= np.maximum.reduce(found)
    models.sums[:] += (reward, 1.0)
