"""Learners shared by all arms. An intercept per arm name represents the part of its
mean that features do not explain."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from oddsmith.core import kernels
from oddsmith.core.arrays import Array, Ints, flat_rows, number, row_products
from oddsmith.core.errors import InvalidInput
from oddsmith.experts.learners.evidence import (
    USUAL,
    Crossed,
    Regressions,
    Ridges,
    Row,
    check_ridges,
    dense,
    learn_both,
    mix_ridges,
    precisions,
    prior,
    rescale,
    with_features,
)
from oddsmith.experts.learners.features import FeatureMap, Plain
from oddsmith.experts.learners.forest import Forest, ForestState
from oddsmith.experts.learners.protocol import Belief, LearnerInput

__all__ = ["PooledForest", "PooledLearner", "PooledRidge", "Remembered", "Sizes"]

_PLAIN = Plain()
_FOREST = Forest()


class Remembered(NamedTuple):
    """Slots of arms in the name table (K), -1 for none, and their numbers of rewards
    (K)."""

    places: Ints
    counts: Array


class Sizes(NamedTuple):
    """Number of features of linear parts, without and with products."""

    linear: int
    crossed: int


class PooledLearner(Protocol):
    """A learner that all arms share. Its input is a row of numbers for each arm (K, d)
    and the slots of the arms' names. The caller keeps its state."""

    @property
    def name(self) -> str:
        """Text for the names of experts."""
        ...

    def start(self, fill: Array, sizes: Sizes, room: int) -> Any:
        """Return the state before any reward, for rows with as many numbers as `fill`
        has, and with space for `room` arms.
        """
        ...

    def believe(self, state: Any, seen: LearnerInput, known: Remembered) -> Belief:
        """Return the posterior of the arms of these rows (…, K)."""
        ...

    def learn(
        self, state: Any, seen: LearnerInput, known: Remembered, reward: float
    ) -> Any:
        """Return the state after a reward of a single row (1, d) whose arm has a slot,
        in place."""
        ...

    def cleared(self, state: Any, place: int, room: int) -> Any:
        """Return the state with this slot empty, and with space for `room` arms."""
        ...

    def rescaled(self, state: Any, factor: Array) -> Any:
        """Return the state with rewards in another unit, `factor` () times as large."""
        ...

    def wider(self, state: Any, fill: Array, sizes: Sizes) -> Any:
        """Return the state for rows with as many numbers as `fill` has. In earlier
        rows, the additional numbers count as those in `fill`, or as 0."""
        ...


class PooledRidgeState(NamedTuple):
    """The regression shared by all arms, the regression with products, the initial
    number of columns, and sums by arm.

    The sums are of rewards (C), of features (C, D) and of features with products (C,
    M).
    """

    models: Regressions
    products: Crossed
    first: int
    rewards: Array
    rows: Array
    crossed: Array


class _Features(NamedTuple):
    """Features (…, K, D) of rows, and those with products (…, K, M)."""

    phi: Array
    crossed: Array


class _Centred(NamedTuple):
    """Features (…, K, D) and those with products (…, K, M), each minus the arm's mean,
    and the arm's own means.

    `own` (…, K, 2) are the means of rewards and of a constant 1, `total` (…, K) their
    weight.
    """

    phi: Array
    crossed: Array
    own: Array
    total: Array


@dataclass(frozen=True)
class PooledRidge:
    """Ridge regression r = start + θ·φ(x) + b_a + noise, with θ ~ N(0, noise/ridge)
    shared by all arms and b_a ~ N(0, noise/pull) by name.

    The intercepts are not stored: given θ, the intercept of an arm with n rewards is
    the sum of its residuals over n + pull. This is exact, and equals a ridge regression
    with one more column per arm. Ridges and start are those of `Ridge`.

    φ has no products of context and arm features. One further regression for each
    number in `products` has such products beside the linear part, and no waves; the
    number is the prior precision of all its features. The evidence weighs these
    regressions together with the ridges. Time: J D²/2 per reward, and the same memory;
    D²/2 per offered arm, and D per stored arm.

    >>> learner, unknown = PooledRidge(), Remembered(np.array([-1, -1]), np.zeros(2))
    >>> rows = LearnerInput(np.zeros((2, 3)), np.zeros((2, 3)))
    >>> learner.believe(learner.start(np.zeros(3), Sizes(3, 3), 4), rows, unknown).mean
    array([0.5, 0.5])
    """

    features: FeatureMap = _PLAIN
    ridges: Ridges = USUAL
    pull: float = 16.0
    products: tuple[float, ...] = (1.0, 5.0)

    def __post_init__(self) -> None:
        check_ridges(self.ridges)
        number("pull", self.pull, low=0, high=np.inf, open_low=True)
        if not isinstance(self.products, tuple):
            raise InvalidInput(
                "products must be a tuple of prior precisions, () for no products; got "
                f"{self.products!r:.60}"
            )
        for precision in self.products:
            number("products", precision, low=0, high=np.inf, open_low=True)

    @property
    def name(self) -> str:
        return self.features.name

    def start(self, fill: Array, sizes: Sizes, room: int) -> PooledRidgeState:
        precision = self._precision(sizes)
        crossed = self._crossed_precision(sizes)
        n_crossed = len(crossed)
        n_ridges = len(precision) + n_crossed
        evidence = prior(np.ones((n_ridges, 0)), (1,)).evidence
        models = prior(precision, (1,))._replace(evidence=evidence)
        none = Crossed(np.zeros((n_crossed, 1, 2, 0)), np.zeros((n_crossed, 1, 0)))
        rows = np.zeros((room, precision.shape[-1]))
        crossed_rows = np.zeros((room, crossed.shape[-1]))
        return PooledRidgeState(
            models,
            with_features(none, crossed),
            first=len(fill),
            rewards=np.zeros(room),
            rows=rows,
            crossed=crossed_rows,
        )

    def believe(
        self, state: PooledRidgeState, seen: LearnerInput, known: Remembered
    ) -> Belief:
        raw = self._raw(state, seen)
        phi, crossed, own, total = _centred(state, raw, known, self.pull)
        models = state.models
        compiled = kernels.compiled()
        if compiled is not None:
            mean = np.empty(total.shape)
            sd = np.empty(total.shape)
            compiled.believe_rows(
                *models,
                state.products.weights,
                flat_rows(crossed),
                flat_rows(phi),
                flat_rows(own),
                total.ravel(),
                mean.ravel(),
                sd.ravel(),
            )
            return Belief(mean, sd)
        plain_values = _values(models.weights, phi)
        crossed_values = _values(state.products.weights, crossed)
        values = np.concatenate([plain_values, crossed_values], axis=-2)
        values = own[..., None, :] + values
        covariance = models.covariance[0, 0]
        spread = row_products(phi, dense(covariance, phi.shape[-1]))
        explained = (spread * phi).sum(axis=-1)
        variance = np.maximum(explained, 0.0) + 1 / total
        return mix_ridges(np.swapaxes(values, -2, -3), variance, models)

    def learn(
        self,
        state: PooledRidgeState,
        seen: LearnerInput,
        known: Remembered,
        reward: float,
    ) -> PooledRidgeState:
        """Add the row minus its arm's mean row to the regression, with a weight that
        grows with the number of the arm's rewards. Then add the row to the arm's
        sums."""
        raw = self._raw(state, seen)
        centred = _centred(state, raw, known, self.pull)
        total = float(centred.total[0])
        row = Row(centred.phi[0], reward, centred.own[0], total)
        learn_both(state.models, state.products, row, centred.crossed[0])
        place = known.places[0]
        state.rewards[place] += reward
        state.rows[place] += raw.phi[0]
        state.crossed[place] += raw.crossed[0]
        return state

    def cleared(
        self, state: PooledRidgeState, place: int, room: int
    ) -> PooledRidgeState:
        more = room - len(state.rewards)
        if more:
            rewards = np.pad(state.rewards, (0, more))
            rows = np.pad(state.rows, ((0, more), (0, 0)))
            crossed = np.pad(state.crossed, ((0, more), (0, 0)))
            return state._replace(
                rewards=rewards,
                rows=rows,
                crossed=crossed,
            )
        state.rewards[place] = 0.0
        state.rows[place] = 0.0
        state.crossed[place] = 0.0
        return state

    def wider(
        self, state: PooledRidgeState, fill: Array, sizes: Sizes
    ) -> PooledRidgeState:
        """Return the state for rows with further numbers. In earlier rows, these count
        as 0, which is their standardised mean. The first call sets `first`."""
        precision = self._precision(sizes)
        crossed = self._crossed_precision(sizes)
        rows = _pad_rows(state.rows, precision.shape[-1])
        crossed_rows = _pad_rows(state.crossed, crossed.shape[-1])
        return state._replace(
            models=with_features(state.models, precision),
            products=with_features(state.products, crossed),
            first=state.first or len(fill),
            rows=rows,
            crossed=crossed_rows,
        )

    def rescaled(self, state: PooledRidgeState, factor: Array) -> PooledRidgeState:
        rescale(state.models, factor)
        state.products.weights[..., 0, :] *= factor
        state.rewards[...] *= factor
        return state

    def _precision(self, sizes: Sizes) -> Array:
        size = self.features.size(sizes.linear)
        return precisions(self.ridges, self.features.n_waves, size)

    def _crossed_precision(self, sizes: Sizes) -> Array:
        size = _PLAIN.size(sizes.crossed)
        return np.repeat(np.array(self.products)[:, None], size, axis=1)

    def _raw(self, state: PooledRidgeState, seen: LearnerInput) -> _Features:
        phi = self.features(seen.z, state.first, seen.linear)
        linear = seen.linear if seen.crossed is None else seen.crossed
        crossed = _PLAIN(seen.z, state.first, linear)
        return _Features(phi, crossed)


def _centred(
    state: PooledRidgeState, raw: _Features, known: Remembered, pull: float
) -> _Centred:
    total = known.counts + pull
    is_known = known.places >= 0
    rewards = np.where(is_known, state.rewards[known.places], 0.0)
    own = np.empty((*total.shape, 2))
    own[..., 0] = rewards / total
    own[..., 1] = known.counts / total
    weight = np.where(is_known, 1 / total, 0.0)
    phi = _less_mean(raw.phi, state.rows, known.places, weight)
    crossed = _less_mean(raw.crossed, state.crossed, known.places, weight)
    return _Centred(phi, crossed, own, total)


def _less_mean(features: Array, sums: Array, places: Ints, weight: Array) -> Array:
    """Return features (…, K, D) less `weight` (…, K) times the sums (C, D) at these
    places (…, K)."""
    compiled = kernels.compiled()
    if compiled is None:
        return features - sums[places] * weight[..., None]
    less = np.empty(features.shape)
    compiled.subtract_sums(
        flat_rows(features), sums, places.ravel(), weight.ravel(), flat_rows(less)
    )
    return less


def _values(weights: Array, phi: Array) -> Array:
    """Return the predictions (…, K, J, 2) of regressions (J, 1, 2, D) for rows (…, K,
    D)."""
    size = phi.shape[-1]
    flat = row_products(phi, weights.reshape(-1, size).T)
    return flat.reshape(*phi.shape[:-1], len(weights), 2)


def _pad_rows(rows: Array, size: int) -> Array:
    """Return rows (C, D) extended with zeros up to `size`."""
    more = size - rows.shape[-1]
    return np.pad(rows, ((0, 0), (0, more)))


class PooledForestState(NamedTuple):
    """State of the forest, and sums by arm (C) of its errors."""

    forest: ForestState
    sums: Array


@dataclass(frozen=True)
class PooledForest:
    """A forest on the rows of all arms. An arm's mean is the forest's plus the arm's
    mean error, shrunk towards 0.

    >>> learner, unknown = (
    ...     PooledForest(Forest(4)),
    ...     Remembered(np.array([-1, -1]), np.zeros(2)),
    ... )
    >>> rows = LearnerInput(np.zeros((2, 3)), np.zeros((2, 3)))
    >>> learner.believe(learner.start(np.zeros(3), Sizes(3, 3), 4), rows, unknown).mean
    array([0.5, 0.5])
    """

    forest: Forest = _FOREST
    pull: float = 16.0

    def __post_init__(self) -> None:
        number("pull", self.pull, low=0, high=np.inf, open_low=True)

    @property
    def name(self) -> str:
        return self.forest.name

    def start(self, fill: Array, sizes: Sizes, room: int) -> PooledForestState:
        return PooledForestState(self.forest.start((), 1, len(fill)), np.zeros(room))

    def believe(
        self, state: PooledForestState, seen: LearnerInput, known: Remembered
    ) -> Belief:
        belief = self.forest.believe(state.forest, seen)
        mean = belief.mean[..., 0]
        sd = belief.sd[..., 0]
        total = known.counts + self.pull
        sums = np.where(known.places >= 0, state.sums[known.places], 0.0)
        noise = state.forest.trees.noise.mean()
        variance = sd * sd + noise * noise / total
        return Belief(mean + sums / total, np.sqrt(variance))

    def learn(
        self,
        state: PooledForestState,
        seen: LearnerInput,
        known: Remembered,
        reward: float,
    ) -> PooledForestState:
        prediction = float(self.forest.believe(state.forest, seen).mean[0, 0])
        state.sums[known.places[0]] += reward - prediction
        one = LearnerInput(seen.x[0], seen.z[0])
        arm = np.zeros((), np.int64)
        forest = self.forest.learn(state.forest, one, arm, np.asarray(reward))
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
        self, state: PooledForestState, fill: Array, sizes: Sizes
    ) -> PooledForestState:
        return state._replace(forest=self.forest.wider(state.forest, fill))

    def rescaled(self, state: PooledForestState, factor: Array) -> PooledForestState:
        state.sums[...] *= factor
        return state._replace(forest=self.forest.rescaled(state.forest, factor))
