"""Policy: `init`, `odds` and `update` turn contexts into propensities and learn from
rewards. Class attributes describe the policy."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Self

import numpy as np

from oddsmith.core.arrays import Array, Bools, Ints, Real
from oddsmith.core.checks import check_odds, check_state
from oddsmith.core.decision import Context, Decision, Odds, State, Step, check_rewards
from oddsmith.core.draw import draw
from oddsmith.core.errors import InvalidInput, OrderMatters
from oddsmith.core.experts import Experts
from oddsmith.core.explanation import ArmExplanation, Explanation
from oddsmith.core.losses import domain, square_loss
from oddsmith.core.offer import AnyOffer

__all__ = ["ExpertShare", "Policy", "check_policy", "decide", "fold"]

_WRITE = "add init, odds and update"
_ODDS = (
    "agent.policy.odds(agent.state, context) returns its propensities and predictions"
)


class ExpertShare(NamedTuple):
    """A change of one expert. `bank` has all experts after the change and `own` is its
    state. The expert at `place` gets this `share` of the weight, 0 if it retires.

    A new expert is the last one.
    """

    bank: Experts
    own: State
    place: int
    share: float


class Policy:
    """Base class of policies. A subclass defines `init`, `odds` and `update`, and sets
    the attributes that apply to it. The defaults claim nothing.

    The methods have no side effects, except that `update` modifies the given state if
    the policy is `in_place`. A state is a tree of NamedTuples with arrays and ints,
    with a field `learnt`, the number of rewards.
    """

    # Declare properties for the type checker. At run time these are plain attributes,
    # which subclasses override.
    if TYPE_CHECKING:

        @property
        def bank(self) -> Experts | None:
            """The experts whose predictions it uses, or None."""
            return None

        @property
        def arms(self) -> Sequence[str] | None:
            """The names of the arms, if the policy knows them."""
            return None

        @property
        def in_place(self) -> bool:
            """Whether `update` modifies the arrays of the given state."""
            return False

        @property
        def orderless(self) -> bool:
            """Whether the posterior does not depend on the order of rewards, up to
            rounding."""
            return False

        @property
        def mergeable(self) -> bool:
            """Whether `merge` can join states that learnt from separate rewards."""
            return False

        @property
        def explores(self) -> bool:
            """Whether every eligible arm always has a propensity above 0."""
            return False

        @property
        def importance_weighted(self) -> bool:
            """Whether `update` divides rewards by the propensities of their draws."""
            return False

        @property
        def reads_context(self) -> bool:
            """Whether propensities may depend on the context. Otherwise a whole batch
            has the same propensities."""
            return True

        @property
        def weighs_ballots(self) -> bool:
            """Whether `weigh` computes its propensities as a mixture of the experts'
            ballots and a uniform share. Bounds then hold for each ballot."""
            return False

        @property
        def takes_offers(self) -> bool:
            """Whether it chooses among arms that are passed in the call, as an `Offer`
            in place of the context."""
            return False

        @property
        def prediction_range(self) -> tuple[float, float]:
            """Range of the expert predictions that it can score."""
            return domain(square_loss)
    else:
        bank = arms = None
        in_place = orderless = mergeable = explores = importance_weighted = False
        takes_offers = weighs_ballots = False
        reads_context = True
        prediction_range = domain(square_loss)

    @property
    def unversioned(self) -> bool:
        """Return whether some models of its experts have no version, so that only name
        and class identify them."""
        return self.bank is not None and self.bank.unversioned

    def init(self, shape: tuple[int, ...] = ()) -> State:
        """Return the state before any reward, with batch axes `shape`."""
        self._lacks("init", _WRITE)

    def odds(
        self,
        state: State,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Odds:
        """Return the distribution over arms, without randomness."""
        self._lacks("odds", _WRITE)

    def advice(
        self, state: State, context: Context, eligible: Bools | None = None
    ) -> tuple[Array, Array]:
        """Return the experts' predictions and ballots (…, N, K) in this context."""
        self._lacks("advice", "it has no experts with ballots")

    def cast(
        self,
        advice: tuple[Array, Array],
        *,
        eligible: Bools | None = None,
        offer: AnyOffer | None = None,
    ) -> tuple[Array, Array]:
        """Return the advice with the ballots that `weigh` mixes. They differ from the
        experts' own only if there are bounds."""
        return advice

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
        """Return the propensities for given predictions and ballots (…, N, K), without
        calling the experts.

        `uniform` (…, K) is the distribution of exploration; None: 1/K.
        """
        self._lacks("weigh", "odds(state, context) computes all that it needs")

    def update(self, state: State, decision: Decision, reward: Real) -> State:
        """Return the state after one reward (per batch row)."""
        self._lacks("update", _WRITE)

    def revise(
        self, state: State, decision: Decision, before: float, reward: float
    ) -> State:
        """Return the state after the reward of a learnt decision was corrected from
        `before` to `reward`.

        By default the decision is learnt once more. A policy whose arithmetic allows it
        adds only the difference.
        """
        return self.update(state, decision, reward)

    def fold(self, state: State, decisions: Decision, rewards: Array) -> State:
        """Return the state after rewards along a leading axis: by default, one `update`
        per reward."""
        for decision, reward in zip(decisions.rows(), np.asarray(rewards), strict=True):
            value = reward
            if reward.ndim == 0:
                value = float(reward)
            state = self.update(state, decision, value)
            check_state(self, state)
        return state

    def begin_log(self, state: State) -> State:
        """Return the state before learning a log of another policy."""
        return state

    def end_log(self, state: State) -> State:
        """Return the state after the last row of the log, before live rewards."""
        return state

    def complete(self, odds: Odds) -> Odds:
        """Return `odds` after computing again all values that follow from the
        propensities, such as the bonus of EXP4.P.

        Code that replaces propensities (bounds, an incumbent) calls this, because the
        policy learns from the propensities of the draw.
        """
        return odds

    def merge(self, *states: State) -> State:
        """Merge states that started at the prior and learnt different rewards into
        one."""
        raise OrderMatters(
            "only states of mergeable policies can be merged; got "
            f"{type(self).__name__}"
        )

    def with_arms(self, state: State, arms: Sequence[str]) -> tuple[Self, State]:
        """Return this policy and its state with further arms, which have no data yet,
        appended."""
        raise InvalidInput(
            f"policy must support additional arms; {type(self).__name__} has a fixed "
            "set of arms"
        )

    def with_bank(self, bank: Experts) -> Self:
        """Return this policy with another bank of equally many experts."""
        raise InvalidInput(
            f"policy must have experts that can be replaced; got {type(self).__name__}"
        )

    def with_expert_share(
        self, state: State, change: ExpertShare
    ) -> tuple[Self, State]:
        """Return this policy and its state after an expert was added, retired or added
        again.

        The others keep their proportions. A policy without this method keeps its
        initial experts.
        """
        self._lacks("with_expert_share", "its experts cannot change")

    def adviser_count(self, decision: Decision) -> int:
        """Return the number of experts whose advice a decision contains."""
        return 0 if decision.advice is None else decision.advice.shape[-1]

    def with_advisers(self, state: State, decision: Decision, places: Ints) -> Decision:
        """Reorder the advice of a decision for this policy's experts: expert i gets
        column `places[i]`, or no prediction if that is -1."""
        n_missing = np.count_nonzero(places < 0)
        if n_missing:
            raise InvalidInput(
                "a decision can be learnt only by the policy that made it if the "
                f"policy has no weights; {n_missing} experts of {type(self).__name__} "
                "made no prediction in it"
            )
        advice = _columns(decision.advice, places)
        bonus = _columns(decision.bonus, places)
        log_weights = _columns(decision.log_weights, places)
        return decision._replace(
            advice=advice,
            bonus=bonus,
            log_weights=log_weights,
        )

    def posterior(self, state: State) -> Array:
        """Return the posterior probability (…, N) of each expert."""
        self._lacks("posterior", "explain(context) shows the posterior of each arm")

    def named_posterior(
        self, state: State, arms: Sequence[str] | None
    ) -> dict[str, Any]:
        """Return the posterior of a state without batch axes by name: for experts,
        their weights. `arms` are the names of the arms."""
        self._lacks("posterior", "explain(context) shows the posterior of each arm")

    def explain(
        self,
        state: State,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Explanation | ArmExplanation:
        """Explain the propensities in this context."""
        self._lacks("explain", _ODDS)

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
        """Explain the propensities that `weigh` returns for this advice."""
        self._lacks("explain", _ODDS)

    def _lacks(self, verb: str, instead: str) -> NoReturn:
        raise InvalidInput(
            f"policy must have {verb}; {type(self).__name__} has none: {instead}"
        )


def _columns(values: Array | None, places: Ints) -> Array | None:
    if values is None:
        return None
    return values[..., places]


def check_policy(policy: object) -> None:
    """Raise if an object is not a policy, or lacks a method of policies."""
    kind = type(policy)
    has_verbs = (
        issubclass(kind, Policy)
        and Policy.init is not kind.init
        and Policy.odds is not kind.odds
        and Policy.update is not kind.update
    )
    if not has_verbs:
        raise InvalidInput(
            "policy must have the methods init, odds and update (use od.Policy as "
            f"base class); got {kind.__name__}"
        )


def decide(
    policy: Policy,
    state: State,
    context: Context,
    uniform: Real,
    *,
    eligible: Bools | None = None,
    step: Step = None,
) -> Decision:
    """Compute `odds`, then `draw` the decision."""
    odds = policy.odds(state, context, eligible=eligible, step=step)
    check_odds(policy, odds, eligible=eligible, step=step)
    return draw(odds, context, uniform, eligible=eligible, step=step)


def fold(
    policy: Policy,
    state: State,
    decisions: Decision | Iterable[Decision],
    rewards: object,
) -> State:
    """Return the state after all these decisions and rewards, in order.

    `decisions` is a sequence, or one decision with a leading axis (`Decision.stack`).
    If the order does not matter, the policy's own `fold` may sum rewards first;
    otherwise each event is one `update`.
    """
    if not isinstance(decisions, Decision):
        decisions = list(decisions)
        if not decisions:
            return state
        decisions = Decision.stack(decisions)
    if decisions.propensities.ndim < 2:
        raise InvalidInput(
            "decisions must be a sequence, or one decision with a leading axis; got a "
            "single decision"
        )
    by_number = decisions.by_number()
    checked = np.asarray(check_rewards(by_number, rewards))
    state = policy.fold(state, by_number, checked)
    return check_state(policy, state, "fold")
