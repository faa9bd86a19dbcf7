"""Hedged: Generalized Thompson Sampling and every expert's own policy, weighed by what
each would have earned."""

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
from oddsmith.policies.parts.choices import Choices, choices_of, sums_of
from oddsmith.policies.wrapper import PolicyWrapper

__all__ = ["Hedged", "HedgedState"]


class HedgedState(NamedTuple):
    """What every member would have lost, estimated (…, N + 1), the price of safety (…),
    and the state of GTS.

    `choices` (…, 4, N) are sums about the experts' policies, from which intervals are
    made (`parts.choices`).
    """

    lost: Array
    price: Array
    choices: Array
    current: ExpertState

    @property
    def learnt(self) -> int:
        """The number of rewards learnt."""
        return self.current.learnt

    @property
    def experts(self) -> State:
        """The experts' own state."""
        return self.current.experts


@dataclass(frozen=True, eq=False)
class Hedged(PolicyWrapper):
    """EXP4 over the N experts' ballots and the odds of GTS itself, its rate from its
    own mixability gap (theory 7.4).

        Pr(a) = Σ_j q_j ξ_j(a),   q_j ∝ π_j exp(-η L_j),   η = ln(1 / min π) / Δ
        L_j += l_j = ξ_j(a) (1 - r) / Pr(a),
        Δ += Σ_j q_j l_j + ln(Σ_j q_j exp(-η l_j)) / η

    `policy` is the GTS inside, whose prior is `trust` and whose weights learn as ever;
    its experts share the rest by its own prior. No expert need be right, rewards may be
    anything, nothing is tuned: the regret to any member is at most (1 + ln(1/π_j)/D)
    (1/2 + sqrt(1/4 + D K T)) - 1, D = ln(1 / min π), at any T (`theory.hedged_bound`).
    Decisions carry q and η, so that neither the order nor the delay of rewards matters
    to what is learnt from them.

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
    explores = False  # an arm that no member wants has odds 0

    def __post_init__(self) -> None:
        if not isinstance(self.policy, GeneralizedThompsonSampling):
            raise InvalidInput(
                "policy must be a GeneralizedThompsonSampling; got "
                f"{type(self.policy).__name__}"
            )
        trust = number(
            "trust", self.trust, low=0, high=1, open_low=True, open_high=True
        )
        object.__setattr__(self, "trust", trust)

    @cached_property
    def log_prior(self) -> Array:
        """ln π (N + 1,): the experts' policies, then GTS; -inf where an expert has no
        prior."""
        log_prior: Array = np.append(
            self.policy.log_prior + np.log1p(-self.trust), np.log(self.trust)
        )
        return log_prior

    @cached_property
    def scale(self) -> float:
        """D = ln(1 / min π), over the members that have a prior."""
        return float(-self.log_prior[np.isfinite(self.log_prior)].min())

    @property
    def orderless(self) -> bool:
        return self.policy.orderless

    @property
    def mergeable(self) -> bool:
        return self.policy.mergeable

    def inner_state(self, state: HedgedState) -> ExpertState:
        return state.current

    def init(self, shape: tuple[int, ...] = ()) -> HedgedState:
        """Nothing lost, and a price of 1, with batch axes `shape`."""
        n = len(self.policy.prior)
        return HedgedState(
            np.zeros((*shape, n + 1)),
            np.ones(shape),
            np.zeros((*shape, 4, n)),
            self.policy.init(shape),
        )

    def with_arms(
        self, state: HedgedState, arms: Sequence[str]
    ) -> tuple[Self, HedgedState]:
        policy, wider = self.policy.with_arms(state.current, arms)
        return replace(self, policy=policy), state._replace(current=wider)

    def with_expert_share(
        self, state: HedgedState, change: ExpertShare
    ) -> tuple[Self, HedgedState]:
        """The expert has this share of the weight in GTS, and its policy begins at its
        prior, as one that has slept until now."""
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
        """What the mix of all members but the one that joins has lost (…)."""
        rate = self.scale / price
        others = self.log_prior.copy()
        others[change.place] = -np.inf
        known = lost - lost.min(axis=-1, keepdims=True)
        votes = others - rate[..., None] * known
        top = votes.max(axis=-1)
        total = np.log(np.exp(votes - top[..., None]).sum(axis=-1)) + top
        beyond = np.log(np.exp(others).sum()) - total
        mixed: Array = lost.min(axis=-1) + beyond / rate
        return mixed

    def adviser_count(self, decision: Decision) -> int:
        return max(super().adviser_count(decision) - 1, 0) // 2

    def with_advisers(
        self, state: HedgedState, decision: Decision, places: Ints
    ) -> Decision:
        """Experts that gave no advice are asleep in it, and their policies have no
        trust in it."""
        advice = decision.advice
        bonus = decision.bonus
        if advice is None or bonus is None:
            return decision
        n = self.adviser_count(decision)
        lead = advice.shape[:-1]
        of_policy = decision._replace(
            advice=advice[..., :n],
            bonus=bonus[..., :n],
            log_weights=None
            if decision.log_weights is None
            else decision.log_weights[..., :n],
        )
        read = self.policy.with_advisers(state.current, of_policy, places)
        members = np.append(places, n)  # GTS, which is the last one
        votes = np.where(places < 0, np.nan, advice[..., n + places])
        rates = np.where(members < 0, 0.0, bonus[..., n + members])
        said = np.concatenate([votes, advice[..., -1:]], axis=-1)
        drawn_with = (
            None
            if read.log_weights is None
            else _joined(read.log_weights, self._log_trust(state), lead)
        )
        return decision._replace(
            advice=_joined(read.advice, said, lead),
            bonus=_joined(read.bonus, rates, lead),
            log_weights=drawn_with,
        )

    def odds(
        self,
        state: HedgedState,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Odds:
        """Exact propensities, with what `weigh` says travels beside them."""
        advice = self.advice(state, context, eligible)
        return self.weigh(state, advice, eligible=eligible, step=step)

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
        """The members' votes by trust.

        The advice is GTS's (the N predictions), then the members' N + 1 votes, NaN for
        a sleeper; the bonus is GTS's, or 0, then q_j η, whose sum is the rate.
        """
        inner = self.policy.weigh(
            state.current, advice, eligible=eligible, step=step, uniform=uniform
        )
        votes = _members(advice[1], inner.propensities)
        log_trust = self._log_trust(state)
        propensities = weights.mix(log_trust, votes, 0.0, eligible, uniform)
        rates = (self.scale / state.price)[..., None] * weights.awake_weights(
            log_trust, votes
        )
        lead = propensities.shape[:-1]
        said = np.where(votes.any(axis=-1, keepdims=True), votes, np.nan)
        bonus = np.zeros(len(self.policy.prior)) if inner.bonus is None else inner.bonus
        asleep = (
            None
            if inner.log_weights is None
            else _joined(inner.log_weights, log_trust, lead)
        )
        return Odds(
            propensities,
            _joined(inner.advice, said, lead, axis=-2),
            _joined(bonus, rates, lead),
            asleep,
        )

    def update(
        self, state: HedgedState, decision: Decision, reward: Real
    ) -> HedgedState:
        """Charge every member the lost reward by its vote, over the odds; then GTS
        learns from the predictions."""
        lost, gap = self.charges(decision, reward)
        check_advice(lost.shape, state.lost)
        current = self.policy.update(state.current, self._of_policy(decision), reward)
        choices = state.choices + self._choices(decision, reward)
        return HedgedState(
            state.lost + lost, np.asarray(state.price + gap), choices, current
        )

    def revise(
        self, state: HedgedState, decision: Decision, before: float, reward: float
    ) -> HedgedState:
        """The sums as if the new reward had been the first, to rounding."""
        (was, old), (now, new) = (
            self.charges(decision, one) for one in (before, reward)
        )
        check_advice(now.shape, state.lost)
        current = self.policy.revise(
            state.current, self._of_policy(decision), before, reward
        )
        choices = state.choices + (
            self._choices(decision, reward) - self._choices(decision, before)
        )
        return HedgedState(
            state.lost + (now - was),
            np.asarray(state.price + (new - old)),
            choices,
            current,
        )

    def fold(
        self, state: HedgedState, decisions: Decision, rewards: Array
    ) -> HedgedState:
        """Many updates along a leading axis; where order does not matter they are added
        up."""
        if not self.orderless:
            return Policy.fold(self, state, decisions, rewards)  # type: ignore[no-any-return]
        lost, gap = self.charges(decisions, rewards)
        check_advice(lost.shape[1:], state.lost)
        current = self.policy.fold(state.current, self._of_policy(decisions), rewards)
        choices = state.choices + self._choices(decisions, rewards).sum(axis=0)
        return HedgedState(
            state.lost + lost.sum(axis=0),
            np.asarray(state.price + gap.sum(axis=0)),
            choices,
            current,
        )

    def merge(self, *states: HedgedState) -> HedgedState:
        """One state that has learnt what these learnt from separate rewards, each
        starting at the prior."""
        current = self.policy.merge(*(state.current for state in states))
        lost, price, choices = (
            np.asarray(sum(parts))
            for parts in zip(*(state[:3] for state in states), strict=True)
        )
        return HedgedState(lost, price - (len(states) - 1), choices, current)

    def charges(self, decision: Decision, reward: Real) -> tuple[Array, Array]:
        """What a reward says that each member lost (…, N + 1), and the mixability gap
        (…), by the decision alone.

        Sleepers are charged the mix of those awake, which leaves the mix as it is.
        """
        n = len(self.policy.prior)
        advice = drawn_advice(decision, 2 * n + 1)
        bonus = decision.bonus
        if bonus is None or bonus.shape != advice.shape:
            raise InvalidInput(
                "decision must carry the bonus that Hedged needs; got none"
            )
        votes = advice[..., n:]
        rates = bonus[..., n:]
        eta = rates.sum(axis=-1, keepdims=True)
        asleep = np.isnan(votes)
        trust = rates / eta
        lost = (
            np.where(asleep, 0.0, votes)
            * (1 - column(reward))
            / column(decision.propensity)
        )
        least = np.where(trust > 0, lost, np.inf).min(axis=-1, keepdims=True)
        mixed = (
            least
            - np.log(
                (trust * np.exp(-eta * (lost - least).clip(0))).sum(
                    axis=-1, keepdims=True
                )
            )
            / eta
        )
        gap = np.maximum((trust * lost).sum(axis=-1) - mixed[..., 0], 0.0)
        return np.where(asleep, mixed, lost), gap

    def monitor(self, state: HedgedState) -> Choices:
        """Whether the best predictor has the best policy, of a state without batch
        axes."""
        predictor = int(state.current.log_weights.argmax())
        names = list(self.policy.experts.names)
        return choices_of(
            state.choices,
            state.learnt,
            names=names,
            predictor=predictor,
            present=self.policy.prior > 0,
        )

    def members(self, state: HedgedState) -> Array:
        """q (…, N + 1): the trust in each expert's policy, and last in GTS."""
        return weights.posterior(self._log_trust(state))

    def posterior(self, state: HedgedState) -> Array:
        """The probability (…, N) that an expert is followed: by its own policy's trust,
        or by GTS's and its weight."""
        trust = self.members(state)
        followed: Array = trust[..., :-1] + trust[..., -1:] * self.policy.posterior(
            state.current
        )
        return followed

    def named_posterior(
        self, state: HedgedState, arms: Sequence[str] | None
    ) -> dict[str, Any]:
        return dict(
            zip(self.policy.experts.names, self.posterior(state).tolist(), strict=True)
        )

    def explain(
        self,
        state: HedgedState,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Explanation:
        """The experts' votes, each by its own policy's trust and its weight in GTS
        together, and what safety costs."""
        advice = self.advice(state, context, eligible)
        return self.explain_advice(state, advice, context, eligible=eligible, step=step)

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
        """The explanation of the odds that `weigh` makes of this advice."""
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
        return inner._replace(
            posterior=self.posterior(state),
            weights=voting / np.where(of_gts * gamma < 1, 1 - of_gts * gamma, 1.0),
            uniform=of_gts * inner.uniform,
            propensities=weights.mix(log_trust, votes, 0.0, eligible, uniform),
            notes=self.notes(state) if state.price.ndim == 0 else (),
        )

    def notes(self, state: HedgedState) -> tuple[str, ...]:
        """What safety is estimated to have cost (a state without batch axes), and who
        leads if GTS does not."""
        trust = self.members(state)
        price = float(state.price)
        of_gts, of_one = (
            (1 + cost / self.scale) * price - 1
            for cost in (-self.log_prior[-1], self.scale)
        )
        costs = (
            f"{of_gts:,.0f} rewards against GTS's own advice, {of_one:,.0f} against "
            "any one expert's policy"
        )
        meaning = (
            "the average of these numbers over runs bounds the expected regret; one "
            "run may exceed it"
        )
        said = [
            f"Estimated price of safety after {state.learnt:,} rewards: {costs} "
            f"({meaning}). GTS holds {trust[-1]:.0%} of the trust."
        ]
        if trust[-1] < self.trust / 10:
            name = self.policy.experts.names[int(trust[:-1].argmax())]
            said.append(
                f"GTS is losing to the policy of {name!r}: it predicts best and does "
                "not choose best."
            )
        return (*said, str(self.monitor(state)))

    def _choices(self, decision: Decision, reward: Real) -> Array:
        """What a reward adds to the sums about the experts' policies; a sleeper would
        have done as was done."""
        n = len(self.policy.prior)
        votes = drawn_advice(decision, 2 * n + 1)[..., n:-1] / column(
            decision.propensity
        )
        return sums_of(
            np.where(np.isnan(votes), 1.0, votes), np.asarray(column(reward))
        )

    def _log_trust(self, state: HedgedState) -> Array:
        """ln q (…, N + 1) relative to the leader, from totals."""
        rate = (self.scale / state.price)[..., None]
        log_trust = self.log_prior - rate * (
            state.lost - state.lost.min(axis=-1, keepdims=True)
        )
        relative: Array = log_trust - log_trust.max(axis=-1, keepdims=True)
        return relative

    def _of_policy(self, decision: Decision) -> Decision:
        """The decision as GTS learns from it: the advice, bonus and weights of its
        experts."""
        n = len(self.policy.prior)
        columns = {"advice": decision.advice, "log_weights": decision.log_weights}
        columns["bonus"] = decision.bonus if self.policy.optimism else None
        own: Any = {
            name: None if values is None else values[..., :n]
            for name, values in columns.items()
        }
        return decision._replace(**own)


def _members(ballots: Array, odds: Array) -> Array:
    """Ballots (…, N, K) and GTS's odds (…, K) below them (…, N + 1, K)."""
    lead = odds.shape[:-1]
    return np.concatenate(
        [np.broadcast_to(ballots, lead + ballots.shape[-2:]), odds[..., None, :]],
        axis=-2,
    )


def _joined(first: Any, second: Array, lead: tuple[int, ...], axis: int = -1) -> Array:
    """Two arrays side by side along an axis, both with the batch axes `lead`."""
    return np.concatenate(
        [np.broadcast_to(one, lead + one.shape[axis:]) for one in (first, second)],
        axis=axis,
    )
