"""Every reader and writer: what goes out comes back, whole and in batches."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import oddsmith as od
from logs.samples import ARMS, assert_same, full_log

LOGGED = Path(od.__file__).parents[3] / "shared" / "data" / "logged"
MIXED: list[Any] = [{"age": i, "city": "Rome", "tags": ["a", None]} for i in range(40)]
CONTEXTS: dict[str, Any] = {
    "rows of numbers": None,
    "tables": np.random.default_rng(1).uniform(size=(40, 2, 3)),
    "float32": np.ones((40, 2), dtype=np.float32),
    "dicts": MIXED,
    "words": [f"user {i}" for i in range(40)],
}


@pytest.mark.parametrize("name", CONTEXTS)
@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl", "dsjson"])
def test_a_log_is_written_and_read(tmp_path: Path, name: str, suffix: str) -> None:
    log = full_log(context=CONTEXTS[name])
    od.write_log(log, tmp_path / f"log.{suffix}")
    again = od.read_log(tmp_path / f"log.{suffix}", arms=ARMS)
    assert_same(again, log, "context")
    assert again.arms == ARMS
    for found, expected in zip(again.context, log.context, strict=True):
        np.testing.assert_equal(found, expected)
    assert [path.name for path in tmp_path.iterdir()] == [f"log.{suffix}"]


AWKWARD = [
    *("NaN", "nan", "NA", "N/A", "#N/A", "null", "NULL", "None", "true", "inf"),
    *("007", "-1", "1e5", "2026-03-01", " ", " before", "after ", "ü", "\ufeffbom"),
    *("a,b", "a;b", "a\tb", 'a"b', "'", '""', "a\nb", "a\r\nb", "a\rb", "a\x00b"),
]


@pytest.mark.parametrize("column", ["decision_id", "fingerprint", "slate"])
@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl", "dsjson"])
def test_ids_are_texts_whatever_they_look_like(
    tmp_path: Path, suffix: str, column: str
) -> None:
    make: Any = od.Log
    many: dict[str, Any] = {
        "arm": [0, 1] * len(AWKWARD),
        "reward": [1, 0] * len(AWKWARD),
        "propensities": [[0.5, 0.5]] * 2 * len(AWKWARD),
        column: AWKWARD + [f"plain {one}" for one in AWKWARD],
    }
    if column == "slate":
        many["slot"] = [1] * 2 * len(AWKWARD)
    alone = {name: values[:1] for name, values in many.items()}
    for columns in (many, alone):
        od.write_log(make(**columns), tmp_path / f"log.{suffix}")
        again = od.read_log(tmp_path / f"log.{suffix}")
        assert list(getattr(again, column)) == columns[column]
        assert again.reward.tolist() == columns["reward"]


def test_na_is_text_in_columns_of_text_and_missing_in_those_of_numbers(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        "arm,reward,propensity,context.country,context.age,decision_id\n"
        "NA,1,0.5,NA,NA,null\nDE,NA,0.5,,31,NA\nDE,0,0.5,DE,,d-3\n"
    )
    log = od.read_log(path, arms=["DE", "NA"])
    assert log.arm.tolist() == [1, 0, 0]
    assert np.isnan(log.reward).tolist() == [False, True, False]
    assert list(log.decision_id) == ["null", "NA", "d-3"]
    assert [row["country"] for row in log.context] == ["NA", None, "DE"]
    ages = [row["age"] for row in log.context]
    np.testing.assert_array_equal(ages, [np.nan, 31, np.nan])
    path.write_text("arm,reward\nNA,1\nNA,0\n")
    assert od.read_log(path, arms=["NA"]).arm.tolist() == [0, 0]
    path.write_text("arm,reward\n0,NA\n0,yes\n")
    with pytest.raises(od.errors.BrokenLog, match="row 1: must be a number; got 'yes'"):
        od.read_log(path)
    path.write_text(
        "decision_id,arm,drawn,reward\nNaN,NA,true,1\nNaN,DE,false,\nnull,NA,true,0\n"
    )
    table = od.logs.read_long(path)
    assert list(table.decision_id) == ["NaN", "null"]
    assert table.offered == [("NA", "DE"), ("NA",)]


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl", "dsjson"])
def test_batches_are_the_log_in_pieces(tmp_path: Path, suffix: str) -> None:
    log, path = full_log(100), tmp_path / f"log.{suffix}"
    od.write_log(log.split(30), path)  # several logs, one file
    parts = list(od.logs.log_batches(path, rows=16, arms=ARMS))
    assert max(len(part) for part in parts) <= 16
    joined = od.Log.concatenated(parts)
    assert_same(joined, log, "context")
    np.testing.assert_array_equal(np.array(joined.context), log.context)


def test_batches_do_not_hold_the_file(tmp_path: Path) -> None:
    """24 MB in 30 row groups: what Arrow holds at any batch is a small part of it."""
    rng, path = np.random.default_rng(0), tmp_path / "log.parquet"
    zeros: Any = np.zeros(1000, dtype=np.int64)
    od.write_log(
        (
            od.Log(arm=zeros, reward=zeros, context=rng.normal(size=(1000, 100)))
            for _ in range(30)
        ),
        path,
    )
    assert path.stat().st_size > 20e6
    before = pa.total_allocated_bytes()
    held = [
        pa.total_allocated_bytes() - before for _ in od.logs.log_batches(path, rows=500)
    ]
    assert len(held) == 60
    assert max(held) < 8e6


def test_a_data_frame_as_context_comes_back_as_rows(tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": np.arange(40), "city": ["Rome", "Oslo"] * 20})
    log = full_log(context=frame)
    od.write_log(log, tmp_path / "log.parquet")
    assert od.read_log(tmp_path / "log.parquet").context == frame.to_dict("records")


TABLE = {
    "shown": ["tech", "sports", "tech", "politics"],
    "click": [1, 0, None, 1],
    "p": [0.5, 0.25, 0.5, 0.25],
    "age": [31, 40, 22, 19],
    "city": ["Rome", "Oslo", "Bonn", None],
}
NAMES = {"arm": "shown", "reward": "click", "propensity": "p"}


def expect_table(log: od.Log) -> None:
    np.testing.assert_array_equal(log.arm, [2, 0, 2, 1])
    np.testing.assert_array_equal(log.reward, [1, 0, np.nan, 1])
    np.testing.assert_array_equal(log.propensity, TABLE["p"])
    assert log.kind == "drawn"


def as_file(path: Path, suffix: str) -> Path:
    target = path / f"log.{suffix}"
    frame = pd.DataFrame(TABLE)
    if suffix == "csv":
        frame.to_csv(target, index=False)
    elif suffix == "parquet":
        frame.to_parquet(target)
    else:
        rows = [
            dict(zip(TABLE, values, strict=True))
            for values in zip(*TABLE.values(), strict=True)
        ]
        target.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    return target


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_their_names_and_our_order_of_arms(tmp_path: Path, suffix: str) -> None:
    path = as_file(tmp_path, suffix)
    expect_table(od.read_log(path, columns=NAMES, arms=ARMS))
    by_name = od.read_log(path, columns=NAMES)
    assert by_name.arms == ("politics", "sports", "tech")
    np.testing.assert_array_equal(by_name.arm, [2, 1, 2, 0])
    mixed = od.read_log(path, columns=NAMES | {"context": ["age", "city"]}, arms=ARMS)
    assert mixed.context[1] == {"age": 40, "city": "Oslo"}
    batches = list(od.logs.LogReader(NAMES, ARMS, rows=3).batches(path))
    assert [len(part) for part in batches] == [3, 1]


class Stream:
    """A table of some other library: all that is known of it is the Arrow stream
    interface."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __arrow_c_stream__(self, schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(schema)


@pytest.mark.parametrize(
    "make",
    [pa.table, pd.DataFrame, lambda t: Stream(pa.table(t))],
    ids=["arrow", "pandas", "any"],
)
def test_tables_in_memory(make: Any) -> None:
    expect_table(od.read_log(make(TABLE), columns=NAMES, arms=ARMS))
    parts = list(od.logs.log_batches(make(TABLE), columns=NAMES, arms=ARMS, rows=3))
    assert [len(part) for part in parts] == [3, 1]


@pytest.mark.parametrize("package", ["polars", "duckdb"])
def test_tables_of_libraries_that_may_be_absent(package: str) -> None:
    library = pytest.importorskip(package, reason=f"{package} is not installed")
    expect_table(
        od.read_log(library.from_arrow(pa.table(TABLE)), columns=NAMES, arms=ARMS)
    )


def test_wide_csv(tmp_path: Path) -> None:
    """Lists are columns side by side; their ends name the arms."""
    path = tmp_path / "wide.csv"
    path.write_text(
        "arm,reward,propensities.no,propensities.yes,advice.a,advice.b,context.x,"
        "context.y,time\n"
        "yes,1,0.25,0.75,0.5,0.25,1,2,2026-03-01T00:00:00Z\n"
        "no,,0.5,0.5,0.125,,3,4.5,2026-03-01 00:00:01Z\n"
    )
    log = od.read_log(path)
    assert log.arms == ("no", "yes")
    assert log.kind == "exact"
    np.testing.assert_array_equal(log.arm, [1, 0])
    np.testing.assert_array_equal(log.reward, [1, np.nan])
    np.testing.assert_array_equal(log.propensities, [[0.25, 0.75], [0.5, 0.5]])
    np.testing.assert_array_equal(log.advice, [[0.5, 0.25], [0.125, np.nan]])
    np.testing.assert_array_equal(log.context, [[1, 2], [3, 4.5]])
    assert log.time[1] == np.datetime64("2026-03-01T00:00:01")


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_columns_of_other_names_are_metrics(tmp_path: Path, suffix: str) -> None:
    table = {"arm": ["a", "b"], "reward": [1, 0], "gross": [3.5, None], "n": [1, 2]}
    path = tmp_path / f"log.{suffix}"
    frame = pd.DataFrame(table)
    if suffix == "csv":
        frame.to_csv(path, index=False)
    elif suffix == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_parquet(path)
    log = od.read_log(path, columns={"metric": ["gross", "n"]})
    assert log.metrics == ("gross", "n")
    np.testing.assert_array_equal(log.metric, [[3.5, 1.0], [np.nan, 2.0]])
    one = od.read_log(path, columns={"metric": "n"})
    assert one.metrics == ("n",)
    np.testing.assert_array_equal(one.metric, [[1.0], [2.0]])
    (tmp_path / "o.jsonl").write_text('{"arm": "a", "reward": 1, "metrics": {"n": 1}}')
    with pytest.raises(od.BadFile, match=r"a key metric\.NAME"):
        od.read_log(tmp_path / "o.jsonl")


def test_true_and_false_are_rewards(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("arm,reward\n0,True\n1,false\n1,\n")
    np.testing.assert_array_equal(
        od.read_log(tmp_path / "log.csv").reward, [1, 0, np.nan]
    )


def test_json_lines_of_an_agent(tmp_path: Path) -> None:
    """What `Decision.to_json` writes, with the reward beside it, is a log; sleepers and
    named arms included."""
    experts = od.GivenExperts(("a", "b"))
    agent = od.Agent(
        od.GeneralizedThompsonSampling(experts, gamma=0.1), seed=1, arms=ARMS
    )
    decisions, rewards, path = [], [1.0, 0.0, 1.0], tmp_path / "log.jsonl"
    for t in range(3):
        f = np.random.default_rng(t).uniform(0.1, 0.9, (2, 3))
        if t == 1:
            f[1] = np.nan
        decisions.append(
            agent.decide(f, eligible=["tech", "sports"] if t == 2 else None)
        )
    lines = [
        json.loads(d.to_json()) | {"reward": r}
        for d, r in zip(decisions, rewards, strict=True)
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    log, expected = (
        od.read_log(path, arms=ARMS),
        od.Log.of(decisions, rewards, arms=ARMS),
    )
    assert_same(log, expected, "context")
    np.testing.assert_array_equal(log.context[0], decisions[0].context)
    # weights and masks come later than the first batch
    parts = list(od.logs.log_batches(path, arms=ARMS, rows=1))
    assert_same(od.Log.concatenated(parts), expected, "context")


def test_open_bandit(tmp_path: Path) -> None:
    """The published layout, with its unnamed index column."""
    path = tmp_path / "men.csv"
    path.write_text(
        ",timestamp,item_id,position,click,propensity_score,user_feature_0,"
        "user-item_affinity_0,user-item_affinity_1\n"
        "0,2019-11-24 00:00:17.004101+00:00,1,3,0,0.25,81ce,0.0,2.0\n"
        "1,2019-11-24 00:00:19.000000+00:00,0,1,1,0.5,0a5b,1.0,0.0\n"
    )
    log = od.read_log(path)
    assert (log.n_arms, log.kind, log.arms) == (2, "drawn", ("0", "1"))
    np.testing.assert_array_equal(log.arm, [1, 0])
    np.testing.assert_array_equal(log.propensity, [0.25, 0.5])
    assert log.context[0]["position"] == 3
    assert log.context[1]["user_feature_0"] == "0a5b"
    assert log.time[0] == np.datetime64("2019-11-24T00:00:17.004101")
    assert_same(od.read_log(path, format="open_bandit"), log)


@pytest.mark.parametrize(
    ("name", "n_arms"),
    [("obd_bts_women", 46), ("obd_random_men", 34), ("charitable_giving", 4)],
)
def test_real_logs(name: str, n_arms: int) -> None:
    path = LOGGED / f"{name}.parquet"
    if not path.exists():
        pytest.skip(f"{path.name} is not in {LOGGED.name}/ beside the repository")
    if name == "charitable_giving":
        log = od.read_log(
            path, columns={"arm": "action", "context": ["freq", "perbush"]}
        )
        assert log.context.shape == (50_083, 2)
    else:
        log = od.read_log(path)
        assert set(log.context[0]) >= {"position", "user_feature_0", "affinity_0"}
    assert (log.n_arms, log.kind) == (n_arms, "drawn")
    assert log.allows == ("learning", "models", "weights")
