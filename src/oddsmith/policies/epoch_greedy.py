"""Epoch-Greedy: one uniform step, then a growing number of steps with the best expert
so far."""

from dataclasses import dataclass
from functools import lru_cache
from math import log
from typing import NamedTuple

import numpy as np

from oddsmith.core import weights
from oddsmith.core.arrays import Array, Bools, Ints, Real, number
from oddsmith.core.decision import Context, Decision, Odds, State, Step
from oddsmith.core.errors import InvalidInput
from oddsmith.core.expert_policy import (
    OverExperts,
    check_advice,
    check_eligible,
    column,
    drawn_advice,
)
from oddsmith.core.experts import Experts, checked_predictions
from oddsmith.core.offer import AnyOffer

__all__ = ["EpochGreedy", "EpochState"]


class EpochState(NamedTuple):
    """Estimated total reward of each expert on exploring steps (…, N), number of
    rewards learnt, and the experts' state."""

    values: Array
    learnt: int
    experts: State


@dataclass(frozen=True, eq=False)
class EpochGreedy(OverExperts):
    """Epoch-Greedy of Langford and Zhang 2007 (docs/math 5.6): epoch l is one uniform
    step, then floor(1/ε_l) steps with the best expert.

    ε_l = min(1, scale · sqrt(K ln N / l)). An expert's value is its estimated reward on
    the uniform steps, Σ K ξ_i(a) r; tied experts share the weight. The exploring steps
    are known in advance: their propensities are uniform, and on other steps they are
    the best expert's ballot. Only rewards of exploring steps are learnt; the decision's
    `bonus` is 1 on these. Regret is of the order (K ln N)^(1/3) T^(2/3).

    >>> from oddsmith.experts.external import GivenExperts
    >>> policy = EpochGreedy(GivenExperts(["cold", "warm"]), scale=0.5)
    >>> policy.odds(
    ...     policy.init(), np.array([[0.2, 0.1], [0.6, 0.9]]), step=1
    ... ).propensities
    array([0.5, 0.5])
    """

    experts: Experts
    scale: float = 1.0

    weighs_ballots = True
    # Learning divides rewards by the propensity of the drawn arm.
    importance_weighted = True

    def __post_init__(self) -> None:
        super().__post_init__()
        number("scale", self.scale, low=0, high=np.inf, open_low=True)

    @property
    def orderless(self) -> bool:
        return not self.experts.learns

    def init(self, shape: tuple[int, ...] = ()) -> EpochState:
        n_experts = len(self.experts.names)
        values = np.zeros((*shape, n_experts))
        own = self.experts.init(shape)
        return EpochState(values, 0, own)

    def explores_at(self, step: int | Ints, n_arms: int) -> Bools:
        """Return whether each step is an exploring one."""
        steps = np.asarray(step)
        if steps.dtype.kind not in "iu" or (steps < 1).any():
            raise InvalidInput(
                f"step must be a whole number of at least 1; got {step!r}"
            )
        last = 1 << int(steps.max()).bit_length()
        starts = _starts(self.scale, n_arms, len(self.experts.names), last)
        following = starts[np.searchsorted(starts, steps)]
        return np.asarray(following == steps)

    def odds(
        self,
        state: EpochState,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Odds:
        """Return uniform propensities on exploring steps, otherwise the mean ballot of
        the leading experts. The ballot of an expert without a prediction is NaN."""
        check_eligible(eligible)
        advice = self.experts.advise(state.experts, context, eligible)
        return self.weigh(state, advice, eligible=eligible, step=step)

    def weights_of(self, state: EpochState) -> Array:
        return state.values

    def weigh(
        self,
        state: EpochState,
        advice: tuple[Array, Array],
        *,
        eligible: Bools | None = None,
        step: Step = None,
        offer: AnyOffer | None = None,
        uniform: Array | None = None,
    ) -> Odds:
        """Return the propensities from the experts' ballots."""
        ballots = checked_predictions(advice[1], state.values, eligible)
        if step is None:
            step = state.learnt + 1
        explore = self.explores_at(step, ballots.shape[-1]).astype(np.float64)
        awake = np.asarray(ballots.any(axis=-1))
        values = np.where(awake, state.values, -np.inf)
        leads = (values == values.max(axis=-1, keepdims=True)) & awake
        with np.errstate(divide="ignore"):
            log_weights = np.log(leads.astype(np.float64))
        gamma = explore if explore.ndim else float(explore)
        propensities = weights.mix(log_weights, ballots, gamma, eligible, uniform)
        flag = np.broadcast_to(explore[..., None], awake.shape)
        ballots = np.where(awake[..., None], ballots, np.nan)
        return Odds(propensities, ballots, flag)

    def update(self, state: EpochState, decision: Decision, reward: Real) -> EpochState:
        ballots = drawn_advice(decision, len(self.experts.names))
        check_advice(ballots.shape, state.values)
        if decision.bonus is None:
            raise InvalidInput(
                "decision must contain the bonus of Epoch-Greedy, 1 on exploring "
                "steps; got none"
            )
        estimates = ballots * column(reward) / column(decision.propensity)
        asleep = np.isnan(estimates)
        if asleep.any():  # an expert without prediction gets the mean of the others
            n_awake = (~asleep).sum(axis=-1, keepdims=True)
            total = np.where(asleep, 0.0, estimates).sum(axis=-1, keepdims=True)
            mean = total / np.maximum(n_awake, 1)
            estimates = np.where(asleep, mean, estimates)
        values = state.values + np.where(decision.bonus > 0, estimates, 0.0)
        own = self.update_experts(state.experts, decision, reward)
        return EpochState(values, state.learnt + 1, own)

    def posterior(self, state: EpochState) -> Array:
        """Return the posterior (…, N), which is shared by the leading experts."""
        leads = state.values == state.values.max(axis=-1, keepdims=True)
        share: Array = leads / leads.sum(axis=-1, keepdims=True)
        return share


@lru_cache(maxsize=64)
def _starts(scale: float, n_arms: int, n_experts: int, last: int) -> Ints:
    """Return the exploring steps until after `last`: epoch l lasts 1 + floor(1/ε_l)
    steps."""
    spread = scale * np.sqrt(n_arms * max(log(n_experts), 1e-12))
    length = 1
    while True:
        epochs = np.arange(1, length + 1)
        epsilon = np.minimum(1.0, spread / np.sqrt(epochs))
        lengths = 1 + np.floor(1 / epsilon).astype(np.int64)
        starts = 1 + np.concatenate([[0], np.cumsum(lengths)])
        if starts[-1] > last:
            return np.asarray(starts)
        length *= 2
