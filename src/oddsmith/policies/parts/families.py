"""Families of experts with a parameter θ: predictions, losses and gradients for
particles."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from oddsmith.core.arrays import Array, Real

__all__ = ["Family", "LinearFamily", "LogisticFamily"]


class Family(Protocol):
    """Base class of differentiable families of experts f_θ. A subclass defines
    `predict`, `loss` and `gradient`.

    Every leading axis (…) is a batch axis; M parameters are evaluated at once. The
    default `total` processes one event at a time. A family that can process all events
    at once should override it, because most of the time is spent there.

    >>> class Constant(Family):
    ...     def predict(self, theta, features):
    ...         return np.broadcast_to(
    ...             theta[..., :1], (*theta.shape[:-1], features.shape[-2])
    ...         )
    ...
    ...     def loss(self, theta, phi, reward):
    ...         return (theta[..., 0] - np.asarray(reward)[..., None]) ** 2
    ...
    ...     def gradient(self, theta, phi, reward):
    ...         return 2 * (theta - np.asarray(reward)[..., None, None])
    >>> history = np.zeros((2, 1)), np.array([0.0, 1.0]), np.ones(2)
    >>> Constant().total(np.array([[0.5], [1.0]]), *history)
    (array([0.5, 1. ]), array([[0.],
           [2.]]))
    """

    scale: ClassVar[str] = "reward"  # name of the predictions' scale in explanations

    def predict(self, theta: Array, features: Array) -> Array:
        """Return mean rewards (…, M, K) of arms with features (…, K, d) under
        parameters (…, M, d)."""
        ...

    def loss(self, theta: Array, phi: Array, reward: Real) -> Array:
        """Return the loss (…, M) of each parameter for an arm with features phi (…, d)
        and reward (…)."""
        ...

    def gradient(self, theta: Array, phi: Array, reward: Real) -> Array:
        """Return the gradient (…, M, d) of the loss with respect to θ."""
        ...

    def total(
        self, theta: Array, phi: Array, rewards: Array, weight: Array
    ) -> tuple[Array, Array]:
        """Return Σ_s weight_s ℓ_s (…, M) and its gradient (…, M, d) over events phi (…,
        n, d), with rewards and weight (…, n)."""
        loss = np.zeros(theta.shape[:-1])
        gradient = np.zeros(theta.shape)
        for s in range(phi.shape[-2]):
            event = (phi[..., s, :], rewards[..., s])
            own = weight[..., s, None]
            loss = loss + own * self.loss(theta, *event)
            gradient = gradient + own[..., None] * self.gradient(theta, *event)
        return loss, gradient


@dataclass(frozen=True)
class LogisticFamily(Family):
    """Logistic experts f_θ = 1/(1 + exp(-θ·φ)) with log loss ln(1 + exp θ·φ) - r θ·φ,
    for rewards r in [0, 1].

    >>> LogisticFamily().predict(np.array([[0.0, 2.0]]), np.eye(2)).round(3)
    array([[0.5  , 0.881]])
    """

    def predict(self, theta: Array, features: Array) -> Array:
        means, _ = _sigmoid(features @ theta.swapaxes(-1, -2))
        return means.swapaxes(-1, -2)

    def loss(self, theta: Array, phi: Array, reward: Real) -> Array:
        scores = np.matvec(theta, phi)
        _, softplus = _sigmoid(scores)
        loss: Array = softplus - np.asarray(reward)[..., None] * scores
        return loss

    def gradient(self, theta: Array, phi: Array, reward: Real) -> Array:
        means, _ = _sigmoid(np.matvec(theta, phi))
        excess = means - np.asarray(reward)[..., None]
        gradient: Array = excess[..., None] * phi[..., None, :]
        return gradient

    def total(
        self, theta: Array, phi: Array, rewards: Array, weight: Array
    ) -> tuple[Array, Array]:
        scores = phi @ theta.swapaxes(-1, -2)
        means, softplus = _sigmoid(scores)
        by_event = rewards[..., None]
        loss = np.vecmat(weight, softplus - by_event * scores)
        excess = (means - by_event) * weight[..., None]
        return loss, excess.swapaxes(-1, -2) @ phi


@dataclass(frozen=True)
class LinearFamily(Family):
    """Linear experts f_θ = θ·φ with square loss (θ·φ - r)². With a Gaussian prior the
    posterior is Gaussian (docs/math 5.7).

    >>> LinearFamily().loss(np.array([[0.0, 2.0]]), np.array([1.0, 0.5]), 0.5)
    array([0.25])
    """

    scale: ClassVar[str] = "linear score"

    def predict(self, theta: Array, features: Array) -> Array:
        return (features @ theta.swapaxes(-1, -2)).swapaxes(-1, -2)

    def loss(self, theta: Array, phi: Array, reward: Real) -> Array:
        excess = np.matvec(theta, phi) - np.asarray(reward)[..., None]
        loss: Array = excess**2
        return loss

    def gradient(self, theta: Array, phi: Array, reward: Real) -> Array:
        excess = np.matvec(theta, phi) - np.asarray(reward)[..., None]
        gradient: Array = 2 * excess[..., None] * phi[..., None, :]
        return gradient

    def total(
        self, theta: Array, phi: Array, rewards: Array, weight: Array
    ) -> tuple[Array, Array]:
        scores = phi @ theta.swapaxes(-1, -2)
        excess = scores - rewards[..., None]
        loss = np.vecmat(weight, excess**2)
        weighted = excess * weight[..., None]
        gradient = 2 * weighted.swapaxes(-1, -2) @ phi
        return loss, gradient


def _sigmoid(scores: Array) -> tuple[Array, Array]:
    """Return 1/(1 + exp(-s)) and ln(1 + exp s), from one exponential that cannot
    overflow."""
    small = np.exp(-np.abs(scores))
    means = np.where(scores >= 0, 1.0, small) / (1 + small)
    softplus = np.maximum(scores, 0.0) + np.log1p(small)
    return means, softplus
