"""Gaussian beliefs about weight vectors: one for all arms, or one for each; rank-one
updates in place."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np

from oddsmith.contexts.schema import Schema
from oddsmith.core.arrays import Array, Bools, number, row_products, whole
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
    """Means (…, G, d) and covariances (…, G, d, d) of G = K weight vectors, or G = 1
    that all arms share."""

    mean: Array
    covariance: Array
    learnt: int


class View(NamedTuple):
    """What a belief says of every arm: the features (…, K, d), the mean of θ·φ (…, K),
    and Σφ (…, K, d)."""

    features: Array
    means: Array
    spread: Array

    @property
    def variances(self) -> Array:
        """φ'Σφ (…, K)."""
        variances: Array = np.maximum(
            np.einsum("...kd,...kd->...k", self.features, self.spread), 0.0
        )
        return variances

    @property
    def covariance(self) -> Array:
        """The covariance of all arms' θ·φ under one shared belief (…, K, K)."""
        covariance: Array = np.einsum("...kd,...jd->...kj", self.features, self.spread)
        return covariance


def shared_weights(state: Any) -> Array:
    """The means (d,) of the one weight vector that all arms share, of a state without
    batch axes."""
    if state.mean.ndim != 2:
        raise InvalidInput(
            "arms that come with the call need a state without batch axes; got "
            f"{state.mean.shape[:-2]}"
        )
    shared: Array = state.mean[0]
    return shared


@dataclass(frozen=True, eq=False)
class OverFeatures(Policy):
    """The fields and bodies that all linear policies have.

    With `n_arms` given every arm has a weight vector of its own (disjoint) and the
    context is (…, d). With n_arms None one vector is shared and the context is a row of
    features for each arm, (…, K, d). With a `schema`, which then says `dim`, contexts
    are dicts, rows of data frames or frames (a row for each arm where a vector is
    shared): missing numbers are 0, a missing category has no place, and a 1 comes last.
    Where a vector is shared, arms may come with the call: a row is the numbers of the
    context, then those that `arm_schema` makes of the arm's features. `update` writes
    in place.
    Rank-one updates keep their digits while features² · rewards / ridge stays below
    some 1e10.
    """

    dim: int = 0
    n_arms: int | None = None
    _: KW_ONLY
    ridge: float = 1.0
    schema: Schema | None = None
    arm_schema: Schema | None = None

    in_place = True
    orderless = True
    scale = "linear score"  # what θ·φ is a mean of

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "dim", checked_dim(self.dim, self.schema, self.arm_schema)
        )
        if self.n_arms is not None:
            whole("n_arms", self.n_arms)
            if self.arm_schema is not None:
                raise InvalidInput(
                    "arm_schema is for arms that come with the call: leave n_arms out"
                )
        number("ridge", self.ridge, low=1e-12, high=1e100)

    @property
    def takes_offers(self) -> bool:
        return self.n_arms is None

    def init(self, shape: tuple[int, ...] = ()) -> GaussianState:
        """N(0, I/ridge) for every weight vector."""
        size = (*shape, self.n_arms or 1, self.dim)
        covariance = np.broadcast_to(
            np.eye(self.dim) / self.ridge, (*size, self.dim)
        ).copy()
        return GaussianState(np.zeros(size), covariance, 0)

    def view(
        self, state: GaussianState, context: Context, eligible: Bools | None
    ) -> View:
        """The belief about every arm in this context."""
        features = self.features(context)
        check_eligible(eligible, self.n_arms or features.shape[-2])
        if isinstance(context, AnyOffer):
            means = row_products(features, shared_weights(state)[:, None])[..., 0]
            return View(features, means, row_products(features, state.covariance[0]))
        if self.n_arms is None:
            spread = features @ state.covariance[..., 0, :, :]
            return View(
                features, (features @ state.mean[..., 0, :, None])[..., 0], spread
            )
        features = features[..., None, :]
        spread = (state.covariance @ features[..., None])[..., 0]
        return View(features, (state.mean * features).sum(axis=-1), spread)

    def features(self, context: Context) -> Array:
        """The context as float64: (…, d), or (…, K, d) where a vector is shared."""
        features = read_features(context, self.schema, self.arm_schema)
        least = 1 if self.n_arms is not None else 2
        if (
            features.ndim < least
            or features.shape[-1] != self.dim
            or 0 in features.shape[-least:]
        ):
            shape = f"(…, {self.dim})" if least == 1 else f"(…, K, {self.dim})"
            raise InvalidInput(f"context must have shape {shape}; got {features.shape}")
        if not (np.abs(features) <= _LARGE).all():
            place = int(np.argwhere(~(np.abs(features) <= _LARGE))[0][-1])
            then = (
                "fill it in, or give a schema=Schema(…), which reads a missing number "
                "as 0"
            )
            raise InvalidInput(
                f"context must be finite numbers up to {_LARGE:g}; got others in "
                f"column {place}: {then}"
            )
        return features

    def bounds(
        self, state: State, context: Context, eligible: Bools | None = None
    ) -> Array | None:
        """The upper confidence bounds (…, K) of optimistic policies."""
        return None

    def explain(
        self,
        state: State,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> ArmExplanation:
        """Mean and standard deviation of every arm's θ·φ in this context, and its
        odds."""
        view = self.view(state, context, eligible)
        odds = self.odds(state, context, eligible=eligible, step=step).propensities
        upper = self.bounds(state, context, eligible)
        arms = (
            context.arms
            if isinstance(context, AnyOffer)
            else numbered_arms(odds.shape[-1])
        )
        return ArmExplanation(
            arms, self.scale, view.means, np.sqrt(view.variances), upper, odds
        )

    def coefficients(self, state: State) -> tuple[tuple[str, ...], Array, Array]:
        """The names of the d features, and mean and standard deviation (…, G, d) of
        their weights."""
        variances = np.diagonal(state.covariance, axis1=-2, axis2=-1)
        return (
            feature_names(self.dim, self.schema, self.arm_schema),
            state.mean,
            np.sqrt(np.maximum(variances, 0.0)),
        )

    def named_posterior(
        self, state: State, arms: Sequence[str] | None
    ) -> dict[str, dict[str, tuple[float, float]]]:
        """Mean and standard deviation of each column's weight, by arm."""
        return named_weights(arms, *self.coefficients(state))

    def drawn(
        self, state: GaussianState, decision: Decision
    ) -> tuple[Any, Array, Array, Array]:
        """Where the drawn arm's belief is, its features φ (B, d), mean θ·φ (B,) and Σφ
        (B, d), flat over batch axes."""
        place, phi = self.place(decision, state.mean)
        mean = state.mean.reshape(len(phi), -1, self.dim)[place]
        covariance = state.covariance.reshape(len(phi), -1, self.dim, self.dim)[place]
        return (
            place,
            phi,
            (mean * phi).sum(axis=-1),
            (covariance @ phi[..., None])[..., 0],
        )

    def place(self, decision: Decision, mean: Array) -> tuple[Any, Array]:
        """Where the drawn arm's belief is in a state whose means are (B, G, d), and its
        features φ (B, d)."""
        arms = np.asarray(decision.number, dtype=np.int64)
        batch = mean.shape[:-2]
        question = decision.question
        if isinstance(question, Offer):  # of the other arms nothing need be known
            drawn = question.only(int(arms))
            return (np.zeros(1, np.int64), np.zeros(1, np.int64)), self.features(drawn)
        features = self.features(question)
        own = features.shape[-1:] if self.n_arms is not None else features.shape[-2:]
        if arms.shape != batch or np.broadcast_shapes(
            features.shape, (*batch, *own)
        ) != (*batch, *own):
            raise InvalidInput(
                f"decision must have the state's batch axes {batch}; got {arms.shape}, "
                f"{features.shape}"
            )
        flat = np.broadcast_to(features, (*batch, *own)).reshape(
            arms.size, -1, self.dim
        )
        arms, rows = arms.reshape(-1), np.arange(arms.size)
        phi = flat[rows, arms] if self.n_arms is None else flat[:, 0]
        return (rows, np.zeros_like(arms) if self.n_arms is None else arms), phi

    def moved(
        self,
        state: GaussianState,
        place: Any,
        step: Array,
        shrink: Array,
        spread: Array,
    ) -> GaussianState:
        """mean += step · Σφ and covariance -= shrink · Σφ φ'Σ at `place`, in place."""
        n = len(step)
        mean = state.mean.reshape(n, -1, self.dim)
        covariance = state.covariance.reshape(n, -1, self.dim, self.dim)
        mean[place] += step[:, None] * spread
        # its outer product is symmetric to the last bit
        root = np.sqrt(shrink)[:, None] * spread
        covariance[place] -= root[:, :, None] * root[:, None, :]
        return GaussianState(state.mean, state.covariance, state.learnt + 1)
