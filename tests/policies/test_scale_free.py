"""ScaleFreeSampling: against Generalized Thompson Sampling in a fixed unit, for rewards
of every size."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.core.decision import Decision
from oddsmith.policies import ScaleFreeSampling

NAMES = ("a", "b", "c")
BANK = od.GivenExperts(NAMES)
GTS = od.GeneralizedThompsonSampling


def decisions(n: int, scale: float = 1.0, seed: int = 0) -> list[Decision]:
    rng = np.random.default_rng(seed)
    odds = np.array([0.5, 0.5])
    return [
        Decision(t, None, None, t % 2, odds, rng.uniform(0, scale, 3))
        for t in range(1, n + 1)
    ]


def learnt(policy: Any, made: list[Decision], rewards: Any) -> Any:
    state = policy.init()
    for decision, reward in zip(made, rewards, strict=True):
        state = policy.update(state, decision, float(reward))
    return state


def test_rewards_that_reach_one_at_once_are_those_of_gts(any_kernels: str) -> None:
    made = decisions(40)
    rewards = np.random.default_rng(1).random(40)
    rewards[0] = 1.0
    prior = [0.5, 0.3, 0.2]
    scale_free = ScaleFreeSampling(BANK, prior=prior, share=0.01)
    gts = GTS(BANK, od.square_loss, eta=2.0, gamma=0.005, prior=prior, share=0.01)
    found = learnt(scale_free, made, rewards)
    assert found.unit == 1
    np.testing.assert_array_equal(
        found.log_weights, learnt(gts, made, rewards).log_weights
    )
    said = np.random.default_rng(2).random((3, 2))
    np.testing.assert_array_equal(
        scale_free.odds(found, said).propensities,
        gts.odds(learnt(gts, made, rewards), said).propensities,
    )


@pytest.mark.parametrize("shift", [-3, -20, -60])
def test_small_rewards_are_learnt_as_large_ones(shift: int, any_kernels: str) -> None:
    """Powers of two are exact: the weights have the same bits."""
    scale = 2.0**shift
    rewards = np.random.default_rng(1).random(40)
    policy = ScaleFreeSampling(BANK, prior=[0.5, 0.3, 0.2])
    large = learnt(policy, decisions(40), rewards)
    small = learnt(policy, decisions(40, scale), rewards * scale)
    np.testing.assert_array_equal(small.log_weights, large.log_weights)
    assert small.unit == large.unit * scale


def test_weights_are_those_of_the_last_unit(any_kernels: str) -> None:
    """Σ ((f - r)/u)² with the last u, while predictions are within the first one."""
    made = decisions(30, 2.0**-9)
    rewards = np.random.default_rng(1).random(30) * 2.0**-9
    rewards[0] = 2.0**-9
    rewards[11] = 0.3
    rewards[12] = 0.0
    rewards[20] = 0.8
    prior = np.array([0.5, 0.3, 0.2])
    found = learnt(ScaleFreeSampling(BANK, prior=prior), made, rewards)
    assert found.unit == 1
    advice = np.array([decision.advice for decision in made])
    loss = np.sum((advice - rewards[:, None]) ** 2, axis=0)
    expected = prior * np.exp(-2 * loss)
    posterior = ScaleFreeSampling(BANK, prior=prior).posterior(found)
    np.testing.assert_allclose(posterior, expected / expected.sum(), rtol=1e-12)


def test_what_was_predicted_before_the_unit_was_known_is_kept_within_it() -> None:
    policy = ScaleFreeSampling(BANK)
    first = decisions(1)[0]._replace(advice=np.array([0.5, 2e-6, np.nan]))
    first = first._replace(log_weights=np.zeros(3))
    found = policy.update(policy.init(), first, 1e-6)
    unit = float(found.unit)
    loss = np.array([(1 - 1e-6 / unit) ** 2, (1 - 1e-6 / unit) ** 2])
    np.testing.assert_allclose(np.diff(found.log_weights[:2]), -2 * np.diff(loss))
    assert np.isfinite(found.log_weights).all()


def test_rows_of_a_batch_have_units_of_their_own(any_kernels: str) -> None:
    policy = ScaleFreeSampling(BANK, prior=[0.5, 0.5, 0.0])
    made = decisions(12)
    scales = np.array([1.0, 1e-3, 1e-6])
    rewards = np.random.default_rng(3).random((12, 3)) * scales
    alone = [
        learnt(
            policy,
            [d._replace(advice=d.advice * scale) for d in made],
            rewards[:, row],
        )
        for row, scale in enumerate(scales)
    ]
    state = policy.init((3,))
    for decision, now in zip(made, rewards, strict=True):
        rows = decision._replace(
            arm=np.full(3, decision.arm),
            propensities=np.tile(decision.propensities, (3, 1)),
            advice=decision.advice * scales[:, None],
        )
        state = policy.update(state, rows, now)
    for row, one in enumerate(alone):
        np.testing.assert_array_equal(state.unit[row], one.unit)
        np.testing.assert_array_equal(state.log_weights[row], one.log_weights)


def test_a_revised_reward_counts_as_if_it_had_been_the_first() -> None:
    policy = ScaleFreeSampling(BANK)
    made = decisions(9, 2.0**-10)
    rewards = np.random.default_rng(4).random(9) * 2.0**-10
    rewards[0] = 2.0**-10  # predictions are within the first unit
    state = learnt(policy, made, rewards)
    revised = policy.revise(state, made[3], float(rewards[3]), 0.04)
    direct = learnt(policy, made, np.where(np.arange(9) == 3, 0.04, rewards))
    assert revised.unit == direct.unit
    np.testing.assert_allclose(revised.log_weights, direct.log_weights, atol=1e-12)


def test_settings_of_gts_that_have_no_unit_are_refused() -> None:
    policy = ScaleFreeSampling(BANK)
    for changed in ({"loss": od.log_loss}, {"optimism": 0.1}, {"discount": 0.9}):
        with pytest.raises(od.OddsmithError, match="square loss"):
            replace(policy, **changed)
    with pytest.raises(od.OddsmithError, match="units of the rewards"):
        policy.merge(policy.init())


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 0.1])
def test_auto_earns_the_same_share_of_small_rewards(scale: float) -> None:
    """Three arms, one number: the weights of the learners move at every scale."""

    def follows(scale: float) -> tuple[float, Any]:
        agent = od.Agent(od.auto(["a", "b", "c"], size="normal"), seed=3)
        rng = np.random.default_rng(5)
        earned = 0.0
        for _ in range(400):
            x = rng.normal(size=2)
            means = 0.5 + 0.4 * np.sin(np.array([3 * x[0], 3 * x[1], x[0] * x[1]]))
            decision = agent.decide(x)
            earned += means[decision.index] / means.max()
            agent.learn(decision, float(means[decision.index] * scale))
        return earned / 400, agent.posterior()

    earned, posterior = follows(scale)
    usual, _ = follows(1.0)
    assert earned > usual - 0.03
    assert abs(max(posterior.values()) - 0.8) > 0.01  # the prior of the blend
