"""Policies on one prediction from all experts: what SquareCB and FastCB share."""

from typing import Any

import numpy as np

from oddsmith.arrays import Array, Bools, Real, number
from oddsmith.decision import Context, Decision
from oddsmith.experts.base import Experts, checked_predictions
from oddsmith.losses import Loss, domain
from oddsmith.policies.over_experts import ExpertState, MultiplicativeWeights, check_eligible, drawn_advice, scored
from oddsmith.policies.parts.oracles import ORACLES, OracleName, check_oracle, predicted

__all__ = ["OverOracle"]


class OverOracle(MultiplicativeWeights):
    """Experts weighed by the oracle's own loss; the advice is their predictions."""

    experts: Experts
    sharpness: float
    oracle: OracleName
    prior: Any

    def __post_init__(self) -> None:
        self.checked()
        check_oracle(self.oracle)
        number("sharpness", self.sharpness, low=0, high=np.inf)

    @property
    def loss(self) -> Loss:
        """What the oracle scores predictions by."""
        return ORACLES[self.oracle][0]

    @property
    def prediction_range(self) -> tuple[float, float]:
        return domain(self.loss)

    def update(self, state: ExpertState, decision: Decision, reward: Real) -> ExpertState:
        """Every expert is charged for its prediction of the drawn arm, with the oracle's loss and learning rate."""
        advice = drawn_advice(decision, len(self.prior))
        eta = ORACLES[self.oracle][1]
        return self.reweighed(state, -eta * scored(self.loss, advice, reward), decision, reward)

    def predictions(self, state: ExpertState, context: Context, eligible: Bools | None) -> tuple[Array, Array, bool]:
        """The experts' predictions (…, N, K), the oracle's (…, K), and whether an expert has no opinion."""
        if eligible is not None:
            check_eligible(eligible)
        predictions = checked_predictions(self.experts.predict(state.experts, context), state.log_weights, eligible)
        return predictions, predicted(self.oracle, state.log_weights, predictions), bool(np.isnan(predictions).any())
