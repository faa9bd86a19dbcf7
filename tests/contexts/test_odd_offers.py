"""Odd offers: what is eligible in all its forms, records whose parts do not belong
together, arms added meanwhile."""

import json
import sys
import threading
from typing import Any

import numpy as np
import pandas as pd
import pytest

import oddsmith as od
from oddsmith.core.decision import Decision

ARMS = {"a": [1.0], "b": [2.0], "c": [3.0]}
FEW = [[True, False, True], [False, True, False]]
BY_ROW: dict[str, Any] = {
    "masks": FEW,
    "an array of masks": np.array(FEW),
    "a frame of masks": pd.DataFrame(FEW),
    "arrays of masks": [np.array(FEW[0]), np.array(FEW[1])],
    "names": [["a", "c"], ["b"]],
    "sets of names": ({"a", "c"}, {"b"}),
    "arrays of names": [np.array(["a", "c"]), np.array(["b"])],
    "a series of lists": pd.Series([["a", "c"], ["b"]]),
    "a generator": [["a", "c"], ["b"]],
}


@pytest.mark.parametrize("form", BY_ROW)
@pytest.mark.parametrize(
    "arms",
    [None, ARMS, [ARMS, ARMS]],
    ids=["fixed", "one offer", "an offer for each row"],
)
def test_eligible_arms_of_each_row_in_every_form(form: str, arms: Any) -> None:
    agent = od.Agent(od.auto() if arms is not None else od.auto(list(ARMS)), seed=1)
    eligible = iter(BY_ROW[form]) if form == "a generator" else BY_ROW[form]
    many = agent.decide_batch([[1.0], [2.0]], arms=arms, eligible=eligible)
    assert (many.propensities > 0).tolist() == FEW


WRONG: dict[str, Any] = {
    "a list in a list": ["a", ["b"]],
    "too many rows": [["a"], ["b"], ["c"]],
    "too few rows": [["a"]],
    "a dict, whose values would count for nothing": {"a": True, "b": False},
    "an array without axes": np.array(True),
    "masks of other lengths": [[True, False], [True, False, True]],
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize(
    "arms",
    [None, ARMS, [ARMS, ARMS]],
    ids=["fixed", "one offer", "an offer for each row"],
)
def test_eligible_arms_that_are_none_are_refused(case: str, arms: Any) -> None:
    agent = od.Agent(od.auto() if arms is not None else od.auto(list(ARMS)), seed=1)
    with pytest.raises(od.InvalidInput, match="eligible"):
        agent.decide_batch([[1.0], [2.0]], arms=arms, eligible=WRONG[case])
    with pytest.raises(od.InvalidInput, match="eligible"):
        agent.decide([1.0], arms=ARMS, eligible=[["a"]])
    assert agent.steps == 0


@pytest.mark.parametrize(
    "arms",
    [
        [np.array(["a", "b"]), np.array(["c", "d"])],
        np.array([["a", "b"], ["c", "d"]]),
        (("a", "b"), ("c", "d")),
    ],
)
def test_names_for_each_row_in_every_form(arms: Any) -> None:
    many = od.Agent(od.auto(), seed=1).decide_batch([None, None], arms=arms)
    assert [list(row) for row in many.arms] == [["a", "b"], ["c", "d"]]


def test_a_name_alone_is_no_list_of_names() -> None:
    with pytest.raises(od.InvalidInput, match="a list of names"):
        od.make_offer(None, np.array("a"))


RECORDS: dict[str, dict[str, Any]] = {
    "no arms": {"arms": []},
    "fewer arms": {"arms": ["a"]},
    "more arms": {"arms": ["a", "b", "c", "d"]},
    "arms by row": {"arms": [["a", "b", "c"]]},
    "other arms": {"arms": ["x", "y", "z"]},
    "another arm": {"index": 2, "arm": "a"},
    "features in a list": {"features": [1.0]},
    "features that are text": {"features": "x"},
}


@pytest.mark.parametrize("case", RECORDS)
def test_a_record_whose_parts_do_not_belong_together_is_not_learnt(case: str) -> None:
    agent = od.Agent(od.auto(), seed=1)
    record = json.loads(agent.decide([1.0], arms=ARMS).to_json())
    with pytest.raises(od.InvalidInput, match="decision must"):
        agent.learn(Decision.from_json(json.dumps(record | RECORDS[case])), 1)
    assert agent.state.learnt == 0


@pytest.mark.parametrize(
    "part", [{"arms": [["a", "b"]]}, {"index": [0, 1]}, {"arms": ["a", "c"]}]
)
def test_a_batch_whose_parts_do_not_belong_together_is_not_learnt(
    part: dict[str, Any],
) -> None:
    agent = od.Agent(od.auto(), seed=1)
    many = agent.decide_batch([[1.0], [2.0]], arms=[["a", "b"], ["c"]])
    record = json.loads(many.to_json()) | part
    with pytest.raises(od.InvalidInput, match="decision must"):
        agent.learn(Decision.from_json(json.dumps(record)), [1, 0])
    agent.learn(many, [1, 0])
    assert agent.state.learnt == 2


def test_an_offer_of_more_arms_than_an_agent_has() -> None:
    fixed = od.Agent(od.auto(["a", "b"]), seed=1)
    for seed in range(4):
        decision = od.Agent(od.auto(), seed=seed).decide(
            [1.0], arms=[f"arm {i}" for i in range(9)]
        )
        with pytest.raises(od.InvalidInput, match="must have arms among"):
            fixed.learn(decision, 1)


def test_a_batch_whose_contexts_were_erased() -> None:
    many = od.Agent(od.auto(), seed=1).decide_batch(
        [[1.0], [2.0]], arms=[["a", "b"], ["c", "d"]]
    )
    assert many._replace(context=None).question.context == [None, None]


LATER: dict[str, tuple[Any, Any]] = {
    "dicts": ({"a": None, "b": {"age": 1.0}}, {"hour": 9}),
    "arrays": ({"a": None, "b": [1.0, 2.0]}, [9.0]),
}


@pytest.mark.parametrize("form", LATER)
def test_the_drawn_arm_alone_is_learnt_from_also_where_nothing_is_known_of_it(
    form: str,
) -> None:
    arms, context = LATER[form]
    for seed in range(6):  # either arm comes first
        all_known, drawn_known = (
            od.Agent(od.auto(size="small"), seed=seed) for _ in range(2)
        )
        for reward in (1, 0, 1, 1, 0):
            decision = all_known.decide(context, arms=arms)
            assert drawn_known.decide(context, arms=arms) == decision
            all_known.learn(decision, reward)
            drawn_known.learn(
                decision._replace(features={decision.arm: arms[decision.arm]}), reward
            )


def test_features_may_come_later_and_memories_of_arms_stay() -> None:
    bank = od.experts.SharedExperts((od.experts.PooledRidge(pull=4.0),))
    policy = od.GeneralizedThompsonSampling(bank, od.square_loss, gamma=0.1)
    agent = od.Agent(policy, seed=2)
    for _ in range(30):
        decision = agent.decide(None, arms=["good", "bad"])
        agent.learn(decision, decision.arm == "good")
    before = bank.predict(
        agent.state.experts, od.make_offer(None, ["good", "bad", "new"])
    )[0]
    features = {"good": [1.0, 0.0], "bad": [0.0, 1.0], "new": [1.0, 1.0]}
    ignored = bank.predict(agent.state.experts, od.make_offer([9.0], features))[0]
    # of numbers nothing has been learnt yet
    np.testing.assert_array_equal(ignored, before)
    agent.learn(agent.decide([9.0], arms={"new": features["new"]}), 1)
    after = bank.predict(agent.state.experts, od.make_offer([9.0], features))[0]
    assert after[0] > after[1] + 0.3  # what was learnt by name stays
    for _ in range(5):
        agent.learn(agent.decide([9.0], arms={"new": features["new"]}), 1)
    later = bank.predict(agent.state.experts, od.make_offer([9.0], features))[0]
    assert later[2] > before[2] + 0.1
    assert np.isfinite(agent.decide([9.0], arms={"a": [1.0]}).propensities).all()


@pytest.mark.parametrize(
    "many", [[{"x": 1}], [[1.0], [2.0]], pd.DataFrame({"x": [1.0]})]
)
def test_many_contexts_are_not_one(many: Any) -> None:
    with pytest.raises(
        od.InvalidInput, match="must be one dict or row of numbers each; got shape"
    ):
        od.Agent(od.auto(), seed=1).decide(many, arms=ARMS)


def test_a_record_without_the_drawn_arms_features_is_not_learnt() -> None:
    agent = od.Agent(od.auto(), seed=1)
    decision = agent.decide([1.0], arms=ARMS)
    other = next(name for name in ARMS if name != decision.arm)
    with pytest.raises(od.InvalidInput, match=f"lacks those of '{decision.arm}'"):
        agent.learn(decision._replace(features={other: ARMS[other]}), 1)
    assert agent.state.learnt == 0


def test_arms_are_added_while_others_decide() -> None:
    """Without one view of arms, policy and state, 30 additions beside two threads fail
    a few times."""
    agent = od.Agent(od.auto(["a", "b"], size="small", gamma=0.1), seed=1)
    failures, done = list[Exception](), threading.Event()

    def use(eligible: Any) -> None:
        while not done.is_set():
            try:
                agent.learn(agent.decide([1.0], eligible=eligible), 1)
                agent.decide_batch([[1.0], [2.0]], arms=["a", "b"])
                agent.best([1.0])
                agent.explain([1.0])
            except Exception as error:  # whatever it is, it is what this test is about
                failures.append(error)

    threads = [
        threading.Thread(target=use, args=(eligible,))
        for eligible in (None, ["a", "b"])
    ]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for i in range(30):
            agent.add_arms([f"arm {i}"])
    finally:
        done.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(before)
    assert not failures, failures[0]


def test_an_explanation_of_a_thousand_arms_fits_on_a_screen() -> None:
    agent = od.Agent(od.auto(), seed=1)
    names = [f"article {i}" for i in range(1000)]
    agent.learn(agent.decide(None, arms=names), 1)
    lines = str(agent.explain(None, arms=names)).splitlines()
    assert max(map(len, lines)) < 250
    assert "… 988 more" in lines[0]
    assert sum(map(float, lines[-1].split()[1:])) == pytest.approx(1, abs=1e-3)
    linear = od.Agent(od.LinearThompsonSampling(1, directions=64), seed=1)
    lines = str(
        linear.explain(None, arms={name: [i / 1000] for i, name in enumerate(names)})
    ).splitlines()
    assert len(lines) == 42
    assert lines[-1].startswith("… 960 more")


def test_weights_that_all_arms_share_are_those_of_all_arms() -> None:
    agent = od.Agent(od.LinearThompsonSampling(2, directions=64), seed=1)
    agent.learn(agent.decide([1.0], arms={"a": [0.5], "b": [1.0]}), 1)
    assert list(agent.posterior()) == ["all arms"]
