"""Arms that come in the call: their forms, sleepers, bounds, arms that are added,
agents that are saved."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import oddsmith as od
from contexts.offers import by_name, context, features, gts, shared, taught
from oddsmith.contexts.offers import arm_records, arm_rows

pytestmark = pytest.mark.filterwarnings("ignore::oddsmith.core.errors.NoExploration")

FRAME = pd.DataFrame(
    {"topic": ["sports", "tech"], "age": [2.0, 0.5]}, index=["article-17", "article-18"]
)
FORMS: dict[str, Any] = {
    "dict": {
        "article-17": {"topic": "sports", "age": 2.0},
        "article-18": {"topic": "tech", "age": 0.5},
    },
    "pandas": FRAME,
    "pandas with names": FRAME.rename_axis("arm").reset_index(),
    "polars": pl.from_pandas(FRAME.rename_axis("arm").reset_index()),
    "arrow": pl.from_pandas(FRAME.rename_axis("arm").reset_index()).to_arrow(),
    "dict of series": dict(FRAME.iterrows()),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_arms_gives_the_same_odds(form: str) -> None:
    def learnt(arms: Any) -> Any:
        agent = od.Agent(od.auto(), seed=5)
        for reward in (1, 0, 1, 1):
            agent.learn(agent.decide({"hour": 9}, arms=arms), reward)
        return agent.decide({"hour": 9}, arms=arms)

    first, second = learnt(FORMS["dict"]), learnt(FORMS[form])
    assert (first.arm, first.arms) == (second.arm, second.arms)
    assert first.propensities.tolist() == second.propensities.tolist()


def test_an_offer_says_what_there_is_to_choose_from() -> None:
    offer = od.make_offer({"hour": 9}, FORMS["dict"])
    assert isinstance(offer, od.Offer)
    assert arm_records(offer) == [
        {"hour": 9, "topic": "sports", "age": 2.0},
        {"hour": 9, "topic": "tech", "age": 0.5},
    ]
    with pytest.raises(od.InvalidInput, match="'hour' in both"):
        arm_records(od.make_offer({"hour": 9}, {"a": {"hour": 3}}))
    schemas = (
        od.Schema(numbers=("hour",)),
        od.Schema(numbers=("age",), categories=("topic",), buckets=2),
    )
    assert arm_rows(offer, *schemas)[:, :2].tolist() == [[9.0, 2.0], [9.0, 0.5]]
    assert arm_rows(od.make_offer([1.0], {"a": [2.0, None], "b": None}))[0].tolist()[
        :2
    ] == [1.0, 2.0]


def test_sleepers_and_the_only_arm() -> None:
    bank = od.FunctionExperts(
        {"knows": by_name, "sleeps": lambda context, arm: float("nan")}
    )
    agent = od.Agent(gts(bank), seed=2)
    decision = agent.decide(0, arms=["only"])
    assert decision.propensity == 1
    agent.learn(decision, 1)
    assert agent.posterior() == pytest.approx({"knows": 0.5, "sleeps": 0.5})
    judged = agent.decide(0, arms=["a", "b"], eligible=["b"])
    assert judged.arm == "b"


def test_all_experts_failing_is_uniform_over_the_offer() -> None:
    def broken(context: Any, arm: str) -> float:
        raise RuntimeError

    agent = od.Agent(gts(od.Guarded(od.FunctionExperts({"broken": broken}))), seed=2)
    assert (
        agent.decide(0, arms=["a", "b", "c", "d"]).propensities.tolist() == [0.25] * 4
    )
    many = agent.decide_batch([0, 0], arms=[["a", "b"], ["a", "b", "c"]])
    assert many.propensities.tolist() == [[0.5, 0.5, 0.0], [1 / 3, 1 / 3, 1 / 3]]


def test_bounds_on_offers() -> None:
    policy = od.Bounded(
        gts(od.FunctionExperts({"name": by_name})), floors=0.3, caps=0.4
    )
    agent = od.Agent(policy, seed=1)
    for n in (1, 2, 3, 7, 50):
        odds = agent.decide(0, arms=[f"arm {i}" for i in range(n)]).propensities
        assert odds.min() >= min(0.3, 1 / n) - 1e-12
        assert odds.max() <= max(0.4, 1 / n) + 1e-12
    named = od.Agent(
        od.Bounded(
            gts(od.FunctionExperts({"name": by_name})),
            floors={"new": 0.25, "gone": 0.9},
        ),
        seed=1,
    )
    decision = named.decide(0, arms=["old", "new", "other"])
    assert dict(zip(decision.arms, decision.propensities, strict=True))["new"] >= 0.25
    batch = named.decide_batch([0, 0], arms=[["old", "new"], ["old", "other", "x"]])
    assert batch.propensities[0, 1] >= 0.25


def test_fixed_arms_that_are_named_in_the_call_are_the_eligible_ones() -> None:
    agent = od.Agent(od.auto(["a", "b", "c"]), seed=1)
    decision = agent.decide([1.0], arms={"c": {"x": 1}, "a": None})
    assert decision.propensities.shape == (3,)
    assert decision.propensities[1] == 0
    assert decision.eligible is not None
    assert decision.eligible.tolist() == [True, False, True]
    assert decision.features == {"c": {"x": 1}, "a": None}
    agent.learn(decision, 1)
    many = agent.decide_batch([[1.0], [2.0]], arms=[["a"], ["b", "c"]])
    assert many.arm[0] == "a"


def test_add_arms() -> None:
    agent = od.Agent(od.auto(["a", "b"], gamma=0.1), seed=1)
    old = agent.decide([1.0])
    agent.add_arms(["c"])
    assert agent.decide([1.0]).propensities.shape == (3,)
    agent.learn(old, 1)  # what was decided before can still be learnt
    agent.learn([old, agent.decide([1.0])], [1, 0])
    with pytest.raises(od.InvalidInput, match="distinct"):
        agent.add_arms(["a"])
    with pytest.raises(od.InvalidInput, match="a fixed set of arms"):
        od.Agent(od.LinUCB(2, n_arms=2), seed=1, arms=["a", "b"]).add_arms(["c"])
    with pytest.raises(od.InvalidInput, match="in the call"):
        od.Agent(od.auto(), seed=1).add_arms(["c"])


def test_an_agent_takes_a_state() -> None:
    first = taught(od.auto())
    second = od.Agent(first.policy, seed=1, state=first.state)
    arms = ["arm 0", "arm 1", "new"]
    odds = first.policy.odds(first.state, od.make_offer([0.1, 0.2], arms)).propensities
    assert second.decide([0.1, 0.2], arms=arms).propensities.tolist() == odds.tolist()
    with pytest.raises(od.InvalidInput, match="state must be one of"):
        od.Agent(od.policies.UCB1(2), seed=1, state=first.state)


def test_an_agent_of_offers_is_saved_and_goes_on(tmp_path: Any) -> None:
    agent = taught(gts(shared()))
    agent.save(tmp_path / "agent.npz")
    loaded = od.Agent.load(tmp_path / "agent.npz", gts(shared()))
    rng = np.random.default_rng(1)
    x, arms = context(rng), features(rng, 4)
    assert loaded.decide(x, arms=arms) == agent.decide(x, arms=arms)
