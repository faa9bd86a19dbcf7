"""Policy: `init`, `odds` and `update` turn contexts into propensities and learn from
rewards; class attributes state facts about the policy."""

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

_WRITE = "write init, odds and update"
_ODDS = "agent.policy.odds(agent.state, context) gives its odds and advice"


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
    """Base class of policies: a subclass defines `init`, `odds` and `update`, and sets
    the attributes that are true for it. The defaults promise nothing.

    The verbs have no side effects, except that `update` writes into the state it is
    given if the policy is `in_place`. A state is a NamedTuple tree of arrays and ints
    with a field `learnt`, the number of rewards.
    """

    # declare properties for the type checker; at run time plain attributes, which
    # subclasses override
    if TYPE_CHECKING:

        @property
        def bank(self) -> Experts | None:
            """The experts whose advice it uses; None where it has none."""
            return None

        @property
        def arms(self) -> Sequence[str] | None:
            """The names of the arms, where the policy knows them."""
            return None

        @property
        def in_place(self) -> bool:
            """Whether `update` writes into the arrays of the state it is given."""
            return False

        @property
        def orderless(self) -> bool:
            """Whether the posterior does not depend on the order of rewards (to
            rounding)."""
            return False

        @property
        def mergeable(self) -> bool:
            """Whether `merge` joins states that learnt from separate rewards."""
            return False

        @property
        def explores(self) -> bool:
            """Whether every eligible arm always has odds above 0."""
            return False

        @property
        def importance_weighted(self) -> bool:
            """Whether `update` divides rewards by the odds they were drawn with."""
            return False

        @property
        def reads_context(self) -> bool:
            """Whether odds may depend on the context; if not, a whole batch has the
            same ones."""
            return True

        @property
        def weighs_ballots(self) -> bool:
            """Whether its odds are a mixture of the experts' ballots and a uniform
            share, made by `weigh`: bounds then hold for each ballot."""
            return False

        @property
        def takes_offers(self) -> bool:
            """Whether it chooses among arms that come with the call (an `Offer` where a
            context goes)."""
            return False

        @property
        def prediction_range(self) -> tuple[float, float]:
            """The least and the largest prediction of an expert that it can score."""
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
        self._lacks("advice", "it has no experts whose ballots it weighs")

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
        self._lacks("weigh", "odds(state, context) asks for what it needs")

    def update(self, state: State, decision: Decision, reward: Real) -> State:
        """Return the state after one reward (per batch row)."""
        self._lacks("update", _WRITE)

    def revise(
        self, state: State, decision: Decision, before: float, reward: float
    ) -> State:
        """Return the state after the reward of a learnt decision was corrected from
        `before` to `reward`.

        Here the decision is learnt once more. Where the arithmetic allows it, a policy
        adds the difference alone.
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
        """Return `odds` with all values that follow from propensities computed again,
        for instance the bonus of EXP4.P.

        Code that replaces propensities (bounds, an incumbent) calls this: the policy
        learns from the odds of the draw.
        """
        return odds

    def merge(self, *states: State) -> State:
        """Merge states that started at the prior and learnt different rewards into
        one."""
        raise OrderMatters(
            "states can be merged only where a policy is mergeable; got "
            f"{type(self).__name__}"
        )

    def with_arms(self, state: State, arms: Sequence[str]) -> tuple[Self, State]:
        """Return this policy and its state with further arms, which have no data yet,
        appended."""
        raise InvalidInput(
            f"policy must be able to gain arms; {type(self).__name__} is made for the "
            "arms it has"
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

        The others keep their proportions. Without this method a policy keeps the
        experts that it was made with.
        """
        self._lacks("with_expert_share", "its experts cannot come and go")

    def adviser_count(self, decision: Decision) -> int:
        """Return the number of experts whose advice a decision contains."""
        return 0 if decision.advice is None else decision.advice.shape[-1]

    def with_advisers(self, state: State, decision: Decision, places: Ints) -> Decision:
        """Reorder the advice of a decision for this policy's experts: expert i gets
        column `places[i]`, or no prediction if that is -1."""
        n_missing = np.count_nonzero(places < 0)
        if n_missing:
            raise InvalidInput(
                "decision must be learnt by the policy that made it, where this has no "
                f"weights; got no advice of {n_missing} experts of "
                f"{type(self).__name__}"
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
        self._lacks("posterior", "explain(context) shows its belief about each arm")

    def named_posterior(
        self, state: State, arms: Sequence[str] | None
    ) -> dict[str, Any]:
        """Return the belief of a state without batch axes by name: for experts, their
        weights. `arms` are the names of the arms."""
        self._lacks("posterior", "explain(context) shows its belief about each arm")

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
    """Refuse an object that is no policy, and a policy that lacks a verb."""
    kind = type(policy)
    has_verbs = (
        issubclass(kind, Policy)
        and Policy.init is not kind.init
        and Policy.odds is not kind.odds
        and Policy.update is not kind.update
    )
    if not has_verbs:
        raise InvalidInput(
            "policy must have the verbs init, odds and update (name od.Policy as "
            f"base); got {kind.__name__}"
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
    """`odds`, then `draw`."""
    odds = policy.odds(state, context, eligible=eligible, step=step)
    check_odds(policy, odds, eligible=eligible, step=step)
    return draw(odds, context, uniform, eligible=eligible, step=step)


def fold(
    policy: Policy,
    state: State,
    decisions: Decision | Iterable[Decision],
    rewards: object,
) -> State:
    """The state after all these decisions and rewards, in order.

    `decisions` is a sequence, or one decision with a leading axis (`Decision.stack`).
    The policy's own `fold` may add up first where order does not matter; else this is
    `update`, one event at a time.
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
