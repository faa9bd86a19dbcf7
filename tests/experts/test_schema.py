"""Schema: raw contexts as numbers; nothing a user can send becomes anything but numbers, missing, or one sentence."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import oddsmith as od
from oddsmith.experts.schema import Schema

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
    places = [int(np.argmax(SCHEMA.encode({"city": name})[2:])) for name in ("Rome", "Oslo", "Lima", "東京")]
    assert places == [0, 2, 0, 2]


def test_schema_learnt_from_rows() -> None:
    rows = [{"a": 1.0, "b": None, "c": 2}, {"a": None, "b": "x", "c": 3.5, "d": True}]
    found = Schema.of(rows)
    assert found.numbers == ("a", "c", "d")
    assert found.categories == ("b",)
    assert Schema.of(pd.DataFrame(rows)).categories == ("b",)


def test_a_hashed_dict_needs_no_columns() -> None:
    free = Schema(slots=16)
    row = free.encode({"age": 3.0, "city": "Rome", "gone": None})
    assert row.shape == (16,)
    assert row.sum() == pytest.approx(4.0)


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), -float("inf"), 1e308, 10**400])
def test_what_is_no_useful_number_is_missing(value: Any) -> None:
    assert np.isnan(SCHEMA.encode({"age": value, "income": 1})[0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SCHEMA.encode({"age": "old"}), "context column 'age' must be a number; got 'old'"),
        (lambda: SCHEMA.encode({"age": [1, 2]}), "context column 'age' must be a number"),
        (lambda: SCHEMA.encode("Rome"), "context must be numbers in an array; got 'Rome'"),
        (lambda: SCHEMA.encode(7), "context must have 6 numbers, as the schema says; got shape"),
        (lambda: SCHEMA.encode([]), "context must have 6 numbers, as the schema says; got shape"),
        (lambda: SCHEMA.encode(np.zeros(3)), "context must have 6 numbers"),
        (lambda: SCHEMA.encode(np.array(["a"] * 6)), "context column 0 must be a number; got 'a'"),
        (lambda: Schema(numbers="age"), "numbers must be names"),  # type: ignore[arg-type]
        (lambda: Schema(numbers=("a",), categories=("a",)), "a column must be numbers or categories"),
        (lambda: Schema(buckets=0), "buckets must be"),
        (lambda: Schema.of([]), "contexts must be a list of dicts"),
    ],
)
def test_one_sentence(make: Any, message: str) -> None:
    with pytest.raises(od.InvalidInput, match=message):
        make()
