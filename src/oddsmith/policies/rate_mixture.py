"""RateMixture: Generalized Thompson Sampling with many learning rates at once, weighed
by how well each predicted."""

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

__all__ = ["RateMixture", "RateState"]

_ROUNDING = 1e-13  # by which losses may differ that are equal


class RateState(NamedTuple):
    """Log weights by rate (…, E, N), the losses of each rate's votes (…, E), their
    mixability gap (…); the experts."""

    log_weights: Array
    totals: Array
    gap: Array
    learnt: int
    experts: State


@dataclass(frozen=True, eq=False)
class RateMixture(MultiplicativeWeights):
    """GTS as a mixture over learning rates: a rate that would have predicted better has
    more to say (theory 7.6).

        w_i^e ∝ p_i exp(-η_e L_i),   g_e = Σ_i w_i^e ℓ_i,
        v_e ∝ exp(-(ln E / Δ) Σ g_e),   Δ the mixability gap of v
        Pr(a) = (1 - γ) Σ_e v_e Σ_i w_i^e ballot_i(a) + γ / K

    Where no expert is right, large rates never settle and small ones do; where one is,
    large rates are quick. Every rate stays alive, unlike with the one of least loss,
    which locks itself in with the rewards that it did not see. It promises to predict
    as well as the best rate; what policies earn is `Hedged`'s matter. The order of
    rewards matters, and losses must be finite. A sleeper is charged what the others
    lost on average, by each rate.

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
        """The prior for every rate, with batch axes `shape`."""
        size = len(self.rates)
        log_weights = np.broadcast_to(
            self.log_prior - self.log_prior.max(), (*shape, size, len(self.prior))
        ).copy()
        return RateState(
            log_weights,
            np.zeros((*shape, size)),
            np.zeros(shape),
            0,
            self.experts.init(shape),
        )

    def odds(
        self,
        state: RateState,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Odds:
        """Exact propensities, with the predictions as advice."""
        advice = self.advice(state, context, eligible)
        return self.weigh(state, advice, eligible=eligible, step=step)

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
        """The odds from the experts' predictions and ballots."""
        predictions, ballots = advice
        voting = self._voting(state, ballots)
        return Odds(self._mixed(voting, ballots, eligible, uniform), predictions)

    def update(self, state: RateState, decision: Decision, reward: Real) -> RateState:
        """Charge every expert for its prediction, every rate for its experts' average,
        and measure the gap."""
        charges = drawn_losses(self, self.loss, decision, reward)
        check_advice(charges.shape, state.log_weights[..., 0, :])
        losses = charges[..., None, :]
        asleep = np.isnan(losses)
        voting = weights.awake_weights(
            state.log_weights, ~np.swapaxes(asleep, -1, -2)[..., None, :, :]
        )
        heard = np.where(asleep, 0.0, losses)
        if not np.isfinite(heard).all():
            raise OutOfDomain(
                "losses must be finite for a mixture of rates; clip predictions away "
                "from 0 and 1"
            )
        lost = _distinct((voting * heard).sum(axis=-1))
        charged = np.where(asleep, lost[..., None], heard)
        log_weights = weights.reweigh(state.log_weights, -self.rates[:, None] * charged)
        gap = np.asarray(state.gap + self._gap(state, lost))
        experts = self.update_experts(state.experts, decision, reward)
        return RateState(
            log_weights, state.totals + lost, gap, state.learnt + 1, experts
        )

    def rate_weights(self, state: RateState) -> Array:
        """v (…, E): how much each rate has to say."""
        scale = self._scale(state)
        return weights.posterior(
            -scale * (state.totals - state.totals.min(axis=-1, keepdims=True))
        )

    def posterior(self, state: RateState) -> Array:  # type: ignore[override]
        """The weight (…, N) of each expert, over all rates."""
        mixed: Array = (
            self.rate_weights(state)[..., None] * weights.posterior(state.log_weights)
        ).sum(axis=-2)
        return mixed

    def explain(
        self,
        state: RateState,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Explanation:
        """The experts' votes and weights, the part of gamma, and how much each rate has
        to say."""
        advice = self.advice(state, context, eligible)
        return self.explain_advice(state, advice, context, eligible=eligible, step=step)

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
        """The explanation of the odds that `weigh` makes of this advice."""
        predictions, ballots = advice
        n_arms = predictions.shape[-1]
        voting = self._voting(state, ballots)
        known = context.arms if isinstance(context, Offer) else self.arms
        return Explanation(
            self.experts.names,
            known or numbered_arms(n_arms),
            self.posterior(state),
            voting,
            predictions,
            ballots,
            self.gamma * weights.even(n_arms, eligible, uniform),
            self._mixed(voting, ballots, eligible, uniform),
            self._notes(state) if state.gap.ndim == 0 else (),
        )

    def _notes(self, state: RateState) -> tuple[str, ...]:
        pairs = zip(self.rates.tolist(), self.rate_weights(state).tolist(), strict=True)
        return (
            "Learning rates, by what they have to say: "
            + ", ".join(f"{r:g} ({v:.0%})" for r, v in pairs)
            + ".",
        )

    def _voting(self, state: RateState, ballots: Array) -> Array:
        """The weights of the vote (…, N): each rate's over those awake, all rates
        together."""
        by_rate = weights.awake_weights(state.log_weights, ballots[..., None, :, :])
        voting: Array = (self.rate_weights(state)[..., None] * by_rate).sum(axis=-2)
        return voting

    def _mixed(
        self,
        voting: Array,
        ballots: Array,
        eligible: Bools | None,
        uniform: Array | None,
    ) -> Array:
        with np.errstate(divide="ignore"):
            return weights.mix(np.log(voting), ballots, self.gamma, eligible, uniform)

    def _scale(self, state: RateState) -> Array:
        """ln E / Δ (…, 1); 0 where the gap is 0, as long as no rate differs from
        another."""
        gap = state.gap[..., None]
        scale: Array = np.where(
            gap > 0, log(len(self.rates)) / np.where(gap > 0, gap, 1.0), 0.0
        )
        return scale

    def _gap(self, state: RateState, lost: Array) -> Array:
        """What the mixture of rates lost beyond its mix (…), or beyond the best while
        there is no gap."""
        votes = self.rate_weights(state)
        scale = self._scale(state)[..., 0]
        least = lost.min(axis=-1)
        beyond = lost - least[..., None]
        mixed = np.log(
            (votes * np.exp(-scale[..., None] * beyond)).sum(axis=-1)
        ) / np.where(scale > 0, scale, 1.0)
        gap: Array = np.maximum(
            (votes * beyond).sum(axis=-1) + np.where(scale > 0, mixed, 0.0), 0.0
        )
        return gap


def _distinct(lost: Array) -> Array:
    """The losses (…, E), equal where they differ by rounding alone: while the gap is 0
    any difference would decide."""
    least = lost.min(axis=-1, keepdims=True)
    return np.where(lost - least > _ROUNDING, lost, least)
