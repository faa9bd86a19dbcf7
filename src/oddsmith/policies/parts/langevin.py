"""Langevin moves (MALA) of particles. They make particles more diverse and leave the
posterior unchanged."""

from typing import NamedTuple

import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.policies.parts.families import Family

__all__ = ["Target", "sweep"]

# Optimal acceptance rate of Langevin proposals (Roberts and Rosenthal 1998).
_ACCEPTANCE = 0.574
# Change of the log step per unit of acceptance. It is large, because a sweep has few
# moves to adapt the step.
_GAIN = 2.0
# Limits of the step. With step 2, a proposal for a Gaussian target with the particles'
# covariance does not depend on the current point.
_STEPS = (1e-4, 2.0)


class Target(NamedTuple):
    """The unnormalised density N(θ; mean, precision⁻¹) · exp(-Σ_s weight_s ℓ_θ(φ_s,
    r_s)).

    Shapes: `mean` (d,), `precision` (d, d), `phi` (n, d), `rewards` (n,), `weight`
    (n,).
    """

    family: Family
    mean: Array
    precision: Array
    phi: Array
    rewards: Array
    weight: Array

    def log_density(self, theta: Array) -> tuple[Array, Array]:
        """Return the log density (M,) of parameters (M, d), and its gradient (M, d)."""
        loss, slope = self.family.total(theta, self.phi, self.rewards, self.weight)
        away = theta - self.mean
        prior_slope = away @ self.precision
        distance = (away * prior_slope).sum(axis=-1)
        return -loss - 0.5 * distance, -slope - prior_slope


def sweep(
    target: Target,
    theta: Array,
    covariance: Array,
    *,
    moves: int,
    rng: np.random.Generator,
) -> Array:
    """Return particles (M, d) after `moves` Metropolis-adjusted Langevin moves,
    preconditioned with `covariance` = L Lᵀ.

        θ' = θ + (h/2) L Lᵀ ∇ ln π(θ) + √h L z,   z ~ N(0, I),
        accepted with min(1, π(θ') q(θ | θ') / π(θ) q(θ' | θ))

    All particles share the step h, which is adapted after each move towards an
    acceptance rate of 0.574.

    >>> from oddsmith.policies.parts.families import LinearFamily
    >>> standard = Target(
    ...     LinearFamily(),
    ...     np.zeros(1),
    ...     np.eye(1),
    ...     np.zeros((0, 1)),
    ...     np.zeros(0),
    ...     np.zeros(0),
    ... )
    >>> moved = sweep(
    ...     standard,
    ...     np.full((2000, 1), 3.0),
    ...     np.eye(1),
    ...     moves=20,
    ...     rng=np.random.default_rng(0),
    ... )
    >>> bool(abs(moved.mean()) < 0.1), bool(abs(moved.std() - 1) < 0.1)
    (True, True)
    """
    n, d = theta.shape
    root = np.linalg.cholesky(covariance)
    low, high = _STEPS
    # Optimal step for a Gaussian target with this covariance.
    step = min(high, 2.72 * d ** (-1 / 3))
    density, gradient = target.log_density(theta)
    drift = gradient @ root
    for _ in range(moves):
        noise = rng.standard_normal((n, d))
        threshold = -rng.standard_exponential(n)
        move = 0.5 * step * drift + np.sqrt(step) * noise
        proposal = theta + move @ root.T
        proposed, gradient = target.log_density(proposal)
        onward = gradient @ root
        # In coordinates L⁻¹θ, the forward move is z, and the reverse move is z +
        # (√h/2)(drift + onward).
        back = noise + 0.5 * np.sqrt(step) * (drift + onward)
        forward = (noise**2).sum(axis=-1)
        backward = (back**2).sum(axis=-1)
        lengths = forward - backward
        ratio = proposed - density + 0.5 * lengths
        accepted = threshold < ratio
        theta = np.where(accepted[:, None], proposal, theta)
        drift = np.where(accepted[:, None], onward, drift)
        density = np.where(accepted, proposed, density)
        excess = accepted.mean() - _ACCEPTANCE
        next_step = step * np.exp(_GAIN * excess)
        step = float(np.clip(next_step, low, high))
    return theta
