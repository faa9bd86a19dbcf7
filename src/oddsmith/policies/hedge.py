"""Hedged: a safe combination of Generalized Thompson Sampling and each expert's greedy
policy, weighted by estimated rewards."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from oddsmith.core import weights
from oddsmith.core.arrays import Array, Bools, Ints, Real, number
from oddsmith.core.decision import Context, Decision, Odds, State, Step
from oddsmith.core.errors import InvalidInput
from oddsmith.core.expert_policy import (
    ExpertState,
    check_advice,
    column,
    drawn_advice,
)
from oddsmith.core.explanation import Explanation
from oddsmith.core.gts import GeneralizedThompsonSampling
from oddsmith.core.offer import AnyOffer
from oddsmith.core.policy import ExpertShare, Policy
from oddsmith.policies.parts.advice import ByAdvice
from oddsmith.policies.parts.choices import Choices, choices_of, sums_of
from oddsmith.policies.wrapper import PolicyWrapper

__all__ = ["Hedged", "HedgedState"]


class HedgedState(NamedTuple):
    """Estimated losses of all members (…, N + 1), the mixability gap (…), and the state
    of GTS.

    `choices` (…, 4, N) are sums about the experts' policies, for confidence intervals
    (`parts.choices`).
    """

    lost: Array
    price: Array
    choices: Array
    current: ExpertState

    @property
    def learnt(self) -> int:
        """Return the number of rewards."""
        return self.current.learnt

    @property
    def experts(self) -> State:
        """Return the experts' own state."""
        return self.current.experts


@dataclass(frozen=True, eq=False)
class Hedged(ByAdvice, PolicyWrapper):
    """EXP4 over the N experts' ballots and the propensities of GTS. Its learning rate
    adapts to its mixability gap (docs/math 7.4).

        Pr(a) = Σ_j q_j ξ_j(a),   q_j ∝ π_j exp(-η L_j),   η = ln(1 / min π) / Δ
        L_j += l_j = ξ_j(a) (1 - r) / Pr(a),
        Δ += Σ_j q_j l_j + ln(Σ_j q_j exp(-η l_j)) / η

    `policy` is the inner GTS. As a member, it has the prior `trust`, and its own
    weights are updated as usual. The experts' policies share 1 - trust in proportion to
    the inner GTS's prior. No expert need be right, rewards may be arbitrary, and
    nothing is tuned: the regret to any member is at most (1 + ln(1/π_j)/D) (1/2 +
    sqrt(1/4 + D K T)) - 1, D = ln(1 / min π), at any T (`theory.hedged_bound`).
    Decisions record q and η, so neither the order nor the delay of rewards changes the
    result.

    >>> from oddsmith.experts.external import GivenExperts
    >>> policy = Hedged(
    ...     GeneralizedThompsonSampling(GivenExperts(["cold", "warm"]), gamma=0.0)
    ... )
    >>> policy.odds(policy.init(), np.array([[0.2, 0.1], [0.6, 0.9]])).propensities
    array([0.5, 0.5])
    """

    policy: GeneralizedThompsonSampling
    trust: float = 0.5

    weighs_ballots = True
    importance_weighted = True
    explores = False  # an arm without a vote has propensity 0

    def __post_init__(self) -> None:
        if not isinstance(self.policy, GeneralizedThompsonSampling):
            raise InvalidInput(
                "policy must be a GeneralizedThompsonSampling; got "
                f"{type(self.policy).__name__}"
            )
        trust = self.trust
        trust = number("trust", trust, low=0, high=1, open_low=True, open_high=True)
        object.__setattr__(self, "trust", trust)

    @cached_property
    def log_prior(self) -> Array:
        """Return the log prior ln π (N + 1,): the experts' policies, then GTS; -inf for
        a prior of 0."""
        experts = self.policy.log_prior + np.log1p(-self.trust)
        log_prior: Array = np.append(experts, np.log(self.trust))
        return log_prior

    @cached_property
    def scale(self) -> float:
        """Return D = ln(1 / min π) over the members with a prior."""
        log_prior = self.log_prior
        return float(-log_prior[np.isfinite(log_prior)].min())

    @property
    def orderless(self) -> bool:
        return self.policy.orderless

    @property
    def mergeable(self) -> bool:
        return self.policy.mergeable

    def inner_state(self, state: HedgedState) -> ExpertState:
        return state.current

    def init(self, shape: tuple[int, ...] = ()) -> HedgedState:
        """Return the state before any reward, with batch axes `shape`."""
        n = len(self.policy.prior)
        lost = np.zeros((*shape, n + 1))
        choices = np.zeros((*shape, 4, n))
        return HedgedState(lost, np.ones(shape), choices, self.policy.init(shape))

    def with_arms(
        self, state: HedgedState, arms: Sequence[str]
    ) -> tuple[Self, HedgedState]:
        policy, wider = self.policy.with_arms(state.current, arms)
        state = state._replace(current=wider)
        return replace(self, policy=policy), state

    def with_expert_share(
        self, state: HedgedState, change: ExpertShare
    ) -> tuple[Self, HedgedState]:
        """Give the expert this share of the weight in GTS. Its policy starts at its
        prior, like that of an expert that made no predictions so far."""
        policy, current = self.policy.with_expert_share(state.current, change)
        changed = replace(self, policy=policy)
        n_before = len(self.policy.prior)
        lost = state.lost
        choices = state.choices
        if change.place == n_before:
            lost = np.insert(lost, n_before, 0.0, axis=-1)
            none = np.zeros((*choices.shape[:-1], 1))
            choices = np.concatenate([choices, none], axis=-1)
        if change.share > 0:
            lost = lost.copy()
            lost[..., change.place] = changed._mixed_loss(lost, state.price, change)
        return changed, HedgedState(lost, state.price, choices, current)

    def _mixed_loss(self, lost: Array, price: Array, change: ExpertShare) -> Array:
        """Return the loss (…) of the mixture of all members except the new one."""
        rate = self.scale / price
        others = self.log_prior.copy()
        others[change.place] = -np.inf
        least = lost.min(axis=-1, keepdims=True)
        votes = others - rate[..., None] * (lost - least)
        top = votes.max(axis=-1)
        shares = np.exp(votes - top[..., None])
        total = np.log(shares.sum(axis=-1)) + top
        beyond = np.log(np.exp(others).sum()) - total
        mixed: Array = least[..., 0] + beyond / rate
        return mixed

    def adviser_count(self, decision: Decision) -> int:
        return max(super().adviser_count(decision) - 1, 0) // 2

    def with_advisers(
        self, state: HedgedState, decision: Decision, places: Ints
    ) -> Decision:
        """Return the decision with advice for the current experts. Those without advice
        have no vote, and their policies no weight."""
        advice = decision.advice
        bonus = decision.bonus
        if advice is None or bonus is None:
            return decision
        n = self.adviser_count(decision)
        lead = advice.shape[:-1]
        of_policy = decision._replace(
            advice=advice[..., :n],
            bonus=bonus[..., :n],
            log_weights=_first(decision.log_weights, n),
        )
        inner = self.policy.with_advisers(state.current, of_policy, places)
        members = np.append(places, n)  # GTS is the last member
        votes = np.where(places < 0, np.nan, advice[..., n + places])
        rates = np.where(members < 0, 0.0, bonus[..., n + members])
        own_advice = np.concatenate([votes, advice[..., -1:]], axis=-1)
        log_weights = None
        if inner.log_weights is not None:
            log_weights = _join(inner.log_weights, self._log_trust(state), lead)
        all_advice = _join(inner.advice, own_advice, lead)
        all_bonus = _join(inner.bonus, rates, lead)
        return decision._replace(
            advice=all_advice,
            bonus=all_bonus,
            log_weights=log_weights,
        )

    def weigh(
        self,
        state: HedgedState,
        advice: tuple[Array, Array],
        *,
        eligible: Bools | None = None,
        step: Step = None,
        offer: AnyOffer | None = None,
        uniform: Array | None = None,
    ) -> Odds:
        """Return the members' votes by weight.

        The advice of the result contains GTS's advice (the N predictions), then the
        members' N + 1 votes, NaN for an expert without a vote. The bonus contains GTS's
        bonus, or 0, then q_j η, whose sum is the rate."""
        inner = self.policy.weigh(
            state.current, advice, eligible=eligible, step=step, uniform=uniform
        )
        votes = _members(advice[1], inner.propensities)
        log_trust = self._log_trust(state)
        propensities = weights.mix(log_trust, votes, 0.0, eligible, uniform)
        lead = propensities.shape[:-1]
        eta = (self.scale / state.price)[..., None]
        rates = eta * weights.awake_weights(log_trust, votes)
        is_awake = votes.any(axis=-1, keepdims=True)
        own_advice = np.where(is_awake, votes, np.nan)
        bonus = inner.bonus
        if bonus is None:
            bonus = np.zeros(len(self.policy.prior))
        log_weights = None
        if inner.log_weights is not None:
            log_weights = _join(inner.log_weights, log_trust, lead)
        all_advice = _join(inner.advice, own_advice, lead, axis=-2)
        return Odds(
            propensities,
            all_advice,
            _join(bonus, rates, lead),
            log_weights,
        )

    def update(
        self, state: HedgedState, decision: Decision, reward: Real
    ) -> HedgedState:
        """Add the importance-weighted loss to every member by its vote; then GTS learns
        from the predictions."""
        lost, gap = self.charges(decision, reward)
        check_advice(lost.shape, state.lost)
        current = self.policy.update(state.current, self._of_policy(decision), reward)
        choices = self._choices(decision, reward)
        return _add(state, lost, gap, choices, current)

    def revise(
        self, state: HedgedState, decision: Decision, before: float, reward: float
    ) -> HedgedState:
        """Return the sums with the corrected reward, up to rounding."""
        old_lost, old_gap = self.charges(decision, before)
        lost, gap = self.charges(decision, reward)
        check_advice(lost.shape, state.lost)
        of_policy = self._of_policy(decision)
        current = self.policy.revise(state.current, of_policy, before, reward)
        choices = self._choices(decision, reward) - self._choices(decision, before)
        return _add(state, lost - old_lost, gap - old_gap, choices, current)

    def fold(
        self, state: HedgedState, decisions: Decision, rewards: Array
    ) -> HedgedState:
        """Learn many rewards along a leading axis. If the order does not matter, they
        are summed at once."""
        if not self.orderless:
            return Policy.fold(self, state, decisions, rewards)  # type: ignore[no-any-return]
        lost, gap = self.charges(decisions, rewards)
        check_advice(lost.shape[1:], state.lost)
        current = self.policy.fold(state.current, self._of_policy(decisions), rewards)
        choices = self._choices(decisions, rewards).sum(axis=0)
        return _add(state, lost.sum(axis=0), gap.sum(axis=0), choices, current)

    def merge(self, *states: HedgedState) -> HedgedState:
        """Merge states that started at the prior into one."""
        inner = [state.current for state in states]
        current = self.policy.merge(*inner)
        lost = np.asarray(sum(state.lost for state in states))
        prices = np.asarray(sum(state.price for state in states))
        choices = np.asarray(sum(state.choices for state in states))
        price = prices - (len(states) - 1)
        return HedgedState(lost, price, choices, current)

    def charges(self, decision: Decision, reward: Real) -> tuple[Array, Array]:
        """Return the loss of each member for a reward (…, N + 1), and the mixability
        gap (…). Both depend only on the decision.

        Experts without a vote get the mixed loss of the others, which does not change
        the mix:

            mix = -ln(Σ_j q_j exp(-η l_j)) / η
        """
        n = len(self.policy.prior)
        advice = drawn_advice(decision, 2 * n + 1)
        bonus = decision.bonus
        if bonus is None or bonus.shape != advice.shape:
            raise InvalidInput(
                "decision must contain the bonus that Hedged needs; got none"
            )
        votes = advice[..., n:]
        rates = bonus[..., n:]
        eta = rates.sum(axis=-1, keepdims=True)
        asleep = np.isnan(votes)
        trust = rates / eta
        awake_votes = np.where(asleep, 0.0, votes)
        lost = awake_votes * (1 - column(reward)) / column(decision.propensity)
        least = np.where(trust > 0, lost, np.inf).min(axis=-1, keepdims=True)
        shares = trust * np.exp(-eta * (lost - least).clip(0))
        mixed = least - np.log(shares.sum(axis=-1, keepdims=True)) / eta
        expected_loss = (trust * lost).sum(axis=-1)
        gap = np.maximum(expected_loss - mixed[..., 0], 0.0)
        return np.where(asleep, mixed, lost), gap

    def monitor(self, state: HedgedState) -> Choices:
        """Compare the policy of the best predictor with the best policy, for a state
        without batch axes."""
        predictor = int(state.current.log_weights.argmax())
        names = list(self.policy.experts.names)
        present = self.policy.prior > 0
        return choices_of(
            state.choices,
            state.learnt,
            names=names,
            predictor=predictor,
            present=present,
        )

    def members(self, state: HedgedState) -> Array:
        """Return the weights q (…, N + 1) of each expert's policy and, last, of GTS."""
        return weights.posterior(self._log_trust(state))

    def posterior(self, state: HedgedState) -> Array:
        """Return the probability (…, N) of following each expert: the weight of its own
        policy, plus that of GTS times its weight there."""
        trust = self.members(state)
        inner = self.policy.posterior(state.current)
        total: Array = trust[..., :-1] + trust[..., -1:] * inner
        return total

    def named_posterior(
        self, state: HedgedState, arms: Sequence[str] | None
    ) -> dict[str, Any]:
        posterior = self.posterior(state).tolist()
        return dict(zip(self.policy.experts.names, posterior, strict=True))

    def explain_advice(
        self,
        state: HedgedState,
        advice: tuple[Array, Array],
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
        uniform: Array | None = None,
    ) -> Explanation:
        """Explain the propensities that `weigh` returns for this advice."""
        inner = self.policy.explain_advice(
            state.current,
            advice,
            context,
            eligible=eligible,
            step=step,
            uniform=uniform,
        )
        votes = _members(inner.ballots, inner.propensities)
        log_trust = self._log_trust(state)
        trust = weights.awake_weights(log_trust, votes)
        of_gts = trust[..., -1:]
        gamma = inner.uniform.sum(axis=-1, keepdims=True)
        voting = trust[..., :-1] + of_gts * (1 - gamma) * inner.weights
        explored = of_gts * gamma
        rest = np.where(explored < 1, 1 - explored, 1.0)
        notes = self.notes(state) if state.price.ndim == 0 else ()
        return inner._replace(
            posterior=self.posterior(state),
            weights=voting / rest,
            uniform=of_gts * inner.uniform,
            propensities=weights.mix(log_trust, votes, 0.0, eligible, uniform),
            notes=notes,
        )

    def notes(self, state: HedgedState) -> tuple[str, ...]:
        """Return sentences about the estimated cost of safety (for a state without
        batch axes) and about the member with the largest weight, unless this is GTS."""
        trust = self.members(state)
        price = float(state.price)
        of_gts = (1 - self.log_prior[-1] / self.scale) * price - 1
        of_one = 2 * price - 1
        costs = (
            f"{of_gts:,.0f} rewards against GTS's own advice, {of_one:,.0f} against "
            "any one expert's policy"
        )
        meaning = (
            "the average of these numbers over runs bounds the expected regret; one "
            "run may exceed it"
        )
        notes = [
            f"Estimated price of safety after {state.learnt:,} rewards: {costs} "
            f"({meaning}). GTS holds {trust[-1]:.0%} of the trust."
        ]
        if trust[-1] < self.trust / 10:
            leader = int(trust[:-1].argmax())
            name = self.policy.experts.names[leader]
            notes.append(
                f"GTS is losing to the policy of {name!r}: it predicts best and does "
                "not choose best."
            )
        return (*notes, str(self.monitor(state)))

    def _choices(self, decision: Decision, reward: Real) -> Array:
        """Return the increments of the sums about the experts' policies. An expert
        without a vote counts as the policy itself."""
        n = len(self.policy.prior)
        votes = drawn_advice(decision, 2 * n + 1)[..., n:-1]
        over_odds = votes / column(decision.propensity)
        over_odds = np.where(np.isnan(over_odds), 1.0, over_odds)
        return sums_of(over_odds, np.asarray(column(reward)))

    def _log_trust(self, state: HedgedState) -> Array:
        """Return ln q (…, N + 1) relative to the leader."""
        rate = (self.scale / state.price)[..., None]
        beyond = state.lost - state.lost.min(axis=-1, keepdims=True)
        log_trust = self.log_prior - rate * beyond
        relative: Array = log_trust - log_trust.max(axis=-1, keepdims=True)
        return relative

    def _of_policy(self, decision: Decision) -> Decision:
        """Return the decision with the advice, bonus and weights of GTS's experts, in
        the form that GTS uses."""
        n = len(self.policy.prior)
        bonus = decision.bonus if self.policy.optimism else None
        return decision._replace(
            advice=_first(decision.advice, n),
            bonus=_first(bonus, n),
            log_weights=_first(decision.log_weights, n),
        )


def _members(ballots: Array, odds: Array) -> Array:
    """Return ballots (…, N, K) followed by GTS's propensities (…, K) as the last one
    (…, N + 1, K)."""
    return _join(ballots, odds[..., None, :], odds.shape[:-1], axis=-2)


def _first(values: Array | None, n: int) -> Array | None:
    """Return the first n columns, if there are any."""
    if values is None:
        return None
    return values[..., :n]


def _add(
    state: HedgedState, lost: Array, gap: Array, choices: Array, current: ExpertState
) -> HedgedState:
    """Return the state with these increments, and the new state of GTS."""
    price = np.asarray(state.price + gap)
    all_lost = state.lost + lost
    all_choices = state.choices + choices
    return HedgedState(all_lost, price, all_choices, current)


def _join(first: Any, second: Array, lead: tuple[int, ...], axis: int = -1) -> Array:
    """Return two arrays side by side along an axis, both with the batch axes `lead`."""
    first = np.broadcast_to(first, lead + first.shape[axis:])
    second = np.broadcast_to(second, lead + second.shape[axis:])
    return np.concatenate([first, second], axis=axis)
