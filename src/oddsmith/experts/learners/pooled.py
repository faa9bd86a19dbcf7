"""Learners shared by all arms, with an intercept for each arm by its name: what features do not explain of it."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from oddsmith.arrays import Array, Ints, number, row_products
from oddsmith.experts.features import FeatureMap, Plain
from oddsmith.experts.learners.base import Belief, LearnerInput
from oddsmith.experts.learners.forest import Forest, ForestState
from oddsmith.experts.learners.ridge import with_constant

__all__ = ["PooledForest", "PooledLearner", "PooledRidge", "Remembered"]

_PLAIN, _FOREST = Plain(), Forest()
_NOISE = 0.5  # no reward in [0, 1] has a larger standard deviation


class Remembered(NamedTuple):
    """The places of arms in the memory (K), -1 where there is none, and how many rewards of each were learnt (K)."""

    places: Ints
    counts: Array


class PooledLearner(Protocol):
    """A learner of rows (K, d), one for each arm, and of the names' places; no state of its own."""

    @property
    def name(self) -> str:
        """Words for what it believes."""
        ...

    def start(self, dim: int, room: int) -> Any:
        """The state before any reward, for rows of `dim` numbers, with room for so many arms."""
        ...

    def believe(self, state: Any, seen: LearnerInput, known: Remembered) -> Belief:
        """What is believed of the arms of these rows (…, K)."""
        ...

    def learn(self, state: Any, seen: LearnerInput, known: Remembered, reward: float) -> Any:
        """The state after a reward of the one row (1, d), whose arm has a place; in place."""
        ...

    def cleared(self, state: Any, place: int, room: int) -> Any:
        """The state with nothing in this place, and room for so many arms."""
        ...

    def wider(self, state: Any, dim: int) -> Any:
        """The state before any reward for rows of `dim` numbers, with what is remembered of arms."""
        ...


class PooledRidgeState(NamedTuple):
    """Weights (D) and their covariance (D, D) in units of the noise; sums of rewards (C) and features (C, D) by arm."""

    weights: Array
    covariance: Array
    sums: Array
    rows: Array


@dataclass(frozen=True)
class PooledRidge:
    """r = 1/2 + θ·φ(x) + b_a + noise, θ ~ N(0, I/ridge) shared by all arms, b_a ~ N(0, 1/pull) for each, by name.

    The intercepts are never kept: given θ, that of an arm with n rewards is the mean of what θ leaves, over n + pull.
    Exact, as a ridge regression with one more column for each arm. D² time and memory, and D for each arm.

    >>> learner, unknown = PooledRidge(), Remembered(np.array([-1, -1]), np.zeros(2))
    >>> learner.believe(learner.start(3, 4), LearnerInput(np.zeros((2, 3)), np.zeros((2, 3))), unknown).mean
    array([0.5, 0.5])
    """

    features: FeatureMap = _PLAIN
    ridge: float = 0.3
    pull: float = 16.0

    def __post_init__(self) -> None:
        number("ridge", self.ridge, low=0, high=np.inf, open_low=True)
        number("pull", self.pull, low=0, high=np.inf, open_low=True)

    @property
    def name(self) -> str:
        return self.features.name

    def start(self, dim: int, room: int) -> PooledRidgeState:
        size = self.features.size(dim) + 1
        return PooledRidgeState(np.zeros(size), np.eye(size) / self.ridge, np.zeros(room), np.zeros((room, size)))

    def believe(self, state: PooledRidgeState, seen: LearnerInput, known: Remembered) -> Belief:
        own, u, total = self._centred(state, seen, known)
        mean = 0.5 + own + row_products(u, state.weights[:, None])[..., 0]
        variance = np.maximum((row_products(u, state.covariance) * u).sum(axis=-1), 0.0) + 1 / total
        return Belief(mean, _NOISE * np.sqrt(variance))

    def learn(self, state: PooledRidgeState, seen: LearnerInput, known: Remembered, reward: float) -> PooledRidgeState:
        """The regression gains the row less its arm's mean, weighted by how sure that mean is; then the arm the row."""
        own, u, total = (part[0] for part in self._centred(state, seen, known))
        weight = total / (total + 1)
        gain = state.covariance @ u
        shrink = weight / (1 + weight * max(float(u @ gain), 0.0))
        state.weights[:] += (reward - 0.5 - own - float(u @ state.weights)) * shrink * gain
        state.covariance[:] -= np.multiply.outer(shrink * gain, gain)
        place = known.places[0]
        state.sums[place] += reward - 0.5
        state.rows[place] += self._features(seen)[0]
        return state

    def cleared(self, state: PooledRidgeState, place: int, room: int) -> PooledRidgeState:
        more = room - len(state.sums)
        if more:
            sums, rows = np.pad(state.sums, (0, more)), np.pad(state.rows, ((0, more), (0, 0)))
            return state._replace(sums=sums, rows=rows)
        state.sums[place], state.rows[place] = 0.0, 0.0
        return state

    def wider(self, state: PooledRidgeState, dim: int) -> PooledRidgeState:
        """As if all rows so far had been 0: their rewards are those of the arms alone."""
        return self.start(dim, len(state.sums))._replace(sums=state.sums)

    def _features(self, seen: LearnerInput) -> Array:
        """φ (…, K, D), each row by itself."""
        return with_constant(self.features(seen.z[..., None, :])[..., 0, :])

    def _centred(self, state: PooledRidgeState, seen: LearnerInput, known: Remembered) -> tuple[Array, Array, Array]:
        """An arm's own mean, its row less that mean's features, and how much weight the mean has."""
        total = known.counts + self.pull
        is_known = known.places >= 0
        own = np.where(is_known, state.sums[known.places], 0.0) / total
        rows = np.where(is_known[..., None], state.rows[known.places], 0.0)
        return own, self._features(seen) - rows / total[..., None], total


class PooledForestState(NamedTuple):
    """The forest's own state, and sums by arm (C) of what it did not foresee."""

    forest: ForestState
    sums: Array


@dataclass(frozen=True)
class PooledForest:
    """A forest on the rows of all arms; an arm's mean is what the forest says, and what it lacked so far, drawn to 0.

    >>> learner, unknown = PooledForest(Forest(4)), Remembered(np.array([-1, -1]), np.zeros(2))
    >>> learner.believe(learner.start(3, 4), LearnerInput(np.zeros((2, 3)), np.zeros((2, 3))), unknown).mean
    array([0.5, 0.5])
    """

    forest: Forest = _FOREST
    pull: float = 16.0

    def __post_init__(self) -> None:
        number("pull", self.pull, low=0, high=np.inf, open_low=True)

    @property
    def name(self) -> str:
        return self.forest.name

    def start(self, dim: int, room: int) -> PooledForestState:
        return PooledForestState(self.forest.start((), 1, dim), np.zeros(room))

    def believe(self, state: PooledForestState, seen: LearnerInput, known: Remembered) -> Belief:
        mean, sd = (part[..., 0] for part in self.forest.believe(state.forest, seen))
        total = known.counts + self.pull
        own = np.where(known.places >= 0, state.sums[known.places], 0.0) / total
        return Belief(mean + own, np.sqrt(sd * sd + _NOISE * _NOISE / total))

    def learn(
        self, state: PooledForestState, seen: LearnerInput, known: Remembered, reward: float
    ) -> PooledForestState:
        foreseen = float(self.forest.believe(state.forest, seen).mean[0, 0])
        state.sums[known.places[0]] += reward - foreseen
        one = LearnerInput(seen.x[0], seen.z[0])
        forest = self.forest.learn(state.forest, one, np.zeros((), np.int64), np.asarray(reward))
        return state._replace(forest=forest)

    def cleared(self, state: PooledForestState, place: int, room: int) -> PooledForestState:
        more = room - len(state.sums)
        if more:
            return state._replace(sums=np.pad(state.sums, (0, more)))
        state.sums[place] = 0.0
        return state

    def wider(self, state: PooledForestState, dim: int) -> PooledForestState:
        return self.start(dim, len(state.sums))._replace(sums=state.sums)
