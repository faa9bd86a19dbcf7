"""Schema: raw contexts as numbers; nothing a user can send becomes anything but
numbers, missing, or one sentence."""

from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
import pytest

import oddsmith as od
from oddsmith.contexts.schema import Schema

SCHEMA = Schema(numbers=("age", "income"), categories=("city",), buckets=4)


def test_the_same_row_from_everywhere() -> None:
    row = {"age": 30, "income": 1.5, "city": "Rome"}
    frame = pd.DataFrame([row, {"age": 31, "income": None, "city": "Oslo"}])
    alone = SCHEMA.encode(row)
    assert alone.shape == (SCHEMA.width,) == (6,)
    np.testing.assert_array_equal(alone[:2], [30, 1.5])
    assert alone[2:].sum() == 1
    both = SCHEMA.encode(frame)
    np.testing.assert_array_equal(both[0], alone)
    assert np.isnan(both[1, 1])
    np.testing.assert_array_equal(SCHEMA.encode(frame.iloc[0]), alone)
    np.testing.assert_array_equal(SCHEMA.encode([row, row]), [alone, alone])


def test_places_do_not_depend_on_the_process() -> None:
    """Written down once: a hash that changed would send saved policies astray."""
    places = [
        int(np.argmax(SCHEMA.encode({"city": name})[2:]))
        for name in ("Rome", "Oslo", "Lima", "東京")
    ]
    assert places == [0, 2, 0, 2]


def test_schema_learnt_from_rows() -> None:
    rows = [{"a": 1.0, "b": None, "c": 2}, {"a": None, "b": "x", "c": 3.5, "d": True}]
    found = Schema.of(rows)
    assert found.numbers == ("a", "c", "d")
    assert found.categories == ("b",)
    assert Schema.of(pd.DataFrame(rows)).categories == ("b",)


def test_categories_that_were_seen_have_a_place_each() -> None:
    """However many there are: none of them shares its place, and all that are new share
    one."""
    cities = [f"city {i}" for i in range(50)]
    schema = Schema.of([{"age": 3, "city": city} for city in cities])
    table = schema.encode([{"age": 3, "city": city} for city in cities])
    np.testing.assert_array_equal(table[:, 1:-1].sum(axis=0), np.ones(50))
    np.testing.assert_array_equal(table.sum(axis=1), 4)
    assert schema.width == 52 == len(schema.columns)
    row = schema.encode({"age": 3, "city": "new"})
    assert schema.columns[-1] == "city other"
    assert row[-1] == 1
    assert schema.encode({"age": 3, "city": None}).sum() == 3
    assert schema.columns[1 + int(table[7, 1:].argmax())] == "city=city 7"


def test_the_most_frequent_values_are_kept_whatever_the_order() -> None:
    rows = [{"x": word} for word in ["a", "b", "b", "c", "c", "d"]]
    schema = Schema.of(rows, most=3)
    assert schema.values == (("x", ("a", "b", "c")),)
    assert Schema.of(rows[::-1], most=3) == schema
    assert hash(schema) == hash(Schema(**asdict(schema)))
    assert len(Schema.of([{"x": f"v{i}"} for i in range(100)]).columns) == 65
    assert Schema.of(pd.DataFrame({"shop": pd.Categorical([7, None, 7])})).values == (
        ("shop", ("7",)),
    )


@pytest.mark.filterwarnings("ignore::oddsmith.core.errors.NoExploration")
def test_exact_columns_of_linear_policies() -> None:
    """Five cities, of which hashes send Lima and Bern to one place: every weight is its
    city's own."""
    cities = ["Rome", "Oslo", "Lima", "Bern", "Kyiv"]
    assert (
        len(
            {
                int(Schema(categories=("c",)).encode({"c": city}).argmax())
                for city in cities
            }
        )
        < 5
    )
    schema = Schema.of([{"c": city} for city in cities])
    agent = od.Agent(od.LinUCB(n_arms=2, schema=schema, ridge=0.01), seed=1)
    for city in cities * 20:
        decision = agent.decide({"c": city})
        agent.learn(decision, float((city == "Lima") == (decision.number == 1)))
    assert [agent.best({"c": city}) for city in cities] == [0, 0, 1, 0, 0]


def test_a_hashed_dict_needs_no_columns() -> None:
    free = Schema(slots=16)
    row = free.encode({"age": 3.0, "city": "Rome", "gone": None})
    assert row.shape == (16,)
    assert row.sum() == pytest.approx(4.0)


@pytest.mark.parametrize(
    "value", [None, float("nan"), float("inf"), -float("inf"), 1e308, 10**400]
)
def test_what_is_no_useful_number_is_missing(value: Any) -> None:
    assert np.isnan(SCHEMA.encode({"age": value, "income": 1})[0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: SCHEMA.encode({"age": "old"}),
            "context column 'age' must be a number; got 'old'",
        ),
        (
            lambda: SCHEMA.encode({"age": [1, 2]}),
            "context column 'age' must be a number",
        ),
        (
            lambda: SCHEMA.encode("Rome"),
            "context must be numbers in an array; got 'Rome'",
        ),
        (
            lambda: SCHEMA.encode(7),
            "context must have 6 numbers, as the schema says; got shape",
        ),
        (
            lambda: SCHEMA.encode([]),
            "context must have 6 numbers, as the schema says; got shape",
        ),
        (lambda: SCHEMA.encode(np.zeros(3)), "context must have 6 numbers"),
        (
            lambda: SCHEMA.encode(np.array(["a"] * 6)),
            "context column 0 must be a number; got 'a'",
        ),
        (lambda: Schema(numbers="age"), ("numbers must be names")),  # type: ignore[arg-type]
        (
            lambda: Schema(numbers=("a",), categories=("a",)),
            "a column must be numbers or categories",
        ),
        (lambda: Schema(buckets=0), "buckets must be"),
        (lambda: Schema.of([]), "contexts must be a list of dicts"),
        (lambda: Schema.of([{"a": "x"}], most=0), "most must be a whole number"),
        (
            lambda: Schema(values={"a": ["x"]}),
            "values must be given for categories; 'a' is not a categorical column",
        ),
        (
            lambda: Schema(categories=("a",), values={"a": "xy"}),
            "values must be a list for each category",
        ),
        (
            lambda: Schema(categories=("a",), values=7),  # type: ignore[arg-type]
            "values must be a list for each category",
        ),
        (
            lambda: Schema(categories=("a",), values={"a": []}),
            "values of 'a' must be at least one, all distinct",
        ),
        (
            lambda: Schema(categories=("a",), values={"a": [1, 1.0]}),
            "values of 'a' must be at least one, all distinct",
        ),
        (
            lambda: Schema(categories=("a",), values={"a": ["x", None]}),
            "values of 'a' must be at least one, all distinct and none missing",
        ),
        (
            lambda: Schema(categories=("a",), values={"a": [["x"]]}),
            "column 'a' must be text, a number, True or False",
        ),
    ],
)
def test_one_sentence(make: Any, message: str) -> None:
    with pytest.raises(od.InvalidInput, match=message):
        make()
