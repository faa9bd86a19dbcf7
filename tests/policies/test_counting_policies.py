"""UCB1, KL-UCB and Beta Thompson sampling against their formulas and Lai and Robbins'
rate."""

from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

import oddsmith as od
from oddsmith.lab import simulate
from oddsmith.lab.worlds import TableWorld
from oddsmith.policies.kl_ucb import kl_upper
from oddsmith.policies.parts.counts import CountState

STATE = CountState(np.array([10.0, 4.0, 20.0]), np.array([5.0, 3.0, 8.0]), 34)


def test_ucb1_by_hand() -> None:
    policy = od.policies.UCB1(3)
    by_hand = [
        5 / 10 + np.sqrt(2 * np.log(34) / 10),
        3 / 4 + np.sqrt(2 * np.log(34) / 4),
        0.4 + np.sqrt(2 * np.log(34) / 20),
    ]
    np.testing.assert_allclose(policy.bounds(STATE), by_hand)
    np.testing.assert_array_equal(policy.odds(STATE, None).propensities, [0, 1, 0])
    rng = np.random.default_rng(0)
    for _ in range(200):  # one decision between few arms goes without arrays
        pulls = rng.integers(0, 6, 5).astype(float)
        state = CountState(
            pulls, np.minimum(rng.integers(0, 4, 5), pulls), int(pulls.sum())
        )
        alone, all_of_them = (
            od.policies.UCB1(5).odds(state, None),
            od.policies.UCB1(5).odds(state, None, eligible=np.ones(5, np.bool_)),
        )
        np.testing.assert_array_equal(alone.propensities, all_of_them.propensities)


def test_kl_upper_solves_its_equation() -> None:
    def kl(p: float, q: float) -> float:
        return float(p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q)))

    for p, allowed in ((0.5, 0.3), (0.05, 0.01), (0.9, 1.0)):
        root = brentq(lambda q, p=p, a=allowed: kl(p, q) - a, p, 1 - 1e-12)
        assert float(kl_upper(np.array(p), np.array(allowed))) == pytest.approx(
            root, abs=1e-10
        )
    np.testing.assert_allclose(
        kl_upper(np.array([0.0, 1.0]), np.array([0.5, 0.5])), [1 - np.exp(-0.5), 1.0]
    )


def test_kl_ucb_is_never_wider_than_ucb1_of_the_same_level() -> None:
    """Pinsker: kl >= 2 d², so max{q: n kl <= ln t} <= mean + sqrt(ln t/(2 n))."""
    bounds = od.policies.KLUCB(3).bounds(STATE)
    assert (
        bounds
        <= STATE.sums / STATE.pulls + np.sqrt(np.log(34) / (2 * STATE.pulls)) + 1e-12
    ).all()


def test_unplayed_arms_come_first() -> None:
    for policy in (od.policies.UCB1(3), od.policies.KLUCB(3)):
        state, seen = policy.init(), []
        for _ in range(3):
            decision = od.decide(policy, state, None, 0.5, step=1)
            seen.append(decision.arm)
            state = policy.update(state, decision, 1.0)
        assert seen == [0, 1, 2]


def test_beta_thompson_posterior_by_hand() -> None:
    policy = od.BetaThompsonSampling(2, wins=1.0, losses=1.0)
    state = CountState(np.array([2.0, 0.0]), np.array([2.0, 0.0]), 2)
    # Beta(3,1) vs uniform
    np.testing.assert_allclose(
        policy.odds(state, None).propensities, [0.75, 0.25], atol=1e-8
    )
    mixed = od.BetaThompsonSampling(2, gamma=0.2).odds(state, None).propensities
    np.testing.assert_allclose(mixed, [0.8 * 0.75 + 0.1, 0.8 * 0.25 + 0.1], atol=1e-8)


@pytest.mark.parametrize(
    "policy", [od.policies.KLUCB(2), od.BetaThompsonSampling(2)], ids=["kl-ucb", "beta"]
)
def test_lai_and_robbins_rate(policy: Any) -> None:
    """Regret between T and 4T grows by about Δ ln 4/kl(μ_2, μ_1) = 1.38; UCB1's by
    several times that."""
    world = TableWorld(np.array([[0.7, 0.5]]))
    rate = 0.2 / (0.5 * np.log(0.5 / 0.7) + 0.5 * np.log(0.5 / 0.3))
    regret = np.cumsum(
        simulate(policy, world, steps=4000, runs=60, seed=1).regret.mean(axis=1)
    )
    growth = (regret[-1] - regret[999]) / np.log(4)
    assert 0.3 * rate < growth < 2.5 * rate
    loose = np.cumsum(
        simulate(od.policies.UCB1(2), world, steps=4000, runs=60, seed=1).regret.mean(
            axis=1
        )
    )
    assert loose[-1] > 2 * regret[-1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: od.policies.UCB1(0), "n_arms must be"),
        (lambda: od.policies.KLUCB(2, c=-1.0), "c must be"),
        (lambda: od.BetaThompsonSampling(2, wins=0.0), "wins must be"),
        (
            lambda: od.policies.UCB1(3).odds(
                STATE, None, eligible=np.array([True, True])
            ),
            "eligible must be a mask",
        ),
    ],
)
def test_wrong_settings(make: Any, message: str) -> None:
    with pytest.raises(od.InvalidInput, match=message):
        make()
