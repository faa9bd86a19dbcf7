"""The mode of a logistic posterior and its curvature there: Laplace's Gaussian."""

import numpy as np

from oddsmith.arrays import Array, finite, number
from oddsmith.errors import InvalidInput
from oddsmith.policies.parts.families import LogisticFamily

__all__ = ["logistic_map"]

_STEPS, _HALVINGS = 200, 60
_TOLERANCE, _ROUNDING = 1e-10, 1e-14


def logistic_map(
    features: Array, rewards: Array, *, mean: Array, precision: Array, eta: float = 1.0
) -> tuple[Array, Array]:
    """The mode (d,) of a logistic posterior with a Gaussian prior, and the posterior's precision (d, d) there.

        argmin_θ ½ (θ - m)ᵀ Λ (θ - m) + η Σ_s [ln(1 + exp θ·φ_s) - r_s θ·φ_s],     Λ + η Σ_s σ'(θ·φ_s) φ_s φ_sᵀ

    `features` (n, d), where n may be 0, `rewards` (n,) in [0, 1], `mean` (d,), `precision` (d, d) symmetric and
    positive definite. Newton with backtracking until no entry of the gradient is above 1e-10 (or above its own
    rounding, where that is more); the prior gives separable data a mode too.

    >>> prior = {"mean": np.zeros(1), "precision": np.eye(1)}
    >>> mode, precision = logistic_map(np.array([[1.0], [1.0]]), np.array([1.0, 1.0]), **prior)
    >>> mode.round(4), precision.round(4)
    (array([0.6748]), array([[1.4471]]))
    """
    phi, given, m, prior = _checked(features, rewards, mean, precision)
    number("eta", eta, low=0, high=np.inf, open_low=True)
    weight, theta = np.full(len(given), float(eta)), m.copy()
    value, gradient = _objective(theta, phi, given, weight, (m, prior))
    for _ in range(_STEPS):
        chances = LogisticFamily().predict(theta[None], phi)[0]
        curvature = prior + (phi * (weight * chances * (1 - chances))[:, None]).T @ phi
        size = weight @ np.abs(phi) + np.abs(curvature) @ (np.abs(theta) + np.abs(m))
        if (np.abs(gradient) <= np.maximum(_TOLERANCE, _ROUNDING * size)).all():
            return theta, curvature
        step = np.linalg.solve(curvature, gradient)
        gain, slack = float(gradient @ step), _ROUNDING * (1 + abs(value))
        for halving in range(_HALVINGS):
            shorter = 0.5**halving
            reached, slope = _objective(theta - shorter * step, phi, given, weight, (m, prior))
            if reached <= value - 1e-4 * shorter * gain + slack:
                break
        theta, value, gradient = theta - shorter * step, reached, slope
    worst = float(np.abs(gradient).max())
    raise InvalidInput(
        f"features and precision must be of a size that leaves a mode to find; the gradient is {worst:g}"
    )


def _objective(
    theta: Array, phi: Array, rewards: Array, weight: Array, prior: tuple[Array, Array]
) -> tuple[float, Array]:
    """The penalised loss and its gradient (d,)."""
    loss, slope = LogisticFamily().total(theta[None], phi, rewards, weight)
    away = theta - prior[0]
    pulled = prior[1] @ away
    return float(loss[0] + 0.5 * away @ pulled), slope[0] + pulled


def _checked(features: Array, rewards: Array, mean: Array, precision: Array) -> tuple[Array, Array, Array, Array]:
    """The four as float64, of shapes that fit, rewards in [0, 1], the precision positive definite."""
    m, prior = finite("mean", mean, ndim=1), finite("precision", precision, ndim=2)
    d = len(m)
    if prior.shape != (d, d):
        raise InvalidInput(f"precision must have shape ({d}, {d}), as mean has {d} entries; got {prior.shape}")
    if (
        not np.allclose(prior, prior.T, rtol=0, atol=1e-9 * np.abs(prior).max())
        or not (np.linalg.eigvalsh(prior) > 0).all()
    ):
        raise InvalidInput(f"precision must be symmetric and positive definite; got {prior.tolist()!r:.60}")
    n = len(rewards) if hasattr(rewards, "__len__") else -1
    if n == 0 and np.shape(features) == (0, d):
        return np.zeros((0, d)), np.zeros(0), m, prior
    phi, given = finite("features", features, ndim=2), finite("rewards", rewards, ndim=1)
    if phi.shape != (len(given), d):
        raise InvalidInput(f"features must have shape ({len(given)}, {d}), one row per reward; got {phi.shape}")
    if ((given < 0) | (given > 1)).any():
        worst = float(given[(given < 0) | (given > 1)][0])
        raise InvalidInput(f"rewards must be in [0, 1] (RewardScale maps other units); got {worst:g}")
    return phi, given, m, prior
