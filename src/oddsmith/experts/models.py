"""ModelExperts: a bank of trained models by name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.contexts.numbers import numbers
from oddsmith.contexts.offers import arm_records, arm_rows
from oddsmith.core.arrays import Array, Bools, check_range, finite
from oddsmith.core.contexts import as_array, has_names, is_batch, length
from oddsmith.core.decision import Context, State
from oddsmith.core.errors import ExpertFailed, InvalidInput, OddsmithError
from oddsmith.core.experts import (
    Experts,
    arms_needed,
    as_floats,
    failure_of,
    no_infinity,
    refuse_offer,
)
from oddsmith.core.names import check_names
from oddsmith.core.offer import AnyOffer, Offer
from oddsmith.core.weights import greedy
from oddsmith.experts.model_frames import (
    NAMES,
    as_frame,
    check_arms_differ,
    order_columns,
)
from oddsmith.experts.prediction_clip import CLIP

__all__ = ["ModelExperts"]

_BY_COLUMN = (
    "create ModelExperts without arms and arm_features, and call decide(context, "
    "arms={'gift': {'offer': 'gift'}, …}) with a dict of each arm's columns; or give "
    "a dict of models by arm"
)
_WAYS_OUT = (
    f"if it predicts the reward, {_BY_COLUMN}; if it predicts the best arm, fit it on "
    "the arms' names"
)


@dataclass(frozen=True, eq=False)
class ModelExperts(Experts):
    """Experts from models with `predict_proba` or `predict` (scikit-learn, LightGBM,
    XGBoost, your own).

    The input of a model depends on the settings:
      * `arm_features` (K, m): one row [context, features of the arm] per arm, and the
        model predicts the mean reward;
      * `arm_features="context"`: the context already has a row per arm, (…, K, d);
      * a dict of arm name: model, or a list of K models: each arm's model gets the
        context;
      * otherwise one model predicts all arms in K columns, which `classes_` assigns to
        arms if these are the classes of the model.

    Without `arms`, the arms are passed in each call. Each arm gets one row, [context,
    features of the arm], or a row of a data frame with the names of both, and the model
    predicts the mean reward.

    Predictions are clipped to `clip`; votes are computed before, because clipping makes
    ties. `explain` names the experts whose predictions are at an end of the range. Each
    model is called once per batch (once per arm, if each arm has its own). Dicts and
    rows with names become a data frame. A model that was fitted on one gets exactly its
    columns, in that order, with NaN for absent ones. If a column is absent and no
    feature of the arms is a column of the model, the call raises an error, because all
    rows would be the same. `version` names the models' training run; a saved agent
    contains it instead of the models.

    >>> class Fan:
    ...     def predict(self, X):
    ...         return np.array([[0.1, 0.7, 1.0]] * len(X))
    >>> ModelExperts({"fan": Fan()}, arms=["home", "draw", "away"]).predict(
    ...     (), np.zeros(4)
    ... )
    array([[0.1   , 0.7   , 0.9999]])
    """

    models: Mapping[str, Any]
    arms: Sequence[str] | None = None
    arm_features: npt.ArrayLike | None = None
    clip: tuple[float, float] = CLIP
    version: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.models, Mapping):
            raise InvalidInput(
                "models must be a dict of name: model; got "
                f"{type(self.models).__name__}"
            )
        check_names("names", self.models)
        if self.arms is not None:
            object.__setattr__(self, "arms", check_names("arms", self.arms))
        elif self.arm_features is not None:
            raise InvalidInput(
                "arm_features must be left out if arms are passed in the call, "
                "because features are passed with the arms"
            )
        if not isinstance(self.clip, tuple) or len(self.clip) != 2:
            raise InvalidInput(f"clip must be a pair (low, high); got {self.clip!r}")
        check_range(*self.clip)
        models = {
            name: self._per_arm(name, model) for name, model in self.models.items()
        }
        object.__setattr__(self, "models", models)
        if self.arm_features is not None and not isinstance(self.arm_features, str):
            features = _arm_numbers(self.arm_features)
            if len(features) != len(self._arms):
                raise InvalidInput(
                    f"arm_features must have one row for each of {len(self._arms)} "
                    f"arms; got {len(features)}"
                )
            object.__setattr__(self, "arm_features", features)
        elif self.arm_features not in (None, "context"):
            raise InvalidInput(
                'arm_features must be rows of numbers or "context"; got '
                f"{self.arm_features!r}"
            )

    @property
    def names(self) -> Sequence[str]:
        return tuple(self.models)

    @property
    def takes_offers(self) -> bool:
        return self.arms is None

    @property
    def _arms(self) -> Sequence[str]:
        """The arm names; raise if arms are passed in the call."""
        if self.arms is None:
            raise arms_needed(self)
        return self.arms

    @property
    def _bare(self) -> bool:
        """Whether the models identify columns only by position."""
        return all(getattr(model, "bare", False) for model in self.models.values())

    @property
    def unversioned(self) -> bool:
        return self.version is None

    def split(self) -> tuple["ModelExperts", ...]:
        """Return one bank per model, so that a guard can handle their failures
        separately."""
        parts = list[ModelExperts]()
        for name, model in self.models.items():
            parts.append(replace(self, models={name: model}))
        return tuple(parts)

    def predict(self, state: State, context: Context) -> Array:
        return np.clip(self._raw(context), *self.clip)

    def advise(
        self, state: State, context: Context, eligible: Bools | None = None
    ) -> tuple[Array, Array]:
        raw = self._raw(context)
        return np.clip(raw, *self.clip), greedy(raw, eligible)

    def prediction_bounds(self, state: State) -> Array:
        return np.repeat(np.array([self.clip]), len(self.models), axis=0)

    def _raw(self, context: Context) -> Array:
        """Return unclipped predictions (…, N, K), arms outermost in memory."""
        if isinstance(context, AnyOffer):
            rows = self._offer_rows(context)
            shape = (*context.lead, len(context.arms))
        else:
            rows, lead = self._rows(context)
            shape = (*lead, len(self._arms))
        models = self.models.items()
        means = [self._ask_or_fail(name, model, rows) for name, model in models]
        mean = np.stack(means, axis=-1).reshape(*shape, len(means))
        return np.swapaxes(mean, -1, -2)

    def _offer_rows(self, offer: AnyOffer) -> Any:
        """Return a row for each arm that is passed in the call: a frame if context or
        features have names."""
        if self.arms is not None:
            refuse_offer(self, offer)
        if self._bare or not any(map(_has_names, offer.offers)):
            rows = arm_rows(offer)
            return rows.reshape(-1, rows.shape[-1])
        frame = as_frame(arm_records(offer))
        # With one arm, columns of different arms cannot be mixed up.
        if len(offer.arms) == 1:
            return frame
        of_arms = set[str]()
        for one in offer.offers:
            for row in (one.features or {}).values():
                of_arms.update(str(name) for name in row or ())
        for name, model in self.models.items():
            check_arms_differ(frame, model, name=name, of_arms=of_arms)
        return frame

    def _rows(self, context: Context) -> tuple[Any, tuple[int, ...]]:
        """Return the rows for the models, and the batch axes."""
        if self.arm_features is None and has_names(context) and not self._bare:
            if is_batch(context):
                return as_frame(context), (length(context),)
            return as_frame([context]), ()
        if isinstance(self.arm_features, np.ndarray):
            features = np.atleast_1d(numbers(context, NAMES))
            return self._with_arm_features(features, self.arm_features)
        features = _as_features(context)
        *lead, n_columns = features.shape
        if n_columns == 0:
            raise InvalidInput(
                "context must have at least one number; got none, shape "
                f"{features.shape}"
            )
        if self.arm_features == "context":
            n_arms = len(self._arms)
            if features.shape[-2:-1] != (n_arms,):
                raise InvalidInput(
                    f"context must have shape (…, {n_arms}, d), a row per arm; got "
                    f"{features.shape}"
                )
            lead = lead[:-1]
        return features.reshape(-1, n_columns), tuple(lead)

    def _with_arm_features(
        self, features: Array, own: Array
    ) -> tuple[Array, tuple[int, ...]]:
        """Return a row [context, features of the arm] for each arm, and the batch
        axes."""
        *lead, n_columns = features.shape
        n_arms = len(own)
        contexts = np.broadcast_to(features[..., None, :], (*lead, n_arms, n_columns))
        arms = np.broadcast_to(own, (*lead, *own.shape))
        rows = np.concatenate([contexts, arms], axis=-1)
        return rows.reshape(-1, rows.shape[-1]), tuple(lead)

    def _ask_or_fail(self, name: str, model: Any, rows: Any) -> Array:
        """Return the answers of `_ask`. Convert an exception of the model to an error
        of one sentence with the model's name."""
        try:
            return self._ask(name, model, rows)
        except OddsmithError:
            raise
        except Exception as error:
            raise failure_of(f"model {name!r}", error) from error

    def _ask(self, name: str, model: Any, rows: Any) -> Array:
        """Return one model's answers for all rows and arms, flat (rows · K)."""
        if isinstance(model, tuple):
            means = [_mean_reward(name, one, order_columns(rows, one)) for one in model]
            return np.stack(means, axis=-1).reshape(-1)
        n = len(rows)
        rows = order_columns(rows, model)
        if self.arm_features is not None or self.arms is None:
            return _mean_reward(name, model, rows)
        mean = _call(name, model, rows)
        if hasattr(model, "predict_proba"):
            classes = getattr(model, "classes_", None)
            if classes is not None and mean.ndim == 2 and mean.shape[1] == len(classes):
                mean = _by_arm(name, mean, classes, self.arms)
        n_arms = len(self.arms)
        if mean.shape != (n, n_arms):
            allowed = f"{n} x {n_arms} numbers, one per arm"
            raise ExpertFailed(
                f"model {name!r} must return {allowed}; got {mean.shape}", kind="shape"
            )
        return mean.reshape(-1)

    def _per_arm(self, name: str, model: object) -> Any:
        """Return a tuple of K models in the order of the arms if each arm has its own,
        otherwise the model."""
        if not isinstance(model, Mapping | Sequence):
            _check_model(name, model)
            return model
        if self.arms is None:
            raise InvalidInput(
                f"model {name!r} must be one model for all arms if arms are passed in "
                "the call"
            )
        if isinstance(model, Mapping):
            if set(model) != set(self.arms):
                raise InvalidInput(
                    f"model {name!r} must have one model for each arm "
                    f"{list(self.arms)}; got {list(model)}"
                )
            model = [model[arm] for arm in self.arms]
        if len(model) != len(self.arms):
            raise InvalidInput(
                f"model {name!r} must be {len(self.arms)} models, one per arm; got "
                f"{len(model)}"
            )
        for one in model:
            _check_model(name, one)
        return tuple(model)


def _check_model(name: str, model: object) -> None:
    """Raise for an object without predict_proba and predict."""
    if not hasattr(model, "predict_proba") and not hasattr(model, "predict"):
        raise InvalidInput(
            f"model {name!r} must have predict_proba or predict; got "
            f"{type(model).__name__}"
        )


def _arm_numbers(features: object) -> Array:
    """Return the numbers (K, m) with one row per arm."""
    try:
        return finite("arm_features", features, ndim=2)
    except InvalidInput as error:
        raise InvalidInput(
            f"{' '.join(str(error).split())}; if models read features by name, "
            f"{_BY_COLUMN}"
        ) from error


def _has_names(offer: Offer) -> bool:
    if has_names(offer.context):
        return True
    features = offer.features or {}
    return any(map(has_names, features.values()))


def _as_features(context: Context) -> Array:
    """Return a context, or a batch of them, as an array with at least one axis. Text is
    not converted, because some models read it."""
    if has_names(context) or isinstance(context, np.ma.MaskedArray):
        return np.atleast_1d(numbers(context, NAMES))
    features = np.atleast_1d(as_array(context))
    if features.dtype.kind in "cmMSV":
        # raises, because these types are not numbers
        return np.atleast_1d(numbers(features))
    if features.dtype == np.object_:
        try:
            return numbers(features)
        except InvalidInput:
            return features
    return features


def _mean_reward(name: str, model: Any, rows: Any) -> Array:
    """Return E[reward] of each row: the probability of the second of two classes, or
    the regression's value."""
    mean = _call(name, model, rows)
    n_columns = mean.shape[1] if mean.ndim == 2 else 0
    if n_columns == 2:
        mean = mean[:, 1]
    elif n_columns == 1:
        mean = mean[:, 0]
        # A classifier trained on a single class always predicts that class.
        if hasattr(model, "predict_proba"):
            mean = np.full(len(mean), float(model.classes_[0]))
    if mean.shape != (len(rows),):
        wanted = f"one number per row, {len(rows)} of them"
        raise ExpertFailed(
            f"model {name!r} must return {wanted}; got shape {mean.shape}", kind="shape"
        )
    return mean


def _by_arm(
    name: str, mean: Array, classes: npt.ArrayLike, arms: Sequence[str]
) -> Array:
    """Return a classifier's columns in the order of the arms. Its classes are names of
    arms, or 0 … K-1.

    With two arms, the classes must be names, because 0 and 1 usually mean the reward.
    An arm that the classifier never saw has probability 0.
    """
    labels = np.asarray(classes).tolist()
    texts = [str(label) for label in labels]
    if set(texts) <= set(arms):
        places = [arms.index(text) for text in texts]
    elif labels == list(range(len(arms))) and len(arms) != 2:
        places = labels
    else:
        raise ExpertFailed(
            f"model {name!r} must have {_classes_allowed(arms)}; got {texts}: "
            f"{_WAYS_OUT}"
        )
    by_arm = np.zeros((len(mean), len(arms)))
    by_arm[:, places] = mean
    return by_arm


def _classes_allowed(arms: Sequence[str]) -> str:
    allowed = f"classes among the arms {list(arms)}"
    if len(arms) == 2:
        return allowed
    return f"{allowed}, or 0 … {len(arms) - 1}"


def _call(name: str, model: Any, rows: Any) -> Array:
    """Return the probabilities of a classifier, or the predictions of a regressor, as
    float64."""
    if hasattr(model, "predict_proba"):
        answer = model.predict_proba(rows)
    else:
        answer = model.predict(rows)
    source = f"model {name!r}"
    floats = as_floats(answer, source=source).astype(np.float64, copy=False)
    return no_infinity(floats, source=source)
