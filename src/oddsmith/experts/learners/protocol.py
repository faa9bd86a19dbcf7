"""The Learner protocol: one belief about the problem that learns from every reward, at
work inside a bank."""

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
from oddsmith.experts.learners.unit import unit_or_one
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
    "Turned",
    "places",
    "scaled_advice",
    "side_by_side",
]

RECIPE = 5
"""The number of what learners make of the same rewards: any change of that is a new
one, and part of fingerprints."""


class LearnerInput(NamedTuple):
    """A context as learners see it: numbers as they came (NaN: missing), and
    standardised (missing: 0), both (…, d).

    The squares of the standardised ones sum to about 1, whatever d. `linear` (…, l) is
    what linear parts see instead of them, where there is more to see; `crossed` (…, m)
    is that and products of the context's and the arm's numbers.
    """

    x: Array
    z: Array
    linear: Array | None = None
    crossed: Array | None = None

    def row(self, place: int) -> "LearnerInput":
        """One of the rows (K, d), as (1, d)."""
        return LearnerInput(
            *(None if part is None else part[place : place + 1] for part in self)  # type: ignore[arg-type]
        )

    def at(self, place: int) -> "LearnerInput":
        """One of the rows (K, d), as (d,)."""
        parts = [None if part is None else part[place] for part in self]
        return LearnerInput(*parts)  # type: ignore[arg-type]


class Turned(NamedTuple):
    """A reward that was learnt as `before`, and is another one now."""

    before: float
    reward: float

    @property
    def change(self) -> float:
        """By how much it is larger."""
        return self.reward - self.before


class Belief(NamedTuple):
    """Mean reward of every arm and the standard deviation of that belief, both (…,
    K)."""

    mean: Array
    sd: Array

    def scaled(self, unit: Array) -> "Belief":
        """The belief of states (…) about rewards that are `unit` (…) times as large."""
        if np.all(unit == 1):
            return self
        factor = unit[..., None, None]
        return Belief(self.mean * factor, self.sd * factor)


def side_by_side(beliefs: Sequence[Belief], portion: Array | None) -> Belief:
    """The beliefs of several learners (…, N, K) and, with a `portion` (…) of the first,
    a mixture of the first two."""
    if len(beliefs) == 1:
        return Belief(beliefs[0].mean[..., None, :], beliefs[0].sd[..., None, :])
    *lead, n_arms = beliefs[0].mean.shape
    shape = (*lead, len(beliefs) + (portion is not None), n_arms)
    every = Belief(np.empty(shape), np.empty(shape))
    for place, (mean, sd) in enumerate(beliefs):
        every.mean[..., place, :], every.sd[..., place, :] = mean, sd
    if portion is not None:
        first, second, share = *beliefs[:2], portion[..., None]
        every.mean[..., -1, :] = second.mean + share * (first.mean - second.mean)
        every.sd[..., -1, :] = second.sd + share * (first.sd - second.sd)
    return every


def places(shape: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
    """The places of a batch; `ndindex` alone would cost more than what most learners do
    in the only one."""
    return np.ndindex(shape) if shape else ((),)


def scaled_advice(decision: Decision, unit: Array) -> Array | None:
    """The predictions (…, N) that the decision carries, in units of rewards."""
    return None if decision.advice is None else decision.advice / unit[..., None]


class Mixture(NamedTuple):
    """Sums (…) over rewards r by which two learners are mixed, that predicted f + d and
    f: of (r - f) d, and of d²."""

    product: Array
    square: Array

    @classmethod
    def even(cls, shape: tuple[int, ...] = ()) -> Self:
        """Half of each; it takes differences whose squares sum to 4 to outweigh
        that."""
        return cls(np.full(shape, 2.0), np.full(shape, 4.0))

    @property
    def portion(self) -> Array:
        """The portion (…) of the first that would have had the least square loss so
        far, between 0 and 1."""
        return np.minimum(np.maximum(self.product / self.square, 0.0), 1.0)

    def scored(self, advice: Array | None, reward: Array) -> "Mixture":
        """With one more reward (…), and what the learners had predicted of it (…,
        N)."""
        if advice is None:
            return self
        second = advice[..., 1]
        apart = advice[..., 0] - second
        return Mixture(
            self.product + (reward - second) * apart, self.square + apart * apart
        )

    def rescaled(self, factor: Array) -> "Mixture":
        """The sums in another unit of rewards, `factor` (…) times as large."""
        return Mixture(self.product * factor**2, self.square * factor**2)

    def revised(self, advice: Array | None, change: float) -> "Mixture":
        """As if a reward had been larger by `change`."""
        return (
            self
            if advice is None
            else self._replace(product=self.product + change * (advice[0] - advice[1]))
        )


class LearnerBank(Experts):
    """What banks of learners share: an expert for each learner and one for the blend,
    which vote for what they believe.

    A bank writes `beliefs`.
    """

    learners: tuple[Any, ...]
    blend: bool
    ballots: Ballots
    clip: tuple[float, float]
    prefix: str

    learns = True

    def __post_init__(self) -> None:
        check_names("names of learners", self.names)
        if not isinstance(self.blend, bool) or (self.blend and len(self.learners) < 2):
            got = f"{self.blend!r} with {len(self.learners)}"
            raise InvalidInput(
                f"blend must be True or False, and needs two learners; got {got}"
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
        """All experts' means and standard deviations (…, N, K); before the first reward
        every mean is 1/2."""

    def predict(self, state: State, context: Context) -> Array:
        return self.advise(state, context)[0]

    def advise(
        self, state: State, context: Context, eligible: Bools | None = None
    ) -> tuple[Array, Array]:
        """Clipped means, and votes."""
        belief = self.beliefs(state, context)
        predictions = self._clipped(state, belief.mean)
        if not state.warm_start.has_policy:
            return predictions, self.ballots(*belief, eligible)
        scores = self.logging_scores(state, context)
        return predictions, state.warm_start.mix(belief, scores, eligible)

    @abstractmethod
    def logging_scores(self, state: State, context: Context) -> Array:
        """About how likely the logging policy is to choose each arm (…, K)."""

    def begin_log(self, state: State) -> State:
        """The state that learns the rows of a log from now on, and its logging
        policy."""
        return state._replace(warm_start=first_warm_start())

    def end_log(self, state: State) -> State:
        """The state that learns live rewards from now on."""
        warm_start = state.warm_start
        if not warm_start.is_active:
            return state
        live = warm_start._replace(is_live=np.ones((), np.int64))
        return state._replace(warm_start=live)

    def compare_votes(
        self, state: State, decision: Decision, reward: Real
    ) -> WarmStart:
        """The warm start after one more reward, which the learners have not learnt
        yet."""
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
        """The warm start after a reward that it has learnt became larger by
        `change`."""
        warm_start: WarmStart = state.warm_start
        if not warm_start.has_policy:
            return warm_start
        ballot = self._ballot(state, decision)
        return warm_start.revise(ballot, int(decision.number), change)

    def _ballot(self, state: State, decision: Decision) -> Ballot:
        """The votes that are compared, in the context of this decision."""
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
        """The votes of optimists for their upper ends, counted in one compiled call."""
        if kernels.compiled() is None or type(self.ballots) is not Optimistic:
            return None
        if state.warm_start.has_policy:
            return None
        mean, sd = self.beliefs(state, context)
        return self._clipped(state, mean), *vote(
            log_weights, mean + self.ballots.scale * sd, gamma, eligible
        )

    def _clipped(self, state: State, mean: Array) -> Array:
        """Predictions (…, N, K) within `clip`, which is in units of rewards."""
        unit = unit_or_one(state.unit)[..., None, None]
        low, high = self.clip
        predictions: Array = np.minimum(np.maximum(mean, low * unit), high * unit)
        return predictions


class Learner(Protocol):
    """No state of its own: `start` makes it, a tuple of arrays with leading batch axes;
    `learn` may write in place."""

    @property
    def name(self) -> str:
        """Words for what it believes, and for what is unusual about its settings: two
        of a kind differ by name."""
        ...

    def start(self, shape: tuple[int, ...], n_arms: int, dim: int) -> State:
        """The state before any reward, for contexts of `dim` numbers."""
        ...

    def believe(self, state: State, seen: LearnerInput) -> Belief:
        """The belief about every arm; leading axes of the context broadcast against
        those of the state."""
        ...

    def learn(
        self, state: State, seen: LearnerInput, arms: Ints, rewards: Array
    ) -> State:
        """The state after one reward in each place of the batch; it must not raise."""
        ...

    def widen(self, state: State, n_arms: int) -> State:
        """The state with further arms, which start from the prior."""
        ...

    def wider(self, state: State, fill: Array) -> State:
        """The state for as many numbers as `fill` (d) has; the further ones are what it
        says in all rows so far."""
        ...

    def revise(
        self, state: State, seen: LearnerInput, arm: int, turned: Turned
    ) -> State:
        """The state after the reward of this arm, in this context, turned into another;
        no batch axes."""
        ...

    def rescaled(self, state: State, factor: Array) -> State:
        """The state with rewards in another unit, `factor` (…) times as large."""
        ...
