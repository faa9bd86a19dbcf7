"""Generalised posterior sampling: exact enumeration of tiny worlds, telescoping odds,
and horizon 1."""

from typing import Any

import numpy as np
import pytest

import oddsmith as od
from lab.episodes.tiny import (
    VECTORS,
    Branches,
    episode,
    episodes,
    forced,
    hellinger,
    number,
    r1,
)
from oddsmith.lab.episodes import EpisodicModel, GeneralizedPosteriorSampling
from oddsmith.lab.episodes.world import chain, random_model
from oddsmith.lab.worlds.tables import random_table

R1 = VECTORS["R1"]["data"]
MORE = VECTORS["R1_feelgood_and_policies"]["data"]
RUNS: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "psrl": (
        {"eta": 1.0, "gamma": 0.0},
        R1["psrl"]["regret"],
        R1["psrl"]["posterior_truth"],
    ),
    "feel-good": (
        {"eta": 0.25, "gamma": 0.0, "optimism": 0.5},
        *MORE["feelgood eta=1/4 lambda=1/2"],
    ),
    "policies": (
        {"eta": 0.5, "gamma": 0.1, "explore": "policies"},
        *MORE["explore=policies eta=1/2 gamma=1/10"],
    ),
}
for key, settings in {
    "eta=0.5,gamma=0": {"eta": 0.5, "gamma": 0.0},
    "eta=0.5,gamma=1/10": {"eta": 0.5, "gamma": 0.1},
    "eta=1.0,gamma=1/10": {"eta": 1.0, "gamma": 0.1},
}.items():
    RUNS[key] = settings, R1[key]["regret"], R1[key]["posterior_truth"]


def check_enumeration(
    policy: Any, truth: EpisodicModel, regret: list[str], posterior: list[str]
) -> None:
    """Regret by what is earned on all trajectories, by the values of what is played,
    and the weight of the truth."""
    best = truth.plan.values[0, 0]
    before = Branches(policy.init((1,)), np.ones(1), np.zeros(1))
    assert policy.posterior(before.state)[0, 0] == pytest.approx(
        number(posterior[0]), abs=1e-12
    )
    for k, after in enumerate(episodes(policy, truth, len(regret))):
        assert after.chance.sum() == pytest.approx(1, abs=1e-12)
        assert best - after.chance @ after.earned == pytest.approx(
            number(regret[k]), abs=1e-12
        )
        played = policy.behaviour(before.state)
        values = (played.mass * truth.values(played.policies)[:, 0]).sum(axis=-1)
        assert best - before.chance @ values == pytest.approx(
            number(regret[k]), abs=1e-12
        )
        weight = after.chance @ policy.posterior(after.state)[:, 0]
        assert weight == pytest.approx(number(posterior[k + 1]), abs=1e-12)
        before = after


@pytest.mark.parametrize("name", RUNS)
def test_r1_is_the_enumeration(name: str) -> None:
    settings, regret, posterior = RUNS[name]
    check_enumeration(
        GeneralizedPosteriorSampling(r1(), **settings), r1()[0], regret, posterior
    )


@pytest.mark.parametrize("prior", ["1/2", "1/10"])
def test_r2_is_the_enumeration(prior: str) -> None:
    data, first = VECTORS["R2"]["data"][f"R2_chain3 p1={prior}"], number(prior)
    policy = GeneralizedPosteriorSampling(
        [chain(), chain(right=0.1)], eta=1.0, gamma=0.0, prior=[first, 1 - first]
    )
    check_enumeration(policy, chain(), data["regret"], data["posterior_truth"])


def test_bayes_regret_is_the_mean_over_truths() -> None:
    policy, found = GeneralizedPosteriorSampling(r1(), eta=1.0, gamma=0.0), np.zeros(3)
    for truth in r1():
        earned = [
            branches.chance @ branches.earned for branches in episodes(policy, truth, 3)
        ]
        found += (truth.plan.values[0, 0] - np.array(earned)) / 3
    np.testing.assert_allclose(
        found, [number(x) for x in R1["bayes_regret_psrl"]], atol=1e-12, rtol=0
    )


@pytest.mark.parametrize("key", ["eta=0.5,gamma=0", "eta=0.5,gamma=1/10"])
def test_lemma_1_for_trajectories(key: str) -> None:
    """E D_k as enumerated, and their sum at most L; D_k = Σ_i w_i Σ_m q_m h²(m, i),
    theory 8.3."""
    gamma, h2 = (
        0.0 if key.endswith("=0") else 0.1,
        np.array(R1["h2_policy_m_model_i"], dtype=float),
    )
    policy = GeneralizedPosteriorSampling(r1(), eta=0.5, gamma=gamma)
    even = np.full((1, 2, 2, 2), 0.5)
    blind = [hellinger(r1()[0], model, even[0]) for model in r1()]
    h2 = np.vstack([h2, blind])
    for m, plan in enumerate(policy.plans.policy):
        np.testing.assert_allclose(
            [hellinger(r1()[0], model, plan) for model in r1()], h2[m], atol=1e-12
        )
    before, found = Branches(policy.init((1,)), np.ones(1), np.zeros(1)), []
    for after in episodes(policy, r1()[0], 3):
        mass = policy.behaviour(before.state).mass
        found.append(
            float(
                before.chance
                @ (mass @ h2 * policy.posterior(before.state)).sum(axis=-1)
            )
        )
        before = after
    np.testing.assert_allclose(
        found, [number(x) for x in R1[key]["D"]], atol=1e-12, rtol=0
    )
    assert sum(found) <= np.log(3)


def test_r1_odds_are_these_fractions() -> None:
    data = VECTORS["R1_odds"]["data"]
    prior = [number(x) for x in data["weights"]]
    policy = GeneralizedPosteriorSampling(
        r1(), gamma=number(data["gamma"]), prior=prior
    )
    state = policy.init()
    first = policy.odds(state, 0)
    np.testing.assert_allclose(
        first.propensities, [number(x) for x in data["step1"]], atol=1e-15
    )
    for case, odds in data["step2"].items():
        action, place = int(case.split("a=")[1][0]), int(case[-1])
        after = policy.update(state, forced(first, 0, action), 1.0)
        np.testing.assert_allclose(
            policy.odds(after, place).propensities,
            [number(x) for x in odds],
            atol=1e-15,
        )


@pytest.mark.parametrize("explore", ["uniform", "policies"])
def test_odds_telescope_to_the_mass_of_those_who_would_have_done_it(
    explore: str,
) -> None:
    """Product of odds = (1-γ) Σ w_i C_i + γ K^-H, or + γ/G times the policies that
    agree, for random trajectories."""
    models, rng, gamma = (
        [random_model(3, 3, horizon=4, seed=i) for i in range(12)],
        np.random.default_rng(5),
        0.2,
    )
    models += [models[0]]
    prior = rng.dirichlet(np.ones(13))
    policy = GeneralizedPosteriorSampling(
        models, gamma=gamma, prior=prior, explore=explore
    )
    plans = np.stack([model.plan.policy for model in models]).argmax(axis=-1)
    assert policy.n_policies == len(np.unique(plans.reshape(13, -1), axis=0)) == 12
    for _ in range(50):
        state, product, agree = policy.init(), 1.0, np.ones(13, dtype=bool)
        for h in range(4):
            place = int(rng.integers(3))
            odds = policy.odds(state, place)
            action = od.draw(odds, place, float(rng.random())).arm
            product *= odds.propensities[action]
            agree &= plans[:, h, place] == action
            state = policy.update(state, forced(odds, place, action), 1.0)
        blind = (
            gamma / 3**4
            if explore == "uniform"
            else gamma / 12 * len({tuple(p.ravel()) for p in plans[agree]})
        )
        assert product == pytest.approx(
            (1 - gamma) * prior[agree].sum() + blind, rel=1e-12
        )


@pytest.mark.parametrize("kernels", ["numpy", "numba"])
@pytest.mark.parametrize("shape", [(), (4,)])
@pytest.mark.parametrize("loss", [od.log_loss, od.square_loss])
@pytest.mark.parametrize("gamma", [0.0, 0.1])
@pytest.mark.parametrize("optimism", [0.0, 0.3])
@pytest.mark.parametrize("masked", [False, True])
def test_horizon_1_is_generalized_thompson_sampling_to_the_last_bit(
    kernels: str,
    shape: tuple[int, ...],
    loss: Any,
    gamma: float,
    optimism: float,
    masked: bool,
) -> None:
    from oddsmith.core import kernels as twins

    if kernels == "numba":
        pytest.importorskip("numba", reason="compiled twins need numba")
    table, rng = random_table(5, 9, 4), np.random.default_rng(3)
    models = [
        EpisodicModel(table[:, i][None], np.full((1, 5, 4, 5), 0.2)) for i in range(9)
    ]
    prior = rng.dirichlet(np.ones(9))
    settings: Any = {"loss": loss, "eta": 0.5, "gamma": gamma, "optimism": optimism}
    eligible = None
    chosen = twins.choice()
    try:
        twins.use(kernels)
        gts = od.GeneralizedThompsonSampling(
            od.TableExperts(table), prior=prior, **settings
        )
        gps = GeneralizedPosteriorSampling(models, prior=prior, **settings)
        one, two = gts.init(shape), gps.init(shape)
        for _ in range(100):
            context = rng.integers(0, 5, shape) if shape else int(rng.integers(5))
            if masked:
                eligible = rng.random((*shape, 4)) < 0.5
                eligible[..., int(rng.integers(4))] = True
            odds = gts.odds(one, context, eligible=eligible)
            same = gps.odds(two, context, eligible=eligible)
            assert odds.propensities.tobytes() == same.propensities.tobytes()
            uniform = rng.random(shape) if shape else float(rng.random())
            decision, other = (
                od.draw(odds, context, uniform, eligible=eligible),
                od.draw(same, context, uniform, eligible=eligible),
            )
            assert decision == other
            reward = (
                rng.integers(0, 2, shape).astype(float)
                if shape
                else float(rng.integers(2))
            )
            one, two = gts.update(one, decision, reward), gps.update(two, other, reward)
            assert one.log_weights.tobytes() == two.log_weights.tobytes()
        assert two.episodes == two.learnt == one.learnt == 100
    finally:
        twins.use(chosen)


def test_the_enumerated_horizon_1_is_the_bandits() -> None:
    """Regret by enumeration over 3 steps of one context, of both, to the last digit
    that a sum of them has."""
    table = np.array([[[0.5, 0.9], [0.5, 0.1], [0.2, 0.7]]])
    models = [EpisodicModel(table[:, i][None], np.ones((1, 1, 2, 1))) for i in range(3)]
    both: list[dict[str, Any]] = [
        {"eta": 1.0, "gamma": 0.0},
        {"eta": 0.5, "gamma": 0.1},
    ]
    for settings in both:
        gps = GeneralizedPosteriorSampling(models, **settings)
        gts = od.GeneralizedThompsonSampling(od.TableExperts(table), **settings)
        found = [
            branches.chance @ branches.earned
            for branches in episodes(gps, models[0], 3)
        ]
        branches = Branches(gts.init((1,)), np.ones(1), np.zeros(1))
        for earned in found:
            branches = episode(
                gts, models[0], branches._replace(earned=np.zeros_like(branches.earned))
            )
            assert branches.chance @ branches.earned == pytest.approx(earned, abs=1e-15)
