"""Generalized Thompson Sampling (Li 2013, Algorithm 1), with exact odds."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from oddsmith.core import kernels, weights
from oddsmith.core.arrays import Array, Bools, Ints, Real, number
from oddsmith.core.decision import Context, Decision, Odds, Step
from oddsmith.core.errors import InvalidInput, OrderMatters
from oddsmith.core.expert_policy import (
    ExpertState,
    MultiplicativeWeights,
    check_advice,
    check_eligible,
    drawn_losses,
)
from oddsmith.core.experts import Experts
from oddsmith.core.explanation import Explanation
from oddsmith.core.losses import (
    Loss,
    Scaled,
    domain,
    log_loss,
    square_loss,
    total_log_loss,
)
from oddsmith.core.names import numbered_arms
from oddsmith.core.offer import AnyOffer, Offer

__all__ = ["GeneralizedThompsonSampling", "best_prediction"]

# Rewards per block. The losses of a block are summed before the weights change, so that
# sums of many small losses keep their digits.
_BLOCK = 1024


class Schedule(Protocol):
    """Exploration gamma in [0, 1] as a function of the step (1, 2, …), which may be an
    array (…)."""

    def __call__(self, step: int | Ints) -> Real: ...


@dataclass(frozen=True)
class PowerSchedule:
    """min(cap, scale · step^-power), the schedule for an unknown horizon (docs/math
    3.8).

    >>> PowerSchedule(scale=2.0, power=1 / 3)(64)
    0.5
    """

    scale: float
    power: float = 1 / 3
    cap: float = 1.0

    def __post_init__(self) -> None:
        number("scale", self.scale, low=0, high=np.inf)
        number("power", self.power, low=0, high=np.inf)
        number("cap", self.cap, low=0, high=1)

    def __call__(self, step: int | Ints) -> Real:
        steps = np.asarray(step, dtype=np.float64)
        gamma: Array = np.minimum(self.cap, self.scale * steps**-self.power)
        if gamma.ndim:
            return gamma
        return float(gamma)


class LossTwin(NamedTuple):
    """A loss with compiled code: its number in `kernels`, and its eta."""

    eta: float
    loss: int


@dataclass(frozen=True, eq=False)
class GeneralizedThompsonSampling(MultiplicativeWeights):
    """Algorithm 1: follow an expert drawn from the posterior, explore uniformly with
    probability gamma, and update all weights by the experts' losses.

        Pr(a) = (1 - γ) Σ_i w_i ballot_i(a) / Σ_i w_i + γ / K
        w_i ← w_i exp(-η ℓ(f_i(x, a), r) + λ max_a f_i)

    The theory assumes rewards of order 1 and one expert with approximately correct
    predictions. `auto` needs neither: use it with uncalibrated models, or rare rewards.

    `prior` is N probabilities or a dict by expert name (None: uniform). `gamma` is a
    number or a schedule. `optimism` is Feel-Good's λ (docs/math 5.1). Two settings
    are for worlds that drift (5.9): `share` mixes the prior into the weights after
    each reward (fixed share), and `discount` d fades earlier rewards, w ← w^d p^(1-d),
    a memory of about 1 / (1 - d) rewards. With fixed experts, share = 0 and discount =
    1 the posterior does not depend on the order of rewards, even if experts make no
    prediction in some decisions.

    >>> from oddsmith.experts.external import GivenExperts
    >>> gts = GeneralizedThompsonSampling(
    ...     GivenExperts(["cold", "warm"]), square_loss, eta=1.0, gamma=0.1
    ... )
    >>> gts.odds(gts.init(), np.array([[0.2, 0.1], [0.6, 0.9]])).propensities
    array([0.5, 0.5])
    """

    loss: Loss = log_loss
    eta: float = 0.5
    gamma: float | Schedule = 0.02
    optimism: float = 0.0
    share: float = 0.0
    discount: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_learning()
        if not callable(self.loss):
            raise InvalidInput(
                f"loss must be a function of prediction and reward; got {self.loss!r}"
            )
        number("eta", self.eta, low=0, high=1e12, open_low=True)
        if not callable(self.gamma):
            gamma = number("gamma", self.gamma, low=0, high=1)
            object.__setattr__(self, "gamma", gamma)
        number("optimism", self.optimism, low=0, high=np.inf)
        number("share", self.share, low=0, high=1, open_high=True)
        number("discount", self.discount, low=0, high=1, open_low=True)

    def _check_learning(self) -> None:
        """Raise if experts have an `update` of their own but do not set `learns`."""
        kind = type(self.experts)
        has_own_update = kind.update is not Experts.update and not self.experts.wraps
        if has_own_update and not self.experts.learns:
            raise InvalidInput(
                f"experts that learn must set learns = True; {kind.__name__} "
                "overrides update and does not"
            )

    @cached_property
    def loss_twin(self) -> LossTwin | None:
        """The loss with compiled code (log or square loss, also scaled, without
        optimism, share and discount), otherwise None."""
        if self.optimism or self.share or self.discount < 1:
            return None
        loss = self.loss
        eta = self.eta
        if isinstance(loss, Scaled):
            eta = eta / loss.beta
            loss = loss.loss
        if loss is log_loss:
            return LossTwin(eta, kernels.LOG)
        if loss is square_loss:
            return LossTwin(eta, kernels.SQUARE)
        return None

    @property
    def orderless(self) -> bool:
        return self.share == 0 and self.discount == 1 and not self.experts.learns

    @property
    def mergeable(self) -> bool:
        return self.orderless

    weighs_ballots = True

    @property
    def explores(self) -> bool:
        return bool(self.gamma_at(1) > 0)

    @property
    def prediction_range(self) -> tuple[float, float]:
        return domain(self.loss)

    def odds(
        self,
        state: ExpertState,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Odds:
        """Return exact propensities with predictions, optimism bonus and, if an expert
        made no prediction, weights."""
        if eligible is not None:
            check_eligible(eligible)
        gamma = (
            self.gamma if isinstance(self.gamma, float) else self._gamma(state, step)
        )
        fused = self.experts.advise_and_mix(
            state.experts, context, state.log_weights, gamma, eligible
        )
        if fused is None:
            advice = self.advice(state, context, eligible)
            return self.weigh(state, advice, eligible=eligible, step=step)
        # The compiled kernel has already done what `weigh` does.
        predictions, propensities, is_asleep = fused
        bonus = None
        if self.optimism:
            bonus = best_prediction(predictions, eligible)
        log_weights = None
        if is_asleep:
            log_weights = state.log_weights
        return Odds(propensities, predictions, bonus, log_weights)

    def weigh(
        self,
        state: ExpertState,
        advice: tuple[Array, Array],
        *,
        eligible: Bools | None = None,
        step: Step = None,
        offer: AnyOffer | None = None,
        uniform: Array | None = None,
    ) -> Odds:
        """Return the propensities from predictions and ballots: the votes by weight,
        mixed with gamma."""
        predictions, ballots = advice
        gamma = (
            self.gamma if isinstance(self.gamma, float) else self._gamma(state, step)
        )
        propensities = weights.mix(state.log_weights, ballots, gamma, eligible, uniform)
        bonus = None
        if self.optimism:
            bonus = best_prediction(predictions, eligible)
        is_asleep = weights.asleep(predictions, eligible)
        log_weights = None
        if is_asleep:
            log_weights = state.log_weights
        return Odds(propensities, predictions, bonus, log_weights)

    def update(
        self, state: ExpertState, decision: Decision, reward: Real
    ) -> ExpertState:
        """Update the weights by each expert's loss on the drawn arm, using the
        predictions at decision time. Then the experts learn."""
        log_weights = self._reweigh(state.log_weights, decision, reward)
        own = self.update_experts(state.experts, decision, reward)
        return ExpertState(log_weights, state.learnt + 1, own)

    def revise(
        self, state: ExpertState, decision: Decision, before: float, reward: float
    ) -> ExpertState:
        """Return the weights as if the corrected reward had arrived first, up to
        rounding. An expert with weight 0 keeps weight 0."""
        old = self.factors(decision, before)
        new = self.factors(decision, reward)
        is_refuted = np.isneginf(old)
        change = np.where(is_refuted, 0.0, new - np.where(is_refuted, 0.0, old))
        check_advice(change.shape, state.log_weights)
        log_weights = weights.reweigh(state.log_weights, change)
        own = self.revise_experts(state.experts, decision, before, reward)
        return ExpertState(log_weights, state.learnt, own)

    def fold(
        self, state: ExpertState, decisions: Decision, rewards: Array
    ) -> ExpertState:
        """Learn many rewards along a leading axis. If order does not matter, log
        factors are summed in blocks."""
        if not self.orderless:
            one_by_one: ExpertState = super().fold(state, decisions, rewards)
            return one_by_one
        log_weights = state.log_weights
        for start in range(0, len(rewards), _BLOCK):
            rows = slice(start, start + _BLOCK)
            advice = _rows(decisions.advice, rows)
            bonus = _rows(decisions.bonus, rows)
            block = decisions._replace(
                advice=advice,
                bonus=bonus,
                log_weights=_rows(decisions.log_weights, rows),
            )
            total = self._total(block, rewards[rows], log_weights)
            log_weights = weights.reweigh(log_weights, total)
        return ExpertState(log_weights, state.learnt + len(rewards), state.experts)

    def _total(self, block: Decision, rewards: Array, log_weights: Array) -> Array:
        """Return the sum of a block's log factors (N,), or (…, N) with batch axes."""
        twin = self.loss_twin
        advice = block.advice
        has_log_twin = twin is not None and twin.loss == kernels.LOG
        if (
            twin is not None
            and has_log_twin
            and advice is not None
            and advice.ndim == 2
        ):
            check_advice(advice.shape[1:], log_weights)
            losses = total_log_loss(advice, rewards)
            if losses is not None:  # losses is None if an expert made no prediction
                return -twin.eta * losses
        factors = self.factors(block, rewards)
        check_advice(factors.shape[1:], log_weights)
        total: Array = factors.sum(axis=0)
        return total

    def merge(self, *states: ExpertState) -> ExpertState:
        """Merge states that started at the prior and learnt different rewards into one.

        Compute Σ_s (ln w_s - ln p) + ln p. Raise if the posterior depends on the order
        of events.
        """
        if not self.orderless:
            allowed = "fixed experts, share=0 and discount=1"
            raise OrderMatters(
                f"states can be merged only with {allowed}; got {self.order_settings}"
            )
        if not states:
            raise InvalidInput("merge needs at least one state; got none")
        first = states[0]
        for state in states:
            check_advice(state.log_weights.shape, first.log_weights)
        is_possible = np.isfinite(self.log_prior)
        start = np.where(is_possible, self.log_prior, 0.0)
        factors = sum(
            np.where(is_possible, state.log_weights - start, 0.0) for state in states
        )
        log_weights = weights.reweigh(self.log_prior, np.asarray(factors))
        n_learnt = sum(state.learnt for state in states)
        return ExpertState(log_weights, n_learnt, first.experts)

    def explain(
        self,
        state: ExpertState,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Explanation:
        """Explain the propensities by the experts' votes and weights, and by gamma."""
        advice = self.advice(state, context, eligible)
        return self.explain_advice(state, advice, context, eligible=eligible, step=step)

    def explain_advice(
        self,
        state: ExpertState,
        advice: tuple[Array, Array],
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
        uniform: Array | None = None,
    ) -> Explanation:
        """Explain the propensities that `weigh` returns for this advice."""
        predictions, ballots = advice
        gamma = np.asarray(self._gamma(state, step))
        n_arms = predictions.shape[-1]
        even = weights.even(n_arms, eligible, uniform)
        arms = self.arms
        if isinstance(context, Offer):
            arms = context.arms
        if not arms:
            arms = numbered_arms(n_arms)
        voting_weights = weights.awake_weights(state.log_weights, ballots)
        propensities = weights.mix(state.log_weights, ballots, gamma, eligible, uniform)
        notes: tuple[str, ...] = ()
        if state.log_weights.ndim == 1:
            notes = self.experts.notes(state.experts)
        return Explanation(
            names=self.experts.names,
            arms=arms,
            posterior=self.posterior(state),
            weights=voting_weights,
            predictions=predictions,
            ballots=ballots,
            uniform=gamma[..., None] * even,
            propensities=propensities,
            notes=notes,
        )

    def _gamma(self, state: ExpertState, step: Step) -> Real:
        if isinstance(self.gamma, float):
            return self.gamma
        return self.gamma_at(state.learnt + 1 if step is None else step)

    def gamma_at(self, step: int | Ints) -> Real:
        """Return the exploration at this step (or steps)."""
        if isinstance(self.gamma, float):
            return self.gamma
        gamma = self.gamma(step)
        values = np.asarray(gamma)
        if not np.all((values >= 0) & (values <= 1)):
            raise InvalidInput(
                f"gamma must be in [0, 1]; the schedule gave {gamma!r} at step {step!r}"
            )
        if isinstance(gamma, np.ndarray) and gamma.ndim:
            return gamma
        return float(gamma)

    def _reweigh(self, log_weights: Array, decision: Decision, reward: Real) -> Array:
        """Return the log weights after one decision (per batch row) and its reward."""
        twin = self.loss_twin
        advice = decision.advice
        if twin is None or advice is None or advice.shape != log_weights.shape:
            return self._reweigh_by_numpy(log_weights, decision, reward)
        compiled = kernels.compiled()
        if compiled is None:
            return self._reweigh_by_numpy(log_weights, decision, reward)
        if log_weights.ndim > 1:
            return self._reweigh_rows(log_weights, decision, reward)
        heavier: Array | None = None
        if isinstance(reward, float):
            heavier = compiled.reweigh(log_weights, advice, reward, twin.eta, twin.loss)
        if heavier is None:
            return self._reweigh_by_numpy(log_weights, decision, reward)
        return heavier

    def _reweigh_rows(
        self, log_weights: Array, decision: Decision, reward: Real
    ) -> Array:
        """Return the log weights of a batch by compiled code.

        Rows that the compiled code leaves out are computed by numpy, one by one.
        """
        compiled = kernels.compiled()
        twin = self.loss_twin
        is_row_of_floats = (
            isinstance(reward, np.ndarray)
            and reward.dtype == np.float64
            and reward.shape == log_weights.shape[:-1]
        )
        if compiled is None or twin is None or not is_row_of_floats:
            return self._reweigh_by_numpy(log_weights, decision, reward)
        heavier: Array
        heavier, is_done = compiled.reweigh_rows(
            log_weights, decision.advice, reward, twin.eta, twin.loss
        )
        if is_done.all():
            return heavier
        by_numpy = self._reweigh_by_numpy(log_weights, decision, reward)
        return np.where(is_done[..., None], heavier, by_numpy)

    def _reweigh_by_numpy(
        self, log_weights: Array, decision: Decision, reward: Real
    ) -> Array:
        """Return ln w_i - η ℓ(f_i, r) + λ bonus_i, after `discount` and before
        `share`."""
        factors = self.factors(decision, reward)
        check_advice(factors.shape, log_weights)
        if self.discount < 1:
            log_weights = weights.discount(log_weights, self.log_prior, self.discount)
        heavier = weights.reweigh(log_weights, factors)
        if self.share:
            heavier = weights.share(heavier, self.log_prior, self.share)
        return heavier

    def factors(self, decision: Decision, reward: Real) -> Array:
        """Return the log factors (…, N) of a reward, -η ℓ + λ bonus. Experts without a
        prediction get the mix of the others (theory 5.12)."""
        losses = drawn_losses(self, self.loss, decision, reward)
        factors = losses * -self.eta
        if self.optimism:
            if decision.bonus is None:
                raise InvalidInput(
                    "decision must contain the bonus that optimism needs; got none"
                )
            factors = factors + self.optimism * decision.bonus
        asleep = np.isnan(losses)
        log_weights = decision.log_weights
        if log_weights is None:
            if np.count_nonzero(asleep):
                raise InvalidInput(
                    "decision must contain its log weights, because an expert had no "
                    "prediction; got none"
                )
            return factors
        if factors.ndim == 1:
            if not asleep.any():
                return factors
            return weights.charge(factors, log_weights, asleep)
        rows = asleep.any(axis=-1)
        factors = factors.copy()
        factors[rows] = weights.charge(factors[rows], log_weights[rows], asleep[rows])
        return factors

    @property
    def order_settings(self) -> str:
        """Return the names of the settings for which the order of rewards matters."""
        experts = "fixed experts"
        if self.experts.learns:
            experts = "experts that learn"
        return f"{experts}, share={self.share:g} and discount={self.discount:g}"


def best_prediction(predictions: Array, eligible: Bools | None) -> Array:
    """Return max_a f_i(x, a) over the eligible arms with a prediction (…, N); NaN for
    an expert without any."""
    if eligible is not None:
        predictions = np.where(eligible[..., None, :], predictions, np.nan)
    best: Array = np.fmax.reduce(predictions, axis=-1).astype(np.float64)
    return best


def _rows(values: Array | None, rows: slice) -> Array | None:
    if values is None:
        return None
    return values[rows]
