"""ModelExperts: a dict of trained models, each an expert."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.arrays import Array, Bools, check_range, finite
from oddsmith.contexts import (
    NamedRow,
    as_array,
    check_columns,
    has_names,
    is_batch,
    is_table,
    length,
    missing,
    numbers,
    rows,
    shown,
)
from oddsmith.decision import Context, State
from oddsmith.errors import ExpertFailed, InvalidInput, MissingExtra, OddsmithError
from oddsmith.experts.base import Experts, as_floats, check_names, no_infinity, raised
from oddsmith.weights import greedy

__all__ = ["ModelExperts"]


@dataclass(frozen=True, eq=False)
class ModelExperts(Experts):
    """Experts from models with `predict_proba` or `predict` (scikit-learn, LightGBM, XGBoost, your own).

    What a model is asked depends on what it is:
      * `arm_features` (K, m) given: one row [context, features of the arm] per arm, the answer is the reward's mean;
      * `arm_features="context"`: the context already has a row per arm, (…, K, d);
      * a dict of arm name: model, or a list of K models: each arm's model is asked about the context;
      * else one model answers for all arms: K columns, by `classes_` where the model has the arms as classes.

    Predictions are clipped to `clip`, visibly: votes are taken before clipping, which would make ties. Each model is
    called once per batch (once per arm, where each arm has its own). Dicts and rows with names reach the models as a
    data frame; a model that was fitted on one gets its columns in that order, NaN where one is absent, and no others.
    `version` names the models' training run: it is the part of them that a saved agent remembers.

    >>> class Fan:
    ...     def predict(self, X):
    ...         return np.array([[0.1, 0.7, 1.0]] * len(X))
    >>> ModelExperts({"fan": Fan()}, arms=["home", "draw", "away"]).predict((), np.zeros(4))
    array([[0.1 , 0.7 , 0.99]])
    """

    models: Mapping[str, Any]
    arms: Sequence[str]
    arm_features: npt.ArrayLike | None = None
    clip: tuple[float, float] = (0.01, 0.99)
    version: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.models, Mapping):
            raise InvalidInput(f"models must be a dict of name: model; got {type(self.models).__name__}")
        check_names("names", self.models)
        object.__setattr__(self, "arms", check_names("arms", self.arms))
        if not isinstance(self.clip, tuple) or len(self.clip) != 2:
            raise InvalidInput(f"clip must be a pair (low, high); got {self.clip!r}")
        check_range(*self.clip)
        object.__setattr__(self, "models", {name: self._per_arm(name, model) for name, model in self.models.items()})
        if self.arm_features is not None and not isinstance(self.arm_features, str):
            features = finite("arm_features", self.arm_features, ndim=2)
            if len(features) != len(self.arms):
                raise InvalidInput(
                    f"arm_features must have one row for each of {len(self.arms)} arms; got {len(features)}"
                )
            object.__setattr__(self, "arm_features", features)
        elif self.arm_features not in (None, "context"):
            raise InvalidInput(f'arm_features must be rows of numbers or "context"; got {self.arm_features!r}')

    @property
    def names(self) -> Sequence[str]:
        return tuple(self.models)

    @property
    def _bare(self) -> bool:
        """Whether the models know columns by their places alone."""
        return all(getattr(model, "bare", False) for model in self.models.values())

    @property
    def unversioned(self) -> bool:
        return self.version is None

    def split(self) -> tuple["ModelExperts", ...]:
        """One bank for each model, so that a guard can tell them apart."""
        rest = (self.arms, self.arm_features, self.clip, self.version)
        return tuple(ModelExperts({name: model}, *rest) for name, model in self.models.items())

    def predict(self, state: State, context: Context) -> Array:
        return np.clip(self._raw(context), *self.clip)

    def advise(self, state: State, context: Context, eligible: Bools | None = None) -> tuple[Array, Array]:
        raw = self._raw(context)
        return np.clip(raw, *self.clip), greedy(raw, eligible)

    def _raw(self, context: Context) -> Array:
        """Unclipped predictions (…, N, K), arms outermost in memory."""
        rows, lead = self._rows(context)
        mean = np.stack([self._ask_or_fail(name, model, rows) for name, model in self.models.items()], axis=-1)
        return np.swapaxes(mean.reshape(*lead, len(self.arms), len(self.models)), -1, -2)

    def _rows(self, context: Context) -> tuple[Any, tuple[int, ...]]:
        """The rows for the models, and the batch axes."""
        if self.arm_features is None and has_names(context) and not self._bare:
            return (_frame(context), (length(context),)) if is_batch(context) else (_frame([context]), ())
        by_arms = isinstance(self.arm_features, np.ndarray)
        features = np.atleast_1d(numbers(context, _NAMES)) if by_arms else _as_features(context)
        n_arms = len(self.arms)
        if features.shape[-1] == 0 and not by_arms:
            raise InvalidInput(f"context must have at least one number; got none, shape {features.shape}")
        if self.arm_features is None:
            return features.reshape(-1, features.shape[-1]), features.shape[:-1]
        if isinstance(self.arm_features, str):
            if features.shape[-2:-1] != (n_arms,):
                raise InvalidInput(f"context must have shape (…, {n_arms}, d), a row per arm; got {features.shape}")
            return features.reshape(-1, features.shape[-1]), features.shape[:-2]
        lead = features.shape[:-1]
        spread = np.broadcast_to(features[..., None, :], (*lead, n_arms, features.shape[-1]))
        own = np.asarray(self.arm_features)
        arms = np.broadcast_to(own, (*lead, *own.shape))
        joined = np.concatenate([spread, arms], axis=-1)
        return joined.reshape(-1, joined.shape[-1]), lead

    def _ask_or_fail(self, name: str, model: Any, rows: Any) -> Array:
        """The answers of `_ask`; an exception of the model becomes one sentence that names the model."""
        try:
            return self._ask(name, model, rows)
        except OddsmithError:
            raise
        except Exception as error:
            raise raised(f"model {name!r}", error) from error

    def _ask(self, name: str, model: Any, rows: Any) -> Array:
        """One model's answers for all rows and arms, flat (rows · K)."""
        n = len(rows)
        if isinstance(model, tuple):
            return np.stack([_mean_reward(name, one, _ordered(rows, one)) for one in model], axis=-1).reshape(-1)
        rows = _ordered(rows, model)
        if self.arm_features is not None:
            return _mean_reward(name, model, rows)
        classes = getattr(model, "classes_", None) if hasattr(model, "predict_proba") else None
        mean = _numbers(name, model.predict_proba(rows) if hasattr(model, "predict_proba") else model.predict(rows))
        if classes is not None and mean.ndim == 2 and mean.shape[1] == len(classes):
            mean = _by_arm(name, mean, classes, self.arms)
        if mean.shape != (n, len(self.arms)):
            allowed = f"{n} x {len(self.arms)} numbers, one per arm"
            raise ExpertFailed(f"model {name!r} must give {allowed}; got {mean.shape}", kind="shape")
        return mean.reshape(-1)

    def _per_arm(self, name: str, model: object) -> Any:
        """A tuple of K models where each arm has its own, in the order of the arms; else the model."""
        if isinstance(model, Mapping):
            if set(model) != set(self.arms):
                raise InvalidInput(
                    f"model {name!r} must have one model for each arm {list(self.arms)}; got {list(model)}"
                )
            model = [model[arm] for arm in self.arms]
        each = tuple(model) if isinstance(model, Sequence) else (model,)
        if isinstance(model, Sequence) and len(each) != len(self.arms):
            raise InvalidInput(f"model {name!r} must be {len(self.arms)} models, one per arm; got {len(each)}")
        for one in each:
            if not hasattr(one, "predict_proba") and not hasattr(one, "predict"):
                raise InvalidInput(f"model {name!r} must have predict_proba or predict; got {type(one).__name__}")
        return each if isinstance(model, Sequence) else model


def _as_features(context: Context) -> Array:
    """A context, or a batch of them, as an array of at least one axis; text stays for models that read it."""
    if has_names(context) or isinstance(context, np.ma.MaskedArray):
        return np.atleast_1d(numbers(context, _NAMES))
    features = np.atleast_1d(as_array(context))
    if features.dtype.kind in "cmMSV":
        return np.atleast_1d(numbers(features))  # which refuses them
    if features.dtype == np.object_:
        try:
            return numbers(features)
        except InvalidInput:
            return features
    return features


def _mean_reward(name: str, model: Any, rows: Any) -> Array:
    """E[reward] per row: the probability of the second of two classes, or the regression's value."""
    classifier = hasattr(model, "predict_proba")
    mean = _numbers(name, model.predict_proba(rows) if classifier else model.predict(rows))
    if mean.ndim == 2 and mean.shape[1] == 2:
        mean = mean[:, 1]
    elif mean.ndim == 2 and mean.shape[1] == 1:  # a classifier trained on one class only: its label is the sure reward
        mean = np.full(len(mean), float(model.classes_[0])) if classifier else mean[:, 0]
    if mean.shape != (len(rows),):
        wanted = f"one number per row, {len(rows)} of them"
        raise ExpertFailed(f"model {name!r} must give {wanted}; got shape {mean.shape}", kind="shape")
    return mean


def _by_arm(name: str, mean: Array, classes: npt.ArrayLike, arms: Sequence[str]) -> Array:
    """A classifier's columns in the order of the arms: its classes are names of arms, or else 0 … K-1.

    An arm that the classifier never saw has probability 0.
    """
    labels = np.asarray(classes).tolist()
    texts = [str(label) for label in labels]
    if set(texts) <= set(arms):
        places = [arms.index(text) for text in texts]
    elif labels == list(range(len(arms))):
        places = labels
    else:
        allowed = f"classes among the arms {list(arms)}, or 0 … {len(arms) - 1}"
        raise ExpertFailed(f"model {name!r} must have {allowed}; got {texts}")
    by_arm = np.zeros((len(mean), len(arms)))
    by_arm[:, places] = mean
    return by_arm


def _numbers(name: str, mean: object) -> Array:
    source = f"model {name!r}"
    return no_infinity(as_floats(mean, source=source).astype(np.float64, copy=False), source=source)


def _frame(contexts: Context) -> Any:
    """Contexts with names as a data frame: polars frames as they are, everything else in pandas, NaN for missing.

    A row alone becomes what it is in a batch. Dicts have no order: their columns are sorted, and marked as unordered.
    """
    if is_table(contexts) and hasattr(contexts, "to_dicts"):
        return contexts
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtra(f"contexts with names need pandas (the extra oddsmith[lab]); {error}") from error
    if is_table(contexts):
        return _with_nan(contexts if hasattr(contexts, "iloc") else _converted(contexts.to_pandas))
    each = rows(contexts)
    if wrong := [row for row in each if not isinstance(row, Mapping)]:
        raise InvalidInput(f"contexts must be in one form; got a dict and {shown(wrong[0])}: bring dicts or arrays")
    records = [{name: np.nan if missing(value) else value for name, value in row.items()} for row in each]
    frame = _converted(lambda: pd.DataFrame(records))
    empty = [name for name in frame.columns if frame[name].isna().all()]
    frame = frame.astype(dict.fromkeys(empty, object))  # which suits numbers and text alike
    if all(isinstance(row, NamedRow) for row in each):
        return frame
    frame = frame[sorted(frame.columns, key=str)]
    frame.attrs[_UNORDERED] = True
    return frame


def _converted(convert: Callable[[], Any]) -> Any:
    """A frame that pandas makes; what it cannot hold is refused."""
    try:
        return convert()
    except Exception as error:  # pyarrow and pandas have their own reasons
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise InvalidInput(f"contexts must be what a pandas frame can hold; {why:.160}") from error


def _with_nan(frame: Any) -> Any:
    """A pandas frame whose missing values are NaN, in columns of numpy's types: what models read."""
    changed = {}
    for place, (name, kind) in enumerate(zip(frame.columns, frame.dtypes, strict=True)):
        if kind == "category" or (isinstance(kind, np.dtype) and kind != np.object_):
            continue
        column, gaps = frame.iloc[:, place], frame.iloc[:, place].isna()
        if not isinstance(kind, np.dtype) and getattr(kind, "kind", "O") in "iufb":
            changed[name] = column.to_numpy(np.float64, na_value=np.nan) if gaps.any() else column.to_numpy()
        elif gaps.any() and getattr(kind, "kind", "O") == "O":
            changed[name] = column.astype(object).where(~gaps, np.nan)
    return frame.assign(**changed) if changed and frame.columns.is_unique else frame


def _ordered(frame: Any, model: object) -> Any:
    """The columns that a model was fitted on, in its order; NaN where the frame has none of that name."""
    if not is_table(frame):
        return frame
    fitted, columns = tuple(str(name) for name in getattr(model, "feature_names_in_", ())), tuple(frame.columns)
    if not fitted and hasattr(model, "n_features_in_") and getattr(frame, "attrs", {}).get(_UNORDERED):
        raise InvalidInput(
            f"context must be numbers in an array, as those the model was fitted on; got a dict, whose order means "
            f"nothing: fit it on a data frame, or {_NAMES}"
        )
    if not fitted or fitted == columns:
        return frame
    if not set(fitted) <= set(columns):
        check_columns(fitted, columns)
        if not hasattr(frame, "reindex"):
            frame = _frame(rows(frame))
        return frame.reindex(columns=list(fitted))
    return frame[list(fitted)]


_UNORDERED = "oddsmith: columns of dicts"
_NAMES = "ask the experts through Encoded(experts, schema), which reads names"
