"""Cache of the last fits of a model, keyed by the training rows. Missing fits are
computed again."""

import threading
from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.core.errors import ExpertFailed, InvalidInput, MissingExtra
from oddsmith.core.experts import failure_of

__all__ = ["FittedModel", "Refits", "TrainingRows", "settings", "unfitted"]

TrainingRows: TypeAlias = tuple[Array, Array]
"""The rows (n, m) and rewards (n) for fitting a model."""
# Maximum number of cached fits, for several agents that share the policy.
_MOST_FITS = 4


class FittedModel(NamedTuple):
    """A fitted model with one substitute per column for missing numbers, or the reason
    why fitting failed."""

    name: str
    model: Any
    missing: Array
    failure: str = ""

    def predict(self, x: Array) -> Array:
        """Return the model's predictions for the rows of x; all are finite."""
        if self.failure:
            raise ExpertFailed(self.failure)
        try:
            answer = self.model.predict(_complete(x, self.missing))
            mean = np.asarray(answer, dtype=np.float64)
        except Exception as error:  # user code may raise any exception
            raise failure_of(f"predict of model {self.name!r}", error) from error
        if mean.shape not in ((len(x),), (len(x), 1)):
            wanted = f"one number per row, {len(x)} of them"
            raise ExpertFailed(
                f"model {self.name!r} must return {wanted}; got {mean.shape}",
                kind="shape",
            )
        if not np.isfinite(mean).all():
            got = mean[~np.isfinite(mean)][0]
            raise ExpertFailed(
                f"model {self.name!r} must return finite numbers; got {got}",
                kind="values",
            )
        return mean.reshape(-1)


class Refits:
    """The last fits of one model by the digest of their rows. Threads wait if another
    thread is computing the same fit."""

    def __init__(self, name: str, model: Any) -> None:
        self.name = name
        self.model = model
        self._fits: dict[bytes, FittedModel] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> Any:
        # Do not pickle the cache: another process fits again.
        return Refits, (self.name, self.model)

    def at(self, digest: bytes, table: Callable[[], TrainingRows]) -> FittedModel:
        """Return the fit to the rows with this digest; fit to `table` if it is not in
        the cache."""
        with self._lock:
            fit = self._fits.pop(digest, None)
            if fit is None:
                fit = self._fit(*table())
            # Move it to the end, so that the first entry is the least recently used.
            self._fits[digest] = fit
            if len(self._fits) > _MOST_FITS:
                del self._fits[next(iter(self._fits))]
            return fit

    def _fit(self, x: Array, rewards: Array) -> FittedModel:
        missing = np.zeros(x.shape[1])
        try:
            model = _copy(self.model)
            missing = _substitutes(self.model, x)
            model.fit(_complete(x, missing), rewards.copy())
        except Exception as error:  # user code may raise any exception
            failure = failure_of(f"fit of model {self.name!r}", error)
            return FittedModel(self.name, None, missing, str(failure))
        return FittedModel(self.name, model, missing)


def unfitted(name: str, model: Any, seed: int) -> Any:
    """Return an unfitted copy of the model with a fixed number in every
    `random_state`."""
    is_regressor = hasattr(model, "fit") and hasattr(model, "predict")
    is_regressor = is_regressor and not hasattr(model, "predict_proba")
    if isinstance(model, type) or not is_regressor:
        kind = type(model).__name__
        if isinstance(model, type):
            kind = f"the class {model.__name__}"
        raise InvalidInput(
            f"model {name!r} must be a regressor with fit and predict; got {kind}"
        )
    copy = _copy(model)
    if not hasattr(copy, "get_params"):
        return copy
    for key, value in copy.get_params().items():
        is_random_state = key.split("__")[-1] == "random_state"
        if is_random_state and not isinstance(value, int | np.integer):
            copy.set_params(**{key: seed})
    return copy


def _copy(model: Any) -> Any:
    """Return a copy of the model before any fit."""
    if not hasattr(model, "get_params"):
        return deepcopy(model)
    try:
        from sklearn.base import clone
    except ImportError as error:
        raise MissingExtra(
            "models with get_params need scikit-learn (the extra oddsmith[models]); "
            f"{error}"
        ) from error
    return clone(model)


def settings(value: Any) -> str:
    """Return parameters as text, the same in every process. A value that is not a
    number, text or model is written as its name.

    >>> settings({"depth": 3, "loss": np.log, "seeds": (1, None)})
    '(depth=3, loss=log, seeds=[1, None])'
    """
    if hasattr(value, "get_params"):
        return type(value).__name__ + settings(value.get_params(deep=False))
    if isinstance(value, dict):
        pairs = [f"{key}={settings(inner)}" for key, inner in value.items()]
        return f"({', '.join(pairs)})"
    if isinstance(value, list | tuple | np.ndarray):
        items = [settings(inner) for inner in value]
        return f"[{', '.join(items)}]"
    plain = value.item() if isinstance(value, np.generic) else value
    if plain is None or isinstance(plain, bool | int | float | str):
        return repr(plain)
    return str(getattr(value, "__qualname__", type(value).__qualname__))


def _substitutes(model: Any, x: Array) -> Array:
    """Return the substitute for missing numbers per column: NaN if the model accepts
    it, otherwise the column's mean, or 0 for an empty column."""
    takes_nan = False
    if hasattr(model, "__sklearn_tags__"):
        takes_nan = bool(model.__sklearn_tags__().input_tags.allow_nan)
    there = ~np.isnan(x)
    total = np.where(there, x, 0.0).sum(axis=0)
    count = there.sum(axis=0)
    means: Array = total / np.maximum(count, 1)
    if takes_nan:
        means[count > 0] = np.nan
    return means


def _complete(x: Array, missing: Array) -> Array:
    """Return a copy of x with the substitutes for missing numbers."""
    return np.where(np.isnan(x), missing, x)
