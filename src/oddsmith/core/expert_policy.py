"""Shared parts of policies over experts: their state, and validation of priors, advice
and eligible arms."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from oddsmith.core import weights
from oddsmith.core.arrays import Array, Bools, Ints, Real, simplex
from oddsmith.core.checks import check_losses
from oddsmith.core.decision import Context, Decision, State
from oddsmith.core.errors import InvalidInput, NoEligibleArm
from oddsmith.core.experts import Experts, check_bank, checked_predictions
from oddsmith.core.losses import Loss
from oddsmith.core.names import hint
from oddsmith.core.policy import ExpertShare, Policy

__all__ = [
    "ExpertState",
    "MultiplicativeWeights",
    "OverExperts",
    "Prior",
    "check_advice",
    "check_eligible",
    "checked_prior",
    "column",
    "drawn_advice",
    "drawn_losses",
    "greedy_odds",
    "in_places",
    "mix_uniform",
    "shared_log_weights",
    "shared_prior",
]

Prior: TypeAlias = npt.ArrayLike | Mapping[str, float] | None
"""N prior probabilities, in order or by expert name; None for a uniform prior."""


class ExpertState(NamedTuple):
    """Log weights (…, N) relative to the leading expert, the number of rewards learnt,
    and the experts' own state."""

    log_weights: Array
    learnt: int
    experts: State


def checked_prior(prior: object, names: Sequence[str]) -> Array:
    """Return N prior probabilities in the order of the experts."""
    n = len(names)
    if prior is None:
        return np.full(n, 1.0 / n)
    if isinstance(prior, Mapping):
        for name in prior:
            if name not in names:
                raise InvalidInput(
                    f"prior must name the experts; got {name!r}, which is not among "
                    f"{list(names)[:8]}{hint(str(name), names)}"
                )
        for name in names:
            if name not in prior:
                raise InvalidInput(
                    f"prior must name every expert; got none for {name!r}"
                )
        prior = [prior[name] for name in names]
    return simplex("prior", prior, n=n, over="experts")


def check_advice(shape: tuple[int, ...], log_weights: Array) -> None:
    """Raise unless advice has the shape of the log weights that it will update."""
    if shape != log_weights.shape:
        raise InvalidInput(
            f"advice must have the state's shape {log_weights.shape}; got {shape}"
        )


def check_eligible(eligible: Any, n_arms: int | None = None) -> None:
    """Raise unless `eligible` is None or a boolean mask with at least one arm per row
    (of `n_arms`, if given)."""
    if eligible is None:
        return
    is_mask = (
        isinstance(eligible, np.ndarray)
        and eligible.dtype == np.bool_
        and eligible.ndim > 0
    )
    if not is_mask:
        raise InvalidInput(
            f"eligible must be a boolean mask (…, K); got {type(eligible).__name__} "
            f"{eligible!r:.60}"
        )
    if not eligible.any(axis=-1).all():
        raise NoEligibleArm("at least one arm must be eligible; got none")
    if n_arms is not None and eligible.shape[-1] != n_arms:
        raise InvalidInput(
            f"eligible must be a mask of the {n_arms} arms; got shape {eligible.shape}"
        )


class OverExperts(Policy):
    """Base class of policies that call experts: a subclass is a dataclass with the
    field `experts`."""

    experts: Experts

    def __post_init__(self) -> None:
        check_bank("experts", self.experts)

    @property
    def bank(self) -> Experts:
        return self.experts

    @property
    def arms(self) -> Sequence[str] | None:
        return self.experts.arms

    def weights_of(self, state: State) -> Array:
        """Return the values per expert (…, N) with the state's batch axes."""
        log_weights: Array = state.log_weights
        return log_weights

    def advice(
        self, state: State, context: Context, eligible: Bools | None = None
    ) -> tuple[Array, Array]:
        """Return the experts' predictions and ballots (…, N, K), after checking their
        shapes against the state."""
        if eligible is not None:
            check_eligible(eligible)
        predictions, ballots = self.experts.advise(state.experts, context, eligible)
        log_weights = self.weights_of(state)
        return checked_predictions(predictions, log_weights, eligible), ballots

    @property
    def in_place(self) -> bool:
        return self.experts.learns

    def begin_log(self, state: State) -> State:
        if not self.experts.learns:
            return state
        return state._replace(experts=self.experts.begin_log(state.experts))

    def end_log(self, state: State) -> State:
        if not self.experts.learns:
            return state
        return state._replace(experts=self.experts.end_log(state.experts))

    @property
    def takes_offers(self) -> bool:
        return self.experts.takes_offers

    def with_bank(self, bank: Experts) -> Self:
        policy: Any = self
        changed: Self = replace(policy, experts=bank)
        return changed

    def named_posterior(
        self, state: State, arms: Sequence[str] | None
    ) -> dict[str, Any]:
        """Return the weight of each expert by name."""
        posterior = self.posterior(state).tolist()
        return dict(zip(self.experts.names, posterior, strict=True))

    def update_experts(self, state: State, decision: Decision, reward: Real) -> State:
        """Return the experts' own state after one reward. Fixed experts keep their
        state."""
        if not self.experts.learns:
            return state
        return _check_returned(self.experts.update(state, decision, reward), "update")

    def revise_experts(
        self, state: State, decision: Decision, before: float, reward: float
    ) -> State:
        """Return the experts' own state after the correction of a reward that they have
        already learnt. Fixed experts keep their state."""
        if not self.experts.learns:
            return state
        revised = self.experts.revise(state, decision, before, reward)
        return _check_returned(revised, "revise")


@dataclass(frozen=True, eq=False)
class MultiplicativeWeights(OverExperts):
    """Base class of policies with one weight per expert.

    `prior` is N probabilities or a dict by expert name (None: uniform); the field then
    contains N probabilities. Each reward multiplies the weights by factors that depend
    only on the decision's record, so the order of rewards does not matter.
    """

    experts: Experts
    _: KW_ONLY
    prior: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "prior", checked_prior(self.prior, self.experts.names))

    @cached_property
    def log_prior(self) -> Array:
        """Return the log prior ln p (N,); -inf for a prior of 0."""
        with np.errstate(divide="ignore"):
            log_prior: Array = np.log(self.prior)
        return log_prior

    @property
    def orderless(self) -> bool:
        return not self.experts.learns

    def with_arms(
        self, state: ExpertState, arms: Sequence[str]
    ) -> tuple[Self, ExpertState]:
        experts, own = self.experts.with_arms(state.experts, arms)
        state = state._replace(experts=own)
        return self.with_bank(experts), state

    def with_expert_share(
        self, state: ExpertState, change: ExpertShare
    ) -> tuple[Self, ExpertState]:
        """Return this policy and its state with the given share as prior and weight of
        the expert."""
        policy: Any = self
        prior = shared_prior(self.prior, change)
        log_weights = shared_log_weights(state.log_weights, self.prior, change)
        changed: Self = replace(policy, experts=change.bank, prior=prior)
        return changed, state._replace(log_weights=log_weights, experts=change.own)

    def with_advisers(
        self, state: ExpertState, decision: Decision, places: Ints
    ) -> Decision:
        """Return the decision with advice for the current experts; those without advice
        count as having made no prediction."""
        return in_places(decision, places, self.weights_of(state))

    def init(self, shape: tuple[int, ...] = ()) -> ExpertState:
        """Return the prior as a state with batch axes `shape`."""
        first = self.log_prior - self.log_prior.max()
        log_weights = np.broadcast_to(first, (*shape, len(first))).copy()
        return ExpertState(log_weights, 0, self.experts.init(shape))

    def posterior(self, state: ExpertState) -> Array:
        """Return the normalised weight (…, N) of each expert."""
        return weights.posterior(state.log_weights)

    def reweigh(
        self, state: ExpertState, factors: Array, decision: Decision, reward: Real
    ) -> ExpertState:
        """Add `factors` (…, N) to the log weights. Experts without a prediction get the
        mix of the others (5.12)."""
        asleep = np.isnan(factors)
        if asleep.any():
            if decision.log_weights is None:
                raise InvalidInput(
                    "decision must contain its log weights, because an expert had no "
                    "prediction; got none"
                )
            awake_factors = np.where(asleep, 0.0, factors)
            factors = weights.charge(awake_factors, decision.log_weights, asleep)
        check_advice(factors.shape, state.log_weights)
        log_weights = weights.reweigh(state.log_weights, factors)
        own = self.update_experts(state.experts, decision, reward)
        return ExpertState(log_weights, state.learnt + 1, own)


def shared_prior(prior: Array, change: ExpertShare) -> Array:
    """Return the prior (N,) after a change of experts: `share` for the changed one, and
    the others in proportion.

    >>> shared_prior(np.array([0.5, 0.5]), ExpertShare(Experts(), (), 2, 0.2))
    array([0.4, 0.4, 0.2])
    """
    joins = change.place == len(prior)
    wider = np.append(prior, 0.0) if joins else prior.copy()
    wider *= 1 - change.share
    wider[change.place] = change.share
    shared: Array = wider / wider.sum()
    return shared


def shared_log_weights(log_weights: Array, prior: Array, change: ExpertShare) -> Array:
    """Return the log weights (…, N) after a change of experts, relative to the leader.
    If an expert retires and no other has weight, the others restart at their prior
    (N,)."""
    if change.place == log_weights.shape[-1]:
        none = np.full((*log_weights.shape[:-1], 1), -np.inf)
        wider = np.concatenate([log_weights, none], axis=-1)
    else:
        wider = log_weights.copy()
    if change.share == 0:
        wider[..., change.place] = -np.inf
        top = wider.max(axis=-1, keepdims=True)
        others = prior.copy()
        others[change.place] = 0.0
        first = np.log(others, out=np.full(len(prior), -np.inf), where=others > 0)
        wider = np.where(top == -np.inf, first, wider)
    else:
        # The log total is relative to the leading expert, so it is at least 0.
        log_total = np.log(np.exp(wider).sum(axis=-1))
        odds = np.log(change.share) - np.log1p(-change.share)
        wider[..., change.place] = odds + log_total
    relative: Array = wider - wider.max(axis=-1, keepdims=True)
    return relative


def in_places(decision: Decision, places: Ints, log_weights: Array) -> Decision:
    """Reorder the advice of a decision for the current experts: expert i gets column
    `places[i]`, or no prediction if that is -1.

    Experts without a prediction are charged under the weights of the decision, or, if
    it has none, under the current `log_weights`.

    >>> early = Decision(1, None, None, 0, np.array([1.0]), advice=np.array([0.3]))
    >>> in_places(early, np.array([0, -1]), np.zeros(2)).advice
    array([0.3, nan])
    """
    if decision.advice is None:
        return decision

    def columns(values: Array | None, missing: float) -> Array | None:
        if values is None:
            return None
        return np.where(places < 0, missing, values[..., places])

    drawn_with = columns(decision.log_weights, -np.inf)
    if (places < 0).any():
        shape = (*decision.advice.shape[:-1], len(places))
        now = np.broadcast_to(log_weights, shape)
        if drawn_with is None:
            drawn_with = now
        else:
            drawn_with = np.where(np.isnan(drawn_with), now, drawn_with)
    advice = columns(decision.advice, np.nan)
    bonus = columns(decision.bonus, np.nan)
    return decision._replace(
        advice=advice,
        bonus=bonus,
        log_weights=drawn_with,
    )


def _check_returned(state: State, verb: str) -> State:
    if state is None:
        raise InvalidInput(
            f"{verb} of experts must return their state, even if changed in place; got "
            "None"
        )
    return state


def drawn_advice(decision: Decision, n_experts: int) -> Array:
    """Return the experts' predictions (…, N) for the drawn arm that the decision
    contains."""
    advice = decision.advice
    if advice is None or advice.shape[-1] != n_experts:
        shape = None
        if advice is not None:
            shape = advice.shape
        raise InvalidInput(
            f"decision must contain advice of {n_experts} experts; got {shape}"
        )
    return advice


def column(reward: Real) -> Real:
    """Reshape a reward (…) to (…, 1), for arithmetic with one number per expert."""
    if isinstance(reward, float):
        return reward
    return np.asarray(reward, dtype=np.float64)[..., None]


def drawn_losses(
    policy: OverExperts, loss: Loss, decision: Decision, reward: Real
) -> Array:
    """Return the losses (…, N) of the experts' predictions for the drawn arm; NaN for
    experts without a prediction."""
    advice = drawn_advice(decision, len(policy.experts.names))
    losses = loss(advice, column(reward))
    return check_losses(policy, losses, advice, decision.step)


def greedy_odds(scores: Array, eligible: Bools | None) -> Array:
    """Return propensities 1 for the first eligible arm with the highest score (…, K), 0
    for all others.

    >>> greedy_odds(np.array([0.2, 0.7, 0.7]), None)
    array([0., 1., 0.])
    """
    if eligible is not None:
        scores = np.where(eligible, scores, -np.inf)
    best = scores.argmax(axis=-1)
    is_best = np.arange(scores.shape[-1]) == best[..., None]
    odds: Array = is_best.astype(np.float64)
    return odds


def mix_uniform(odds: Array, gamma: float, eligible: Bools | None) -> Array:
    """Return (1 - γ) odds + γ/K over the eligible arms (…, K).

    >>> mix_uniform(np.array([1.0, 0.0]), 0.1, None)
    array([0.95, 0.05])
    """
    if gamma == 0:
        return odds
    uniform: Real
    if eligible is None:
        uniform = 1 / odds.shape[-1]
    else:
        uniform = eligible / np.add.reduce(eligible, axis=-1, keepdims=True)
    return (1 - gamma) * odds + gamma * uniform
