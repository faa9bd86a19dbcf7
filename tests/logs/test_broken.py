"""Broken logs: each gets one sentence that names column, row and rule; what cannot be
written leaves no file."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import oddsmith as od
from logs.samples import full_log
from oddsmith.logs.jsonl import objects

CSV = "arm,reward,propensity\n0,1,0.5\n1,0,0.5\n"
EVENT: dict[str, Any] = {
    "_label_cost": -1,
    "_label_probability": 0.75,
    "_label_Action": 2,
    "a": [2, 1],
    "p": [0.75, 0.25],
    "c": {"_multi": [{}, {}]},
}


def dsjson(changed: dict[str, Any]) -> str:
    return json.dumps(EVENT) + "\n" + json.dumps(EVENT | changed)


def lists(*rows: Any) -> str:
    return "\n".join(
        json.dumps({"arm": 0, "reward": 1, "propensities": row}) for row in rows
    )


# file name, content, sentence
TEXTS: dict[str, tuple[str, str, str]] = {
    "a reward of 3": (
        "log.csv",
        CSV + "1,3,0.5\n",
        r"column reward, row 2: must be in \[0, 1\], or NaN; got 3",
    ),
    "a reward in words": (
        "log.csv",
        CSV + "1,yes,0.5\n",
        "column reward, row 2: must be a number; got 'yes'",
    ),
    "a yes": (
        "log.csv",
        CSV + "1,Yes,0.5\n",
        "row 2: must be a number; got 'Yes': write 1 for yes and 0 for no",
    ),
    "a comma in a number": (
        "log.csv",
        CSV + '1,"0,5",0.5\n',
        "row 2: must be a number; got '0,5': write it with a decimal point",
    ),
    "odds in percent": (
        "log.csv",
        CSV + "1,0,50\n",
        r"got 50.0: write odds as shares, 50 % as 0.5",
    ),
    "empty odds": (
        "log.csv",
        CSV + "1,0,\n",
        r"got nan: .* leave out rows whose odds are not known, or the whole",
    ),
    "euros": (
        "log.csv",
        CSV + "1,20,0.5\n",
        r"got 20.0: say what the lowest and the highest are, commands by --reward",
    ),
    "a propensity of 0": (
        "log.csv",
        CSV + "1,0,0\n",
        r"column propensity, row 2: must be in \[1e-12, 1\]; got 0.0",
    ),
    "a percentage": (
        "log.csv",
        CSV + "1,0,50\n",
        r"column propensity, row 2: must be in \[1e-12, 1\]; got 50.0",
    ),
    "a missing propensity": (
        "log.csv",
        CSV + "1,0,\n",
        r"column propensity, row 2: must be in \[1e-12, 1\]; got nan",
    ),
    "a missing arm": (
        "log.csv",
        CSV + ",0,0.5\n",
        "column arm, row 2: must be a whole number; got nan",
    ),
    "a negative arm": (
        "log.csv",
        CSV + "-1,0,0.5\n",
        "column arm, row 2: must be 0 or more; got -1",
    ),
    "no reward column": (
        "log.csv",
        "arm,click\n0,1\n",
        r"must have the column 'reward' \(columns=.* it has arm, click",
    ),
    "a column twice": (
        "log.csv",
        "arm,reward,reward\n0,1,1\n",
        "must have one column 'reward'; it has 2",
    ),
    "a short row": ("log.csv", CSV + "1,0\n", "must be CSV.*Expected 3 columns, got 2"),
    "an empty file": ("log.csv", "", "must be CSV with a header"),
    "a header alone": (
        "log.csv",
        "arm,reward\n",
        "must have at least one row; got none",
    ),
    "no JSON": (
        "log.jsonl",
        '{"arm": 0, "reward": 1}\nnonsense',
        r"row 1: must be a JSON object",
    ),
    "a list": ("log.jsonl", "[1, 2]", r"row 0: must be a JSON object; it is a list"),
    "an arm and a half": (
        "log.jsonl",
        '{"arm": 1.5, "reward": 1}',
        "column arm, row 0: must be a whole number; got 1.5",
    ),
    "a number in quotes": (
        "log.jsonl",
        '{"arm": 0, "reward": "1"}',
        "column reward, row 0: must be a number; got '1'",
    ),
    "odds that do not sum": (
        "log.jsonl",
        lists([0.5, 0.5], [0.5, 0.4]),
        "column propensities, row 1: must sum to 1; got 0.9",
    ),
    "ragged odds": (
        "log.jsonl",
        lists([0.5, 0.5], [1.0]),
        "column propensities, row 1: must have 2 entries like row 0",
    ),
    "odds in words": (
        "log.jsonl",
        lists([0.5, "half"]),
        "column propensities, row 0: must be a list, each entry a number",
    ),
    "odds without a list": (
        "log.jsonl",
        lists([1.0], 0.5),
        "column propensities, row 1: must be a list",
    ),
    "odds 0 of the drawn": (
        "log.jsonl",
        lists([0.0, 1.0]),
        "column propensities, row 0: must be at least 1e-12 for the arm",
    ),
    "slots": (
        "log.dsjson",
        dsjson({"c": {"_slots": [], "_multi": [{}, {}]}}),
        "column c, row 1: must have a list of slots",
    ),
    "dropped events": (
        "log.dsjson",
        dsjson({"pdrop": 0.5}),
        "column pdrop, row 1: must be 0",
    ),
    "a cost of 1": (
        "log.dsjson",
        dsjson({"_label_cost": 1}),
        r"column reward, row 1: must be in \[0, 1\], or NaN; got -1",
    ),
    "a cost in words": (
        "log.dsjson",
        dsjson({"_label_cost": "low"}),
        "column _label_cost, row 1: must be a number",
    ),
    "action 0": (
        "log.dsjson",
        dsjson({"a": [0, 1]}),
        "column a, row 1: must be numbers of actions from 1 to 2",
    ),
    "too few odds": (
        "log.dsjson",
        dsjson({"p": [1.0]}),
        "column p, row 1: must have 2 propensities like a; got 1",
    ),
    "odds of 1.1": (
        "log.dsjson",
        dsjson({"p": [0.75, 0.35]}),
        "column p, row 1: must sum to 1; got 1.1",
    ),
    "another label": (
        "log.dsjson",
        dsjson({"_label_probability": 0.5}),
        "column _label_probability, row 1: must be the",
    ),
    "no event": (
        "log.dsjson",
        json.dumps({"RewardValue": 1}),
        "column c, row 0: must be given, with a or _label_Action",
    ),
    "a bad time": (
        "log.dsjson",
        dsjson({"Timestamp": "noon"}),
        "column time, row 0: must be a time",
    ),
    "an id twice": (
        "log.dsjson",
        dsjson({"EventId": "x"}) + "\n" + dsjson({"EventId": "x"}),
        "column decision_id, row 0",
    ),
    "no suffix": ("log", CSV, "must end in one of .parquet"),
    "no Parquet": ("log.parquet", CSV, "must be a Parquet file"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts(tmp_path: Path, name: str) -> None:
    file, content, sentence = TEXTS[name]
    path = tmp_path / file
    path.write_text(content)
    with pytest.raises((od.BadFile, od.InvalidInput), match=sentence) as caught:
        od.read_log(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


TABLES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a null list": (
        {"advice": pa.array([[0.5], None])},
        {},
        "column advice, row 1: must be a list; got null",
    ),
    "ragged lists": (
        {"advice": [[0.5, 0.5], [0.5]]},
        {},
        "column advice, row 1: must have 2 entries like row 0; got 1",
    ),
    "infinite advice": (
        {"advice": [[0.5], [np.inf]]},
        {},
        "column advice, row 1: must be finite, or NaN",
    ),
    "positive weights": (
        {"log_weights": [[0.0], [0.5]]},
        {},
        "column log_weights, row 1: must be at most 0",
    ),
    "a control that is no distribution": (
        {"control": [[0.5, 0.5], [0.5, 0.6]]},
        {},
        "column control, row 1: must be odds that sum to 1; got 1.1",
    ),
    "a share above 1": (
        {"holdout": [0.1, 1.1]},
        {},
        "column holdout, row 1: must be in",
    ),
    "a strange group": (
        {"group": ["policy", "test"], "holdout": [0.5, 0.5]},
        {},
        'column group, row 1: must be "policy", "control"',
    ),
    "groups without their share": (
        {"group": ["policy", "control"]},
        {},
        "column holdout, the share of the control group, must be given",
    ),
    "an infinite amount": (
        {"metric.revenue": [1.0, np.inf]},
        {},
        "column metric, row 1: must be finite",
    ),
    "other experts": (
        {"advice": [[0.5]] * 2, "bonus": [[1.0, 2.0]] * 2},
        {},
        "column bonus: must have 1 entries per row",
    ),
    "a strange arm": (
        {"arm": ["a", "c"]},
        {"arms": ["a", "b"]},
        "column arm, row 1: must be one of a, b; got 'c'",
    ),
    "too few arms": (
        {},
        {"arms": ["only"]},
        "column arm, row 1: must be below the 1 arms of arms; got 1",
    ),
    "a column of ours": (
        {},
        {"columns": {"action": "arm"}},
        "columns must map from arm, reward",
    ),
    "a column of theirs": (
        {},
        {"columns": {"reward": "click"}},
        "must have the column 'click' for reward; it has arm",
    ),
    "a null eligible": (
        {"eligible": [[True, None], [True, True]]},
        {},
        "column eligible, row 0: must be",
    ),
    "a step below 0": (
        {"step": [1, -1]},
        {},
        "column step, row 1: must be 0 or more; got -1",
    ),
    "no text": (
        {"fingerprint": ["x", None]},
        {},
        "column fingerprint, row 1: must be text; got None",
    ),
    "no format": ({}, {"format": "excel"}, "format must be one of parquet, csv"),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables(name: str) -> None:
    changed, options, sentence = TABLES[name]
    with pytest.raises((od.BadFile, od.InvalidInput), match=sentence):
        od.read_log(
            pa.table({"arm": [0, 1], "reward": [1.0, 0.0]} | changed), **options
        )


def test_the_row_is_that_of_the_whole_file(tmp_path: Path) -> None:
    reward = np.zeros(100_000)
    reward[77_777] = 7
    pq.write_table(
        pa.table({"arm": np.zeros(100_000, int), "reward": reward}),
        tmp_path / "x.parquet",
        row_group_size=9000,
    )
    (tmp_path / "x.csv").write_text(
        "arm,reward\n" + "".join(f"0,{r:g}\n" for r in reward)
    )
    with (tmp_path / "x.jsonl").open("w") as file:
        file.writelines(f'{{"arm": 0, "reward": {r:g}}}\n' for r in reward)
    for suffix in ("parquet", "csv", "jsonl"):
        with pytest.raises(
            od.errors.BrokenLog, match="column reward, row 77777: "
        ) as caught:
            list(od.logs.log_batches(tmp_path / f"x.{suffix}", rows=1000))
        assert (caught.value.column, caught.value.row) == ("reward", 77_777)


def test_a_damaged_page_is_noticed(tmp_path: Path) -> None:
    log = full_log(3000, context=np.random.default_rng(0).normal(size=(3000, 20)))
    od.write_log(log, tmp_path / "log.parquet")
    content = bytearray((tmp_path / "log.parquet").read_bytes())
    middle = len(content) // 2
    content[middle : middle + 100] = bytes(100)
    (tmp_path / "log.parquet").write_bytes(content)
    with pytest.raises(od.BadFile, match="must be a complete Parquet file"):
        od.read_log(tmp_path / "log.parquet")


def failing() -> Iterator[od.Log]:
    yield full_log()
    raise RuntimeError("the disk of the reader is gone")


WRITES: dict[str, tuple[Callable[[Path], None], type[Exception]]] = {
    "a reader that fails": (
        lambda p: od.write_log(failing(), p / "log.parquet"),
        RuntimeError,
    ),
    "a reader that fails, dsjson": (
        lambda p: od.write_log(failing(), p / "log.dsjson"),
        RuntimeError,
    ),
    "other columns": (
        lambda p: od.write_log(
            [full_log(), full_log().without("bonus")], p / "log.parquet"
        ),
        od.InvalidInput,
    ),
    "no odds": (
        lambda p: od.write_log(full_log().without("propensities"), p / "log.dsjson"),
        od.InvalidInput,
    ),
    "nothing": (lambda p: od.write_log([], p / "log.parquet"), od.InvalidInput),
    "nothing, dsjson": (lambda p: od.write_log([], p / "log.dsjson"), od.InvalidInput),
    "a context that is no data": (
        lambda p: od.write_log(full_log(context=[object()] * 40), p / "log.parquet"),
        od.InvalidInput,
    ),
    "no such folder": (
        lambda p: od.write_log(full_log(), p / "no" / "log.parquet"),
        od.BadFile,
    ),
    "no such format": (
        lambda p: od.write_log(full_log(), p / "log.xlsx"),
        od.InvalidInput,
    ),
}


@pytest.mark.parametrize("name", WRITES)
def test_no_half_written_file(tmp_path: Path, name: str) -> None:
    write, error = WRITES[name]
    before = {}
    for suffix in ("parquet", "dsjson"):
        (tmp_path / f"log.{suffix}").write_text("what was there before")
        before[tmp_path / f"log.{suffix}"] = "what was there before"
    with pytest.raises(error):
        write(tmp_path)
    assert {path: path.read_text() for path in tmp_path.iterdir()} == before


def test_what_is_no_source_is_refused(tmp_path: Path) -> None:
    for wrong, message in (
        (7, "must be a file, a folder, a table, a Log"),
        ([7], "a path, a Log, or a table"),
        (tmp_path, r"must have log files in it \(.parquet, .*; it has none"),
        ([], "must have at least one row"),
        ("no.csv", "none"),
    ):
        with pytest.raises((od.InvalidInput, od.BadFile), match=message):
            od.read_log(wrong)
    with pytest.raises(od.InvalidInput, match="rows must be"):
        od.logs.LogReader(rows=0)
    (tmp_path / "latin.jsonl").write_bytes(b"\xff\xfe\n")
    with pytest.raises(od.BadFile, match="must be a text file of JSON lines"):
        list(objects(tmp_path / "latin.jsonl", 5))


USES: dict[str, tuple[dict[str, Any], str, tuple[str, ...]]] = {
    "exact": (
        {"propensities": [[0.5, 0.5], [0.9, 0.1]]},
        "exact",
        ("learning", "models", "weights", "odds"),
    ),
    "drawn": ({"propensity": [0.5, 0.1]}, "drawn", ("learning", "models", "weights")),
    "certain": ({"propensity": [1, 1]}, "deterministic", ("learning", "models")),
    "certain, all odds": (
        {"propensities": [[1, 0], [0, 1]]},
        "deterministic",
        ("learning", "models"),
    ),
    "nothing": ({}, "unknown", ("learning", "models")),
}


@pytest.mark.parametrize("name", USES)
def test_what_a_log_knows_decides_what_it_allows(name: str) -> None:
    columns, kind, allows = USES[name]
    fields: Any = {"arm": [0, 1], "reward": [1, 0]} | columns
    log = od.Log(**fields)
    assert (log.kind, log.allows) == (kind, allows)
    for use in ("learning", "models", "weights", "odds"):
        if use in allows:
            log.require(use)
        else:
            with pytest.raises(
                od.InvalidInput,
                match=(
                    f"need a log that is exact.* this one is {kind}.* allows learning"
                ),
            ):
                log.require(use)
    with pytest.raises(od.InvalidInput, match="use must be one of"):
        log.require("fun")  # type: ignore[arg-type]
