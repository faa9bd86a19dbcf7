"""Reward models, cross-fitted: no row's predictions have seen its own reward."""

from collections.abc import Callable
from typing import Protocol, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from oddsmith.contexts.schema import Schema
from oddsmith.core.arrays import Array, Bools, Ints, whole
from oddsmith.core.draw import Uniforms
from oddsmith.core.errors import InvalidInput, OddsmithError, import_extra
from oddsmith.evaluation.offer_rows import JoinedRows, complete, context_rows
from oddsmith.evaluation.rows import rewarded
from oddsmith.evaluation.slates import slates_of
from oddsmith.logs.progress import LINE_EVERY_S, progress
from oddsmith.logs.table import Log

__all__ = ["Regressor", "by_offers", "cross_fit"]


class Regressor(Protocol):
    """What scikit-learn calls a regressor (or a classifier of rewards 0 and 1, whose
    predict_proba is used)."""

    def fit(self, X: Array, y: npt.NDArray[np.generic]) -> Self: ...
    def predict(self, X: Array) -> Array: ...


M = TypeVar("M", bound=Regressor)
_Predict: TypeAlias = Callable[[Regressor, Bools, Bools], Array]
"""Predicted rewards of some rows, by a clone of a model fitted to others."""


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
    """Predicted mean rewards (T, K) in [0, 1]; each fold's rows by a clone of the model
    fitted to the other folds.

    A row's fold comes from a keyed hash of seed and row number, or with `blocks` from
    its place in time, which is safer where neighbours are alike; rows of one slate are
    in one fold. The model sees the context as numbers (arrays as they are, else by a
    schema; without context a 1) followed by the arm as K zeros and ones; with `per_arm`
    there is one clone per arm that sees the context only, and an arm without rewards in
    a fold is predicted the mean reward. Rows without reward are predicted only. A
    number that is missing is the mean of its column, and each column that has missing
    numbers is followed, behind all others, by one that is 1 where they are: so any
    model takes them. Where arms came with the call, the model sees the context, the
    arm's features (arrays as they are, else by `arm_schema`), and for the 32 arms drawn
    most a column of zeros and ones each; features of all arms are needed.

    >>> from sklearn.linear_model import Ridge
    >>> log = Log(arm=[0, 1] * 50, reward=[0.2, 0.8] * 50, context=np.zeros((100, 1)))
    >>> cross_fit(log, Ridge(1e-6))[0].round(3).tolist()
    [0.2, 0.8]
    """
    whole("folds", folds, low=2)
    arms = log.n_arms if n_arms is None else n_arms
    if arms < log.n_arms or (log.offered is not None and arms > log.n_arms):
        raise InvalidInput(
            f"n_arms must be at least the log's {log.n_arms} (those, where it has "
            f"offers); got {arms}"
        )
    known, predicted = ~np.isnan(log.reward), np.empty((len(log), arms))
    rewarded(log)  # without any reward, there is no estimator to do with
    if known.sum() < 2 * folds:
        needed = f"at least {2 * folds} rows with rewards, 2 for each fold"
        raise InvalidInput(
            f"a reward model needs {needed}; got {int(known.sum())}: do without one "
            "(ips, snips)"
        )
    fold = _folds(log, folds, seed, blocks)
    predict = _of_arms(log, schema, per_arm, arms)
    if by_offers(log):
        predict = _of_offers(log, schema, arm_schema, per_arm)
    for k in progress(
        range(folds), folds, "folds of the reward model", every=LINE_EVERY_S
    ):
        rows, train = fold == k, (fold != k) & known
        if not train.any():
            raise InvalidInput(
                f"every fold's complement must have rewards; got none outside fold {k} "
                f"of {folds}"
            )
        if rows.any():
            predicted[rows] = predict(model, train, rows)
    if wrong := int((~np.isfinite(predicted)).sum()):
        raise InvalidInput(
            f"the model must predict finite rewards; got {wrong} that are not"
        )
    return np.clip(predicted, 0.0, 1.0)


def by_offers(log: Log) -> bool:
    """Whether arms differ from row to row, or have features: else they are as good as
    fixed."""
    return log.offered is not None and (log.arms is None or log.features is not None)


def _of_arms(log: Log, schema: Schema | None, per_arm: bool, arms: int) -> _Predict:
    """A model of fixed arms."""
    features, fit = complete(context_rows(log, schema)), _per_arm if per_arm else _joint

    def predict(model: Regressor, train: Bools, rows: Bools) -> Array:
        return fit(
            model,
            features[train],
            log.arm[train],
            log.reward[train],
            features[rows],
            arms,
        )

    return predict


def _of_offers(
    log: Log, schema: Schema | None, arm_schema: Schema | None, per_arm: bool
) -> _Predict:
    """A model of arms that came with the call; 0 beyond those of a row."""
    if per_arm:
        raise InvalidInput(
            "per_arm must be false where arms come with the call; got true"
        )
    joined = JoinedRows(log, schema, arm_schema)
    drawn = np.flatnonzero(joined.place == log.arm[joined.row])

    def predict(model: Regressor, train: Bools, rows: Bools) -> Array:
        fitted, asked = (
            _fitted(model, joined.of(drawn[train]), log.reward[train]),
            np.flatnonzero(rows[joined.row]),
        )
        predicted = np.zeros((len(log), log.n_arms))
        predicted[joined.row[asked], joined.place[asked]] = fitted(joined.of(asked))
        return predicted[rows]

    return predict


def _folds(log: Log, folds: int, seed: int, blocks: bool) -> Ints:
    """Each row's fold (T,); rows that were decided together are in one, for the rest of
    a slate tells of its arms."""
    slates = slates_of(log)
    number = np.arange(len(log), dtype=np.int64) if slates is None else slates.number
    n = int(number.max(initial=-1)) + 1
    if blocks:
        return number * folds // n
    uniform = Uniforms(seed)
    return np.array([int(uniform(one) * folds) for one in range(n)], dtype=np.int64)[
        number
    ]


def _joint(
    model: Regressor, x: Array, arm: Ints, reward: Array, rows: Array, arms: int
) -> Array:
    """One model of context and arm."""
    fitted = _fitted(model, np.hstack([x, np.eye(arms)[arm]]), reward)
    columns = [
        np.hstack([rows, np.broadcast_to(np.eye(arms)[a], (len(rows), arms))])
        for a in range(arms)
    ]
    return np.stack([fitted(column) for column in columns], axis=1)


def _per_arm(
    model: Regressor, x: Array, arm: Ints, reward: Array, rows: Array, arms: int
) -> Array:
    """One model per arm, of the context."""
    predicted = np.full((len(rows), arms), reward.mean())
    for a in range(arms):
        own: Bools = arm == a
        if own.any():
            predicted[:, a] = _fitted(model, x[own], reward[own])(rows)
    return predicted


def _fitted(model: Regressor, x: Array, reward: Array) -> Callable[[Array], Array]:
    """A function from features to predicted rewards, of a clone fitted to these
    rows."""
    clone = import_extra("sklearn.base", "cross_fit needs", "models").clone
    if not hasattr(model, "predict_proba"):
        predict: Callable[[Array], Array] = _fit(clone(model), x, reward).predict
        return predict
    if not np.isin(reward, (0.0, 1.0)).all():
        raise InvalidInput(
            "a classifier needs rewards that are 0 or 1; got others: bring a regressor"
        )
    if reward.min() == reward.max():
        return lambda rows: np.full(len(rows), reward[0])
    fitted = _fit(clone(model), x, reward.astype(np.int64))
    return lambda rows: fitted.predict_proba(rows)[:, 1]


def _fit(model: M, x: Array, reward: npt.NDArray[np.generic]) -> M:
    try:
        return model.fit(x, reward)
    except OddsmithError:
        raise
    except Exception as error:  # whatever a user's model raises becomes one sentence
        raised = " ".join(f"{type(error).__name__}: {error}".split())
        raise InvalidInput(
            f"the reward model must fit {len(x)} rows of the log; {raised:.160}"
        ) from error
