"""RefittedExperts: regressors that are refitted to recent rows after fixed numbers of
rewards.

The state contains the rows and the count of the last refit, but no fitted model. Fitted
models are cached by a digest of their training rows. If a model is not in the cache,
for example after an agent was loaded in another process, it is fitted to these rows
again."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from hashlib import blake2b
from math import prod
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
from oddsmith.core.weights import greedy
from oddsmith.experts.fit_cache import Refits, TrainingRows, settings, unfitted
from oddsmith.experts.prediction_clip import CLIP
from oddsmith.experts.ring import FIRST, PACE, latest, longer, next_refit

__all__ = ["RefittedExperts", "RefittedState"]


class RefittedState(NamedTuple):
    """Rows for the next fit, and the count of rewards at the last one.

    `learnt` is the number of rewards, `fitted` this number at the last refit (0 before
    the first), and `digest` that of its rows. `rows` (C, d), `arms` and `rewards` (C)
    are a ring buffer in which the newest row overwrites the oldest; rows of the last
    refit are kept until the next one. `columns` describe the numbers of a row, and
    `width` is the number of columns at the last refit.
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

    A model predicts the reward from the context's numbers and K indicator columns for
    the arm (one-hot). A model without interactions (a plain linear regression) ranks
    arms in the same way in every context. No model makes predictions until `first`
    rewards. Then `update` fits all models each time the number of rewards has grown by
    the factor `pace` (at the latest after `window`/2 rewards), to the last `window`
    rows, oldest first. It fits a copy, with `seed` in every `random_state` that is not
    a number yet, so that the same rows give the same fit.

    A missing number stays NaN for models whose scikit-learn tags allow it. For others
    it is the mean of its column over the rows; an empty column is 0 for all models.
    Learning adds a column for every number, category and missing value
    (`contexts/columns.py`); a fit uses the columns that exist at the time of the fit.
    Without `arms`, the arms are passed in each call: a model then predicts the reward
    from the numbers of the context and of the arm's features (encoded by `arm_schema`),
    and learns only from drawn arms. Predictions are clipped to `clip`; votes are
    computed before. Memory: 1.5 · window · d, and the last four fits of each model.

    An exception in `fit` is stored and raised at the next call, as ExpertFailed. So the
    state depends only on the rewards, and `Guarded` can skip that model until its next
    fit. `version` names the models in a saved agent; if it is None and all models have
    `get_params`, their parameters identify them. States have no batch axes; contexts
    may have them.

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

    # Required, although the base class has a default.
    arms: Sequence[str] | None = field()
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
        if self.arms is not None:
            object.__setattr__(self, "arms", check_names("arms", self.arms))
            if self.arm_schema is not None:
                raise InvalidInput(
                    "arm_schema is for arms that are passed in the call: leave out "
                    "arm_schema or the arms"
                )
        if not isinstance(self.models, Mapping):
            raise InvalidInput(
                "models must be a dict of name: regressor; got "
                f"{type(self.models).__name__}"
            )
        check_names("names", self.models)
        whole("window", self.window, low=2, high=2**31)
        whole("first", self.first, low=1, high=self.window)
        whole("seed", self.seed, low=0, high=2**32 - 1)
        number("pace", self.pace, low=1, high=np.inf)
        check_range(*self.clip)
        models = {name: unfitted(name, m, self.seed) for name, m in self.models.items()}
        object.__setattr__(self, "models", models)
        has_settings = all(hasattr(model, "get_params") for model in models.values())
        if self.version is None and has_settings:
            object.__setattr__(self, "version", settings(models))
        refits = tuple(Refits(name, model) for name, model in models.items())
        object.__setattr__(self, "_refits", refits)

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
        """Return one bank per model with the same state and fits, so that a guard can
        handle their failures separately."""
        parts = list[RefittedExperts]()
        for refits in self._refits:
            part = replace(self, models={refits.name: self.models[refits.name]})
            object.__setattr__(part, "_refits", (refits,))
            parts.append(part)
        return tuple(parts)

    def init(self, shape: tuple[int, ...] = ()) -> RefittedState:
        """Return a state without rows and columns."""
        if shape:
            raise InvalidInput(
                "RefittedExperts must have a state without batch axes, shape (); got "
                f"{shape}"
            )
        return RefittedState(
            learnt=0,
            fitted=0,
            width=0,
            digest=np.zeros(16, np.uint8),
            columns=empty_row_columns(),
            rows=np.zeros((self.first, 0)),
            arms=np.zeros(self.first, np.int64),
            rewards=np.zeros(self.first),
        )

    def predict(self, state: RefittedState, context: Context) -> Array:
        return self.advise(state, context)[0]

    def advise(
        self, state: RefittedState, context: Context, eligible: Bools | None = None
    ) -> tuple[Array, Array]:
        """Return clipped predictions, and greedy votes on unclipped ones. Before the
        first fit, all predictions are NaN and no expert votes."""
        rows = self._model_rows(state, context)
        *lead, n_arms, n_columns = rows.shape
        raw = np.full((*lead, len(self.models), n_arms), np.nan)
        if state.fitted:
            inputs = rows.reshape(-1, n_columns)
            digest = state.digest.tobytes()
            for i, refits in enumerate(self._refits):
                fit = refits.at(digest, lambda: self._table(state))
                raw[..., i, :] = fit.predict(inputs).reshape(*lead, n_arms)
        return np.clip(raw, *self.clip), greedy(raw, eligible)

    def prediction_bounds(self, state: RefittedState) -> Array:
        return np.repeat(np.array([self.clip]), len(self.models), axis=0)

    def update(
        self, state: RefittedState, decision: Decision, reward: Real
    ) -> RefittedState:
        """Add the drawn arm's row to the ring buffer, in place; then fit all models if
        a refit is due."""
        arm = decision.number
        value = number("reward", reward, low=0, high=1)
        columns, x = self._drawn_row(state.columns, decision.question, arm)
        state = self._with_columns(state, columns)
        slot = state.learnt % len(state.rows)
        state.rows[slot] = x
        state.arms[slot] = arm
        state.rewards[slot] = value
        state = state._replace(learnt=state.learnt + 1)
        if state.learnt >= self._due(state.fitted):
            return self._refit(state)
        return state

    def _drawn_row(
        self, columns: RowColumns, question: Any, arm: Any
    ) -> tuple[RowColumns, Array]:
        """Return the columns, with those that this decision adds, and the numbers (d)
        of the drawn arm's row."""
        is_single = isinstance(arm, int | np.integer)
        if self.arms is None and isinstance(question, Offer) and is_single:
            drawn = question.only(int(arm))
            features = None
            if drawn.features is not None:
                features = drawn.features[drawn.arms[0]]
            columns = learn_row(columns, drawn.context, features, self._schemas)
            return columns, read_offer(columns, drawn, self._schemas)[0]
        n_arms = len(self._fixed(question))
        columns = learn_row(columns, question, None, self._schemas)
        x = self._encoded(columns, question)
        if x.ndim != 1 or not is_single or not 0 <= arm < n_arms:
            raise InvalidInput(
                f"decision must have one of {n_arms} arms in one context; got arm "
                f"{arm!r:.60}"
            )
        return columns, x

    @property
    def _schemas(self) -> Schemas:
        return Schemas(self.schema, self.arm_schema)

    def _with_columns(self, state: RefittedState, columns: RowColumns) -> RefittedState:
        """Return the state with further columns. They are 0 or missing in earlier
        rows."""
        if columns is state.columns:
            return state
        n_rows, n_before = state.rows.shape
        more = np.zeros(len(columns.is_own))
        if state.learnt:
            more = columns.fill[n_before:]
        rows = np.concatenate([state.rows, np.tile(more, (n_rows, 1))], axis=1)
        return state._replace(columns=columns, rows=rows)

    def _due(self, fitted: int) -> int:
        if fitted:
            return next_refit(fitted, self.pace, self.window)
        return self.first

    def _refit(self, state: RefittedState) -> RefittedState:
        """Fit the models. Return the state of this refit, with space for the rows until
        the next one."""
        room = min(self._due(state.learnt), self.window + self.window // 2)
        more = room - len(state.rows)
        state = state._replace(fitted=state.learnt, width=state.rows.shape[-1])
        table = self._table(state)
        x, rewards = table
        content = repr(x.shape).encode() + x.tobytes() + rewards.tobytes()
        digest = blake2b(content, digest_size=16).digest()
        for refits in self._refits:
            refits.at(digest, lambda: table)
        return state._replace(
            digest=np.frombuffer(digest, np.uint8).copy(),
            rows=longer(state.rows, more),
            arms=longer(state.arms, more),
            rewards=longer(state.rewards, more),
        )

    def _table(self, state: RefittedState) -> TrainingRows:
        """Return the rows of the last refit, with their arms, and rewards, oldest
        first."""
        n = min(state.fitted, self.window)
        at = latest(state.fitted, n, len(state.rows))
        rows = state.rows[at, : state.width]
        return self._with_arms(rows, state.arms[at]), state.rewards[at]

    def _with_arms(self, x: Array, arms: Ints) -> Array:
        """Append K indicator columns of the arm to the numbers (n, d), giving (n, d +
        K). If arms are passed in the call, return the numbers unchanged."""
        if self.arms is None:
            return x
        one_hot = np.eye(len(self.arms))[arms]
        return np.concatenate([x, one_hot], axis=-1)

    def _fixed(self, question: Any) -> Sequence[str]:
        """Return the arms of the bank. Raise for a call with its own arms, and for a
        bank without arms."""
        if self.arms is None:
            raise arms_needed(self)
        refuse_offer(self, question)
        return self.arms

    def _model_rows(self, state: RefittedState, question: Any) -> Array:
        """Return the rows (…, K, m) for the models, in the columns of the last fit."""
        width = state.width
        if self.arms is None and isinstance(question, AnyOffer):
            return read_offer(state.columns, question, self._schemas)[..., :width]
        n_arms = len(self._fixed(question))
        x = self._encoded(state.columns, question)[..., :width]
        *lead, n_columns = x.shape
        flat = x.reshape(prod(lead), n_columns)
        arms = np.tile(np.arange(n_arms), len(flat))
        rows = self._with_arms(np.repeat(flat, n_arms, axis=0), arms)
        return rows.reshape(*lead, n_arms, rows.shape[-1])

    def _encoded(self, columns: RowColumns, context: Context) -> Array:
        """Return the numbers (…, d) of contexts if arms are fixed."""
        return read_context(columns.context, context, self.schema)
