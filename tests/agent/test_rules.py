"""Rules of an agent: every way to ask leaves out the same arms, with exact odds."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.contexts.rules import Rule

ARMS = ["tea", "beer", "wine"]
RULES = [Rule(["beer", "wine"], "age < 18"), Rule(["wine"], "member == false")]
CONTEXTS: list[Any] = [
    {"age": 9, "member": True},
    {"age": 30, "member": False},
    {"age": 30, "member": True},
]
FREE = np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1]], dtype=bool)


def agent(**more: Any) -> od.Agent:
    return od.Agent(od.auto(ARMS, gamma=0.3), seed=7, rules=RULES, **more)


def test_every_way_to_ask_leaves_out_the_same_arms(tmp_path: Path) -> None:
    plain = od.Agent(od.auto(ARMS, gamma=0.3), seed=7)
    ruled = agent()
    for context, free in zip(CONTEXTS, FREE, strict=True):
        found = ruled.decide(context)
        wanted = plain.decide(context, eligible=free)
        np.testing.assert_array_equal(found.propensities, wanted.propensities)
        assert found.arm == wanted.arm
        assert ruled.best(context) == plain.best(context, eligible=free)
        explained = ruled.explain(context).propensities
        np.testing.assert_array_equal(explained > 0, free)
    batch = ruled.decide_batch(CONTEXTS)
    np.testing.assert_array_equal(batch.propensities > 0, FREE)
    slate = ruled.decide_slate(CONTEXTS[1], slots=2)
    assert {one.arm for one in slate} == {"tea", "beer"}
    with pytest.raises(od.InvalidInput, match="must not outnumber"):
        ruled.decide_slate(CONTEXTS[1], slots=3)
    ruled.save(tmp_path / "agent.npz")
    again = od.Agent.load(tmp_path / "agent.npz", od.auto(ARMS, gamma=0.3), rules=RULES)
    assert again.decide(CONTEXTS[0]).arm == "tea"


def test_rules_read_features_of_offers() -> None:
    ruled = od.Agent(od.auto(), seed=7, rules=[Rule(when="arm.proof > 0 and age < 18")])
    arms = {"tea": {"proof": 0}, "beer": {"proof": 5}}
    assert ruled.decide({"age": 9}, arms=arms).propensities.tolist() == [1, 0]
    batch = ruled.decide_batch([{"age": 9}, {"age": 30}], arms=[arms, arms])
    assert (batch.propensities > 0).tolist() == [[True, False], [True, True]]
    with pytest.raises(od.InvalidInput, match="beer"):
        ruled.decide({"age": 9}, arms={"beer": {"proof": 5}})


def test_rules_need_names() -> None:
    with pytest.raises(od.InvalidInput, match="arms must have names"):
        od.Agent(od.policies.UCB1(n_arms=3), seed=7, rules=[Rule(["tea"])])
