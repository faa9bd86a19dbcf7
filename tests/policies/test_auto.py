"""auto: from the first decision, with dirty contexts, with odds that are what is drawn from."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

import oddsmith as od
from oddsmith.policies.auto import BUDGETS
from oddsmith.worlds import dataset


def played(policy: Any, x: Any, y: Any, seed: int = 0) -> tuple[list[od.Decision], Any]:
    """Decisions and rewards of one pass over labelled rows."""
    agent, decisions, rewards = od.Agent(policy, seed=seed), [], []
    for row, answer in zip(x, y, strict=True):
        decisions.append(agent.decide(row))
        rewards.append(float(decisions[-1].index == answer))
        agent.learn(decisions[-1], rewards[-1])
    return decisions, np.array(rewards)


@pytest.mark.parametrize(("name", "most"), [("wine", 0.15), ("iris", 0.3), ("breast_cancer", 0.12)])
def test_it_learns_from_scratch(name: str, most: float) -> None:
    world = dataset(name)
    order = np.random.default_rng(1).permutation(len(world.y))
    policy = od.auto([str(k) for k in range(world.n_arms)])
    _, rewards = played(policy, world.X[order], world.y[order])
    assert 1 - rewards.mean() < most


def test_drawn_arms_follow_the_odds() -> None:
    """Chi-square of one-hot draws against odds over 569 decisions: false alarm 1e-4."""
    world = dataset("breast_cancer")
    decisions, _ = played(od.auto(["0", "1"], gamma=0.2), world.X, world.y, seed=3)
    odds = np.array([d.propensities[1] for d in decisions])
    drawn = np.array([d.index for d in decisions])
    z = ((drawn - odds) / np.sqrt(odds * (1 - odds))).sum() / np.sqrt(len(odds))
    assert z**2 < chi2.ppf(1 - 1e-4, 1)
    assert min(d.propensities.min() for d in decisions) >= 0.1 - 1e-12  # the floor gamma/K


@pytest.mark.parametrize("name", ["wine", "iris", "breast_cancer"])
def test_its_log_values_another_policy(name: str) -> None:
    """Inverse propensities of "always class 0", unbiased: within 4 standard errors over 40 passes."""
    world, estimates = dataset(name), []
    for seed in range(40):
        order = np.random.default_rng(seed).permutation(len(world.y))[:100]
        policy = od.auto([str(k) for k in range(world.n_arms)], budget="small", gamma=0.3)
        decisions, rewards = played(policy, world.X[order], world.y[order], seed)
        weights = np.array([(d.index == 0) / d.propensities[0] for d in decisions])
        estimates.append((weights * rewards).mean() - (world.y[order] == 0).mean())
    error = np.std(estimates, ddof=1) / np.sqrt(40)
    assert abs(np.mean(estimates)) < 4 * error


def test_contexts_of_every_kind() -> None:
    rows = [{"age": 30.0, "city": "Rome"}, {"age": None, "city": "Oslo"}, {"city": 7, "extra": "?"}, {}]
    frame = pd.DataFrame({"age": [1.0, np.nan, 3.0], "city": ["Rome", "Lima", None]})
    schema = od.Schema.of(frame)
    for policy, kinds in ((od.auto(["a", "b"]), 4), (od.auto(["a", "b"], schema=schema, budget="small"), 2)):
        agent = od.Agent(policy, seed=1)
        for t in range(30):
            agent.learn(agent.decide(rows[t % kinds]), t % 2)
        assert np.isfinite(agent.decide(rows[0]).propensities).all()
        assert sum(agent.posterior().values()) == pytest.approx(1)
    batch = od.Agent(od.auto(["a", "b"], schema=schema), seed=1).decide_batch(frame)
    assert batch.propensities.shape == (3, 2)


def test_a_saved_agent_goes_on(tmp_path: Any) -> None:
    world = dataset("iris")
    agent = od.Agent(od.auto(["0", "1", "2"]), seed=2)
    for row, answer in zip(world.X[::3], world.y[::3], strict=True):
        decision = agent.decide(row)
        agent.learn(decision, float(decision.index == answer))
    agent.save(tmp_path / "auto.npz")
    again = od.Agent.load(tmp_path / "auto.npz", od.auto(["0", "1", "2"]))
    assert again.decide(world.X[1]).to_json() == agent.decide(world.X[1]).to_json()


def test_wrong_settings() -> None:
    for wrong, message in (
        ({"budget": "huge"}, "budget must be one of small, normal, large"),
        ({"schema": {"age": "number"}}, "schema must be a Schema"),
        ({"gamma": 2.0}, "gamma must be"),
    ):
        settings: Any = wrong
        with pytest.raises(od.InvalidInput, match=message):
            od.auto(["a"], **settings)
    with pytest.raises(od.InvalidInput, match="arms must be"):
        od.auto("ab")
    assert set(BUDGETS) == {"small", "normal", "large"}
