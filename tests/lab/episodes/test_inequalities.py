"""The inequalities behind the bounds (theory 8.3 and 8.4) on random models, and where a
factor cannot be left out."""

from typing import Any

import numpy as np
import pytest

from lab.episodes.tiny import VECTORS, Branches, episodes, hellinger
from oddsmith.lab.episodes import EpisodicModel, GeneralizedPosteriorSampling
from oddsmith.lab.episodes.world import random_model

SEEDS = range(60)


def pair(seed: int, horizon: int = 3) -> tuple[EpisodicModel, EpisodicModel]:
    return random_model(3, 2, horizon=horizon, seed=2 * seed), random_model(
        3, 2, horizon=horizon, seed=2 * seed + 1
    )


def test_values_differ_by_no_more_than_hellinger() -> None:
    """|V_1 - V_i| of a policy is at most √2 H h, h the Hellinger distance of its
    trajectories; 60 random pairs."""
    for seed in SEEDS:
        truth, other = pair(seed)
        for policy in (truth.plan.policy, other.plan.policy, np.full((3, 3, 2), 0.5)):
            apart = abs(truth.values(policy)[0] - other.values(policy)[0])
            assert (
                apart
                <= np.sqrt(2) * 3 * np.sqrt(hellinger(truth, other, policy)) + 1e-12
            )


def test_the_regret_of_a_plan_is_two_differences_of_values() -> None:
    for seed in SEEDS:
        truth, other = pair(seed)
        mine, its = truth.plan.policy, other.plan.policy
        regret = truth.values(mine)[0] - truth.values(its)[0]
        apart = [
            abs(truth.values(policy)[0] - other.values(policy)[0])
            for policy in (mine, its)
        ]
        assert 0 <= regret <= sum(apart) + 1e-12


def test_uniform_actions_cover_every_policy() -> None:
    """h² under the uniform member is at least K^-H times h² under any policy."""
    for seed in SEEDS:
        truth, other = pair(seed)
        blind = hellinger(truth, other, np.full((3, 3, 2), 0.5))
        for policy in (truth.plan.policy, other.plan.policy):
            assert blind >= 2.0**-3 * hellinger(truth, other, policy) - 1e-12


def test_distances_of_models_that_agree_with_their_own_plans_decouple() -> None:
    """Σ_i w_i 1[π_i ≠ π_1] h(π_i, i) <= sqrt((G-1) Σ_{i,m} w_i w_m h²(m, i)), for 60
    sets of 5 models."""
    for seed in SEEDS:
        models = [random_model(2, 2, horizon=2, seed=5 * seed + i) for i in range(5)]
        policy = GeneralizedPosteriorSampling(models)
        weights = np.random.default_rng(seed).dirichlet(np.ones(5))
        h2 = np.array(
            [
                [hellinger(models[0], model, plan) for model in models]
                for plan in policy.plans.policy
            ]
        )
        other = policy.policy_of != policy.policy_of[0]
        left = (weights * other * np.sqrt(np.maximum(np.diag(h2), 0))).sum()
        right = np.sqrt((policy.n_policies - 1) * max(weights @ h2 @ weights, 0))
        assert left <= right + 1e-9


def falls(
    models: list[EpisodicModel], prior: list[float], gamma: float
) -> tuple[float, float]:
    """L_i - E L_i' of the second model after one episode, by enumeration, and w_i h²(1,
    i)."""
    policy: Any = GeneralizedPosteriorSampling(
        models, eta=0.5, gamma=gamma, prior=prior
    )
    (after,) = episodes(policy, models[0], 1)
    posterior = policy.posterior(after.state)
    fall = prior[1] / prior[0] - after.chance @ (posterior[:, 1] / posterior[:, 0])
    return float(fall), prior[1] * hellinger(
        models[0], models[1], models[0].plan.policy
    )


def test_likelihood_ratios_fall_by_what_the_true_plan_would_tell() -> None:
    """(1-γ) w_i h²(1, i) <= L_i - E L_i'."""
    for seed in range(12):
        models, share = (
            list(pair(seed, horizon=2)),
            float(np.random.default_rng(seed).uniform(0.1, 0.9)),
        )
        for gamma in (0.0, 0.3):
            fall, told = falls(models, [share, 1 - share], gamma)
            assert (1 - gamma) * told <= fall + 1e-12


def test_without_the_factor_it_is_false() -> None:
    """One step, f_1 = (.5, .9), f_2 = (.5, .1), weight .9, γ = 1/2: .0400 is above
    .0311."""
    models = [
        EpisodicModel([[[0.5, right]]], np.ones((1, 1, 2, 1))) for right in (0.9, 0.1)
    ]
    fall, told = falls(models, [0.9, 0.1], 0.5)
    assert told == pytest.approx(0.04, abs=1e-12)
    assert fall == pytest.approx(0.0311111, abs=1e-6)
    assert told > fall >= 0.5 * told


def test_lemma_1_on_random_models() -> None:
    """Σ_k E D_k <= ln(1/p_1) over three enumerated episodes, η = 1/2, with and without
    exploration."""
    for seed, gamma in ((0, 0.0), (1, 0.2), (2, 0.0)):
        models = [random_model(2, 2, horizon=2, seed=3 * seed + i) for i in range(3)]
        policy = GeneralizedPosteriorSampling(
            models, eta=0.5, gamma=gamma, prior=[0.2, 0.5, 0.3]
        )
        played = policy.behaviour(policy.init()).policies
        h2 = np.array(
            [[hellinger(models[0], model, plan) for model in models] for plan in played]
        )
        before, total = Branches(policy.init((1,)), np.ones(1), np.zeros(1)), 0.0
        for after in episodes(policy, models[0], 3):
            mass = policy.behaviour(before.state).mass
            total += float(
                before.chance
                @ (mass @ h2 * policy.posterior(before.state)).sum(axis=-1)
            )
            before = after
        assert 0 < total <= np.log(5)


def test_a_small_prior_is_paid_until_the_truth_is_drawn() -> None:
    """R(n) >= gap (1-p)(1-(1-p)^n)/p on the chain: nothing is learnt before the true
    plan is played."""
    cases = VECTORS["R2"]["many_episodes_dp"]
    for prior in (0.1, 1e-4):
        for name in ("PSRL", "eta=1/2"):
            for n, regret in cases[f"R2 p1={prior:g} {name}"].items():
                assert regret >= 0.056 * (1 - prior) * -np.expm1(
                    int(n) * np.log1p(-prior)
                ) / prior * (1 - 1e-9)
