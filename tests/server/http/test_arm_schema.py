"""[schema.arms] over HTTP: features are read, and refused, as they are in a process."""

from pathlib import Path
from typing import Any

import pytest

import oddsmith as od
from server.http.test_offers import news
from server.served import here

SCHEMAS = (
    '[schema]\nnumbers = ["hour"]\n[schema.arms]\nnumbers = ["age"]\n'
    'categories = ["topic"]\n'
)
POLICY = '[policy]\nkind = "auto"\n' + SCHEMAS
GOOD: dict[str, Any] = {
    "a": {"age": 1.0, "topic": "tech"},
    "b": {"age": 2, "topic": None},
    "c": None,
}

WRONG: list[tuple[Any, str]] = [
    (
        {"a": {"age": 1.0, "topc": "tech"}},
        "features of arm 'a': has no column 'topic', but 'topc'; did you mean topic?",
    ),
    (
        {"a": {"age": "old", "topic": "tech"}},
        "features of arm 'a': column 'age' must be a number; got 'old'",
    ),
    (
        {"a": {"age": 1.0, "topic": ["tech"]}},
        (
            "features of arm 'a': column 'topic' must be text, a number, True or "
            "False; got a list"
        ),
    ),
    (
        {"z": None, "b": {"age": 1, "topic": "x"}, "a": {"age": "old", "topic": "x"}},
        "features of arm 'a': column 'age'",
    ),
    (
        {"a": {"age": {"days": 1}, "topic": "tech"}},
        "features of arm 'a': column 'age' must be a number; got a dict",
    ),
    (
        {"a": [1.0, 2.0]},
        "features of arm 'a': must have 9 numbers, as the schema says; got shape",
    ),
    (
        {"a": {"age": 1e300, "topic": "tech"}},
        "arms must hold numbers between -1e+100 and 1e+100; got 1e+300",
    ),
]


def test_features_are_read_by_their_names_and_other_columns_passed_over(
    tmp_path: Path,
) -> None:
    file = news(tmp_path, policy=POLICY)
    agent = od.Agent(od.read_policy(file).policy, seed=7)
    with here(file) as served:
        for turn in range(12):
            asked = {"context": {"hour": turn}, "arms": GOOD, "id": f"v{turn}"}
            answer = served.post("decide", asked)
            decision = agent.decide({"hour": turn}, arms=GOOD, eligible=[answer["arm"]])
            served.reward(f"v{turn}", int(answer["arm"] == "a"))
            agent.learn(decision, int(answer["arm"] == "a"))
            served.state()
        more = {name: row and row | {"colour": "red"} for name, row in GOOD.items()}
        told = [
            served.post("decide", {"context": {"hour": 9}, "arms": arms})["odds"]
            for arms in (GOOD, more)
        ]
        assert told[0] == told[1]
        assert told[0]["a"] > 0.5
        odds = agent.decide({"hour": 9}, arms=GOOD).propensities
        assert list(told[0].values()) == pytest.approx(odds.tolist(), abs=1e-9)


@pytest.mark.parametrize(("arms", "sentence"), WRONG)
def test_wrong_features_are_refused_with_the_sentence_of_the_agent(
    tmp_path: Path, arms: Any, sentence: str
) -> None:
    file = news(tmp_path, policy=POLICY)
    with here(file) as served:
        refused = served.post(
            "decide", {"context": {"hour": 1}, "arms": arms}, status=422
        )
        assert refused["error"].startswith(sentence)
        entries = [{"context": {"hour": 1}}, {"context": {"hour": 1}, "arms": ["z"]}]
        wrong, good = served.post("decide/batch", {"decisions": entries, "arms": arms})[
            "results"
        ]
        assert (wrong["error"], good["arm"]) == (refused["error"], "z")
        assert served.get("/v1/stats")["events"]["decision"] == 1
    if "e+300" not in sentence:  # in a process such a number counts as missing
        with pytest.raises(od.InvalidInput) as caught:
            od.Agent(od.read_policy(file).policy, seed=7).decide({"hour": 1}, arms=arms)
        assert str(caught.value) == refused["error"]
