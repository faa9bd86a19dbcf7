"""Fits of a model: a cache of the last few, each known by the rows it was made from and
made again where missing."""

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
"""The rows (n, m) and rewards (n) that a model is fitted to."""
# fits of a model that are kept: the current ones of as many agents that share a policy
_KEPT = 4


class FittedModel(NamedTuple):
    """A fitted model, and what stands for a missing number in each column; or why there
    is none."""

    name: str
    model: Any
    missing: Array
    failure: str = ""

    def predict(self, x: Array) -> Array:
        """The model's predictions for the rows of x, one finite number each."""
        if self.failure:
            raise ExpertFailed(self.failure)
        try:
            mean = np.asarray(
                self.model.predict(_complete(x, self.missing)), dtype=np.float64
            )
        except Exception as error:  # whatever user code raises
            raise failure_of(f"predict of model {self.name!r}", error) from error
        if mean.shape not in ((len(x),), (len(x), 1)):
            wanted = f"one number per row, {len(x)} of them"
            raise ExpertFailed(
                f"model {self.name!r} must give {wanted}; got {mean.shape}",
                kind="shape",
            )
        if not np.isfinite(mean).all():
            got = mean[~np.isfinite(mean)][0]
            raise ExpertFailed(
                f"model {self.name!r} must give finite numbers; got {got}",
                kind="values",
            )
        return mean.reshape(-1)


class Refits:
    """The last few fits of one model, by the digest of the rows; a thread that needs
    one under way waits for it."""

    def __init__(self, name: str, model: Any) -> None:
        self.name, self.model = name, model
        self._kept: dict[bytes, FittedModel] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> Any:
        # in another process, fits are made again
        return Refits, (self.name, self.model)

    def at(self, digest: bytes, table: Callable[[], TrainingRows]) -> FittedModel:
        """The fit to the rows of this digest, made from `table` if it is not kept."""
        with self._lock:
            fit = self._kept.pop(digest, None) or self._fit(*table())
            self._kept[digest] = fit  # the last one used is the last to go
            if len(self._kept) > _KEPT:
                del self._kept[next(iter(self._kept))]
            return fit

    def _fit(self, x: Array, rewards: Array) -> FittedModel:
        missing = np.zeros(x.shape[1])
        try:
            model, missing = _copied(self.model), _stand_ins(self.model, x)
            model.fit(_complete(x, missing), rewards.copy())
        except Exception as error:  # whatever user code raises
            return FittedModel(
                self.name,
                None,
                missing,
                str(failure_of(f"fit of model {self.name!r}", error)),
            )
        return FittedModel(self.name, model, missing)


def unfitted(name: str, model: Any, seed: int) -> Any:
    """A copy of the model as it was before any fit, with a number in every
    `random_state`."""
    verbs = (
        hasattr(model, "fit")
        and hasattr(model, "predict")
        and not hasattr(model, "predict_proba")
    )
    if isinstance(model, type) or not verbs:
        kind = (
            f"the class {model.__name__}"
            if isinstance(model, type)
            else type(model).__name__
        )
        raise InvalidInput(
            f"model {name!r} must be a regressor with fit and predict; got {kind}"
        )
    copy = _copied(model)
    for key, value in copy.get_params().items() if hasattr(copy, "get_params") else ():
        if key.split("__")[-1] == "random_state" and not isinstance(
            value, int | np.integer
        ):
            copy.set_params(**{key: seed})
    return copy


def _copied(model: Any) -> Any:
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
    """Parameters as text, the same in every process; what is neither number, text nor
    model is written as its name.

    >>> settings({"depth": 3, "loss": np.log, "seeds": (1, None)})
    '(depth=3, loss=log, seeds=[1, None])'
    """
    if hasattr(value, "get_params"):
        return type(value).__name__ + settings(value.get_params(deep=False))
    if isinstance(value, dict):
        return (
            "("
            + ", ".join(f"{key}={settings(inner)}" for key, inner in value.items())
            + ")"
        )
    if isinstance(value, list | tuple | np.ndarray):
        return "[" + ", ".join(settings(inner) for inner in value) + "]"
    plain = value.item() if isinstance(value, np.generic) else value
    printable = plain is None or isinstance(plain, bool | int | float | str)
    return (
        repr(plain)
        if printable
        else str(getattr(value, "__qualname__", type(value).__qualname__))
    )


def _stand_ins(model: Any, x: Array) -> Array:
    """For each column of x: NaN where the model takes it, else the mean of what is
    there; 0 where nothing is."""
    tags, there = (
        model.__sklearn_tags__() if hasattr(model, "__sklearn_tags__") else None,
        ~np.isnan(x),
    )
    takes_nan = tags is not None and bool(tags.input_tags.allow_nan)
    means: Array = np.where(there, x, 0.0).sum(axis=0) / np.maximum(
        there.sum(axis=0), 1
    )
    return np.where(there.any(axis=0) & takes_nan, np.nan, means)


def _complete(x: Array, missing: Array) -> Array:
    """A copy of x with what stands for missing numbers."""
    return np.where(np.isnan(x), missing, x)
