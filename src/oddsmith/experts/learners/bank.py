"""LearningExperts: learners as a bank of experts; contexts as they come, one voting
rule, and a blend of them all."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from oddsmith.contexts.columns import (
    Columns,
    empty_columns,
    learn_columns,
    read_context,
)
from oddsmith.contexts.schema import Schema
from oddsmith.core.arrays import Array, Ints, Real
from oddsmith.core.decision import Context, Decision
from oddsmith.core.errors import InvalidInput
from oddsmith.core.names import check_names, wider_names
from oddsmith.experts.ballots import Ballots, Optimistic
from oddsmith.experts.learners.moments import RunningMoments, standardised, with_row
from oddsmith.experts.learners.protocol import (
    RECIPE,
    Belief,
    Learner,
    LearnerBank,
    Mixture,
    Turned,
    scaled_advice,
    side_by_side,
)
from oddsmith.experts.learners.ridge import Ridge
from oddsmith.experts.learners.unit import grown_unit, unit_or_one
from oddsmith.experts.learners.warm_start import WarmStart

__all__ = ["LearnerState", "LearningExperts"]

_VOTES = Optimistic()


class LearnerState(NamedTuple):
    """How many contexts were learnt, what their columns stand for, running moments (…,
    d), and each learner's state.

    Columns are made by learning: before the first reward there are none. `unit` (…) is
    the power of two that bounds the rewards so far, 0 while all of them were 0.
    Learners and mixture see rewards divided by it.
    """

    seen: int
    unit: Array
    columns: Columns
    moments: RunningMoments
    learners: tuple[Any, ...]
    mixture: Mixture
    warm_start: WarmStart = WarmStart()


@dataclass(frozen=True, eq=False)
class LearningExperts(LearnerBank):
    """One expert for each learner and, with `blend`, one more: a mixture of what the
    first two believe.

    The mixture is the one that would have foreseen the rewards so far best (`Mixture`).

    Numbers are standardised by running moments, missing ones count as the mean; every
    category that was learnt from has a column of its own (`experts.columns` says how
    contexts are read). An expert predicts its mean, clipped for the loss, and votes by
    the rule `ballots`; it is scored on its prediction, then learns. Names of experts
    begin with `prefix`. With `rows_per_arm`, contexts are (…, K, d), a row of numbers
    for each arm, and the learners are shared by all arms.

    >>> bank = LearningExperts(("a", "b"))
    >>> bank.predict(bank.init(), np.array([1.0, 2.0]))
    array([[0.5, 0.5]])
    """

    arms: Sequence[str]
    learners: tuple[Learner, ...] = (Ridge(),)
    blend: bool = False
    ballots: Ballots = _VOTES
    schema: Schema | None = None
    rows_per_arm: bool = False
    clip: tuple[float, float] = (1e-4, 1 - 1e-4)
    recipe: int = field(default=RECIPE, init=False)
    prefix: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "arms", check_names("arms", self.arms))

    def init(self, shape: tuple[int, ...] = ()) -> LearnerState:
        """The prior; contexts say which columns there are."""
        moments, learners = RunningMoments.none(0, shape), tuple(self._starts(shape, 0))
        return LearnerState(
            0, np.zeros(shape), empty_columns(), moments, learners, Mixture.even(shape)
        )

    def update(
        self, state: LearnerState, decision: Decision, reward: Real
    ) -> LearnerState:
        """Columns and moments gain the drawn context, then every learner the reward of
        the drawn arm; in place."""
        arms, shape = (
            np.asarray(decision.number, dtype=np.int64),
            state.moments.mean.shape[:-1],
        )
        if arms.shape != shape:
            raise InvalidInput(
                f"decision must have the state's batch axes {shape}; got {arms.shape}"
            )
        columns = learn_columns(state.columns, decision.context, self.schema)
        x = self._drawn(columns, decision, arms)
        if x.shape[:-1] != shape:
            raise InvalidInput(
                f"decision must have the state's batch axes {shape}; got {x.shape[:-1]}"
            )
        rewards = np.asarray(reward, dtype=np.float64)
        rewards = np.broadcast_to(rewards, shape) if shape else rewards
        warm_start = self.compare_votes(state, decision, reward)
        if columns is not state.columns:
            state = self._with_columns(state, columns)
        state = self._with_unit(state, rewards)
        unit = unit_or_one(state.unit)
        rewards = rewards / unit
        moments = with_row(state.moments, x)
        seen = standardised(moments, x, columns.is_category)
        models = np.zeros_like(arms) if self.rows_per_arm else arms
        learners = (
            learner.learn(own, seen, models, rewards)
            for learner, own in zip(self.learners, state.learners, strict=True)
        )
        mixture = (
            state.mixture.scored(scaled_advice(decision, unit), rewards)
            if self.blend
            else state.mixture
        )
        return LearnerState(
            state.seen + 1,
            state.unit,
            columns,
            moments,
            tuple(learners),
            mixture,
            warm_start.learn(seen, decision),
        )

    def revise(
        self, state: LearnerState, decision: Decision, before: float, reward: float
    ) -> LearnerState:
        """Learners change what they made of the reward; in place."""
        if not state.seen:
            return self.update(state, decision, reward)
        arms, shape = (
            np.asarray(decision.number, dtype=np.int64),
            state.moments.mean.shape[:-1],
        )
        if arms.shape != shape or shape:
            raise InvalidInput(
                "decision must be a single one, of a state without batch axes; got "
                f"{arms.shape}"
            )
        warm_start = self.revise_votes(state, decision, reward - before)
        state = self._with_unit(state, np.asarray(reward))
        unit = unit_or_one(state.unit)
        turned = Turned(float(before / unit), float(reward / unit))
        seen = standardised(
            state.moments,
            self._drawn(state.columns, decision, arms),
            state.columns.is_category,
        )
        models = np.zeros_like(arms) if self.rows_per_arm else arms
        learners = (
            learner.revise(own, seen, int(models), turned)
            for learner, own in zip(self.learners, state.learners, strict=True)
        )
        mixture = (
            state.mixture.revised(scaled_advice(decision, unit), turned.change)
            if self.blend
            else state.mixture
        )
        return state._replace(
            learners=tuple(learners), mixture=mixture, warm_start=warm_start
        )

    def with_arms(
        self, state: LearnerState, arms: Sequence[str]
    ) -> "tuple[LearningExperts, LearnerState]":
        """The bank and its state with further arms, which start from the prior; the
        first ones must be the old ones.

        >>> bank = LearningExperts(("a", "b"))
        >>> wider, _ = bank.with_arms(bank.init(), ["a", "b", "c"])
        >>> wider.arms
        ('a', 'b', 'c')
        """
        names = wider_names(self.arms, arms)
        bank = replace(self, arms=names)
        if self.rows_per_arm:
            return bank, state
        wider = (
            learner.widen(own, len(names))
            for learner, own in zip(self.learners, state.learners, strict=True)
        )
        return bank, state._replace(learners=tuple(wider))

    def begin_log(self, state: LearnerState) -> LearnerState:
        if self.rows_per_arm or state.moments.mean.ndim > 1:
            return state
        begun: LearnerState = super().begin_log(state)
        return begun

    def logging_scores(self, state: LearnerState, context: Context) -> Array:
        x = read_context(state.columns, context, self.schema)
        seen = standardised(state.moments, x, state.columns.is_category)
        return state.warm_start.policy.scores(seen, len(self.arms))

    def _with_unit(self, state: LearnerState, rewards: Array) -> LearnerState:
        """The state in a unit that these rewards do not exceed."""
        unit, factor = grown_unit(state.unit, rewards)
        state = state._replace(unit=unit)
        if np.all(factor == 1):
            return state
        learners = (
            learner.rescaled(own, factor)
            for learner, own in zip(self.learners, state.learners, strict=True)
        )
        mixture = state.mixture.rescaled(factor)
        return state._replace(learners=tuple(learners), mixture=mixture)

    def _with_columns(self, state: LearnerState, columns: Columns) -> LearnerState:
        """The state with further columns, which were 0 or missing so far."""
        if len(columns.kinds) == state.moments.mean.shape[-1]:
            return state._replace(columns=columns)
        moments = state.moments.wider(columns.fill == 0, state.seen)
        wider = (
            one.wider(own, columns.fill)
            for one, own in zip(self.learners, state.learners, strict=True)
        )
        return state._replace(columns=columns, moments=moments, learners=tuple(wider))

    def _drawn(self, columns: Columns, decision: Decision, arms: Ints) -> Array:
        """The numbers (…, d) that the drawn arms were drawn with."""
        x = read_context(columns, decision.context, self.schema)
        if self.rows_per_arm:
            had = decision.propensities.shape[-1]  # it may be older than the last arms
            x = np.take_along_axis(
                self._a_row_each(x, min(had, len(self.arms))),
                arms[..., None, None],
                axis=-2,
            )
            return np.ascontiguousarray(x[..., 0, :])
        return x

    def _starts(self, shape: tuple[int, ...], dim: int) -> list[Any]:
        n = 1 if self.rows_per_arm else len(self.arms)
        return [learner.start(shape, n, dim) for learner in self.learners]

    def beliefs(self, state: LearnerState, context: Context) -> Belief:
        x = read_context(state.columns, context, self.schema)
        if self.rows_per_arm:
            # one more batch axis of a problem with one arm
            x = np.moveaxis(self._a_row_each(x, len(self.arms)), -2, 0)
        if not state.seen:
            lead = x.shape[1:-1] if self.rows_per_arm else x.shape[:-1]
            return Belief(
                np.full((*lead, len(self.names), len(self.arms)), 0.5), np.zeros(1)
            )
        seen = standardised(state.moments, x, state.columns.is_category)
        beliefs = [
            learner.believe(own, seen)
            for learner, own in zip(self.learners, state.learners, strict=True)
        ]
        if self.rows_per_arm:
            beliefs = [
                Belief(*(np.moveaxis(part[..., 0], 0, -1) for part in belief))
                for belief in beliefs
            ]
        portion = state.mixture.portion if self.blend else None
        return side_by_side(beliefs, portion).scaled(unit_or_one(state.unit))

    def _a_row_each(self, x: Array, n_arms: int) -> Array:
        """The numbers (…, K, d), refused where there are not as many rows as arms."""
        if x.shape[-2:-1] != (n_arms,):
            raise InvalidInput(
                f"context must have a row for each of the {n_arms} arms; got shape "
                f"{x.shape}"
            )
        return x
