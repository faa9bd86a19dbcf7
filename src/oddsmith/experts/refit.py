"""RefittedExperts: regressors that are fitted anew, at fixed counts of rewards, to the
last rows.

The state is the rows and the count of the last refit; a fitted model is never part of
it. It is a cache, known by a digest of the rows it was fitted to, and rebuilt from them
wherever it is missing: in a process that loads a saved agent, or for a second agent of
the same policy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from oddsmith.contexts.columns import read_context
from oddsmith.contexts.row_columns import (
    RowColumns,
    Schemas,
    empty_row_columns,
    learn_row,
    read_offer,
)
from oddsmith.contexts.schema import Schema
from oddsmith.core.arrays import Array, Bools, Ints, Real, check_range, number, whole
from oddsmith.core.decision import Context, Decision
from oddsmith.core.errors import InvalidInput
from oddsmith.core.experts import Experts, arms_needed, refuse_offer
from oddsmith.core.names import check_names
from oddsmith.core.offer import AnyOffer, Offer
from oddsmith.core.prediction_clip import CLIP
from oddsmith.core.weights import greedy
from oddsmith.experts.fit_cache import Refits, TrainingRows, settings, unfitted
from oddsmith.experts.ring import FIRST, PACE, latest, longer, next_refit

__all__ = ["RefittedExperts", "RefittedState"]


class RefittedState(NamedTuple):
    """Rewards learnt, the count of the last refit (0: none), a digest of its rows, and
    a ring of rows.

    Rows (C, d) with arms and rewards (C): the newest overwrites the oldest, but none of
    the last refit's before the next one. `columns` are what the numbers of rows stand
    for, and `width` is how many there were at the last refit.
    """

    learnt: int
    fitted: int
    width: int
    digest: npt.NDArray[np.uint8]
    columns: RowColumns
    rows: Array
    arms: Ints
    rewards: Array


@dataclass(frozen=True, eq=False)
class RefittedExperts(Experts):
    """One expert for each regressor with `fit` and `predict` (scikit-learn, LightGBM,
    XGBoost, your own).

    A model predicts the reward from the context's numbers and K columns for the arm, 1
    in the drawn one's: one without interactions (a plain linear regression) ranks arms
    alike in every context. All models sleep until they are first fitted, at `first`
    rewards, and are fitted anew each time the rewards are `pace` times as many (every
    `window`/2 of them at last), to the last `window` rows, oldest first, inside
    `update`. A copy of the model is fitted, with `seed` in every `random_state` that is
    no number yet, so that the same rows give the same fit. A missing number stays NaN
    for models whose scikit-learn tags allow it; else the mean of its column over the
    rows fitted to stands for it, and for all models 0 where a whole column is missing.
    Numbers are those of `experts.columns`: a column for every number, category and gap
    learnt from; a fit knows the columns of its time. Without `arms`, they come with the
    call: a model predicts the reward from the numbers of the context and of the arm's
    features (by `arm_schema`), and learns of drawn arms alone. Predictions are clipped
    to `clip`, votes are taken before.
    Memory: 1.5 · window · d, and the last four fits of each model.

    What a model raises in `fit` is kept and raised at the next call, as ExpertFailed:
    the state depends on the rewards alone, and `Guarded` can let that model sleep until
    it is fitted again. `version` names the models in a saved agent; if None, and all
    have `get_params`, their parameters do. States have no batch axes; contexts may.

    >>> class Mean:
    ...     def fit(self, X, y):
    ...         self.mean = y.mean()
    ...     def predict(self, X):
    ...         return np.full(len(X), self.mean)
    >>> bank = RefittedExperts(("a", "b"), {"mean": Mean()}, first=2)
    >>> state = bank.init()
    >>> bank.predict(state, [0.5])
    array([[nan, nan]])
    >>> for reward in (0.2, 0.6):
    ...     state = bank.update(
    ...         state, Decision(1, [0.5], None, 0, np.array([0.5, 0.5])), reward
    ...     )
    >>> bank.predict(state, [0.5])
    array([[0.4, 0.4]])
    """

    arms: Sequence[str] | None = field()  # required, although banks have a default
    models: Mapping[str, Any]
    _: KW_ONLY
    window: int = 4096
    first: int = FIRST
    pace: float = PACE
    seed: int = 0
    schema: Schema | None = None
    arm_schema: Schema | None = None
    clip: tuple[float, float] = CLIP
    version: str | None = None
    _refits: tuple[Refits, ...] = field(init=False, repr=False)

    learns = True

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "arms", None if self.arms is None else check_names("arms", self.arms)
        )
        if self.arms is not None and self.arm_schema is not None:
            raise InvalidInput(
                "arm_schema is for arms that come with the call: leave it or the arms "
                "out"
            )
        if not isinstance(self.models, Mapping):
            raise InvalidInput(
                "models must be a dict of name: regressor; got "
                f"{type(self.models).__name__}"
            )
        check_names("names", self.models)
        for what, low, high in (
            ("window", 2, 2**31),
            ("first", 1, self.window),
            ("seed", 0, 2**32 - 1),
        ):
            whole(what, getattr(self, what), low=low, high=high)
        number("pace", self.pace, low=1, high=np.inf)
        check_range(*self.clip)
        object.__setattr__(
            self,
            "models",
            {n: unfitted(n, model, self.seed) for n, model in self.models.items()},
        )
        if self.version is None and all(
            hasattr(model, "get_params") for model in self.models.values()
        ):
            object.__setattr__(self, "version", settings(dict(self.models)))
        object.__setattr__(
            self,
            "_refits",
            tuple(Refits(name, model) for name, model in self.models.items()),
        )

    @property
    def names(self) -> Sequence[str]:
        return tuple(self.models)

    @property
    def takes_offers(self) -> bool:
        return self.arms is None

    @property
    def unversioned(self) -> bool:
        return self.version is None

    def split(self) -> "tuple[RefittedExperts, ...]":
        """One bank for each model, on the same state and fits, so that a guard can tell
        them apart."""
        parts = tuple(
            replace(self, models={name: model}) for name, model in self.models.items()
        )
        for part, refits in zip(parts, self._refits, strict=True):
            object.__setattr__(part, "_refits", (refits,))
        return parts

    def init(self, shape: tuple[int, ...] = ()) -> RefittedState:
        """No rows; contexts that are learnt from say which columns they have."""
        if shape:
            raise InvalidInput(
                "RefittedExperts must have a state without batch axes, shape (); got "
                f"{shape}"
            )
        rings = (
            np.zeros((self.first, 0)),
            np.zeros(self.first, np.int64),
            np.zeros(self.first),
        )
        return RefittedState(
            0, 0, 0, np.zeros(16, np.uint8), empty_row_columns(), *rings
        )

    def predict(self, state: RefittedState, context: Context) -> Array:
        return self.advise(state, context)[0]

    def advise(
        self, state: RefittedState, context: Context, eligible: Bools | None = None
    ) -> tuple[Array, Array]:
        """Clipped predictions, and greedy votes on those that are not; NaN and no votes
        before the first fit."""
        rows = self._asked(state, context)
        lead, n_arms = rows.shape[:-2], rows.shape[-2]
        if not state.fitted:
            raw = np.full((*lead, len(self.models), n_arms), np.nan)
        else:
            inputs = rows.reshape(-1, rows.shape[-1])
            fits = (
                refits.at(state.digest.tobytes(), lambda: self._table(state))
                for refits in self._refits
            )
            raw = np.stack(
                [fit.predict(inputs).reshape(*lead, n_arms) for fit in fits], axis=-2
            )
        return np.clip(raw, *self.clip), greedy(raw, eligible)

    def prediction_bounds(self, state: RefittedState) -> Array:
        return np.repeat(np.array([self.clip]), len(self.models), axis=0)

    def update(
        self, state: RefittedState, decision: Decision, reward: Real
    ) -> RefittedState:
        """The ring gains the drawn row, in place; then, if it is due, all models are
        fitted anew."""
        question, arm, value = (
            decision.question,
            decision.number,
            number("reward", reward, low=0, high=1),
        )
        if (
            self.arms is None
            and isinstance(question, Offer)
            and isinstance(arm, int | np.integer)
        ):
            drawn = question.only(int(arm))
            known = None if drawn.features is None else drawn.features[drawn.arms[0]]
            columns = learn_row(state.columns, drawn.context, known, self._schemas)
            x = read_offer(columns, drawn, self._schemas)[0]
        else:
            n_arms = len(self._fixed(question))
            columns = learn_row(state.columns, question, None, self._schemas)
            x = self._encoded(columns, question)
            if (
                x.ndim != 1
                or not isinstance(arm, int | np.integer)
                or not 0 <= arm < n_arms
            ):
                raise InvalidInput(
                    f"decision must be one of {n_arms} arms in one context; got arm "
                    f"{arm!r:.60}"
                )
        state = self._with_columns(state, columns)
        slot = state.learnt % len(state.rows)
        state.rows[slot], state.arms[slot], state.rewards[slot] = x, arm, value
        state = state._replace(learnt=state.learnt + 1)
        return (
            self._refitted(state) if state.learnt >= self._due(state.fitted) else state
        )

    @property
    def _schemas(self) -> Schemas:
        return Schemas(self.schema, self.arm_schema)

    def _with_columns(self, state: RefittedState, columns: RowColumns) -> RefittedState:
        """The state with further columns, which were 0 or missing in its rows."""
        if columns is state.columns:
            return state
        more = (
            columns.fill[state.rows.shape[-1] :]
            if state.learnt
            else np.zeros(len(columns.is_own))
        )
        rows = np.concatenate([state.rows, np.tile(more, (len(state.rows), 1))], axis=1)
        return state._replace(columns=columns, rows=rows)

    def _due(self, fitted: int) -> int:
        return next_refit(fitted, self.pace, self.window) if fitted else self.first

    def _refitted(self, state: RefittedState) -> RefittedState:
        """The state with this count as that of its last refit, and room for the rows
        until the next; models fitted."""
        room = min(self._due(state.learnt), self.window + self.window // 2) - len(
            state.rows
        )
        state = state._replace(fitted=state.learnt, width=state.rows.shape[-1])
        table = self._table(state)
        hashed = blake2b(
            repr(table[0].shape).encode() + table[0].tobytes() + table[1].tobytes(),
            digest_size=16,
        )
        for refits in self._refits:
            refits.at(hashed.digest(), lambda: table)
        return state._replace(
            digest=np.frombuffer(hashed.digest(), np.uint8).copy(),
            rows=longer(state.rows, room),
            arms=longer(state.arms, room),
            rewards=longer(state.rewards, room),
        )

    def _table(self, state: RefittedState) -> TrainingRows:
        """The training rows of the last refit, with their arms, and rewards, oldest
        first."""
        at = latest(state.fitted, min(state.fitted, self.window), len(state.rows))
        return self._with_arms(
            state.rows[at, : state.width], state.arms[at]
        ), state.rewards[at]

    def _with_arms(self, x: Array, arms: Ints) -> Array:
        """The numbers (n, d) and K columns for the arm (n, d + K); the numbers alone,
        where arms come with the call."""
        return (
            x
            if self.arms is None
            else np.concatenate([x, np.eye(len(self.arms))[arms]], axis=-1)
        )

    def _fixed(self, question: Any) -> Sequence[str]:
        """The arms that do not come with the call; refused where it is the other way
        round."""
        if self.arms is None:
            raise arms_needed(self)
        refuse_offer(self, question)
        return self.arms

    def _asked(self, state: RefittedState, question: Any) -> Array:
        """The rows (…, K, m) that models are asked about, of the columns that they were
        fitted to."""
        if self.arms is None and isinstance(question, AnyOffer):
            return read_offer(state.columns, question, self._schemas)[
                ..., : state.width
            ]
        n_arms = len(self._fixed(question))
        x = self._encoded(state.columns, question)[..., : state.width]
        flat = x.reshape(int(np.prod(x.shape[:-1])), x.shape[-1])
        rows = self._with_arms(
            np.repeat(flat, n_arms, axis=0), np.tile(np.arange(n_arms), len(flat))
        )
        return rows.reshape(*x.shape[:-1], n_arms, rows.shape[-1])

    def _encoded(self, columns: RowColumns, context: Context) -> Array:
        """The numbers (…, d) of contexts, where arms are fixed."""
        return read_context(columns.context, context, self.schema)
