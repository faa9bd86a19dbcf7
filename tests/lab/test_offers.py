"""Simulations of arms that come with the call: what an agent would do, with exact
regret."""

from typing import Any

import numpy as np
import pytest

import oddsmith as od
from contexts.offers import LINEAR, POLICIES
from oddsmith.lab import simulate
from oddsmith.lab.worlds import Beta, NewsWorld, TableWorld

pytestmark = pytest.mark.filterwarnings("ignore::oddsmith.core.errors.NoExploration")
WORLD = NewsWorld(life=15, low=2, high=7)
BANK = od.LinearExperts(np.random.default_rng(3).standard_normal((4, 7)))


def policies() -> dict[str, od.Policy]:
    over = {name: make(BANK) for name, make in POLICIES.items()}
    linear = {
        "linucb": od.LinUCB(7),
        "linear thompson": od.LinearThompsonSampling(7, directions=64),
    }
    assert set(linear) <= set(LINEAR)
    return over | linear | {"auto": od.auto(size="small")}


@pytest.mark.parametrize("name", policies())
def test_a_run_is_what_an_agent_does(name: str) -> None:
    """The decisions of one run, decided and learnt again by hand: arms, odds and regret
    to the last bit."""
    policy = policies()[name]
    run = simulate(
        policy, WORLD, steps=40, runs=2, seed=5, delay=3, trace=("odds", "log")
    )
    draws = np.random.default_rng([5, 1]).random((40, 2))
    for i in range(2):
        state, decisions = policy.init(), []
        for t in range(40):
            offer, means = (
                run.contexts[t][i],
                run.world.means(t + 1, run.contexts[t])[i],
            )
            odds = policy.odds(state, offer, step=t + 1)
            n = len(offer.arms)
            np.testing.assert_array_equal(
                run.traces["odds"][t, i, :n], odds.propensities
            )
            assert not run.traces["odds"][t, i, n:].any()
            decision = od.draw(odds, offer.context, float(draws[t, i]), step=t + 1)
            assert decision.arm == run.arms[t, i]
            lost = np.nanmax(means) - odds.propensities @ means[:n]
            assert run.regret[t, i] == pytest.approx(lost, abs=1e-12)
            decisions.append(
                decision._replace(arms=offer.arms, features=offer.features)
            )
            if t >= 3:
                state = policy.update(state, decisions[t - 3], run.rewards[t - 3, i])
        for mine, theirs in zip(leaves(run.state[i]), leaves(state), strict=True):
            np.testing.assert_array_equal(mine, theirs)


def leaves(state: Any) -> list[Any]:
    return (
        [leaf for part in state for leaf in leaves(part)]
        if isinstance(state, tuple)
        else [state]
    )


def test_runs_do_not_depend_on_how_many_there_are() -> None:
    policy = od.GeneralizedThompsonSampling(BANK, gamma=0.1)
    one, three = (simulate(policy, WORLD, steps=1, runs=runs) for runs in (1, 3))
    assert one.contexts[0][0].arms == three.contexts[0][0].arms


def test_regret_of_uniform_is_best_minus_average_whatever_is_drawn() -> None:
    run = simulate(od.uniform(BANK), WORLD, steps=60, runs=3)
    for t, context in enumerate(run.contexts):
        means = run.world.means(t + 1, context)
        np.testing.assert_allclose(
            run.regret[t],
            np.nanmax(means, axis=1) - np.nanmean(means, axis=1),
            atol=1e-12,
        )


def test_rewards_have_the_means_of_what_was_drawn() -> None:
    """9,000 rewards, their mean within four standard errors, of coins and of
    fractions."""
    for noise in (None, Beta(5.0)):
        run = simulate(od.uniform(BANK), WORLD, steps=900, runs=10, noise=noise)
        rows = (
            run.world.means(t + 1, c)[range(10), run.arms[t]]
            for t, c in enumerate(run.contexts)
        )
        expected = np.stack(list(rows))
        assert np.isfinite(expected).all()
        errors = run.rewards - expected
        assert abs(errors.mean()) < 4 * errors.std() / np.sqrt(errors.size)


def test_traces_of_weights_and_of_the_gap() -> None:
    policy = od.GeneralizedThompsonSampling(BANK, gamma=0.1)
    run = simulate(
        policy, WORLD, steps=20, runs=2, trace=("posterior", "entropy", "gap", "odds")
    )
    assert {name: trace.shape for name, trace in run.traces.items()} == {
        "posterior": (20, 2, 4),
        "entropy": (20, 2),
        "gap": (20, 2),
        "odds": (20, 2, 7),
    }
    offer, means = run.contexts[7][1], run.world.means(8, run.contexts[7])[1]
    missed = (BANK.predict((), offer) - means[: len(offer.arms)]) ** 2
    by_hand = (
        run.traces["posterior"][7, 1]
        @ missed
        @ run.traces["odds"][7, 1, : len(offer.arms)]
    )
    assert run.traces["gap"][7, 1] == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize("delay", [0, 4])
def test_the_log_of_a_run_folds_to_its_state(delay: int) -> None:
    policy = od.GeneralizedThompsonSampling(BANK, gamma=0.1)
    run = simulate(policy, WORLD, steps=50, runs=2, trace="log", delay=delay)
    for i in range(2):
        log = run.log(i)
        assert len(log) == 50
        assert np.isnan(log.reward).sum() == delay
        log = log.rewarded()
        state = od.fold(policy, policy.init(), log.decisions(), log.reward)
        np.testing.assert_allclose(
            state.log_weights, run.state[i].log_weights, atol=1e-12
        )


def test_a_policy_with_arms_of_its_own_is_refused_in_a_sentence() -> None:
    for policy in (od.policies.UCB1(5), od.LinUCB(7, n_arms=5), od.auto(["a", "b"])):
        with pytest.raises(
            od.InvalidInput,
            match="cannot choose among arms that are passed in the call",
        ):
            simulate(policy, WORLD, steps=3)


def test_a_sleeper_of_some_runs_alone() -> None:
    """An expert without an opinion on the visitors of some runs: weights are kept for
    these, and NaN for the rest."""
    bank: Any = od.FunctionExperts({"shy": shy, "even": even})
    run = simulate(
        od.GeneralizedThompsonSampling(bank, gamma=0.1), WORLD, steps=30, runs=3
    )
    assert np.isfinite(run.regret).all()
    assert all(np.isfinite(state.log_weights).all() for state in run.state)


def shy(context: Any, arm: str, features: Any) -> float:
    return float("nan") if context[0] > 0 else 0.3


def even(context: Any, arm: str) -> float:
    return 0.5


def test_policies_without_arms_say_so_in_worlds_of_given_arms() -> None:
    with pytest.raises(od.InvalidInput):
        simulate(od.auto(), TableWorld(np.array([[0.1, 0.9]])), steps=3)
