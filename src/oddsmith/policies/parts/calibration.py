"""Online calibration: predictions of experts on the scale of the rewards.

A calibrated prediction is a mean of two forms of an expert's prediction f, weighted by
the evidence for each:

    unchanged:    f
    calibrated:   s(a + b (z - mean z)),   z = logit(f),   s the logistic function

The mean is over the eligible arms: the expert predicts the differences between arms,
and the rewards determine their level (a) and their scale (b). b is at least 0.02, so
that the order of the arms is kept. (a, b) follows a logistic regression, with one
Newton step per reward:

    c = s(a + b d),   d = z - mean z
    H <- m H + (1 - m) H_0 + c (1 - c) (1, d)' (1, d),   (a, b) += (r - c) H^-1 (1, d)

with a memory m of 10,000 rewards, because models become outdated. Rewards and
predictions are in [0, 1], in units of the largest reward so far.
"""

from typing import NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, Bools

__all__ = ["Calibration", "calibrated", "distances", "first_calibration", "logits"]

_LEAST = 1e-6  # predictions are clipped to [_LEAST, 1 - _LEAST]
_SLOPE = 0.3
_LEAST_SLOPE = 0.02
_PRIOR = np.array([0.05, 0.0, 1.0])  # initial H_0: entries for a², a b and b²
_FORGOTTEN = 1e-4
_MOST_EVIDENCE = 20.0


class Calibration(NamedTuple):
    """The calibration of each expert: intercept a and slope b (…, N), the entries of H
    for a², a b and b² (…, N, 3), and the log evidence (…, N) that predictions are
    already calibrated.

    The evidence is a difference of log likelihoods: that of the unchanged predictions
    minus that of the calibrated ones.
    """

    intercept: Array
    slope: Array
    precision: Array
    evidence: Array

    @property
    def trust(self) -> Array:
        """Return the probability (…, N) that an expert's predictions are already
        calibrated."""
        return _logistic(self.evidence)

    def learn(self, z: Array, distance: Array, rewards: Array) -> "Calibration":
        """Return the calibration after a reward (…) of an arm with logits z (…, N).
        `distance` (…, N) is their difference from the mean over the arms.

        The calibration of an expert without a prediction (NaN) is not changed.
        """
        known = ~np.isnan(z)
        z = np.where(known, z, 0.0)
        distance = np.where(known, distance, 0.0)
        r = rewards[..., None]
        linear = self.intercept + self.slope * distance
        c = _logistic(linear)
        gain = _log_likelihood(z, r) - _log_likelihood(linear, r)
        evidence = np.clip(self.evidence + gain, -_MOST_EVIDENCE, _MOST_EVIDENCE)

        row = np.stack([np.ones_like(distance), distance, distance**2], axis=-1)
        information = (c * (1 - c))[..., None] * row
        precision = self.precision + information
        precision += _FORGOTTEN * (_PRIOR - self.precision)
        intercept, slope = self._newton(precision, r - c, distance)
        return Calibration(
            np.where(known, intercept, self.intercept),
            np.where(known, slope, self.slope),
            np.where(known[..., None], precision, self.precision),
            np.where(known, evidence, self.evidence),
        )

    def _newton(
        self, precision: Array, error: Array, distance: Array
    ) -> tuple[Array, Array]:
        """Return intercept and slope (…, N) after one Newton step, H^-1 (1, d)
        error."""
        aa, ab, bb = np.moveaxis(precision, -1, 0)
        step = error / (aa * bb - ab * ab)
        intercept = self.intercept + step * (bb - ab * distance)
        slope = self.slope + step * (aa * distance - ab)
        return intercept, np.maximum(slope, _LEAST_SLOPE)

    def shift(self, z: Array, distance: Array, change: Array) -> "Calibration":
        """Return the calibration after a reward increased by `change` (…), by one more
        Newton step with the current precision."""
        known = ~np.isnan(z)
        by_expert = change[..., None]
        distance = np.where(known, distance, 0.0)
        error = np.where(known, by_expert, 0.0)
        intercept, slope = self._newton(self.precision, error, distance)
        linear = self.intercept + self.slope * distance
        gain = by_expert * (np.where(known, z, linear) - linear)
        evidence = np.clip(self.evidence + gain, -_MOST_EVIDENCE, _MOST_EVIDENCE)
        return self._replace(intercept=intercept, slope=slope, evidence=evidence)

    def rescale(self, factor: Array) -> "Calibration":
        """Return the calibration for a unit in which rewards are `factor` (…) times as
        large. A calibrated prediction c becomes about factor · c."""
        return self._replace(intercept=self.intercept + np.log(factor)[..., None])


def first_calibration(shape: tuple[int, ...]) -> Calibration:
    """Return the calibration before any reward; `shape` is (…, N)."""
    precision = np.broadcast_to(_PRIOR, (*shape, 3)).copy()
    slope = np.full(shape, _SLOPE)
    return Calibration(np.zeros(shape), slope, precision, np.zeros(shape))


def logits(predictions: Array) -> Array:
    """Return ln(f / (1 - f)), with f kept away from 0 and 1; NaN stays NaN.

    >>> logits(np.array([0.5, 0.0, np.nan])).round(2)
    array([  0.  , -13.82,    nan])
    """
    inside = np.minimum(np.maximum(predictions, _LEAST), 1 - _LEAST)
    found: Array = np.log(inside / (1 - inside))
    return found


def distances(z: Array, eligible: Bools | None) -> Array:
    """Return the differences of logits z (…, N, K) from their mean over the eligible
    arms for which the expert has a prediction; NaN stays NaN.

    >>> distances(np.array([[1.0, 3.0, np.nan]]), None)
    array([[-1.,  1., nan]])"""
    known = ~np.isnan(z)
    if eligible is not None:
        known &= eligible[..., None, :]
    count = np.add.reduce(known, axis=-1)
    total = np.add.reduce(np.where(known, z, 0.0), axis=-1)
    mean: Array = total / np.maximum(count, 1)
    return z - mean[..., None]


def calibrated(calibration: Calibration, z: Array, distance: Array) -> Array:
    """Return the weighted mean of both forms (…, N, K), in [0, 1], for logits z (…, N,
    K) with these distances from their mean."""
    intercept = calibration.intercept[..., None]
    slope = calibration.slope[..., None]
    trust = calibration.trust[..., None]
    adjusted = _logistic(intercept + slope * distance)
    predictions: Array = adjusted + trust * (_logistic(z) - adjusted)
    return predictions


def _logistic(z: Array) -> Array:
    value: Array = 1 / (1 + np.exp(-z))
    return value


def _log_likelihood(z: Array, reward: Array) -> Array:
    """Return r ln s(z) + (1 - r) ln s(-z) = r z - ln(1 + exp(z))."""
    found: Array = reward * z - np.logaddexp(0.0, z)
    return found
