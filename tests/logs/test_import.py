"""Personalizer's history as a log: the same events, what is no event named by its line,
memory that does not grow."""

import json
import re
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from logs.personalizer_logs import assert_rows, event, world, write
from oddsmith.server.compat.personalizer import log_import as importing
from oddsmith.server.compat.personalizer.log import (
    PersonalizerEvent,
    RewardsOutside,
    Unread,
    events,
)
from oddsmith.server.compat.personalizer.log_import import ImportReport, to_parquet

TWO = {"a": {"x": 1}, "b": {"x": 2}}
UNIT = od.RewardScale(0.0, 1.0)


def imported(
    tmp_path: Path, *lines: Any, scale: od.RewardScale = UNIT
) -> tuple[ImportReport, Path]:
    report, out = ImportReport(), tmp_path / "log.parquet"
    to_parquet(events([write(tmp_path / "log.json", *lines)], scale), out, report)
    return report, out


def two(id: Any = "e", **more: Any) -> dict[str, Any]:
    return event(id, TWO, [0.5, 0.5], **more)


def test_the_same_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every column of every row, over several groups of rows and two files."""
    monkeypatch.setattr(importing, "_ROWS", 70)
    found, rows = zip(*world(250), strict=True)
    files = [
        write(tmp_path / "1.json", *found[:100]),
        write(tmp_path / "2.json", *found[100:]),
    ]
    report = ImportReport()
    to_parquet(events(files, UNIT), tmp_path / "log.parquet", report)
    log = od.read_log(tmp_path / "log.parquet")
    assert_rows(log, rows)
    assert (
        report.lines,
        report.read,
        report.rewarded,
        log.kind,
        log.known_features,
    ) == (250, 250, 250, "exact", "all")
    assert not report.unread
    assert not report.sentences()


def test_odds_of_single_precision_are_brought_to_sum_to_one(tmp_path: Path) -> None:
    odds = np.array([1 / 3, 1 / 3, 1 / 3], dtype=np.float32).astype(float).tolist()
    _, out = imported(tmp_path, event("1", {"a": {}, "b": {}, "c": {}}, odds, drawn=1))
    log: Any = od.read_log(out)
    np.testing.assert_allclose(log.propensities, [[1 / 3] * 3], rtol=0, atol=1e-7)
    assert abs(log.propensities.sum() - 1) < 1e-12
    assert log.features == [None]


def test_excluded_actions_are_offered_and_not_eligible(tmp_path: Path) -> None:
    three = event(
        "1", {"a": {"x": 1}, "b": {"x": 2}, "c": {"x": 3}}, [0.5, 0.0, 0.5], drawn=2
    )
    _, out = imported(
        tmp_path, three, three | {"EventId": "2", "a": [3, 1], "p": [0.5, 0.5]}
    )
    log: Any = od.read_log(out)
    assert log.eligible.tolist() == [[True, True, True], [True, False, True]]
    assert log.propensities.tolist() == [[0.5, 0.0, 0.5]] * 2


LINES: dict[str, tuple[Any, str, str]] = {
    "cut": ('{"_label_cost": -1, "a": [1', "broken", "must be a JSON object"),
    "no object": ("[1, 2]", "broken", "must be a JSON object; it is a list"),
    "empty": ("", "empty", "it is empty"),
    "blank": ("  \t", "empty", "it is empty"),
    "no UTF-8": ('{"a": "\udcff"}', "broken", "must be UTF-8"),
    "no JSON number": ('{"c": {}, "a": NaN}', "broken", "NaN is not valid JSON"),
    "deep": ('{"c":' + "[" * 100_000, "broken", "must be a JSON object"),
    "something else": ({"hello": 1}, "broken", "must be a decision"),
    "an observation": (
        {"RewardValue": 1, "EventId": "x"},
        "observation",
        "a reward for 'x'",
    ),
    "slots": (
        two() | {"c": {"_multi": [], "_slots": []}},
        "broken",
        "c must have a list of slots in _slots",
    ),
    "outcomes": (
        {"_outcomes": [], "EventId": "x", "c": {"_slots": [{}]}},
        "broken",
        "_outcomes must have an object",
    ),
    "skipped": (two(_skipLearn=True), "skipped", "_skipLearn"),
    "context": (two() | {"c": 3}, "broken", "c must be"),
    "actions": (
        two() | {"c": {"_multi": "x"}},
        "broken",
        "c must have a list of actions",
    ),
    "no tags": (
        two() | {"c": {"_multi": [{}, {}]}},
        "broken",
        "c must have a _tag for each action",
    ),
    "tags twice": (
        two() | {"c": {"_multi": [{"_tag": "a"}] * 2}},
        "broken",
        "must be distinct",
    ),
    "a tag": (
        two() | {"c": {"_multi": [{"_tag": 0.5}, {"_tag": "b"}]}},
        "broken",
        "text or whole numbers",
    ),
    "no odds": (
        {k: v for k, v in two().items() if k != "p"},
        "broken",
        "p must be given",
    ),
    "odds": (two(p=[0.5, 0.2]), "broken", "p must sum to 1"),
    "odds of none": (
        two(p=[0.0, 1.0], _label_probability=0.0),
        "broken",
        "p must be at least 1e-12",
    ),
    "odds as text": (two(p=["a", "b"]), "broken", "p must be numbers"),
    "an action": (two(a=[1, 3]), "broken", "a must be numbers of actions from 1 to 2"),
    "cost": (two(_label_cost="x"), "broken", "_label_cost must be a number"),
    "no id": (two() | {"EventId": None}, "broken", "EventId must be text"),
    "a long id": (two("x" * 257), "broken", "EventId must be text of 1 to 256"),
    "an id with NUL": (two("\0"), "broken", "EventId must be text"),
    "a time": (two(Timestamp="yesterday"), "broken", "Timestamp must be a time"),
    "no time": (two(Timestamp=None), "broken", "Timestamp must be a time"),
    "pdrop": (two(pdrop=1.5), "broken", "pdrop must be a share"),
    "a repeat": (
        two("first"),
        "repeat",
        "EventId 'first' was there before, in .*, line 1",
    ),
}


@pytest.mark.parametrize("name", LINES)
def test_lines_that_are_no_events_are_named_and_cost_no_other(
    tmp_path: Path, name: str
) -> None:
    line, kind, why = LINES[name]
    path = tmp_path / "log.json"
    texts = [
        one if isinstance(one, str) else json.dumps(one)
        for one in (two("first"), line, two("last"))
    ]
    path.write_bytes("\n".join(texts).encode("utf-8", "surrogateescape"))
    first, unread, last = events([path], UNIT)
    assert isinstance(first, PersonalizerEvent)
    assert isinstance(last, PersonalizerEvent)
    assert isinstance(unread, Unread)
    assert (first.id, last.id, last.line, unread.line, unread.kind) == (
        "first",
        "last",
        3,
        2,
        kind,
    )
    assert re.search(why, str(unread)), str(unread)


def test_what_looks_odd_and_is_read(tmp_path: Path) -> None:
    """A byte order mark, carriage returns, number ids, the longest id, more digits of a
    time, no newline at the end."""
    path, odd = (
        tmp_path / "log.json",
        two("é/ %" * 64, Timestamp="2021-04-07T18:40:25.1234567+02:00"),
    )
    path.write_bytes(
        b"\xef\xbb\xbf"
        + json.dumps(two(7)).encode()
        + b"\r\n"
        + json.dumps(odd).encode()
    )
    first, second = events([path], UNIT)
    assert isinstance(first, PersonalizerEvent)
    assert isinstance(second, PersonalizerEvent)
    assert (first.id, len(second.id)) == ("7", 256)
    assert second.time.isoformat() == "2021-04-07T16:40:25.123456+00:00"


def test_a_line_that_is_too_long_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oddsmith.server.compat.personalizer.log._LONGEST", 2000)
    first, second, third = events(
        [write(tmp_path / "log.json", "x" * 9000, two(), "x" * 2000)], UNIT
    )
    assert (str(first), isinstance(second, PersonalizerEvent)) == (
        f"{tmp_path / 'log.json'}, line 1: must have at most 2,000 bytes; it has more",
        True,
    )
    assert isinstance(third, Unread)


def test_negative_rewards_have_a_scale(tmp_path: Path) -> None:
    lines = [
        two(str(i), _label_cost=cost) for i, cost in enumerate([1.0, 0.0, -0.5, -1.0])
    ]
    report, out = imported(tmp_path, *lines, scale=od.RewardScale(-1.0, 1.0))
    assert od.read_log(out).reward.tolist() == [0.0, 0.5, 0.75, 1.0]
    assert report.read == 4


def test_a_reward_outside_of_the_scale_is_no_broken_line(tmp_path: Path) -> None:
    """Whatever was read before it: nothing is written, and nothing is passed over."""
    for before in ([], [two("first")]):
        with pytest.raises(
            RewardsOutside,
            match=r"log.json, line \d: the reward must be in \[0, 1\]; got -0.5",
        ) as why:
            imported(tmp_path, *before, two("bad", _label_cost=0.5), two("last"))
        assert why.value.units == od.RewardScale(-1.0, 1.0)
        assert not (tmp_path / "log.parquet").exists()


def test_a_sample_is_counted_and_not_weighed(tmp_path: Path) -> None:
    report, out = imported(
        tmp_path,
        two("1", pdrop=0.5),
        two("2"),
        two("3", pdrop=0.25),
        two("4", _skipLearn=True),
    )
    assert (report.dropped, report.least, report.most, report.unread["skipped"]) == (
        2,
        0.0,
        0.5,
        1,
    )
    assert len(od.read_log(out)) == 3
    assert any(
        "2 events of a sample (pdrop 0 to 0.5)" in one for one in report.sentences()
    )


def test_without_events_there_is_no_file(tmp_path: Path) -> None:
    report, out = imported(tmp_path, "", "{", two("1", _skipLearn=True))
    assert (report.read, out.exists()) == (0, False)


def test_what_logs_refuse_is_named_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the reader lets through, a row that a log refuses costs no other row."""

    def found() -> Iterator[PersonalizerEvent | Unread]:
        for one in events(
            [write(tmp_path / "log.json", *(two(str(i)) for i in range(5)))], UNIT
        ):
            assert isinstance(one, PersonalizerEvent)
            yield (
                one._replace(odds=np.array([0.5, 0.4])) if one.id in ("1", "3") else one
            )

    monkeypatch.setattr(importing, "_ROWS", 2)
    report = ImportReport()
    to_parquet(found(), tmp_path / "log.parquet", report)
    assert od.read_log(tmp_path / "log.parquet").decision_id.tolist() == ["0", "2", "4"]
    assert [(one.line, one.kind) for one in report.named] == [
        (2, "broken"),
        (4, "broken"),
    ]
    assert (report.read, report.rewarded) == (3, 3)


def test_memory_does_not_grow_with_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "_ROWS", 30)

    def peak(n: int) -> int:
        lines = (two(str(i)) if i % 2 else "{" for i in range(n))
        path = write(tmp_path / f"{n}.json", *lines)
        tracemalloc.start()
        to_parquet(events([path], UNIT), tmp_path / "log.parquet", ImportReport())
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    monkeypatch.setattr(importing, "_NAMED", 100)
    peak(200)  # what is imported and cached
    few, many = peak(200), peak(800)
    assert many - few < 300 * 600  # bytes a line; an event takes thousands
