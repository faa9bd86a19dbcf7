"""The Learner protocol: a model inside a bank that learns from every reward."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from oddsmith.core import kernels
from oddsmith.core.arrays import Array, Bools, Ints, Real, check_range
from oddsmith.core.decision import Context, Decision, State
from oddsmith.core.errors import InvalidInput
from oddsmith.core.experts import AdviceAndOdds, Experts
from oddsmith.core.names import check_names
from oddsmith.core.weights import vote
from oddsmith.experts.ballots import Ballots, Optimistic
from oddsmith.experts.learners.unit import grown_unit, unit_or_one
from oddsmith.experts.learners.warm_start import (
    Ballot,
    WarmStart,
    ballot_of,
    first_warm_start,
)

__all__ = [
    "Belief",
    "Learner",
    "LearnerBank",
    "LearnerInput",
    "Mixture",
    "RECIPE",
    "RewardChange",
    "places",
    "scaled_advice",
    "side_by_side",
]

RECIPE = 5
"""Version of the learners' arithmetic, which is part of fingerprints. It changes if
learners predict differently after the same rewards."""


class LearnerInput(NamedTuple):
    """The numbers of a context: raw ones (…, d), NaN if missing, and standardised ones
    (…, d), 0 if missing.

    The squares of the standardised numbers sum to about 1 for any d. If `linear` (…, l)
    is given, it replaces them in the linear part of regressions. `crossed` (…, m)
    contains `linear` and the products of the context's and the arm's numbers.
    """

    x: Array
    z: Array
    linear: Array | None = None
    crossed: Array | None = None

    def row(self, place: int) -> "LearnerInput":
        """Return one of the rows (K, d), as (1, d)."""
        one = slice(place, place + 1)
        linear = None if self.linear is None else self.linear[one]
        crossed = None if self.crossed is None else self.crossed[one]
        return LearnerInput(self.x[one], self.z[one], linear, crossed)

    def at(self, place: int) -> "LearnerInput":
        """Return one of the rows (K, d), as (d,)."""
        parts = [None if part is None else part[place] for part in self]
        return LearnerInput(*parts)  # type: ignore[arg-type]


class RewardChange(NamedTuple):
    """A reward that was learnt as `before`, and has changed since."""

    before: float
    reward: float

    @property
    def change(self) -> float:
        """Return the increase of the reward."""
        return self.reward - self.before


class Belief(NamedTuple):
    """Posterior of each arm's mean reward: mean and standard deviation, both (…, K)."""

    mean: Array
    sd: Array

    def scaled(self, unit: Array) -> "Belief":
        """Return the posterior for rewards that are `unit` (…) times as large."""
        if np.all(unit == 1):
            return self
        factor = unit[..., None, None]
        return Belief(self.mean * factor, self.sd * factor)


def side_by_side(beliefs: Sequence[Belief], portion: Array | None) -> Belief:
    """Return the posteriors of several learners, stacked (…, N, K). If `portion` (…) is
    given, append a mixture of the first two learners in which the first has this
    weight."""
    first = beliefs[0]
    if len(beliefs) == 1:
        return Belief(first.mean[..., None, :], first.sd[..., None, :])
    *lead, n_arms = first.mean.shape
    n_experts = len(beliefs) + (portion is not None)
    shape = (*lead, n_experts, n_arms)
    every = Belief(np.empty(shape), np.empty(shape))
    for place, (mean, sd) in enumerate(beliefs):
        every.mean[..., place, :] = mean
        every.sd[..., place, :] = sd
    if portion is not None:
        second = beliefs[1]
        share = portion[..., None]
        every.mean[..., -1, :] = second.mean + share * (first.mean - second.mean)
        every.sd[..., -1, :] = second.sd + share * (first.sd - second.sd)
    return every


def places(shape: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
    """Return the indices of a batch; for a batch of one, without the overhead of
    `ndindex`."""
    if shape:
        return np.ndindex(shape)
    return ((),)


def scaled_advice(decision: Decision, unit: Array) -> Array | None:
    """Return the predictions (…, N) in the decision, in units of rewards."""
    if decision.advice is None:
        return None
    return decision.advice / unit[..., None]


class Mixture(NamedTuple):
    """Mixture of two learners with predictions f + d and f, weighted to minimise the
    square loss. Two sums (…) over rewards r determine it: `product` of (r - f) d, and
    `square` of d²."""

    product: Array
    square: Array

    @classmethod
    def even(cls, shape: tuple[int, ...] = ()) -> Self:
        """Return the initial mixture: half of each learner, with as much weight as
        earlier differences d whose squares sum to 4."""
        return cls(np.full(shape, 2.0), np.full(shape, 4.0))

    @property
    def portion(self) -> Array:
        """The portion (…) of the first learner, between 0 and 1, that minimises the
        square loss so far."""
        best = self.product / self.square
        return np.minimum(np.maximum(best, 0.0), 1.0)

    def scored(self, advice: Array | None, reward: Array) -> "Mixture":
        """Return the sums with one more reward (…), for which the learners predicted
        `advice` (…, N)."""
        if advice is None:
            return self
        second = advice[..., 1]
        apart = advice[..., 0] - second
        product = self.product + (reward - second) * apart
        return Mixture(product, self.square + apart * apart)

    def rescaled(self, factor: Array) -> "Mixture":
        """Return the sums in another unit of rewards, `factor` (…) times as large."""
        square = factor**2
        return Mixture(self.product * square, self.square * square)

    def revised(self, advice: Array | None, change: float) -> "Mixture":
        """Return the sums for a reward that is larger by `change`."""
        if advice is None:
            return self
        apart = advice[0] - advice[1]
        return self._replace(product=self.product + change * apart)


class LearnerBank(Experts):
    """Base class of banks of learners: one expert for each learner and one for the
    blend, which vote by their posteriors.

    A subclass defines `beliefs`.
    """

    learners: tuple[Any, ...]
    blend: bool
    ballots: Ballots
    clip: tuple[float, float]
    prefix: str

    learns = True

    def __post_init__(self) -> None:
        check_names("names of learners", self.names)
        n_learners = len(self.learners)
        if not isinstance(self.blend, bool) or (self.blend and n_learners < 2):
            raise InvalidInput(
                "blend must be True or False, and needs two learners; got "
                f"{self.blend!r} with {n_learners}"
            )
        check_range(*self.clip)

    @property
    def names(self) -> Sequence[str]:
        names = [learner.name for learner in self.learners]
        if self.blend:
            names.append("blend")
        return tuple(self.prefix + name for name in names)

    @abstractmethod
    def beliefs(self, state: State, context: Context) -> Belief:
        """Return all experts' means and standard deviations (…, N, K). Before the first
        reward, every mean is 1/2."""

    def predict(self, state: State, context: Context) -> Array:
        return self.advise(state, context)[0]

    def advise(
        self, state: State, context: Context, eligible: Bools | None = None
    ) -> tuple[Array, Array]:
        """Return clipped means and votes."""
        belief = self.beliefs(state, context)
        predictions = self._clipped(state, belief.mean)
        if not state.warm_start.has_policy:
            return predictions, self.ballots(*belief, eligible)
        scores = self.logging_scores(state, context)
        return predictions, state.warm_start.mix(belief, scores, eligible)

    @abstractmethod
    def logging_scores(self, state: State, context: Context) -> Array:
        """Return approximate propensities of the logging policy (…, K)."""

    def begin_log(self, state: State) -> State:
        """Return the state for learning the rows of a log and its logging policy."""
        return state._replace(warm_start=first_warm_start())

    def end_log(self, state: State) -> State:
        """Return the state for learning live rewards."""
        warm_start = state.warm_start
        if not warm_start.is_active:
            return state
        live = warm_start._replace(is_live=np.ones((), np.int64))
        return state._replace(warm_start=live)

    def follows_log(self, state: State) -> Bools:
        return np.full(len(self.names), state.warm_start.is_active)

    def notes(self, state: State) -> tuple[str, ...]:
        """Return the shares of the three votes (see `warm_start`) as text, while votes
        are mixed after a log."""
        warm_start: WarmStart = state.warm_start
        if not warm_start.has_policy:
            return ()
        optimistic, cautious, logging = warm_start.shares()
        return (
            f"{self.names[-1]}: learned from a log, so each vote of the learners is a "
            f"mixture: {optimistic:.0%} for the largest optimistic estimate, "
            f"{cautious:.0%} for the largest cautious estimate, and {logging:.0%} for "
            "the choice of the logging policy",
        )

    def compare_votes(
        self, state: State, decision: Decision, reward: Real
    ) -> WarmStart:
        """Return the warm start after one more reward, before the learners learn it."""
        warm_start: WarmStart = state.warm_start
        if not warm_start.has_policy:
            return warm_start
        if warm_start.is_over:
            return WarmStart()
        ballot = self._ballot(state, decision)
        return warm_start.score(ballot, int(decision.number), float(reward))

    def revise_votes(
        self, state: State, decision: Decision, change: float
    ) -> WarmStart:
        """Return the warm start after a learnt reward increased by `change`."""
        warm_start: WarmStart = state.warm_start
        if not warm_start.has_policy:
            return warm_start
        ballot = self._ballot(state, decision)
        return warm_start.revise(ballot, int(decision.number), change)

    def _ballot(self, state: State, decision: Decision) -> Ballot:
        """Return the votes to compare in the context of this decision."""
        belief = self.beliefs(state, decision.question)
        scores = self.logging_scores(state, decision.question)
        return ballot_of(belief, scores, decision)

    def advise_and_mix(
        self,
        state: State,
        context: Context,
        log_weights: Array,
        gamma: Real,
        eligible: Bools | None = None,
    ) -> AdviceAndOdds | None:
        """Compute the votes and propensities of optimistic learners in one compiled
        call."""
        if kernels.compiled() is None or type(self.ballots) is not Optimistic:
            return None
        if state.warm_start.has_policy:
            return None
        mean, sd = self.beliefs(state, context)
        upper = mean + self.ballots.scale * sd
        predictions = self._clipped(state, mean)
        return predictions, *vote(log_weights, upper, gamma, eligible)

    def _clipped(self, state: State, mean: Array) -> Array:
        """Return predictions (…, N, K) within `clip`, which is in units of rewards."""
        unit = unit_or_one(state.unit)[..., None, None]
        low, high = self.clip
        predictions: Array = np.minimum(np.maximum(mean, low * unit), high * unit)
        return predictions

    def _pairs(self, state: State) -> Iterable[tuple[Any, Any]]:
        """Return each learner with its own state."""
        return zip(self.learners, state.learners, strict=True)

    def _with_unit(self, state: State, rewards: Array) -> State:
        """Return the state in a unit that these rewards do not exceed."""
        unit, factor = grown_unit(state.unit, rewards)
        state = state._replace(unit=unit)
        if (factor == 1).all():
            return state
        learners = tuple(one.rescaled(own, factor) for one, own in self._pairs(state))
        mixture = state.mixture.rescaled(factor)
        return state._replace(learners=learners, mixture=mixture)

    def _score_mixture(
        self, state: State, decision: Decision, unit: Array, rewards: Array
    ) -> Mixture:
        """Return the mixture after these rewards, which are in units of `unit`."""
        mixture: Mixture = state.mixture
        if not self.blend:
            return mixture
        return mixture.scored(scaled_advice(decision, unit), rewards)

    def _combine(self, state: State, beliefs: Sequence[Belief]) -> Belief:
        """Return the learners' posteriors and the blend's, in the unit of the
        rewards."""
        portion = state.mixture.portion if self.blend else None
        return side_by_side(beliefs, portion).scaled(unit_or_one(state.unit))


class Learner(Protocol):
    """A learner. It stores no state: `start` creates the state, a tuple of arrays with
    leading batch axes, and `learn` may modify this state in place."""

    @property
    def name(self) -> str:
        """Text for the expert's name. It contains the settings that are not the
        default, so that two learners of one kind have different names."""
        ...

    def start(self, shape: tuple[int, ...], n_arms: int, dim: int) -> State:
        """Return the state before any reward, for contexts of `dim` numbers."""
        ...

    def believe(self, state: State, seen: LearnerInput) -> Belief:
        """Return the posterior of every arm. Leading axes of the context broadcast
        against those of the state."""
        ...

    def learn(
        self, state: State, seen: LearnerInput, arms: Ints, rewards: Array
    ) -> State:
        """Return the state after one reward at each batch index. It must not raise."""
        ...

    def widen(self, state: State, n_arms: int) -> State:
        """Return the state with further arms, which start from the prior."""
        ...

    def wider(self, state: State, fill: Array) -> State:
        """Return the state for contexts with as many numbers as `fill` (d) has. In all
        earlier rows, the additional numbers count as those in `fill`."""
        ...

    def revise(
        self, state: State, seen: LearnerInput, arm: int, turned: RewardChange
    ) -> State:
        """Return the state after a change of the reward of this arm in this context;
        without batch axes."""
        ...

    def rescaled(self, state: State, factor: Array) -> State:
        """Return the state with rewards in another unit, `factor` (…) times as
        large."""
        ...
