"""LinearExperts: a bank in which each weight vector is an expert."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from oddsmith.contexts.numbers import numbers
from oddsmith.contexts.offers import arm_rows
from oddsmith.core import kernels
from oddsmith.core.arrays import Array, Bools, Real, finite, row_products
from oddsmith.core.decision import Context, State
from oddsmith.core.errors import InvalidInput
from oddsmith.core.experts import AdviceAndOdds, Experts, refuse_offer
from oddsmith.core.names import check_choice, check_names, expert_names
from oddsmith.core.offer import AnyOffer
from oddsmith.experts.covers import Cover

__all__ = ["LinearExperts"]

LinkName = Literal["logistic", "identity", "probit"]


@dataclass(frozen=True, eq=False)
class LinearExperts(Experts):
    """Linear models f_i(x, a) = link(θ_i · φ(x, a)), one expert for each weight vector.

    With `weights` (N, d), or a `Cover` (expert i is its point i), the context is the
    features of every arm, (…, K, d). With `weights` (N, K, d), the context is (…, d),
    and every arm has its own weights. NaN in a feature means no prediction for that
    arm. float32 weights give float32 predictions. If `arms` are named, weights and
    contexts for another number of arms raise an error.

    >>> bank = LinearExperts(np.array([[1.0, 0.0], [0.0, 2.0]]), link="identity")
    >>> bank.predict((), np.array([[0.1, 0.2], [0.3, 0.1]]))
    array([[0.1, 0.3],
           [0.4, 0.2]])
    """

    weights: Any
    link: LinkName = "logistic"
    names: Sequence[str] = ()
    arms: Sequence[str] | None = None
    _columns: Array = field(init=False, repr=False)

    @property
    def takes_offers(self) -> bool:
        return self.arms is None and self.weights.ndim == 2

    def __post_init__(self) -> None:
        weights = self.weights
        if isinstance(weights, Cover):
            weights = weights.points
        is_single = getattr(weights, "dtype", None) == np.float32
        checked = finite("weights", weights)
        if checked.ndim not in (2, 3):
            raise InvalidInput(
                "weights must have shape (N, d), or (N, K, d) for weights per arm; "
                f"got {checked.shape}"
            )
        check_choice("link", self.link, _LINKS)
        dtype = np.float32 if is_single else np.float64
        checked = checked.astype(dtype)
        names = expert_names(self.names, len(checked))
        object.__setattr__(self, "weights", checked)
        object.__setattr__(self, "names", names)
        if self.arms is not None:
            arms = check_names("arms", self.arms)
            object.__setattr__(self, "arms", arms)
            if checked.ndim == 3 and checked.shape[1] != len(arms):
                raise InvalidInput(
                    f"weights must be for the {len(arms)} arms; got shape "
                    f"{checked.shape}"
                )
        # Shape (d, N), so that a decision is one matrix product; (d, K·N) with arms
        # first if weights differ per arm.
        columns = checked.T
        if checked.ndim == 3:
            columns = checked.transpose(2, 1, 0).reshape(checked.shape[2], -1)
        object.__setattr__(self, "_columns", np.ascontiguousarray(columns))

    def predict(self, state: State, context: Context) -> Array:
        if isinstance(context, AnyOffer):
            return self._predict_offer(context)
        features = self._features(context)
        if features.ndim == 2:
            scores = np.dot(features, self._columns)
        else:
            scores = features @ self._columns
        if self.weights.ndim == 3:
            n_arms = self.weights.shape[1]
            scores = scores.reshape(*features.shape[:-1], n_arms, len(self.names))
        link = _LINKS[self.link]
        return link(np.ascontiguousarray(scores)).swapaxes(-1, -2)

    def advise_and_mix(
        self,
        state: State,
        context: Context,
        log_weights: Array,
        gamma: Real,
        eligible: Bools | None = None,
    ) -> AdviceAndOdds | None:
        """Compute scores, link and vote in one compiled call for a single decision of
        logistic experts; otherwise like other banks."""
        is_plain = (
            self.link == "logistic"
            and eligible is None
            and log_weights.ndim == 1
            and isinstance(gamma, float)
            and not isinstance(context, AnyOffer)
        )
        compiled = kernels.compiled() if is_plain else None
        if compiled is not None:
            features = self._features(context)
            # Shape (K, d), or (d,) if every arm has its own weights.
            n_axes = 2 if self.weights.ndim == 2 else 1
            if features.ndim == n_axes and features.flags.c_contiguous:
                result: AdviceAndOdds | None = compiled.vote_logistic(
                    log_weights, features, self._columns, gamma
                )
                if result is not None:
                    return result
        return super().advise_and_mix(state, context, log_weights, gamma, eligible)

    def _predict_offer(self, offer: AnyOffer) -> Array:
        """Return predictions for arms that are passed in the call. A row's score
        depends only on that row."""
        if not self.takes_offers:
            refuse_offer(self, offer, "use weights (N, d) without arms")
        features = self._features(arm_rows(offer))
        scores = row_products(features, self._columns)
        return _LINKS[self.link](scores).swapaxes(-1, -2)

    def _features(self, context: Context) -> Array:
        """Return the context as an array (…, K, d), or (…, d) if every arm has its own
        weights."""
        columns = self._columns
        if type(context) is np.ndarray and context.dtype == columns.dtype:
            features = context
        else:
            features = self._as_floats(context)
        n_features = len(columns)
        if self.weights.ndim == 3:
            if features.shape[-1:] != (n_features,):
                raise InvalidInput(
                    f"context must have shape (…, {n_features}); got {features.shape}"
                )
            return features
        if features.shape[-1:] != (n_features,) or features.ndim < 2:
            raise InvalidInput(
                f"context must have shape (…, K, {n_features}); got {features.shape}"
            )
        if self.arms is not None and features.shape[-2] != len(self.arms):
            raise InvalidInput(
                f"context must have a row for each of the {len(self.arms)} arms; got "
                f"{features.shape}"
            )
        return features

    def _as_floats(self, context: Context) -> Array:
        instead = "use Encoded(experts, schema), which reads names"
        return numbers(context, instead).astype(self.weights.dtype, copy=False)


def _logistic(scores: Array) -> Array:
    """Compute 1 / (1 + exp(-s)) in place. Beyond |s| = 708 (87 in float32) s is
    clipped, here and in the compiled kernel."""
    compiled = kernels.compiled()
    if compiled is not None:
        compiled.logistic(scores)
        return scores
    np.negative(scores, out=scores)
    np.minimum(scores, 708.0 if scores.itemsize == 8 else 87.0, out=scores)
    np.exp(scores, out=scores)
    scores += 1
    return np.reciprocal(scores, out=scores)


def _probit(scores: Array) -> Array:
    """Return Φ(s), the standard normal distribution function."""
    from scipy.special import ndtr

    predictions: Array = ndtr(scores)
    return predictions


_LINKS: dict[str, Callable[[Array], Array]] = {
    "logistic": _logistic,
    "identity": lambda scores: scores,
    "probit": _probit,
}
