"""Ridge: Bayesian linear regressions for each arm on fixed features, by rank-one
updates; the ridge by evidence."""

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
    lengthened,
    mixed,
    precisions,
    prior,
    rescale,
)
from oddsmith.experts.learners.features import FeatureMap, Plain
from oddsmith.experts.learners.protocol import Belief, LearnerInput, Turned, places

__all__ = ["Ridge", "RidgeState"]

_PLAIN = Plain()


class RidgeState(NamedTuple):
    """The regressions of each arm, and how many numbers contexts had at first."""

    models: Regressions
    first: int


@dataclass(frozen=True)
class Ridge:
    """r = start + θ_a·φ(x) + noise, θ_a ~ N(0, noise/ridge): a posterior for each arm,
    and for each of the ridges.

    A ridge is a pair: of the linear part, and of waves, which are smoothed more the
    more noise there is. Ridges are weighed by how well they foresaw the rewards of all
    arms, and the noise is what they missed. The start, the mean of an arm of which
    nothing is known, is optimistic (`prior.py`). J K D²/2 time and memory.

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
        return (
            f"{self.features.name}, ridge "
            f"{' '.join(f'{plain:g}/{waves:g}' for plain, waves in self.ridges)}"
        )

    def start(self, shape: tuple[int, ...], n_arms: int, dim: int) -> RidgeState:
        """The prior of every arm."""
        return RidgeState(prior(self._precision(dim), (*shape, n_arms)), dim)

    def widen(self, state: RidgeState, n_arms: int) -> RidgeState:
        """The state with the prior of further arms."""
        *shape, _, n_before, _, size = state.models.weights.shape
        fresh = prior(
            precisions(self.ridges, self.features.n_waves, size),
            (*shape, n_arms - n_before),
        )
        weights = np.concatenate([state.models.weights, fresh.weights], axis=-3)
        covariance = np.concatenate(
            [state.models.covariance, fresh.covariance], axis=-2
        )
        return state._replace(
            models=state.models._replace(weights=weights, covariance=covariance)
        )

    def wider(self, state: RidgeState, fill: Array) -> RidgeState:
        """As if the further numbers had been 0, their mean, so far; the very first ones
        say how many there are."""
        models = lengthened(state.models, self._precision(len(fill)))
        return RidgeState(models, state.first or len(fill))

    def believe(self, state: RidgeState, seen: LearnerInput) -> Belief:
        phi, models = self.features(seen.z, state.first), state.models
        lead = models.sums.shape[:-1]
        n_arms = models.covariance.shape[-2]
        compiled = kernels.compiled()
        if compiled is not None and phi.shape[:-1] == lead:
            belief = Belief(np.empty((*lead, n_arms)), np.empty((*lead, n_arms)))
            for place in places(lead):
                compiled.believe_arms(
                    *_of(models, place),
                    phi[place],
                    belief.mean[place],
                    belief.sd[place],
                )
            return belief
        if phi.ndim > 1 or lead:
            return _all_beliefs(models, phi)
        from scipy.linalg.blas import dspmv

        variance = np.array(
            [phi @ dspmv(len(phi), 1.0, one, phi) for one in models.covariance[0]]
        )
        return mixed(models.weights @ phi, np.maximum(variance, 0.0), models)

    def rescaled(self, state: RidgeState, factor: Array) -> RidgeState:
        rescale(state.models, factor)
        return state

    def _precision(self, dim: int) -> Array:
        return precisions(self.ridges, self.features.n_waves, self.features.size(dim))

    def learn(
        self, state: RidgeState, seen: LearnerInput, arms: Ints, rewards: Array
    ) -> RidgeState:
        """The drawn arm's regressions gain a row (Sherman and Morrison), once they are
        scored on what they foresaw."""
        phi = self.features(seen.z, state.first)
        for place in places(arms.shape):
            learn_row(
                _of(state.models, place),
                int(arms[place]),
                Row(phi[place], float(rewards[place])),
            )
        return state

    def revise(
        self, state: RidgeState, seen: LearnerInput, arm: int, turned: Turned
    ) -> RidgeState:
        """As if the reward had been the new one: exact, for weights are linear in
        rewards; the evidence stays."""
        from scipy.linalg.blas import dspmv

        phi, models = self.features(seen.z, state.first), state.models
        for covariance, weights in zip(
            models.covariance[:, arm], models.weights[:, arm, 0], strict=True
        ):
            weights += turned.change * dspmv(len(phi), 1.0, covariance, phi)
        models.sums[0] += turned.change
        return state


def _of(models: Regressions, place: tuple[int, ...]) -> Regressions:
    """Those of one place of a batch, as views."""
    return Regressions(*(part[place] for part in models)) if place else models


def _all_beliefs(models: Regressions, phi: Array) -> Belief:
    """Beliefs (…, K) about many contexts, or of states with batch axes."""
    spread = (
        dense(models.covariance[..., 0, :, :], phi.shape[-1]) @ phi[..., None, :, None]
    )[..., 0]
    variance = np.maximum((spread * phi[..., None, :]).sum(axis=-1), 0.0)
    return mixed(
        (models.weights @ phi[..., None, None, :, None])[..., 0], variance, models
    )
