"""RateMixture: Generalized Thompson Sampling with many learning rates at once, weighted
by their prediction loss."""

from dataclasses import dataclass
from math import log
from typing import Any, NamedTuple

import numpy as np

from oddsmith.core import weights
from oddsmith.core.arrays import Array, Bools, Real, finite, number
from oddsmith.core.decision import Context, Decision, Odds, State, Step
from oddsmith.core.errors import InvalidInput, OutOfDomain
from oddsmith.core.expert_policy import (
    MultiplicativeWeights,
    check_advice,
    drawn_losses,
)
from oddsmith.core.explanation import Explanation
from oddsmith.core.losses import Loss, domain, log_loss
from oddsmith.core.names import numbered_arms
from oddsmith.core.offer import AnyOffer, Offer
from oddsmith.policies.parts.advice import ByAdvice

__all__ = ["RateMixture", "RateState"]

_ROUNDING = 1e-13  # losses that differ by less are equal, up to rounding


class RateState(NamedTuple):
    """Log weights of the experts at each rate (…, E, N), the loss of each rate's votes
    (…, E), the mixability gap of the rates (…), and the experts' state."""

    log_weights: Array
    totals: Array
    gap: Array
    learnt: int
    experts: State


@dataclass(frozen=True, eq=False)
class RateMixture(ByAdvice, MultiplicativeWeights):
    """GTS as a mixture over learning rates: rates with better predictions get more
    weight (docs/math 7.6).

        w_i^e ∝ p_i exp(-η_e L_i),   g_e = Σ_i w_i^e ℓ_i,
        v_e ∝ exp(-(ln E / Δ) Σ g_e),   Δ the mixability gap of v
        Pr(a) = (1 - γ) Σ_e v_e Σ_i w_i^e ballot_i(a) + γ / K

    If no expert is right, small rates converge and large rates do not. If an expert is
    right, large rates converge quickly. Every rate keeps some weight, because a policy
    that follows only the rate with the smallest loss may never draw other arms, and so
    never learn that another rate is better. The mixture predicts as well as the best
    rate; for guarantees about rewards, see `Hedged`. The order of rewards matters, and
    losses must be finite. An expert without a prediction gets the average loss of the
    others, for each rate.

    >>> from oddsmith.experts.external import GivenExperts
    >>> policy = RateMixture(GivenExperts(["cold", "warm"]), gamma=0.1)
    >>> policy.odds(policy.init(), np.array([[0.2, 0.1], [0.6, 0.9]])).propensities
    array([0.5, 0.5])
    """

    loss: Loss = log_loss
    rates: Any = (1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625)
    gamma: float = 0.02

    orderless = False
    weighs_ballots = True

    def __post_init__(self) -> None:
        super().__post_init__()
        rates = finite("rates", self.rates)
        if rates.ndim != 1 or rates.size == 0 or not (rates > 0).all():
            raise InvalidInput(
                f"rates must be a list of numbers above 0; got {self.rates!r:.60}"
            )
        object.__setattr__(self, "rates", rates)
        object.__setattr__(self, "gamma", number("gamma", self.gamma, low=0, high=1))

    @property
    def explores(self) -> bool:
        return self.gamma > 0

    @property
    def prediction_range(self) -> tuple[float, float]:
        return domain(self.loss)

    def init(self, shape: tuple[int, ...] = ()) -> RateState:  # type: ignore[override]
        """Return the prior for every rate, with batch axes `shape`."""
        n_rates = len(self.rates)
        first = self.log_prior - self.log_prior.max()
        log_weights = np.broadcast_to(first, (*shape, n_rates, len(first))).copy()
        totals = np.zeros((*shape, n_rates))
        return RateState(
            log_weights, totals, np.zeros(shape), 0, self.experts.init(shape)
        )

    def weights_of(self, state: RateState) -> Array:
        first_rate: Array = state.log_weights[..., 0, :]
        return first_rate

    def weigh(
        self,
        state: RateState,
        advice: tuple[Array, Array],
        *,
        eligible: Bools | None = None,
        step: Step = None,
        offer: AnyOffer | None = None,
        uniform: Array | None = None,
    ) -> Odds:
        """Return the propensities from the experts' predictions and ballots."""
        predictions, ballots = advice
        voting = self._voting(state, ballots)
        return Odds(self._mix(voting, ballots, eligible, uniform), predictions)

    def update(self, state: RateState, decision: Decision, reward: Real) -> RateState:
        """Update the experts' weights at every rate, the weights of the rates, and the
        mixability gap."""
        charges = drawn_losses(self, self.loss, decision, reward)
        check_advice(charges.shape, state.log_weights[..., 0, :])
        losses = charges[..., None, :]
        asleep = np.isnan(losses)
        awake = ~np.swapaxes(asleep, -1, -2)[..., None, :, :]
        voting = weights.awake_weights(state.log_weights, awake)
        known = np.where(asleep, 0.0, losses)
        if not np.isfinite(known).all():
            raise OutOfDomain(
                "losses must be finite for a mixture of rates; clip predictions away "
                "from 0 and 1"
            )
        lost = _distinct((voting * known).sum(axis=-1))
        charged = np.where(asleep, lost[..., None], known)
        factors = -self.rates[:, None] * charged
        log_weights = weights.reweigh(state.log_weights, factors)
        gap = np.asarray(state.gap + self._gap(state, lost))
        experts = self.update_experts(state.experts, decision, reward)
        totals = state.totals + lost
        return RateState(log_weights, totals, gap, state.learnt + 1, experts)

    def rate_weights(self, state: RateState) -> Array:
        """Return the weight v (…, E) of each rate."""
        least = state.totals.min(axis=-1, keepdims=True)
        beyond = state.totals - least
        scale = self._scale(state)
        return weights.posterior(-scale * beyond)

    def posterior(self, state: RateState) -> Array:  # type: ignore[override]
        """Return the weight (…, N) of each expert, summed over all rates."""
        return self._over_rates(state, weights.posterior(state.log_weights))

    def explain_advice(
        self,
        state: RateState,
        advice: tuple[Array, Array],
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
        uniform: Array | None = None,
    ) -> Explanation:
        """Explain the propensities that `weigh` returns for this advice."""
        predictions, ballots = advice
        n_arms = predictions.shape[-1]
        voting = self._voting(state, ballots)
        exploration = self.gamma * weights.even(n_arms, eligible, uniform)
        arms = context.arms if isinstance(context, Offer) else self.arms
        notes = self._notes(state) if state.gap.ndim == 0 else ()
        return Explanation(
            self.experts.names,
            arms or numbered_arms(n_arms),
            self.posterior(state),
            voting,
            predictions,
            ballots,
            exploration,
            self._mix(voting, ballots, eligible, uniform),
            notes,
        )

    def _notes(self, state: RateState) -> tuple[str, ...]:
        """Return the weight of each rate, as a sentence."""
        pairs = zip(self.rates.tolist(), self.rate_weights(state).tolist(), strict=True)
        rates = ", ".join(f"{rate:g} ({weight:.0%})" for rate, weight in pairs)
        return (f"Weights of the learning rates: {rates}.",)

    def _voting(self, state: RateState, ballots: Array) -> Array:
        """Return the experts' weights in the vote (…, N). At each rate, the weights are
        normalised over the experts with a prediction; then they are summed over
        rates."""
        by_rate = weights.awake_weights(state.log_weights, ballots[..., None, :, :])
        return self._over_rates(state, by_rate)

    def _over_rates(self, state: RateState, by_rate: Array) -> Array:
        """Return the mean (…, N) of weights by rate (…, E, N)."""
        share = self.rate_weights(state)[..., None]
        mean: Array = (share * by_rate).sum(axis=-2)
        return mean

    def _mix(
        self,
        voting: Array,
        ballots: Array,
        eligible: Bools | None,
        uniform: Array | None,
    ) -> Array:
        with np.errstate(divide="ignore"):
            return weights.mix(np.log(voting), ballots, self.gamma, eligible, uniform)

    def _scale(self, state: RateState) -> Array:
        """Return ln E / Δ (…, 1), or 0 while the gap is 0 because all rates agree."""
        gap = state.gap[..., None]
        is_open = gap > 0
        scale = log(len(self.rates)) / np.where(is_open, gap, 1.0)
        return np.where(is_open, scale, 0.0)

    def _gap(self, state: RateState, lost: Array) -> Array:
        """Return the increase (…) of the mixability gap: the mean loss of the rates
        minus their mixed loss or, while the gap is 0, minus the loss of the best rate.

            Σ_e v_e l_e + ln(Σ_e v_e exp(-s l_e)) / s,   l_e = g_e - min g
        """
        votes = self.rate_weights(state)
        scale = self._scale(state)[..., 0]
        beyond = lost - lost.min(axis=-1)[..., None]
        is_open = scale > 0
        shares = votes * np.exp(-scale[..., None] * beyond)
        log_total = np.log(shares.sum(axis=-1))
        scales = np.where(is_open, scale, 1.0)
        mixed = log_total / scales
        mixed = np.where(is_open, mixed, 0.0)
        mean: Array = (votes * beyond).sum(axis=-1)
        return np.maximum(mean + mixed, 0.0)


def _distinct(lost: Array) -> Array:
    """Return the losses (…, E) with differences of the size of rounding errors removed.
    While the gap is 0, any difference would select a rate."""
    least = lost.min(axis=-1, keepdims=True)
    return np.where(lost - least > _ROUNDING, lost, least)
