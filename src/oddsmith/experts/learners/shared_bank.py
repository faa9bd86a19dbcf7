"""SharedExperts: learners shared by all arms, for arms that are passed in the call,
with a table of arms by name."""

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
from oddsmith.experts.learners.moments import RunningMoments, standardise, with_row
from oddsmith.experts.learners.name_table import NameTable, claim, empty_table, slots_of
from oddsmith.experts.learners.pool import (
    PooledLearner,
    PooledRidge,
    Remembered,
    Sizes,
)
from oddsmith.experts.learners.products import crossed, layout_of, linear_part
from oddsmith.experts.learners.protocol import (
    RECIPE,
    Belief,
    LearnerBank,
    LearnerInput,
    Mixture,
)
from oddsmith.experts.learners.unit import unit_or_one
from oddsmith.experts.learners.warm_start import WarmStart

__all__ = ["SharedExperts", "SharedState"]

_VOTES = Optimistic()


class SharedState(NamedTuple):
    """Columns, moments of the rows, the table of names, and each learner's state.

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
    """One expert for each learner and, with `blend`, a mixture of the first two.

    Arms are passed in the call. A learner sees a row for each arm: the numbers of the
    context and of the arm's features (`contexts/row_columns.py` reads them),
    standardised by the learnt rows, and the statistics of the arm by its name. At most
    `most_arms` arms have such statistics; the least recently learnt one is dropped, and
    then counts as new. Names are stored as digests. Regressions also see how an arm's
    numbers differ from those of the other offered arms, so learning reads the features
    of all arms. If a record contains only the drawn arm, that difference is 0. States
    have no batch axes.

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
        """Return the prior, without columns and names."""
        if shape:
            raise InvalidInput(
                "SharedExperts must have a state without batch axes, shape (); got "
                f"{shape}"
            )
        table = empty_table(self.most_arms)
        room = len(table.counts)
        learners = tuple(
            learner.start(np.zeros(0), Sizes(0, 0), room) for learner in self.learners
        )
        moments = RunningMoments.none(0)
        columns = empty_row_columns()
        return SharedState(
            np.zeros(()), columns, moments, table, learners, Mixture.even()
        )

    def update(
        self, state: SharedState, decision: Decision, reward: Real
    ) -> SharedState:
        """Add the drawn row to columns and moments, give the arm a slot, then teach
        every learner the reward, in place."""
        offer = decision.question
        value = number("reward", reward, low=0, high=1)
        is_single = isinstance(decision.number, int | np.integer)
        if not isinstance(offer, Offer) or not is_single:
            raise InvalidInput(
                "decision must be one decision with arms that were passed in the call"
            )
        drawn = int(decision.number)
        knows_all = offer.features is None or len(offer.features) == len(offer.arms)
        if knows_all:
            warm_start = self.compare_votes(state, decision, value)
            state = state._replace(warm_start=warm_start)
        state = self._with_columns(state, offer.only(drawn))
        state = self._with_unit(state, np.asarray(value))
        unit = unit_or_one(state.unit)
        value = value / float(unit)
        # Only the drawn arm's features are known, so there are no other arms to compare
        # with.
        if offer.features is not None and len(offer.features) == 1:
            offer = offer.only(drawn)
            drawn = 0
        rows = read_offer(state.columns, offer, self._schemas)
        moments = with_row(state.moments, rows[drawn])
        state = state._replace(moments=moments)
        turn = int(state.table.last.max()) + 1
        name = offer.arms[drawn]
        table, place, fresh = claim(state.table, name, turn, self.most_arms)
        if fresh:
            room = len(table.counts)
            learners = tuple(
                one.cleared(own, place, room) for one, own in self._pairs(state)
            )
            state = state._replace(learners=learners)
        known = Remembered(np.array([place]), table.counts[[place]])
        seen = self._learner_input(state, rows, drawn)
        if knows_all and state.warm_start.learns_policy:
            every = self._learner_input(state, rows)
            warm_start = state.warm_start.learn_rows(every, decision)
            state = state._replace(warm_start=warm_start)
        learners = tuple(
            one.learn(own, seen, known, value) for one, own in self._pairs(state)
        )
        mixture = self._score_mixture(state, decision, unit, np.asarray(value))
        table.counts[place] += 1
        return state._replace(table=table, learners=learners, mixture=mixture)

    def logging_scores(self, state: SharedState, context: Context) -> Array:
        rows = read_offer(state.columns, context, self._schemas)
        policy = state.warm_start.policy
        return policy.scores(self._learner_input(state, rows), 1)[..., 0]

    @property
    def _schemas(self) -> Schemas:
        return Schemas(self.schema, self.arm_schema)

    def _with_columns(self, state: SharedState, drawn: Offer) -> SharedState:
        """Return the state with the columns of the drawn arm's row. New columns count
        as 0 or missing in earlier rows."""
        features = None
        if drawn.features is not None:
            features = drawn.features[drawn.arms[0]]
        columns = learn_row(state.columns, drawn.context, features, self._schemas)
        if columns is state.columns:
            return state
        state = state._replace(columns=columns)
        is_own = columns.is_own
        if len(is_own) == len(state.moments.mean):
            return state
        fill = columns.fill
        moments = state.moments.wider(fill == 0, float(state.table.last.max()))
        layout = layout_of(is_own)
        sizes = Sizes(len(layout.linear), layout.size)
        learners = tuple(one.wider(own, fill, sizes) for one, own in self._pairs(state))
        return state._replace(moments=moments, learners=learners)

    def beliefs(self, state: SharedState, context: Context) -> Belief:
        if not isinstance(context, AnyOffer):
            raise arms_needed(self)
        rows = read_offer(state.columns, context, self._schemas)
        table = state.table
        if not table.last.any():
            shape = (*context.lead, len(self.names), len(context.arms))
            return Belief(np.full(shape, 0.5), np.zeros(1))
        places = np.stack([slots_of(table, offer.arms) for offer in context.offers])
        if not context.lead:
            places = places[0]
        counts = np.where(places >= 0, table.counts[places], 0.0)
        known = Remembered(places, counts)
        seen = self._learner_input(state, rows)
        beliefs = [one.believe(own, seen, known) for one, own in self._pairs(state)]
        return self._combine(state, beliefs)

    def _learner_input(
        self, state: SharedState, rows: Array, drawn: int | None = None
    ) -> LearnerInput:
        """Return rows (…, K, d) standardised, or only the drawn one (1, d). For
        regressions, include an arm's numbers minus their mean over the arms, and
        products with the context's numbers."""
        is_own = state.columns.is_own
        is_category = state.columns.is_category
        seen = standardise(state.moments, rows, is_category)
        own = np.compress(is_own, seen.z, axis=-1)
        middle = _mean_over_arms(own)
        if drawn is not None:
            seen = seen.row(drawn)
            own = own[drawn : drawn + 1]
        if not is_own.any():
            return seen
        linear = linear_part(is_own, seen.z, own - middle)
        products = crossed(state.moments, is_category, is_own, seen.z, linear)
        return seen._replace(linear=linear, crossed=products)


def _mean_over_arms(numbers: Array) -> Array:
    """Return the mean (…, 1, f) of numbers (…, K, f) over the arms."""
    # sort first, so that the mean does not depend on the order of the arms
    in_order = np.sort(numbers, axis=-2)
    total = np.add.reduce(in_order, axis=-2, keepdims=True)
    mean: Array = total / numbers.shape[-2]
    return mean
