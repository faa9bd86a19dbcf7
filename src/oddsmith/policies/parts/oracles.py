"""One prediction from many experts: Vovk's aggregating algorithm and the Bayes mixture."""

from typing import Any, Literal, NamedTuple

import numpy as np

from oddsmith.arrays import Array, Bools
from oddsmith.errors import InvalidInput
from oddsmith.losses import Loss, log_loss, square_loss

__all__ = ["ORACLES", "Oracle", "check_oracle", "mixture", "predicted", "rest_on_best", "standing", "vovk"]


class Oracle(NamedTuple):
    """The loss and the learning rate with which an oracle weighs experts."""

    loss: Loss
    eta: float


OracleName = Literal["vovk", "mixture"]
ORACLES: dict[str, Oracle] = {"vovk": Oracle(square_loss, 2.0), "mixture": Oracle(log_loss, 1.0)}


def check_oracle(kind: str) -> None:
    """Refuses unknown oracles."""
    if not isinstance(kind, str) or kind not in ORACLES:
        raise InvalidInput(f"oracle must be one of {', '.join(ORACLES)}; got {kind!r}")


def predicted(kind: str, log_weights: Array, predictions: Array) -> Array:
    """The oracle's prediction of every arm (…, K), from those who have an opinion on it.

    An arm that no expert knows counts as the mean of the others, and as 1/2 where none is known.
    """
    known = ~np.isnan(predictions)
    if known.all():
        weights = np.exp(log_weights)[..., None]
        return _ORACLES[kind](weights / weights.sum(axis=-2, keepdims=True), predictions)
    heard = np.where(known, log_weights[..., None], -np.inf)
    top = heard.max(axis=-2, keepdims=True)
    weights = np.exp(heard - np.where(np.isfinite(top), top, 0.0))
    total = weights.sum(axis=-2, keepdims=True)
    shares = np.where(total > 0, weights / np.where(total > 0, total, 1.0), 1.0)  # no weight at all is left out below
    found = _ORACLES[kind](shares, np.where(known, predictions, 0.0))
    found = np.where(total[..., 0, :] > 0, found, np.nan)
    spoken = ~np.isnan(found)
    count = spoken.sum(axis=-1, keepdims=True)
    mean = np.where(spoken, found, 0.0).sum(axis=-1, keepdims=True) / np.maximum(count, 1)
    return np.where(spoken, found, np.where(count > 0, mean, 0.5))


def mixture(weights: Array, predictions: Array) -> Array:
    """Σ_i w_i f_i (…, K): the Bayes mixture's mean.

    >>> mixture(np.array([[0.25], [0.75]]), np.array([[0.2, 0.6], [0.6, 0.2]]))
    array([0.5, 0.3])
    """
    mean: Array = (weights * predictions).sum(axis=-2)
    return mean


def vovk(weights: Array, predictions: Array) -> Array:
    """(1 + g(0) - g(1))/2 with g(y) = -½ ln Σ_i w_i exp(-2 (f_i - y)²): mixable at eta 2, regret ln(1/p)/2.

    >>> vovk(np.array([[1.0]]), np.array([[0.3, 0.9]]))
    array([0.3, 0.9])
    """
    return 0.5 + (_log_mean(weights, predictions - 1) - _log_mean(weights, predictions)) / 4


def _log_mean(weights: Array, gap: Array) -> Array:
    """ln Σ_i w_i exp(-2 gap_i²) (…, K), shifted by the nearest expert that has weight."""
    exponent = np.where(weights > 0, -2 * gap**2, -np.inf)
    top = exponent.max(axis=-2, keepdims=True)
    total: Array = np.log((weights * np.exp(exponent - top)).sum(axis=-2)) + top[..., 0, :]
    return total


def standing(predicted: Array, eligible: Bools | None) -> tuple[Any, Array, Any]:
    """Which arm is best (…, K) as a mask, its prediction (…, 1), and how many arms are eligible."""
    open_to = predicted if eligible is None else np.where(eligible, predicted, -np.inf)
    best = np.arange(predicted.shape[-1]) == open_to.argmax(axis=-1)[..., None]
    n_arms: Any = predicted.shape[-1] if eligible is None else eligible.sum(axis=-1, keepdims=True)
    return best, open_to.max(axis=-1, keepdims=True), n_arms


def rest_on_best(odds: Array, best: Any, eligible: Bools | None) -> Array:
    """`odds` for every eligible arm but the best, which gets what is left of 1."""
    others = np.where(best, 0.0, odds if eligible is None else np.where(eligible, odds, 0.0))
    return np.where(best, 1 - others.sum(axis=-1, keepdims=True), others)


_ORACLES = {"vovk": vovk, "mixture": mixture}
