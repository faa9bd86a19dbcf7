"""SharedExperts: learners shared by all arms, for arms that come with the call, and a memory of each arm by name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from oddsmith.arrays import Array, Bools, Real, check_range, number, whole
from oddsmith.contexts import has_names
from oddsmith.decision import Context, Decision
from oddsmith.errors import InvalidInput
from oddsmith.experts.ballots import Ballots, Optimistic
from oddsmith.experts.base import Experts, arms_needed, check_names
from oddsmith.experts.learners.base import Belief, side_by_side
from oddsmith.experts.learners.moments import RunningMoments, standardised, with_moments
from oddsmith.experts.learners.name_table import NameTable, claim, empty_table, slots_of
from oddsmith.experts.learners.pooled import PooledLearner, PooledRidge, Remembered
from oddsmith.experts.schema import Form, Schema, as_numbers
from oddsmith.offer import AnyOffer, Offer, feature_numbers

__all__ = ["SharedExperts", "SharedState"]

_VOTES = Optimistic()


class SharedState(NamedTuple):
    """Moments of the rows learnt from, the table of names, each learner's state, and the form of contexts and features.

    `form` (4): how many numbers a context and an arm's features have, and whether they are hashes of names. The first
    reward of an arm with features says so, and the first one with a context; until then it is 0.
    """

    moments: RunningMoments
    table: NameTable
    learners: tuple[Any, ...]
    form: Array


@dataclass(frozen=True, eq=False)
class SharedExperts(Experts):
    """One expert for each learner and, with `blend`, one more: the average of what the first `blend` ones believe.

    Arms come with the call. A learner sees a row for each: the numbers of the context, then those of the arm's features
    (dicts through `schema` and `arm_schema`, without them by hashes), standardised by the rows learnt from; and what
    is remembered of the arm by its name, of `most_arms` at most: the one not learnt from for longest is forgotten, and
    is then new. Names are kept as digests. Learning reads the drawn arm's features alone. States have no batch axes.

    >>> bank = SharedExperts()
    >>> bank.predict(bank.init(), Offer({"hour": 9}, ("a", "b")))
    array([[0.5, 0.5]])
    """

    learners: tuple[PooledLearner, ...] = (PooledRidge(),)
    blend: int = 0
    ballots: Ballots = _VOTES
    schema: Schema | None = None
    arm_schema: Schema | None = None
    most_arms: int = 10_000
    clip: tuple[float, float] = (0.01, 0.99)

    learns = takes_offers = True

    def __post_init__(self) -> None:
        check_names("names of learners", self.names)
        whole("blend", self.blend, low=0, high=len(self.learners))
        whole("most_arms", self.most_arms, low=1, high=2**24)
        for what in ("schema", "arm_schema"):
            if not isinstance(getattr(self, what), Schema | None):
                raise InvalidInput(f"{what} must be a Schema; got {type(getattr(self, what)).__name__}")
        check_range(*self.clip)

    @property
    def names(self) -> Sequence[str]:
        return (*(learner.name for learner in self.learners), *(("blend",) if self.blend else ()))

    def init(self, shape: tuple[int, ...] = ()) -> SharedState:
        """Nothing is known, not even how many numbers there are."""
        if shape:
            raise InvalidInput(f"SharedExperts must have a state without batch axes, shape (); got {shape}")
        table = empty_table(self.most_arms)
        learners = tuple(learner.start(0, len(table.counts)) for learner in self.learners)
        return SharedState(RunningMoments.none(0), table, learners, np.zeros(4))

    def predict(self, state: SharedState, context: Context) -> Array:
        return self.advise(state, context)[0]

    def advise(self, state: SharedState, context: Context, eligible: Bools | None = None) -> tuple[Array, Array]:
        """Clipped means, and votes; before the first reward every learner predicts 1/2."""
        if not isinstance(context, AnyOffer):
            raise arms_needed(self)
        seen = state.moments.seen
        rows = [self._rows(state.form if seen else self._form(one), one, one.arms) for one in context.offers]
        if not seen:
            shape = (*context.lead, len(self.names), len(context.arms))
            mean, sd = np.full(shape, 0.5), np.zeros(1)
        else:
            x = np.stack(rows) if context.lead else rows[0]
            places = np.stack([slots_of(state.table, offer.arms) for offer in context.offers])
            mean, sd = self._believed(state, x, places if context.lead else places[0])
        return np.clip(mean, *self.clip), self.ballots(mean, sd, eligible)

    def update(self, state: SharedState, decision: Decision, reward: Real) -> SharedState:
        """The moments gain the drawn row, the arm its place, then every learner the reward; in place."""
        offer, value = decision.question, number("reward", reward, low=0, high=1)
        if not isinstance(offer, Offer) or not isinstance(decision.number, int | np.integer):
            raise InvalidInput("decision must be one decision about arms that came with the call")
        drawn = offer.only(int(decision.number))
        form = np.where(np.tile(state.form[:2] == 0, 2), self._form(drawn), state.form)
        x = self._rows(form, drawn, drawn.arms)
        if not state.moments.seen or (form != state.form).any():
            state = self._wider(state, form, x.shape[-1])
        moments = with_moments(state.moments, x[0])
        turn = int(state.table.last.max()) + 1
        table, place, fresh = claim(state.table, drawn.arms[0], turn, self.most_arms)
        learners = state.learners
        if fresh:
            room = len(table.counts)
            learners = tuple(one.cleared(own, place, room) for one, own in zip(self.learners, learners, strict=True))
        known = Remembered(np.array([place]), table.counts[[place]])
        seen = standardised(moments, x)
        learnt = (one.learn(own, seen, known, value) for one, own in zip(self.learners, learners, strict=True))
        state = SharedState(moments, table, tuple(learnt), state.form)
        table.counts[place] += 1
        return state

    def _wider(self, state: SharedState, form: Array, dim: int) -> SharedState:
        """The state for rows of more numbers: what is remembered of arms stays, learners of the numbers begin anew."""
        pairs = zip(self.learners, state.learners, strict=True)
        return SharedState(
            RunningMoments.none(dim), state.table, tuple(one.wider(own, dim) for one, own in pairs), form
        )

    def _believed(self, state: SharedState, x: Array, places: Any) -> Belief:
        """All experts' means and standard deviations (…, N, K)."""
        known = Remembered(places, np.where(places >= 0, state.table.counts[places], 0.0))
        seen = standardised(state.moments, x)
        beliefs = [one.believe(own, seen, known) for one, own in zip(self.learners, state.learners, strict=True)]
        return side_by_side(beliefs, self.blend)

    def _form(self, offer: Offer) -> Array:
        """The form of this offer's context and features, 0 numbers where there are none."""
        arm, known = next((item for item in (offer.features or {}).items() if item[1] is not None), ("", None))
        own = _part(None, self.arm_schema) if known is None else self._features({arm: known})[0]
        widths = [len(_part(offer.context, self.schema)), len(own)]
        hashed = [self.schema is None and has_names(offer.context), self.arm_schema is None and has_names(known)]
        return np.array([*widths, *hashed], dtype=np.float64)

    def _features(self, known: Mapping[str, Any]) -> Array:
        """The numbers (arms, d) of what is known of arms."""
        read = partial(as_numbers, schema=self.arm_schema)
        return feature_numbers(list(known), list(known.values()), read).reshape(len(known), -1)

    def _rows(self, form: Array, offer: Offer, arms: Sequence[str]) -> Array:
        """The numbers (arms, d) of these arms, in this form; what has no numbers in it yet is left out."""
        (width, own_width), hashed = form[:2].astype(int).tolist(), form[2:] > 0
        shared = _part(offer.context if width else None, self.schema, width, bool(hashed[0]))
        own = np.tile(_part(None, self.arm_schema, own_width, bool(hashed[1])), (len(arms), 1))
        features = (offer.features if own_width else None) or {}
        known = [place for place, arm in enumerate(arms) if features.get(arm) is not None]
        if known:
            rows = self._features({arms[place]: features[arms[place]] for place in known})
            _part(features[arms[known[0]]], self.arm_schema, own_width, bool(hashed[1]))  # which refuses another form
            got = rows.shape[-1]
        else:
            rows, got = own, own_width
        if (len(shared), got) != (width, own_width):
            raise InvalidInput(
                f"context and features must have {width} and {own_width} numbers, as the first ones had; got "
                f"{len(shared)} and {got}: bring them in one form, always dicts or always arrays of one length"
            )
        own[known or slice(None)] = rows
        table = np.concatenate([np.broadcast_to(shared, (len(arms), width)), own], axis=1)
        return table if table.shape[-1] else np.zeros((len(arms), 1))  # nothing but names


def _part(value: Any, schema: Schema | None, width: int = 0, hashed: bool = False) -> Array:
    """The numbers of a context or of an arm's features; of nothing, as many as there were before, all unknown."""
    if value is not None:
        is_other = width and has_names(value) != hashed  # as many hashes as there are numbers would pass unseen
        row = np.atleast_1d(as_numbers(value, schema, Form(width, hashed) if is_other else None))
        if row.ndim > 1:
            raise InvalidInput(f"context and features must be one dict or row of numbers each; got shape {row.shape}")
        return row
    if schema is not None:
        return schema.encode({})
    return np.zeros(width) if hashed else np.full(width, np.nan)
