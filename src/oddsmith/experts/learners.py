"""BayesianLearners: experts that learn online, each a Bayesian linear regression per arm on its own features."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from oddsmith.arrays import Array, Bools, Real, number
from oddsmith.decision import Context, Decision
from oddsmith.errors import InvalidInput
from oddsmith.experts.base import Experts, check_names
from oddsmith.experts.features import FeatureMap, Plain
from oddsmith.experts.schema import Schema, numeric
from oddsmith.weights import greedy

__all__ = ["BayesianLearners", "LearnerState"]

_FAR = 5.0  # standard deviations beyond which a number is cut: one wild value must not rule a regression


class LearnerState(NamedTuple):
    """How many contexts were learnt, their running means and sums of squares (…, d), and each learner's belief.

    Beliefs are weights (…, K, D) and covariances (…, K, D, D), one pair for each expert; all empty before the first
    reward, whose context says how many numbers there are.
    """

    seen: Array
    mean: Array
    squares: Array
    weights: tuple[Array, ...]
    covariances: tuple[Array, ...]


@dataclass(frozen=True, eq=False)
class BayesianLearners(Experts):
    """One expert for each feature map and ridge: r = θ_a·φ(x) + noise, θ_a ~ N(0, I/ridge), a posterior for each arm.

    Numbers are standardised by running moments (missing ones count as the mean). An expert predicts 1/2 + θ·φ, clipped
    for the loss, and votes for the arm with the largest mean + optimism · sd. It is scored on what it said, then
    learns. A decision costs O(N K D²) and as much memory, D features an expert.

    >>> bank = BayesianLearners(arms=("a", "b"))
    >>> state = bank.init()
    >>> bank.predict(state, np.array([1.0, 2.0]))
    array([[0.5, 0.5]])
    """

    arms: Sequence[str]
    maps: tuple[FeatureMap, ...] = (Plain(),)
    ridges: tuple[float, ...] = (1.0,)
    optimism: float = 0.15
    schema: Schema | None = None
    clip: tuple[float, float] = (0.01, 0.99)

    moves = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "arms", check_names("arms", self.arms))
        if not self.maps or not self.ridges:
            raise InvalidInput("maps and ridges must not be empty; got none")
        for ridge in self.ridges:
            number("ridge", ridge, low=0, high=np.inf, open_low=True)
        number("optimism", self.optimism, low=0, high=np.inf)
        check_names("names of feature maps and ridges", self.names)

    @property
    def names(self) -> Sequence[str]:
        return tuple(f"{m.name}, ridge {ridge:g}" for m in self.maps for ridge in self.ridges)

    def init(self, shape: tuple[int, ...] = ()) -> LearnerState:
        """Nothing is known, not even how many numbers a context has."""
        n = len(self.names)
        empty = tuple(np.zeros((*shape, len(self.arms), 0)) for _ in range(n))
        square = tuple(np.zeros((*shape, len(self.arms), 0, 0)) for _ in range(n))
        return LearnerState(np.zeros(shape), np.zeros((*shape, 0)), np.zeros((*shape, 0)), empty, square)

    def predict(self, state: LearnerState, context: Context) -> Array:
        return self.advise(state, context)[0]

    def advise(self, state: LearnerState, context: Context, eligible: Bools | None = None) -> tuple[Array, Array]:
        """Clipped means, and votes by mean + optimism · sd; before the first reward everybody says 1/2."""
        x = self._encoded(context, state)
        if state.mean.shape[-1] == 0:
            even = np.full((*x.shape[:-1], len(self.names), len(self.arms)), 0.5)
            return even, greedy(even, eligible)
        means, widths = [], []
        for phi, weights, covariance in zip(self._features(state, x), state.weights, state.covariances, strict=True):
            means.append(0.5 + (weights @ phi[..., None])[..., 0])
            spread = (covariance @ phi[..., None, :, None])[..., 0]
            widths.append((spread @ phi[..., None])[..., 0])
        mean = np.stack(means, axis=-2)
        upper = mean + self.optimism * np.sqrt(np.maximum(np.stack(widths, axis=-2), 0.0))
        return np.clip(mean, *self.clip), greedy(upper, eligible)

    def update(self, state: LearnerState, decision: Decision, reward: Real) -> LearnerState:
        """The drawn arm's regressions gain a row (Sherman and Morrison), then the moments, in place after the first."""
        x = self._encoded(decision.context, state)
        if state.mean.shape[-1] == 0:
            state = self._sized(state, x.shape[-1])
        arms = np.asarray(decision.number, dtype=np.int64)
        if arms.shape != state.seen.shape or x.shape[:-1] != arms.shape:
            raise InvalidInput(f"decision must have the state's batch axes {state.seen.shape}; got {arms.shape}")
        moments = self._moments(state, x)
        state = state._replace(seen=moments[0], mean=moments[1], squares=moments[2])
        target = np.asarray(reward, dtype=np.float64).reshape(-1) - 0.5
        place = np.arange(arms.size), arms.reshape(-1)
        for phi, weights, covariance in zip(self._features(state, x), state.weights, state.covariances, strict=True):
            flat, size = phi.reshape(-1, phi.shape[-1]), phi.shape[-1]
            belief, spread = weights.reshape(len(flat), -1, size), covariance.reshape(len(flat), -1, size, size)
            gain = (spread[place] @ flat[..., None])[..., 0]
            shrink = 1 / (1 + (flat * gain).sum(axis=-1))
            wrong = target - (belief[place] * flat).sum(axis=-1)
            belief[place] += (wrong * shrink)[:, None] * gain
            spread[place] -= (shrink[:, None] * gain)[:, :, None] * gain[:, None, :]
        return state

    def _encoded(self, context: Context, state: LearnerState) -> Array:
        """The context as numbers (…, d), of the width that the first one had."""
        known = state.mean.shape[-1] or None
        schema = self.schema
        if schema is None and not isinstance(context, np.ndarray):
            numbers = isinstance(context, list | tuple) and bool(context) and not isinstance(context[0], dict)
            schema = None if numbers else Schema()
        if schema is not None:
            return schema.encode(context)
        try:
            return numeric(np.asarray(context), known)
        except ValueError as error:
            raise InvalidInput(f"context must be numbers, the same many each time; {error}") from error

    def _sized(self, state: LearnerState, dim: int) -> LearnerState:
        """The state before any reward, now that the number of numbers is known."""
        shape, n_arms, zeros = state.seen.shape, len(self.arms), np.zeros((*state.seen.shape, dim))
        weights, covariances = [], []
        for m in self.maps:
            for ridge in self.ridges:
                size = m.size(dim)
                weights.append(np.zeros((*shape, n_arms, size)))
                covariances.append(np.broadcast_to(np.eye(size) / ridge, (*shape, n_arms, size, size)).copy())
        return LearnerState(state.seen, zeros, zeros.copy(), tuple(weights), tuple(covariances))

    def _moments(self, state: LearnerState, x: Array) -> tuple[Array, Array, Array]:
        """Count, means and sums of squares with one more context (Welford); missing numbers change nothing."""
        count = state.seen + 1
        shift = np.where(np.isnan(x), 0.0, x - state.mean)
        mean = state.mean + shift / count[..., None]
        squares = state.squares + shift * np.where(np.isnan(x), 0.0, x - mean)
        return count, mean, squares

    def _features(self, state: LearnerState, x: Array) -> list[Array]:
        """Each expert's features (…, D) of the standardised context."""
        sd = np.sqrt(state.squares / np.maximum(state.seen, 1.0)[..., None])
        z = np.where(np.isnan(x), 0.0, (x - state.mean) / np.where(sd > 0, sd, 1.0))
        z = np.clip(z, -_FAR, _FAR)
        return [phi for m in self.maps for phi in [m(z)] * len(self.ridges)]
