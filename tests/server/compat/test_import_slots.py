"""Events of several slots in a store: whole slates, learnt as an incumbent's, once
each, and all of it follows."""

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from logs.personalizer_logs import assert_rows, write
from logs.personalizer_slots import slot_event, slot_world
from oddsmith.server.audit.log_export import export
from oddsmith.server.audit.proof import verify
from oddsmith.server.compat.personalizer import store_import as importing
from oddsmith.server.compat.personalizer.entrance import Personalizer
from oddsmith.server.compat.personalizer.log import events
from oddsmith.server.compat.personalizer.log_import import ImportReport, to_parquet
from oddsmith.server.store.place import open_reader
from oddsmith.server.store.slates import slot_id
from server.compat.personalizer_slots import page, slot
from server.compat.personalizer_table import action
from server.compat.test_import import AUTO, content, imported, policy_file
from server.compat.test_personalizer import address, file
from server.served import here

NAMES = ["article-0", "article-1", "article-2"]


def pair(id: str, second: dict[str, Any] | None = None) -> dict[str, Any]:
    outcomes = [
        {"_a": [2, 0, 1], "_p": [0.6, 0.2, 0.2], "_label_cost": -1.0},
        {"_a": [0, 1], "_p": [0.5, 0.5], "_label_cost": 0.0} | (second or {}),
    ]
    return slot_event(id, NAMES, outcomes)


def test_the_same_slates_and_all_of_them_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "GROUP", 8)
    found, rows = zip(*slot_world(30), strict=True)
    file = policy_file(tmp_path)
    report = imported(file, write(tmp_path / "log.json", *found))
    assert (report.read, report.decisions, report.unread.total()) == (30, 90, 0)
    with closing(open_reader(str(tmp_path / "news.sqlite"))) as reading:
        verdict = verify(reading)
        assert (verdict.holds, verdict.complete) == (True, True)
        export(reading, tmp_path / "back.parquet")
        slots = [line.id for line in reading.of_slate("ev 3/é")]
    assert slots == [row["decision_id"] for row in rows[3]]
    log = od.read_log(tmp_path / "back.parquet")
    assert_rows(log, [row for each in rows for row in each])
    again = imported(file, write(tmp_path / "log.json", *found))
    assert (again.read, again.known) == (30, 30)


def test_a_run_that_was_stopped_goes_on_with_whole_slates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log, and the state to the last bit, are those of one run."""
    monkeypatch.setattr(importing, "GROUP", 8)
    found = [event for event, _ in slot_world(24)]
    whole, stopped = policy_file(tmp_path / "whole"), policy_file(tmp_path / "stopped")
    imported(whole, write(tmp_path / "log.json", *found))
    imported(stopped, write(tmp_path / "part.json", *found[:8]))
    report = imported(stopped, tmp_path / "log.json")
    assert (report.read, report.known) == (24, 8)
    assert content(stopped) == content(whole)


def test_slates_that_a_store_has_otherwise_are_named(tmp_path: Path) -> None:
    file = policy_file(tmp_path)
    late = {"_label_cost": None}
    imported(
        file,
        write(tmp_path / "1.json", pair("1"), pair("2"), pair("3", late), pair("4")),
    )
    three = slot_event(
        "4",
        NAMES,
        [
            {"_a": [2, 0, 1], "_p": [1, 0, 0]},
            {"_a": [0, 1], "_p": [1, 0]},
            {"_a": [1], "_p": [1]},
        ],
    )
    again = [
        pair("1", {"_a": [1, 0]}),
        pair("2", {"_label_cost": -1.0}),
        pair("3", {"_label_cost": -1.0}),
        three,
    ]
    report = imported(file, write(tmp_path / "2.json", *again))
    assert [(one.line, one.why) for one in report.named] == [
        (
            1,
            (
                "EventId '1', slot 2, is in the store with the arm 'article-0'; got "
                "'article-1'"
            ),
        ),
        (
            2,
            (
                "EventId '2', slot 2, is in the store with the reward 0.0 in [0, 1]; "
                "got 1.0"
            ),
        ),
        (
            4,
            (
                "EventId '4', slot 1, is in the store with the reward 1.0 in [0, 1]; "
                "got None"
            ),
        ),
    ]
    lines, *_ = content(file)
    assert [
        line.value
        for line in lines
        if line.kind == "reward" and line.id == slot_id("3", "side/é")
    ] == [1.0]


def test_a_slot_that_the_policy_cannot_take_costs_its_slate(tmp_path: Path) -> None:
    file = policy_file(
        tmp_path, 'arms = ["article-0", "article-1", "article-2"]\n' + AUTO
    )
    unknown = slot_event(
        "2",
        ["article-0", "article-9"],
        [{"_a": [0, 1], "_p": [1.0, 0.0]}, {"_a": [1], "_p": [1.0]}],
    )
    report = imported(file, write(tmp_path / "log.json", pair("1"), unknown, pair("3")))
    assert (report.read, report.decisions, report.unread["broken"]) == (2, 4, 1)
    with closing(open_reader(str(tmp_path / "news.sqlite"))) as reading:
        assert verify(reading).holds
        (decision,) = reading.decisions([2])
        assert decision.eligible is not None
        np.testing.assert_array_equal(decision.eligible, [True, True, False])
        assert reading.of_slate("2") == []


def test_a_page_is_the_same_by_the_door_and_by_their_log(tmp_path: Path) -> None:
    """Ids, contexts, names, features, what was left: all columns that do not say who
    decided, and when."""
    actions = [
        action(name, place=n, more={"x": [1, 2]}) for n, name in enumerate("abcde")
    ]
    slots = [
        slot("top", "a", features=[{"size": {"w": 3}}, {"kind": "x"}]),
        slot(2, "b", excludedActions=["c"]),
    ]
    with here(file(tmp_path), doors=[Personalizer()]) as served:
        asked = page(*slots, actions=actions, eventId="page 1/é")
        shown = served.ask(
            "POST", address("v1.1-preview.1", "/multislot/rank"), json=asked
        ).json()["slots"]
        export(served.experiment().store, tmp_path / "live.parquet")
    live = od.read_log(tmp_path / "live.parquet")
    event = {
        "Timestamp": "2021-04-07T16:40:25Z",
        "EventId": "page 1/é",
        "c": {
            "FromUrl": asked["contextFeatures"],
            "_multi": [
                {
                    "_tag": one["id"],
                    "i": {"constant": 1, "id": one["id"]},
                    "j": one["features"],
                }
                for one in actions
            ],
            "_slots": [
                {"_id": str(one["id"]), "sj": one.get("features", [])} for one in slots
            ],
        },
        "_outcomes": [
            {"_id": one["id"], **_left(live, row)} for row, one in enumerate(shown)
        ],
    }
    report = ImportReport()
    to_parquet(
        events([write(tmp_path / "log.json", event)], od.RewardScale(0.0, 1.0)),
        tmp_path / "log.parquet",
        report,
    )
    log = od.read_log(tmp_path / "log.parquet")
    assert_rows(log, [{name: row[name] for name in SAME} for row in live])
    np.testing.assert_array_equal(np.asarray(log.eligible), np.asarray(live.eligible))


SAME = (
    "arm",
    "propensities",
    "context",
    "offered",
    "features",
    "decision_id",
    "slate",
    "slot",
)


def _left(log: od.Log, row: int) -> dict[str, Any]:
    """What their log says of a slot: the actions that it could show, from 0, the drawn
    one first."""
    arm = int(log.arm[row])
    left = [
        arm,
        *(
            place
            for place in np.flatnonzero(np.asarray(log.eligible)[row]).tolist()
            if place != arm
        ),
    ]
    return {"_a": left, "_p": np.asarray(log.propensities)[row][left].tolist()}
