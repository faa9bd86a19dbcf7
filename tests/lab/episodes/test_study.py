"""Experiment files about episodes: from TOML to a report, through the command, and what
is refused."""

from pathlib import Path
from typing import Any

import pytest

import oddsmith as od
from oddsmith import theory
from oddsmith.cli.main import main
from oddsmith.lab.episodes import (
    GeneralizedPosteriorSampling,
    QLearning,
    TabularPosteriorSampling,
)
from oddsmith.lab.episodes.simulate import simulate_episodes
from oddsmith.lab.episodes.study import read_episode_study

GOOD = """
title = "Rivers and chains"
episodes = 30
runs = 10

[worlds.chain]
kind = "chain"

[worlds.random]
kind = "random"
models = 4

[policies.models]
kind = "posterior_sampling"
eta = 0.5
gamma = 0.05

[policies.draws]
kind = "tabular_posterior_sampling"
draws = 4

[policies.q]
kind = "q_learning"
epsilon = 0.1
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(text)
    return path


def test_a_file_is_what_it_says(tmp_path: Path) -> None:
    study = read_episode_study(written(tmp_path, GOOD))
    models = study.policies["chain", "models"]
    assert isinstance(models, GeneralizedPosteriorSampling)
    assert (models.gamma, models.n_policies, len(models.names)) == (0.05, 2, 2)
    draws, q = study.policies["random", "draws"], study.policies["random", "q"]
    assert isinstance(draws, TabularPosteriorSampling)
    assert draws.draws == 4
    assert isinstance(q, QLearning)
    assert (q.n_states, q.horizon) == (4, 3)


def test_the_command_simulates_and_reports(tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "out"
    assert (
        main(
            [
                "simulate",
                str(written(tmp_path, GOOD)),
                "--out",
                str(out),
                "--engine",
                "serial",
            ]
        )
        == 0
    )
    text = capsys.readouterr().out
    study = read_episode_study(written(tmp_path, GOOD))
    problem = study.problems["chain"]
    run = simulate_episodes(
        study.policies["chain", "models"], problem.world, episodes=30, runs=10, seed=0
    )
    assert f"{run.mean()[0]:,.2f}" in text
    bound = theory.episode_bound(
        horizon=3,
        n_actions=2,
        episodes=30,
        prior=0.5,
        policies=2,
        n_states=3,
        gamma=0.05,
    )
    assert f"{bound.bound:,.0f}" in text
    page = (out / "index.html").read_text()
    assert "Rivers and chains" in page
    assert "30 episodes" in page


def test_rivers_and_tables_of_your_own(tmp_path: Path) -> None:
    text = """
episodes = 2
[worlds.river]
kind = "riverswim"
start = [1, 0, 0, 0, 0, 0]
[worlds.mine]
kind = "table"
horizon = 2
rewards = [[0.2, 0.8]]
transitions = [[[1], [1]]]
[[worlds.mine.others]]
rewards = [[0.7, 0.1]]
transitions = [[[1], [1]]]
[policies.models]
kind = "posterior_sampling"
optimism = 0.1
"""
    study = read_episode_study(written(tmp_path, text))
    assert len(study.problems["river"].models) == 8
    assert study.problems["river"].world.model.plan.values[0, 0] == pytest.approx(
        3.3972639592
    )
    assert study.problems["mine"].world.model.plan.values[0, 0] == pytest.approx(1.6)
    assert study.problems["mine"].models[1].plan.values[0, 0] == pytest.approx(1.4)
    # optimism of one's own has no bound here
    assert study._bound("mine", "models") is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("runs = 10", "rums = 10", "rums is not a key; did you mean runs"),
        (
            'kind = "chain"',
            'kind = "chains"',
            "worlds.chain.kind must be one of chain, riverswim, random, table",
        ),
        (
            'kind = "chain"',
            'kind = "chain"\nright = 2',
            "worlds.chain.right must be in",
        ),
        (
            'kind = "chain"',
            'kind = "chain"\nothers = []',
            "worlds.chain|the world must have other models",
        ),
        (
            "gamma = 0.05",
            "gamma = 2",
            r"policies.models.gamma must be in \[0, 1\]; got 2",
        ),
        (
            "draws = 4",
            "draw = 4",
            "policies.draws.draw is not a key; did you mean draws",
        ),
        ("episodes = 30", "episodes = 0", "episodes must be a whole number"),
    ],
)
def test_refusals_name_the_key(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    with pytest.raises(od.InvalidInput, match=message):
        read_episode_study(written(tmp_path, GOOD.replace(old, new)))
