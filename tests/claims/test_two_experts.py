"""The chain of world V against the library's own policies: every path of arms and
rewards, with their exact odds."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.claims.suprema import agreed_regret, peak, worst
from oddsmith.claims.two_experts import (
    Chain,
    Expected,
    GapWeighting,
    Learner,
    Sampling,
    World,
    exact,
    exact_regret,
)
from oddsmith.core.losses import LOSSES
from paper.agnostic import futures

STEPS = 4


def enumerated(policy: Any, world: World, loss: str, steps: int = STEPS) -> Expected:
    """Regret, Σ lbar and the truth's posterior from all futures of the policy
    itself."""
    said, means, truth = world.predictions, world.means, 0 if world.first else 1
    losses = LOSSES[loss]
    shifted = sum(
        chance
        * (
            losses(said, np.full_like(said, reward))
            - losses(means, np.full_like(means, reward))
        )
        for reward, chance in ((1.0, means), (0.0, 1 - means))
    )
    leaves, regret, total = [(1.0, policy.init())], 0.0, 0.0
    for _ in range(steps):
        for chance, state in leaves:
            odds = policy.odds(state, said).propensities
            regret += chance * float(odds @ (means.max() - means))
            total += chance * float(policy.posterior(state) @ shifted @ odds)
        leaves = [
            future for leaf in leaves for future in futures(policy, leaf, said, means)
        ]
    return Expected(
        regret,
        total,
        sum(chance * float(policy.posterior(state)[truth]) for chance, state in leaves),
    )


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("loss", "eta", "gamma", "optimism"),
    [
        ("log", 0.7, 0.0, 0.0),
        ("log", 0.5, 0.3, 0.0),
        ("square", 1.0, 0.0, 0.0),
        ("square", 0.4, 0.2, 0.0),
        ("log", 0.25, 0.0, 0.8),
    ],
)
def test_generalized_thompson_sampling(
    loss: str, eta: float, gamma: float, optimism: float, first: bool
) -> None:
    for arms, delta, prior in ((2, 0.3, 0.2), (3, 0.1, 0.6)):
        world = World(delta, prior, arms, first)
        policy = od.GeneralizedThompsonSampling(
            od.GivenExperts(["1", "2"]),
            LOSSES[loss],
            eta=eta,
            gamma=gamma,
            prior=[prior, 1 - prior],
            optimism=optimism,
        )
        found = exact(world, Sampling(loss, eta, gamma, optimism), STEPS)
        np.testing.assert_allclose(found, enumerated(policy, world, loss), rtol=1e-12)


@pytest.mark.parametrize("first", [True, False])
def test_squarecb(first: bool) -> None:
    for arms, delta, prior in ((2, 0.3, 0.2), (2, 0.2, 0.7), (3, 0.4, 0.5)):
        world = World(delta, prior, arms, first)
        policy = od.policies.SquareCB(
            od.GivenExperts(["1", "2"]),
            sharpness=12.0,
            oracle="mixture",
            prior=[prior, 1 - prior],
        )
        found = exact(world, GapWeighting(12.0), STEPS)
        np.testing.assert_allclose(found, enumerated(policy, world, "log"), rtol=1e-12)


@pytest.mark.parametrize("learner", [Sampling("square", 1.0, 0.1), GapWeighting(20.0)])
def test_blocks_are_steps(learner: Learner) -> None:
    """Numbers of steps around the length of a block, and marks on the way, against one
    step after the other."""
    chain = Chain.of(World(0.2, 0.01), learner)
    values, by_step = np.zeros_like(chain.regret), [0.0]
    for _ in range(200):
        values = chain.regret + chain.step_values(values)
        by_step.append(float(values[chain.start]))
    marks = [1, 31, 32, 33, 64, 100, 200]
    found = [
        float(v[chain.start])
        for v in chain.totals(chain.regret, np.zeros_like(values), marks)
    ]
    np.testing.assert_allclose(found, [by_step[mark] for mark in marks], rtol=1e-12)
    for once in (
        exact_regret(World(0.2, 0.01), learner, 200),
        exact(World(0.2, 0.01), learner, 200).regret,
    ):
        assert once == pytest.approx(found[-1], rel=1e-12)


def test_a_learner_that_is_fed_the_opposite() -> None:
    """Flipped rewards are those of the other world: the truth's posterior there is 1
    less the other one's here."""
    # draws every arm alike, so that only rewards differ
    policy = Sampling("square", 0.7, 1.0)
    wrong = exact(World(0.2, 0.7, first=False), replace(policy, flipped=True), 50)
    assert wrong.posterior == pytest.approx(
        1 - exact(World(0.2, 0.7, first=True), policy, 50).posterior, rel=1e-9
    )


def test_optimism_that_fades_to_nothing_is_plain() -> None:
    """The two ways to compute agree: step by step with next to no optimism, and by
    blocks with none."""
    for first in (True, False):
        world = World(0.1, 0.01, 2, first)
        slow, fast = (
            exact(world, Sampling("log", 0.5, 0.1, lam), 3000) for lam in (1e-14, 0.0)
        )
        np.testing.assert_allclose(slow, fast, rtol=1e-9)


def test_the_chain_of_one_instance_is_world_v() -> None:
    """The matrix powers of `claims/chain.py`, for f_1 = (0.5, 0.9) and f_2 = (0.5,
    0.1)."""
    from oddsmith.claims import chain

    for loss, eta in itertools.product(("log", "square"), (0.25, 0.5, 1.0, 2.0, 4.0)):
        _, regret = chain.exact_regret(
            loss, eta=eta, gamma=0.05, prior=1e-4, doublings=12
        )
        found = exact_regret(World(0.4, 1e-4), Sampling(loss, eta, 0.05), 4096)
        assert found == pytest.approx(regret[-1], rel=1e-9)


def test_searches() -> None:
    """A peak inside, one at the end, the worst Δ against a fine grid, and world B by
    the policy's own odds."""
    assert peak(lambda x: -((np.log(x) + 2) ** 2), 0.01).delta == pytest.approx(
        np.exp(-2), rel=1e-3
    )
    assert peak(lambda x: x, 0.01).delta == 0.45
    for learner in (
        Sampling(gamma=0.2),
        Sampling("square", 1.0, 0.1),
        GapWeighting(30.0),
        Sampling(optimism=0.1),
    ):
        found = worst(learner, prior=1e-6, steps=1000)
        grid = [
            exact_regret(World(d, 1e-6), learner, 1000)
            for d in np.linspace(0.05, 0.45, 17)
        ]
        # m is whole, so that the curve has small waves
        assert found.regret >= max(grid) * (1 - 1e-3)
        assert found.regret == exact_regret(World(found.delta, 1e-6), learner, 1000)
    agreed = np.full((2, 3), 0.1)
    agreed[:, -1] = 0.9
    policy = od.GeneralizedThompsonSampling(od.GivenExperts(["1", "2"]), gamma=0.3)
    lost = 0.8 * (1 - float(policy.odds(policy.init(), agreed).propensities[-1]))
    assert agreed_regret(Sampling(gamma=0.3), steps=100, n_arms=3) == pytest.approx(
        100 * lost
    )
