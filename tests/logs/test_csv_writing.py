"""Logs as CSV and JSON lines: contexts and names of all kinds come back."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import oddsmith as od
from logs.samples import full_log

ODD: list[Any] = [
    {"age": 31, "city": "Rome"},
    {"city": "Rome", "age": 31},
    {"age": 31},
    {"age": None, "city": "Oslo"},
    {"age": True, "city": "Oslo"},
    {"age": 0.1, "city": "007"},
    {"age": 2**60, "city": "2026-03-01"},
    {"age": 1, "city": "null"},
    {"age": 1, "city": ""},
    {"age": 1, "city": 'two\nlines, and "quotes"'},
    {"age": float("nan"), "city": "Österbro"},
    {"age": 3, "city": "a, b"},
    None,
    [1.0, 2.0],
    "word",
]


def exact(value: Any) -> str:
    """JSON in which 1 and 1.0 are the same number, and True is none."""
    if isinstance(value, dict):
        return json.dumps([[key, exact(one)] for key, one in value.items()])
    if isinstance(value, list):
        return json.dumps([exact(one) for one in value])
    return json.dumps(float(value) if type(value) is int else value)


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_contexts_of_all_kinds_come_back(tmp_path: Path, suffix: str) -> None:
    """In plain columns where they fit the first row's, else as JSON: also in later
    batches, and in any order."""
    for contexts in (
        ODD,
        ODD[::-1],
        [[1.5, 2], [3, 4.5], [1.0], [None, 1.0]],
        [{}, {"a": 1}],
        [{"json": "x"}] * 2,
    ):
        n = len(contexts)
        make: Any = od.Log
        log = make(
            arm=[0] * n, reward=[1] * n, propensities=[[0.5, 0.5]] * n, context=contexts
        )
        od.write_log(log.split(2), tmp_path / f"log.{suffix}")
        again = od.read_log(tmp_path / f"log.{suffix}")
        assert list(map(exact, again.context)) == list(map(exact, contexts))


def test_csv_is_for_spreadsheets(tmp_path: Path) -> None:
    make: Any = od.Log
    log = make(
        arm=[1, 0],
        reward=[1, np.nan],
        propensity=[0.25, 0.5],
        context=[{"age": 31, "city": "Rome"}, {"age": 4.5, "city": None}],
        decision_id=["1", "2"],
        arms=["sports", "tech", "news"],
    )
    od.write_log(log, tmp_path / "log.csv")
    assert (tmp_path / "log.csv").read_text().splitlines() == [
        "arm,reward,propensity,context.age,context.city,context.json,decision_id,"
        "eligible.sports,eligible.tech,eligible.news",
        "tech,1.0,0.25,31,Rome,,1,true,true,true",
        'sports,,0.5,,,"{""age"": 4.5, ""city"": null}",2,true,true,true',
    ]
    again = od.read_log(tmp_path / "log.csv")
    assert (again.arms, again.n_arms, again.kind) == (
        ("sports", "tech", "news"),
        3,
        "drawn",
    )
    assert again.context == log.context
    assert list(again.decision_id) == ["1", "2"]


@pytest.mark.parametrize("names", [("10", "20"), ("1a", "true"), ("x", "7")])
def test_names_of_arms_that_look_like_numbers(tmp_path: Path, names: Any) -> None:
    """CSV then has the arms' numbers, and `arms` names them; JSON lines keep the
    names."""
    make: Any = od.Log
    log = make(arm=[1, 0], reward=[1, 0], propensities=[[0.4, 0.6]] * 2, arms=names)
    for suffix, kept in (("csv", None), ("jsonl", names)):
        od.write_log(log, tmp_path / f"log.{suffix}")
        again = od.read_log(tmp_path / f"log.{suffix}")
        assert again.arms == kept
        assert again.arm.tolist() == [1, 0]
        assert od.read_log(tmp_path / f"log.{suffix}", arms=names).arms == names


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_logs_of_other_columns_or_arms_are_not_written(
    tmp_path: Path, suffix: str
) -> None:
    log, path = full_log(4), tmp_path / f"log.{suffix}"
    other = (
        full_log(4).without("advice")
        if suffix == "csv"
        else od.logs.LogReader(arms=["a", "b", "c"]).read_log(bare(log))
    )
    with pytest.raises(od.InvalidInput, match="logs must have the same"):
        od.write_log([log, other], path)
    with pytest.raises(od.InvalidInput, match="logs must not be empty"):
        od.write_log([], path)
    assert not list(tmp_path.iterdir())


def bare(log: od.Log) -> od.Log:
    """The same log, arms without names."""
    columns: Any = log.columns()
    return od.Log(**columns, metrics=log.metrics)


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_table_as_context_comes_back_as_rows(tmp_path: Path, suffix: str) -> None:
    frame = pd.DataFrame({"age": [31, 4], "city": ["Rome", None]})
    make: Any = od.Log
    log = make(arm=[0, 1], reward=[1, 0], context=frame)
    od.write_log(log, tmp_path / f"log.{suffix}")
    again = od.read_log(tmp_path / f"log.{suffix}")
    assert again.context == [{"age": 31, "city": "Rome"}, {"age": 4, "city": None}]
    assert [row["context"] for row in log] == again.context
