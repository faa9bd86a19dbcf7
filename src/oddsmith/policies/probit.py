"""Bayesian probit regression, adPredictor (Graepel et al. 2010), as Thompson
sampling."""

from dataclasses import dataclass
from math import pi, sqrt
from typing import NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, Bools, Real, number, row_products
from oddsmith.core.decision import Context, Decision
from oddsmith.core.expert_policy import check_eligible
from oddsmith.core.offer import AnyOffer
from oddsmith.policies.parts.directions import directions
from oddsmith.policies.parts.features import feature_names
from oddsmith.policies.parts.gaussian import View, shared_weights
from oddsmith.policies.parts.posterior_odds import OverPosterior

__all__ = ["ProbitState", "ProbitThompsonSampling", "truncated_moments"]


class ProbitState(NamedTuple):
    """Means and variances (…, G, d) of independent weights, with G = K or G = 1 if arms
    share them, and the number of rewards."""

    mean: Array
    variance: Array
    learnt: int


@dataclass(frozen=True, eq=False, kw_only=True)
class ProbitThompsonSampling(OverPosterior):
    """Draw each arm with the probability that its θ_a·φ is the largest, with
    independent normal weights learnt by message passing.

        Pr(r = 1) = Φ(θ·φ / noise),   σ² = noise² + Σ φ_i² s_i²,   t = y Σ φ_i m_i / σ,
        y = 2r - 1
        m_i ← m_i + y φ_i s_i²/σ v(t),   s_i² ← s_i² (1 - φ_i² s_i²/σ² w(t))

    v(t) = N(t)/Φ(t), w(t) = v(t) (v(t) + t). A reward between 0 and 1 moves the weights
    by the mean of both updates. With `n_arms`, each arm has its own posterior, the
    context is (…, d), and the propensities are computed by quadrature. Without it, all
    arms share one posterior, the context is (…, K, d), and fixed directions are used.

    >>> policy = ProbitThompsonSampling(2, n_arms=2)
    >>> policy.odds(policy.init(), np.array([1.0, 0.5])).propensities.round(6)
    array([0.5, 0.5])
    """

    noise: float = 1.0

    # The order of rewards matters, because each one updates an approximation.
    orderless = False
    scale = "probit score"

    def __post_init__(self) -> None:
        super().__post_init__()
        number("noise", self.noise, low=0, high=np.inf, open_low=True)

    def init(self, shape: tuple[int, ...] = ()) -> ProbitState:  # type: ignore[override]
        """Return the prior N(0, 1/ridge) for every weight."""
        size = (*shape, self.n_arms or 1, self.dim)
        variance = np.full(size, 1 / self.ridge)
        return ProbitState(np.zeros(size), variance, 0)

    def view(
        self,
        state: ProbitState,  # type: ignore[override]
        context: Context,
        eligible: Bools | None,
    ) -> View:
        """Return the posterior of every arm. Weights are independent, so Σφ is φ times
        their variances."""
        features = self.features(context)
        check_eligible(eligible, self.n_arms or features.shape[-2])
        if isinstance(context, AnyOffer):
            means = row_products(features, shared_weights(state)[:, None])[..., 0]
            return View(features, means, features * state.variance[0])
        if self.n_arms is None:
            means = (features @ state.mean[..., 0, :, None])[..., 0]
            return View(features, means, features * state.variance[..., 0, None, :])
        features = features[..., None, :]
        means = (state.mean * features).sum(axis=-1)
        return View(features, means, features * state.variance)

    def draws(self, state: ProbitState) -> Array:  # type: ignore[override]
        """Return fixed draws (n, d) of the weights that all arms share."""
        spread = self.width * np.sqrt(state.variance[0])
        normal = directions(self.dim, self.directions, self.seed)
        draws: Array = shared_weights(state) + normal * spread
        return draws

    def coefficients(self, state: ProbitState) -> tuple[tuple[str, ...], Array, Array]:
        """Return the names of the d features, and mean and standard deviation (…, G, d)
        of their weights."""
        names = feature_names(self.dim, self.schema, self.arm_schema)
        return names, state.mean, np.sqrt(state.variance)

    def update(
        self, state: ProbitState, decision: Decision, reward: Real
    ) -> ProbitState:
        """Update the weights in place by message passing for one reward."""
        place, phi = self.place(decision, state.mean)
        n = len(phi)
        means = state.mean.reshape(n, -1, self.dim)
        variances = state.variance.reshape(n, -1, self.dim)
        mean = means[place]
        variance = variances[place]
        squares = phi**2
        hits = np.asarray(reward, dtype=np.float64).reshape(-1, 1)
        misses = 1 - hits
        explained = (squares * variance).sum(axis=-1, keepdims=True)
        scale = np.sqrt(self.noise**2 + explained)
        score = (phi * mean).sum(axis=-1, keepdims=True) / scale
        v1, w1 = truncated_moments(score)
        v0, w0 = truncated_moments(-score)
        mean_factor = phi * variance / scale
        mean_change = hits * v1 - misses * v0
        means[place] = mean + mean_factor * mean_change
        shrink_factor = squares * variance / scale**2
        curvature = hits * w1 + misses * w0
        shrink = shrink_factor * curvature
        variances[place] = variance * np.maximum(1 - shrink, 1e-12)
        return ProbitState(state.mean, state.variance, state.learnt + 1)


def truncated_moments(t: Array) -> tuple[Array, Array]:
    """Return v(t) = N(t)/Φ(t) and w(t) = v (v + t): the shift of a truncated normal's
    mean, and the reduction of its variance.

    >>> v, w = truncated_moments(np.array([0.0, -40.0]))
    >>> v.round(4), w.round(4)
    (array([ 0.7979, 40.025 ]), array([0.6366, 0.9994]))"""
    from scipy.special import erfcx

    v = sqrt(2 / pi) / erfcx(-t / sqrt(2))
    w = np.clip(v * (v + t), 0.0, 1.0)
    return np.asarray(v), np.asarray(w)
