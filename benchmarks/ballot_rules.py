"""Voting rules of learners that the ablation compares with `Optimistic`: none of them
was better."""

from dataclasses import dataclass

import numpy as np

from oddsmith.core.arrays import Array, Bools
from oddsmith.experts.ballots import inverse_gap
from oddsmith.experts.best_arm import normal_best


@dataclass(frozen=True)
class PosteriorBest:
    """Vote by the probability that each arm is the best under independent normals with
    standard deviation scale · sd."""

    scale: float = 0.3

    def __call__(self, mean: Array, sd: Array, eligible: Bools | None = None) -> Array:
        mask = None
        if eligible is not None:
            mask = np.broadcast_to(eligible[..., None, :], mean.shape)
        return normal_best(mean, self.scale * sd, mask)


@dataclass(frozen=True)
class Softened:
    """Smoothed optimism: vote ∝ exp((mean + scale · sd) / temperature)."""

    scale: float = 0.3
    temperature: float = 0.02

    def __call__(self, mean: Array, sd: Array, eligible: Bools | None = None) -> Array:
        upper = mean + self.scale * sd
        if eligible is not None:
            upper = np.where(eligible[..., None, :], upper, -np.inf)
        gap = upper - upper.max(axis=-1, keepdims=True)
        shares = np.exp(gap / self.temperature)
        ballots: Array = shares / shares.sum(axis=-1, keepdims=True)
        return ballots


@dataclass(frozen=True)
class InverseGap:
    """Inverse gap weighting: 1 / (K + sharpness · gap to the best mean) for every other
    arm, the rest for the best (Abe and Long 1999).
    """

    sharpness: float = 100.0

    def __call__(self, mean: Array, sd: Array, eligible: Bools | None = None) -> Array:
        mask = None if eligible is None else eligible[..., None, :]
        return inverse_gap(mean, self.sharpness, mask)
