"""What is special about one file: its lock, its disk, and what erasing leaves
behind."""

import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import Future
from contextlib import closing, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import oddsmith as od
from oddsmith.server.store import (
    Activation,
    Correction,
    DecisionMade,
    DefaultReward,
    ExpertChange,
    Reward,
    SQLiteReader,
    SQLiteStore,
)
from oddsmith.server.store.snapshots import retained_positions
from server.store.samples import append, made, policy

WRITER = Path(__file__).with_name("writer.py")


def elsewhere(path: Path) -> "subprocess.CompletedProcess[str]":
    """Another process that opens the store and closes it."""
    command = [sys.executable, str(WRITER), str(path), "once"]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_second_process_is_refused_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "events.sqlite"
    with SQLiteStore(path, policy()) as store:
        append(store, made("a"))
        done = elsewhere(path)
        last = done.stderr.strip().splitlines()[-1]
        assert done.returncode != 0
        assert "must be used by one process at a time; it is in use by process" in last
        # nor twice in one process
        with pytest.raises(od.errors.StoreFailed, match="one process at a time"):
            SQLiteStore(path, policy())
        append(store, made("b"))
    done = elsewhere(path)
    assert done.returncode == 0, done.stderr


def test_it_writes_ahead_and_syncs_fully(tmp_path: Path) -> None:
    with SQLiteStore(tmp_path / "events.sqlite", policy()) as store:
        modes = [
            store._writing.connection.execute(f"pragma {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous")
        ]
    assert modes == ["wal", 2]


def test_what_queues_while_the_writer_is_busy_is_one_commit(tmp_path: Path) -> None:
    with SQLiteStore(tmp_path / "events.sqlite", policy()) as store:
        with store._writing.lock:  # as if the last group were still being written
            futures = [store.append([made(f"d{i}")]) for i in range(50)]
            assert not any(future.done() for future in futures)
        positions = [future.result()[0].accepted() for future in futures]
        assert positions == list(range(1, 51))
        # what the writer had taken when it began to wait, and all the rest
        assert store.commits <= 2


def test_what_json_cannot_hold_is_refused_before_it_is_queued(tmp_path: Path) -> None:
    decision = made("a").decision
    with SQLiteStore(tmp_path / "events.sqlite", policy()) as store:
        with pytest.raises(od.InvalidInput, match="context must contain only"):
            store.append(
                [DecisionMade("a", decision._replace(context=object()), 0, 0.0)]
            )
        with pytest.raises(od.InvalidInput, match="that JSON can hold"):
            store.append(
                [DecisionMade("a", decision._replace(step=float("nan")), 0, 0.0)]
            )
        assert store.head() == 0


def test_erased_contexts_are_gone_from_the_disk(tmp_path: Path) -> None:
    secret = "Marienbad-1907"
    decision = made("a").decision._replace(context={"name": secret})
    with SQLiteStore(tmp_path / "events.sqlite", policy()) as store:
        append(store, DecisionMade("a", decision, 0, 1.0), Reward("a", 1.0, 1.0))
        assert any(secret.encode() in file.read_bytes() for file in tmp_path.iterdir())
        assert store.erase(before=2.0) == 1
        assert not any(
            secret.encode() in file.read_bytes() for file in tmp_path.iterdir()
        )


def test_a_full_disk_answers_nobody_and_passes(tmp_path: Path) -> None:
    with SQLiteStore(tmp_path / "events.sqlite", policy()) as store:
        append(store, made("a"))
        pages = store._writing.connection.execute("pragma page_count").fetchone()[0]
        store._writing.connection.execute(f"pragma max_page_count = {pages + 2}")
        many = store.append([made(f"x{i}") for i in range(50)])
        with pytest.raises(
            od.errors.StoreFailed,
            match="could not be written: database or disk is full",
        ):
            many.result()
        assert store.head() == 1
        store._writing.connection.execute("pragma max_page_count = 100000")
        assert append(store, made("b")) == [2]


def test_a_disk_on_which_nothing_can_be_undone_still_answers(tmp_path: Path) -> None:
    def refuse(action: int, what: str | None, *_: object) -> int:
        """Neither commit nor rollback works."""
        return (
            sqlite3.SQLITE_DENY if what in ("COMMIT", "ROLLBACK") else sqlite3.SQLITE_OK
        )

    store = SQLiteStore(tmp_path / "events.sqlite", policy())
    append(store, made("a"))
    store._writing.connection.set_authorizer(refuse)
    with pytest.raises(od.errors.StoreFailed, match="could not be written"):
        store.append([made("b")]).result(30)
    store.close()
    with SQLiteStore(tmp_path / "events.sqlite", policy()) as store:
        assert append(store, made("b")) == [2]


def test_closing_writes_what_is_queued(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "events.sqlite", policy())
    futures: list[Future[object]] = [store.append([made(f"d{i}")]) for i in range(40)]  # type: ignore[misc]
    store.close()
    store.close()
    assert all(future.done() and future.exception() is None for future in futures)
    with pytest.raises(od.errors.StoreFailed, match="it is closed"):
        store.append([made("late")])


def test_closing_waits_for_whoever_reads_or_keeps(tmp_path: Path) -> None:
    """A connection that is closed while another thread uses it ends the process."""
    store = SQLiteStore(tmp_path / "events.sqlite", policy())
    append(store, made("a"))
    closing = threading.Thread(target=store.close)
    with store._writing.lock:
        with store._reader:
            closing.start()
            closing.join(0.1)
            assert store._reading.execute("select count(*) from events").fetchone() == (
                1,
            )
        closing.join(0.1)
        assert store._writing.connection.execute(
            "select count(*) from events"
        ).fetchone() == (1,)
    closing.join(30)
    assert not closing.is_alive()
    for late in (
        store.head,
        lambda: store.erase(0.0),
        lambda: store.append([made("b")]),
    ):
        with pytest.raises(od.errors.StoreFailed, match="closed"):
            late()


def test_a_disk_that_fails_while_erasing_is_told_in_a_sentence(tmp_path: Path) -> None:
    with SQLiteStore(tmp_path / "events.sqlite", policy()) as store:
        append(store, made("a"))
        writing: Any = store._writing
        transaction = writing.transaction
        writing.transaction = lambda: nullcontext(writing.connection)
        with writing.lock:
            # then the log cannot be emptied
            writing.connection.execute("begin immediate")
        with pytest.raises(od.errors.StoreFailed, match="erase again"):
            store.erase(1e9)
        writing.connection.execute("rollback")
        writing.transaction = transaction
        assert store.erase(1e9) == 1


def test_files_that_are_no_stores(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database, " * 100)
    with pytest.raises(od.BadFile, match="must be a store; file is not a database"):
        SQLiteStore(tmp_path / "text", policy())
    with closing(sqlite3.connect(tmp_path / "other")) as other, other:
        other.execute("create table songs (name text)")
    other.close()
    with pytest.raises(
        od.BadFile, match="must be a store of format 'oddsmith store 3'; it is none"
    ):
        SQLiteStore(tmp_path / "other", policy())
    with pytest.raises(od.errors.StoreFailed, match="cannot be opened"):
        SQLiteStore(tmp_path / "nowhere" / "events", policy())
    with pytest.raises(od.InvalidInput, match="rule must be"):
        SQLiteStore(tmp_path / "events", policy(), rule="last")  # type: ignore[arg-type]


def test_events_are_checked_when_they_are_made() -> None:
    decision = made("a").decision
    with pytest.raises(od.InvalidInput, match="id must be a string of 1 to 256"):
        DecisionMade("", decision, 0, 0.0)
    with pytest.raises(od.InvalidInput, match="must be a single Decision"):
        DecisionMade("a", od.Decision.stack([decision]), 0, 0.0)
    with pytest.raises(od.InvalidInput, match="seen must be a position"):
        DecisionMade("a", decision, -1, 0.0)
    with pytest.raises(od.InvalidInput, match="seen must be a position"):
        DecisionMade("a", decision, 2**63, 0.0)  # no store could hold it
    with pytest.raises(od.InvalidInput, match="time"):
        Activation("a", float("nan"))
    for wrong in (-0.1, 1.1, float("nan")):
        with pytest.raises(od.InvalidInput, match="reward"):
            Reward("a", wrong, 0.0)
        with pytest.raises(od.InvalidInput, match="reward"):
            DefaultReward("a", wrong, 0.0)
    with pytest.raises(od.InvalidInput, match="key must be"):
        Correction("a", 1.0, 0.0, "")
    with pytest.raises(od.InvalidInput, match="share must be given"):
        ExpertChange("e", "added", 0.0, "k")
    with pytest.raises(od.InvalidInput, match="change must be"):
        ExpertChange("e", "moved", 0.0, "k")  # type: ignore[arg-type]


def test_snapshots_thin_out_with_age() -> None:
    kept: list[int] = []
    for position in range(1, 5001):
        kept = sorted(retained_positions([*kept, position]))
    assert len(kept) <= 15
    assert kept[0] == 1
    assert kept[-2:] == [4999, 5000]
    ages = [5000 - position for position in kept]
    assert all(older <= 4 * newer + 4 for older, newer in pairwise(ages))


def test_a_reader_needs_neither_the_policy_nor_the_right_to_write(
    tmp_path: Path,
) -> None:
    path = tmp_path / "events.sqlite"
    about = {"seed": 7, "arms": ["x", "y", "z"]}
    with SQLiteStore(path, policy(), about=about) as store:
        append(store, made("d1"))
        with SQLiteReader(path) as reader:  # while it is being written
            assert (reader.about, reader.rule, reader.head()) == (about, "first", 1)
            assert reader.decisions([1]) == store.decisions([1])
    with SQLiteStore(path, policy()) as store:
        assert store.about == about  # as it was first said
    with pytest.raises(od.BadFile, match="there is no such file"):
        SQLiteReader(tmp_path / "nowhere.sqlite")
    (tmp_path / "other").write_text("not a database" * 100)
    with pytest.raises(od.BadFile, match="must be a store"):
        SQLiteReader(tmp_path / "other")
