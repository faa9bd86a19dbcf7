"""Slates in a log: rows that were decided together keep their slate and slot, in memory
and on disk."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from logs.samples import assert_same

ARMS = ("a", "b", "c", "d")
MAKE: Any = od.Log


def paired(rows: int = 12) -> od.Log:
    """Slates of two slots, with a decision that stands alone after every second one."""
    places = [
        (f"s{i // 3}", i % 3 + 1) if i % 3 < 2 else (None, 0) for i in range(rows)
    ]
    odds = np.full((rows, 4), 0.25)
    log: od.Log = MAKE(
        arm=[i % 4 for i in range(rows)],
        reward=[i % 2 for i in range(rows)],
        propensities=odds,
        slate=[slate for slate, _ in places],
        slot=[slot for _, slot in places],
        arms=ARMS,
    )
    return log


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl", "dsjson"])
def test_slates_come_back_from_every_format(tmp_path: Path, suffix: str) -> None:
    log, path = paired(), tmp_path / f"log.{suffix}"
    od.write_log(log.split(5), path)
    again = od.read_log(path, arms=ARMS)
    for name in ("slate", "slot"):
        assert list(getattr(again, name)) == list(getattr(log, name))
    assert again.slot is not None
    assert again.slot.dtype == np.int64


def test_offers_with_slates_come_back(tmp_path: Path) -> None:
    log = MAKE(
        arm=[0, 1],
        reward=[1, 0],
        offered=[["a", "b"], ["a", "b"]],
        eligible=[[1, 1], [0, 1]],
        propensity=[0.5, 1],
        slate=["s", "s"],
        slot=[1, 2],
    )
    for suffix in ("parquet", "jsonl"):
        od.write_log(log, tmp_path / f"log.{suffix}")
        assert_same(od.read_log(tmp_path / f"log.{suffix}"), log)


def test_decisions_become_a_log_with_slates() -> None:
    policy = od.GeneralizedThompsonSampling(od.GivenExperts(("a", "b")), gamma=0.1)
    made = [
        od.decide(policy, policy.init(), np.full((2, 3), 0.5), u) for u in (0.1, 0.9)
    ]
    log = od.Log.of(made, [1, 0], slate=["s", "s"], slot=[1, 2])
    assert list(log.slate) == ["s", "s"]
    assert log[1]["slot"] == 2


def test_slices_and_concatenation_keep_slates() -> None:
    log = paired()
    assert list(log[3:5].slate) == ["s1", "s1"]
    assert log[[1, 4]].slot.tolist() == [2, 2]  # type: ignore[union-attr]
    alone = log.without("slate", "slot")
    both = od.Log.concatenated([log, alone])
    assert list(both.slate) == [*log.slate, *[None] * 12]
    assert both.slot is not None
    assert both.slot[12:].tolist() == [0] * 12
    assert od.Log.concatenated([alone, alone]).slate is None


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "slot alone": (
        {"slot": [1, 2]},
        "columns slate and slot must be given together; slate is missing",
    ),
    "slate alone": (
        {"slate": ["s", "s"]},
        "columns slate and slot must be given together; slot is missing",
    ),
    "half": (
        {"slate": ["s", "s"], "slot": [1, 1.5]},
        "column slot, row 1: must be a whole number; got 1.5",
    ),
    "place 0": (
        {"slate": ["s", "s"], "slot": [0, 1]},
        "column slot, row 0: must be 1 or more in a slate",
    ),
    "below 0": (
        {"slate": ["s", "s"], "slot": [1, -1]},
        "column slot, row 1: must be 1 or more in a slate; got -1",
    ),
    "no slate": (
        {"slate": ["s", None], "slot": [1, 1]},
        "row 1: must be 1 or more in a slate, and 0 where there is",
    ),
    "twice": (
        {"slate": ["s", "s"], "slot": [2, 2]},
        "row 1: must be unique in a slate; got 2 of 's' again",
    ),
    "a number": (
        {"slate": [7, "s"], "slot": [1, 2]},
        "column slate, row 0: must be text, or None",
    ),
    "words": (
        {"slate": ["s", "s"], "slot": ["1", "2"]},
        "column slot, row 0: must be a whole number; got '1'",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_slate_is_refused(name: str) -> None:
    columns, sentence = WRONG[name]
    with pytest.raises(od.InvalidInput, match=sentence):
        MAKE(arm=[0, 1], reward=[1, 0], **columns)


def test_a_column_of_theirs_named_slot_is_no_slate(tmp_path: Path) -> None:
    """Without slates it is a word of their own, unless the caller says that it is
    ours."""
    path = tmp_path / "log.csv"
    path.write_text("arm,reward,slot\n0,1,top\n1,0,side\n")
    assert od.read_log(path).slot is None
    path.write_text("arm,reward,place\n0,1,1\n1,0,2\n")
    with pytest.raises(
        od.InvalidInput,
        match="columns slate and slot must be given together; slate is missing",
    ):
        od.read_log(path, columns={"slot": "place"})


def test_long_tables_have_slates(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    rows = ["d1,a,true,1,s,1", "d1,b,false,,s,1", "d2,a,false,,s,2", "d2,b,true,0,s,2"]
    path.write_text("\n".join(["decision_id,arm,drawn,reward,slate,slot", *rows]))
    log = od.logs.read_long(path)
    assert list(log.slate) == ["s", "s"]
    assert log.slot is not None
    assert log.slot.tolist() == [1, 2]
