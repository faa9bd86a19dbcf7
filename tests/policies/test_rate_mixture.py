"""Mixtures of learning rates: enumeration, one rate is GTS, and the mixture against the
best rate so far."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.claims.agnostic import AGNOSTIC as WORLDS
from oddsmith.lab.simulate import simulate
from oddsmith.policies.rate_mixture import RateMixture
from paper.agnostic import A3_EXPERTS, AGNOSTIC, futures

BANK = od.GivenExperts(["right", "wrong"])
MEANS = np.array([0.5, 0.6])


@dataclass(frozen=True, eq=False)
class BestRate(RateMixture):
    """All has the rate of least loss so far; of several, the smallest."""

    def rate_weights(self, state: Any) -> Any:
        best = state.totals == state.totals.min(axis=-1, keepdims=True)
        smallest = best.shape[-1] - 1 - best[..., ::-1].argmax(axis=-1)
        return (np.arange(best.shape[-1]) == smallest[..., None]).astype(float)


@pytest.mark.parametrize(
    ("kind", "name"), [(RateMixture, "mixture"), (BestRate, "argmin_ties_to_smallest")]
)
def test_enumeration(kind: Any, name: str) -> None:
    """Regret and mean rate over all futures of four steps, to 1e-12."""
    policy = kind(BANK, rates=[1.0, 0.5, 0.25], gamma=0.0)
    leaves, regret = [(1.0, policy.init())], 0.0
    for row in AGNOSTIC["A3_safebayes_enum"][name].values():
        regret += sum(
            p * 0.1 * policy.odds(state, A3_EXPERTS).propensities[0]
            for p, state in leaves
        )
        leaves = [
            future
            for leaf in leaves
            for future in futures(policy, leaf, A3_EXPERTS, MEANS)
        ]
        rate = sum(
            p * float(policy.rate_weights(state) @ policy.rates) for p, state in leaves
        )
        assert regret == pytest.approx(float(row["regret"]), abs=1e-12)
        assert rate == pytest.approx(float(row["mean_eta_after"]), abs=1e-12)


@pytest.mark.parametrize("loss", [od.log_loss, od.square_loss])
def test_one_rate_is_gts(loss: Any) -> None:
    gts = od.GeneralizedThompsonSampling(BANK, loss, eta=0.3, gamma=0.1)
    policy = RateMixture(BANK, loss, rates=[0.3], gamma=0.1)
    state, own, rng = policy.init(), gts.init(), np.random.default_rng(3)
    for t in range(50):
        said = rng.uniform(0.1, 0.9, (2, 3))
        decision = od.decide(policy, state, said, float(rng.random()), step=t + 1)
        np.testing.assert_allclose(
            decision.propensities, gts.odds(own, said).propensities, atol=1e-12
        )
        reward = float(rng.random())
        state, own = (
            policy.update(state, decision, reward),
            gts.update(own, decision, reward),
        )
    np.testing.assert_allclose(policy.posterior(state), gts.posterior(own), atol=1e-12)
    assert state.gap == 0


def test_the_explanation_adds_up_and_names_the_rates() -> None:
    policy = RateMixture(BANK, gamma=0.1)
    state, rng = policy.init(), np.random.default_rng(4)
    for t in range(30):
        decision = od.decide(policy, state, A3_EXPERTS, float(rng.random()), step=t + 1)
        state = policy.update(
            state, decision, float(rng.random() < MEANS[decision.arm])
        )
    told = policy.explain(state, A3_EXPERTS)
    np.testing.assert_allclose(
        0.9 * told.weights @ told.ballots + told.uniform, told.propensities, atol=1e-12
    )
    np.testing.assert_allclose(
        told.propensities, policy.odds(state, A3_EXPERTS).propensities, atol=1e-15
    )
    assert "Weights of the learning rates: 1 (" in str(told)


def test_a_sleeper_is_charged_what_the_others_lose_on_average() -> None:
    """By each rate, with the weights that it gives to those awake; a wide difference of
    weights makes another charge visible."""
    bank = od.GivenExperts(["first", "second", "asleep"])
    policy = RateMixture(bank, rates=[1.0, 0.25], gamma=0.0, prior=[0.6, 0.3, 0.1])
    advice = np.array([0.9, 0.2, np.nan])
    said = np.stack([advice, advice], axis=1)
    state = policy.init()
    log_weights = np.log([[0.6, 0.3, 0.1]] * 2)
    for t, reward in enumerate((1.0, 0.0, 1.0)):
        decision = od.decide(policy, state, said, 0.3, step=t + 1)
        state = policy.update(state, decision, reward)
        losses = od.log_loss(advice[:2], reward)
        awake = np.exp(log_weights[:, :2])
        mean = awake @ losses / awake.sum(axis=1)
        charged = np.column_stack([np.tile(losses, (2, 1)), mean])
        log_weights = log_weights - policy.rates[:, None] * charged
    found = state.log_weights - state.log_weights[:, :1]
    np.testing.assert_allclose(found, log_weights - log_weights[:, :1], atol=1e-12)


def test_what_it_refuses() -> None:
    for rates in ([], [0.5, 0.0], [[0.5]], [float("nan")]):
        with pytest.raises(od.InvalidInput, match="rates"):
            RateMixture(BANK, rates=rates)
    policy = RateMixture(BANK)
    decision = od.decide(policy, policy.init(), np.array([[1.0, 1.0], [0.5, 0.5]]), 0.5)
    with pytest.raises(od.errors.OutOfDomain, match="losses must be finite"):
        policy.update(policy.init(), decision, 0.0)


@pytest.mark.soak
def test_the_mixture_keeps_every_rate_alive() -> None:
    """Where the best expert is too sure: a third of Thompson sampling's regret, and
    less than the best rate so far."""
    problem = WORLDS["A3"]()
    policies = {
        "mixture": RateMixture(problem.experts, gamma=0.0),
        "best": BestRate(problem.experts, gamma=0.0),
        "thompson": od.thompson_sampling(problem.experts),
    }
    lost = {
        n: simulate(p, problem.world, steps=10_000, runs=1000, seed=76).mean()
        for n, p in policies.items()
    }
    recorded = AGNOSTIC["simulated"]["data"]["A3 SafeBayes"][
        "SafeBayes mixture,gamma=0.0"
    ]
    assert lost["mixture"][0] < min(lost["thompson"][0] / 3, lost["best"][0])
    assert abs(lost["mixture"][0] - recorded["mean"][2]) <= 4 * np.hypot(
        lost["mixture"][1], recorded["se"][2]
    )
