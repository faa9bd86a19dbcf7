"""Ballots: distributions over arms, computed from a learner's means and standard
deviations."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from oddsmith.core.arrays import Array, Bools, number
from oddsmith.core.weights import greedy

__all__ = [
    "Ballots",
    "Optimistic",
    "best_of",
    "inverse_gap",
    "rest_on_best",
]

_TIE = 1e-12


class Ballots(Protocol):
    """A voting rule: maps means and standard deviations (…, N, K) to distributions (…,
    N, K) over the eligible arms."""

    def __call__(self, mean: Array, sd: Array, eligible: Bools | None = None) -> Array:
        """Return the ballots."""
        ...


@dataclass(frozen=True)
class Optimistic:
    """Vote for the arm with the largest mean + scale · sd, with ties split.

    >>> Optimistic(1.0)(np.array([[0.5, 0.4]]), np.array([[0.0, 0.2]]))
    array([[0., 1.]])
    """

    scale: float = 0.3

    def __post_init__(self) -> None:
        number("scale", self.scale, low=0, high=np.inf)

    def __call__(self, mean: Array, sd: Array, eligible: Bools | None = None) -> Array:
        return greedy(mean + self.scale * sd, eligible)


def inverse_gap(
    predicted: Array, sharpness: float, eligible: Bools | None = None
) -> Array:
    """Return 1/(K + Γ gap) for every arm except the best, which gets the rest (…, K).
    Tied best arms share it.

    >>> inverse_gap(np.array([0.1, 0.5, 0.3]), 20.0).round(4)
    array([0.0909, 0.7662, 0.1429])
    """
    best, top, n_arms = best_of(predicted, eligible)
    gap = np.maximum(top - predicted, 0.0)
    return rest_on_best(1 / (n_arms + sharpness * gap), best, eligible)


def best_of(mean: Array, eligible: Bools | None) -> tuple[Bools, Array, Any]:
    """Return the best arms (…, K) as a mask, the largest mean (…, 1), and the number of
    eligible arms.

    Means that differ from the largest mean m by at most 1e-12 max(|m|, 1) count as
    tied, because rounding must not select the best arm.
    """
    allowed = mean
    n_arms: Any = mean.shape[-1]
    if eligible is not None:
        allowed = np.where(eligible, mean, -np.inf)
        n_arms = eligible.sum(axis=-1, keepdims=True)
    top = allowed.max(axis=-1, keepdims=True)
    tolerance = _TIE * np.maximum(np.abs(top), 1.0)
    return allowed >= top - tolerance, top, n_arms


def rest_on_best(odds: Array, best: Bools, eligible: Bools | None) -> Array:
    """Return `odds` with the best arms' propensities replaced: they share the
    probability that the other eligible arms leave."""
    if eligible is not None:
        odds = np.where(eligible, odds, 0.0)
    others = np.where(best, 0.0, odds)
    rest = 1 - others.sum(axis=-1, keepdims=True)
    share = rest / best.sum(axis=-1, keepdims=True)
    return np.where(best, share, others)
