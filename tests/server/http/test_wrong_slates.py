"""Slots that cannot be: each is a 4xx with one sentence, writes nothing, and good ones
are served after all of it."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.http.test_offers import news
from server.served import Here, here

ARMS = ["a", "b", "c"]
GOOD: dict[str, Any] = {"context": {"hour": 9}, "arms": ARMS, "slots": 2}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"slots": 0}, "slots must be a whole number >= 1; got 0"),
    ({"slots": 1001}, "slots must be a whole number <= 1000"),
    ({"slots": 4}, "slots must not outnumber the arms that may be shown, 3; got 4"),
    (
        {"slots": 2, "eligible": ["a"]},
        "slots must not outnumber the arms that may be shown, 1; got 2",
    ),
    ({"slots": []}, "slots must be a list of at least 1 entry"),
    ({"slots": "top"}, "slots must be a whole number or a list or null; got 'top'"),
    ({"slots": 2.5}, "slots must be a whole number or a list or null; got 2.5"),
    ({"slots": True}, "slots must be a whole number or a list or null; got True"),
    ({"slots": [{}]}, "slots[0]: name must be given; got none"),
    ({"slots": ["top"]}, "slots[0] must be an object; got 'top'"),
    (
        {"slots": [{"name": ""}]},
        "slots[0].name must be a string of at least 1 character",
    ),
    (
        {"slots": [{"name": "x" * 257}]},
        "slots[0].name must be a string of at most 256 characters",
    ),
    ({"slots": [{"name": "\0"}]}, "slots[0].name must be a string without NUL"),
    ({"slots": [{"name": 3}]}, "slots[0].name must be a string; got 3"),
    (
        {"slots": [{"name": "top", "size": 3}]},
        "slots[0]: size is not a field. Allowed: name, ",
    ),
    (
        {"slots": [{"name": "top"}, {"name": "top"}]},
        "names of slots must be distinct; got 'top' twice",
    ),
    (
        {"slots": [{"name": "top", "eligible": ["z"]}]},
        "slot 'top': eligible must be among the arms",
    ),
    (
        {"slots": [{"name": "top", "eligible": []}]},
        "slots[0].eligible must be a list of at least 1 entry",
    ),
    (
        {"slots": [{"name": "top", "eligible": ["a"]}], "eligible": ["b"]},
        "slot 'top' must have an eligible arm",
    ),
    (
        {"slots": [{"name": "x"}, {"name": "y", "eligible": ["a"]}]},
        "slot 'y' may be left without an arm",
    ),
    (
        {"slots": [{"name": "top", "features": {"hour": 1}}]},
        "slot 'top': names of features must differ from those of the context",
    ),
    (
        {"slots": [{"name": "top", "features": [1]}]},
        "slot 'top': features must be a dict, like the context",
    ),
    (
        {"slots": [{"name": "top", "features": {"x": 1e300}}]},
        "slots must hold numbers between",
    ),
    ({"slots": [{"name": "top", "features": {"x": {"y": 1}}}]}, "slot 'top': "),
    (
        {"slots": [{"name": "top", "incumbent": "z"}]},
        "slot 'top': incumbent must be among the arms",
    ),
    (
        {"slots": [{"name": "x"}, {"name": "y", "incumbent": "a"}]},
        "slot 'y': incumbent must be an arm that no slot",
    ),
    (
        {"slots": [{"name": "top", "incumbent_odds": {"a": 1}}]},
        "slot 'top': incumbent must be given",
    ),
    ({"incumbent": "a"}, "incumbent and its odds must be given for each of the slots"),
    ({"unit": "ann"}, "unit must be left out, because experiment 'news' is not sticky"),
    (
        {"context": {"slot": 2}},
        "context must not use the name 'slot'",
    ),
    (
        {"context": "home page"},
        "context of slots must be a dict, a row of numbers or None, so that the slot's number can be added; got 'home page'",
    ),
    (
        {"context": [[1.0]]},
        "context of slots must be a dict, a row of numbers or None, so that the slot's number can be added; got [[1.0]]",
    ),
    ({"context": {"x": 1e300}}, "context must hold numbers between"),
    ({"arms": None}, "arms must come with calls of experiment 'news'"),
    ({"arms": ["a", "a"]}, "names of arms must be distinct"),
    (
        {"arms": [f"a{i}" for i in range(400)], "slots": 300},
        "slots times arms must be at most 100,000; got 120,000",
    ),
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: Any) -> Iterator[Here]:
    with here(news(tmp_path_factory.mktemp("slates"))) as one:
        yield one


def refused(served: Here, asked: Any, status: int = 422) -> str:
    """The sentence of a refusal, after which the log is as it was."""
    before = served.experiment().store.head()
    answer = served.ask("POST", "/v1/decide", content=json.dumps(asked).encode())
    assert answer.status_code == status, answer.text
    said = str(answer.json()["error"])
    assert "\n" not in said
    assert len(said) < 600
    assert served.experiment().store.head() == before
    return said


@pytest.mark.parametrize("place", range(len(WRONG)))
def test_what_is_wrong_is_refused_in_one_sentence(served: Here, place: int) -> None:
    given, sentence = WRONG[place]
    assert refused(served, GOOD | given).startswith(sentence)


def test_slots_are_not_for_units_that_keep_their_decisions(tmp_path: Path) -> None:
    with here(news(tmp_path, "sticky = true\n")) as served:
        for unit in ({}, {"unit": "ann"}):
            said = refused(served, GOOD | unit)
            assert (
                said
                == "slots must be left out, because experiment 'news' is sticky; got some"
            )


def test_slots_are_not_for_batches(served: Here) -> None:
    answer = served.post("decide/batch", {"decisions": [GOOD]}, status=422)
    assert answer["error"].startswith("decisions[0]: slots is not a field")


ODD: list[Any] = [
    None,
    0,
    -1,
    2,
    10**30,
    2.0,
    "",
    "a",
    "top",
    [],
    {},
    ["a"],
    {"a": 1},
    [[]],
    [{}],
    "\0",
    "x" * 300,
    True,
]


def any_slot(rng: random.Random) -> Any:
    """A slot with some of its fields, right or wrong."""
    fields = ("name", "features", "eligible", "incumbent", "incumbent_odds", "other")
    right = {
        "name": rng.choice("xyz"),
        "features": {"size": 1},
        "eligible": ["a", "b"],
        "incumbent": None,
    }
    some = rng.sample(fields, rng.randint(0, 3))
    slot = {
        field: right.get(field, rng.choice(ODD))
        if rng.random() < 0.7
        else rng.choice(ODD)
        for field in some
    }
    return slot if rng.random() < 0.3 else {"name": rng.choice("xyz")} | slot


def test_any_slots_are_answered_or_refused_and_what_is_answered_is_whole(
    served: Here,
) -> None:
    rng, answers = random.Random(4), {200: 0, 422: 0}
    for turn in range(400):
        asked = GOOD | {
            "id": f"any {turn}",
            "slots": [any_slot(rng) for _ in range(rng.randint(1, 3))],
        }
        if rng.random() < 0.1:
            asked["slots"] = rng.choice(ODD)
        if rng.random() < 0.1:
            asked[rng.choice(["context", "arms", "eligible", "deferred", "odds"])] = (
                rng.choice(ODD)
            )
        before = served.experiment().store.head()
        answer = served.ask("POST", "/v1/decide", content=json.dumps(asked).encode())
        answers[answer.status_code] = answers.get(answer.status_code, 0) + 1
        written = served.experiment().store.head() - before
        if answer.status_code == 200 and "slots" in answer.json():
            assert (
                written
                == len(served.experiment().store.of_slate(f"any {turn}"))
                == len(answer.json()["slots"])
            )
        elif answer.status_code != 200:
            assert answer.status_code in (400, 422), answer.text
            assert "\n" not in answer.json()["error"]
            assert written == 0
    assert answers[200] > 30
    assert answers[422] > 100
    assert served.post("decide", GOOD)["new"]
