"""Learners shared by all arms, with an intercept for each arm by its name: what
features do not explain of it."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from oddsmith.core import kernels
from oddsmith.core.arrays import Array, Ints, flat_rows, number, row_products
from oddsmith.experts.learners.evidence import (
    USUAL,
    Regressions,
    Ridges,
    Row,
    check_ridges,
    dense,
    learn_row,
    lengthened,
    mixed,
    precisions,
    prior,
    rescale,
)
from oddsmith.experts.learners.features import FeatureMap, Plain
from oddsmith.experts.learners.forest import Forest, ForestState
from oddsmith.experts.learners.protocol import Belief, LearnerInput

__all__ = ["PooledForest", "PooledLearner", "PooledRidge", "Remembered"]

_PLAIN, _FOREST = Plain(), Forest()


class Remembered(NamedTuple):
    """The places of arms in the memory (K), -1 where there is none, and how many
    rewards of each were learnt (K)."""

    places: Ints
    counts: Array


class PooledLearner(Protocol):
    """A learner of rows (K, d), one for each arm, and of the names' places; no state of
    its own."""

    @property
    def name(self) -> str:
        """Words for what it believes."""
        ...

    def start(self, fill: Array, linear: int, room: int) -> Any:
        """The state before any reward, for rows of as many numbers as `fill`, with room
        for so many arms.

        `linear` is how many numbers the linear parts see.
        """
        ...

    def believe(self, state: Any, seen: LearnerInput, known: Remembered) -> Belief:
        """What is believed of the arms of these rows (…, K)."""
        ...

    def learn(
        self, state: Any, seen: LearnerInput, known: Remembered, reward: float
    ) -> Any:
        """The state after a reward of the one row (1, d), whose arm has a place; in
        place."""
        ...

    def cleared(self, state: Any, place: int, room: int) -> Any:
        """The state with nothing in this place, and room for so many arms."""
        ...

    def rescaled(self, state: Any, factor: Array) -> Any:
        """The state with rewards in another unit, `factor` () times as large."""
        ...

    def wider(self, state: Any, fill: Array, linear: int) -> Any:
        """The state for rows of as many numbers as `fill` has: the further ones were
        what it says, or 0, so far."""
        ...


class PooledRidgeState(NamedTuple):
    """The regressions of all arms as one, how many numbers rows had at first, and sums
    by arm.

    These are of rewards (C) and of features (C, D).
    """

    models: Regressions
    first: int
    rewards: Array
    rows: Array


class _Centred(NamedTuple):
    """Features (…, K, D) less the mean ones of each arm, and what its mean is and
    weighs.

    `own` (…, K, 2) are the means of rewards and of a constant 1, `total` (…, K) their
    weight.
    """

    phi: Array
    own: Array
    total: Array


@dataclass(frozen=True)
class PooledRidge:
    """r = start + θ·φ(x) + b_a + noise, θ ~ N(0, noise/ridge) shared by all arms, b_a ~
    N(0, noise/pull) by name.

    The intercepts are never kept: given θ, that of an arm with n rewards is the mean of
    what θ leaves, over n + pull. Exact, as a ridge regression with one more column for
    each arm. Ridges and start are those of `Ridge`. J D²/2 time for each arm offered,
    as much memory, and D for each arm remembered.

    >>> learner, unknown = PooledRidge(), Remembered(np.array([-1, -1]), np.zeros(2))
    >>> rows = LearnerInput(np.zeros((2, 3)), np.zeros((2, 3)))
    >>> learner.believe(learner.start(np.zeros(3), 3, 4), rows, unknown).mean
    array([0.5, 0.5])
    """

    features: FeatureMap = _PLAIN
    ridges: Ridges = USUAL
    pull: float = 16.0

    def __post_init__(self) -> None:
        check_ridges(self.ridges)
        number("pull", self.pull, low=0, high=np.inf, open_low=True)

    @property
    def name(self) -> str:
        return self.features.name

    def start(self, fill: Array, linear: int, room: int) -> PooledRidgeState:
        precision = self._precision(linear)
        rows = np.zeros((room, precision.shape[-1]))
        return PooledRidgeState(prior(precision, (1,)), len(fill), np.zeros(room), rows)

    def believe(
        self, state: PooledRidgeState, seen: LearnerInput, known: Remembered
    ) -> Belief:
        phi, own, total = self._centred(state, seen, known)
        models, compiled = state.models, kernels.compiled()
        if compiled is not None:
            belief = Belief(np.empty(total.shape), np.empty(total.shape))
            compiled.believe_rows(
                *models,
                flat_rows(phi),
                flat_rows(own),
                total.ravel(),
                *(b.ravel() for b in belief),
            )
            return belief
        n_ridges, size = len(self.ridges), phi.shape[-1]
        values = row_products(phi, models.weights.reshape(-1, size).T).reshape(
            *total.shape, n_ridges, 2
        )
        spread = row_products(phi, dense(models.covariance[0, 0], size))
        variance = np.maximum((spread * phi).sum(axis=-1), 0.0) + 1 / total
        return mixed(np.swapaxes(own[..., None, :] + values, -2, -3), variance, models)

    def learn(
        self,
        state: PooledRidgeState,
        seen: LearnerInput,
        known: Remembered,
        reward: float,
    ) -> PooledRidgeState:
        """The regression gains the row less its arm's mean, weighted by how sure that
        mean is; then the arm the row."""
        phi, own, total = (part[0] for part in self._centred(state, seen, known))
        learn_row(state.models, 0, Row(phi, reward, own, float(total)))
        place = known.places[0]
        state.rewards[place] += reward
        state.rows[place] += self._features(state, seen)[0]
        return state

    def cleared(
        self, state: PooledRidgeState, place: int, room: int
    ) -> PooledRidgeState:
        more = room - len(state.rewards)
        if more:
            rewards, rows = (
                np.pad(state.rewards, (0, more)),
                np.pad(state.rows, ((0, more), (0, 0))),
            )
            return state._replace(rewards=rewards, rows=rows)
        state.rewards[place], state.rows[place] = 0.0, 0.0
        return state

    def wider(
        self, state: PooledRidgeState, fill: Array, linear: int
    ) -> PooledRidgeState:
        """As if the further numbers had been 0, their mean, so far; the very first ones
        say how many there are."""
        precision = self._precision(linear)
        rows = np.pad(
            state.rows, ((0, 0), (0, precision.shape[-1] - state.rows.shape[-1]))
        )
        models = lengthened(state.models, precision)
        return PooledRidgeState(models, state.first or len(fill), state.rewards, rows)

    def rescaled(self, state: PooledRidgeState, factor: Array) -> PooledRidgeState:
        rescale(state.models, factor)
        state.rewards[...] *= factor
        return state

    def _precision(self, linear: int) -> Array:
        return precisions(
            self.ridges, self.features.n_waves, self.features.size(linear)
        )

    def _features(self, state: PooledRidgeState, seen: LearnerInput) -> Array:
        return self.features(seen.z, state.first, seen.linear)

    def _centred(
        self, state: PooledRidgeState, seen: LearnerInput, known: Remembered
    ) -> _Centred:
        total, is_known = known.counts + self.pull, known.places >= 0
        rewards = np.where(is_known, state.rewards[known.places], 0.0)
        rows = np.where(is_known[..., None], state.rows[known.places], 0.0)
        own = np.stack([rewards, known.counts], axis=-1) / total[..., None]
        return _Centred(
            self._features(state, seen) - rows / total[..., None], own, total
        )


class PooledForestState(NamedTuple):
    """The forest's own state, and sums by arm (C) of what it did not foresee."""

    forest: ForestState
    sums: Array


@dataclass(frozen=True)
class PooledForest:
    """A forest on the rows of all arms; an arm's mean is what the forest says, and what
    it lacked so far, drawn to 0.

    >>> learner, unknown = (
    ...     PooledForest(Forest(4)),
    ...     Remembered(np.array([-1, -1]), np.zeros(2)),
    ... )
    >>> rows = LearnerInput(np.zeros((2, 3)), np.zeros((2, 3)))
    >>> learner.believe(learner.start(np.zeros(3), 3, 4), rows, unknown).mean
    array([0.5, 0.5])
    """

    forest: Forest = _FOREST
    pull: float = 16.0

    def __post_init__(self) -> None:
        number("pull", self.pull, low=0, high=np.inf, open_low=True)

    @property
    def name(self) -> str:
        return self.forest.name

    def start(self, fill: Array, linear: int, room: int) -> PooledForestState:
        return PooledForestState(self.forest.start((), 1, len(fill)), np.zeros(room))

    def believe(
        self, state: PooledForestState, seen: LearnerInput, known: Remembered
    ) -> Belief:
        mean, sd = (part[..., 0] for part in self.forest.believe(state.forest, seen))
        total = known.counts + self.pull
        own = np.where(known.places >= 0, state.sums[known.places], 0.0) / total
        noise = state.forest.trees.noise.mean()
        return Belief(mean + own, np.sqrt(sd * sd + noise * noise / total))

    def learn(
        self,
        state: PooledForestState,
        seen: LearnerInput,
        known: Remembered,
        reward: float,
    ) -> PooledForestState:
        foreseen = float(self.forest.believe(state.forest, seen).mean[0, 0])
        state.sums[known.places[0]] += reward - foreseen
        one = LearnerInput(seen.x[0], seen.z[0])
        forest = self.forest.learn(
            state.forest, one, np.zeros((), np.int64), np.asarray(reward)
        )
        return state._replace(forest=forest)

    def cleared(
        self, state: PooledForestState, place: int, room: int
    ) -> PooledForestState:
        more = room - len(state.sums)
        if more:
            return state._replace(sums=np.pad(state.sums, (0, more)))
        state.sums[place] = 0.0
        return state

    def wider(
        self, state: PooledForestState, fill: Array, linear: int
    ) -> PooledForestState:
        return state._replace(forest=self.forest.wider(state.forest, fill))

    def rescaled(self, state: PooledForestState, factor: Array) -> PooledForestState:
        state.sums[...] *= factor
        return state._replace(forest=self.forest.rescaled(state.forest, factor))
