"""Bounds for episodes: equal to their twins with one step, the numbers of the vectors,
and above what is simulated."""

import json
from math import inf, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith import theory
from oddsmith.theory.bounds import gamma_zero_bound
from oddsmith.theory.constants import Coefficient

VECTORS = json.loads(
    (Path(__file__).parents[1] / "lab" / "episodes" / "vectors.json").read_text()
)
RIVER: dict[str, Any] = {"horizon": 20, "n_actions": 2, "episodes": 500, "policies": 8}


@pytest.mark.parametrize("n_actions", [2, 5])
@pytest.mark.parametrize("prior", [0.5, 0.01])
def test_with_one_step_each_is_its_twin(n_actions: int, prior: float) -> None:
    one: dict[str, Any] = {
        "horizon": 1,
        "n_actions": n_actions,
        "episodes": 100_000,
        "prior": prior,
    }
    plain = theory.episode_bound(**one)
    twin = gamma_zero_bound(
        Coefficient(0.5, 0.5), n_arms=n_actions, steps=100_000, prior=prior
    )
    assert plain.bound == pytest.approx(twin.bound, rel=1e-14)
    assert plain.terms["off policy"] == pytest.approx(
        twin.terms["off policy"], rel=1e-14
    )
    glad, twin = (
        theory.episode_feelgood_bound(**one),
        theory.feelgood_bound(n_arms=n_actions, steps=100_000, prior=prior),
    )
    assert (glad.bound, glad.gamma, glad.eta) == pytest.approx(
        (twin.bound, twin.gamma, twin.eta), rel=1e-14
    )
    entropy = -prior * log(prior) - (1 - prior) * log(1 - prior)
    known: dict[str, Any] = {"horizon": 1, "n_actions": n_actions, "episodes": 100_000}
    bayes = theory.posterior_sampling_bound([prior, 1 - prior], **known)
    assert bayes.bound == pytest.approx(
        sqrt(n_actions * entropy * 100_000 / 2), rel=1e-14
    )
    fixed = theory.posterior_sampling_bound([prior, 1 - prior], truth=0, **known)
    assert fixed.bound == pytest.approx(min(bayes.bound / prior, 100_000), rel=1e-14)


@pytest.mark.parametrize("gamma", [0.05, 0.5, 0.999])
def test_exploration_with_one_step_is_theory_3_5(gamma: float) -> None:
    """(1-γ)[sqrt((K-1)TL/(c(1-γ))) + min(sqrt(KTL/(cγ)), sqrt(T(1-p)/(c(1-γ)p)))] +
    γT(K-1)/K with c = 1/2."""
    k, t, c = 3, 10**6, 0.5
    for prior in (0.3, 1e-6):
        root = log(1 / prior)
        off = min(
            sqrt(k * t * root / (c * gamma)),
            sqrt(t * (1 - prior) / (c * (1 - gamma) * prior)),
        )
        expected = (1 - gamma) * (
            sqrt((k - 1) * t * root / (c * (1 - gamma))) + off
        ) + gamma * t * (k - 1) / k
        for explore in ("uniform", "policies"):
            found = theory.episode_bound(
                horizon=1,
                n_actions=k,
                episodes=t,
                prior=prior,
                policies=k,
                gamma=gamma,
                explore=explore,
            )
            assert sum(found.terms.values()) == pytest.approx(expected, rel=1e-13)


def test_the_numbers_of_riverswim_and_the_chain() -> None:
    data = VECTORS["riverswim6_H20"]["data"]["bounds_n500"]
    assert sum(
        theory.episode_bound(prior=1 / 8, **RIVER).terms.values()
    ) == pytest.approx(data["gamma0"], rel=1e-12)
    assert theory.episode_feelgood_bound(prior=1 / 8, **RIVER).bound == pytest.approx(
        data["feelgood"], rel=1e-12
    )
    assert theory.posterior_sampling_bound([1 / 8] * 8, **RIVER).bound == pytest.approx(
        data["bayes"], rel=1e-12
    )
    for prior, name in (
        (0.1, "R2 p1=0.1 feel-good n=1e5"),
        (1e-4, "R2 p1=0.0001 feel-good n=1e5"),
    ):
        case = VECTORS["R2"]["many_episodes_dp"][name]
        found = theory.episode_feelgood_bound(
            horizon=3, n_actions=2, episodes=10**5, prior=prior, policies=2
        )
        assert (found.bound, found.gamma) == pytest.approx(
            (case["bound"], case["lam"]), rel=1e-12
        )
        assert case["regret"]["100000"] < found.bound


def test_exact_regret_is_below_each_bound() -> None:
    """The chain's regret by an exact recursion, at every horizon that was computed."""
    cases = VECTORS["R2"]["many_episodes_dp"]
    for prior in (0.1, 1e-4):
        for name, gamma in (("eta=1/2", 0.0), ("eta=1/2 gamma=.05", 0.05)):
            for episodes, regret in cases[f"R2 p1={prior:g} {name}"].items():
                problem: dict[str, Any] = {
                    "horizon": 3,
                    "n_actions": 2,
                    "episodes": int(episodes),
                    "policies": 2,
                }
                for explore in ("uniform", "policies") if gamma == 0 else ("uniform",):
                    found = theory.episode_bound(
                        prior=prior, gamma=gamma, explore=explore, **problem
                    )
                    assert regret <= sum(found.terms.values())
        for episodes, regret in cases[f"R2 p1={prior:g} PSRL"].items():
            problem = {
                "horizon": 3,
                "n_actions": 2,
                "episodes": int(episodes),
                "policies": 2,
            }
            assert (
                regret
                <= theory.posterior_sampling_bound(
                    [prior, 1 - prior], truth=0, **problem
                ).bound
            )


def test_a_wrong_prior_costs_its_divergence() -> None:
    """With all truth in one model it is the bound for that model; p* = p gives the
    entropy in the place of L."""
    for gamma in (0.0, 0.1):
        certain = theory.episode_bayes_bound(
            [1.0, 0.0], [0.2, 0.8], gamma=gamma, **RIVER
        )
        assert dict(certain.terms) == pytest.approx(
            dict(theory.episode_bound(prior=0.2, gamma=gamma, **RIVER).terms)
        )
    p = np.array([0.5, 0.3, 0.2])
    right = theory.episode_bayes_bound(p, p, **RIVER)
    assert right.terms["on policy"] == pytest.approx(
        sqrt(2) * 20 * sqrt(7 * 500 * -(p @ np.log(p)))
    )
    assert right.terms["off policy"] == pytest.approx(
        sqrt(2) * 20 * sqrt(500) * (p @ np.sqrt((1 - p) / p))
    )


def test_cells_may_take_the_place_of_policies() -> None:
    assert (
        theory.episode_policies(horizon=4, n_actions=3, n_states=2) == 2 * 3 * 5 * 9 / 3
    )
    assert theory.episode_policies(horizon=4, n_actions=3, n_states=2, policies=10) == 9
    found = theory.episode_feelgood_bound(
        horizon=2, n_actions=2, episodes=10**6, prior=0.1, n_states=2
    )
    assert found.bound == pytest.approx(
        4 * sqrt((2 * 2 * 3 * 5 / 3 + 0.25) * 10**6 * log(10))
    )


def test_what_is_missing_is_named() -> None:
    problem: dict[str, Any] = {
        "horizon": 2,
        "n_actions": 2,
        "episodes": 10,
        "prior": 0.5,
    }
    with pytest.raises(od.InvalidInput, match="policies or n_states must be given"):
        theory.episode_bound(**problem)
    with pytest.raises(od.InvalidInput, match="policies must be given if they share"):
        theory.episode_bound(**problem, n_states=2, gamma=0.1, explore="policies")
    with pytest.raises(
        od.InvalidInput, match="explore must be uniform or policies; got 'all'"
    ):
        theory.episode_bound(**problem, n_states=2, explore="all")
    with pytest.raises(od.InvalidInput, match="truth must have a prior above 0"):
        theory.posterior_sampling_bound([1.0, 0.0], truth=1, **RIVER)
    whole = theory.episode_bound(**problem, policies=3, gamma=1.0)
    assert whole.bound == pytest.approx(2 * 10 * 3 / 4)
    assert inf > theory.episode_bound(**problem, n_states=2).bound == 20
