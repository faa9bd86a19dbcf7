"""ScaleFreeSampling: Generalized Thompson Sampling for rewards of any size."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from oddsmith.core import weights
from oddsmith.core.arrays import Array, Real
from oddsmith.core.decision import Decision, State
from oddsmith.core.errors import InvalidInput
from oddsmith.core.expert_policy import check_advice
from oddsmith.core.gts import GeneralizedThompsonSampling, Schedule
from oddsmith.core.losses import Loss, square_loss
from oddsmith.experts.learners.unit import grown_unit, unit_or_one

__all__ = ["ScaleFreeSampling", "ScaleFreeState"]


class ScaleFreeState(NamedTuple):
    """Log weights (…, N) relative to the leader, the number of rewards learnt, the
    experts' own state, and the unit of the rewards.

    `unit` (…) is the power of two that bounds the rewards so far, 0 while all of them
    were 0.
    """

    log_weights: Array
    learnt: int
    experts: State
    unit: Array


@dataclass(frozen=True, eq=False)
class ScaleFreeSampling(GeneralizedThompsonSampling):
    """Generalized Thompson Sampling with square loss in units of the largest reward so
    far.

        w_i ∝ p_i exp(-η Σ ((f_i(x, a) - r) / u)²),   predictions kept within [0, u]

    u is the power of two that bounds the rewards so far. When a larger reward comes,
    the earlier losses are converted: w ← w^d p^(1 - d) with d = (u before / u now)². So
    rewards of 1e-6 change the weights as fast as rewards of 1. If the first reward is
    1, this is Generalized Thompson Sampling. The theorems assume a fixed unit, so they
    hold once the unit no longer grows.

    >>> from oddsmith.experts.external import GivenExperts
    >>> policy = ScaleFreeSampling(GivenExperts(["cold", "warm"]))
    >>> decision = Decision(1, None, None, 0, np.array([1.0]), np.array([1e-6, 3e-6]))
    >>> state = policy.update(policy.init(), decision, 3e-6)
    >>> policy.posterior(state).round(2)
    array([0.37, 0.63])
    """

    loss: Loss = square_loss
    eta: float = 2.0
    gamma: float | Schedule = 0.005

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss is not square_loss or self.optimism or self.discount != 1:
            raise InvalidInput(
                "ScaleFreeSampling supports only square loss, optimism 0 and "
                "discount 1; use GeneralizedThompsonSampling for other settings"
            )

    @property
    def orderless(self) -> bool:
        """Always False, because sums of losses are rounded when the unit grows."""
        return False

    @property
    def order_settings(self) -> str:
        """Return the names of the settings for which the order of rewards matters."""
        return f"{super().order_settings}, in units of the rewards so far"

    def init(self, shape: tuple[int, ...] = ()) -> Any:
        """Return the prior as a `ScaleFreeState` with batch axes `shape`."""
        return ScaleFreeState(*super().init(shape), np.zeros(shape))

    def update(self, state: Any, decision: Decision, reward: Real) -> Any:
        """Update the weights by each expert's loss on the drawn arm, in units of the
        rewards; then the experts learn."""
        state = self._with_unit(state, reward)
        scaled, value = _in_units(decision, reward, state.unit)
        log_weights = self._reweigh(state.log_weights, scaled, value)
        own = self.update_experts(state.experts, decision, reward)
        return ScaleFreeState(log_weights, state.learnt + 1, own, state.unit)

    def revise(
        self, state: Any, decision: Decision, before: float, reward: float
    ) -> Any:
        """Return the weights as if the corrected reward had arrived first, up to
        rounding, in the current unit."""
        state = self._with_unit(state, reward)
        scaled, value = _in_units(decision, reward, state.unit)
        _, old = _in_units(decision, before, state.unit)
        change = self.factors(scaled, value) - self.factors(scaled, old)
        check_advice(change.shape, state.log_weights)
        log_weights = weights.reweigh(state.log_weights, change)
        own = self.revise_experts(state.experts, decision, before, reward)
        return ScaleFreeState(log_weights, state.learnt, own, state.unit)

    def _with_unit(self, state: ScaleFreeState, reward: Real) -> ScaleFreeState:
        """Return the state in a unit that is at least as large as this reward."""
        if np.all(np.abs(reward) <= state.unit):
            return state
        unit, factor = grown_unit(state.unit, np.asarray(reward))
        kept = np.asarray(factor)[..., None] ** 2
        # Suppress numpy's warning: 0 times the log of a prior of 0 is NaN.
        with np.errstate(invalid="ignore"):
            converted = kept * state.log_weights + (1 - kept) * self.log_prior
        log_weights = np.where(kept < 1, converted, state.log_weights)
        return state._replace(unit=unit, log_weights=log_weights)


def _in_units(decision: Decision, reward: Real, unit: Array) -> tuple[Decision, Real]:
    """Return the decision's predictions, and the reward, in this unit (…).

    The unit may have been different when decisions were made. Predictions are clipped
    to the rewards that are possible in this unit.
    """
    known = unit_or_one(unit)
    if decision.advice is None or np.all(known == 1):
        return decision, reward
    advice = np.minimum(np.maximum(decision.advice / known[..., None], 0.0), 1.0)
    value = np.asarray(reward / known)
    scaled = decision._replace(advice=advice)
    if value.ndim == 0:
        return scaled, float(value)
    return scaled, value
