"""Contexts as people bring them: forms, missing values, spelling; and what an agent
says where it is misused."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import oddsmith as od
from oddsmith.contexts.numbers import numbers
from oddsmith.contexts.values import check_columns
from oddsmith.core.contexts import (
    NamedRow,
    has_names,
    is_batch,
    join_batches,
    length,
    one,
    rows,
    take_rows,
)
from oddsmith.core.exact_json import decode, encode
from oddsmith.core.names import resembling

TABLE = pd.DataFrame({"age": [3.0, None, 5.5], "city": ["Rome", "Oslo", None]})
RECORDS = [
    {"age": 3.0, "city": "Rome"},
    {"age": None, "city": "Oslo"},
    {"age": 5.5, "city": None},
]
TABLES = [
    TABLE,
    TABLE.convert_dtypes(),
    pl.from_pandas(TABLE),
    pa.Table.from_pandas(TABLE),
    TABLE.to_records(index=False),
]


@pytest.mark.parametrize(
    "table", TABLES, ids=lambda t: type(t).__module__.split(".")[0]
)
def test_all_tables_have_the_same_rows(table: Any) -> None:
    assert is_batch(table)
    assert has_names(table)
    assert length(table) == 3
    assert rows(table) == RECORDS
    assert all(isinstance(row, NamedRow) for row in rows(table))
    for places in (slice(1, 3), np.array([False, True, True]), np.array([1, 2])):
        assert rows(take_rows(table, places)) == RECORDS[1:]
    assert join_batches([take_rows(table, slice(0, 1)), RECORDS[1:]]) == RECORDS


def test_one_row_of_each() -> None:
    assert one(TABLE.iloc[1]) == one(TABLES[4][1]) == RECORDS[1]
    assert one({"a": pd.NA, "b": pd.NaT, "c": 1}) == {"a": None, "b": None, "c": 1}
    assert not is_batch(TABLE.iloc[1])
    # numbered: an array
    np.testing.assert_array_equal(one(pd.Series([1.0, 2.0])), [1, 2])
    assert one("home") == "home"


def test_times_of_numpy_become_times() -> None:
    (row,) = rows(
        np.array(
            [(np.datetime64("2026-01-02T03:04:05", "ns"),)], dtype=[("when", "M8[ns]")]
        )
    )
    assert row == {"when": datetime(2026, 1, 2, 3, 4, 5)}


@pytest.mark.parametrize(
    ("context", "found"),
    [
        ([1, None, True], [1, np.nan, 1]),
        (np.array([1.0, pd.NA], dtype=object), [1, np.nan]),
        (
            pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [True, False]}),
            [[1, 1], [np.nan, 0]],
        ),
        (pl.DataFrame({"a": [1, None]}), [[1], [np.nan]]),
        (pa.table({"a": [1, None]}), [[1], [np.nan]]),
        (pd.Series({"a": 1, "b": None}), [1, np.nan]),
        ([pd.Series({"a": 1}), pd.Series({"a": 2})], [[1], [2]]),
        ([pd.DataFrame({"a": [1, 2]})] * 2, [[[1], [2]]] * 2),
    ],
)
def test_numbers(context: Any, found: Any) -> None:
    np.testing.assert_array_equal(numbers(context), np.array(found, dtype=np.float64))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: numbers([[1, 2], [3]]),
            "context must be rows of the same length; got",
        ),
        (
            lambda: numbers(TABLE),
            (
                "context column 'city' must be a number; got 'Rome': make it a "
                "category of a Schema"
            ),
        ),
        (
            lambda: numbers([RECORDS[0]]),
            "context must be numbers in an array; got a dict: give a Schema",
        ),
        (
            lambda: numbers([pd.Series({"a": 1}), pd.Series({"a": 1, "b": 2})]),
            "the same number of values each; got 1 and 2",
        ),
        (
            lambda: rows(pd.DataFrame([[1, 2]], columns=["a", "a"])),
            "distinct names; got 'a' twice: rename one",
        ),
        (
            lambda: length(iter([1])),
            r"contexts must be rows: .*\(decide takes one context\)",
        ),
        (
            lambda: od.Schema(("age",)).encode({"age": np.timedelta64(3, "ns")}),
            "column 'age'.*got the time",
        ),
        (
            lambda: od.Schema(categories=("city",)).encode({"city": ["Rome"]}),
            "column 'city' must be text.*got a list",
        ),
    ],
)
def test_one_sentence(make: Any, message: str) -> None:
    with pytest.raises(od.InvalidInput, match=message):
        make()


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("citty", "city", True),
        ("ctiy", "city", True),
        ("CITY", "city", True),
        ("user_age", "userAge", True),
        ("temprature", "temperature", True),
        ("day", "pay", False),
        ("x1", "x2", False),
        ("id", "ip", False),
        ("device_id", "device", False),
        ("price_old", "price", False),
    ],
)
def test_a_slip_is_told_from_another_column(name: str, known: str, meant: bool) -> None:
    assert (resembling(name, [known]) == known) is meant
    if meant:
        with pytest.raises(
            od.InvalidInput,
            match=f"has no column '{known}', but '{name}'; did you mean {known}",
        ):
            check_columns((known,), (name,))
        check_columns((known,), (name, known))  # both are there: nothing was meant
    else:
        check_columns((known,), (name,))


def test_whole_numbers_with_a_gap_are_the_same_categories() -> None:
    schema = od.Schema(categories=("shop",), buckets=64)
    table = pd.DataFrame({"shop": [7, None, 12]})  # which makes them floats
    np.testing.assert_array_equal(
        schema.encode(table), schema.encode([{"shop": 7}, {"shop": None}, {"shop": 12}])
    )


def test_decisions_of_tables_come_back_from_json_as_rows() -> None:
    decision = od.Decision(
        np.arange(3), TABLE, None, np.zeros(3, dtype=np.int64), np.full((3, 2), 0.5)
    )
    again = od.Decision.from_json(decision.to_json())
    assert again.context == RECORDS
    assert again == decision
    assert [row.context for row in again.rows()] == [
        row.context for row in decision.rows()
    ]


@pytest.mark.parametrize(
    "value",
    [
        datetime(2026, 1, 2, 3, 4, 5, 6),
        datetime(2026, 1, 2, tzinfo=UTC),
        date(2026, 1, 2),
        time(3, 4, 5),
        timedelta(days=-1, microseconds=7),
    ],
    ids=repr,
)
def test_times_go_through_json(value: Any) -> None:
    assert decode(encode({"when": value})) == {"when": value}
    if isinstance(value, datetime):
        stamp = pd.Timestamp(value) + pd.Timedelta(8, "ns")
        assert decode(encode(stamp)) == value  # Python knows no nanoseconds
        assert decode(encode(pd.DataFrame({"when": [value, None]}))) == [
            {"when": value},
            {"when": None},
        ]


def test_times_of_numpy_and_pandas_go_through_json() -> None:
    assert decode(encode(np.datetime64("2026-01-02", "ns"))) == datetime(2026, 1, 2)
    assert decode(encode(np.datetime64("2026-01-02", "D"))) == datetime(2026, 1, 2)
    assert (
        decode(encode(np.timedelta64(1_000, "ns")))
        == decode(encode(pd.Timedelta(1, "us")))
        == timedelta(microseconds=1)
    )
    assert (
        encode([pd.NaT, pd.NA, np.datetime64("NaT"), np.timedelta64("NaT")])
        == [None] * 4
    )


def test_an_agent_needs_a_seed() -> None:
    policy = od.auto(["a", "b"])
    with pytest.raises(
        od.InvalidInput,
        match=r"seed must be given, because every draw follows from it",
    ):
        od.Agent(policy)
