"""Prediction oracles that combine many experts (Vovk's aggregating algorithm, Bayes
mixture), and policies that use them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, Bools, Real, number
from oddsmith.core.decision import Context, Decision, Odds, Step
from oddsmith.core.expert_policy import (
    ExpertState,
    MultiplicativeWeights,
    check_eligible,
    drawn_losses,
)
from oddsmith.core.experts import checked_predictions
from oddsmith.core.losses import Loss, domain, log_loss, square_loss
from oddsmith.core.names import check_choice

__all__ = ["ORACLES", "Oracle", "OverOracle", "mixture", "predicted", "vovk"]

OracleName = Literal["vovk", "mixture"]


@dataclass(frozen=True, eq=False)
class OverOracle(MultiplicativeWeights):
    """Base class of policies that compute propensities from one prediction per arm. The
    subclass defines the rule.

    The oracle makes these predictions from those of the experts, which it weighs by its
    own loss. Decisions record the experts' predictions as advice.
    """

    sharpness: float
    oracle: OracleName
    rule: ClassVar["staticmethod[[Array, float, Bools | None], Array]"]
    """Function from predictions (…, K), sharpness and mask to propensities (…, K); each
    subclass sets its own."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("oracle", self.oracle, ORACLES)
        number("sharpness", self.sharpness, low=0, high=np.inf)

    @property
    def prediction_range(self) -> tuple[float, float]:
        return domain(ORACLES[self.oracle].loss)

    def odds(
        self,
        state: ExpertState,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Odds:
        """Return the propensities for the oracle's predictions. The experts' own
        predictions are recorded as advice."""
        check_eligible(eligible)
        log_weights = state.log_weights
        predictions = self.experts.predict(state.experts, context)
        predictions = checked_predictions(predictions, log_weights, eligible)
        means = predicted(self.oracle, log_weights, predictions)
        propensities = type(self).rule(means, self.sharpness, eligible)
        if np.isnan(predictions).any():
            return Odds(propensities, predictions, None, log_weights)
        return Odds(propensities, predictions)

    def update(
        self, state: ExpertState, decision: Decision, reward: Real
    ) -> ExpertState:
        """Update the weights by each expert's loss on the drawn arm, with the oracle's
        loss and learning rate."""
        oracle = ORACLES[self.oracle]
        losses = drawn_losses(self, oracle.loss, decision, reward)
        return self.reweigh(state, -oracle.eta * losses, decision, reward)


def predicted(kind: str, log_weights: Array, predictions: Array) -> Array:
    """Return the oracle's prediction for every arm (…, K) from the experts that predict
    it.

    If no expert predicts an arm, its prediction is the mean over the other arms, or 1/2
    if no arm has a prediction.
    """
    oracle = ORACLES[kind].predict
    opinions = ~np.isnan(predictions)
    if opinions.all():
        weights = np.exp(log_weights)[..., None]
        shares = weights / weights.sum(axis=-2, keepdims=True)
        return oracle(shares, predictions)
    awake = np.where(opinions, log_weights[..., None], -np.inf)
    top = awake.max(axis=-2, keepdims=True)
    weights = np.exp(awake - np.where(np.isfinite(top), top, 0.0))
    total = weights.sum(axis=-2, keepdims=True)
    # Avoid dividing by 0. Arms without weight are dropped below.
    shares = weights / np.where(total > 0, total, 1.0)
    shares = np.where(total > 0, shares, 1.0)
    means = oracle(shares, np.where(opinions, predictions, 0.0))
    predictable = (total[..., 0, :] > 0) & ~np.isnan(means)
    count = predictable.sum(axis=-1, keepdims=True)
    known = np.where(predictable, means, 0.0).sum(axis=-1, keepdims=True)
    average = known / np.maximum(count, 1)
    others = np.where(count > 0, average, 0.5)
    return np.where(predictable, means, others)


def mixture(weights: Array, predictions: Array) -> Array:
    """Return Σ_i w_i f_i (…, K), the mean of the Bayes mixture.

    >>> mixture(np.array([[0.25], [0.75]]), np.array([[0.2, 0.6], [0.6, 0.2]]))
    array([0.5, 0.3])
    """
    mean: Array = (weights * predictions).sum(axis=-2)
    return mean


def vovk(weights: Array, predictions: Array) -> Array:
    """Return (1 + g(0) - g(1))/2 with g(y) = -½ ln Σ_i w_i exp(-2 (f_i - y)²), Vovk's
    prediction: mixable at eta 2, with regret ln(1/p)/2.

    >>> vovk(np.array([[1.0]]), np.array([[0.3, 0.9]]))
    array([0.3, 0.9])
    """
    at_one = _log_mean(weights, predictions - 1)
    at_zero = _log_mean(weights, predictions)
    return 0.5 + (at_one - at_zero) / 4


def _log_mean(weights: Array, gap: Array) -> Array:
    """Return ln Σ_i w_i exp(-2 gap_i²) (…, K), computed relative to the nearest expert
    that has weight."""
    exponent = np.where(weights > 0, -2 * gap**2, -np.inf)
    top = exponent.max(axis=-2, keepdims=True)
    terms = weights * np.exp(exponent - top)
    total: Array = np.log(terms.sum(axis=-2)) + top[..., 0, :]
    return total


class Oracle(NamedTuple):
    """An oracle: its prediction from weights and predictions, its loss and its learning
    rate."""

    predict: Callable[[Array, Array], Array]
    loss: Loss
    eta: float


ORACLES = {
    "vovk": Oracle(vovk, square_loss, 2.0),
    "mixture": Oracle(mixture, log_loss, 1.0),
}
