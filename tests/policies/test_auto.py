"""auto: from the first decision, with dirty contexts, with odds that are what is drawn
from."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

import oddsmith as od
from oddsmith.experts import Curves, LearningExperts, Ridge
from oddsmith.experts.learners.protocol import RECIPE
from oddsmith.lab.worlds import dataset
from oddsmith.policies.auto import SIZES


def played(policy: Any, x: Any, y: Any, seed: int = 0) -> tuple[list[od.Decision], Any]:
    """Decisions and rewards of one pass over labelled rows."""
    agent, decisions, rewards = od.Agent(policy, seed=seed), [], []
    for row, answer in zip(x, y, strict=True):
        decisions.append(agent.decide(row))
        rewards.append(float(decisions[-1].index == answer))
        agent.learn(decisions[-1], rewards[-1])
    return decisions, np.array(rewards)


@pytest.mark.parametrize(
    ("name", "most"), [("wine", 0.15), ("iris", 0.3), ("breast_cancer", 0.12)]
)
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
    # the floor gamma/K
    assert min(d.propensities.min() for d in decisions) >= 0.1 - 1e-12


@pytest.mark.parametrize("name", ["wine", "iris", "breast_cancer"])
def test_its_log_values_another_policy(name: str) -> None:
    """Inverse propensities of "always class 0", unbiased: within 4 standard errors over
    40 passes."""
    world, estimates = dataset(name), []
    for seed in range(40):
        order = np.random.default_rng(seed).permutation(len(world.y))[:100]
        policy = od.auto([str(k) for k in range(world.n_arms)], gamma=0.3)
        decisions, rewards = played(policy, world.X[order], world.y[order], seed)
        weights = np.array([(d.index == 0) / d.propensities[0] for d in decisions])
        estimates.append((weights * rewards).mean() - (world.y[order] == 0).mean())
    error = np.std(estimates, ddof=1) / np.sqrt(40)
    assert abs(np.mean(estimates)) < 4 * error


def test_contexts_of_every_kind() -> None:
    rows = [
        {"age": 30.0, "city": "Rome"},
        {"age": None, "city": "Oslo"},
        {"city": 7, "extra": "?"},
        {},
    ]
    frame = pd.DataFrame({"age": [1.0, np.nan, 3.0], "city": ["Rome", "Lima", None]})
    schema = od.Schema.of(frame)
    for policy, kinds in (
        (od.auto(["a", "b"]), 4),
        (od.auto(["a", "b"], schema=schema, size="small"), 2),
    ):
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


NASTY: tuple[Any, ...] = (
    0.0,
    -0.0,
    1.0,
    -3.5,
    1e-308,
    1e16,
    1e99,
    1e101,
    1e308,
    -1e308,
    float("nan"),
    float("inf"),
    -float("inf"),
    2**70,
    True,
    None,
    "",
    "x" * 10_000,
    "\ud800",
    "\x00",
    "café",
    [],
    {},
    b"bytes",
    object,
    np.float32("nan"),
    np.int8(-1),
    10**400,
    3j,
)


def nasty(rng: np.random.Generator) -> Any:
    """A context nobody should send."""

    def value() -> Any:
        return (
            NASTY[rng.integers(len(NASTY))]
            if rng.random() < 0.7
            else float(rng.normal())
        )

    kind = rng.integers(6)
    if kind == 0:
        return {str(rng.integers(8)): value() for _ in range(rng.integers(6))}
    if kind == 1:
        return [value() for _ in range(rng.integers(7))]
    if kind == 2:
        return np.array(
            [
                float(v) if isinstance(v, float) else 0.5
                for v in (value() for _ in range(3))
            ]
        )
    if kind == 3:
        return np.full(rng.integers(1, 5, rng.integers(3)), float(rng.normal()))
    if kind == 4:
        return np.array([value() for _ in range(3)], dtype=object)
    return value()


@pytest.mark.parametrize(
    "schema", [None, od.Schema(numbers=("1", "2"), categories=("3", "4"))]
)
def test_ten_thousand_dirty_contexts(schema: od.Schema | None) -> None:
    """Never odds that are not numbers: either they are, or there is one clear error and
    nothing has changed."""
    rng = np.random.default_rng(0 if schema is None else 1)
    policy = od.auto(["a", "b", "c"], size="small", schema=schema)
    state = policy.init()
    answered, sentences = 0, []
    for t in range(5_000):
        context = nasty(rng)
        before = (state.log_weights.copy(), state.experts.seen)
        try:
            decision = od.decide(
                policy, state, context, float(rng.random()), step=t + 1
            )
            if decision.propensities.ndim == 1:
                state = policy.update(state, decision, float(t % 2))
        except od.OddsmithError as error:
            sentences.append(str(error))
            np.testing.assert_array_equal(state.log_weights, before[0])
            np.testing.assert_array_equal(state.experts.seen, before[1])
            continue
        answered += 1
        assert np.isfinite(decision.propensities).all()
        np.testing.assert_allclose(decision.propensities.sum(axis=-1), 1)
    assert 500 < answered < 4_500
    assert all("\n" not in said and len(said) < 400 for said in sentences)
    assert all(
        np.isfinite(part).all() for own in state.experts.learners for part in own.models
    )


def test_arms_that_come_later_are_tried_and_learnt() -> None:
    """The old arms are good on one side only, the new one on the other."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(600, 2))
    policy = od.auto(["left"], gamma=0.05)
    state = policy.init()
    for t, row in enumerate(x):
        if t == 300:
            policy, state = policy.with_arms(state, ["left", "right"])
        decision = od.decide(policy, state, row, float(rng.random()), step=t + 1)
        state = policy.update(
            state, decision, float((row[0] < 0) == (decision.number == 0))
        )
    best = np.array([policy.odds(state, row).propensities.argmax() for row in x[:100]])
    assert (best == (x[:100, 0] > 0)).mean() > 0.85
    with pytest.raises(od.InvalidInput, match="GivenExperts have a fixed set of arms"):
        od.GeneralizedThompsonSampling(od.GivenExperts(["one"]), gamma=0.0).with_arms(
            state, ["a"]
        )


def test_a_short_memory_where_the_world_turns() -> None:
    """Answers turn round after 400 rows: with share, the posterior moves to the forest
    on the last 256 rows."""
    errors: dict[float, list[float]] = {0.0: [], 1e-4: []}
    for seed in (8, 9, 10):
        x = np.random.default_rng(seed).normal(size=(1200, 2))
        y = ((x[:, 0] > 0) ^ (np.arange(1200) >= 400)).astype(int)
        for share, found in errors.items():
            policy = od.auto(["0", "1"], share=share)
            _, rewards = played(policy, x, y)
            found.append(1 - rewards[400:].mean())
        assert policy.experts.names[2] == "trees, last 256 rows"
    assert np.mean(errors[1e-4]) < 0.8 * np.mean(errors[0.0])


def test_another_recipe_is_refused_with_what_to_do(tmp_path: Path) -> None:
    """As a later version would: what it makes of rewards is something else, whatever
    its settings."""
    agent = od.Agent(od.auto(["a", "b"]), seed=1)
    agent.learn(agent.decide([1.0]), 1)
    agent.save(tmp_path / "agent.npz")
    for offers in (False, True):
        assert (od.auto() if offers else od.auto(["a", "b"])).experts.recipe == RECIPE  # type: ignore[attr-defined]
    later = od.auto(["a", "b"])
    object.__setattr__(later.experts, "recipe", RECIPE + 1)
    with pytest.raises(
        od.BadFile,
        match=(
            rf"experts\.recipe was {RECIPE}.*, is {RECIPE + 1}.* in this version.*"
            r"oddsmith fit learn the log again"
        ),
    ):
        od.Agent.load(tmp_path / "agent.npz", later)


def test_wrong_settings() -> None:
    for wrong, message in (
        ({"size": "huge"}, "size must be one of small, normal, large"),
        ({"schema": {"age": "number"}}, "schema must be a Schema"),
        ({"gamma": 2.0}, "gamma must be"),
    ):
        settings: Any = wrong
        with pytest.raises(od.InvalidInput, match=message):
            od.auto(["a"], **settings)
    with pytest.raises(od.InvalidInput, match="arms must be"):
        od.auto("ab")
    assert set(SIZES) == {"small", "normal", "large"}


def test_experts_have_names_that_people_can_read() -> None:
    arms = ("a", "b")
    assert od.auto(arms).experts.names == ("linear + curves", "trees", "blend")
    assert od.auto(arms, size="small").experts.names == ("linear + curves",)
    assert od.auto(arms, size="large", share=1e-4).experts.names == (
        "linear + curves",
        "64 trees",
        "trees, last 256 rows",
        "blend",
    )
    learners = (
        Ridge(),
        Ridge(ridges=((3.0, 3.0),)),
        Ridge(Curves(scale=0.5)),
    )
    assert LearningExperts(arms, learners).names == (
        "linear",
        "linear, ridge 3/3",
        "linear + curves of scale 0.5",
    )
