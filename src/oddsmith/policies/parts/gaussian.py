"""Gaussian posteriors of weight vectors, one shared by all arms or one per arm, with
rank-one updates in place."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np

from oddsmith.contexts.schema import Schema
from oddsmith.core.arrays import Array, Bools, Real, number, row_products, whole
from oddsmith.core.decision import Context, Decision, State, Step
from oddsmith.core.errors import InvalidInput
from oddsmith.core.expert_policy import check_eligible
from oddsmith.core.explanation import ArmExplanation
from oddsmith.core.names import numbered_arms
from oddsmith.core.offer import AnyOffer, Offer
from oddsmith.core.policy import Policy
from oddsmith.policies.parts.features import (
    checked_dim,
    feature_names,
    named_weights,
    read_features,
)

__all__ = ["GaussianState", "OverFeatures", "View", "shared_weights"]

_LARGE = 1e100  # squares of larger numbers overflow


class GaussianState(NamedTuple):
    """Means (…, G, d) and covariances (…, G, d, d) of G weight vectors: G = K, or G = 1
    if all arms share one."""

    mean: Array
    covariance: Array
    learnt: int


class View(NamedTuple):
    """The posterior of each arm in a context: features (…, K, d), mean of θ·φ (…, K),
    and Σφ (…, K, d)."""

    features: Array
    means: Array
    spread: Array

    @property
    def variances(self) -> Array:
        """Return the variances φ'Σφ (…, K)."""
        squares: Array = np.einsum("...kd,...kd->...k", self.features, self.spread)
        return np.maximum(squares, 0.0)

    @property
    def covariance(self) -> Array:
        """Covariance (…, K, K) of all arms' θ·φ under one shared posterior."""
        covariance: Array = np.einsum("...kd,...jd->...kj", self.features, self.spread)
        return covariance


def shared_weights(state: Any) -> Array:
    """Return the mean (d,) of the weight vector that all arms share, for a state
    without batch axes."""
    if state.mean.ndim != 2:
        raise InvalidInput(
            "arms that are passed in the call need a state without batch axes; got "
            f"{state.mean.shape[:-2]}"
        )
    shared: Array = state.mean[0]
    return shared


@dataclass(frozen=True, eq=False)
class OverFeatures(Policy):
    """Base class of linear policies.

    With `n_arms`, every arm has its own weight vector and the context is (…, d). If
    `n_arms` is None, all arms share one vector and the context contains a row of
    features for each arm, (…, K, d). With a `schema`, which then determines `dim`,
    contexts are dicts, rows of data frames, or data frames with a row for each arm if a
    vector is shared. Missing numbers are encoded as 0, a missing category as zeros, and
    the last feature is 1. If a vector is shared, arms may be passed in the call. A row
    then contains the numbers of the context, followed by the arm's features, encoded by
    `arm_schema`. `update` modifies the state in place. Rank-one updates stay accurate
    while features² · rewards / ridge is below about 1e10.
    """

    dim: int = 0
    n_arms: int | None = None
    _: KW_ONLY
    ridge: float = 1.0
    schema: Schema | None = None
    arm_schema: Schema | None = None

    in_place = True
    orderless = True
    scale = "linear score"  # explanations call the mean of θ·φ a linear score

    def __post_init__(self) -> None:
        dim = checked_dim(self.dim, self.schema, self.arm_schema)
        object.__setattr__(self, "dim", dim)
        if self.n_arms is not None:
            whole("n_arms", self.n_arms)
            if self.arm_schema is not None:
                raise InvalidInput(
                    "arm_schema is for arms that are passed in the call: leave "
                    "n_arms out"
                )
        number("ridge", self.ridge, low=1e-12, high=1e100)

    @property
    def takes_offers(self) -> bool:
        return self.n_arms is None

    def init(self, shape: tuple[int, ...] = ()) -> GaussianState:
        """Return the prior N(0, I/ridge) for every weight vector."""
        size = (*shape, self.n_arms or 1, self.dim)
        first = np.eye(self.dim) / self.ridge
        covariance = np.broadcast_to(first, (*size, self.dim)).copy()
        return GaussianState(np.zeros(size), covariance, 0)

    def view(
        self, state: GaussianState, context: Context, eligible: Bools | None
    ) -> View:
        """Return the posterior of every arm in this context."""
        features = self.features(context)
        check_eligible(eligible, self.n_arms or features.shape[-2])
        if isinstance(context, AnyOffer):
            means = row_products(features, shared_weights(state)[:, None])[..., 0]
            return View(features, means, row_products(features, state.covariance[0]))
        if self.n_arms is None:
            means = (features @ state.mean[..., 0, :, None])[..., 0]
            return View(features, means, features @ state.covariance[..., 0, :, :])
        features = features[..., None, :]
        spread = (state.covariance @ features[..., None])[..., 0]
        return View(features, (state.mean * features).sum(axis=-1), spread)

    def features(self, context: Context) -> Array:
        """Return the context as float64: (…, d), or (…, K, d) if arms share a weight
        vector."""
        features = read_features(context, self.schema, self.arm_schema)
        least = 1 if self.n_arms is not None else 2
        own = features.shape[-least:]
        if len(own) < least or own[-1] != self.dim or 0 in own:
            shape = f"(…, {self.dim})" if least == 1 else f"(…, K, {self.dim})"
            raise InvalidInput(f"context must have shape {shape}; got {features.shape}")
        is_valid = np.abs(features) <= _LARGE
        if not is_valid.all():
            column = int(np.argwhere(~is_valid)[0][-1])
            raise InvalidInput(
                f"context must contain finite numbers up to {_LARGE:g}; column "
                f"{column} contains others: fill it in, or give a schema=Schema(…), "
                "which reads a missing number as 0"
            )
        return features

    def bounds(
        self, state: State, context: Context, eligible: Bools | None = None
    ) -> Array | None:
        """Return the upper confidence bounds (…, K) of optimistic policies."""
        return None

    def explain(
        self,
        state: State,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> ArmExplanation:
        """Explain the propensities by mean and standard deviation of each arm's θ·φ in
        this context."""
        view = self.view(state, context, eligible)
        odds = self.odds(state, context, eligible=eligible, step=step).propensities
        arms = numbered_arms(odds.shape[-1])
        if isinstance(context, AnyOffer):
            arms = context.arms
        upper = self.bounds(state, context, eligible)
        sd = np.sqrt(view.variances)
        return ArmExplanation(arms, self.scale, view.means, sd, upper, odds)

    def coefficients(self, state: State) -> tuple[tuple[str, ...], Array, Array]:
        """Return the names of the d features, and mean and standard deviation (…, G, d)
        of their weights."""
        names = feature_names(self.dim, self.schema, self.arm_schema)
        variances = np.diagonal(state.covariance, axis1=-2, axis2=-1)
        sds = np.sqrt(np.maximum(variances, 0.0))
        return names, state.mean, sds

    def named_posterior(
        self, state: State, arms: Sequence[str] | None
    ) -> dict[str, dict[str, tuple[float, float]]]:
        """Return mean and standard deviation of each column's weight, by arm."""
        return named_weights(arms, *self.coefficients(state))

    def drawn_belief(
        self, state: GaussianState, decision: Decision
    ) -> tuple[Any, Array, Array, Array]:
        """Return the index of the drawn arm's posterior, its features φ (B, d), mean
        θ·φ (B,) and Σφ (B, d), with flattened batch axes."""
        place, phi = self.place(decision, state.mean)
        n = len(phi)
        means = state.mean.reshape(n, -1, self.dim)
        covariances = state.covariance.reshape(n, -1, self.dim, self.dim)
        mean = (means[place] * phi).sum(axis=-1)
        spread = (covariances[place] @ phi[..., None])[..., 0]
        return place, phi, mean, spread

    def place(self, decision: Decision, mean: Array) -> tuple[Any, Array]:
        """Return the index of the drawn arm's posterior in a state with means (B, G,
        d), and its features φ (B, d)."""
        arms = np.asarray(decision.number, dtype=np.int64)
        batch = mean.shape[:-2]
        question = decision.question
        # Learning needs only the features of the drawn arm.
        if isinstance(question, Offer):
            features = self.features(question.only(int(arms)))
            first = np.zeros(1, np.int64)
            return (first, first), features
        features = self.features(question)
        is_shared = self.n_arms is None
        own = features.shape[-2:] if is_shared else features.shape[-1:]
        shape = (*batch, *own)
        if arms.shape != batch or np.broadcast_shapes(features.shape, shape) != shape:
            raise InvalidInput(
                f"decision must have the state's batch axes {batch}; got {arms.shape}, "
                f"{features.shape}"
            )
        arms = arms.reshape(-1)
        rows = np.arange(arms.size)
        flat = np.broadcast_to(features, shape).reshape(arms.size, -1, self.dim)
        if is_shared:
            return (rows, np.zeros_like(arms)), flat[rows, arms]
        return (rows, arms), flat[:, 0]

    def move(
        self,
        state: GaussianState,
        place: Any,
        step: Array,
        shrink: Array,
        spread: Array,
    ) -> GaussianState:
        """Update in place at `place`: mean += step · Σφ and covariance -= shrink · Σφ
        φ'Σ."""
        n = len(step)
        mean = state.mean.reshape(n, -1, self.dim)
        covariance = state.covariance.reshape(n, -1, self.dim, self.dim)
        mean[place] += step[:, None] * spread
        # An outer product of one vector is exactly symmetric.
        root = np.sqrt(shrink)[:, None] * spread
        covariance[place] -= root[:, :, None] * root[:, None, :]
        return GaussianState(state.mean, state.covariance, state.learnt + 1)

    def add_row(
        self, state: GaussianState, decision: Decision, reward: Real, noise: float
    ) -> GaussianState:
        """Add one row to the drawn arm's regression, in place (Sherman and
        Morrison)."""
        place, phi, mean, spread = self.drawn_belief(state, decision)
        variance = (phi * spread).sum(axis=-1)
        shrink = 1 / (noise + variance)
        rewards = np.asarray(reward).reshape(-1)
        step = (rewards - mean) * shrink
        return self.move(state, place, step, shrink, spread)
