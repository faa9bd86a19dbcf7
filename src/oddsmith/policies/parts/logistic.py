"""Logistic posteriors by Laplace's approximation, one reward at a time."""

from dataclasses import dataclass

import numpy as np

from oddsmith.core.arrays import Array, Real, number
from oddsmith.core.decision import Decision
from oddsmith.policies.parts.gaussian import GaussianState, OverFeatures

__all__ = ["OverLogistic", "laplace_step", "sigmoid"]


def laplace_step(
    score: Array, variance: Array, reward: Array, eta: float
) -> tuple[Array, Array]:
    """Return (s, h) such that the mode of N(θ; m, Σ) exp(-η log loss) is m + s Σφ and
    the curvature of η log loss at the mode is η h. `score` is φ·m and `variance` is
    φ'Σφ.

    The mode lies on the line m + s Σφ. The number s is the solution of s = η (r - σ(φ·m
    + s φ'Σφ)), which is computed by Newton's method.

    >>> s, h = laplace_step(np.array([0.0]), np.array([1.0]), np.array([1.0]), 1.0)
    >>> s.round(4), h.round(4)
    (array([0.4011]), array([0.2402]))
    """
    # Bracket for s, because σ is between 0 and 1.
    low = eta * (reward - 1)
    high = eta * reward
    s = (low + high) / 2
    last = 2 * (high - low)
    for _ in range(200):
        p = sigmoid(score + s * variance)
        excess = s - eta * (reward - p)
        step = excess / (1 + eta * p * (1 - p) * variance)
        size = np.abs(step)
        done = size <= 1e-15 * (eta + np.abs(s))
        if done.all():
            break
        low = np.where(excess < 0, s, low)
        high = np.where(excess < 0, high, s)
        newton = s - step
        # If Newton's steps do not shrink, bisect the bracket instead.
        slow = size > last / 2
        last = np.where(slow, high - low, size)
        outside = (newton <= low) | (newton >= high)
        following = np.where(slow | outside, (low + high) / 2, newton)
        # Do not change converged rows while other rows of the batch continue.
        s = np.where(done, s, following)
    p = sigmoid(score + s * variance)
    return s, p * (1 - p)


def sigmoid(x: Array) -> Array:
    """Return 1/(1 + exp(-x)) without overflow.

    >>> sigmoid(np.array([0.0, -1e4]))
    array([0.5, 0. ])
    """
    return 0.5 * (1 + np.tanh(0.5 * x))


@dataclass(frozen=True, eq=False, kw_only=True)
class OverLogistic(OverFeatures):
    """Base class for a posterior N(mean, covariance). Each reward moves the mean to the
    mode and adds the curvature there to the precision."""

    eta: float = 1.0

    # The order of rewards matters, because each one updates an approximation.
    orderless = False
    scale = "log-odds"

    def __post_init__(self) -> None:
        super().__post_init__()
        number("eta", self.eta, low=0, high=np.inf, open_low=True)

    def update(
        self, state: GaussianState, decision: Decision, reward: Real
    ) -> GaussianState:
        """Apply Laplace's approximation for one reward: the exact mode given the
        current posterior, then the curvature there (rank one)."""
        place, phi, mean, spread = self.drawn_belief(state, decision)
        variance = (phi * spread).sum(axis=-1)
        rewards = np.asarray(reward, dtype=np.float64).reshape(-1)
        s, curvature = laplace_step(mean, variance, rewards, self.eta)
        precision = self.eta * curvature
        shrink = precision / (1 + precision * variance)
        return self.move(state, place, s, shrink, spread)
