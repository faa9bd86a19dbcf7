"""Events, what particles learn from them, and closed forms, for the tests of continuous
experts."""

from typing import Any

import numpy as np

import oddsmith as od
from oddsmith.core.arrays import Array
from oddsmith.policies.particles import ParticleState
from oddsmith.policies.parts.families import Family


class Plain(Family):
    """The logistic family with the protocol's own `total`."""

    def predict(self, theta: Array, features: Array) -> Array:
        return od.policies.LogisticFamily().predict(theta, features)

    def loss(self, theta: Array, phi: Array, reward: Any) -> Array:
        return od.policies.LogisticFamily().loss(theta, phi, reward)

    def gradient(self, theta: Array, phi: Array, reward: Any) -> Array:
        return od.policies.LogisticFamily().gradient(theta, phi, reward)


def events(
    n: int, d: int, *, scale: float = 1.0, seed: int = 1
) -> tuple[Array, Any, Array]:
    """Contexts (n, 3, d), arms and fractional rewards (n,)."""
    rng = np.random.default_rng(seed)
    contexts = rng.standard_normal((n, 3, d)) * scale
    arms = rng.integers(0, 3, n)
    means = 0.5 + 0.2 * contexts[np.arange(n), arms, 0] / scale
    return contexts, arms, np.clip(means + 0.2 * rng.standard_normal(n), 0.0, 1.0)


def learnt(
    policy: od.policies.ParticleThompsonSampling,
    history: Any,
    shape: tuple[int, ...] = (),
) -> ParticleState:
    state = policy.init(shape)
    for t, (context, arm, reward) in enumerate(zip(*history, strict=True)):
        decision = od.Decision(
            t + 1, context, None, np.full(shape, arm), np.full((*shape, 3), 1 / 3)
        )
        state = policy.update(state, decision, np.full(shape, reward))
    return state


def closed_form(history: Any, *, eta: float, ridge: float) -> tuple[Array, Array]:
    """Mean and covariance of the linear class with square loss: Λ = ridge I + 2η Σ φφᵀ,
    m = Λ⁻¹ 2η Σ rφ."""
    contexts, arms, rewards = history
    phi = contexts[np.arange(len(arms)), arms]
    covariance = np.asarray(
        np.linalg.inv(ridge * np.eye(phi.shape[1]) + 2 * eta * phi.T @ phi),
        dtype=np.float64,
    )
    return covariance @ (2 * eta * rewards @ phi), covariance
