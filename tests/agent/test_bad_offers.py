"""Bad offers: one sentence each, at every door of an agent, and nothing is lost."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import oddsmith as od
from oddsmith.core.errors import Infeasible, NoEligibleArm, OddsmithError

GOOD = {"a": {"age": 1.0}, "b": {"age": 2.0}}
CONTEXT = {"hour": 9}

ARMS: dict[str, tuple[Any, str]] = {
    "none at all": ([], "at least one"),
    "an empty dict": ({}, "at least one"),
    "an empty frame": (pd.DataFrame({"arm": []}), "at least one"),
    "text": ("sports", "a list of names"),
    "bytes": (b"sports", "a list of names"),
    "a number": (3, "a list of names"),
    "a set, which has no order": ({"a", "b"}, "a list of names"),
    "an offer": (od.make_offer(None, ["a"]), "give its arms"),
    "twice": (["a", "b", "a"], "distinct; got 'a' twice"),
    "twice as number and text": ([1, "1"], "distinct; got '1' twice"),
    "twice in a frame": (pd.DataFrame({"arm": ["x", "x"]}), "distinct"),
    "an empty name": (["a", ""], "1 to 256 characters; got an empty one"),
    "257 characters": (["a" * 257], "1 to 256 characters; got 257"),
    "NUL": (["a\0"], "without NUL"),
    "a lone surrogate": (["\ud800"], "lone surrogates"),
    "a name of None": ([None], "text or whole numbers"),
    "a name of NaN": ([float("nan")], "text or whole numbers"),
    "a name of True": ([True], "text or whole numbers"),
    "a float": ([1.5], "text or whole numbers"),
    "a list in a list": ([["a"]], "text or whole numbers|one for each of 2 contexts"),
    "a tuple as name": ({("a", "b"): None}, "text or whole numbers"),
    "1,001 arms": (
        [f"a{i}" for i in range(1001)],
        "at most 1,000 in one call; got 1,001",
    ),
    "dict and numbers": (
        {"a": {"age": 1}, "b": [1.0]},
        "of one kind for all arms; got a dict for 'a' and 1 numbers",
    ),
    "two widths": (
        {"a": [1.0, 2.0], "b": [1.0]},
        "2 numbers for 'a' and 1 numbers for 'b'",
    ),
    "text as features": (
        {"a": "sports"},
        "features of arm 'a' must be a dict, numbers or None",
    ),
    "a matrix as features": ({"a": np.zeros((2, 2))}, "numbers in a row; got shape"),
    "words in numbers": ({"a": ["x", 1.0]}, "must be a number"),
    "a time in numbers": (
        {"a": [np.datetime64("2026-01-01"), 1.0]},
        "must be a number|rows of the same length",
    ),
    "a frame in a dict": (
        {"a": pd.DataFrame({"x": [1]})},
        "features of arm 'a' must be a dict",
    ),
    "a polars frame without names": (pl.DataFrame({"age": [1.0]}), "a column 'arm'"),
    "an index that is twice": (
        pd.DataFrame({"age": [1.0, 2.0]}, index=["x", "x"]),
        "distinct",
    ),
    "names that are missing": (
        pd.DataFrame({"arm": ["x", None], "age": [1.0, 2.0]}),
        "text or whole numbers",
    ),
}

DOORS: dict[str, Callable[[od.Agent, Any], object]] = {
    "decide": lambda agent, arms: agent.decide(CONTEXT, arms=arms),
    "decide_batch": lambda agent, arms: agent.decide_batch(
        [CONTEXT, CONTEXT], arms=arms
    ),
    "best": lambda agent, arms: agent.best(CONTEXT, arms=arms),
    "explain": lambda agent, arms: agent.explain(CONTEXT, arms=arms),
}


def ready(policy: od.Policy | None = None) -> od.Agent:
    agent = od.Agent(od.auto() if policy is None else policy, seed=7)
    agent.learn(agent.decide(CONTEXT, arms=GOOD), 1)
    return agent


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", ARMS)
def test_bad_arms_are_refused_in_a_sentence(case: str, door: str) -> None:
    arms, words = ARMS[case]
    agent = ready()
    with pytest.raises(OddsmithError, match=words) as caught:
        DOORS[door](agent, arms)
    assert "\n" not in str(caught.value)
    assert agent.steps == 1
    assert agent.decide(CONTEXT, arms=GOOD).step == 2  # nothing was lost


CALLS: dict[str, tuple[dict[str, Any], type[OddsmithError], str]] = {
    "eligible that is not offered": (
        {"arms": GOOD, "eligible": ["c"]},
        od.InvalidInput,
        "'c'",
    ),
    "eligible of another length": (
        {"arms": GOOD, "eligible": [True, False, True]},
        od.InvalidInput,
        "mask",
    ),
    "none eligible": (
        {"arms": GOOD, "eligible": []},
        NoEligibleArm,
        "at least one arm",
    ),
    "features that are a nested dict": (
        {"arms": {"a": {"x": {"y": 1}}}},
        od.InvalidInput,
        "'x.y'",
    ),
    "no arms": ({}, od.InvalidInput, "arms=…"),
}


@pytest.mark.parametrize("case", CALLS)
def test_bad_calls_are_refused_in_a_sentence(case: str) -> None:
    call, kind, words = CALLS[case]
    agent = ready()
    for door in (agent.decide, agent.best, agent.explain):
        with pytest.raises(kind, match=words):
            door(CONTEXT, **call)
    assert agent.steps == 1


def one(context: Any, arm: str, features: Any) -> float:
    return 0.3


FIXED = od.FunctionExperts({"one": lambda context, arm: 0.3}, arms=["a", "b"])
OPEN = od.FunctionExperts({"one": one})


def gts(experts: od.Experts) -> od.Policy:
    return od.GeneralizedThompsonSampling(experts)


POLICIES: dict[str, tuple[od.Policy, dict[str, Any], type[OddsmithError], str]] = {
    "tables": (
        gts(od.TableExperts(np.full((1, 1, 2), 0.5))),
        {"arms": ["a"]},
        od.InvalidInput,
        "TableExperts",
    ),
    "ucb1": (od.policies.UCB1(2), {"arms": ["a", "b"]}, od.InvalidInput, "UCB1"),
    "linucb of each arm": (
        od.LinUCB(2, n_arms=2),
        {"arms": {"a": [1.0, 2.0]}},
        od.InvalidInput,
        "LinUCB",
    ),
    "an unknown arm of fixed ones": (
        gts(FIXED),
        {"arms": ["a", "x"]},
        od.InvalidInput,
        "'x'",
    ),
    "floors that cannot hold": (
        od.Bounded(gts(OPEN), floors={"a": 0.6, "b": 0.7, "z": 0.9}),
        {"arms": ["a", "b", "c"]},
        Infeasible,
        r"\['a', 'b'\]",
    ),
    "caps that cannot hold": (
        od.Bounded(gts(OPEN), caps={"a": 0.1, "b": 0.2}),
        {"arms": ["a", "b"]},
        Infeasible,
        "'a', 'b'",
    ),
    "floors for places": (
        od.Bounded(gts(OPEN), floors=[0.1, 0.2]),
        {"arms": ["a", "b"]},
        od.InvalidInput,
        "by name",
    ),
    "no arms with the call": (gts(OPEN), {}, od.InvalidInput, "arms=…"),
}


@pytest.mark.filterwarnings("ignore::oddsmith.core.errors.NoExploration")
@pytest.mark.parametrize("case", POLICIES)
def test_policies_refuse_offers_they_cannot_serve(case: str) -> None:
    policy, call, kind, words = POLICIES[case]
    agent = od.Agent(policy, seed=7)
    context = np.zeros(2) if "linucb" in case else 0
    with pytest.raises(kind, match=words):
        agent.decide(context, **call)
    assert agent.steps == 0


def test_a_table_of_at_least_forty() -> None:
    assert len(ARMS) + len(CALLS) + len(POLICIES) >= 40
