"""Ridge and Logistic: Bayesian regressions for each arm on fixed features, by rank-one updates."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from oddsmith.arrays import Array, Ints, number
from oddsmith.experts.features import FeatureMap, Plain
from oddsmith.experts.learners.base import Belief, LearnerInput, Turned

__all__ = ["Logistic", "RegressionState", "Ridge"]

_PLAIN = Plain()
_NOISE = 0.5  # no reward in [0, 1] has a larger standard deviation


class RegressionState(NamedTuple):
    """For each arm weights (…, K, D) and their covariance (…, K, D, D), in units of the noise."""

    weights: Array
    covariance: Array


@dataclass(frozen=True)
class _Regression:
    """The fields and bodies that both regressions have."""

    features: FeatureMap = _PLAIN
    ridge: float = 0.3

    def __post_init__(self) -> None:
        number("ridge", self.ridge, low=0, high=np.inf, open_low=True)

    @property
    def kind(self) -> str:
        """The first word of the name."""
        return self.features.name

    @property
    def name(self) -> str:
        return self.kind if self.ridge == type(self).ridge else f"{self.kind}, ridge {self.ridge:g}"

    def start(self, shape: tuple[int, ...], n_arms: int, dim: int) -> RegressionState:
        """The prior of every arm."""
        return _prior(shape, n_arms, self.features.size(dim) + 1, self.ridge)

    def widen(self, state: RegressionState, n_arms: int) -> RegressionState:
        """The state with the prior of further arms."""
        *shape, n_before, size = state.weights.shape
        fresh = _prior(tuple(shape), n_arms - n_before, size, self.ridge)
        return RegressionState(
            np.concatenate([state.weights, fresh.weights], axis=-2),
            np.concatenate([state.covariance, fresh.covariance], axis=-3),
        )


@dataclass(frozen=True)
class Ridge(_Regression):
    """r = 1/2 + θ_a·φ(x) + noise with θ_a ~ N(0, I/ridge): a posterior for each arm. K D² time and memory.

    >>> learner = Ridge()
    >>> learner.believe(learner.start((), 2, 3), LearnerInput(np.zeros(3), np.zeros(3))).mean
    array([0.5, 0.5])
    """

    def believe(self, state: RegressionState, seen: LearnerInput) -> Belief:
        value, variance = _projected(state, with_constant(self.features(seen.z)))
        return Belief(0.5 + value, _NOISE * np.sqrt(variance))

    def learn(self, state: RegressionState, seen: LearnerInput, arms: Ints, rewards: Array) -> RegressionState:
        """The drawn arm's regression gains a row (Sherman and Morrison)."""
        gain, value, variance = _drawn(state, with_constant(self.features(seen.z)), arms)
        shrink = 1 / (1 + variance)
        _add(state, arms, gain, (rewards.reshape(-1) - 0.5 - value) * shrink, shrink)
        return state

    def revise(self, state: RegressionState, seen: LearnerInput, arm: int, turned: Turned) -> RegressionState:
        """As if the reward had been the new one: exact, for weights are linear in rewards."""
        phi = with_constant(self.features(seen.z))
        state.weights[arm] += turned.change * (state.covariance[arm] @ phi)
        return state


@dataclass(frozen=True)
class Logistic(_Regression):
    """log-odds of r are θ_a·φ(x), θ_a ~ N(0, I/ridge): the posterior of each arm as a normal, one row at a time.

    Each row moves the mode along the gain to the exact optimum in that direction, and the covariance by the curvature
    there. Predictions are averaged over the posterior (MacKay's approximation). K D² time and memory.

    >>> learner = Logistic()
    >>> learner.believe(learner.start((), 2, 3), LearnerInput(np.zeros(3), np.zeros(3))).mean
    array([0.5, 0.5])
    """

    ridge: float = 0.1

    @property
    def kind(self) -> str:
        return "logistic" if isinstance(self.features, Plain) else f"logistic {self.features.name}"

    def believe(self, state: RegressionState, seen: LearnerInput) -> Belief:
        value, variance = _projected(state, with_constant(self.features(seen.z)))
        mean = _sigmoid(value / np.sqrt(1 + np.pi / 8 * variance))
        slope = _sigmoid(value) * _sigmoid(-value)
        return Belief(mean, slope * np.sqrt(variance))

    def learn(self, state: RegressionState, seen: LearnerInput, arms: Ints, rewards: Array) -> RegressionState:
        """One Newton search on a line for each row: v = value + variance · (r - σ(v)) has one root."""
        gain, value, variance = _drawn(state, with_constant(self.features(seen.z)), arms)
        target = rewards.reshape(-1)
        low, high = value - variance, value + variance
        mode = value.copy()
        for _ in range(50):
            fit = _sigmoid(mode)
            excess = mode - value - variance * (target - fit)
            low, high = np.where(excess > 0, low, mode), np.where(excess > 0, mode, high)
            step = mode - excess / (1 + variance * fit * (1 - fit))
            mode = np.where((step > low) & (step < high), step, 0.5 * (low + high))
        fit = _sigmoid(mode)
        curvature = fit * (1 - fit)
        _add(state, arms, gain, target - fit, curvature / (1 + curvature * variance))
        return state


def with_constant(phi: Array) -> Array:
    """The features (…, D) and a 1.

    >>> with_constant(np.array([0.5]))
    array([0.5, 1. ])
    """
    return np.concatenate([phi, np.ones((*phi.shape[:-1], 1))], axis=-1)


def _prior(shape: tuple[int, ...], n_arms: int, size: int, ridge: float) -> RegressionState:
    covariance = np.zeros((*shape, n_arms, size, size))
    covariance[..., np.arange(size), np.arange(size)] = 1 / ridge
    return RegressionState(np.zeros((*shape, n_arms, size)), covariance)


def _projected(state: RegressionState, phi: Array) -> tuple[Array, Array]:
    """θ·φ and φᵀΣφ for every arm (…, K)."""
    weights, covariance = state
    if weights.ndim == 2 and phi.ndim == 1:  # one matrix times one vector is twice as fast as K small ones
        size = len(phi)
        return weights @ phi, np.maximum((covariance.reshape(-1, size) @ phi).reshape(-1, size) @ phi, 0.0)
    value = (weights @ phi[..., None])[..., 0]
    spread = (covariance @ phi[..., None, :, None])[..., 0]
    return value, np.maximum((spread @ phi[..., None])[..., 0], 0.0)


def _drawn(state: RegressionState, phi: Array, arms: Ints) -> tuple[Array, Array, Array]:
    """For the drawn arms, rows of the batch: gain Σφ, value θ·φ and variance φᵀΣφ."""
    flat, place = phi.reshape(-1, phi.shape[-1]), (np.arange(arms.size), arms.reshape(-1))
    weights, covariance = _flat(state)
    if len(flat) == 1:
        gain = (covariance[0, place[1][0]] @ flat[0])[None]
    else:
        gain = (covariance[place] @ flat[..., None])[..., 0]
    return gain, (weights[place] * flat).sum(axis=-1), np.maximum((flat * gain).sum(axis=-1), 0.0)


def _add(state: RegressionState, arms: Ints, gain: Array, moved: Array, shrink: Array) -> None:
    """In place: weights move along the gain, covariances lose shrink · gain gainᵀ."""
    weights, covariance = _flat(state)
    for row, arm in enumerate(arms.reshape(-1)):
        weights[row, arm] += moved[row] * gain[row]
        covariance[row, arm] -= np.multiply.outer(shrink[row] * gain[row], gain[row])


def _flat(state: RegressionState) -> tuple[Array, Array]:
    """Views with the batch axes as one."""
    n_arms, size = state.weights.shape[-2:]
    return state.weights.reshape(-1, n_arms, size), state.covariance.reshape(-1, n_arms, size, size)


def _sigmoid(value: Array) -> Array:
    return 0.5 * (1 + np.tanh(0.5 * value))
