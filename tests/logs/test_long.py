"""Long tables, a row for each arm offered, and logs of fixed arms with what is known of
the arms."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import oddsmith as od
from logs.samples import assert_same
from logs.test_offers_in_memory import played
from logs.test_readers import LOGGED
from logs.test_tags import JUNK, refused_or_read
from oddsmith.evaluation import (
    arm_target,
    clipped_ips,
    estimate,
    ips,
    snips,
    uniform_target,
)

TABLE: dict[str, list[Any]] = {
    # rows of one decision need not be neighbours
    "visit": ["007", "d2", "007", "d2", "d2"],
    "item": ["17", "a", "18", "17", "b"],
    "shown": [False, False, True, False, True],
    "click": [None, None, 1.0, None, 0.0],
    "p": [0.25, 0.5, 0.75, 0.25, 0.25],
    "hour": [9, 10, 9, 10, 10],
    "topic": ["tech", "art", "sports", "tech", None],
    "age": [0.5, None, 2.0, 0.5, 1.0],
}
NAMES: dict[str, Any] = {
    "decision_id": "visit",
    "arm": "item",
    "drawn": "shown",
    "reward": "click",
    "propensity": "p",
}
NAMES["context"] = ["hour"]
EXPECTED: Any = {
    "arm": [1, 2],
    "reward": [1, 0],
    "offered": [["17", "18"], ["a", "17", "b"]],
    "propensities": [[0.25, 0.75], [0.5, 0.25, 0.25]],
    "decision_id": ["007", "d2"],
    "context": [{"hour": 9}, {"hour": 10}],
    "features": [
        {"17": {"topic": "tech", "age": 0.5}, "18": {"topic": "sports", "age": 2.0}},
        {
            "a": {"topic": "art", "age": None},
            "17": {"topic": "tech", "age": 0.5},
            "b": {"topic": None, "age": 1.0},
        },
    ],
}


def source_of(kind: str, folder: Path, table: dict[str, list[Any]]) -> Any:
    path = folder / f"long.{kind}"
    if kind in ("arrow", "pandas", "polars"):
        return {"arrow": pa.table, "pandas": pd.DataFrame, "polars": pl.DataFrame}[
            kind
        ](table)
    if kind == "jsonl":
        rows = [
            dict(zip(table, values, strict=True))
            for values in zip(*table.values(), strict=True)
        ]
        path.write_text("\n".join(map(json.dumps, rows)))
    elif kind == "csv":
        pd.DataFrame(table).to_csv(path, index=False)
    else:
        pd.DataFrame(table).to_parquet(path)
    return path


@pytest.mark.parametrize(
    "kind", ["arrow", "pandas", "polars", "csv", "parquet", "jsonl"]
)
def test_long_tables(tmp_path: Path, kind: str) -> None:
    log = od.logs.read_long(source_of(kind, tmp_path, TABLE), columns=NAMES)
    assert_same(log, od.Log(**EXPECTED))
    assert (log.known_features, log.kind) == ("all", "exact")


def test_our_names_and_chosen_features(tmp_path: Path) -> None:
    text = "decision_id,arm,drawn,reward,propensity,context.hour,topic,note\n"
    (tmp_path / "long.csv").write_text(
        text + "1,7,true,1,0.25,9,art,x\n1,8,false,,0.75,9,tech,y\n"
    )
    log = od.logs.read_long(tmp_path / "long.csv", features=["topic"])
    assert (log.arms, log.arm.tolist(), log.context) == (("7", "8"), [0], [{"hour": 9}])
    assert log.features == [{"7": {"topic": "art"}, "8": {"topic": "tech"}}]
    bare = od.logs.read_long(tmp_path / "long.csv", features=[])
    assert (bare.features, bare.known_features) == (None, "none")


@pytest.mark.parametrize("kind", ["arrow", "csv", "parquet", "jsonl"])
def test_metrics_and_units_are_no_features(tmp_path: Path, kind: str) -> None:
    """The amounts are those of the drawn rows."""
    more: dict[str, list[Any]] = {
        "metric.revenue": [None, None, 34.9, None, None],
        "orders": [9, 9, 2, 9, 0],
        "unit": ["u1", "u2", "u1", "u2", "u2"],
    }
    source = source_of(kind, tmp_path, TABLE | more)
    names = NAMES | {"metric": ["metric.revenue", "orders"]}
    log = od.logs.read_long(source, columns=names)
    expected: Any = EXPECTED | {
        "metric": [[34.9, 2.0], [np.nan, 0.0]],
        "metrics": ["revenue", "orders"],
        "unit": ["u1", "u2"],
    }
    assert_same(log, od.Log(**expected))


def test_what_is_known_of_drawn_arms_alone() -> None:
    hidden = {
        name: [
            v if drawn else None
            for v, drawn in zip(TABLE[name], TABLE["shown"], strict=True)
        ]
        for name in ("topic", "age", "p")
    }
    log = od.logs.read_long(pa.table(TABLE | hidden), columns=NAMES)
    assert (log.known_features, log.kind) == ("drawn", "drawn")
    assert log.features[1] == {"b": {"topic": None, "age": 1.0}}
    np.testing.assert_array_equal(log.propensity, [0.75, 0.25])


def test_a_log_as_a_long_table_is_the_log() -> None:
    _, decisions, rewards = played(50)
    log = od.Log(
        **od.Log.of(decisions, rewards).without("advice").columns(),
        decision_id=[f"d{i}" for i in range(50)],
    )
    rows = [
        {
            "decision_id": row["decision_id"],
            "arm": name,
            "drawn": place == row["arm"],
            "reward": row["reward"],
            "propensity": row["propensities"][place],
            "context.hour": row["context"]["hour"],
            "step": row["step"],
            **row["features"][name],
        }
        for row in log
        for place, name in enumerate(row["offered"])
    ]
    assert_same(od.logs.read_long(pd.DataFrame(rows)), log)


def changed(column: str, row: int, value: Any) -> dict[str, list[Any]]:
    return {column: [*TABLE[column][:row], value, *TABLE[column][row + 1 :]]}


WRONG: dict[str, tuple[dict[str, list[Any]], dict[str, Any], str]] = {
    "no decision": (
        changed("visit", 2, None),
        {},
        "column decision_id, row 2: must be given, to group rows by decision; got none",
    ),
    "two drawn": (
        changed("shown", 1, True),
        {},
        "column drawn, row 4: must be true for one arm of decision 'd2'; got 2",
    ),
    "none drawn": (
        changed("shown", 4, False),
        {},
        "column drawn, row 1: .* one arm of decision 'd2'; got none",
    ),
    "drawn, perhaps": (
        changed("shown", 4, None),
        {},
        "column drawn, row 4: must be true or false; got None",
    ),
    "another hour": (
        changed("hour", 3, 11),
        {},
        "column hour, row 3: must be the same in all rows .* got 10 and 11",
    ),
    "odds of some": (
        changed("p", 3, None),
        {},
        "column propensity, row 3: must be given for all arms, or only for the drawn",
    ),
    "odds of 0.75": (
        changed("p", 0, 0.0),
        {},
        "column propensity, row 0: must sum to 1; got 0.75",
    ),
    "an arm twice": (
        changed("item", 3, "b"),
        {},
        "column arm, row 1: names of arms must be distinct; got 'b' twice",
    ),
    "no arm": (
        changed("item", 3, None),
        {},
        "column arm, row 3: must be a name, text or a whole number; got None",
    ),
    "a reward of 3": (
        changed("click", 2, 3.0),
        {},
        r"column reward, row 2: must be in \[0, 1\], or NaN; got 3",
    ),
    "no such column": (
        {},
        {"reward": "bought"},
        r"must have the column 'bought' \(columns=.* it has visit, item",
    ),
    "no such name": (
        {},
        {"action": "item"},
        "columns must map from decision_id, arm, drawn, reward",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_broken_long_tables_are_named(tmp_path: Path, name: str) -> None:
    different, names, sentence = WRONG[name]
    with pytest.raises((od.InvalidInput, od.BadFile), match=sentence) as caught:
        od.logs.read_long(
            source_of("jsonl", tmp_path, TABLE | different), columns=NAMES | names
        )
    assert "\n" not in str(caught.value)


def test_sources_that_are_no_long_tables(tmp_path: Path) -> None:
    (tmp_path / "x.dsjson").write_text("{}")
    (tmp_path / "x.csv").write_text("decision_id,arm\n")
    (tmp_path / "twice.csv").write_text(
        "decision_id,arm,drawn,reward,age,age\n1,a,1,1,3,4\n"
    )
    with pytest.raises(od.BadFile, match="must have one column 'age'; it has several"):
        od.logs.read_long(tmp_path / "twice.csv")
    pq = tmp_path / "x.parquet"
    pq.write_text("nothing")
    with pytest.raises(
        od.InvalidInput,
        match="format of a long table must be one of parquet, csv, jsonl; got 'dsjson'",
    ):
        od.logs.read_long(tmp_path / "x.dsjson")
    with pytest.raises(od.BadFile, match="must have at least one row"):
        od.logs.read_long(tmp_path / "x.csv")
    with pytest.raises(od.BadFile, match="must be a Parquet file"):
        od.logs.read_long(pq)
    with pytest.raises(od.InvalidInput, match="source must be a path"):
        od.logs.read_long(3)


@pytest.mark.parametrize("column", [*TABLE, "nothing"])
def test_junk_is_read_or_refused_in_a_sentence(tmp_path: Path, column: str) -> None:
    for junk in JUNK:
        different = (
            changed(column, 2, junk) if column in TABLE else {column: [junk] * 5}
        )
        refused_or_read(
            lambda source: od.logs.read_long(source, columns=NAMES),
            source_of("jsonl", tmp_path, TABLE | different),
        )


@pytest.mark.parametrize(("name", "n_arms"), [("men", 34), ("women", 46)])
def test_open_bandit_items_are_arms_with_features(
    tmp_path: Path, name: str, n_arms: int
) -> None:
    """Same rows, same arms, same odds; what is known of the items beside them."""
    path, items = (
        LOGGED / f"obd_random_{name}.parquet",
        LOGGED / f"obd_items_{name}.parquet",
    )
    if not path.exists() or not items.exists():
        pytest.skip(f"{path.name} is not in {LOGGED.name}/ beside the repository")
    fixed = od.read_log(path)
    log = fixed.offering(pd.read_parquet(items).set_index("item_id"))
    assert_same(
        log.without("features"),
        od.Log(**fixed.columns(), offered=[fixed.arms] * len(fixed)),
    )
    assert (log.arms, log.n_arms, log.kind, log.known_features) == (
        fixed.arms,
        n_arms,
        "drawn",
        "all",
    )
    assert set(log.features[0]) == set(log.arms or ())
    assert set(log.features[0]["0"]) == {f"item_feature_{i}" for i in range(4)}
    few = log[:300]
    od.write_log(few, tmp_path / "items.parquet")
    again = od.read_log(tmp_path / "items.parquet")
    assert_same(again, few)
    assert len({id(row) for row in again.features}) == 1, (
        "what is the same in all rows is kept once"
    )


@pytest.mark.parametrize("name", ["random_men", "random_women", "bts_men", "bts_women"])
def test_items_as_offers_have_the_value_of_fixed_arms(name: str) -> None:
    """Estimates without a reward model: the same for items in every order of the
    offer."""
    path, items = (
        LOGGED / f"obd_{name}.parquet",
        LOGGED / f"obd_items_{name.split('_')[1]}.parquet",
    )
    if not path.exists() or not items.exists():
        pytest.skip(f"{path.name} is not in {LOGGED.name}/ beside the repository")
    fixed = od.read_log(path)[:3000]
    log, rng = (
        fixed.offering(pd.read_parquet(items).set_index("item_id")),
        np.random.default_rng(0),
    )
    orders = rng.permuted(np.tile(np.arange(log.n_arms), (len(log), 1)), axis=1)
    columns = log.columns() | {"arm": (orders == log.arm[:, None]).argmax(axis=1)}
    columns["offered"] = [
        [names[i] for i in order]
        for names, order in zip(log.offered, orders, strict=True)
    ]
    mixed = od.Log(**columns)
    assert mixed.arms is None
    for estimator in (ips, snips, clipped_ips):
        for target in (uniform_target, lambda one: arm_target(one, "3")):
            expected = estimator(fixed, target(fixed))
            assert np.isfinite(expected.values).all()
            for one in (log, mixed):
                found = estimator(one, target(one))
                np.testing.assert_allclose(
                    found.values, expected.values, rtol=1e-12, atol=1e-12
                )
                np.testing.assert_allclose(
                    estimate(found)[1:4], estimate(expected)[1:4], rtol=0, atol=1e-12
                )


def test_what_is_known_of_fixed_arms() -> None:
    fields: Any = {
        "arm": [0, 1],
        "reward": [1, 0],
        "propensities": [[0.5, 0.5], [0.9, 0.1]],
    }
    log, frame = (
        od.Log(**fields, arms=["a", "b"]),
        pd.DataFrame({"arm": ["b", "a"], "age": [1.0, 2.0]}),
    )
    known = log.offering(frame)
    assert known.features == [{"a": {"age": 2.0}, "b": {"age": 1.0}}] * 2
    assert_same(known.without("features", "offered"), log)
    assert log.offering(["b", "a"]).known_features == "none"
    assert od.Log(**fields).offering(["x", "y"]).arms == ("x", "y")
    wrong: list[tuple[od.Log, Any, str]] = [
        (log, ["a"], "arms must be the log's 2; they lack 'b'"),
        (
            log,
            ["a", "b", "c"],
            "arms must be the log's 2; they have, beside those of the log, 'c'",
        ),
        (od.Log(**fields), ["a"], "arms must be as many as the log has, 2; got 1"),
        (known, ["a", "b"], "log must have the same arms in all rows"),
        (log, "ab", "arms must be a dict of name: features, or a list"),
    ]
    for one, arms, sentence in wrong:
        with pytest.raises(od.InvalidInput, match=sentence):
            one.offering(arms)
