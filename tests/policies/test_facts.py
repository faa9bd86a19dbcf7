"""What policies state about themselves is true: every policy of the contract, bare and
inside wrappers."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.policies.parts.counts import CountState
from oddsmith.policies.wrapper import PolicyWrapper
from policies.test_contract import POLICIES, Entry, leaves, same


@dataclass(frozen=True, eq=False)
class Passing(PolicyWrapper):
    """A wrapper that changes nothing."""

    policy: od.Policy


@dataclass(frozen=True, eq=False)
class Doubling(PolicyWrapper):
    """A wrapper with an `update` of its own: every reward counts twice."""

    policy: od.Policy

    def update(self, state: Any, decision: od.Decision, reward: Any) -> Any:
        return self.policy.update(
            self.policy.update(state, decision, reward), decision, reward
        )


WRAPPERS: dict[str, Callable[[od.Policy], od.Policy]] = {
    "bare": lambda policy: policy,
    "passing": Passing,
    "bounded": lambda policy: od.Bounded(policy, floors=0.01),
    "capped": lambda policy: od.Bounded(policy, caps=[0.9, 0.9, 0.9, 0.0]),
}
ROWS = 20


def played(
    policy: od.Policy, entry: Entry, rows: int = ROWS
) -> tuple[list[od.Decision], Any]:
    """Decisions of the first state, and rewards."""
    rng = np.random.default_rng(9)
    state = policy.init()
    steps = range(1, rows + 1)
    drawn = [
        od.decide(policy, state, entry.context(rng, ()), float(rng.random()), step=t)
        for t in steps
    ]
    return drawn, rng.uniform(0.1, 0.9, rows)


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("name", POLICIES)
class TestFacts:
    def test_of_learning(self, name: str, wrapper: str) -> None:
        """`in_place`, `learnt`, `importance_weighted`: by what one more reward does to
        a state."""
        policy = WRAPPERS[wrapper](POLICIES[name].make())
        decisions, rewards = played(policy, POLICIES[name])
        state = od.fold(policy, policy.init(), decisions, rewards)
        assert state.learnt == ROWS
        other = deepcopy(state)
        before = deepcopy(state)
        after = policy.update(state, decisions[0], 0.3)
        assert after.learnt == ROWS + 1
        written = any(
            not np.array_equal(a, b)
            for a, b in zip(leaves(state), leaves(before), strict=True)
        )
        assert policy.in_place == written
        halved = decisions[0]._replace(propensities=0.5 * decisions[0].propensities)
        halved_after = policy.update(other, halved, 0.3)
        differs = [
            not np.array_equal(a, b)
            for a, b in zip(leaves(after), leaves(halved_after), strict=True)
        ]
        assert policy.importance_weighted == any(differs)

    def test_of_order(self, name: str, wrapper: str) -> None:
        """`orderless`, `mergeable`: a shuffled log, and two halves merged."""
        policy, rng = (
            WRAPPERS[wrapper](POLICIES[name].make()),
            np.random.default_rng(10),
        )
        decisions, rewards = played(policy, POLICIES[name])
        whole = od.fold(policy, policy.init(), decisions, rewards)
        assert policy.orderless == (not POLICIES[name].ordered)
        if policy.orderless:
            order = rng.permutation(ROWS)
            same(
                whole,
                od.fold(
                    policy, policy.init(), [decisions[i] for i in order], rewards[order]
                ),
                atol=1e-9,
            )
        halves = [
            od.fold(policy, policy.init(), decisions[part], rewards[part])
            for part in (slice(8), slice(8, None))
        ]
        if policy.mergeable:
            assert policy.orderless
            same(policy.merge(*halves), whole, atol=1e-9)
        else:
            with pytest.raises(od.errors.OrderMatters):
                policy.merge(*halves)

    def test_of_odds(self, name: str, wrapper: str) -> None:
        """`explores`, `reads_context`: after rewards that favour one arm, and with arms
        that are not eligible."""
        entry, rng = POLICIES[name], np.random.default_rng(11)
        policy = WRAPPERS[wrapper](entry.make())
        state, mask = policy.init(), np.array([True, True, False, True])
        for t in range(60):
            decision = od.decide(
                policy, state, entry.context(rng, ()), float(rng.random()), step=t + 1
            )
            if policy.explores:
                assert decision.propensities.min() > 0
            state = policy.update(state, decision, float(decision.arm == 1))
        contexts = [entry.context(rng, ()) for _ in range(6)]
        odds = [
            policy.odds(state, context, eligible=mask, step=61).propensities
            for context in contexts
        ]
        if policy.explores:
            assert np.min(odds, axis=0)[mask].min() > 0
        if not policy.reads_context:
            assert all(np.array_equal(odds[0], one) for one in odds)

    def test_of_what_is_inside(self, name: str, wrapper: str) -> None:
        """`bank`, `arms`, `prediction_range`, `unversioned`: those of the experts that
        are asked."""
        plain: Any = POLICIES[name].make()
        policy = WRAPPERS[wrapper](plain)
        low, high = policy.prediction_range
        assert low < high
        bank = policy.bank
        if bank is None:
            assert policy.arms is None
            assert not policy.unversioned
            with pytest.raises(
                od.InvalidInput, match="policy must have experts that can be replaced"
            ):
                policy.with_bank(od.GivenExperts(["a"]))
            return
        assert (policy.arms, policy.unversioned) == (bank.arms, bank.unversioned)
        state = policy.init()
        assert policy.posterior(state).shape == (len(bank.names),)
        assert list(policy.named_posterior(state, None)) == list(bank.names)
        guard = od.Guarded(bank)
        assert policy.with_bank(guard).bank is guard
        assert type(policy.with_bank(guard)) is type(policy)
        assert policy.in_place == bank.learns


def test_a_wrapper_that_learns_in_its_own_way_folds_by_it() -> None:
    plain = od.GeneralizedThompsonSampling(
        od.GivenExperts(("a", "b", "c")), eta=0.5, gamma=0.1
    )
    twice, entry = Doubling(plain), POLICIES["gts, log loss"]
    decisions, rewards = played(plain, entry)
    same(
        od.fold(twice, twice.init(), decisions, rewards),
        od.fold(plain, plain.init(), [*decisions, *decisions], np.tile(rewards, 2)),
        atol=1e-9,
    )
    assert plain.orderless
    assert plain.mergeable
    assert not twice.orderless
    assert not twice.mergeable
    with pytest.raises(
        od.errors.OrderMatters, match="mergeable policies can be merged; got Doubling"
    ):
        twice.merge(twice.init())


def test_a_cap_of_nothing_is_no_exploration() -> None:
    gts = od.GeneralizedThompsonSampling(od.GivenExperts(("a", "b", "c")), gamma=0.1)
    assert gts.explores
    assert od.Bounded(gts, caps=0.9).explores
    assert not od.Bounded(gts, caps=[0.9, 0.9, 0.9, 0.0]).explores


def test_floors_that_leave_an_arm_nothing_are_no_exploration() -> None:
    gts = od.GeneralizedThompsonSampling(od.GivenExperts(["a"]), gamma=0.1)
    group = od.policies.CapGroup(0.3, arms=(0, 1))
    for floors, groups in (
        ([0.5, 0.5, 0.0], []),
        ([0.4, 0.4, 0.0], []),
        ([0.3, 0.0, 0.0], [group]),
        ([0.2, 0.1, 0.0], [group]),
        ([0.0, 0.0, 0.3], [group]),
    ):
        bounded = od.Bounded(gts, floors, cap_groups=groups)
        odds = bounded.odds(bounded.init(), np.array([[0.9, 0.8, 0.3]])).propensities
        assert bounded.explores == (odds.min() > 0)
    named = od.GeneralizedThompsonSampling(
        od.FunctionExperts({"a": lambda context, arm: 0.5}), gamma=0.1
    )
    assert not od.Bounded(named, {"x": 0.5, "y": 0.5}).explores
    assert od.Bounded(named, {"x": 0.5, "y": 0.4}).explores


def test_a_policy_of_ones_own_promises_nothing() -> None:
    """Three verbs are enough: an agent decides and learns, and says what is not
    promised."""

    class Plain(od.Policy):
        def init(self, shape: tuple[int, ...] = ()) -> Any:
            return CountState(np.zeros(2), np.zeros(2), 0)

        def odds(
            self, state: Any, context: Any, *, eligible: Any = None, step: Any = None
        ) -> od.Odds:
            return od.Odds(np.array([0.5, 0.5]))

        def update(self, state: Any, decision: od.Decision, reward: Any) -> Any:
            return state._replace(learnt=state.learnt + 1)

    with pytest.warns(od.errors.NoExploration, match="Plain does not explore"):
        agent = od.Agent(Plain(), seed=1)
    agent.learn([agent.decide(None) for _ in range(3)], [0, 1, 1])
    assert agent.state.learnt == 3
    for verb in (agent.posterior, lambda: agent.explain(None)):
        with pytest.raises(
            od.InvalidInput,
            match=r"policy must have (posterior|explain); Plain has none",
        ):
            verb()
    assert (agent.policy.bank, agent.policy.arms, agent.policy.orderless) == (
        None,
        None,
        False,
    )


class Leader(od.policies.OverExperts):
    """A policy over experts that is no dataclass."""

    experts = od.GivenExperts(["a", "b"])


def test_over_experts_states_the_facts_of_its_experts() -> None:
    assert Leader().bank is Leader.experts
    assert (Leader().arms, Leader().in_place, Leader().orderless) == (
        None,
        False,
        False,
    )
