"""ParticleThompsonSampling: GTS over a continuous class of experts by sequential Monte
Carlo."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np

from oddsmith.contexts.schema import Schema
from oddsmith.core import weights
from oddsmith.core.arrays import Array, Bools, Ints, Real, number, whole
from oddsmith.core.decision import Context, Decision, Odds, Step, check_rewards
from oddsmith.core.errors import InvalidInput, OutOfDomain
from oddsmith.core.expert_policy import check_eligible
from oddsmith.core.explanation import ArmExplanation
from oddsmith.core.names import numbered_arms
from oddsmith.core.offer import AnyOffer, Offer
from oddsmith.core.policy import Policy
from oddsmith.policies.parts.families import Family
from oddsmith.policies.parts.features import (
    checked_dim,
    feature_names,
    named_weights,
    read_features,
)
from oddsmith.policies.parts.langevin import Target, sweep

__all__ = ["ParticleState", "ParticleThompsonSampling", "resampled"]

# Resample if the effective share of particles falls below this.
_FEW = 0.5
# Learn a reward in several steps if fewer than this share would remain after one.
_TOO_FEW = 0.125
_STRIDES = 64
_BISECTIONS = 20
# Shares of the particles' and the prior's variance that are added to the covariance, so
# that it is invertible even with few particles.
_ROOM_OF_PARTICLES = 1e-9
_ROOM_OF_PRIOR = 1e-18


class ParticleState(NamedTuple):
    """The particles (…, M, d), their log weights (…, M) relative to the largest, and
    the events learnt so far.

    `phi` (…, memory, d) and `rewards` (…, memory) are the recent events, of which the
    first `filled` are used. N(mean (…, d), precision⁻¹ (…, d, d)) summarises the prior
    and all earlier events; `learnt` counts rewards. The size of the state is fixed.
    """

    particles: Array
    log_weights: Array
    phi: Array
    rewards: Array
    filled: int
    mean: Array
    precision: Array
    learnt: int


@dataclass(frozen=True)
class ParticleThompsonSampling(Policy):
    """GTS over all parameters θ of a class with prior N(0, I/ridge). M particles
    approximate the posterior.

        w_j ← w_j exp(-η ℓ(θ_j; φ_a, r));
        when 1/Σ w² < M/2: resample, then move towards
        N(θ; mean, precision⁻¹) · exp(-η Σ_s ℓ(θ; φ_s, r_s))

    over the recent events s (docs/math 5.7, SMC and MALA).

    The context is the features of every arm (…, K, dim). Each particle votes for its
    best eligible arm, and the propensities are the weighted votes mixed with gamma.
    They are exact for this state. The state differs from the posterior by an error of
    order 1/√M. A small part of the error is bias, because the time of resampling
    depends on the particles' weights. NaN among an arm's features means no prediction:
    the arm gets no vote, and nothing is learnt from its reward. After `memory` events,
    a Gaussian with the particles' moments replaces them, which adds an error of order
    1/√M each time. All random numbers are determined by (seed, rewards learnt), so that
    the same rewards in the same order give the same state to the last bit. With a
    `schema`, which then determines `dim`, the context is a list of K dicts, or a data
    frame with a row for each arm.

    >>> from oddsmith.policies.parts.families import LogisticFamily
    >>> policy = ParticleThompsonSampling(
    ...     LogisticFamily(), 2, n_particles=64, gamma=0.1
    ... )
    >>> policy.odds(policy.init(), np.array([[1.0, 0.0], [1.0, 0.0]])).propensities
    array([0.5, 0.5])
    """

    family: Family
    dim: int = 0
    _: KW_ONLY
    n_particles: int = 256
    eta: float = 0.5
    gamma: float = 0.01
    ridge: float = 1.0
    memory: int = 512
    moves_per_resampling: int = 3
    seed: int = 0
    schema: Schema | None = None
    arm_schema: Schema | None = None

    takes_offers = True

    def __post_init__(self) -> None:
        verbs = ("predict", "loss", "gradient", "total")
        is_family = all(callable(getattr(self.family, verb, None)) for verb in verbs)
        if isinstance(self.family, type) or not is_family:
            raise InvalidInput(
                f"family must have {', '.join(verbs)} (use Family as base class); got "
                f"{self.family!r:.60}"
            )
        dim = checked_dim(self.dim, self.schema, self.arm_schema)
        object.__setattr__(self, "dim", dim)
        whole("memory", self.memory, low=1)
        whole("moves_per_resampling", self.moves_per_resampling, low=1)
        whole("seed", self.seed, low=0)
        whole("n_particles", self.n_particles, low=max(16, 4 * dim))
        number("eta", self.eta, low=0, high=np.inf, open_low=True)
        number("ridge", self.ridge, low=0, high=np.inf, open_low=True)
        object.__setattr__(self, "gamma", number("gamma", self.gamma, low=0, high=1))

    @property
    def explores(self) -> bool:
        return self.gamma > 0

    def init(self, shape: tuple[int, ...] = ()) -> ParticleState:
        """Draw particles from the prior, with batch axes `shape`."""
        d = self.dim
        rng = np.random.default_rng([self.seed, 0])
        normal = rng.standard_normal((*shape, self.n_particles, d))
        ridge = self.ridge * np.eye(d)
        precision = np.broadcast_to(ridge, (*shape, d, d)).copy()
        return ParticleState(
            particles=normal / np.sqrt(self.ridge),
            log_weights=np.zeros((*shape, self.n_particles)),
            phi=np.zeros((*shape, self.memory, d)),
            rewards=np.zeros((*shape, self.memory)),
            filled=0,
            mean=np.zeros((*shape, d)),
            precision=precision,
            learnt=0,
        )

    def odds(
        self,
        state: ParticleState,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Odds:
        """Return exact propensities: the particles' weighted greedy votes, mixed with
        the uniform distribution over the eligible arms (gamma)."""
        features = self._features(context)
        check_eligible(eligible, features.shape[-2])
        if isinstance(context, AnyOffer):
            predictions = self._of_rows(state.particles, features)
        else:
            predictions = self.family.predict(state.particles, features)
        ballots = weights.greedy(predictions, eligible)
        return Odds(weights.mix(state.log_weights, ballots, self.gamma, eligible))

    def update(
        self, state: ParticleState, decision: Decision, reward: Real
    ) -> ParticleState:
        """Update the particles' weights by their loss on the drawn arm. If few
        particles have most of the weight, resample and move all."""
        rewards = np.asarray(check_rewards(decision, reward))
        phi = self._drawn_row(state.log_weights.shape[:-1], decision)
        losses = self._losses(state.particles, phi, rewards)
        log_weights = weights.reweigh(state.log_weights, -losses)
        all_phi = state.phi.copy()
        all_rewards = state.rewards.copy()
        all_phi[..., state.filled, :] = phi
        all_rewards[..., state.filled] = rewards
        learnt = state._replace(
            phi=all_phi,
            rewards=all_rewards,
            filled=state.filled + 1,
            learnt=state.learnt + 1,
        )
        full = learnt.filled == self.memory
        few = _effective(log_weights) < _FEW * self.n_particles
        degenerate = few | full
        if not degenerate.any():
            return learnt._replace(log_weights=log_weights)
        fresh = self._resample(learnt, losses, log_weights, degenerate)
        if full:
            return self._forget(fresh)
        return fresh

    def explain(
        self,
        state: ParticleState,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> ArmExplanation:
        """Explain the propensities by mean and standard deviation of the particles'
        predictions for each arm."""
        odds = self.odds(state, context, eligible=eligible, step=step).propensities
        predictions = self.family.predict(state.particles, self._features(context))
        share = weights.posterior(state.log_weights)
        mean = np.vecmat(share, predictions)
        away = predictions - mean[..., None, :]
        sd = np.sqrt(np.vecmat(share, away**2))
        arms = numbered_arms(odds.shape[-1])
        return ArmExplanation(arms, self.family.scale, mean, sd, None, odds)

    def coefficients(
        self, state: ParticleState
    ) -> tuple[tuple[str, ...], Array, Array]:
        """Return the names of the d features, and mean and standard deviation (…, 1, d)
        of their weights."""
        mean, covariance = self.moments(state)
        variances = np.diagonal(covariance, axis1=-2, axis2=-1)
        sd = np.sqrt(variances)
        names = feature_names(self.dim, self.schema, self.arm_schema)
        return names, mean[..., None, :], sd[..., None, :]

    def named_posterior(
        self, state: ParticleState, arms: Sequence[str] | None
    ) -> dict[str, Any]:
        """Return mean and standard deviation of each column's weight."""
        return named_weights(arms, *self.coefficients(state))

    def moments(self, state: ParticleState) -> tuple[Array, Array]:
        """Return mean (…, d) and covariance (…, d, d) of the weighted particles."""
        share = weights.posterior(state.log_weights)
        mean = np.vecmat(share, state.particles)
        away = state.particles - mean[..., None, :]
        weighted = away * share[..., None]
        return mean, weighted.swapaxes(-1, -2) @ away

    def _of_rows(self, particles: Array, features: Array) -> Array:
        """Return predictions (…, M, K) for arms that are passed in the call. Each row
        is computed separately."""
        columns = list[Array]()
        for row in features.reshape(-1, 1, self.dim):
            columns.append(self.family.predict(particles, row)[..., 0])
        by_arm = np.stack(columns).reshape(*features.shape[:-1], -1)
        return np.ascontiguousarray(np.swapaxes(by_arm, -1, -2))

    def _features(self, context: Context) -> Array:
        """Return the context as float64 (…, K, dim)."""
        features = read_features(context, self.schema, self.arm_schema)
        shape = features.shape
        if features.ndim < 2 or shape[-1] != self.dim or shape[-2] == 0:
            raise InvalidInput(
                f"context must have shape (…, K, {self.dim}), a row per arm; got "
                f"{shape}"
            )
        if np.isinf(features).any():
            raise InvalidInput(
                "context must be finite, or NaN for unknown features; got inf"
            )
        return features

    def _drawn_row(self, shape: tuple[int, ...], decision: Decision) -> Array:
        """Return the features (…, dim) of the drawn arm, checked against the batch axes
        of the state."""
        question = decision.question
        arm = np.asarray(decision.number)
        if isinstance(question, Offer):
            row: Array = self._features(question.only(int(arm)))[0]
            return row
        features = self._features(question)
        if arm.shape != shape:
            raise InvalidInput(
                f"decision must have the state's batch axes {shape}; got {arm.shape}"
            )
        n_arms = features.shape[-2]
        if arm.dtype.kind not in "iu" or (arm < 0).any() or (arm >= n_arms).any():
            raise InvalidInput(
                f"arm must be a number from 0 to {n_arms - 1}, a row of the context; "
                f"got {arm!r:.60}"
            )
        if features.shape[:-2] not in (shape, ()):
            raise InvalidInput(
                f"context must have the state's batch axes {shape}; got "
                f"{features.shape[:-2]}"
            )
        rows = np.broadcast_to(features, (*shape, n_arms, self.dim))
        drawn = np.take_along_axis(rows, arm[..., None, None], axis=-2)
        return drawn[..., 0, :]

    def _losses(self, particles: Array, phi: Array, reward: Array) -> Array:
        """Return η times the loss (…, M) of each particle; 0 if a feature is
        missing."""
        complete = _is_complete(phi)[..., None]
        features = np.where(complete, phi, 0.0)
        losses = self.family.loss(particles, features, reward)
        if np.isnan(losses).any():
            raise OutOfDomain(
                "loss of a family must be a number for every particle; got NaN from "
                f"{self.family!r:.60}"
            )
        return np.where(complete, self.eta * losses, 0.0)

    def _resample(
        self, state: ParticleState, losses: Array, log_weights: Array, degenerate: Bools
    ) -> ParticleState:
        """Return the state with new particles in degenerate rows. `losses` are those of
        the newest event."""
        rng = np.random.default_rng([self.seed, state.learnt])
        particles = state.particles.copy()
        after = np.where(degenerate[..., None], 0.0, log_weights)
        rows: list[tuple[Any, ...]] = [()]
        if degenerate.ndim:
            rows = list(zip(*np.nonzero(degenerate), strict=True))
        for row in rows:
            target = self._target(state, row)
            theta = state.particles[row]
            own_weights = state.log_weights[row]
            particles[row] = self._move(target, theta, own_weights, losses[row], rng)
        return state._replace(particles=particles, log_weights=after)

    def _target(self, state: ParticleState, row: tuple[Any, ...]) -> Target:
        """Return the posterior density of one row of a batch."""
        filled = slice(state.filled)
        phi = state.phi[row][filled]
        rewards = state.rewards[row][filled]
        mean = state.mean[row]
        precision = state.precision[row]
        complete = _is_complete(phi)
        features = np.where(complete[:, None], phi, 0.0)
        weight = np.where(complete, self.eta, 0.0)
        return Target(self.family, mean, precision, features, rewards, weight)

    def _move(
        self,
        target: Target,
        theta: Array,
        log_weights: Array,
        losses: Array,
        rng: np.random.Generator,
    ) -> Array:
        """Return equally weighted particles (M, d) of the target, from particles before
        its newest event.

        If only few particles fit the newest reward, its loss is added in several parts,
        and the particles are moved after each."""
        done = 0.0
        newest = (target.phi[-1], target.rewards[-1])
        for stride in range(_STRIDES):
            part = 1 - done
            if stride < _STRIDES - 1:
                part = _part(log_weights, losses, 1 - done)
            done = 1.0 if part == 1 - done else done + part
            share = weights.posterior(log_weights - part * losses)
            room = _ROOM_OF_PARTICLES * theta.var(axis=0)
            room = room + _ROOM_OF_PRIOR / np.diag(target.precision)
            covariance = _covariance(theta, share) + np.diag(room)
            weight = np.append(target.weight[:-1], done * target.weight[-1])
            partial = target._replace(weight=weight)
            theta = theta[resampled(share, rng.random())]
            theta = sweep(
                partial, theta, covariance, moves=self.moves_per_resampling, rng=rng
            )
            if done == 1.0:
                break
            log_weights = np.zeros(len(theta))
            losses = self._losses(theta, *newest)
        return theta

    def _forget(self, state: ParticleState) -> ParticleState:
        """Replace the events by a Gaussian prior with the particles' mean and
        covariance.

        The inverse of the sample covariance of M draws is too large by a factor (M -
        1)/(M - d - 2) on average. It is corrected, because the error would accumulate.
        """
        m = self.n_particles
        d = self.dim
        mean, covariance = self.moments(state)
        variances = np.diagonal(covariance, axis1=-2, axis2=-1)
        room = _ROOM_OF_PARTICLES * variances + _ROOM_OF_PRIOR / self.ridge
        widened = covariance + room[..., None] * np.eye(d)
        unbiased = widened * (m / (m - 1))
        precision = np.linalg.inv(unbiased) * ((m - d - 2) / (m - 1))
        precision = (precision + precision.swapaxes(-1, -2)) / 2
        return state._replace(
            phi=np.zeros_like(state.phi),
            rewards=np.zeros_like(state.rewards),
            filled=0,
            mean=mean,
            precision=precision,
        )


def resampled(share: Array, uniform: float) -> Ints:
    """Return M particle numbers by systematic resampling from one uniform number; the
    j-th appears ⌊M w_j⌋ or ⌈M w_j⌉ times.

    >>> resampled(np.array([0.5, 0.0, 0.25, 0.25]), 0.5)
    array([0, 0, 2, 3])
    """
    m = len(share)
    sums = np.cumsum(share)
    places = (uniform + np.arange(m)) / m * sums[-1]
    last = int(np.flatnonzero(share)[-1])
    chosen: Ints = np.minimum(np.searchsorted(sums, places, side="right"), last)
    return chosen


def _is_complete(phi: Array) -> Bools:
    """Return whether all features of an event are known (…)."""
    return np.asarray(~np.isnan(phi).any(axis=-1))


def _effective(log_weights: Array) -> Array:
    """Return the effective number of particles, 1/Σ w² (…)."""
    share = weights.posterior(log_weights)
    effective: Array = 1 / (share**2).sum(axis=-1)
    return effective


def _part(log_weights: Array, losses: Array, rest: float) -> float:
    """Return the largest fraction of the losses, at most `rest`, after which enough
    particles still have weight."""
    enough = _TOO_FEW * len(losses)
    if _effective(log_weights - rest * losses) >= enough:
        return rest
    low = 0.0
    high = rest
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if _effective(log_weights - middle * losses) >= enough:
            low = middle
        else:
            high = middle
    return low or high


def _covariance(theta: Array, share: Array) -> Array:
    """Return the weighted particles' covariance (d, d), mixed with the unweighted one
    if few have most of the weight."""
    d = theta.shape[-1]
    mixed = d / (d + 1 / (share**2).sum())
    away = theta - share @ theta
    weighted = (away * share[:, None]).T @ away
    before: Array = np.atleast_2d(np.cov(theta.T, bias=True))
    covariance: Array = (1 - mixed) * weighted + mixed * before
    return covariance
