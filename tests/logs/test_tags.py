"""dsjson by the tags of its actions; and junk in any file of offers, which is read or
refused in a sentence."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import oddsmith as od
from logs.samples import assert_same
from logs.test_offers_in_memory import LOG
from logs.test_offers_on_disk import GOOD, written


def event(*actions: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An event of dsjson as services around Vowpal Wabbit write it; the last action is
    drawn with odds 1/2."""
    n = len(actions)
    odds = [0.5, *[0.5 / (n - 1)] * (n - 1)] if n > 1 else [1.0]
    label = {"_label_cost": -1, "_label_probability": odds[0], "_label_Action": n}
    return (
        label
        | {
            "a": [n, *range(1, n)],
            "p": odds,
            "c": {"u": {"hour": 9}, "_multi": list(actions)},
        }
        | more
    )


def actions(*names: Any) -> list[dict[str, Any]]:
    return [{"_tag": name, "i": {"age": len(str(name))}} for name in names]


def events(path: Path, *written: dict[str, Any]) -> Path:
    path.write_text("\n".join(json.dumps(one) for one in written))
    return path


def test_dsjson_by_tag(tmp_path: Path) -> None:
    """The names are the arms, wherever they stand in the list; what else actions have
    are features."""
    path = events(
        tmp_path / "log.dsjson",
        event(*actions("x", "yy")),
        event(*actions("yy", 3, "x")),
    )
    for log in (
        od.read_log(path),
        od.Log.concatenated(list(od.logs.log_batches(path, rows=1))),
    ):
        assert log.offered == [("x", "yy"), ("yy", "3", "x")]
        assert [
            names[arm] for names, arm in zip(log.offered, log.arm, strict=True)
        ] == ["yy", "x"]
        assert log.features[0] == {"x": {"i.age": 1}, "yy": {"i.age": 2}}
        assert log.context == [{"u.hour": 9}] * 2
        np.testing.assert_array_equal(
            log.propensities, [[0.5, 0.5, 0], [0.25, 0.25, 0.5]]
        )
        assert (log.arms, log.known_features, log.kind) == (None, "all", "exact")


def test_dsjson_without_tags_is_by_place(tmp_path: Path) -> None:
    path = events(
        tmp_path / "log.dsjson", event({"i": {"age": 1}}, {}), event({}, {}, {})
    )
    log = od.read_log(path)
    assert (log.offered, log.features, log.n_arms, log.arm.tolist()) == (
        None,
        None,
        3,
        [1, 2],
    )
    assert log.context[0]["_multi"] == [{"i": {"age": 1}}, {}]


TAGS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "some without": (
        [*actions("x"), {}],
        "column c, row 1: must have a _tag for each action, or for none; .* action 2",
    ),
    "a row without": (
        [{}, {}],
        "column c, row 1: must have a _tag for each action, like the first row",
    ),
    "twice": (
        actions("x", "x"),
        "column offered, row 1: names of arms must be distinct; got 'x' twice",
    ),
    "empty": (
        actions("x", ""),
        "column offered, row 1: names of arms must have 1 to 256 characters",
    ),
    "a number": (
        actions("x", 0.5),
        "column offered, row 1: names of arms must be text or whole numbers",
    ),
}


@pytest.mark.parametrize("name", TAGS)
@pytest.mark.parametrize("rows", [1, 100])
def test_broken_tags_are_named(tmp_path: Path, name: str, rows: int) -> None:
    wrong, sentence = TAGS[name]
    path = events(tmp_path / "log.dsjson", event(*actions("x", "y")), event(*wrong))
    with pytest.raises(od.errors.BrokenLog, match=sentence):
        list(od.logs.log_batches(path, rows=rows))
    first = events(tmp_path / "late.dsjson", event({}, {}), event(*actions("x", "y")))
    with pytest.raises(
        od.errors.BrokenLog,
        match="column c, row 1: must have no _tag in its actions, like the first row",
    ):
        list(od.logs.log_batches(first, rows=rows))


def test_vowpal_wabbits_view_of_an_offer(tmp_path: Path) -> None:
    """Tags, names and plain features: what Vowpal Wabbit can read; eligible arms alone
    are its actions."""
    eligible = [[True, True], [False, True, True]]
    odds = [[0.5, 0.5], [0, 0.5, 0.5]]
    log = od.Log(
        **LOG
        | {
            "eligible": eligible,
            "propensities": odds,
            "context": [{"hour": 9}, {"hour": np.inf}],
        }
    )
    path = written(log, tmp_path, "dsjson")
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    assert first["c"] == {
        "x": {"hour": 9},
        "_multi": [
            {"_tag": "a", "arm": {"a": 1}, "f": {"age": 2.0}},
            {"_tag": "b", "arm": {"b": 1}, "f": {"age": 0.5, "topic": "tech"}},
        ],
    }
    assert [action["_tag"] for action in second["c"]["_multi"]] == ["a", "d"]
    assert (second["a"], second["p"], second["c"]["x"]) == ([2, 1], [0.5, 0.5], {})
    again = od.read_log(path)
    assert_same(again, od.Log(**log.columns(), decision_id=["0", "1"]))


JUNK: list[Any] = [
    None,
    "",
    "x",
    "[1",
    3,
    -1,
    0.5,
    float("nan"),
    float("inf"),
    True,
    [],
    {},
    [None],
    [[]],
    ["a"],
    {"a": None},
    {"$row": 3},
]
JUNK += [
    {"a": {}},
    [{}, {}],
    [0.5, "half"],
    ["a", ["b"]],
    [{"a": 1}],
    {"$array": 1},
    [True, False],
    [10**400, 1],
]


def refused_or_read(read: Any, source: Any) -> None:
    """Whatever stands there, the answer is a log, or one sentence."""
    said = ""
    try:
        assert isinstance(read(source), od.Log)
    except (od.InvalidInput, od.BadFile) as error:
        said = str(error)
    assert "\n" not in said


@pytest.mark.parametrize(
    "column", [*GOOD, "features", "eligible", "context", "arms", "index"]
)
def test_junk_is_read_or_refused_in_a_sentence(tmp_path: Path, column: str) -> None:
    path = tmp_path / "log.jsonl"
    for junk in JUNK:
        path.write_text(
            "\n".join(json.dumps(row) for row in (GOOD, GOOD | {column: junk}, GOOD))
        )
        refused_or_read(od.read_log, path)


@pytest.mark.parametrize(
    "column",
    [
        "_label_cost",
        "_label_probability",
        "_label_Action",
        "a",
        "p",
        "c",
        "oddsmith",
        "_multi",
        "_tag",
        "offered",
        "features",
        "eligible",
    ],
)
def test_junk_in_dsjson_is_read_or_refused_in_a_sentence(
    tmp_path: Path, column: str
) -> None:
    for junk in JUNK:
        good, wrong = event(*actions("x", "y")), event(*actions("x", "y"))
        if column == "_multi":
            wrong["c"]["_multi"] = junk
        elif column == "_tag":
            wrong["c"]["_multi"][0]["_tag"] = junk
        elif column in ("offered", "features", "eligible"):
            good["oddsmith"], wrong["oddsmith"] = (
                {"offered": ["x", "y"]},
                {"offered": ["x", "y"], column: junk},
            )
        else:
            wrong[column] = junk
        refused_or_read(od.read_log, events(tmp_path / "log.dsjson", good, wrong))


COLUMNS: list[list[Any]] = [
    *(
        [None, None],
        ["a", "b"],
        [1, 2],
        [1.5, 2.5],
        [True, False],
        [b"x", b"y"],
        ["{", "}"],
        ["[1]", "null"],
    ),
    *(
        [[], []],
        [[1], [2]],
        [["a"], ["b"]],
        [["a", "b"], None],
        [["a", None], ["b", "c"]],
        [[[1.0]], [[2.0]]],
    ),
    *(
        [{"a": 1}, {"b": 2}],
        [{"a": {"x": 1}}, {"d": {"x": 1}}],
        [[{"x": 1}], [{"x": 2}]],
        [[np.nan, 1.0], [0.5, 0.5]],
    ),
]


@pytest.mark.parametrize(
    "column", [*GOOD, "features", "eligible", "context", "time", "decision_id"]
)
def test_junk_in_tables_is_read_or_refused_in_a_sentence(column: str) -> None:
    good = {name: [value, value] for name, value in GOOD.items()} | {
        "features": [[{"x": 1.0}, {"x": 2.0}]] * 2
    }
    for junk in COLUMNS:
        refused_or_read(od.read_log, pa.table(good | {column: junk}))
        refused_or_read(
            lambda fields: od.Log(**fields),
            good | {"arm": [0, 1], "features": None, column: junk},
        )
