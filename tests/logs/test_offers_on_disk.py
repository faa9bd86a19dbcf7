"""Logs of arms that came with the call, on disk: what goes out comes back, and what
does not fit is named."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oddsmith as od
from logs.samples import assert_same
from logs.test_offers_in_memory import LOG, played

SUFFIXES = ["parquet", "jsonl", "dsjson"]
NAMES = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
    min_size=1,
    max_size=6,
)
VALUES = st.one_of(
    st.floats(),
    st.integers(-(2**60), 2**60),
    st.text(max_size=3),
    st.booleans(),
    st.none(),
)
DICTS = st.dictionaries(st.text(max_size=3), VALUES, min_size=1, max_size=3)
NUMBERS = st.lists(st.floats(width=32), min_size=2, max_size=2).map(
    lambda row: np.array(row, dtype=np.float32)
)


@st.composite
def logs(draw: Any) -> od.Log:
    """Offers of 1 to 5 arms with dicts or numbers of all, of the drawn one or of none,
    and any odds."""
    rows, kinds, whose = (
        draw(st.integers(1, 5)),
        draw(st.sampled_from([DICTS, NUMBERS])),
        draw(st.sampled_from("adn")),
    )
    columns: dict[str, list[Any]] = {
        "arm": [],
        "reward": [],
        "offered": [],
        "propensities": [],
        "features": [],
    }
    for _ in range(rows):
        names = draw(st.lists(NAMES, min_size=1, max_size=5, unique=True))
        weights = np.array(
            draw(st.lists(st.floats(0.01, 1), min_size=len(names), max_size=len(names)))
        )
        arm = draw(st.integers(0, len(names) - 1))
        of = {"a": names, "d": [names[arm]], "n": []}[whose]
        features = {
            name: draw(kinds if name == names[arm] else st.none() | kinds)
            for name in of
        }
        values = (
            arm,
            draw(st.sampled_from([0.0, 0.3, np.nan])),
            names,
            weights / weights.sum(),
            features,
        )
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    fields: Any = columns | {
        "context": draw(st.lists(DICTS, min_size=rows, max_size=rows))
    }
    fields["decision_id"] = [f"d{row}" for row in range(rows)]
    log = od.Log(**fields)
    return log if draw(st.booleans()) else log.without("propensities", "eligible")


def written(log: Any, folder: Path, suffix: str) -> Path:
    od.write_log(log, folder / f"log.{suffix}")
    return folder / f"log.{suffix}"


def expect_same(found: od.Log, log: od.Log) -> None:
    assert_same(found, log, "features", "context")
    assert (found.arms, found.known_features) == (log.arms, log.known_features)
    np.testing.assert_equal(list(found.context), list(log.context))
    ours, theirs = (
        found.features or [None] * len(log),
        log.features or [None] * len(log),
    )
    np.testing.assert_equal(ours, theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert list(one or ()) == list(other or ()), "the order of the names"


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=40, deadline=None)
@given(log=logs())
def test_what_goes_out_comes_back(suffix: str, log: od.Log) -> None:
    if suffix == "dsjson" and log.kind != "exact":
        return
    with TemporaryDirectory() as folder:
        path = written(log, Path(folder), suffix)
        expect_same(od.read_log(path), log)
        expect_same(od.Log.concatenated(list(od.logs.log_batches(path, rows=2))), log)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_agents_log_goes_through_in_pieces(tmp_path: Path, suffix: str) -> None:
    agent, decisions, rewards = played(60)
    log = od.Log.of(decisions, rewards, experts=agent.policy.experts.names)  # type: ignore[attr-defined]
    both = od.Log.concatenated([log.without("features"), log])
    log = od.Log(
        **both.columns(),
        decision_id=[f"d{row}" for row in range(len(both))],
        experts=both.experts,
    )
    path = written(log.split(7), tmp_path, suffix)
    expect_same(od.read_log(path), log)
    again = written(od.logs.log_batches(path, rows=11), tmp_path, f"again.{suffix}")
    expect_same(od.read_log(again), log)


def test_decisions_as_json_lines_are_a_log(tmp_path: Path) -> None:
    _, decisions, rewards = played(9)
    lines = [
        json.dumps(json.loads(d.to_json()) | {"reward": r})
        for d, r in zip(decisions, rewards, strict=True)
    ]
    for rows in (1, 9):
        path = tmp_path / f"{rows}.jsonl"
        path.write_text("\n".join(lines[:rows]))
        expect_same(od.read_log(path), od.Log.of(decisions[:rows], rewards[:rows]))
        expect_same(
            next(od.logs.log_batches(path, rows=1)),
            od.Log.of(decisions[:1], rewards[:1]),
        )


def test_names_in_some_rows_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    rows = [{"arm": 0, "index": 0, "reward": 1}] * 3
    path.write_text(
        "\n".join(json.dumps(row) for row in [*rows, rows[0] | {"arms": ["a", "b"]}])
    )
    with pytest.raises(
        od.errors.BrokenLog,
        match="column arms, row 3: must be in every row together with index",
    ):
        od.read_log(path)
    fixed: Any = {"arm": [0], "reward": [1]}
    with pytest.raises(
        od.InvalidInput, match="logs must have the same arms and experts"
    ):
        od.write_log([od.Log(**LOG), od.Log(**fixed)], path)


def test_lists_of_other_origin() -> None:
    """Arms by name, features in the order of the names: structs, JSON text or numbers,
    in tables of any library."""
    table: dict[str, Any] = {
        "arm": ["a", "d"],
        "reward": [1.0, 0.0],
        "offered": [["a", "b"], ["c", "a", "d"]],
        "propensities": [[0.5, 0.5], [0.25, 0.25, 0.5]],
        "features": [[{"age": 2.0}, {"age": 0.5}], [None, {"age": 2.0}, {"age": 1.0}]],
    }
    expected: Any = LOG | {
        "features": [
            {"a": {"age": 2.0}, "b": {"age": 0.5}},
            {"c": None, "a": {"age": 2.0}, "d": {"age": 1.0}},
        ]
    }
    texts = [
        [None if one is None else json.dumps(one) for one in row]
        for row in table["features"]
    ]
    for features in (
        table["features"],
        texts,
        [json.dumps(row) for row in table["features"]],
    ):
        for make in (pa.table, pd.DataFrame):
            log = od.read_log(make(table | {"features": features}))
            assert_same(log, od.Log(**expected))
    numbers = [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [1.0, 2.0], [0.0, 0.0]]]
    log = od.read_log(pa.table(table | {"features": numbers}))
    assert log.features[1] == {"c": [5.0, 6.0], "a": [1.0, 2.0], "d": [0.0, 0.0]}


def test_features_of_arms_given_at_birth(tmp_path: Path) -> None:
    agent = od.Agent(od.auto(["a", "b", "c"]), seed=1)
    decisions = [
        agent.decide({"x": 1.0}, arms={"a": {"u": 1.0}, "c": {"u": 2.0}})
        for _ in range(3)
    ]
    log = od.Log.of(decisions, [1, 0, 1], arms=agent.arms)
    for suffix in ("parquet", "jsonl"):
        expect_same(od.read_log(written(log, tmp_path, suffix)), log)


def test_only_some_columns_keep_the_names(tmp_path: Path) -> None:
    log = od.Log.of(*played()[1:])
    for source in (log, written(log, tmp_path, "parquet")):
        lean = od.logs.LogReader(only=["propensities"]).read_log(source)
        assert lean.features is None
        np.testing.assert_array_equal(lean.propensities, log.propensities)
        assert lean.offered == log.offered


def test_csv_has_no_lists(tmp_path: Path) -> None:
    with pytest.raises(
        od.InvalidInput,
        match="column offered or features: CSV has no lists for arms that are passed",
    ):
        od.write_log(od.Log(**LOG), tmp_path / "log.csv")
    assert not list(tmp_path.iterdir())


GOOD: dict[str, Any] = {
    "arm": "a",
    "reward": 1,
    "offered": ["a", "b"],
    "propensities": [0.5, 0.5],
}
LINES: dict[str, tuple[dict[str, Any], str]] = {
    "an arm that was not offered": (
        {"arm": "x"},
        "column arm, row 1: must be one of a, b; got 'x'",
    ),
    "a place beyond": (
        {"arm": 2},
        "column arm, row 1: must be below the 2 arms offered; got 2",
    ),
    "no names": (
        {"offered": None},
        "column offered, row 1: must be a list of names; got None",
    ),
    "a name twice": (
        {"offered": ["a", "a"]},
        "column offered, row 1: names of arms must be distinct; got 'a' twice",
    ),
    "too many odds": (
        {"propensities": [0.5, 0.25, 0.25]},
        "column propensities, row 1: must have 2 entries, one for",
    ),
    "no odds": (
        {"propensities": None},
        "column propensities, row 1: must be a list with an entry for each arm",
    ),
    "odds of 0.9": (
        {"propensities": [0.5, 0.4]},
        "column propensities, row 1: must sum to 1; got 0.9",
    ),
    "too few masks": (
        {"eligible": [True]},
        "column eligible, row 1: must have 2 entries, one for each arm offered",
    ),
    "too few features": (
        {"features": [{"age": 1}]},
        "column features, row 1: must be of 2 arms, in their order; got 1",
    ),
    "features of others": (
        {"features": {"a": {"u": 1}, "x": {}}},
        "column features, row 1: must be of arms that were",
    ),
    "features of none drawn": (
        {"features": {"b": {"u": 1}}},
        "column features, row 1: must have those of the drawn arm",
    ),
    "features in words": (
        {"features": {"a": "old"}},
        "column features, row 1: features of arm 'a' must be a dict",
    ),
    "features that are no JSON": (
        {"features": "{old"},
        "column features, row 1: must be JSON, by name or in the order",
    ),
}


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("rows", [1, 100])
def test_broken_lines_are_named(tmp_path: Path, name: str, rows: int) -> None:
    changed, sentence = LINES[name]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in (GOOD, GOOD | changed, GOOD)))
    with pytest.raises(od.InvalidInput, match=sentence) as caught:
        list(od.logs.log_batches(path, rows=rows))
    assert str(path) in str(caught.value)


def test_columns_by_name_do_not_go_with_offers() -> None:
    table = pa.table(
        {"arm": [0], "reward": [1.0], "offered": [["a"]], "propensities.a": [1.0]}
    )
    with pytest.raises(
        od.BadFile,
        match="must have lists in the order of offered; it has one column per arm, such as 'a'",
    ):
        od.read_log(table)
    with pytest.raises(
        od.InvalidInput,
        match="column features, row 0: must be a dict by name if neither",
    ):
        od.read_log(pa.table({"arm": [0], "reward": [1.0], "features": [[{"age": 1}]]}))


def test_one_arm_is_no_choice() -> None:
    """Odds of 1 where there is one arm do not make a log deterministic."""
    one: Any = {
        "offered": [["a"], ["b"]],
        "arm": [0, 0],
        "reward": [1, 0],
        "propensities": [[1.0], [1.0]],
    }
    assert od.Log(**one).kind == "exact"
    two = one | {"offered": [["a"], ["b", "c"]], "propensities": [[1.0], [1.0, 0.0]]}
    assert od.Log(**two).kind == "deterministic"


def test_a_log_of_ours_may_go_through_pandas(tmp_path: Path) -> None:
    """Other programs keep columns, and lose what the file says about them: contexts
    come back all the same."""
    columns: Any = {
        "arm": [0, 1, 1],
        "reward": [1, 0, 1],
        "propensities": [[0.5, 0.5], [0.25, 0.75], [0.1, 0.9]],
        "offered": [("a", "b"), ("b", "c"), ("a", "c")],
        "features": [
            {"a": {"x": 1.5}, "b": {"x": None}},
            {"b": {"x": 2.0}, "c": {"x": 3.0}},
            None,
        ],
        "context": [
            {"age": 52.0, "city": "Ulm"},
            {"age": None, "city": "{"},
            {"age": 0.1, "city": "Bonn"},
        ],
    }
    od.write_log(od.Log(**columns), tmp_path / "log.parquet")
    pd.read_parquet(tmp_path / "log.parquet")[1:].to_parquet(tmp_path / "late.parquet")
    assert_same(od.read_log(tmp_path / "late.parquet"), od.Log(**columns)[1:])
    frame = pd.read_parquet(tmp_path / "log.parquet")
    frame.loc[2, "context"] = "{age: 3}"
    with pytest.raises(
        od.errors.BrokenLog,
        match="column context, row 2: must be JSON, like the rows before",
    ):
        od.read_log(frame)
