"""SharedExperts: learners shared by all arms, for arms that come with the call, and a
memory of each arm by name."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from oddsmith.contexts.row_columns import (
    RowColumns,
    Schemas,
    empty_row_columns,
    learn_row,
    read_offer,
)
from oddsmith.contexts.schema import Schema
from oddsmith.core.arrays import Array, Real, number, whole
from oddsmith.core.decision import Context, Decision
from oddsmith.core.errors import InvalidInput
from oddsmith.core.experts import arms_needed
from oddsmith.core.offer import AnyOffer, Offer
from oddsmith.experts.ballots import Ballots, Optimistic
from oddsmith.experts.learners.moments import RunningMoments, standardised, with_row
from oddsmith.experts.learners.name_table import NameTable, claim, empty_table, slots_of
from oddsmith.experts.learners.pool import (
    PooledLearner,
    PooledRidge,
    Remembered,
    Sizes,
)
from oddsmith.experts.learners.products import crossed, layout_of
from oddsmith.experts.learners.protocol import (
    RECIPE,
    Belief,
    LearnerBank,
    LearnerInput,
    Mixture,
    scaled_advice,
    side_by_side,
)
from oddsmith.experts.learners.unit import grown_unit, unit_or_one
from oddsmith.experts.learners.warm_start import WarmStart

__all__ = ["SharedExperts", "SharedState"]

_VOTES = Optimistic()


class SharedState(NamedTuple):
    """What was learnt so far: columns, moments of the rows, the table of names, each
    learner's own state.

    `unit` () is the power of two that bounds the rewards so far, 0 while all of them
    were 0. Learners and mixture see rewards divided by it.
    """

    unit: Array
    columns: RowColumns
    moments: RunningMoments
    table: NameTable
    learners: tuple[Any, ...]
    mixture: Mixture
    warm_start: WarmStart = WarmStart()


@dataclass(frozen=True, eq=False)
class SharedExperts(LearnerBank):
    """One expert for each learner and, with `blend`, one more: a mixture of what the
    first two believe.

    Arms come with the call. A learner sees a row for each: the numbers of the context
    and of the arm's features (`experts.columns` says how they are read), standardised
    by the rows learnt from; and what is remembered of the arm by its name, of
    `most_arms` at most: the one not learnt from for longest is forgotten, and is then
    new. Names are kept as digests. Regressions also see how an arm's numbers differ
    from those offered beside it, so learning reads the features of all arms; from a
    record of the drawn arm's alone it learns without. States have no batch axes.

    >>> bank = SharedExperts()
    >>> bank.predict(bank.init(), Offer({"hour": 9}, ("a", "b")))
    array([[0.5, 0.5]])
    """

    learners: tuple[PooledLearner, ...] = (PooledRidge(),)
    blend: bool = False
    ballots: Ballots = _VOTES
    schema: Schema | None = None
    arm_schema: Schema | None = None
    most_arms: int = 10_000
    clip: tuple[float, float] = (1e-4, 1 - 1e-4)
    recipe: int = field(default=RECIPE, init=False)
    prefix: str = ""

    takes_offers = True

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("most_arms", self.most_arms, low=1, high=2**24)
        for what in ("schema", "arm_schema"):
            if not isinstance(getattr(self, what), Schema | None):
                raise InvalidInput(
                    f"{what} must be a Schema; got {type(getattr(self, what)).__name__}"
                )

    def init(self, shape: tuple[int, ...] = ()) -> SharedState:
        """Nothing is known, not even how many numbers there are."""
        if shape:
            raise InvalidInput(
                "SharedExperts must have a state without batch axes, shape (); got "
                f"{shape}"
            )
        table = empty_table(self.most_arms)
        learners = tuple(
            learner.start(np.zeros(0), Sizes(0, 0), len(table.counts))
            for learner in self.learners
        )
        return SharedState(
            np.zeros(()),
            empty_row_columns(),
            RunningMoments.none(0),
            table,
            learners,
            Mixture.even(),
        )

    def update(
        self, state: SharedState, decision: Decision, reward: Real
    ) -> SharedState:
        """Columns and moments gain the drawn row, the arm its place, then every learner
        the reward; in place."""
        offer, value = decision.question, number("reward", reward, low=0, high=1)
        if not isinstance(offer, Offer) or not isinstance(
            decision.number, int | np.integer
        ):
            raise InvalidInput(
                "decision must be one decision about arms that came with the call"
            )
        drawn = int(decision.number)
        knows_all = offer.features is None or len(offer.features) == len(offer.arms)
        if knows_all:
            warm_start = self.compare_votes(state, decision, value)
            state = state._replace(warm_start=warm_start)
        state = self._with_columns(state, offer.only(drawn))
        state = self._with_unit(state, value)
        unit = unit_or_one(state.unit)
        value = value / float(unit)
        # the drawn arm's alone: there is nothing beside it
        if offer.features is not None and len(offer.features) == 1:
            offer, drawn = offer.only(drawn), 0
        rows = read_offer(state.columns, offer, self._schemas)
        moments = with_row(state.moments, rows[drawn])
        turn = int(state.table.last.max()) + 1
        table, place, fresh = claim(
            state.table, offer.arms[drawn], turn, self.most_arms
        )
        learners = state.learners
        if fresh:
            room = len(table.counts)
            learners = tuple(
                one.cleared(own, place, room)
                for one, own in zip(self.learners, learners, strict=True)
            )
        known = Remembered(np.array([place]), table.counts[[place]])
        every = self._seen(state._replace(moments=moments), rows)
        if knows_all:
            warm_start = state.warm_start.learn_rows(every, decision)
            state = state._replace(warm_start=warm_start)
        seen = every.row(drawn)
        learnt_now = (
            one.learn(own, seen, known, value)
            for one, own in zip(self.learners, learners, strict=True)
        )
        mixture = (
            state.mixture.scored(scaled_advice(decision, unit), np.asarray(value))
            if self.blend
            else state.mixture
        )
        state = state._replace(
            moments=moments, table=table, learners=tuple(learnt_now), mixture=mixture
        )
        table.counts[place] += 1
        return state

    def logging_scores(self, state: SharedState, context: Context) -> Array:
        rows = read_offer(state.columns, context, self._schemas)
        policy = state.warm_start.policy
        return policy.scores(self._seen(state, rows), 1)[..., 0]

    @property
    def _schemas(self) -> Schemas:
        return Schemas(self.schema, self.arm_schema)

    def _with_unit(self, state: SharedState, reward: float) -> SharedState:
        """The state in a unit that this reward does not exceed."""
        unit, factor = grown_unit(state.unit, np.asarray(reward))
        state = state._replace(unit=unit)
        if factor == 1:
            return state
        learners = (
            one.rescaled(own, factor)
            for one, own in zip(self.learners, state.learners, strict=True)
        )
        mixture = state.mixture.rescaled(factor)
        return state._replace(learners=tuple(learners), mixture=mixture)

    def _with_columns(self, state: SharedState, drawn: Offer) -> SharedState:
        """The state with the columns of the drawn arm's row; further ones were 0 or
        missing so far."""
        known = None if drawn.features is None else drawn.features[drawn.arms[0]]
        columns = learn_row(state.columns, drawn.context, known, self._schemas)
        if columns is state.columns:
            return state
        state, is_own = state._replace(columns=columns), columns.is_own
        if len(is_own) == len(state.moments.mean):
            return state
        fill = columns.fill
        moments = state.moments.wider(fill == 0, float(state.table.last.max()))
        layout = layout_of(is_own)
        sizes = Sizes(len(layout.linear), layout.size)
        pairs = zip(self.learners, state.learners, strict=True)
        learners = tuple(one.wider(own, fill, sizes) for one, own in pairs)
        return state._replace(moments=moments, learners=learners)

    def beliefs(self, state: SharedState, context: Context) -> Belief:
        if not isinstance(context, AnyOffer):
            raise arms_needed(self)
        rows = read_offer(state.columns, context, self._schemas)
        if not state.table.last.any():
            return Belief(
                np.full((*context.lead, len(self.names), len(context.arms)), 0.5),
                np.zeros(1),
            )
        places = np.stack(
            [slots_of(state.table, offer.arms) for offer in context.offers]
        )
        places = places if context.lead else places[0]
        known = Remembered(
            places, np.where(places >= 0, state.table.counts[places], 0.0)
        )
        seen = self._seen(state, rows)
        beliefs = [
            one.believe(own, seen, known)
            for one, own in zip(self.learners, state.learners, strict=True)
        ]
        portion = state.mixture.portion if self.blend else None
        return side_by_side(beliefs, portion).scaled(unit_or_one(state.unit))

    def _seen(self, state: SharedState, rows: Array) -> LearnerInput:
        """Rows (…, K, d) as learners see them; regressions see an arm's numbers less
        their mean over the arms, too, and products with those of the context."""
        is_own = state.columns.is_own
        is_category = state.columns.is_category
        seen = standardised(state.moments, rows, is_category)
        if not is_own.any():
            return seen
        # the same for every order of the arms
        middle = np.sort(seen.z, axis=-2).mean(axis=-2, keepdims=True)
        pairs = np.stack([seen.z, seen.z - middle], axis=-1)
        wanted = np.stack([np.ones(len(is_own), np.bool_), is_own], axis=-1)
        linear = pairs[..., wanted]
        products = crossed(state.moments, is_category, is_own, seen.z, linear)
        return seen._replace(linear=linear, crossed=products)
