"""Reward models with cross-fitting: predictions for a row never use its own reward."""

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from oddsmith.contexts.numbers import numbers, numeric
from oddsmith.contexts.schema import Schema
from oddsmith.core.arrays import Array, Bools, Ints, whole
from oddsmith.core.contexts import has_names
from oddsmith.core.draw import Uniforms
from oddsmith.core.errors import InvalidInput, OddsmithError, import_extra
from oddsmith.evaluation.rows import rewarded_rows
from oddsmith.evaluation.slates import slates_of
from oddsmith.logs.progress import LINE_EVERY_S, progress
from oddsmith.logs.table import Log

__all__ = ["JoinedRows", "Regressor", "by_offers", "cross_fit", "fill_missing"]

# maximum number of arms with an indicator column; the most often drawn arms get one
_OWN_COLUMNS = 32


class Regressor(Protocol):
    """A scikit-learn regressor, or a classifier of the rewards 0 and 1, whose
    predict_proba is used."""

    def fit(self, X: Array, y: npt.NDArray[np.generic]) -> Self: ...
    def predict(self, X: Array) -> Array: ...


M = TypeVar("M", bound=Regressor)
_Predict: TypeAlias = Callable[[Regressor, Bools, Bools], Array]
"""A function that returns predicted rewards of some rows, from a clone of a model
fitted to other rows."""


def cross_fit(
    log: Log,
    model: Regressor,
    *,
    n_arms: int | None = None,
    folds: int = 5,
    seed: int = 0,
    blocks: bool = False,
    per_arm: bool = False,
    schema: Schema | None = None,
    arm_schema: Schema | None = None,
) -> Array:
    """Return predicted mean rewards (T, K) in [0, 1]. Each fold's rows are predicted by
    a clone of the model fitted to the other folds.

    A keyed hash of seed and row number assigns rows to folds. With `blocks`, folds are
    consecutive rows instead, which is safer if neighbouring rows are similar. Rows of
    one slate are in one fold. The model gets the context as numbers (arrays unchanged,
    otherwise encoded by a schema; without context a 1) followed by the arm as K zeros
    and ones. With `per_arm` there is one clone per arm that gets only the context; an
    arm without rewards in a fold is predicted to have the mean reward. Rows without
    reward are only predicted. A missing number is replaced by the mean of its column,
    and for each column with missing numbers an indicator column is appended, so that
    any model can be used. If arms were passed in the call, the model gets the context,
    the arm's features (arrays unchanged, otherwise encoded by `arm_schema`), and an
    indicator column for each of the 32 most often drawn arms; features of all arms are
    needed.

    >>> from sklearn.linear_model import Ridge
    >>> log = Log(arm=[0, 1] * 50, reward=[0.2, 0.8] * 50, context=np.zeros((100, 1)))
    >>> cross_fit(log, Ridge(1e-6))[0].round(3).tolist()
    [0.2, 0.8]
    """
    whole("folds", folds, low=2)
    arms = n_arms
    if arms is None:
        arms = log.n_arms
    has_more = log.offered is not None and arms > log.n_arms
    if arms < log.n_arms or has_more:
        raise InvalidInput(
            f"n_arms must be at least the log's {log.n_arms} (those, where it has "
            f"offers); got {arms}"
        )
    rewarded_rows(log)  # raises if the log has no reward at all
    known = ~np.isnan(log.reward)
    if known.sum() < 2 * folds:
        needed = f"at least {2 * folds} rows with rewards, 2 for each fold"
        raise InvalidInput(
            f"a reward model needs {needed}; got {int(known.sum())}: do without one "
            "(ips, snips)"
        )
    fold = _folds(log, folds, seed, blocks)
    if by_offers(log):
        predict = _offer_predictor(log, schema, arm_schema, per_arm)
    else:
        predict = _arm_predictor(log, schema, per_arm, arms)
    predicted = np.empty((len(log), arms))
    title = "folds of the reward model"
    for k in progress(range(folds), folds, title, every=LINE_EVERY_S):
        rows = fold == k
        train = ~rows & known
        if not train.any():
            raise InvalidInput(
                f"every fold's complement must have rewards; got none outside fold {k} "
                f"of {folds}"
            )
        if rows.any():
            predicted[rows] = predict(model, train, rows)
    wrong = int((~np.isfinite(predicted)).sum())
    if wrong:
        raise InvalidInput(f"the model must predict finite rewards; got {wrong} others")
    return np.clip(predicted, 0.0, 1.0)


def by_offers(log: Log) -> bool:
    """Return whether a reward model should treat arms as offers, because they differ
    from row to row or have features. Otherwise arms are fixed."""
    if log.offered is None:
        return False
    return log.arms is None or log.features is not None


def _arm_predictor(
    log: Log, schema: Schema | None, per_arm: bool, arms: int
) -> _Predict:
    """Return a model of fixed arms."""
    features = fill_missing(context_rows(log, schema))
    fit = _joint
    if per_arm:
        fit = _per_arm

    def predict(model: Regressor, train: Bools, rows: Bools) -> Array:
        past = _Rewarded(features[train], log.arm[train], log.reward[train])
        return fit(model, past, features[rows], arms)

    return predict


class _Rewarded(NamedTuple):
    """Rows to fit to: contexts (T, d), drawn arms (T,), rewards (T,)."""

    x: Array
    arm: Ints
    reward: Array


def _offer_predictor(
    log: Log, schema: Schema | None, arm_schema: Schema | None, per_arm: bool
) -> _Predict:
    """Return a model of arms that were passed in the call; predictions are 0 after the
    last arm of a row."""
    if per_arm:
        raise InvalidInput(
            "per_arm must be false if arms are passed in the call; got true"
        )
    joined = JoinedRows(log, schema, arm_schema)
    is_drawn = joined.place == log.arm[joined.row]
    drawn = np.flatnonzero(is_drawn)

    def predict(model: Regressor, train: Bools, rows: Bools) -> Array:
        numbers = joined.numbers(drawn[train])
        predict_rewards = _fit_predictor(model, numbers, log.reward[train])
        offered = np.flatnonzero(rows[joined.row])
        places = (joined.row[offered], joined.place[offered])
        predicted = np.zeros((len(log), log.n_arms))
        predicted[places] = predict_rewards(joined.numbers(offered))
        return predicted[rows]

    return predict


def _folds(log: Log, folds: int, seed: int, blocks: bool) -> Ints:
    """Return each row's fold (T,). Rows of one slate are in one fold, because later
    slots depend on earlier arms."""
    slates = slates_of(log)
    number = np.arange(len(log), dtype=np.int64) if slates is None else slates.number
    n = int(number.max(initial=-1)) + 1
    if blocks:
        return number * folds // n
    uniform = Uniforms(seed)
    places = [int(uniform(i) * folds) for i in range(n)]
    fold_of = np.array(places, dtype=np.int64)
    return fold_of[number]


def _joint(model: Regressor, past: _Rewarded, rows: Array, arms: int) -> Array:
    """Predict with one model of context and arm."""
    indicators = np.eye(arms)
    x = np.hstack([past.x, indicators[past.arm]])
    predict_rewards = _fit_predictor(model, x, past.reward)
    columns = []
    for arm in range(arms):
        of_arm = np.broadcast_to(indicators[arm], (len(rows), arms))
        columns.append(predict_rewards(np.hstack([rows, of_arm])))
    return np.stack(columns, axis=1)


def _per_arm(model: Regressor, past: _Rewarded, rows: Array, arms: int) -> Array:
    """Predict with one model per arm, of the context."""
    mean = past.reward.mean()
    predicted = np.full((len(rows), arms), mean)
    for arm in range(arms):
        own: Bools = past.arm == arm
        if own.any():
            own_rows = past.x[own]
            predict_rewards = _fit_predictor(model, own_rows, past.reward[own])
            predicted[:, arm] = predict_rewards(rows)
    return predicted


def _fit_predictor(
    model: Regressor, x: Array, reward: Array
) -> Callable[[Array], Array]:
    """Return a function from features to predicted rewards, of a clone fitted to these
    rows."""
    clone = import_extra("sklearn.base", "cross_fit needs", "models").clone
    if not hasattr(model, "predict_proba"):
        predict: Callable[[Array], Array] = _fit(clone(model), x, reward).predict
        return predict
    if not np.isin(reward, (0.0, 1.0)).all():
        raise InvalidInput(
            "a classifier needs rewards that are 0 or 1; got others: use a regressor"
        )
    if reward.min() == reward.max():
        return lambda rows: np.full(len(rows), reward[0])
    classifier = _fit(clone(model), x, reward.astype(np.int64))
    return lambda rows: classifier.predict_proba(rows)[:, 1]


def _fit(model: M, x: Array, reward: npt.NDArray[np.generic]) -> M:
    try:
        return model.fit(x, reward)
    except OddsmithError:
        raise
    except Exception as error:  # report any exception of a user's model as one sentence
        name = type(error).__name__
        raised = " ".join(f"{name}: {error}".split())
        raise InvalidInput(
            f"the reward model must fit {len(x)} rows of the log; {raised:.160}"
        ) from error


class JoinedRows:
    """Rows of numbers for a reward model of offers, one for each offered arm: the
    context, the arm's features, and an indicator for each of the most frequent arms.

    Frequent means drawn often. `row` and `place` (M,) contain the row of the log and
    the arm's position in the offer of this row.
    """

    def __init__(
        self, log: Log, schema: Schema | None = None, arm_schema: Schema | None = None
    ) -> None:
        log.require("models")
        n = len(log)
        sizes = np.fromiter(map(len, log.offered), dtype=np.int64, count=n)
        starts = np.cumsum(sizes) - sizes
        self.row = np.repeat(np.arange(n), sizes)
        self.place = np.arange(len(self.row)) - np.repeat(starts, sizes)
        self._context = fill_missing(context_rows(log, schema))
        self._feature, table = _features(log, arm_schema)
        self._table = fill_missing(table)
        self._name = _common_names(log)
        self._names = np.arange(self._name.max(initial=-1) + 1)

    def numbers(self, entries: Any) -> Array:
        """Return the numbers (m, d) of m of the M joined rows."""
        context = self._context[self.row[entries]]
        features = self._table[self._feature[entries]]
        names = self._name[entries]
        indicators = names[:, None] == self._names
        return np.hstack([context, features, indicators])


def context_rows(log: Log, schema: Schema | None) -> Array:
    """Return the contexts as numbers (T, d): arrays unchanged, otherwise encoded by a
    schema; without context a 1."""
    context = log.context
    if context is None:
        return np.ones((len(log), 1))
    if schema is not None:
        return schema.encode(context)
    if not has_names(context):
        return numeric(numbers(context).reshape(len(log), -1))
    return Schema.of(context).encode(context)


def fill_missing(features: Array) -> Array:
    """Return the features (T, d) without NaN. The column's mean replaces NaN, and
    indicator columns for missing values are appended."""
    missing = np.isnan(features)
    some = missing.any(axis=0)
    if not some.any():
        return features
    present = (~missing).sum(axis=0)
    totals = np.where(missing, 0.0, features).sum(axis=0)
    means = totals / np.maximum(present, 1)
    filled = np.where(missing, means, features)
    indicators = missing[:, some].astype(np.float64)
    return np.hstack([filled, indicators])


def _features(log: Log, schema: Schema | None) -> tuple[Ints, Array]:
    """Return the numbers of all distinct features, and the index of each arm's features
    in each row; without features there are no columns."""
    if log.features is None:
        n_offered = sum(map(len, log.offered))
        return np.zeros(n_offered, np.int64), np.zeros((1, 0))
    known: dict[int, int] = {}
    distinct: list[Any] = []
    which = []
    for names, features in zip(log.offered, log.features, strict=True):
        for name in names:
            own = None
            if features is not None:
                own = features[name]
            if id(own) not in known:
                known[id(own)] = len(distinct)
                distinct.append(own)
            which.append(known[id(own)])
    return np.array(which), _encode(distinct, schema)


def _encode(features: list[Any], schema: Schema | None) -> Array:
    """Return features as numbers (n, d), with NaN for None."""
    present = [one for one in features if one is not None]
    if not present:
        return np.zeros((len(features), 0))
    if schema is not None or has_names(present[0]):
        records = [{} if one is None else one for one in features]
        return (schema or Schema.of(present)).encode(records)
    width = np.atleast_1d(numbers(present[0])).size
    table = np.full((len(features), width), np.nan)
    for place, one in enumerate(features):
        if one is not None:
            table[place] = numbers(one)
    return numeric(table)


def _common_names(log: Log) -> Ints:
    """Return the index (M,) of each arm of each row among the most often drawn names,
    -1 for the others."""
    draws: Counter[str] = Counter()
    rows = zip(log.offered, log.arm.tolist(), strict=True)
    for names, arm in rows:
        draws[names[arm]] += 1
    common = [name for name, _ in draws.most_common(_OWN_COLUMNS)]
    number_of = {name: number for number, name in enumerate(common)}
    numbers_of_rows = []
    for names in log.offered:
        numbers_of_rows += [number_of.get(name, -1) for name in names]
    return np.array(numbers_of_rows, dtype=np.int64)
