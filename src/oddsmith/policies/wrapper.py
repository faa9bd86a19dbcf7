"""PolicyWrapper: base class of policies that wrap another one."""

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self

from oddsmith.core.arrays import Array, Bools, Ints, Real
from oddsmith.core.decision import Context, Decision, Odds, State, Step
from oddsmith.core.experts import Experts
from oddsmith.core.explanation import ArmExplanation, Explanation
from oddsmith.core.offer import AnyOffer
from oddsmith.core.policy import ExpertShare, Policy

__all__ = ["PolicyWrapper"]


class PolicyWrapper(Policy):
    """Base class of policies that wrap another one: a subclass is a dataclass with a
    field `policy`. Everything that it does not define comes from the inner policy.

    If a wrapper defines `update`, `fold` calls it for each reward, and the wrapper is
    neither `orderless` nor `mergeable`.
    """

    policy: Policy

    def inner_state(self, state: State) -> State:
        """Return the inner policy's part of the state; by default the whole state."""
        return state

    if not TYPE_CHECKING:  # the type checker uses the types that Policy declares
        bank = property(attrgetter("policy.bank"))
        arms = property(attrgetter("policy.arms"))
        in_place = property(attrgetter("policy.in_place"))
        explores = property(attrgetter("policy.explores"))
        importance_weighted = property(attrgetter("policy.importance_weighted"))
        reads_context = property(attrgetter("policy.reads_context"))
        takes_offers = property(attrgetter("policy.takes_offers"))
        prediction_range = property(attrgetter("policy.prediction_range"))

    @property
    def weighs_ballots(self) -> bool:
        return self.policy.weighs_ballots and type(self).odds is PolicyWrapper.odds

    @property
    def orderless(self) -> bool:
        return self.policy.orderless and self._learns_as_inside

    @property
    def mergeable(self) -> bool:
        return self.policy.mergeable and self._learns_as_inside

    @property
    def _learns_as_inside(self) -> bool:
        return type(self).update is PolicyWrapper.update

    def init(self, shape: tuple[int, ...] = ()) -> State:
        return self.policy.init(shape)

    def odds(
        self,
        state: State,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Odds:
        inner = self.inner_state(state)
        return self.policy.odds(inner, context, eligible=eligible, step=step)

    def weigh(
        self,
        state: State,
        advice: tuple[Array, Array],
        *,
        eligible: Bools | None = None,
        step: Step = None,
        offer: AnyOffer | None = None,
        uniform: Array | None = None,
    ) -> Odds:
        return self.policy.weigh(
            self.inner_state(state),
            advice,
            eligible=eligible,
            step=step,
            offer=offer,
            uniform=uniform,
        )

    def advice(
        self, state: State, context: Context, eligible: Bools | None = None
    ) -> tuple[Array, Array]:
        return self.policy.advice(self.inner_state(state), context, eligible)

    def cast(
        self,
        advice: tuple[Array, Array],
        *,
        eligible: Bools | None = None,
        offer: AnyOffer | None = None,
    ) -> tuple[Array, Array]:
        return self.policy.cast(advice, eligible=eligible, offer=offer)

    def update(self, state: State, decision: Decision, reward: Real) -> State:
        return self.policy.update(state, decision, reward)

    def revise(
        self, state: State, decision: Decision, before: float, reward: float
    ) -> State:
        revise = self.policy.revise if self._learns_as_inside else super().revise
        return revise(state, decision, before, reward)

    def fold(self, state: State, decisions: Decision, rewards: Array) -> State:
        fold = self.policy.fold if self._learns_as_inside else super().fold
        return fold(state, decisions, rewards)

    def begin_log(self, state: State) -> State:
        return self.policy.begin_log(state) if self._learns_as_inside else state

    def end_log(self, state: State) -> State:
        return self.policy.end_log(state) if self._learns_as_inside else state

    def complete(self, odds: Odds) -> Odds:
        return self.policy.complete(odds)

    def merge(self, *states: State) -> State:
        if self._learns_as_inside:
            return self.policy.merge(*states)
        return super().merge(*states)

    def with_arms(self, state: State, arms: Sequence[str]) -> tuple[Self, State]:
        wrapper: Any = self
        policy, wider = self.policy.with_arms(state, arms)
        changed: Self = replace(wrapper, policy=policy)
        return changed, wider

    def with_bank(self, bank: Experts) -> Self:
        wrapper: Any = self
        changed: Self = replace(wrapper, policy=self.policy.with_bank(bank))
        return changed

    def with_expert_share(
        self, state: State, change: ExpertShare
    ) -> tuple[Self, State]:
        if type(self).inner_state is not PolicyWrapper.inner_state:
            return super().with_expert_share(state, change)
        wrapper: Any = self
        policy, after = self.policy.with_expert_share(state, change)
        changed: Self = replace(wrapper, policy=policy)
        return changed, after

    def adviser_count(self, decision: Decision) -> int:
        return self.policy.adviser_count(decision)

    def with_advisers(self, state: State, decision: Decision, places: Ints) -> Decision:
        return self.policy.with_advisers(self.inner_state(state), decision, places)

    def posterior(self, state: State) -> Array:
        return self.policy.posterior(self.inner_state(state))

    def named_posterior(
        self, state: State, arms: Sequence[str] | None
    ) -> dict[str, Any]:
        return self.policy.named_posterior(self.inner_state(state), arms)

    def explain(
        self,
        state: State,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Explanation | ArmExplanation:
        """Return the inner policy's explanation with the propensities of this
        policy."""
        inner = self.inner_state(state)
        explanation = self.policy.explain(inner, context, eligible=eligible, step=step)
        if type(self).odds is PolicyWrapper.odds:
            return explanation
        odds = self.odds(state, context, eligible=eligible, step=step)
        return explanation._replace(propensities=odds.propensities)

    def explain_advice(
        self,
        state: State,
        advice: tuple[Array, Array],
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
        uniform: Array | None = None,
    ) -> Explanation:
        return self.policy.explain_advice(
            self.inner_state(state),
            advice,
            context,
            eligible=eligible,
            step=step,
            uniform=uniform,
        )
