"""ModelExperts: a dict of trained models, each an expert."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from oddsmith.core.prediction_clip import CLIP
from oddsmith.core.weights import greedy
from oddsmith.experts.model_frames import NAMES, as_frame, check_arms_differ, ordered

__all__ = ["ModelExperts"]

_BY_COLUMN = (
    "make ModelExperts without arms and arm_features, and call decide(context, "
    "arms={'gift': {'offer': 'gift'}, …}), a dict of each arm's columns; or give a "
    "dict of models by arm"
)
_WAYS_OUT = (
    f"if it predicts the reward, {_BY_COLUMN}; if it predicts the best arm, fit it on "
    "the arms' names"
)


@dataclass(frozen=True, eq=False)
class ModelExperts(Experts):
    """Experts from models with `predict_proba` or `predict` (scikit-learn, LightGBM,
    XGBoost, your own).

    What a model is asked depends on what it is:
      * `arm_features` (K, m) given: one row [context, features of the arm] per arm, the
        answer is the reward's mean;
      * `arm_features="context"`: the context already has a row per arm, (…, K, d);
      * a dict of arm name: model, or a list of K models: each arm's model is asked
        about the context;
      * else one model answers for all arms: K columns, by `classes_` where the model
        has the arms as classes.

    Without `arms`, they come with the call: one row for each arm, [context, features of
    the arm], or a data frame with the names of both, and the answer is the reward's
    mean.

    Predictions are clipped to `clip`, votes are taken before, because clipping makes
    ties. `explain` names the experts whose predictions are at an end of it. Each model
    is called once per batch (once per arm, where each arm has its own). Dicts and rows
    with names reach the models as a data frame; a model that was fitted on one gets its
    columns in that order, NaN where one is absent, and no others; where a column is
    absent and arms of the call bring none that the model reads, it could not tell them
    apart, which is refused.
    `version` names the models' training run: it is the part of them that a saved agent
    remembers.

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
        object.__setattr__(
            self, "arms", None if self.arms is None else check_names("arms", self.arms)
        )
        if self.arms is None and self.arm_features is not None:
            raise InvalidInput(
                "arm_features must come with the call where the arms do: leave them out"
            )
        if not isinstance(self.clip, tuple) or len(self.clip) != 2:
            raise InvalidInput(f"clip must be a pair (low, high); got {self.clip!r}")
        check_range(*self.clip)
        object.__setattr__(
            self,
            "models",
            {name: self._per_arm(name, model) for name, model in self.models.items()},
        )
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
        """The names of the arms, where they do not come with the call."""
        if self.arms is None:
            raise arms_needed(self)
        return self.arms

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
        return tuple(
            ModelExperts({name: model}, *rest) for name, model in self.models.items()
        )

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
        """Unclipped predictions (…, N, K), arms outermost in memory."""
        if isinstance(context, AnyOffer):
            rows, shape = self._offered(context), (*context.lead, len(context.arms))
        else:
            rows, lead = self._rows(context)
            shape = (*lead, len(self._arms))
        mean = np.stack(
            [
                self._ask_or_fail(name, model, rows)
                for name, model in self.models.items()
            ],
            axis=-1,
        )
        return np.swapaxes(mean.reshape(*shape, len(self.models)), -1, -2)

    def _offered(self, offer: AnyOffer) -> Any:
        """A row for each arm that came with the call: a frame where context or features
        have names."""
        if self.arms is not None:
            refuse_offer(self, offer)
        if not self._bare and any(map(_has_names, offer.offers)):
            frame = as_frame(arm_records(offer))
            if len(offer.arms) == 1:  # of which nothing need be known
                return frame
            known = [
                row
                for one in offer.offers
                for row in (one.features or {}).values()
                if row is not None
            ]
            of_arms = {str(name) for row in known for name in row}
            for name, model in self.models.items():
                check_arms_differ(frame, model, name=name, of_arms=of_arms)
            return frame
        rows = arm_rows(offer)
        return rows.reshape(-1, rows.shape[-1])

    def _rows(self, context: Context) -> tuple[Any, tuple[int, ...]]:
        """The rows for the models, and the batch axes."""
        if self.arm_features is None and has_names(context) and not self._bare:
            return (
                (as_frame(context), (length(context),))
                if is_batch(context)
                else (as_frame([context]), ())
            )
        by_arms = isinstance(self.arm_features, np.ndarray)
        features = (
            np.atleast_1d(numbers(context, NAMES)) if by_arms else _as_features(context)
        )
        n_arms = len(self._arms)
        if features.shape[-1] == 0 and not by_arms:
            raise InvalidInput(
                "context must have at least one number; got none, shape "
                f"{features.shape}"
            )
        if self.arm_features is None:
            return features.reshape(-1, features.shape[-1]), features.shape[:-1]
        if isinstance(self.arm_features, str):
            if features.shape[-2:-1] != (n_arms,):
                raise InvalidInput(
                    f"context must have shape (…, {n_arms}, d), a row per arm; got "
                    f"{features.shape}"
                )
            return features.reshape(-1, features.shape[-1]), features.shape[:-2]
        lead = features.shape[:-1]
        spread = np.broadcast_to(
            features[..., None, :], (*lead, n_arms, features.shape[-1])
        )
        own = np.asarray(self.arm_features)
        arms = np.broadcast_to(own, (*lead, *own.shape))
        joined = np.concatenate([spread, arms], axis=-1)
        return joined.reshape(-1, joined.shape[-1]), lead

    def _ask_or_fail(self, name: str, model: Any, rows: Any) -> Array:
        """The answers of `_ask`; an exception of the model becomes one sentence that
        names the model."""
        try:
            return self._ask(name, model, rows)
        except OddsmithError:
            raise
        except Exception as error:
            raise failure_of(f"model {name!r}", error) from error

    def _ask(self, name: str, model: Any, rows: Any) -> Array:
        """One model's answers for all rows and arms, flat (rows · K)."""
        n = len(rows)
        if isinstance(model, tuple):
            return np.stack(
                [_mean_reward(name, one, ordered(rows, one)) for one in model], axis=-1
            ).reshape(-1)
        rows = ordered(rows, model)
        if self.arm_features is not None or self.arms is None:
            return _mean_reward(name, model, rows)
        classes = (
            getattr(model, "classes_", None)
            if hasattr(model, "predict_proba")
            else None
        )
        mean = _numbers(
            name,
            model.predict_proba(rows)
            if hasattr(model, "predict_proba")
            else model.predict(rows),
        )
        if classes is not None and mean.ndim == 2 and mean.shape[1] == len(classes):
            mean = _by_arm(name, mean, classes, self.arms)
        if mean.shape != (n, len(self.arms)):
            allowed = f"{n} x {len(self.arms)} numbers, one per arm"
            raise ExpertFailed(
                f"model {name!r} must give {allowed}; got {mean.shape}", kind="shape"
            )
        return mean.reshape(-1)

    def _per_arm(self, name: str, model: object) -> Any:
        """A tuple of K models where each arm has its own, in the order of the arms;
        else the model."""
        if self.arms is None and isinstance(model, Mapping | Sequence):
            raise InvalidInput(
                f"model {name!r} must be one model for all arms where these come with "
                "the call"
            )
        if isinstance(model, Mapping):
            if set(model) != set(self._arms):
                raise InvalidInput(
                    f"model {name!r} must have one model for each arm "
                    f"{list(self._arms)}; got {list(model)}"
                )
            model = [model[arm] for arm in self._arms]
        each = tuple(model) if isinstance(model, Sequence) else (model,)
        if isinstance(model, Sequence) and len(each) != len(self._arms):
            raise InvalidInput(
                f"model {name!r} must be {len(self._arms)} models, one per arm; got "
                f"{len(each)}"
            )
        for one in each:
            if not hasattr(one, "predict_proba") and not hasattr(one, "predict"):
                raise InvalidInput(
                    f"model {name!r} must have predict_proba or predict; got "
                    f"{type(one).__name__}"
                )
        return each if isinstance(model, Sequence) else model


def _arm_numbers(features: object) -> Array:
    """Numbers (K, m), a row for each arm."""
    try:
        return finite("arm_features", features, ndim=2)
    except InvalidInput as error:
        raise InvalidInput(
            f"{' '.join(str(error).split())}; where models read them by name, "
            f"{_BY_COLUMN}"
        ) from error


def _has_names(offer: Offer) -> bool:
    return has_names(offer.context) or any(
        has_names(row) for row in (offer.features or {}).values()
    )


def _as_features(context: Context) -> Array:
    """A context, or a batch of them, as an array of at least one axis; text stays for
    models that read it."""
    if has_names(context) or isinstance(context, np.ma.MaskedArray):
        return np.atleast_1d(numbers(context, NAMES))
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
    """E[reward] per row: the probability of the second of two classes, or the
    regression's value."""
    classifier = hasattr(model, "predict_proba")
    mean = _numbers(
        name, model.predict_proba(rows) if classifier else model.predict(rows)
    )
    if mean.ndim == 2 and mean.shape[1] == 2:
        mean = mean[:, 1]
    # a classifier trained on one class only: its label is the sure reward
    elif mean.ndim == 2 and mean.shape[1] == 1:
        mean = (
            np.full(len(mean), float(model.classes_[0])) if classifier else mean[:, 0]
        )
    if mean.shape != (len(rows),):
        wanted = f"one number per row, {len(rows)} of them"
        raise ExpertFailed(
            f"model {name!r} must give {wanted}; got shape {mean.shape}", kind="shape"
        )
    return mean


def _by_arm(
    name: str, mean: Array, classes: npt.ArrayLike, arms: Sequence[str]
) -> Array:
    """A classifier's columns in the order of the arms: its classes are names of arms,
    or else 0 … K-1.

    Of two arms the classes must be names: 0 and 1 are usually those of a reward. An arm
    that the classifier never saw has probability 0.
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
    numbered = "" if len(arms) == 2 else f", or 0 … {len(arms) - 1}"
    return f"classes among the arms {list(arms)}{numbered}"


def _numbers(name: str, mean: object) -> Array:
    source = f"model {name!r}"
    return no_infinity(
        as_floats(mean, source=source).astype(np.float64, copy=False), source=source
    )
