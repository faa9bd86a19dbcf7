"""LearningExperts: a bank of learners with one voting rule and an optional blend."""

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
from oddsmith.experts.learners.moments import RunningMoments, standardise, with_row
from oddsmith.experts.learners.protocol import (
    RECIPE,
    Belief,
    Learner,
    LearnerBank,
    Mixture,
    RewardChange,
    scaled_advice,
)
from oddsmith.experts.learners.ridge import Ridge
from oddsmith.experts.learners.unit import unit_or_one
from oddsmith.experts.learners.warm_start import WarmStart

__all__ = ["LearnerState", "LearningExperts"]

_VOTES = Optimistic()


class LearnerState(NamedTuple):
    """The state of a bank of learners: number of rewards, columns of the contexts,
    their running moments (…, d), and each learner's state.

    Learning adds columns; before the first reward there are none. `unit` (…) is the
    power of two that bounds the rewards so far, 0 while all of them were 0. Learners
    and mixture see rewards divided by it.
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
    """One expert per learner and, with `blend`, a mixture of the first two.

    The mixture minimises the square loss on the rewards so far (`Mixture`).

    Numbers are standardised by running moments, and missing ones count as the mean.
    Every category that occurred during learning has its own column
    (`contexts/columns.py` reads contexts). An expert predicts its mean, clipped for the
    loss, and votes by the rule `ballots`. For each reward, it is first scored on its
    prediction, then it learns. Names of experts begin with `prefix`. With
    `rows_per_arm`, contexts are (…, K, d), a row of numbers for each arm, and all arms
    share the learners.

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
        """Return the prior, without columns."""
        n_models = 1 if self.rows_per_arm else len(self.arms)
        learners = tuple(learner.start(shape, n_models, 0) for learner in self.learners)
        unit = np.zeros(shape)
        moments = RunningMoments.none(0, shape)
        mixture = Mixture.even(shape)
        return LearnerState(0, unit, empty_columns(), moments, learners, mixture)

    def update(
        self, state: LearnerState, decision: Decision, reward: Real
    ) -> LearnerState:
        """Add the drawn context to columns and moments, then teach every learner the
        reward of the drawn arm, in place."""
        shape = state.moments.mean.shape[:-1]
        arms = np.asarray(decision.number, dtype=np.int64)
        _check_batch(shape, arms.shape)
        columns = learn_columns(state.columns, decision.context, self.schema)
        x = self._drawn_rows(columns, decision, arms)
        _check_batch(shape, x.shape[:-1])
        rewards = np.asarray(reward, dtype=np.float64)
        if shape:
            rewards = np.broadcast_to(rewards, shape)
        warm_start = self.compare_votes(state, decision, reward)
        if columns is not state.columns:
            state = self._with_columns(state, columns)
        state = self._with_unit(state, rewards)
        unit = unit_or_one(state.unit)
        rewards = rewards / unit
        moments = with_row(state.moments, x)
        seen = standardise(moments, x, columns.is_category)
        models = np.zeros_like(arms) if self.rows_per_arm else arms
        learners = tuple(
            learner.learn(own, seen, models, rewards)
            for learner, own in self._pairs(state)
        )
        mixture = self._score_mixture(state, decision, unit, rewards)
        return LearnerState(
            state.seen + 1,
            state.unit,
            columns,
            moments,
            learners,
            mixture,
            warm_start.learn(seen, decision),
        )

    def revise(
        self, state: LearnerState, decision: Decision, before: float, reward: float
    ) -> LearnerState:
        """Replace the reward of a decision in every learner, in place."""
        if not state.seen:
            return self.update(state, decision, reward)
        arms = np.asarray(decision.number, dtype=np.int64)
        if arms.shape or state.moments.mean.ndim > 1:
            raise InvalidInput(
                "decision must be a single decision, for a state without batch axes; "
                f"got {arms.shape}"
            )
        warm_start = self.revise_votes(state, decision, reward - before)
        state = self._with_unit(state, np.asarray(reward))
        unit = unit_or_one(state.unit)
        turned = RewardChange(float(before / unit), float(reward / unit))
        x = self._drawn_rows(state.columns, decision, arms)
        seen = standardise(state.moments, x, state.columns.is_category)
        model = 0 if self.rows_per_arm else int(arms)
        learners = tuple(
            learner.revise(own, seen, model, turned)
            for learner, own in self._pairs(state)
        )
        mixture = state.mixture
        if self.blend:
            mixture = mixture.revised(scaled_advice(decision, unit), turned.change)
        return state._replace(learners=learners, mixture=mixture, warm_start=warm_start)

    def with_arms(
        self, state: LearnerState, arms: Sequence[str]
    ) -> "tuple[LearningExperts, LearnerState]":
        """Return the bank and its state with further arms, which start from the prior.
        The first arms must be the previous ones.

        >>> bank = LearningExperts(("a", "b"))
        >>> wider, _ = bank.with_arms(bank.init(), ["a", "b", "c"])
        >>> wider.arms
        ('a', 'b', 'c')
        """
        names = wider_names(self.arms, arms)
        bank = replace(self, arms=names)
        if self.rows_per_arm:
            return bank, state
        n_arms = len(names)
        learners = tuple(one.widen(own, n_arms) for one, own in self._pairs(state))
        return bank, state._replace(learners=learners)

    def begin_log(self, state: LearnerState) -> LearnerState:
        if self.rows_per_arm or state.moments.mean.ndim > 1:
            return state
        begun: LearnerState = super().begin_log(state)
        return begun

    def logging_scores(self, state: LearnerState, context: Context) -> Array:
        x = read_context(state.columns, context, self.schema)
        seen = standardise(state.moments, x, state.columns.is_category)
        return state.warm_start.policy.scores(seen, len(self.arms))

    def _with_columns(self, state: LearnerState, columns: Columns) -> LearnerState:
        """Return the state with further columns. They count as 0 or missing in earlier
        contexts."""
        if len(columns.kinds) == state.moments.mean.shape[-1]:
            return state._replace(columns=columns)
        fill = columns.fill
        moments = state.moments.wider(fill == 0, state.seen)
        learners = tuple(one.wider(own, fill) for one, own in self._pairs(state))
        return state._replace(columns=columns, moments=moments, learners=learners)

    def _drawn_rows(self, columns: Columns, decision: Decision, arms: Ints) -> Array:
        """Return the numbers (…, d) of the drawn arms."""
        x = read_context(columns, decision.context, self.schema)
        if not self.rows_per_arm:
            return x
        # Arms may have been added since the decision.
        n_arms = min(decision.propensities.shape[-1], len(self.arms))
        rows = _check_rows(x, n_arms)
        drawn = np.take_along_axis(rows, arms[..., None, None], axis=-2)
        return np.ascontiguousarray(drawn[..., 0, :])

    def beliefs(self, state: LearnerState, context: Context) -> Belief:
        x = read_context(state.columns, context, self.schema)
        if self.rows_per_arm:
            # Treat the arms as one more batch axis of problems with one arm.
            x = np.moveaxis(_check_rows(x, len(self.arms)), -2, 0)
        if not state.seen:
            lead = x.shape[1:-1] if self.rows_per_arm else x.shape[:-1]
            mean = np.full((*lead, len(self.names), len(self.arms)), 0.5)
            return Belief(mean, np.zeros(1))
        seen = standardise(state.moments, x, state.columns.is_category)
        beliefs = [learner.believe(own, seen) for learner, own in self._pairs(state)]
        if self.rows_per_arm:
            beliefs = [
                Belief(*(np.moveaxis(part[..., 0], 0, -1) for part in belief))
                for belief in beliefs
            ]
        return self._combine(state, beliefs)


def _check_batch(shape: tuple[int, ...], got: tuple[int, ...]) -> None:
    """Raise if the batch axes of a decision are not those of the state."""
    if got != shape:
        raise InvalidInput(
            f"decision must have the state's batch axes {shape}; got {got}"
        )


def _check_rows(x: Array, n_arms: int) -> Array:
    """Return the numbers (…, K, d); raise if an arm has no row."""
    if x.shape[-2:-1] != (n_arms,):
        raise InvalidInput(
            f"context must have a row for each of the {n_arms} arms; got shape "
            f"{x.shape}"
        )
    return x
