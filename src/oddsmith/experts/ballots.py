"""Ballots: from what a learner believes of each arm (mean, sd) to a distribution over arms."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from oddsmith.arrays import Array, Bools, number
from oddsmith.best_arm import normal_best
from oddsmith.weights import greedy

__all__ = ["Ballots", "InverseGap", "Optimistic", "PosteriorBest", "Softened"]


class Ballots(Protocol):
    """A voting rule: means and standard deviations (…, N, K) to distributions (…, N, K) over the eligible arms."""

    def __call__(self, mean: Array, sd: Array, eligible: Bools | None = None) -> Array:
        """The ballots."""
        ...


@dataclass(frozen=True)
class Optimistic:
    """All on the arm with the largest mean + scale · sd; ties share.

    >>> Optimistic(1.0)(np.array([[0.5, 0.4]]), np.array([[0.0, 0.2]]))
    array([[0., 1.]])
    """

    scale: float = 0.3

    def __post_init__(self) -> None:
        number("scale", self.scale, low=0, high=np.inf)

    def __call__(self, mean: Array, sd: Array, eligible: Bools | None = None) -> Array:
        return greedy(mean + self.scale * sd, eligible)


@dataclass(frozen=True)
class PosteriorBest:
    """The probability that each arm is the best under independent normals of standard deviation scale · sd.

    >>> PosteriorBest(1.0)(np.array([[0.5, 0.5]]), np.array([[0.1, 0.1]])).round(6)
    array([[0.5, 0.5]])
    """

    scale: float = 0.3

    def __post_init__(self) -> None:
        number("scale", self.scale, low=0, high=np.inf)

    def __call__(self, mean: Array, sd: Array, eligible: Bools | None = None) -> Array:
        mask = None if eligible is None else np.broadcast_to(eligible[..., None, :], mean.shape)
        return normal_best(mean, self.scale * sd, mask)


@dataclass(frozen=True)
class Softened:
    """Optimism, smoothed: ∝ exp((mean + scale · sd) / temperature).

    >>> Softened(0.0, 0.1)(np.array([[0.5, 0.5, 0.4]]), np.zeros((1, 3))).round(3)
    array([[0.422, 0.422, 0.155]])
    """

    scale: float = 0.3
    temperature: float = 0.02

    def __post_init__(self) -> None:
        number("scale", self.scale, low=0, high=np.inf)
        number("temperature", self.temperature, low=0, high=np.inf, open_low=True)

    def __call__(self, mean: Array, sd: Array, eligible: Bools | None = None) -> Array:
        upper = _masked(mean + self.scale * sd, eligible)
        shares = np.exp((upper - upper.max(axis=-1, keepdims=True)) / self.temperature)
        ballots: Array = shares / shares.sum(axis=-1, keepdims=True)
        return ballots


@dataclass(frozen=True)
class InverseGap:
    """1 / (K + sharpness · gap to the best mean) for every other arm, the rest for the best (Abe and Long 1999).

    >>> InverseGap(10.0)(np.array([[0.5, 0.3]]), np.zeros((1, 2)))
    array([[0.75, 0.25]])
    """

    sharpness: float = 100.0

    def __post_init__(self) -> None:
        number("sharpness", self.sharpness, low=0, high=np.inf)

    def __call__(self, mean: Array, sd: Array, eligible: Bools | None = None) -> Array:
        allowed = _masked(mean, eligible)
        count = np.isfinite(allowed).sum(axis=-1, keepdims=True)
        ballots: Array = 1 / (count + self.sharpness * (allowed.max(axis=-1, keepdims=True) - allowed))
        best = allowed.argmax(axis=-1)[..., None]
        np.put_along_axis(ballots, best, 0.0, axis=-1)
        np.put_along_axis(ballots, best, 1 - ballots.sum(axis=-1, keepdims=True), axis=-1)
        return ballots


def _masked(values: Array, eligible: Bools | None) -> Array:
    return values if eligible is None else np.where(eligible[..., None, :], values, -np.inf)
