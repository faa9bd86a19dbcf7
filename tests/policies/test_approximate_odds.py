"""How far the odds of Laplace, particles and fixed directions are from the exact
posterior's, in total variation."""

from typing import Any, NamedTuple

import numpy as np
import pytest

import oddsmith as od
from oddsmith import theory
from oddsmith.core.arrays import Array, Ints
from oddsmith.lab.worlds.linear import LogisticWorld
from oddsmith.policies.linear_thompson import LinearThompsonSampling
from oddsmith.policies.logistic_thompson import logistic_class
from oddsmith.policies.particles import ParticleThompsonSampling
from oddsmith.policies.parts.families import LogisticFamily

TRUTH, ETA, RIDGE, ARMS = np.array([2.0, -1.0]), 0.5, 0.25, 3
WORLD = LogisticWorld(TRUTH, ARMS)
AXIS = np.linspace(-6, 6, 241)  # in standard deviations


class Past(NamedTuple):
    """Contexts (T, K, 2), arms that were drawn uniformly, their features (T, 2),
    rewards (T,)."""

    contexts: Array
    arms: Ints
    phi: Array
    rewards: Array


def played(steps: int) -> Past:
    generator = np.random.default_rng(3)
    contexts = np.stack(
        [WORLD.context(t, 1, generator)[0] for t in range(1, steps + 1)]
    )
    arms = generator.integers(ARMS, size=steps)
    phi = contexts[np.arange(steps), arms]
    return Past(
        contexts,
        arms,
        phi,
        (generator.random(steps) < 1 / (1 + np.exp(-phi @ TRUTH))).astype(float),
    )


NEW = np.stack(
    [WORLD.context(1, 1, np.random.default_rng([5, t]))[0] for t in range(40)]
)


def learnt(policy: Any, past: Past, runs: tuple[int, ...] = ()) -> Any:
    """The state after a history, in as many independent runs."""
    state, odds = policy.init(runs), np.full((*runs, ARMS), 1 / ARMS)
    for t, (context, arm, reward) in enumerate(
        zip(past.contexts, past.arms.tolist(), past.rewards, strict=True)
    ):
        drawn, paid = (
            (np.full(runs, arm), np.full(runs, reward))
            if runs
            else (arm, float(reward))
        )
        state = policy.update(
            state, od.Decision(t + 1, context, None, drawn, odds), paid
        )
    return state


def grid(mean: Array, covariance: Array) -> Array:
    """Points (N, 2) that hold a posterior near N(mean, covariance), six standard
    deviations to each side."""
    sides = [AXIS * scale for scale in np.sqrt(np.diag(covariance))]
    return np.asarray(
        mean
        + np.stack(
            [side.ravel() for side in np.meshgrid(*sides, indexing="ij")], axis=-1
        )
    )


def best_arms(points: Array, log_density: Array) -> Array:
    """Pr(arm is best) of the 40 new contexts (40, K) under a density on points."""
    density = np.exp(log_density - log_density.max())
    best = (points @ NEW.swapaxes(-1, -2)).argmax(axis=-1)
    return np.stack(
        [(best == arm) @ density / density.sum() for arm in range(ARMS)], axis=-1
    )


def logistic_odds(past: Past, points: Array) -> Array:
    """Those of the exact posterior, exp(-η Σ ℓ) times the prior N(0, I/ridge)."""
    log_density = -0.5 * RIDGE * (points**2).sum(axis=1)
    for start in range(0, len(past.rewards), 50):
        scores = points @ past.phi[start : start + 50].T
        log_density -= ETA * (
            np.log1p(np.exp(scores)) - scores * past.rewards[start : start + 50]
        ).sum(axis=1)
    return best_arms(points, log_density)


def apart(odds: Array, exact: Array) -> float:
    """The mean total variation over contexts, and runs if there are."""
    return float(np.abs(odds - exact).sum(axis=-1).mean() / 2)


def laplace(past: Past) -> tuple[float, Array, Array]:
    """How far Laplace's odds are off, the exact ones, and the grid they were summed
    on."""
    policy = logistic_class(2, gamma=0.0, ridge=RIDGE)
    state = learnt(policy, past)
    points = grid(state.mean[0], state.covariance[0])
    exact = logistic_odds(past, points)
    return (
        apart(
            np.stack([policy.odds(state, context).propensities for context in NEW]),
            exact,
        ),
        exact,
        points,
    )


def test_the_grid_is_exact() -> None:
    """A grid of half as many points a side has the same odds."""
    past = played(60)
    _, exact, points = laplace(past)
    coarse = points.reshape(241, 241, 2)[::2, ::2].reshape(-1, 2)
    assert apart(logistic_odds(past, coarse), exact) < 5e-4


def test_laplace_comes_nearer_with_more_rewards() -> None:
    few, many = (laplace(played(steps))[0] for steps in (20, 500))
    assert few < 0.05  # measured: benchmarks/MATHEMATICS.md
    assert many < few / np.sqrt(500 / 20) * 2  # as 1/sqrt(rewards), to a factor of 2


def test_particles_have_an_error_of_one_over_the_root_of_their_number() -> None:
    past, off = played(60), []
    _, exact, _ = laplace(past)
    for n in (256, 4096):
        policy = ParticleThompsonSampling(
            LogisticFamily(), 2, n_particles=n, eta=ETA, ridge=RIDGE, gamma=0.0, seed=11
        )
        state = learnt(policy, past, (8,))
        shares = np.exp(state.log_weights)
        shares /= shares.sum(axis=-1, keepdims=True)
        # (runs, contexts, particles)
        best = (state.particles[:, None] @ NEW.swapaxes(-1, -2)).argmax(axis=-1)
        odds = np.stack(
            [((best == arm) * shares[:, None]).sum(axis=-1) for arm in range(ARMS)],
            axis=-1,
        )
        off.append(apart(odds, exact))
    assert 2 < off[0] / off[1] < 8  # 4 by theory, sixteen times as many


def test_directions_are_no_worse_than_random_draws() -> None:
    """64 times as many directions: at most an eighth of the distance to the exact odds
    of the Gaussian."""
    past, off = played(60), []
    for n in (64, 4096):
        policy = LinearThompsonSampling(
            2, ridge=RIDGE, weight=2 * ETA, gamma=0.0, directions=n
        )
        state = learnt(policy, past)
        points, precision = (
            grid(state.mean[0], state.covariance[0]),
            np.linalg.inv(state.covariance[0]),
        )
        away = points - state.mean[0]
        exact = best_arms(points, -0.5 * ((away @ precision) * away).sum(axis=1))
        off.append(
            apart(
                np.stack([policy.odds(state, context).propensities for context in NEW]),
                exact,
            )
        )
    assert off[1] < off[0] / 8


def test_any_sampling_with_a_floor_learns_and_the_error_of_its_odds_is_added() -> None:
    """Σ w_i Δ_i <= sqrt(2K D/γ) whatever is drawn with odds of γ/K or more; other odds
    lose at most their TV more."""
    generator, nearest = np.random.default_rng(2), 0.0
    for _ in range(4000):
        arms, experts = int(generator.integers(2, 6)), int(generator.integers(2, 6))
        gamma, said = generator.uniform(0.05, 1), generator.random((experts, arms))
        weights = generator.dirichlet(np.full(experts, 0.5))
        drawn = gamma / arms + (1 - gamma) * generator.dirichlet(np.full(arms, 0.3))
        squared = float(weights @ ((said - said[0]) ** 2 @ drawn))
        gaps = said[0].max() - said[0]
        posterior = weights @ np.eye(arms)[said.argmax(axis=1)]
        limit = np.sqrt(2 * arms * squared / gamma)
        assert posterior @ gaps <= limit + 1e-12
        other = generator.dirichlet(np.ones(arms))
        assert other @ gaps <= limit + np.abs(other - posterior).sum() / 2 + 1e-12
        nearest = max(nearest, float(posterior @ gaps / limit) if limit > 0 else 0.0)
    # the inequality is no idle one: (1/2 ± d, 1/2 ∓ d) at gamma 1 reaches it
    assert nearest > 0.8


def test_the_bound_of_an_approximation() -> None:
    problem: Any = {"dim": 3, "norm": 2.0, "n_arms": 4, "steps": 1e6}
    complexity = theory.class_complexity(
        "logistic", dim=3, steps=1e6, eta=0.5, norm=2.0
    )
    found = theory.approximated_class_bound(
        "logistic", error=0.01, gamma=0.1, **problem
    )
    wanted = (
        0.9 * (np.sqrt(2 * 4 * 1e6 * complexity / (0.5 * 0.1)) + 1e4) + 0.1 * 1e6 * 0.75
    )
    assert found.bound == pytest.approx(wanted, rel=1e-12)
    best = theory.approximated_class_bound("logistic", error=0.01, **problem)
    assert best.bound <= min(
        theory.approximated_class_bound(
            "logistic", error=0.01, gamma=g, **problem
        ).bound
        for g in np.geomspace(1e-3, 1, 50).tolist()
    )
    exact = theory.class_bound("logistic", **problem).bound
    assert (
        exact
        < theory.approximated_class_bound("logistic", error=0.0, **problem).bound
        < best.bound
    )
