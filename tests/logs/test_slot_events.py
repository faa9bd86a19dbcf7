"""Events of several slots, as dsjson and from Personalizer's history: a row for each
slot, named where it is broken."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from logs.personalizer_logs import assert_rows, world, write
from logs.personalizer_slots import SLOTS, slot_event, slot_world
from oddsmith.server.compat.personalizer import log_import as importing
from oddsmith.server.compat.personalizer.log import (
    PersonalizerEvent,
    RewardsOutside,
    Unread,
    check_rewards,
    events,
)
from oddsmith.server.compat.personalizer.log_import import ImportReport, to_parquet

UNIT = od.RewardScale(0.0, 1.0)
NAMES = ["article-0", "article-1", "article-2"]


def one(id: Any = "e", **more: Any) -> dict[str, Any]:
    outcomes = [
        {"_a": [2, 0, 1], "_p": [0.6, 0.2, 0.2], "_label_cost": -1.0},
        {"_a": [0, 1], "_p": [0.5, 0.5], "_label_cost": 0.0},
    ]
    return slot_event(id, NAMES, outcomes, **more)


def changed(outcome: int, **fields: Any) -> dict[str, Any]:
    event = one()
    event["_outcomes"][outcome] |= fields
    return event


def imported(
    tmp_path: Path, *lines: Any, scale: od.RewardScale = UNIT
) -> tuple[ImportReport, Path]:
    report, out = ImportReport(), tmp_path / "log.parquet"
    to_parquet(events([write(tmp_path / "log.json", *lines)], scale), out, report)
    return report, out


def test_each_slot_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every column, over several groups of rows, and beside events of one slot; the
    dsjson reader says the same."""
    monkeypatch.setattr(importing, "_ROWS", 70)
    found, rows = zip(*slot_world(120), strict=True)
    alone, plain = zip(
        *(
            (event | {"EventId": f"one {i}"}, row)
            for i, (event, row) in enumerate(world(30))
        ),
        strict=True,
    )
    report, out = imported(tmp_path, *found, *alone)
    log = od.read_log(out)
    expected = [row for slots in rows for row in slots]
    assert_rows(log[: len(expected)], expected)
    assert_rows(
        log[len(expected) :],
        [
            row | {"decision_id": f"one {i}", "slate": None}
            for i, row in enumerate(plain)
        ],
    )
    assert (report.lines, report.read, report.decisions, report.rewarded) == (
        150,
        150,
        390,
        390,
    )
    assert not report.unread
    eligible = np.asarray(log.eligible)[:3].tolist()
    assert [sum(mask) for mask in eligible] == [
        len(rows[0][0]["offered"]) - taken for taken in range(3)
    ]
    assert_rows(od.read_log(write(tmp_path / "slots.dsjson", *found)), expected)


def test_rewards_of_slots_have_a_scale_and_may_be_missing(tmp_path: Path) -> None:
    found, rows = zip(*slot_world(40, low=-1.0), strict=True)
    del found[0]["_outcomes"][1]["_label_cost"]
    report, out = imported(tmp_path, *found, scale=od.RewardScale(-1.0, 1.0))
    expected = [row["reward"] for slots in rows for row in slots]
    expected[1] = np.nan
    np.testing.assert_array_equal(od.read_log(out).reward, expected)
    assert (report.decisions, report.rewarded) == (120, 119)


def test_contexts_are_those_of_decide_slate(tmp_path: Path) -> None:
    """What the log says of each slot is what an agent records that is asked for the
    same slots."""
    _, out = imported(tmp_path, one())
    log = od.read_log(out)
    agent = od.Agent(od.auto(size="small"), seed=0)
    slots = [
        od.Slot(name, features or None) for name, features in list(SLOTS.items())[:2]
    ]
    made = agent.decide_slate(
        {"timeOfDay": "morning"},
        arms={name: log.features[0][name] for name in NAMES},
        slots=slots,
    )
    assert [decision.context for decision in made] == list(log.context)


def test_slots_without_tags_are_known_by_place(tmp_path: Path) -> None:
    event = one()
    event["c"]["_multi"] = [{"x": {"topic": "art"}} for _ in NAMES]
    log = od.read_log(write(tmp_path / "log.dsjson", event))
    assert (log.arm.tolist(), list(log.slate), log.offered) == (
        [2, 0],
        ["e", "e"],
        None,
    )
    assert [row["slot"] for row in log.context] == [1, 2]
    (unread,) = events([tmp_path / "log.dsjson"], UNIT)
    assert "c must have a _tag for each action" in str(unread)


LINES: dict[str, tuple[Any, str, str]] = {
    "no outcomes": (
        {key: value for key, value in one().items() if key != "_outcomes"} | {"a": [1]},
        "broken",
        "object",
    ),
    "fewer outcomes": (
        one(_outcomes=one()["_outcomes"][:1]),
        "broken",
        "_outcomes must be of the 2 slots; got 1",
    ),
    "another slot": (
        changed(1, _id="bottom"),
        "broken",
        "must be in the order of _slots; got 'bottom' for 'side/é'",
    ),
    "from 1": (
        changed(0, _a=[3, 1, 2]),
        "broken",
        "_a must be numbers of actions from 0 to 2",
    ),
    "none left": (
        changed(1, _a=[]),
        "broken",
        "_a must be numbers of actions from 0 to 2; got",
    ),
    "taken": (
        changed(1, _a=[2, 0]),
        "broken",
        "_a must be actions that are left; got 2, which an earlier slot took",
    ),
    "twice": (changed(0, _a=[2, 2, 1]), "broken", "_a must have each action once"),
    "odds": (changed(1, _p=[0.5, 0.2]), "broken", "p must sum to 1"),
    "fewer odds": (changed(1, _p=[1.0]), "broken", "p must have 2 propensities"),
    "no odds": (changed(1, _p=None), "broken", "p must be given"),
    "cost": (changed(1, _label_cost="x"), "broken", "_label_cost must be a number"),
    "no id": (one(id=None), "broken", "EventId must be text"),
    "skipped": (one(_skipLearn=True), "skipped", "_skipLearn"),
    "a repeat": (
        one("first"),
        "repeat",
        "EventId 'first' was there before, in .*, line 1",
    ),
    "slot in context": (
        one(c=one()["c"] | {"FromUrl": [{"slot": 7}]}),
        "broken",
        "context must not use the name 'slot'",
    ),
    "no time": (one(Timestamp=None), "broken", "Timestamp must be a time"),
}


def test_a_slot_with_a_reward_outside_of_the_scale_stops_the_reading(
    tmp_path: Path,
) -> None:
    log = write(tmp_path / "log.json", one("first"), changed(1, _label_cost=1.0))
    why = r"line 2: the reward must be in \[0, 1\]; got -1$"
    with pytest.raises(RewardsOutside, match=why):
        check_rewards([log], UNIT)
    with pytest.raises(RewardsOutside, match=why):
        list(events([log], UNIT))


@pytest.mark.parametrize("name", LINES)
def test_broken_events_are_named_and_cost_no_other(tmp_path: Path, name: str) -> None:
    line, kind, why = LINES[name]
    found = list(
        events([write(tmp_path / "log.json", one("first"), line, one("last"))], UNIT)
    )
    assert [type(each) for each in found] == [
        PersonalizerEvent,
        PersonalizerEvent,
        Unread,
        *[PersonalizerEvent] * 2,
    ]
    unread = found[2]
    assert isinstance(unread, Unread)
    assert (unread.line, unread.kind) == (2, kind)
    assert re.search(why, str(unread)), str(unread)


def test_a_slot_that_a_log_refuses_costs_its_whole_event(tmp_path: Path) -> None:
    path = write(tmp_path / "log.json", one("1"), one("2"), one("3"))
    wrong = [
        each._replace(odds=np.array([0.5, 0.4, 0.0]))
        if isinstance(each, PersonalizerEvent) and (each.slate, each.slot) == ("2", 2)
        else each
        for each in events([path], UNIT)
    ]
    report = ImportReport()
    to_parquet(wrong, tmp_path / "log.parquet", report)
    assert list(od.read_log(tmp_path / "log.parquet").slate) == ["1", "1", "3", "3"]
    assert (
        report.read,
        report.decisions,
        report.rewarded,
        [each.line for each in report.named],
    ) == (2, 4, 4, [2])


def test_ids_of_slates_are_numbers_too(tmp_path: Path) -> None:
    _, out = imported(tmp_path, json.dumps(one(7)))
    assert list(od.read_log(out).slate) == ["7", "7"]
