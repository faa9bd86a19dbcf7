"""Simulated episodes: regret beside exact numbers, beside Q-learning, and beside the
bound; refusals."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith import theory
from oddsmith.lab.episodes import (
    GeneralizedPosteriorSampling,
    QLearning,
    TabularPosteriorSampling,
)
from oddsmith.lab.episodes.simulate import simulate_episodes
from oddsmith.lab.episodes.world import EpisodicWorld, chain, riverswim

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parent / "vectors.json").read_text()
)
RIVER = VECTORS["riverswim6_H20"]["data"]
CHAIN = VECTORS["R2"]["many_episodes_dp"]
WORLD = EpisodicWorld(riverswim())


def on_chain(prior: float, **settings: Any) -> GeneralizedPosteriorSampling:
    settings = {"eta": 0.5, "gamma": 0.0} | settings
    return GeneralizedPosteriorSampling(
        [chain(), chain(right=0.1)], prior=[prior, 1 - prior], **settings
    )


def rivers(**settings: Any) -> GeneralizedPosteriorSampling:
    return GeneralizedPosteriorSampling(
        [riverswim(up=up) for up in RIVER["finite"]["ups"]], **settings
    )


def within(found: tuple[float, float], expected: float, error: float = 0.0) -> None:
    """4 joint standard errors: a false alarm once in 16,000."""
    assert abs(found[0] - expected) <= 4 * np.hypot(found[1], error), (found, expected)


@pytest.mark.parametrize(
    ("name", "settings"),
    [("PSRL", {"eta": 1.0}), ("eta=1/2", {}), ("eta=1/2 gamma=.05", {"gamma": 0.05})],
)
def test_the_chain_has_the_regret_that_was_computed(name: str, settings: Any) -> None:
    """Regret after 3 and 100 episodes by an exact recursion over likelihood ratios, and
    by 400 runs."""
    run = simulate_episodes(
        on_chain(0.1, **settings),
        EpisodicWorld(chain()),
        episodes=100,
        runs=400,
        seed=1,
    )
    for episodes in (3, 100):
        within(run.after(episodes), CHAIN[f"R2 p1=0.1 {name}"][str(episodes)])


def test_feel_good_has_the_regret_that_was_computed() -> None:
    case = CHAIN["R2 p1=0.1 feel-good n=1e5"]
    policy = on_chain(0.1, eta=0.25, optimism=case["lam"])
    run = simulate_episodes(
        policy, EpisodicWorld(chain()), episodes=100, runs=400, seed=4
    )
    within(run.mean(), case["regret"]["100"])


@pytest.mark.soak
@pytest.mark.parametrize("prior", [0.1, 0.0001])
@pytest.mark.parametrize(
    ("name", "settings"),
    [("PSRL", {"eta": 1.0}), ("eta=1/2", {}), ("eta=1/2 gamma=.05", {"gamma": 0.05})],
)
def test_the_chain_for_long(name: str, settings: Any, prior: float) -> None:
    """With a prior of 1e-4, after 1,000 episodes, the mean hangs on a few runs in a
    thousand: no rule for 400 runs."""
    run = simulate_episodes(
        on_chain(prior, **settings),
        EpisodicWorld(chain()),
        episodes=10_000,
        runs=400,
        seed=2,
    )
    for episodes in (1_000, 10_000) if prior == 0.1 else (10_000,):
        within(run.after(episodes), CHAIN[f"R2 p1={prior:g} {name}"][str(episodes)])


def test_the_first_episode_is_exact() -> None:
    run = simulate_episodes(rivers(eta=1.0, gamma=0.0), WORLD, episodes=1, runs=2)
    first = WORLD.model.plan.values[0, 0] - np.mean(
        RIVER["finite"]["value_under_truth"]
    )
    np.testing.assert_allclose(run.regret[0], first, atol=1e-12)
    assert first == pytest.approx(0.4443525735, abs=1e-10)


GLAD = theory.episode_feelgood_bound(
    horizon=20, n_actions=2, episodes=500, prior=1 / 8, policies=8
)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("finite PSRL uniform", {"eta": 1.0, "gamma": 0.0}),
        ("finite eta 1/2", {"eta": 0.5, "gamma": 0.0}),
        ("finite eta 1/2 gamma .1", {"eta": 0.5, "gamma": 0.1}),
        (
            "finite feel-good eta 1/4 uniform",
            {"eta": 0.25, "gamma": 0.0, "optimism": GLAD.gamma},
        ),
    ],
)
def test_riverswim_with_eight_models(name: str, settings: Any) -> None:
    run = simulate_episodes(rivers(**settings), WORLD, episodes=10, runs=100, seed=3)
    within(run.mean(), *RIVER[name]["10"])


@pytest.mark.soak
def test_riverswim_beside_q_learning() -> None:
    """The mean after 500 episodes within 4 joint standard errors; Q-learning at least
    ten times as dear."""
    names = {
        "PSRL Dir(1) Beta(1,1)": {},
        "PSRL Dir(1/6)": {"alpha": 1 / 6},
        "PSRL Dir(1), eta 1/2": {"eta": 0.5},
    }
    means = {}
    for name, settings in names.items():
        policy = TabularPosteriorSampling(
            6,
            2,
            horizon=20,
            draws=1,
            gamma=0.0,
            **settings,  # type: ignore[arg-type]
        )
        run = simulate_episodes(policy, WORLD, episodes=500, runs=100, seed=7)
        means[name] = run.mean()[0]
        within(run.mean(), *RIVER[name]["500"])
    for initial, name in (
        (0.0, "Q-learning eps 0.1, Q0=0"),
        (20.0, "Q-learning eps .1, Q0=H (optimistic)"),
    ):
        run = simulate_episodes(
            QLearning(6, 2, horizon=20, initial=initial),
            WORLD,
            episodes=500,
            runs=100,
            seed=7,
        )
        means[name] = run.mean()[0]
    assert means["Q-learning eps 0.1, Q0=0"] >= 10 * means["PSRL Dir(1) Beta(1,1)"]
    run = simulate_episodes(
        rivers(eta=1.0, gamma=0.0), WORLD, episodes=500, runs=100, seed=7
    )
    within(run.mean(), *RIVER["finite PSRL uniform"]["500"])
    bound = theory.posterior_sampling_bound(
        [1 / 8] * 8, horizon=20, n_actions=2, episodes=500, policies=8
    )
    assert run.mean()[0] + 4 * run.mean()[1] < bound.bound


def test_many_draws_have_the_same_law_as_one() -> None:
    """After 10 episodes of RiverSwim, with 1 and with 8 draws, beside the number that
    was simulated with one."""
    for draws in (1, 8):
        policy = TabularPosteriorSampling(6, 2, horizon=20, draws=draws, gamma=0.0)
        within(
            simulate_episodes(policy, WORLD, episodes=10, runs=60, seed=8).mean(),
            *RIVER["PSRL Dir(1) Beta(1,1)"]["10"],
        )


def test_returns_and_regret_agree() -> None:
    """What is earned on average is the value that regret says, within 4 standard
    errors, from random first states."""
    world = EpisodicWorld(chain(), start=[0.2, 0.3, 0.5])
    run = simulate_episodes(
        on_chain(0.5), world, episodes=20, runs=500, seed=9, keep="log"
    )
    log = run.log(3)
    assert log.states.shape == (20, 3)
    np.testing.assert_array_equal(log.rewards.sum(axis=1), run.returns[:, 3])
    first = np.stack([run.log(i).states[:, 0] for i in range(500)], axis=1)
    value = chain().plan.values[0][first] - run.regret
    apart = (run.returns - value).sum(axis=0)
    assert abs(apart.mean()) < 4 * apart.std() / np.sqrt(500)


def test_refusals() -> None:
    world = EpisodicWorld(chain())
    with pytest.raises(
        od.InvalidInput, match="policy must be a policy for episodes; got UCB1"
    ):
        simulate_episodes(od.policies.UCB1(2), world, episodes=1)  # type: ignore[arg-type]
    with pytest.raises(
        od.InvalidInput,
        match=r"steps, states and actions, \(3, 3, 2\); got \(2, 3, 2\)",
    ):
        simulate_episodes(QLearning(3, 2, horizon=2), world, episodes=1)
    with pytest.raises(od.InvalidInput, match=r"keep=.log. to keep them"):
        simulate_episodes(on_chain(0.5), world, episodes=1).log()
    with pytest.raises(od.errors.TooLarge, match="at most 100,000,000"):
        simulate_episodes(on_chain(0.5), world, episodes=10**6, runs=10**4)
    with pytest.raises(
        od.InvalidInput, match="start must be a whole number from 0 to 2; got 3"
    ):
        EpisodicWorld(chain(), start=3)
