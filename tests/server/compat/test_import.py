"""Their history in a store: the same events, learnt as an incumbent's, once each,
however often it is stopped."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from logs.personalizer_logs import assert_rows, event, world, write
from oddsmith.contexts.offers import make_offer
from oddsmith.server.audit.log_export import export
from oddsmith.server.audit.proof import verify
from oddsmith.server.compat.personalizer.log import events
from oddsmith.server.compat.personalizer.log_import import ImportReport
from oddsmith.server.compat.personalizer.store_import import GROUP, SENDER, to_store
from oddsmith.server.experiment.start import open_experiments
from oddsmith.server.fold.fold import restore
from oddsmith.server.store.place import open_reader
from server.store.postgres_server import Server

TWO = {"a": {"x": 1}, "b": {"x": 2}}
AUTO = 'seed = 3\n[policy]\nkind = "auto"\nsize = "small"\n'
UNIT = od.RewardScale(0.0, 1.0)


def policy_file(folder: Path, text: str = AUTO) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "news.toml").write_text(text)
    return folder / "news.toml"


def imported(file: Path, *logs: Path, scale: od.RewardScale = UNIT) -> ImportReport:
    report = ImportReport()
    (opened,) = open_experiments([file], history=True)
    with closing(opened.store):
        to_store(events(logs, scale), opened, report)
    return report


def content(file: Path) -> tuple[Any, ...]:
    """All lines of a store, its decisions, and the state that follows."""
    (opened,) = open_experiments([file])
    with closing(opened.store) as store:
        lines = list(store.lines(0, store.head()))
        made = [line.position for line in lines if line.kind == "decision"]
        decisions = [one.to_json() for one in store.decisions(made)]
        state = restore(store, opened.policy, change=opened.change)
        return lines, decisions, state.state.learnt, state.state.log_weights.tolist()


def two(id: str = "e", **more: Any) -> dict[str, Any]:
    return event(id, TWO, [0.5, 0.5], **more)


def test_the_same_events_and_all_of_them_follow(tmp_path: Path) -> None:
    found, rows = zip(*world(2 * GROUP + 20), strict=True)
    file = policy_file(tmp_path)
    report = imported(file, write(tmp_path / "log.json", *found))
    assert (report.read, report.known, report.unlearnt, report.unread.total()) == (
        len(rows),
        0,
        0,
        0,
    )
    with closing(open_reader(str(tmp_path / "news.sqlite"))) as reading:
        counts = export(reading, tmp_path / "back.parquet")
        assert (counts.rows, counts.rewarded, counts.shadows) == (
            len(rows),
            len(rows),
            len(rows),
        )
        verdict = verify(reading)
        assert (verdict.holds, verdict.complete) == (True, True)
        lines = list(reading.lines(0, reading.head()))
    assert {line.sender for line in lines} == {SENDER}
    times = {line.id: line.time for line in lines if line.kind == "reward"}
    assert times[rows[0]["decision_id"]] == 1617813625.123456
    assert_rows(od.read_log(tmp_path / "back.parquet"), rows)
    _, _, learnt, _ = content(file)
    assert learnt == len(rows)


_KILLED = """
import os, signal, sys
from pathlib import Path
from oddsmith.cli.main import main
from oddsmith.server.compat.personalizer import store_import as importing
write, groups = importing._Importer.write, []
def then_killed(self, group):
    write(self, group)
    groups.append(group)
    if len(groups) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
importing._Importer.write = then_killed
main(["import", "personalizer", sys.argv[1], "--to", sys.argv[2], "--policy", sys.argv[3]])
"""


def test_a_run_that_was_killed_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """The log, and the state to the last bit, are those of one run."""
    log = write(tmp_path / "log.json", *(one for one, _ in world(3 * GROUP)))
    whole, killed = policy_file(tmp_path / "whole"), policy_file(tmp_path / "killed")
    imported(whole, log)
    arguments = [
        sys.executable,
        "-c",
        _KILLED,
        str(log),
        str(killed.with_name("news.sqlite")),
        str(killed),
    ]
    paths = {"PYTHONPATH": str(Path(od.__file__).parents[1])}
    assert (
        subprocess.run(arguments, env=os.environ | paths, check=False).returncode
        == -signal.SIGKILL
    )
    report = imported(killed, log)
    assert (report.read, report.known) == (3 * GROUP, 2 * GROUP)
    assert content(killed) == content(whole)
    assert imported(killed, log).known == 3 * GROUP
    assert content(killed) == content(whole)


def test_what_a_store_has_otherwise_is_named(tmp_path: Path) -> None:
    file = policy_file(tmp_path)
    imported(
        file, write(tmp_path / "1.json", two("1"), two("2"), two("3", _label_cost=None))
    )
    again = [two("1", drawn=1), two("2", reward=1.0), two("3", reward=1.0), two("4")]
    report = imported(file, write(tmp_path / "2.json", *again))
    assert (report.read, report.known, report.unread["repeat"]) == (2, 1, 2)
    assert [(one.line, one.why) for one in report.named] == [
        (1, "EventId '1' is in the store with the arm 'a'; got 'b'"),
        (2, "EventId '2' is in the store with the reward 0.0 in [0, 1]; got 1.0"),
    ]
    lines, _, learnt, _ = content(file)
    assert learnt == 4
    assert [
        line.value for line in lines if line.kind == "reward" and line.id == "3"
    ] == [1.0]


def test_a_policy_with_arms_of_its_own(tmp_path: Path) -> None:
    """Odds stand in the order of the file; an action that it does not have is named."""
    file = policy_file(tmp_path, 'arms = ["c", "b", "a"]\n' + AUTO)
    unknown = event("2", {"a": {}, "z": {}}, [0.5, 0.5])
    report = imported(
        file,
        write(tmp_path / "log.json", event("1", TWO, [0.25, 0.75], drawn=1), unknown),
    )
    assert (report.read, report.unread["broken"]) == (1, 1)
    assert "line 2: " in str(report.named[0])
    assert "'z'" in str(report.named[0])
    with closing(open_reader(str(tmp_path / "news.sqlite"))) as reading:
        (decision,) = reading.decisions([1])
        assert verify(reading).holds
    assert (decision.arm, decision.number, decision.propensities.tolist()) == (
        "b",
        1,
        [0.0, 0.75, 0.25],
    )
    assert decision.eligible is not None
    assert decision.eligible.tolist() == [False, True, True]


def test_rewards_have_the_units_of_the_file(tmp_path: Path) -> None:
    file = policy_file(tmp_path, f"{AUTO}[reward]\nlow = -1\nhigh = 1\n")
    imported(
        file,
        write(tmp_path / "log.json", two("1", reward=-0.5)),
        scale=od.RewardScale(-1.0, 1.0),
    )
    lines, *_ = content(file)
    assert [line.value for line in lines if line.kind == "reward"] == [0.25]


def test_features_that_are_too_large_are_named(tmp_path: Path) -> None:
    huge = event("1", {"a": {"x": 1e200}, "b": {"x": 2}}, [0.5, 0.5])
    report = imported(
        policy_file(tmp_path), write(tmp_path / "log.json", huge, two("2"))
    )
    assert (report.read, report.unread["broken"]) == (1, 1)
    assert "must hold numbers between" in str(report.named[0])


def test_it_learns(tmp_path: Path) -> None:
    """Sports in the morning, tech in the evening: the policy that a service would go on
    with knows it."""
    file = policy_file(tmp_path)
    imported(file, write(tmp_path / "log.json", *(one for one, _ in world(400))))
    (opened,) = open_experiments([file])
    with closing(opened.store) as store:
        state = restore(store, opened.policy, change=opened.change).state
    arms = {
        topic: {"topic": topic, "words": 500} for topic in ("sports", "tech", "art")
    }
    for time, best in (("morning", "sports"), ("evening", "tech")):
        context = {"timeOfDay": time, "user.age": 12.0}
        odds = opened.policy.odds(state, make_offer(context, arms))
        assert list(arms)[int(np.argmax(odds.propensities))] == best


def test_sums_are_refused(tmp_path: Path) -> None:
    file = policy_file(
        tmp_path, f'{AUTO}[service]\nreward_rule = "sum"\nwindow_s = 9\n'
    )
    with pytest.raises(od.InvalidInput, match=r'reward_rule must be "first"'):
        imported(file, write(tmp_path / "log.json", two()))


def test_a_reader_that_ends_early_loses_no_group(tmp_path: Path) -> None:
    """What was written is in the store, whatever raises after it."""
    log, file = (
        write(tmp_path / "log.json", *(one for one, _ in world(GROUP + 5))),
        policy_file(tmp_path),
    )

    def cut() -> Iterator[Any]:
        for place, one in enumerate(events([log], UNIT)):
            if place == GROUP + 2:
                raise KeyboardInterrupt
            yield one

    (opened,) = open_experiments([file], history=True)
    with closing(opened.store), pytest.raises(KeyboardInterrupt):
        to_store(cut(), opened, ImportReport())
    report = imported(file, log)
    assert (report.read, report.known) == (GROUP + 5, GROUP)
    lines, _, learnt, _ = content(file)
    assert learnt == GROUP + 5
    assert len(lines) == 2 * (GROUP + 5)


def test_into_a_database(server: Server, tmp_path: Path) -> None:
    """The same log there, in two runs."""
    found, rows = zip(*world(GROUP + 10), strict=True)
    place = f"{AUTO}[service]\nstore = {json.dumps(server.url())}\n"
    file = policy_file(tmp_path, f'name = "history"\n{place}')
    assert imported(file, write(tmp_path / "1.json", *found[:GROUP])).known == 0
    report = imported(file, write(tmp_path / "2.json", *found))
    assert (report.read, report.known, report.unread.total()) == (GROUP + 10, GROUP, 0)
    with closing(open_reader(server.url(), "history")) as reading:
        assert verify(reading).holds
        export(reading, tmp_path / "back.parquet")
    assert_rows(od.read_log(tmp_path / "back.parquet"), rows)
