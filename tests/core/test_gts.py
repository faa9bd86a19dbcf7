"""GTS beyond the vectors: schedules, priors, sleep, explanations."""

from dataclasses import replace

import numpy as np
import pytest

import oddsmith as od

BANK = od.GivenExperts(("a", "b", "c"))
F = np.array([[0.9, 0.2, 0.1], [0.1, 0.8, 0.3], [0.3, 0.3, 0.7]])


def test_gamma_schedule_counts_decisions_or_else_rewards(any_kernels: str) -> None:
    schedule = od.policies.PowerSchedule(scale=1.0, power=0.5)
    policy = od.GeneralizedThompsonSampling(BANK, gamma=schedule)
    state = policy.init()
    one_sided = np.array([[0.9, 0.1]] * 3)
    assert policy.odds(state, one_sided, step=4).propensities[1] == pytest.approx(0.25)
    decision = od.decide(policy, state, one_sided, 0.1)
    for _ in range(3):
        state = policy.update(state, decision, 1.0)
    assert policy.odds(state, one_sided).propensities[1] == pytest.approx(0.25)
    steps = np.array([1, 4, 100])
    batch = policy.odds(
        state, np.broadcast_to(one_sided, (3, 3, 2)), step=steps
    ).propensities
    np.testing.assert_allclose(batch[:, 1], [0.5, 0.25, 0.05])


def test_prior_by_name_is_prior_by_place() -> None:
    by_name = od.GeneralizedThompsonSampling(
        BANK, prior={"c": 0.5, "a": 0.2, "b": 0.3}, gamma=0.0
    )
    np.testing.assert_array_equal(by_name.prior, [0.2, 0.3, 0.5])
    np.testing.assert_allclose(by_name.posterior(by_name.init()), [0.2, 0.3, 0.5])


def test_an_expert_votes_for_its_best_eligible_arm(any_kernels: str) -> None:
    policy = od.GeneralizedThompsonSampling(BANK, gamma=0.0)
    odds = policy.odds(policy.init(), F, eligible=np.array([False, True, True]))
    np.testing.assert_allclose(odds.propensities, [0, 2 / 3, 1 / 3])


def test_nobody_awake_is_uniform_and_teaches_nothing(any_kernels: str) -> None:
    policy = od.GeneralizedThompsonSampling(BANK, gamma=0.1, prior=[0.5, 0.5, 0.0])
    # only c, without weight
    for asleep in (
        np.full((3, 3), np.nan),
        np.vstack([np.full((2, 3), np.nan), F[2:]]),
    ):
        decision = od.decide(policy, policy.init(), asleep, 0.5)
        np.testing.assert_allclose(decision.propensities, 1 / 3)
        after = policy.update(policy.init(), decision, 1.0)
        np.testing.assert_allclose(policy.posterior(after), [0.5, 0.5, 0], atol=1e-15)
        assert after.learnt == 1


def test_a_sleeper_neither_gains_nor_loses_on_average(any_kernels: str) -> None:
    """Charged the mix loss at once, the awake keep their total: the sleeper's posterior
    does not move."""
    policy = od.GeneralizedThompsonSampling(
        BANK, od.square_loss, eta=1.0, gamma=0.1, prior=[0.2, 0.3, 0.5]
    )
    f = np.vstack([F[:2], np.full((1, 3), np.nan)])
    decision = od.decide(policy, policy.init(), f, 0.3)
    assert policy.posterior(policy.update(policy.init(), decision, 1.0))[
        2
    ] == pytest.approx(0.5, abs=1e-15)


def test_zero_weight_stays_zero_and_a_hopeless_reward_is_refused(
    any_kernels: str,
) -> None:
    policy = od.GeneralizedThompsonSampling(
        BANK, od.log_loss, eta=1.0, prior=[0.5, 0.5, 0.0], gamma=0.0
    )
    sure = np.array([[1.0, 0.5], [0.5, 0.5], [0.5, 0.5]])
    state = policy.update(
        policy.init(), od.decide(policy, policy.init(), sure, 0.1), 0.0
    )
    np.testing.assert_array_equal(policy.posterior(state), [0, 1, 0])
    wrong = np.array([[0.5, 0.5], [1.0, 0.5], [0.5, 0.5]])
    decision = od.decide(policy, state, wrong, 0.1)
    before = state.log_weights.copy()
    with pytest.raises(od.errors.AllExpertsRefuted):
        policy.update(state, decision, 0.0)
    np.testing.assert_array_equal(state.log_weights, before)


def test_own_loss_that_leaves_its_domain_is_named(any_kernels: str) -> None:
    policy = od.GeneralizedThompsonSampling(BANK, od.log_loss, gamma=0.0)
    decision = od.decide(
        policy, policy.init(), np.array([[1.2, 0.5], [0.5, 0.5], [0.2, 0.1]]), 0.1
    )
    with pytest.raises(od.errors.OutOfDomain, match=r"NaN for 1\.2 of expert 'a'"):
        policy.update(policy.init(), decision, 1.0)


def test_merge_refuses_where_order_matters() -> None:
    policy = od.GeneralizedThompsonSampling(BANK, share=0.1, gamma=0.0)
    with pytest.raises(od.errors.OrderMatters, match=r"share=0\.1"):
        policy.merge(policy.init(), policy.init())


def test_explain_takes_the_odds_apart(any_kernels: str) -> None:
    policy = od.GeneralizedThompsonSampling(BANK, gamma=0.2, prior=[0.5, 0.3, 0.2])
    asleep = np.vstack([F[:2], np.full((1, 3), np.nan)])
    for f, eligible in ((F, None), (asleep, np.array([True, True, False]))):
        parts = policy.explain(policy.init(), f, eligible=eligible)
        assert isinstance(parts, od.policies.Explanation)
        whole = (1 - 0.2) * parts.weights @ parts.ballots + parts.uniform
        np.testing.assert_allclose(whole, parts.propensities, atol=1e-15)
    table = str(parts)
    assert "asleep" in table
    assert "exploration" in table
    assert table.splitlines()[0].split() == [
        "expert",
        "weight",
        "votes",
        "for",
        "0",
        "1",
        "2",
    ]


def test_thompson_sampling_is_a_recipe() -> None:
    recipe = od.thompson_sampling(BANK)
    assert (recipe.loss, recipe.eta, recipe.gamma, recipe.share) == (
        od.log_loss,
        1.0,
        0.0,
        0.0,
    )
    assert type(replace(recipe, gamma=0.1)) is od.GeneralizedThompsonSampling


def test_number_of_arms_may_change_from_step_to_step(any_kernels: str) -> None:
    rng = np.random.default_rng(0)
    policy = od.GeneralizedThompsonSampling(BANK, gamma=0.3)
    state, decisions = policy.init(), []
    for t, k in enumerate((2, 5, 1, 7)):
        decisions.append(od.decide(policy, state, rng.random((3, k)), 0.7, step=t + 1))
        assert (decisions[-1].propensities >= 0.3 / k - 1e-15).all()
        state = policy.update(state, decisions[-1], 0.4)
    folded = od.fold(policy, policy.init(), decisions, [0.4] * 4)
    np.testing.assert_allclose(folded.log_weights, state.log_weights, atol=1e-12)
