"""Refitted experts of arms that come with the call, against direct fits to the drawn
rows."""

import copy
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression

import oddsmith as od

ARMS = ("a", "b", "c")
LINEAR, TREES = LinearRegression(), ExtraTreesRegressor(4, random_state=5)


def offers(n: int, seed: int = 0) -> list[tuple[Any, Any]]:
    """Contexts of two numbers, and one to four arms with three numbers each, NaN among
    them."""
    rng = np.random.default_rng(seed)
    drawn = [
        (rng.normal(size=2), rng.normal(size=(int(rng.integers(1, 5)), 3)))
        for _ in range(n)
    ]
    return [
        (x, {f"{i} {t}": row for i, row in enumerate(rows)})
        for t, (x, rows) in enumerate(drawn)
    ]


def policy(model: Any, **settings: Any) -> od.Policy:
    bank = od.RefittedExperts(
        None, {"one": model}, first=6, pace=1.5, window=10, **settings
    )
    return od.GeneralizedThompsonSampling(bank, od.square_loss, gamma=0.2)


@pytest.mark.parametrize("drawn_alone", [False, True])
def test_arms_of_the_call_are_what_a_direct_fit_to_the_drawn_rows_says(
    drawn_alone: bool,
) -> None:
    agent, rows, rewards = od.Agent(policy(TREES), seed=1), list[Any](), list[float]()
    for t, (x, arms) in enumerate(offers(20)):
        decision = agent.decide(x, arms=arms)
        if drawn_alone:
            decision = decision._replace(features={decision.arm: arms[decision.arm]})
        agent.learn(decision, t % 2)
        rows.append(np.concatenate([x, arms[decision.arm]]))
        rewards.append(t % 2)
    x, arms = offers(9, seed=9)[3]
    asked = np.stack([np.concatenate([x, row]) for row in arms.values()])
    last = slice(max(agent.state.experts.fitted - 10, 0), agent.state.experts.fitted)
    said = (
        copy.deepcopy(TREES)
        .fit(np.stack(rows[last]), np.array(rewards[last]))
        .predict(asked)
    )
    predictions: Any = agent.policy.odds(agent.state, od.make_offer(x, arms)).advice
    np.testing.assert_allclose(
        predictions, np.clip(said, 1e-4, 1 - 1e-4)[None], atol=1e-12
    )
    many = agent.decide_batch([x, x, x], arms=[arms, {"alone": np.zeros(3)}, arms])
    odds = agent.policy.odds(agent.state, od.make_offer(x, arms)).propensities
    np.testing.assert_allclose(many.propensities[[0, 2]], [odds, odds], atol=1e-12)
    assert many.propensities[1].tolist() == [1.0] + [0.0] * (len(arms) - 1)


def test_features_with_names_and_arms_of_which_nothing_is_known(tmp_path: Any) -> None:
    schemas = {
        "schema": od.Schema(numbers=("hour",)),
        "arm_schema": od.Schema(numbers=("age",), categories=("topic",)),
    }
    arms = {
        "a": {"age": 1.0, "topic": "tech"},
        "b": None,
        "c": {"age": 3.0, "topic": "news"},
    }
    for settings in (schemas, {}):
        agent = od.Agent(
            policy(HistGradientBoostingRegressor(min_samples_leaf=1), **settings),
            seed=2,
        )
        for t in range(12):
            decision = agent.decide({"hour": t}, arms=arms)
            agent.learn(
                decision._replace(features={decision.arm: arms[decision.arm]}),
                decision.arm == "a",
            )
        odds = dict(
            zip(
                arms,
                agent.policy.odds(
                    agent.state, od.make_offer({"hour": 3}, arms)
                ).propensities,
                strict=True,
            )
        )
        assert odds["a"] > odds["c"]
        agent.save(tmp_path / "agent.npz")
        loaded = od.Agent.load(tmp_path / "agent.npz", agent.policy)
        assert loaded.decide({"hour": 4}, arms=arms) == agent.decide(
            {"hour": 4}, arms=arms
        )


def test_arms_of_the_call_and_fixed_ones_are_not_mixed_up() -> None:
    agent, fixed = (
        od.Agent(policy(LINEAR), seed=1),
        od.RefittedExperts(ARMS, {"one": LINEAR}),
    )
    with pytest.raises(od.InvalidInput, match="need them in the call"):
        agent.decide([1.0, 2.0])
    with pytest.raises(od.InvalidInput, match="of fixed arms cannot choose"):
        fixed.predict(fixed.init(), od.make_offer([1.0], ["a", "b", "c"]))
    with pytest.raises(
        od.InvalidInput, match="arm_schema is for arms that are passed in the call"
    ):
        od.RefittedExperts(ARMS, {"one": LINEAR}, arm_schema=od.Schema())
    decision = agent.decide([1.0], arms={"a": [1.0], "b": [2.0]})
    agent.learn(decision, 1)
    # one more number
    agent.learn(decision._replace(features={decision.arm: [1.0, 2.0]}), 1)
    # nothing is known of it
    agent.learn(decision._replace(features={decision.arm: None}), 1)
    assert agent.state.learnt == 3
    np.testing.assert_array_equal(agent.state.experts.rows[:3, 2], [np.nan, 2, np.nan])
