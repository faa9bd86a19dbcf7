"""Ridge: Bayesian linear regressions for each arm on fixed features, with rank-one
updates; the evidence selects the ridge."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from oddsmith.core import kernels
from oddsmith.core.arrays import Array, Ints
from oddsmith.experts.learners.evidence import (
    USUAL,
    Regressions,
    Ridges,
    Row,
    check_ridges,
    dense,
    learn_row,
    mix_ridges,
    precisions,
    prior,
    rescale,
    with_features,
)
from oddsmith.experts.learners.features import FeatureMap, Plain
from oddsmith.experts.learners.protocol import (
    Belief,
    LearnerInput,
    RewardChange,
    places,
)

__all__ = ["Ridge", "RidgeState"]

_PLAIN = Plain()


class RidgeState(NamedTuple):
    """The regressions of each arm, and the initial number of columns of contexts."""

    models: Regressions
    first: int


@dataclass(frozen=True)
class Ridge:
    """Linear regression r = start + θ_a·φ(x) + noise, θ_a ~ N(0, noise/ridge), with a
    posterior for each arm and each of the ridges.

    A ridge is a pair of penalties: one for the linear part, and one for the waves,
    which need more smoothing with more noise. Ridges are weighted by how well they
    predicted the rewards of all arms; their errors estimate the noise. The start, that
    is, the mean of an arm without rewards, is optimistic (`prior.py`). Time and memory:
    J K D²/2.

    >>> learner = Ridge()
    >>> learner.believe(
    ...     learner.start((), 2, 3), LearnerInput(np.zeros(3), np.zeros(3))
    ... ).mean
    array([0.5, 0.5])
    """

    features: FeatureMap = _PLAIN
    ridges: Ridges = USUAL

    def __post_init__(self) -> None:
        check_ridges(self.ridges)

    @property
    def name(self) -> str:
        if self.ridges == USUAL:
            return self.features.name
        pairs = [f"{plain:g}/{waves:g}" for plain, waves in self.ridges]
        return f"{self.features.name}, ridge {' '.join(pairs)}"

    def start(self, shape: tuple[int, ...], n_arms: int, dim: int) -> RidgeState:
        """Return the prior of every arm."""
        return RidgeState(prior(self._precision(dim), (*shape, n_arms)), dim)

    def widen(self, state: RidgeState, n_arms: int) -> RidgeState:
        """Return the state with further arms, which start from the prior."""
        *shape, _, n_before, _, size = state.models.weights.shape
        models = state.models
        precision = precisions(self.ridges, self.features.n_waves, size)
        fresh = prior(precision, (*shape, n_arms - n_before))
        weights = np.concatenate([models.weights, fresh.weights], axis=-3)
        covariance = np.concatenate([models.covariance, fresh.covariance], axis=-2)
        models = models._replace(weights=weights, covariance=covariance)
        return state._replace(models=models)

    def wider(self, state: RidgeState, fill: Array) -> RidgeState:
        """Return the state for contexts with further numbers. In earlier contexts,
        these count as 0, which is their standardised mean. The first call sets
        `first`."""
        models = with_features(state.models, self._precision(len(fill)))
        return RidgeState(models, state.first or len(fill))

    def believe(self, state: RidgeState, seen: LearnerInput) -> Belief:
        phi = self.features(seen.z, state.first)
        models = state.models
        lead = models.sums.shape[:-1]
        n_arms = models.covariance.shape[-2]
        compiled = kernels.compiled()
        if compiled is not None and phi.shape[:-1] == lead:
            mean = np.empty((*lead, n_arms))
            sd = np.empty((*lead, n_arms))
            for place in places(lead):
                own = _of(models, place)
                compiled.believe_arms(*own, phi[place], mean[place], sd[place])
            return Belief(mean, sd)
        if phi.ndim > 1 or lead:
            return _all_beliefs(models, phi)
        from scipy.linalg.blas import dspmv

        first = models.covariance[0]
        variance = np.array(
            [phi @ dspmv(len(phi), 1.0, packed, phi) for packed in first]
        )
        return mix_ridges(models.weights @ phi, np.maximum(variance, 0.0), models)

    def rescaled(self, state: RidgeState, factor: Array) -> RidgeState:
        rescale(state.models, factor)
        return state

    def _precision(self, dim: int) -> Array:
        return precisions(self.ridges, self.features.n_waves, self.features.size(dim))

    def learn(
        self, state: RidgeState, seen: LearnerInput, arms: Ints, rewards: Array
    ) -> RidgeState:
        """Score the ridges, then add the row to the drawn arm's regressions (Sherman
        and Morrison)."""
        phi = self.features(seen.z, state.first)
        for place in places(arms.shape):
            row = Row(phi[place], float(rewards[place]))
            learn_row(_of(state.models, place), int(arms[place]), row)
        return state

    def revise(
        self, state: RidgeState, seen: LearnerInput, arm: int, turned: RewardChange
    ) -> RidgeState:
        """Return the regressions with the new reward. This is exact, because weights
        are linear in rewards. The evidence is not changed."""
        from scipy.linalg.blas import dspmv

        phi = self.features(seen.z, state.first)
        models = state.models
        of_rewards = models.weights[:, arm, 0]
        for packed, weights in zip(models.covariance[:, arm], of_rewards, strict=True):
            weights += turned.change * dspmv(len(phi), 1.0, packed, phi)
        models.sums[0] += turned.change
        return state


def _of(models: Regressions, place: tuple[int, ...]) -> Regressions:
    """Return the regressions at one batch index, as views."""
    if not place:
        return models
    return Regressions(*(part[place] for part in models))


def _all_beliefs(models: Regressions, phi: Array) -> Belief:
    """Return posteriors (…, K) for many contexts, or for states with batch axes."""
    covariance = dense(models.covariance[..., 0, :, :], phi.shape[-1])
    by_arm = phi[..., None, :]
    spread = (covariance @ by_arm[..., None])[..., 0]
    variance = np.maximum((spread * by_arm).sum(axis=-1), 0.0)
    by_ridge = phi[..., None, None, :, None]
    values = (models.weights @ by_ridge)[..., 0]
    return mix_ridges(values, variance, models)
