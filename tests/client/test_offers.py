"""Arms in every shape that an agent takes, as both clients send them, and what the
service says of wrong ones."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

import oddsmith as od
from oddsmith.client.calls import Calls
from oddsmith.client.tries import Patience

NAN = float("nan")
SENT = {"a/17": {"topic": "sports", "age": 2.0}, "a/18": {"topic": None, "age": None}}


def frame(**more: Any) -> pd.DataFrame:
    return pd.DataFrame({"topic": ["sports", None], "age": [2.0, NAN]}, **more)


def dated() -> pd.DataFrame:
    return pd.DataFrame(
        {"born": [None, pd.Timestamp("2026-01-01")]}, index=["a/17", "a/18"]
    )


def polars_frame() -> Any:
    polars = pytest.importorskip("polars")
    return polars.DataFrame(
        {"arm": ["a/17", "a/18"], "topic": ["sports", None], "age": [2.0, NAN]}
    )


SHAPES = {
    "dicts": lambda: {
        "a/17": {"topic": "sports", "age": 2.0},
        "a/18": {"topic": None, "age": NAN},
    },
    "NA and NaT": lambda: {
        "a/17": {"topic": "sports", "age": 2.0},
        "a/18": {"topic": pd.NaT, "age": pd.NA},
    },
    "numbers of numpy": lambda: {
        "a/17": {"topic": np.str_("sports"), "age": np.float32(2)},
        "a/18": {"topic": None, "age": np.float32(NAN)},
    },
    "rows of a frame": lambda: dict(frame(index=["a/17", "a/18"]).iterrows()),
    "a frame with an index": lambda: frame(index=["a/17", "a/18"]),
    "a frame with a column": lambda: frame().assign(arm=["a/17", "a/18"]),
    "nullable columns": lambda: frame(index=["a/17", "a/18"]).convert_dtypes(),
    "a frame of polars": polars_frame,
}


def body(steps: Any) -> dict[str, Any]:
    """What is sent in the first try of a call."""
    sent: dict[str, Any] = json.loads(next(steps).request.body)
    return sent


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_sent_as_plain_json(shape: str) -> None:
    arms, calls = SHAPES[shape](), Calls(None, Patience(5, 0))
    assert body(calls.decide({"hour": 9}, arms=arms))["arms"] == SENT
    batch = body(
        calls.decide_batch(
            [{"context": {"hour": 9}, "arms": arms}, {"context": None}], arms=arms
        )
    )
    assert batch["arms"] == batch["decisions"][0]["arms"] == SENT
    # what a process reads of the same
    offer = od.Agent(od.auto(), seed=7).decide({"hour": 9}, arms=arms)
    assert list(offer.arms or ()) == list(SENT)


def test_names_numbers_and_contexts_are_sent_as_plain_json() -> None:
    calls = Calls(None, Patience(5, 0))
    named = body(calls.decide({"hour": NAN, "city": pd.NA}, arms=("a", np.int64(7))))
    assert (named["arms"], named["context"]) == (
        ["a", "7"],
        {"hour": None, "city": None},
    )
    rows = body(
        calls.decide(
            np.array([1.0, NAN]), arms={"a": np.array([1, 2]), "b": None}, odds=False
        )
    )
    assert (rows["arms"], rows["context"], rows["odds"]) == (
        {"a": [1, 2], "b": None},
        [1.0, None],
        False,
    )
    names = body(calls.decide(None, arms=pd.DataFrame(index=["x", "y"])))
    assert (names["arms"], names["context"]) == (["x", "y"], None)


def test_rows_of_numbers_alone_may_be_named_by_them() -> None:
    calls = Calls(None, Patience(5, 0))
    arms = pd.DataFrame({"price": [2.0, 3.0]})
    assert body(calls.decide(None, arms=arms))["arms"] == {
        "0": {"price": 2.0},
        "1": {"price": 3.0},
    }
    named = frame().rename_axis("number")  # who names the index means it
    assert list(body(calls.decide(None, arms=named))["arms"]) == ["0", "1"]


def endless() -> dict[str, Any]:
    holds: dict[str, Any] = {}
    holds["itself"] = holds
    return holds


@pytest.mark.parametrize(
    ("context", "arms", "match"),
    [
        ({"hour": float("inf")}, ["a"], "JSON with finite numbers"),
        ({"hour": 9}, {"a": {"age": float("inf")}}, "JSON with finite numbers"),
        (
            {"hour": 9},
            {"a": None, "b": {"born": pd.Timestamp("2026-01-01")}},
            "arm 'b': 'born' must be text, .* got a Timestamp: ",
        ),
        (
            {"hour": 9},
            dated(),
            (
                "features of arm 'a/18': 'born' must be text, .* got a Timestamp: convert "
            ),
        ),
        (
            {"at": pd.Timedelta("1h")},
            ["a"],
            "^'at' must be text, a number, .* got a Timedelta: ",
        ),
        (
            {"hour": 9},
            frame(),
            (
                r"named by their column 'arm' or their index; got 0, 1, 2, …: "
                r"for example arms.set_index\('topic'\)"
            ),
        ),
        (
            {"hour": 9},
            frame().assign(sku=["x", "y"], topic="art"),
            r"got 0, 1, 2, …: for example arms.set_index\('sku'\)",
        ),
        (
            {"hour": 9},
            frame().assign(topic="art"),
            "got 0, 1, 2, …: give them an index, or a column 'arm', of names",
        ),
        (
            frame(),
            ["a"],
            (
                "context must be one dict, row or array; got a DataFrame: give one of "
                "its rows"
            ),
        ),
        (
            {"hour": 9},
            {"a": frame()},
            "features of arm 'a' must be a dict, numbers or None",
        ),
        (
            {"hour": 9},
            frame(index=["a", "a"]),
            "names of arms must be distinct; got 'a' twice",
        ),
        ({"hour": 9}, [], "arms must be at least one"),
        (
            {"hour": 9},
            "a/17",
            "arms must be a dict of name: features, or a list of names",
        ),
        (endless(), ["a"], "context must not contain itself"),
    ],
)
def test_what_cannot_be_sent_is_refused_in_a_sentence(
    context: Any, arms: Any, match: str
) -> None:
    with pytest.raises(od.InvalidInput, match=match):
        Calls(None, Patience(5, 0)).decide(context, arms=arms)


def test_a_frame_is_decided_learnt_and_kept(client: Any) -> None:
    site = client("site")
    decided = site.decide({"hour": 9}, arms=frame(index=["a/17", "a/18"]))
    assert site.reward(decided.id, 1).new
    assert list(site.decision(decided.id).odds) == list(SENT)
    good, other, bad = site.decide_batch(
        [
            {"context": {"hour": 9}},
            {"context": {"hour": NAN}, "arms": ["x"]},
            {"context": {}, "eligible": ["x"]},
        ],
        arms=frame(index=["a/17", "a/18"]),
    )
    assert (list(good.odds), other.arm) == (list(SENT), "x")
    assert isinstance(bad, od.InvalidInput)
    assert "eligible must be among the arms ['a/17', 'a/18']; got 'x'" in str(bad)


def test_odds_of_many_arms_come_on_request(client: Any) -> None:
    site, many = client("site"), [f"a/{i}" for i in range(101)]
    first = site.decide({"hour": 9}, arms=many)
    assert first.odds is None
    again = site.decide({"hour": 9}, arms=many, id=first.id, odds=True)
    assert (again.arm, again.new, len(again.odds)) == (first.arm, False, 101)
    assert site.decide({"hour": 9}, arms=["a/1"], odds=False).odds is None


def test_the_client_raises_what_the_service_said(client: Any) -> None:
    site, news = client("site"), client("news")
    with pytest.raises(
        od.InvalidInput,
        match="arms must come with calls of experiment 'site'; got none: send",
    ):
        site.decide({"hour": 9})
    with pytest.raises(od.InvalidInput, match="eligible must be among the arms"):
        site.decide({"hour": 9}, arms=["a", "b"], eligible=["c"])
    decided = site.decide({"hour": 9}, arms=["a", "b"])
    with pytest.raises(
        od.Conflict,
        match=f"id '{decided.id}' was answered with arm '{decided.arm}', which is not",
    ):
        site.decide({"hour": 9}, arms=["c"], id=decided.id)
    with pytest.raises(od.InvalidInput, match="chess"):
        news.decide([0.1, 0.2], arms=["tech", "chess"])
    with pytest.raises(
        od.InvalidInput,
        match="at most 100,000 arms in all its entries; got 100,800 in 112 decisions",
    ):
        site.decide_batch(
            [{"context": {}} for _ in range(112)], arms=[str(i) for i in range(900)]
        )
