"""LearningExperts: learners as a bank of experts; contexts as they come, one voting rule, and a blend of them all."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from oddsmith.arrays import Array, Bools, Ints, Real, check_range
from oddsmith.contexts import has_names
from oddsmith.decision import Context, Decision
from oddsmith.errors import InvalidInput
from oddsmith.experts.ballots import Ballots, Optimistic
from oddsmith.experts.base import Experts, check_names, wider_names
from oddsmith.experts.learners.base import Belief, Learner, Revisable, Turned, side_by_side
from oddsmith.experts.learners.moments import RunningMoments, standardised, with_moments
from oddsmith.experts.learners.ridge import Ridge
from oddsmith.experts.schema import Form, Schema, as_numbers

__all__ = ["LearnerState", "LearningExperts"]

_VOTES = Optimistic()


class LearnerState(NamedTuple):
    """How many contexts were learnt (…), running means and sums of squares (…, d), and each learner's own state.

    Before the first reward, whose context says how many numbers there are, d is 0 and learners have no state. `named`
    is 1 where the numbers are hashes of names, without a schema.
    """

    seen: Array
    mean: Array
    squares: Array
    learners: tuple[Any, ...]
    named: int = 0


@dataclass(frozen=True, eq=False)
class LearningExperts(Experts):
    """One expert for each learner and, with `blend`, one more: the average of what the first `blend` ones believe.

    Numbers are standardised by running moments, missing ones count as the mean. An expert predicts its mean, clipped
    for the loss, and votes by the rule `ballots`; it is scored on its prediction, then learns. With `rows_per_arm`,
    contexts are (…, K, d), a row of numbers for each arm, and the learners are shared by all arms.

    >>> bank = LearningExperts(("a", "b"))
    >>> bank.predict(bank.init(), np.array([1.0, 2.0]))
    array([[0.5, 0.5]])
    """

    arms: Sequence[str]
    learners: tuple[Learner, ...] = (Ridge(),)
    blend: int = 0
    ballots: Ballots = _VOTES
    schema: Schema | None = None
    rows_per_arm: bool = False
    clip: tuple[float, float] = (0.01, 0.99)

    learns = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "arms", check_names("arms", self.arms))
        check_names("names of learners", self.names)
        if isinstance(self.blend, float) or not 0 <= self.blend <= len(self.learners):
            raise InvalidInput(
                f"blend must be how many learners to average, at most {len(self.learners)}; got {self.blend!r}"
            )
        check_range(*self.clip)

    @property
    def names(self) -> Sequence[str]:
        return (*(learner.name for learner in self.learners), *(("blend",) if self.blend else ()))

    def init(self, shape: tuple[int, ...] = ()) -> LearnerState:
        """The prior; the first context decides how many numbers there are."""
        none = np.zeros((*shape, 0))
        return LearnerState(np.zeros(shape), none, none, tuple(self._starts(shape, 0)))

    def predict(self, state: LearnerState, context: Context) -> Array:
        return self.advise(state, context)[0]

    def advise(self, state: LearnerState, context: Context, eligible: Bools | None = None) -> tuple[Array, Array]:
        """Clipped means, and votes; before the first reward every learner predicts 1/2."""
        x = self._encoded(context, state)
        lead = x.shape[:-2] if self.rows_per_arm else x.shape[:-1]
        if state.mean.shape[-1] == 0:
            mean, sd = np.full((*lead, len(self.names), len(self.arms)), 0.5), np.zeros(1)
        else:
            mean, sd = self._beliefs(state, x)
        return np.clip(mean, *self.clip), self.ballots(mean, sd, eligible)

    def update(self, state: LearnerState, decision: Decision, reward: Real) -> LearnerState:
        """The moments gain the drawn context, then every learner the reward of the drawn arm; in place."""
        arms, x = self._drawn(state, decision)
        if arms.shape != state.seen.shape or x.shape[:-1] != arms.shape:
            raise InvalidInput(f"decision must have the state's batch axes {state.seen.shape}; got {arms.shape}")
        rewards = np.broadcast_to(np.asarray(reward, dtype=np.float64), arms.shape)
        if state.mean.shape[-1] == 0:
            zeros = np.zeros(x.shape)
            learners = tuple(self._starts(arms.shape, x.shape[-1]))
            state = LearnerState(state.seen, zeros, zeros.copy(), learners, int(has_names(decision.context)))
        moments = with_moments(RunningMoments(*state[:3]), x)
        seen = standardised(moments, x)
        models = np.zeros_like(arms) if self.rows_per_arm else arms
        learnt = (
            learner.learn(own, seen, models, rewards)
            for learner, own in zip(self.learners, state.learners, strict=True)
        )
        return LearnerState(*moments, tuple(learnt), state.named)

    def revise(self, state: LearnerState, decision: Decision, before: float, reward: float) -> LearnerState:
        """Learners that can do so change what they made of the reward, others learn once more; in place."""
        if state.mean.shape[-1] == 0:
            return self.update(state, decision, reward)
        arms, x = self._drawn(state, decision)
        if arms.shape != state.seen.shape or x.shape[:-1] != arms.shape or arms.shape:
            raise InvalidInput(f"decision must be a single one, of a state without batch axes; got {arms.shape}")
        seen = standardised(RunningMoments(*state[:3]), x)
        models = np.zeros_like(arms) if self.rows_per_arm else arms
        learnt = (
            learner.revise(own, seen, int(models), Turned(before, reward))
            if isinstance(learner, Revisable)
            else learner.learn(own, seen, models, np.asarray(reward, dtype=np.float64))
            for learner, own in zip(self.learners, state.learners, strict=True)
        )
        return state._replace(learners=tuple(learnt))

    def with_arms(self, state: LearnerState, arms: Sequence[str]) -> "tuple[LearningExperts, LearnerState]":
        """The bank and its state with further arms, which start from the prior; the first ones must be the old ones.

        >>> bank = LearningExperts(("a", "b"))
        >>> wider, _ = bank.with_arms(bank.init(), ["a", "b", "c"])
        >>> wider.arms
        ('a', 'b', 'c')
        """
        names = wider_names(self.arms, arms)
        bank = replace(self, arms=names)
        if self.rows_per_arm:
            return bank, state
        wider = (learner.widen(own, len(names)) for learner, own in zip(self.learners, state.learners, strict=True))
        return bank, state._replace(learners=tuple(wider))

    def _drawn(self, state: LearnerState, decision: Decision) -> tuple[Ints, Array]:
        """The drawn arms (…) and the numbers they were drawn with (…, d)."""
        arms, had = np.asarray(decision.number, dtype=np.int64), decision.propensities.shape[-1]
        x = self._encoded(decision.context, state, min(had, len(self.arms)))  # it may be older than the last arms
        if self.rows_per_arm:
            x = np.take_along_axis(x, arms[..., None, None], axis=-2)[..., 0, :]
        return arms, x

    def _starts(self, shape: tuple[int, ...], dim: int) -> list[Any]:
        n = 1 if self.rows_per_arm else len(self.arms)
        return [learner.start(shape, n, dim) for learner in self.learners]

    def _beliefs(self, state: LearnerState, x: Array) -> Belief:
        """All experts' means and standard deviations (…, N, K)."""
        if self.rows_per_arm:  # arms in front, as one more batch axis of a problem with one arm
            x = np.moveaxis(x, -2, 0)
        seen = standardised(RunningMoments(*state[:3]), x)
        beliefs = [learner.believe(own, seen) for learner, own in zip(self.learners, state.learners, strict=True)]
        if self.rows_per_arm:
            beliefs = [Belief(*(np.moveaxis(part[..., 0], 0, -1) for part in belief)) for belief in beliefs]
        return side_by_side(beliefs, self.blend)

    def _encoded(self, context: Context, state: LearnerState, n_arms: int | None = None) -> Array:
        """The context as numbers (…, d), of the width that the first one had."""
        width = state.mean.shape[-1]
        x = as_numbers(context, self.schema, Form(width, bool(state.named)) if width else None)
        n_arms = len(self.arms) if n_arms is None else n_arms
        if self.rows_per_arm and x.shape[-2:-1] != (n_arms,):
            raise InvalidInput(f"context must have a row for each of the {n_arms} arms; got shape {x.shape}")
        return x
