"""dsjson in Personalizer's layout, read as it is: names by tag, namespaces as flat
features, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

import oddsmith as od
from logs.personalizer_logs import assert_rows, event, world, write
from oddsmith.contexts.flat import flat

TWO = {"a": {"x": 1}, "b": {"x": 2}}


def test_rows_are_those_of_the_world(tmp_path: Path) -> None:
    events, rows = zip(*world(60), strict=True)
    log = od.read_log(write(tmp_path / "log.json", *events))
    assert_rows(log, rows)
    assert (log.arms, log.kind, log.known_features) == (None, "exact", "all")


def test_auto_learns_from_it(tmp_path: Path) -> None:
    path = write(tmp_path / "log.dsjson", *(one for one, _ in world(60)))
    assert od.fit_log(od.auto(), path).learnt == 60


def test_one_action_at_two_places_is_one_arm(tmp_path: Path) -> None:
    three = {"b": {"x": 2}, "c": {"x": 3}, "a": {"x": 1}}
    events = [
        event("1", TWO, [0.5, 0.5]),
        event("2", three, [0.25, 0.25, 0.5], drawn=2),
    ]
    log = od.read_log(write(tmp_path / "log.dsjson", *events))
    assert [names[arm] for names, arm in zip(log.offered, log.arm, strict=True)] == [
        "a",
        "a",
    ]
    assert log.features[1]["a"] == {"x": 1}


def test_namespaces_and_names_that_collide() -> None:
    nested = {
        "u": {"a": [1, [2]], "b": None, "_c": 3},
        "v": [{"d": True}, {"d": False}],
        "w": [],
    }
    assert flat(nested) == {
        "u.a.0": 1,
        "u.a.1.0": 2,
        "u.b": None,
        "v.d": True,
        "v.d#2": False,
    }
    nan = float("nan")
    assert list(flat([{"x": nan}, {"x": nan}, {"x": float("nan")}])) == ["x", "x#2"]
    deep: object = 1
    for _ in range(50):
        deep = {"x": deep}
    with pytest.raises(od.InvalidInput, match="nested at most 32 deep"):
        flat(deep)
    for wrong in ("x", 3, None, [1], [{"a": 1}, "b"]):
        with pytest.raises(od.InvalidInput, match="an object, or a list of objects"):
            flat(wrong)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "an action twice": (
        {"a": [1, 1], "p": [0.5, 0.5]},
        "column a, row 0: must have each action once",
    ),
    "a cost that is no number": (
        {"_label_cost": float("nan")},
        "column _label_cost, row 0: must be a number",
    ),
    "negative odds": (
        {"p": [1.2, -0.2], "_label_probability": None},
        "column p, row 0: must be numbers from 0 to 1",
    ),
    "dropped": (
        {"pdrop": 0.5},
        "column pdrop, row 0: must be 0; `oddsmith import personalizer` accounts for it",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(tmp_path: Path, name: str) -> None:
    more, sentence = WRONG[name]
    with pytest.raises(od.errors.BrokenLog, match=sentence):
        od.read_log(write(tmp_path / "log.dsjson", event("1", TWO, [0.5, 0.5], **more)))
